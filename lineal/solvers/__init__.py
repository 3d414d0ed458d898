"""One file an algorithm. A solver takes an `Objective` and returns a `Solution`.

Each file has `check(loss, penalty)`, which refuses by name what the algorithm cannot honour, and `solve`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from lineal.errors import OptionError


def names() -> list[str]:
    """Names of the solvers, read off the folder without importing them (so that help texts need no Numba)."""
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]


def choose(name: str, loss: Any, penalty: Any) -> Any:
    """The solver called `name`, or for "auto" the first that can honour the loss and the penalty."""
    refusals = []
    for candidate in names() if name == "auto" else [name]:
        solver = importlib.import_module(f"{__name__}.{candidate}")
        try:
            solver.check(loss, penalty)
        except OptionError as refusal:
            refusals.append(str(refusal))
        else:
            return solver
    if name != "auto":
        raise OptionError(refusals[0])
    raise OptionError(f"no solver takes loss {loss.name!r} with penalty {penalty.name!r}: {'; '.join(refusals)}")
