"""Penalties Ω(W) = Σ_g f_g ω(W_g), one file per penalty.

A group g is one row of W (the weights of one feature) or, for the group penalties, the rows of a group of features.

Lives here: `base.py` is the contract of a penalty ω; `regulariser.py` applies one to a whole weight matrix, with α,
factors and groups (`groups.py`, `group_loops.py`); every other file is the penalty of that name.
May import: `lineal.core`, `lineal.system` and `lineal.errors`.
To add a penalty: put a file into this folder with one class that derives from `Penalty` and has a `name`. Solvers,
command line, help and parametrised tests then know it. Add its formulas to `tests/twin.py` and a row to the table in
`docs/guide/objectives.md`. CONTRIBUTING.md has an example.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lineal.errors import OptionError, unknown_value

if TYPE_CHECKING:
    from lineal.penalties.base import Penalty

#: Files of this folder that hold what penalties share.
_SHARED = frozenset({"base", "group_loops", "groups", "regulariser"})

_MIXED_NORM = re.compile(r"(l(?:\d+|inf))_(l(?:\d+|inf))")


def names() -> list[str]:
    """Names of all penalties, sorted, read from the folder without importing them.

    The file of a mixed norm, `l1_l2`, is the penalty "l1/l2".
    """
    return sorted(_MIXED_NORM.sub(r"\1/\2", file) for file in _files(*__path__))


def get(name: str, **parameters: float) -> Penalty:
    """The penalty of that name, for example ``get("elastic_net", l1_ratio=0.2)``."""
    if name not in names():
        raise unknown_value("penalty", name, names())
    module = importlib.import_module(f"{__name__}.{name.replace('/', '_')}")
    cls = _penalty_of(module)
    _check_parameters(cls, parameters)
    penalty: Penalty = cls(**parameters)
    return penalty


def _penalty_of(module: ModuleType) -> Any:
    """The penalty that a file defines, and not one that it has imported."""
    from lineal.penalties.base import Penalty

    own = (thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == module.__name__)
    return next(cls for cls in own if issubclass(cls, Penalty))


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders) if module.name not in _SHARED)


def _check_parameters(cls: Any, parameters: dict[str, float]) -> None:
    known = [field for field in cls._fields if field != "tag"]  # the tag only keeps the tuple from being empty
    for parameter, value in parameters.items():
        if not known:
            raise OptionError(f"penalty {cls.name!r} takes no parameters, but {parameter}={value!r} was given")
        if parameter not in known:
            raise unknown_value(f"parameter of penalty {cls.name!r}", parameter, known)
