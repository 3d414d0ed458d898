"""Check of the solvers that need random access to rows or columns, which only the local engine has."""

from __future__ import annotations

from typing import Any

from lineal.engine.local import LocalEngine
from lineal.engine.streamed import Streamed
from lineal.errors import OptionError
from lineal.problem.objective import Objective


def local_rows(solver: str, objective: Objective) -> LocalEngine:
    """Local engine of an objective; raises an error for other engines and names the solvers that run there."""
    engine = objective.engine
    if isinstance(engine, LocalEngine):
        return engine
    loss, penalty = objective.loss, objective.regulariser.penalty
    others = solvers_anywhere(loss, penalty)
    if isinstance(engine, Streamed) and penalty.is_smooth and loss.dual_curvature is not None:
        others = ["dual_cd", *others]
    advice = f"use solver={' or '.join(map(repr, others))}"
    name = type(engine).__name__
    raise OptionError(f"{solver} needs all rows in this process, and {name} holds them elsewhere: {advice}")


def solvers_anywhere(loss: Any, penalty: Any) -> list[str]:
    """Solvers that need only sums over rows and can handle this loss and penalty, the faster ones first."""
    if not loss.is_smooth:
        return ["admm"]
    return ["lbfgs", "newton"] if penalty.is_smooth else ["sparsa", "fista"]
