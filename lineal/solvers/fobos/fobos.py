"""FOBOS: a subgradient step on one row, then the prox of the penalty, row after row.

    W ← prox_{η_t αΩ}(W − η_t ∇ℓ(y_i, W'x_i + b)x_i'),   η_t = η₀/√(t₀ + t)

Duchi & Singer (2009). It takes losses with kinks as well as smooth ones. Rows come in random order, a pass is an
iteration, t counts rows, and a row counts by its weight. Without a given η₀, passes over a part of the rows are tried
with each of 1e-3, …, 1e3: of those rates that minimise the objective well, the one with the lowest loss on rows held
out is taken.

t₀ is 0 for losses with kinks, and for all with schedule="plain". For smooth ones it is else (η₀L)², where L bounds the
curvature of a row of average length: no step is longer than 1/L. Without it, an η₀ that is right for late steps throws
the first ones so far that all others are spent on coming back, and one that does not is soon too small to move the
weights that the loss hardly feels.

Features that a row lacks are only pulled by the penalty: what is due to them is remembered and paid when they are met
next. For norms of which the prox is additive (l1, l1/l2, l1/l∞) one prox with the sum D of what is due is exact. For
l2 a weight is to be divided by Π(1 + D_t), and m equal parts divide it by (1 + D/m)^m. Since x − x²/2 ≤ log(1 + x) ≤ x,
the logarithms of the two differ by at most the larger of D²/2m, which m is chosen to keep small, and ΣD_t²/2, which is
smaller still. The same is done for the elastic net and, with D relative to ‖w‖, for the sparse group.

The certificate's dual point is the mean of each row's subgradients over the passes since the last one. Steps that lead
nowhere in sum tell that the means of x·u' and of the penalty's subgradients cancel; single subgradients of a loss with
kinks never do. Losses of pairs, which are smooth, need more than u for a bound: theirs is ∇ℓ at the mean of the
iterates that those passes ended with.

Passes are sequential; threads serve the trials of rates and the certificates.

Memory: two θ, twice the scores (losses of pairs: three θ), one θ per thread during the trials, 2d + 2n numbers, and a
copy of X where its rows cannot be read in order (CSC, Fortran order).
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
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.fobos.subgradient_pass import MAX_PARTS, Rows, Steps, mean_loss, visit
from lineal.solvers.options import FobosOptions

#: η₀ that are tried where none is given.
RATES = tuple(10.0**exponent for exponent in range(-3, 4))

#: Rows on which they are tried, at most, and every how many of them is held out; few rows are passed over repeatedly.
TRIED_ROWS, HELD_OUT, MAX_TRIALS = 20_000, 5, 50

#: Share of the best rate's fall of the objective that another may miss and still be as good.
MISSED = 0.01

#: Certificates are one such part of the passes so far apart.
WAIT_SHARE = 2


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour: nothing."""


def check_objective(objective: Objective) -> None:
    """Refuse rows that are held elsewhere, groups of features, and penalties with a centre."""
    local_rows("fobos", objective)
    if objective.regulariser.groups.features.size:
        raise OptionError("fobos does not take groups of features: use fista, sparsa or block_cd")
    if objective.regulariser.centre is not None:
        raise OptionError("fobos does not take a penalty with a centre: use lbfgs or newton")


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return (2 * d + max(2 * n, d)) * k * size + 16 * (d + n)


