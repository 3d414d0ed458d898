"""FOBOS: a subgradient step on one row, then the prox of the penalty, row after row.

    W ← prox_{η_t αΩ}(W − η_t ∇ℓ(y_i, W'x_i + b)x_i'),   η_t = η₀/√t

Duchi & Singer (2009). It takes losses with kinks as well as smooth ones. Rows come in random order, a pass is an
iteration, t counts rows, and a row counts by its weight. Without a given η₀, passes over a part of the rows are tried
with each of 1e-3, …, 1e3: of those rates that minimise the objective well, the one with the lowest loss on rows held
out is taken.

Features that a row lacks are only pulled by the penalty: what is due to them is remembered and paid when they are met
next. For norms of which the prox is additive (l1, l1/l2, l1/l∞) one prox with the sum D of what is due is exact. For
l2 a weight is to be divided by Π(1 + D_t), and m equal parts divide it by (1 + D/m)^m. Since x − x²/2 ≤ log(1 + x) ≤ x,
the logarithms of the two differ by at most the larger of D²/2m, which m is chosen to keep small, and ΣD_t²/2, which is
smaller still. The same is done for the elastic net and, with D relative to ‖w‖, for the sparse group.

The certificate's dual point is the mean of each row's subgradients over the passes since the last one. Steps that lead
nowhere in sum tell that the means of x·u' and of the penalty's subgradients cancel; single subgradients of a loss with
kinks never do. (Losses of pairs, which are smooth, need more than ∇ℓ for a bound: theirs is at the best iterate.)

Memory: two θ, twice the scores and 2d + 2n numbers, and a copy of X where its rows cannot be read in order (CSC,
Fortran order).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import count_live_rows, norm2
from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.errors import OptionError
from lineal.objective import Objective
from lineal.solution import Certificate, Solution
from lineal.solvers.parts.composite import local_rows
from lineal.solvers.parts.monitor import Callback, Monitor, explain

#: How X is read; a copy is made where it is stored otherwise.
ORDER = "rows"

#: η₀ that are tried where none is given.
RATES = tuple(10.0**exponent for exponent in range(-3, 4))

#: Rows on which they are tried, at most, and every how many of them is held out; few rows are passed over repeatedly.
TRIED_ROWS, HELD_OUT, MAX_TRIALS = 20_000, 5, 50

#: Share of the best rate's fall of the objective that another may miss and still be as good.
MISSED = 0.05

#: Growth of the number of passes from one certificate to the next.
GROWTH = 1.5

#: Parts in which a debt D is paid: this often D², and so many at most.
PARTS, MAX_PARTS = 50.0, 64


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour: nothing."""


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return 2 * (d + n) * k * size + 16 * (d + n)


