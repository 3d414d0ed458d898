"""Chains of solvers: where one is left to the next one, and why.

- Dual coordinate descent, and L-BFGS where it is too slow; each of them may come back once.
- L-BFGS, and Newton's method where dependent features make it slow.
"""

from __future__ import annotations

from functools import partial

from lineal.problem.budget import Budget
from lineal.problem.objective import Objective
from lineal.problem.solver import Solver
from lineal.solvers.choice.in_turn import Stage, in_turn
from lineal.solvers.choice.progress import SECOND_CHANCE, Costs, History, rounds_left
from lineal.solvers.dual_cd.dual_cd import is_dear

#: Why a solver takes over.
SLOW_DUAL, SLOW_PRIMAL = "the gap was closing too slowly", "it was closing even more slowly"
SLOW_START = "the objective was decreasing too slowly"

#: L-BFGS is judged by its last SPAN iterations, after twice as many. It is left when they have decreased the objective
#: by less than a share of ENOUGH, and more than MOST_LEFT iterations are to come if the gap goes on as it did.
SPAN, ENOUGH, MOST_LEFT = 5, 0.05, 25.0


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


def lbfgs_then_newton(lbfgs: Solver, newton: Solver, why: str) -> Solver:
    """The chain of the two; `why` says why L-BFGS is not the last one."""

    def is_slow(history: History, budget: Budget) -> bool:
        if len(history) <= 2 * SPAN:
            return False
        before, now = (history[at]["objective"] for at in (-1 - SPAN, -1))
        if before - now >= ENOUGH * abs(now):
            return False
        gaps = [row["gap"] for row in history[-2 * SPAN :]]  # which go up and down
        return SPAN * rounds_left(min(gaps[:SPAN]), min(gaps[SPAN:]), budget.tol) > MOST_LEFT

    return in_turn([Stage(lbfgs, why, is_slow), Stage(newton, SLOW_START)])
