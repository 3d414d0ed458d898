"""Dual coordinate descent, and L-BFGS where it is too slow; each of them may come back once."""

from __future__ import annotations

from functools import partial

from lineal.problem.budget import Budget
from lineal.problem.objective import Objective
from lineal.problem.solver import Solver
from lineal.solvers.choice.in_turn import Stage, in_turn
from lineal.solvers.choice.progress import SECOND_CHANCE, Costs, History
from lineal.solvers.dual_cd.dual_cd import is_dear

#: Why a solver takes over.
SLOW_DUAL, SLOW_PRIMAL = "the gap was closing too slowly", "it was closing even more slowly"


def dual_then(dual: Solver, primal: Solver, objective: Objective, why: str) -> Solver:
    """The chain of the two solvers for an objective; `why` says why the dual one is first."""
    k = objective.engine.n_columns
    costs = Costs(is_dear(objective.loss, k), k)

    def primal_is_slow(history: History, budget: Budget, before: History) -> bool:
        return costs.lbfgs_is_slow(history, budget, before)

    return in_turn([
        Stage(dual, why, costs.dual_is_slow),
        Stage(primal, SLOW_DUAL, primal_is_slow),
        Stage(dual, SLOW_PRIMAL, partial(costs.dual_is_slow, chance=SECOND_CHANCE)),
        Stage(primal, SLOW_DUAL),
    ])  # fmt: skip
