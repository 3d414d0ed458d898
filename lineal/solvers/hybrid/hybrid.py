"""Online learning, then L-BFGS: Agarwal, Chapelle, Dudík & Langford (2011), "A reliable effective terascale linear
learning system".

Every shard of the rows learns online, with adaptive step sizes, from the same start. The results are averaged weight by
weight, w_jr = Σ_m G_m·w_m / Σ_m G_m, where G_m is the sum of squared derivatives that shard m has seen for that weight:
a shard that knows a feature well counts more. L-BFGS continues from there to any tolerance. The online passes get near
the minimum in the time of a few gradients, but no closer, and L-BFGS is slow at first and exact in the end.

The online passes leave out the penalty. Shards whose pass diverges are left out of the average, with a warning. If the
result is worse than the start, L-BFGS begins at the start.

Memory: that of L-BFGS, and for each shard two parameter arrays.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.engine.base import Block, Engine
from lineal.numerics.precondition import metric
from lineal.numerics.smooth_only import check_smooth
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers import lbfgs
from lineal.solvers.hybrid.adaptive_pass import Learner, PassRows, entry_sums, learn
from lineal.solvers.lbfgs.lbfgs import descend
from lineal.solvers.options import HybridOptions

#: Learning rates that are tried if none is given, on at most so many rows per shard.
RATES, TRIED_ROWS = (0.02, 0.05, 0.1, 0.3), 1000

#: Phase of a checkpoint after the online passes.
PHASE = "after the online passes"


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss or a penalty that this solver cannot handle."""
    check_smooth("hybrid", loss, penalty)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    return lbfgs.memory(n, d, k, size) + 8 * d * k * size


@solver(check=check, memory=memory, order="rows", options=HybridOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: HybridOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; iterations are those of L-BFGS."""
    return descend(objective, budget, start, metric, partial(_after_passes, objective, budget, options))


def _after_passes(
    objective: Objective, budget: Budget, options: HybridOptions, theta: np.ndarray, monitor: Monitor
) -> np.ndarray:
    """Parameters after the online passes; those of a checkpoint that was written after them."""
    checkpoint = budget.checkpoint
    if checkpoint is not None:
        phase, facts = checkpoint.found_phase or ("", None)
        if phase == PHASE and facts is not None:
            checkpoint.enter(PHASE, facts)
            found: np.ndarray = facts["theta"]
            return found
    found, are_done = _learned(objective, budget, options, theta, monitor)
    if checkpoint is not None and are_done:  # otherwise they are done again when the fit continues
        checkpoint.enter(PHASE, {"theta": found})
    return found


def _learned(
    objective: Objective, budget: Budget, options: HybridOptions, theta: np.ndarray, monitor: Monitor
) -> tuple[np.ndarray, bool]:
    """The best of the start and of the averages after the online passes, and whether there was time for all passes."""
    shards = objective.engine.shards(options.shards, budget.seed)
    inverses = _inverses(objective.engine, theta.dtype)
    squares = np.zeros_like(theta)
    step = Online(objective.loss, objective.fit_intercept, budget.seed)
    rate = options.rate
    if rate is None:
        (losses,) = shards.sum(TryRates(step), theta, squares, inverses)
        rate = RATES[int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))]
    best, lowest, mean = theta, objective.value(theta), theta
    most, are_done = (0, 0), True
    for number in range(options.passes):
        if monitor.must_end(-1) is not None:
            are_done = False
            break
        weighted, total, count, diverged = shards.sum(step, mean, squares, inverses, float(rate), number)
        most = max(most, (diverged, count + diverged))
        known = total > 0.0
        mean = np.where(known, weighted / np.where(known, total, 1.0), mean).astype(theta.dtype)
        squares = (total / max(count, 1)).astype(theta.dtype)
        value = objective.value(mean)
        if value < lowest:
            best, lowest = mean, value
    if most[0]:
        warnings.warn(
            f"the online passes of the hybrid diverged in {most[0]} of {most[1]} shards with rate={rate:g}, and those "
            f"shards were left out of the average: use a smaller one, such as rate={rate / 10.0:g}",
            stacklevel=2,
        )
    return best, are_done


def _inverses(engine: Engine, dtype: Any) -> np.ndarray:
    """1/√(a_j·ā) for every feature, zero where it has no entries.

    a_j is the root mean square of its stored entries, and ā that of all entries.
    """
    squares, counts = engine.sum(entries)
    sizes = np.sqrt(squares / np.maximum(counts, 1.0))
    common = math.sqrt(float(squares.sum()) / max(float(counts.sum()), 1.0))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inverses = np.where(sizes > 0.0, 1.0 / np.sqrt(sizes * common), 0.0).astype(dtype)
    return np.where(np.isfinite(inverses), inverses, 0.0).astype(dtype)


# --- steps


def entries(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Step: sums of the squares and numbers of the stored entries of every column."""
    X = by_rows(block.X)
    squares, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    entry_sums(X.layout, X.shape[0], squares, counts)
    return squares, counts


@dataclass(frozen=True)
class Online:
    """Step: an online pass of a shard from θ and G; returns Σ G·θ, Σ G, and how many shards learned and diverged."""

    loss: Any
    fit_intercept: bool
    seed: int

    def __call__(
        self, block: Block, theta: np.ndarray, squares: np.ndarray, inverses: np.ndarray, rate: float, number: int
    ) -> tuple[np.ndarray, np.ndarray, int, int]:
        order = self.order(block, number)
        if not len(order):
            return np.zeros(theta.shape), np.zeros(theta.shape), 0, 0
        theta, squares = theta.copy(), squares.copy()
        self.run(block, order, theta, squares, inverses, rate)
        sums = squares.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = sums * theta
        if not (np.isfinite(weighted).all() and np.isfinite(sums).all()):
            return np.zeros(theta.shape), np.zeros(theta.shape), 0, 1
        return weighted, sums, 1, 0

    def order(self, block: Block, number: int) -> np.ndarray:
        """The rows that count, in the random order of this pass."""
        order = np.flatnonzero(block.weights > 0.0)
        shuffle(generator(self.seed, 3 + number), order)
        return order

    def run(
        self, block: Block, order: np.ndarray, theta: np.ndarray, squares: np.ndarray, inverses: np.ndarray, rate: float
    ) -> float:
        """Learn from some rows; changes θ and G. Returns the mean loss of the rows before each was learned from."""
        weights = block.weights / block.weights[order].mean()
        offsets = np.empty((0, 0), theta.dtype) if block.offsets is None else block.offsets
        learner = Learner(theta, squares, inverses, self.fit_intercept)
        rows = PassRows(block.targets, weights, offsets)
        return float(learn(self.loss, by_rows(block.X).layout, order, rows, learner, rate)) / len(order)


@dataclass(frozen=True)
class TryRates:
    """Step: the mean losses of `RATES` on a few rows of the shard, times its share."""

    online: Online

    def __call__(self, block: Block, theta: np.ndarray, squares: np.ndarray, inverses: np.ndarray) -> tuple[np.ndarray]:
        order = self.online.order(block, 0)[:TRIED_ROWS]
        if not len(order):
            return (np.zeros(len(RATES)),)
        losses = [
            self.online.run(block, order, theta.copy(), squares.copy(), inverses, rate) for rate in RATES
        ]  # fmt: skip
        return (float(block.weights.sum()) * np.array(losses),)
