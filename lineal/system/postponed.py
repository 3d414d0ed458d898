"""Imports without what they need for a few rare functions only: those modules are imported when they are first used.

    with postponed("pandas"):
        import package          # its line `import pandas` costs nothing

Inside the context, ``import pandas`` finds an object in the place of the module. Whoever reads an attribute of it makes
Python import the real module, so that the package works as usual. Afterwards the object is no longer among Python's
modules: others who import the module get the real one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _InPlaceOf(ModuleType):
    """Stands for a module until somebody reads an attribute."""

    def __getattr__(self, name: str) -> Any:
        _leave(self)
        return getattr(importlib.import_module(self.__name__), name)


def _enter(module: _InPlaceOf) -> None:
    sys.modules.setdefault(module.__name__, module)
    parent, name = _parent_of(module)
    if sys.modules[module.__name__] is module and parent is not None:
        setattr(parent, name, module)  # packages that import a part when it is first asked for must not do that


def _leave(module: _InPlaceOf) -> None:
    parent, name = _parent_of(module)
    if parent is not None and vars(parent).get(name) is module:
        delattr(parent, name)
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def _parent_of(module: ModuleType) -> tuple[ModuleType | None, str]:
    """The package that a module is part of, if it is imported, and the module's name in it."""
    package, _, name = module.__name__.rpartition(".")
    return sys.modules.get(package), name


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@contextmanager
def postponed(*names: str) -> Iterator[None]:
    """Context in which the import of these modules, unless somebody has done it, waits for their first use."""
    placed = [_InPlaceOf(name) for name in names if name not in sys.modules and _is_installed(name)]
    for module in placed:
        _enter(module)
    try:
        yield
    finally:
        for module in placed:
            _leave(module)
