"""Losses ℓ(y, z), one file per loss.

Lives here: `base.py` is the contract of a loss; `margin.py` (one-vs-rest), `simplex.py` and `pairs.py` hold what the
losses of one kind share; every other file is the loss of that name. Nothing here sees X, only labels and scores.
May import: `lineal.core`, `lineal.system` and `lineal.errors`.
To add a loss: put a file into this folder that ends with ``LOSS = …``, an object that derives from one of the three
kinds or from `Loss`. Solvers, command line, help and parametrised tests then know it. Add its formulas to
`tests/twin.py` and a row to the table in `docs/guide/objectives.md`. CONTRIBUTING.md has an example.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from lineal.errors import unknown_value

if TYPE_CHECKING:
    from lineal.losses.base import Loss

#: Files of this folder that hold what losses share.
_SHARED = {"base", "margin", "pairs", "simplex"}


def names() -> list[str]:
    """Names of the losses, read from the folder without importing them, so that help texts do not need Numba."""
    return list(_files(*__path__))


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders) if module.name not in _SHARED)


def get(name: str) -> Loss:
    """The loss called `name`."""
    if name not in names():
        raise unknown_value("loss", name, names())
    loss: Loss = importlib.import_module(f"{__name__}.{name}").LOSS
    return loss
