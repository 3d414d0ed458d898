"""FOBOS: a subgradient update for one row, then the prox of the penalty, row after row.

    W ← prox_{η_t αΩ}(W − η_t ∇ℓ(y_i, W'x_i + b)x_i'),   η_t = η₀/√(t₀ + t)

Duchi & Singer (2009). The loss may be smooth or have kinks. Rows are visited in random order, an iteration is one pass,
t counts rows, and the subgradient of a row is multiplied by its weight. If η₀ is not given, each of 1e-3, …, 1e3 is
tried on some of the rows: of the rates that minimise the objective well, the one with the lowest loss on held-out rows
is used.

t₀ is 0 for losses with kinks, and for all losses with schedule="plain". For smooth losses it is otherwise (η₀L)², where
L is an upper bound of the curvature of a row of average length, so no step size exceeds 1/L. With t₀ = 0, an η₀ that is
right for late updates makes the first ones so large that all others are needed to undo them. A smaller η₀ soon becomes
too small for weights on which the loss depends little.

For features that a row does not have, only the penalty acts. It is applied later, when the next row has the feature.
If the prox is additive (l1, l1/l2, l1/l∞), one prox with the sum D of the strengths so far is exact. For l2, a weight
should be divided by Π(1 + D_t), and m equal parts divide it by (1 + D/m)^m. Since x − x²/2 ≤ log(1 + x) ≤ x, the
logarithms of the two differ by at most the larger of D²/2m, which m is chosen to keep small, and ΣD_t²/2, which is even
smaller. The same is done for the elastic net and, with D relative to ‖w‖, for the sparse group penalty.

The dual point of the certificate is the mean of the subgradients of each row over the passes since the last
certificate. If the updates of these passes add up to almost nothing, the means of x·u' and of the subgradients of the
penalty cancel; the single subgradients of a loss with kinks never do. Losses of pairs, which are smooth, need more than
u for a bound: they use ∇ℓ at the mean of the iterates after those passes.

Passes are sequential. Threads are used for the trials of rates and the certificates.

Memory: two θ, twice the scores (losses of pairs: three θ), one θ per thread during the trials, 2d + 2n numbers, and a
copy of X if it is stored by columns (CSC, Fortran order).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.errors import OptionError
from lineal.numerics.best_iterate import LowerBound
from lineal.numerics.certificate_waits import CertificateWaits
from lineal.numerics.local_only import local_rows
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState, put
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.fobos.subgradient_pass import MAX_PARTS, Rows, Steps, mean_loss, visit
from lineal.solvers.options import FobosOptions

#: Values of η₀ that are tried if none is given.
RATES = tuple(10.0**exponent for exponent in range(-3, 4))

#: Largest number of rows of a trial, of which every n-th is held out, and passes if there are fewer rows.
TRIED_ROWS, HELD_OUT, MAX_TRIALS = 20_000, 5, 50

#: A rate is good if its decrease of the objective is smaller than the best one by at most this fraction.
MISSED = 0.01

#: The number of passes up to the next certificate is the number of passes so far divided by this.
WAIT_DIVISOR = 2


def check(loss: Any, penalty: Any) -> None:
    """Accept every loss and every penalty."""


def check_objective(objective: Objective) -> None:
    """Raise an error for rows in another process, groups of features, and penalties with a centre."""
    local_rows("fobos", objective)
    if objective.regulariser.groups.features.size:
        others = "fista, sparsa or block_cd" if objective.loss.is_smooth else "multipliers"
        raise OptionError(f"fobos does not take groups of features: use {others}")
    if objective.regulariser.centre is not None:
        raise OptionError("fobos does not take a penalty with a centre: use lbfgs or newton")


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X."""
    return (2 * d + max(2 * n, d)) * k * size + 16 * (d + n)


