"""FOBOS: a subgradient step on one row, then the prox of the penalty, row after row.

    W ← prox_{η_t αΩ}(W − η_t ∇ℓ(y_i, W'x_i + b)x_i'),   η_t = η₀/√t

Duchi & Singer (2009). It takes losses with kinks as well as smooth ones. Features that a row lacks are only pulled by
the penalty: what is due to them is remembered and paid when they are met next, in one prox with the sum of their steps
(the same for norms, nearly so for others). Rows come in random order, a pass is an iteration, and a row counts by its
weight. Without a given η₀, passes over a part of the rows are tried with each of 1e-3, …, 1e3: of those rates that
minimise the objective well, the one with the lowest loss on rows held out is taken.

Memory: three θ and 2d + 2n numbers, and a copy of X where its rows cannot be read in order (CSC, Fortran order).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import count_live_rows
from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.objective import Objective
from lineal.solution import Certificate, Solution
from lineal.solvers.parts.monitor import Callback, Monitor, explain

#: How X is read; a copy is made where it is stored otherwise.
ORDER = "rows"

#: η₀ that are tried where none is given.
RATES = tuple(10.0**exponent for exponent in range(-3, 4))

#: Rows on which they are tried, at most, and every how many of them is held out; few rows are passed over repeatedly.
TRIED_ROWS, HELD_OUT, MAX_TRIALS = 20_000, 5, 50

#: Objective of a rate that is as good as the best, relative to it.
GOOD = 1.02

#: Growth of the number of passes between certificates.
GROWTH = 1.25


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour: nothing."""


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return 3 * d * k * size + 16 * (d + n)


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
        passes = _Passes(objective, theta, seed, _best_rate(objective, theta, seed) if rate is None else float(rate))
        best = _Best(objective, tol)

        def record(iteration: int) -> str | None:
            if not callbacks:
                return monitor.count(iteration, best.estimate)
            best.offer(theta, objective.value(theta))
            return monitor.record(iteration, objective.value(theta), best.estimate, *objective.split(theta))

        iteration, status = 0, record(0)
        while not best.is_enough(iteration, theta, monitor.history[-1]) and status is None:
            passes.run(theta)
            iteration += 1
            status = record(iteration)
        theta, certificate = best.last(theta)
    status = "converged" if certificate.meets(tol) else status or "stalled"
    W, b = objective.split(theta)
    monitor.history[-1].update(objective=certificate.primal, gap=certificate.value, nonzero_rows=count_live_rows(W))
    return Solution(W, b, certificate, monitor.history, status, explain(status, certificate, tol, max_iter))


class _Best:
    """The iterate with the lowest objective seen, and certificates after ever more passes."""

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol, self.next = objective, tol, 1
        self.estimate, self.lowest = math.inf, math.inf
        self.theta: np.ndarray | None = None
        self.certificate: Certificate | None = None

    def offer(self, theta: np.ndarray, value: float) -> None:
        """Keep a copy of θ if it is the best so far."""
        if value < self.lowest:
            self.theta, self.lowest, self.certificate = theta.copy(), value, None

    def is_enough(self, iteration: int, theta: np.ndarray, row: dict[str, float]) -> bool:
        """Whether a certificate was due and meets tol."""
        if 0 < iteration < self.next:
            return False
        self.next = max(iteration + 1, math.ceil(GROWTH * iteration))
        certificate = self.last(theta)[1]
        row.update(objective=certificate.primal, gap=certificate.value)
        return certificate.meets(self.tol)

    def last(self, theta: np.ndarray) -> tuple[np.ndarray, Certificate]:
        """The better of θ and the best one so far, with its certificate."""
        self.offer(theta, self.objective.value(theta))
        if self.theta is None:  # no finite objective yet
            return theta, self.objective.certificate(theta, self.tol)
        if self.certificate is None:
            self.certificate = self.objective.certificate(self.theta, self.tol)
            self.estimate = self.certificate.value
        return self.theta, self.certificate


