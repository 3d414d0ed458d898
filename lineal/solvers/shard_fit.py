"""A fit to the rows of one shard: a smaller problem of its own, with any solver that runs on rows in this process.

The answer does not depend on how many threads the shard has: workers with more of them must not change the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lineal import solvers
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.budget import Budget
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution


def objective_of(block: Block, loss: Any, k: int, regulariser: Regulariser, fit_intercept: bool) -> Objective:
    """The objective of the rows of a block alone, whose weights are made to add up to one."""
    weights = block.weights / block.weights.sum()
    engine = LocalEngine(block.X, block.targets, weights, k, block.offsets, block.threads)
    return Objective(engine, loss, regulariser, fit_intercept)


def fit(objective: Objective, start: np.ndarray | Solution, budget: Budget) -> Solution:
    """Solution of the objective of a shard by the solver that is probably the fastest for it."""
    return _run("auto", objective, start, budget)


def improve(objective: Objective, start: np.ndarray | Solution, budget: Budget) -> Solution:
    """What a few iterations make of the start. Dual methods begin elsewhere, and are above it for many iterations."""
    smooth = "lbfgs" if objective.regulariser.penalty.is_smooth else "fista"
    return _run(smooth if objective.loss.is_smooth else "fobos", objective, start, budget)


def _run(name: str, objective: Objective, start: np.ndarray | Solution, budget: Budget) -> Solution:
    solver = solvers.pick(name, objective, budget.tol)
    threads = 1 if solver.varies_with_threads else objective.engine.threads
    return solver.run(objective, replace(budget, n_jobs=threads), start, solver.own_options({}))


def is_cut(found: Solution, max_time: float | None) -> bool:
    """Whether Ctrl-C or the end of its time may have changed a fit: with more time, it could have another answer."""
    is_late = max_time is not None and found.history[-1]["seconds"] >= max_time
    return is_late or found.status in ("max_time", "interrupted")
