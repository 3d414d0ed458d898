"""One file a loss. A file put into this folder is a loss that every solver, test and help text knows of."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from lineal.errors import unknown_value

#: Files here that hold what losses share.
_SHARED = {"margin", "pairs", "simplex"}


def names() -> list[str]:
    """Names of the losses, read off the folder without importing them (so that help texts need no Numba)."""
    return list(_files(*__path__))


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders) if module.name not in _SHARED)


def get(name: str) -> Any:
    """The loss called `name`."""
    if name not in names():
        raise unknown_value("loss", name, names())
    return importlib.import_module(f"{__name__}.{name}").LOSS