class _Passes:
    """Passes over the rows, with the clock t of the steps and what is due to every feature."""

    def __init__(self, objective: Objective, theta: np.ndarray, seed: int, rate: float) -> None:
        engine = _local(objective)
        if objective.regulariser.blocks.features.size:
            raise OptionError("fobos does not take groups of features: use fista, sparsa or block_cd")
        if objective.regulariser.centre is not None:
            raise OptionError("fobos does not take a penalty with a centre: use lbfgs or newton")
        self.objective, self.X, self.rate = objective, by_rows(engine.X), rate
        self.weights = engine.weights * engine.shape[0]  # one on average, as many rows as a pass visits
        self.rows = np.flatnonzero(engine.weights > 0.0)
        self.offsets = np.empty((0, 0), theta.dtype) if engine.offsets is None else engine.offsets
        self.targets, self.state = engine.targets, generator(seed)
        self.clock = np.zeros(2)  # steps taken, and the sum of their lengths
        self.paid = np.zeros(engine.shape[1])  # the sum of lengths up to which a feature has been pulled

    def run(self, theta: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Visit the rows in random order; θ is changed in place, and nothing is due to any feature afterwards."""
        order = self.rows.copy() if rows is None else rows.copy()
        shuffle(self.state, order)
        W, b = self.objective.split(theta)
        regulariser = self.objective.regulariser
        _visit(
            self.objective.loss, regulariser.penalty, self.X.layout, order, self.targets, self.weights, self.offsets,
            regulariser.strengths, self.rate, self.clock, self.paid, W, b, self.objective.fit_intercept,
        )  # fmt: skip
        _pay_all(regulariser.penalty, regulariser.strengths, self.clock, self.paid, W)


def _best_rate(objective: Objective, theta: np.ndarray, seed: int) -> float:
    """The η₀ with the lowest loss on rows held out, of those that come near the lowest objective on the others."""
    engine = _local(objective)
    rows = np.flatnonzero(engine.weights > 0.0)
    shuffle(generator(seed, 1), rows)
    rows = rows[:TRIED_ROWS]
    held, others = (rows[::HELD_OUT], np.delete(rows, np.s_[::HELD_OUT])) if len(rows) > 1 else (rows, rows)
    found = np.empty((len(RATES), 2))
    for at, rate in enumerate(RATES):
        trial = theta.copy()
        passes = _Passes(objective, trial, seed, rate)
        for _ in range(min(MAX_TRIALS, -(-TRIED_ROWS // len(others)))):
            passes.run(trial, others)
        W, b = objective.split(trial)
        penalty = objective.regulariser.value(W)
        for part, chosen in enumerate((others, held)):
            found[at, part] = penalty + _mean_loss(
                objective.loss, passes.X.layout, chosen, passes.targets, passes.weights, passes.offsets, W, b
            )
    found[~np.isfinite(found)] = math.inf
    is_good = found[:, 0] <= GOOD * found[:, 0].min()
    return RATES[int(np.argmin(np.where(is_good, found[:, 1], math.inf)))]


def _local(objective: Objective) -> LocalEngine:
    if not isinstance(objective.engine, LocalEngine):
        raise OptionError("fobos needs all rows in this process: use lbfgs or fista for rows held elsewhere")
    return objective.engine


@kernel
def _visit(
    loss, penalty, layout, order, targets, weights, offsets, strengths, rate, clock, paid, W, b, fit_intercept
):  # fmt: skip
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, g, work = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, np.float64)
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        for at in range(layout.row_length(i)):
            _pay(penalty, strengths, clock, paid, W, layout.row_index(i, at))
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
            g[r] *= -length * weights[i]
            if fit_intercept:
                b[r] += g[r]
        layout.row_update(i, g, 0, k, flat)


@kernel
def _pay(penalty, strengths, clock, paid, W, j):
    """Pull the weights of feature j by all steps since it was met last."""
    due = clock[1] - paid[j]
    if due > 0.0:
        penalty.block_prox(W[j], due * strengths[j], W[j])
        paid[j] = clock[1]


@kernel
def _pay_all(penalty, strengths, clock, paid, W):
    for j in range(W.shape[0]):
        _pay(penalty, strengths, clock, paid, W, j)


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