@solver(check=check, check_objective=check_objective, memory=memory, order="rows", options=FobosOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: FobosOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`, which decreasing step sizes reach slowly.

    The objective costs half a pass. So `history` has it (instead of None) only when the gap was checked or, if there
    are callbacks, after every pass. The result is the best iterate of those.
    """
    with Monitor(budget) as monitor:
        theta = objective.theta_of(start)
        rate = None if options.rate is None else float(options.rate)
        passes = _Passes(objective, theta, budget, rate, options.schedule)
        best = _Best(objective, budget.tol, passes)
        iteration = monitor.resume(_Run(theta, passes, best))

        def record(iteration: int) -> str | None:
            if not budget.callbacks:
                return monitor.count(iteration, best.estimate)
            value = objective.value(theta)
            best.offer(theta, value)
            return monitor.record(iteration, value, best.estimate, *objective.split(theta))

        status = record(iteration)
        while not best.is_enough(iteration, theta, monitor.history[-1]) and status is None:
            passes.run(theta)
            iteration += 1
            status = record(iteration)
        best.certify(theta)
    theta, certificate = best.answer()
    return monitor.finish(*objective.split(theta), certificate, status)


class _Run(LoopState):
    """State of the loop."""

    state_names = ("theta", "passes", "best")

    def __init__(self, theta: np.ndarray, passes: _Passes, best: _Best) -> None:
        self.theta, self.passes, self.best = theta, passes, best

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; passes change θ in place."""
        if name == "theta":
            put(self.theta, value)
        else:
            super().restore_part(name, value)


class _Best(LoopState):
    """The best iterate so far, the highest lower bound, and certificates after more and more passes."""

    state_names = ("waits", "estimate", "lowest", "bound", "theta", "certificate", "is_certain")

    def __init__(self, objective: Objective, tol: float, passes: _Passes) -> None:
        self.objective, self.tol, self.passes = objective, tol, passes
        self.waits = CertificateWaits(1, WAIT_DIVISOR)
        self.estimate, self.lowest, self.bound = math.inf, math.inf, LowerBound()
        self.theta: np.ndarray | None = None
        self.certificate: Certificate | None = None
        self.is_certain = False

    def offer(self, theta: np.ndarray, value: float) -> None:
        """Keep a copy of θ if it is the best so far."""
        if value < self.lowest or self.theta is None:
            self.theta, self.lowest, self.is_certain = theta.copy(), value, False

    def is_enough(self, iteration: int, theta: np.ndarray, row: dict[str, float]) -> bool:
        """Whether a certificate was due and meets tol."""
        if not self.waits.is_due(iteration):
            return False
        certificate = self.certify(theta)
        row.update(objective=certificate.primal, gap=certificate.value)
        return certificate.meets(self.tol)

    def certify(self, theta: np.ndarray) -> Certificate:
        """Certificate of the best iterate so far, with the best of the dual points."""
        self.offer(theta, self.objective.value(theta))
        assert self.theta is not None
        means, middle = self.passes.take_means()
        if middle is not None:
            self.bound.improve(self.objective.certificate(middle, self.tol))
        if self.certificate is None or means is not None or not self.is_certain:
            for point in (means, None):
                if point is not None or self.certificate is None or self.objective.loss.is_smooth:
                    self.certificate = self.bound.improve(self.objective.certificate(self.theta, self.tol, point))
                if self.certificate is not None and self.certificate.meets(self.tol):
                    break
        assert self.certificate is not None
        self.is_certain = True
        self.certificate = self.bound.improve(self.certificate)
        self.estimate = self.certificate.value
        return self.certificate

    def answer(self) -> tuple[np.ndarray, Certificate]:
        """The best iterate and its certificate."""
        assert self.theta is not None
        assert self.certificate is not None
        return self.theta, self.certificate


class _Passes(LoopState):
    """Passes over the rows, with the clock t of the updates and, per feature, how much of the penalty was applied."""

    state_names = ("rate", "state", "clock", "applied", "duals", "sum", "passes")

    def __init__(
        self,
        objective: Objective,
        theta: np.ndarray,
        budget: Budget,
        rate: float | None,
        schedule: str,
        rows: np.ndarray | None = None,
    ) -> None:
        """Prepare passes over the given rows for trials of a rate, or over all rows with what certificates need."""
        engine = local_rows("fobos", objective)
        self.objective, self.X, self.rate, self.schedule = objective, by_rows(engine.X), rate, schedule
        self.rows = np.flatnonzero(engine.weights > 0.0) if rows is None else rows
        self.budget, self.state = budget, generator(budget.seed)
        self.clock = np.zeros(2)  # t₀ plus the number of updates, and the sum of their step sizes
        self.applied = np.zeros(engine.shape[1])  # the sum of step sizes up to which the penalty was applied
        has_duals = objective.loss.takes_dual_points
        is_trial = rows is not None
        self.duals = np.zeros((engine.shape[0] if has_duals and not is_trial else 0, theta.shape[1]), theta.dtype)
        self.sum, self.passes = np.zeros(() if has_duals or is_trial else theta.shape, theta.dtype), 0  # of iterates
        weights = engine.weights * (len(self.rows) / engine.weights[self.rows].sum())  # one on average
        offsets = np.empty((0, 0), theta.dtype) if engine.offsets is None else engine.offsets
        self.data = Rows(engine.targets, weights, offsets, self.duals)

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name in ("duals", "sum"):
            put(getattr(self, name), value)
        else:
            super().restore_part(name, value)

    def run(self, theta: np.ndarray) -> None:
        """Visit the rows in random order; changes θ in place, with the whole penalty applied to every feature."""
        if self.rate is None:
            self.rate = _best_rate(self.objective, theta, self.budget, self.schedule)
        if self.clock[0] == 0.0 and self.schedule == "bounded" and self.objective.loss.is_smooth:
            mean_square = self.objective.mean_square + self.objective.fit_intercept
            self.clock[0] = np.square(self.rate * self.objective.loss.lipschitz(theta.shape[1]) * mean_square)
        order = self.rows.copy()
        shuffle(self.state, order)
        W, b = self.objective.split(theta)
        regulariser = self.objective.regulariser
        parts = 1 if regulariser.penalty.is_additive else MAX_PARTS
        steps = Steps(
            self.rate, self.objective.fit_intercept, regulariser.strengths, parts, regulariser.penalty.is_separable,
            self.clock, self.applied,
        )  # fmt: skip
        visit(self.objective.loss, regulariser.penalty, self.X.layout, order, self.data, steps, W, b)
        self.passes += 1
        if self.sum.ndim:
            self.sum += theta

    def take_means(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Means since the last call: of the subgradients or, for losses of pairs, of the iterates."""
        if self.passes == 0:
            return None, None
        chosen = self.sum if self.sum.ndim else self.duals
        mean = chosen / self.passes
        chosen[...] = 0.0
        self.passes = 0
        return (None, mean) if self.sum.ndim else (mean, None)


def _best_rate(objective: Objective, theta: np.ndarray, budget: Budget, schedule: str) -> float:
    """The η₀ with the lowest loss on held-out rows, of those that nearly reach the lowest objective on the others.

    Rates are tried in parallel, one per thread.
    """
    engine = local_rows("fobos", objective)
    rows = np.flatnonzero(engine.weights > 0.0)
    shuffle(generator(budget.seed, 1), rows)
    rows = rows[:TRIED_ROWS]
    held, others = (rows[::HELD_OUT], np.delete(rows, np.s_[::HELD_OUT])) if len(rows) > 1 else (rows, rows)
    by_rows(engine.X)  # X keeps the copy, so it is made once

    def attempt(rate: float) -> list[float]:
        """Objectives that a rate reaches, on the other rows and on the held-out rows."""
        trial = theta.copy()
        passes = _Passes(objective, trial, budget, rate, schedule, others)
        for _ in range(min(MAX_TRIALS, -(-TRIED_ROWS // len(others))) if rate > 0.0 else 0):
            passes.run(trial)
        W, b = objective.split(trial)
        penalty = objective.regulariser.value(W)
        return [
            penalty + mean_loss(objective.loss, passes.X.layout, chosen, passes.data, W, b) for chosen in (others, held)
        ]

    tried = (0.0, *RATES)  # rate 0 gives the objective at the start
    results = np.array(pool.run([partial(attempt, rate) for rate in tried], budget.threads))
    results[~np.isfinite(results)] = math.inf
    start, reached = results[0, 0], results[1:, 0]
    is_good = reached <= reached.min() + MISSED * max(start - reached.min(), 0.0)
    return RATES[int(np.argmin(np.where(is_good, results[1:, 1], math.inf)))]