def solve(
    objective: Objective,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    start: np.ndarray | Solution | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    rate: float | None = None,
) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`, which a method with falling steps reaches slowly.

    `rate` is η₀. The objective costs half a pass, so `history` has it (instead of NaN) where the gap was checked and,
    if there are callbacks to see it, at every pass. The answer is the best iterate of those.
    """
    check(objective.loss, objective.regulariser.penalty)
    if rate is not None and not (isinstance(rate, numbers.Real) and 0.0 < float(rate) < math.inf):
        raise OptionError(f"rate={rate!r} is not a positive number")
    pool.thread_count(n_jobs)
    callbacks = tuple(callbacks)
    with Monitor(max_iter, max_time, callbacks) as monitor:
        theta = objective.theta_of(start)
        passes = _Passes(objective, theta, seed, None if rate is None else float(rate))
        best = _Best(objective, tol, passes)

        def record(iteration: int) -> str | None:
            if not callbacks:
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
    status = "converged" if certificate.meets(tol) else status or "stalled"
    W, b = objective.split(theta)
    monitor.history[-1].update(objective=certificate.primal, gap=certificate.value, nonzero_rows=count_live_rows(W))
    return Solution(W, b, certificate, monitor.history, status, explain(status, certificate, tol, max_iter))


class _Best:
    """The iterate with the lowest objective seen, the highest bound, and certificates after ever more passes."""

    def __init__(self, objective: Objective, tol: float, passes: _Passes) -> None:
        self.objective, self.tol, self.passes, self.next = objective, tol, passes, 0
        self.estimate, self.lowest = math.inf, math.inf
        self.theta: np.ndarray | None = None
        self.certificate: Certificate | None = None
        self.is_certain = False

    def offer(self, theta: np.ndarray, value: float) -> None:
        """Keep a copy of θ if it is the best so far."""
        if value < self.lowest or self.theta is None:
            self.theta, self.lowest, self.is_certain = theta.copy(), value, False

    def is_enough(self, iteration: int, theta: np.ndarray, row: dict[str, float]) -> bool:
        """Whether a certificate was due and meets tol."""
        if iteration < self.next:
            return False
        self.next = max(iteration + 1, math.ceil(GROWTH * iteration))
        certificate = self.certify(theta)
        row.update(objective=certificate.primal, gap=certificate.value)
        return certificate.meets(self.tol)

    def certify(self, theta: np.ndarray) -> Certificate:
        """A certificate of the best of θ and those before, by the best of the dual points seen."""
        self.offer(theta, self.objective.value(theta))
        assert self.theta is not None
        means = self.passes.take_dual_point()
        if self.certificate is None or means is not None or not self.is_certain:
            for point in (means, None):
                if point is not None or self.certificate is None or self.objective.loss.is_smooth:
                    self._improve(self.objective.certificate(self.theta, self.tol, point))
                if self.certificate is not None and self.certificate.meets(self.tol):
                    break
        assert self.certificate is not None
        self.is_certain, self.estimate = True, self.certificate.value
        return self.certificate

    def _improve(self, found: Certificate) -> None:
        """A bound once found stays true for every later iterate."""
        known = self.certificate
        if known is not None and known.dual is not None and found.dual is not None and known.dual > found.dual:
            gap = (found.primal - known.dual) / found.primal if found.primal > 0.0 else 0.0
            found = Certificate("gap", max(gap, 0.0), found.primal, known.dual)
        self.certificate = found

    def answer(self) -> tuple[np.ndarray, Certificate]:
        """The best iterate and its certificate."""
        assert self.theta is not None
        assert self.certificate is not None
        return self.theta, self.certificate


class _Passes:
    """Passes over the rows, with the clock t of the steps and what is due to every feature."""

    def __init__(
        self, objective: Objective, theta: np.ndarray, seed: int, rate: float | None, rows: np.ndarray | None = None
    ) -> None:
        engine = local_rows("fobos", objective)
        if objective.regulariser.blocks.features.size:
            raise OptionError("fobos does not take groups of features: use fista, sparsa or block_cd")
        if objective.regulariser.centre is not None:
            raise OptionError("fobos does not take a penalty with a centre: use lbfgs or newton")
        self.objective, self.X, self.rate = objective, by_rows(engine.X), rate
        self.rows = np.flatnonzero(engine.weights > 0.0) if rows is None else rows
        self.weights = engine.weights * (len(self.rows) / engine.weights[self.rows].sum())  # one on average
        self.offsets = np.empty((0, 0), theta.dtype) if engine.offsets is None else engine.offsets
        self.targets, self.seed, self.state = engine.targets, seed, generator(seed)
        self.clock = np.zeros(2)  # steps taken, and the sum of their lengths
        self.paid = np.zeros(engine.shape[1])  # the sum of lengths up to which a feature has been pulled
        has_duals = hasattr(objective.loss, "row_dual_repair")  # losses of pairs cannot do with sums over their pairs
        self.duals = np.zeros((engine.shape[0] if has_duals else 0, theta.shape[1]), theta.dtype)
        self.passes = 0

    def run(self, theta: np.ndarray) -> None:
        """Visit the rows in random order; θ is changed in place, and nothing is due to any feature afterwards."""
        if self.rate is None:
            self.rate = _best_rate(self.objective, theta, self.seed)
        order = self.rows.copy()
        shuffle(self.state, order)
        W, b = self.objective.split(theta)
        regulariser = self.objective.regulariser
        parts = 1 if regulariser.penalty.is_additive else MAX_PARTS
        _visit(
            self.objective.loss, regulariser.penalty, self.X.layout, order, self.targets, self.weights, self.offsets,
            regulariser.strengths, parts, regulariser.penalty.is_separable, self.rate, self.clock, self.paid,
            W, b, self.objective.fit_intercept, self.duals,
        )  # fmt: skip
        self.passes += 1

    def take_dual_point(self) -> np.ndarray | None:
        """Means of the subgradients since the last time."""
        if self.passes == 0 or len(self.duals) == 0:
            return None
        means = self.duals / self.passes
        self.duals[...] = 0.0
        self.passes = 0
        return means


def _best_rate(objective: Objective, theta: np.ndarray, seed: int) -> float:
    """The η₀ with the lowest loss on rows held out, of those that come near the lowest objective on the others."""
    engine = local_rows("fobos", objective)
    rows = np.flatnonzero(engine.weights > 0.0)
    shuffle(generator(seed, 1), rows)
    rows = rows[:TRIED_ROWS]
    held, others = (rows[::HELD_OUT], np.delete(rows, np.s_[::HELD_OUT])) if len(rows) > 1 else (rows, rows)
    found = np.empty((len(RATES) + 1, 2))
    for at, rate in enumerate((0.0, *RATES)):  # the first stays where it is
        trial = theta.copy()
        passes = _Passes(objective, trial, seed, rate, others)
        for _ in range(min(MAX_TRIALS, -(-TRIED_ROWS // len(others))) if rate > 0.0 else 0):
            passes.run(trial)
        W, b = objective.split(trial)
        penalty = objective.regulariser.value(W)
        for part, chosen in enumerate((others, held)):
            found[at, part] = penalty + _mean_loss(
                objective.loss, passes.X.layout, chosen, passes.targets, passes.weights, passes.offsets, W, b
            )
    found[~np.isfinite(found)] = math.inf
    start, reached = found[0, 0], found[1:, 0]
    is_good = reached <= reached.min() + MISSED * max(start - reached.min(), 0.0)
    return RATES[int(np.argmin(np.where(is_good, found[1:, 1], math.inf)))]


@kernel
def _visit(
    loss, penalty, layout, order, targets, weights, offsets, strengths, parts, is_separable, rate, clock, paid,
    W, b, fit_intercept, duals
):  # fmt: skip
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, g, work = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, np.float64)
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        for at in range(layout.row_length(i)):
            _pay(penalty, strengths, parts, is_separable, clock, paid, W, layout.row_index(i, at))
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        loss.row_gradient(targets.labels(i), z, work, g)
        clock[0] += 1.0
        length = rate / math.sqrt(clock[0])
        clock[1] += length
        for r in range(k):
            if duals.shape[0] > 0:
                duals[i, r] += g[r]
            g[r] *= -length * weights[i]
            if fit_intercept:
                b[r] += g[r]
        layout.row_update(i, g, 0, k, flat)
    for j in range(W.shape[0]):
        _pay(penalty, strengths, parts, is_separable, clock, paid, W, np.uintp(j))


@kernel
def _pay(penalty, strengths, parts, is_separable, clock, paid, W, j):
    """Pull the weights of feature j by all steps since it was met last."""
    due = (clock[1] - paid[j]) * strengths[j]
    paid[j] = clock[1]
    if due == 0.0 or penalty.block_is_zero(W[j]):
        return
    m = 1
    if parts > 1:
        share = due if is_separable else due / norm2(W[j])
        m = int(min(1.0 + PARTS * share * share, parts))
    for _ in range(m):
        penalty.block_prox(W[j], due / m, W[j])


@kernel
def _mean_loss(loss, layout, rows, targets, weights, offsets, W, b):
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, work = np.empty(k, W.dtype), np.empty(k, np.float64)
    total, mass = 0.0, 0.0
    for position in range(rows.shape[0]):
        i = np.uintp(rows[position])
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        total += weights[i] * loss.row_value(targets.labels(i), z, work)
        mass += weights[i]
    return total / mass