@solver(check=check, check_objective=check_objective, memory=memory, order="rows", options=FobosOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: FobosOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`, which a method with falling steps reaches slowly.

    The objective costs half a pass, so `history` has it (instead of None) where the gap was checked and, if there are
    callbacks to see it, at every pass. The answer is the best iterate of those.
    """
    with Monitor(budget) as monitor:
        theta = objective.theta_of(start)
        rate = None if options.rate is None else float(options.rate)
        passes = _Passes(objective, theta, budget, rate, options.schedule)
        best = _Best(objective, budget.tol, passes)

        def record(iteration: int) -> str | None:
            if not budget.callbacks:
                return monitor.count(iteration, best.estimate)
            value = objective.value(theta)
            best.offer(theta, value)
            return monitor.record(iteration, value, best.estimate, *objective.split(theta))

        iteration, status = 0, record(0)
        while not best.is_enough(iteration, theta, monitor.history[-1]) and status is None:
            passes.run(theta)
            iteration += 1
            status = record(iteration)
        best.certify(theta)
    theta, certificate = best.answer()
    return monitor.finish(*objective.split(theta), certificate, status)


class _Best:
    """The iterate with the lowest objective seen, the highest bound, and certificates after ever more passes."""

    def __init__(self, objective: Objective, tol: float, passes: _Passes) -> None:
        self.objective, self.tol, self.passes = objective, tol, passes
        self.waits = CertificateWaits(1, WAIT_SHARE)
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
        """A certificate of the best of θ and those before, by the best of the dual points seen."""
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


class _Passes:
    """Passes over the rows, with the clock t of the steps and what is due to every feature."""

    def __init__(
        self,
        objective: Objective,
        theta: np.ndarray,
        budget: Budget,
        rate: float | None,
        schedule: str,
        rows: np.ndarray | None = None,
    ) -> None:
        """Passes over the given rows, for trials of a rate, or over all rows with what certificates need."""
        engine = local_rows("fobos", objective)
        self.objective, self.X, self.rate, self.schedule = objective, by_rows(engine.X), rate, schedule
        self.rows = np.flatnonzero(engine.weights > 0.0) if rows is None else rows
        self.budget, self.state = budget, generator(budget.seed)
        self.clock = np.zeros(2)  # t₀ and steps taken, and the sum of their lengths
        self.paid = np.zeros(engine.shape[1])  # the sum of lengths up to which a feature has been pulled
        has_duals = objective.loss.takes_dual_points
        is_trial = rows is not None
        self.duals = np.zeros((engine.shape[0] if has_duals and not is_trial else 0, theta.shape[1]), theta.dtype)
        self.sum, self.passes = np.zeros(() if has_duals or is_trial else theta.shape, theta.dtype), 0  # of iterates
        weights = engine.weights * (len(self.rows) / engine.weights[self.rows].sum())  # one on average
        offsets = np.empty((0, 0), theta.dtype) if engine.offsets is None else engine.offsets
        self.data = Rows(engine.targets, weights, offsets, self.duals)

    def run(self, theta: np.ndarray) -> None:
        """Visit the rows in random order; θ is changed in place, and nothing is due to any feature afterwards."""
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
            self.clock, self.paid,
        )  # fmt: skip
        visit(self.objective.loss, regulariser.penalty, self.X.layout, order, self.data, steps, W, b)
        self.passes += 1
        if self.sum.ndim:
            self.sum += theta

    def take_means(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Means since the last time: of the subgradients, or for losses of pairs of the iterates."""
        if self.passes == 0:
            return None, None
        chosen = self.sum if self.sum.ndim else self.duals
        mean = chosen / self.passes
        chosen[...] = 0.0
        self.passes = 0
        return (None, mean) if self.sum.ndim else (mean, None)


def _best_rate(objective: Objective, theta: np.ndarray, budget: Budget, schedule: str) -> float:
    """The η₀ with the lowest loss on rows held out, of those that come near the lowest objective on the others.

    Rates are tried side by side, one per thread.
    """
    engine = local_rows("fobos", objective)
    rows = np.flatnonzero(engine.weights > 0.0)
    shuffle(generator(budget.seed, 1), rows)
    rows = rows[:TRIED_ROWS]
    held, others = (rows[::HELD_OUT], np.delete(rows, np.s_[::HELD_OUT])) if len(rows) > 1 else (rows, rows)
    by_rows(engine.X)  # the copy is made once, and kept by X

    def attempt(rate: float) -> list[float]:
        """Objectives that a rate leads to, on the others and on the rows held out."""
        trial = theta.copy()
        passes = _Passes(objective, trial, budget, rate, schedule, others)
        for _ in range(min(MAX_TRIALS, -(-TRIED_ROWS // len(others))) if rate > 0.0 else 0):
            passes.run(trial)
        W, b = objective.split(trial)
        penalty = objective.regulariser.value(W)
        return [
            penalty + mean_loss(objective.loss, passes.X.layout, chosen, passes.data, W, b) for chosen in (others, held)
        ]

    tried = (0.0, *RATES)  # the first stays where it is
    found = np.array(pool.run([partial(attempt, rate) for rate in tried], budget.threads))
    found[~np.isfinite(found)] = math.inf
    start, reached = found[0, 0], found[1:, 0]
    is_good = reached <= reached.min() + MISSED * max(start - reached.min(), 0.0)
    return RATES[int(np.argmin(np.where(is_good, found[1:, 1], math.inf)))]
