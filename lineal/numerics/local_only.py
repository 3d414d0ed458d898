"""Refusal of the solvers that need random access to rows or columns, where an engine holds the rows elsewhere."""

from __future__ import annotations

from typing import Any

from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.problem.objective import Objective


def local_rows(solver: str, objective: Objective) -> LocalEngine:
    """The engine of an objective whose rows are arrays in this process; refuses others and says what runs there."""
    engine = objective.engine
    if isinstance(engine, LocalEngine):
        return engine
    loss, penalty = objective.loss, objective.regulariser.penalty
    others = solvers_anywhere(loss, penalty)
    advice = f"use solver={' or '.join(map(repr, others))}"
    if not others:
        smooth = "multiclass_squared_hinge" if loss.is_direct else "squared_hinge"
        advice = f"no solver takes loss {loss.name!r} there; use a smooth loss, for example {smooth!r}"
    raise OptionError(f"{solver} needs all rows in this process, and {type(engine).__name__} holds them: {advice}")


def solvers_anywhere(loss: Any, penalty: Any) -> list[str]:
    """Solvers that need only sums over rows and take this loss and this penalty, the faster ones first."""
    if not loss.is_smooth:
        return []
    return ["lbfgs", "newton"] if penalty.is_smooth else ["sparsa", "fista"]
