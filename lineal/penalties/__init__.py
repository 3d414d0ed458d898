"""Penalties Ω(W) = Σ_g f_g ω(W_g): one file a penalty; a new file in this folder is a new penalty.

A group g is one row of W (the weights of one feature) or, for the group penalties, the rows of a group of features.
Listing the names imports nothing; `get` imports the one file that it needs.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import Any

from lineal.errors import OptionError, unknown_value

#: Files of this folder that are not penalties.
SUPPORT = frozenset({"base", "group_loops", "groups", "regulariser"})

_MIXED_NORM = re.compile(r"(l(?:\d+|inf))_(l(?:\d+|inf))")


def names() -> list[str]:
    """Names of all penalties, sorted. The file of a mixed norm, `l1_l2`, is the penalty "l1/l2"."""
    return sorted(_MIXED_NORM.sub(r"\1/\2", file) for file in _files(*__path__))


def get(name: str, **parameters: float) -> Any:
    """The penalty of that name, for example ``get("elastic_net", l1_ratio=0.2)``."""
    if name not in names():
        raise unknown_value("penalty", name, names())
    module = importlib.import_module(f"{__name__}.{name.replace('/', '_')}")
    cls = next(thing for thing in vars(module).values() if getattr(thing, "name", None) == name)
    _check_parameters(cls, parameters)
    return cls(**parameters)


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders) if module.name not in SUPPORT)


def _check_parameters(cls: Any, parameters: dict[str, float]) -> None:
    known = [field for field in cls._fields if field != "tag"]  # the tag only keeps the tuple from being empty
    for parameter, value in parameters.items():
        if not known:
            raise OptionError(f"penalty {cls.name!r} takes no parameters, but {parameter}={value!r} was given")
        if parameter not in known:
            raise unknown_value(f"parameter of penalty {cls.name!r}", parameter, known)
