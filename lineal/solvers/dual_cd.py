"""Dual coordinate descent for the l2 penalty: max_u D(u) one example at a time, all its classes at once.

Hsieh, Chang, Lin, Keerthi & Sundararajan (2008) for the hinge losses, Yu, Huang & Lin (2011) for logistic regression;
Keerthi et al.'s sequential dual method (2008) for Crammer–Singer, and the same idea for softmax. With

    W = V − (1/α) Σ_i s_i x_i u_i'

kept up to date, the best dual variables of one row cost one product with W and one update of it. Rows come in random
order, in blocks of neighbours that share cache lines; rows whose variables are stuck at their bounds are left out
(shrinking) until everything else has converged. One-vs-rest columns are independent: groups of them run on their own
threads, each with its own W.

A free intercept constrains the dual: Σ_i s_i u_i = 0, which steps in single rows cannot keep. The method of multipliers
can: a penalty ½β‖Σ s u‖² on the constraint acts as a constant feature, b −= β·s_i·δ at every step, and after every
pass its multiplier moves, b −= β Σ s u. Rows are seen from their mean x̄, lest W do the intercept's work: that changes
W by x̄M' with M = (1/α) Σ s u, zero at the solution, and is kept apart so that sparse rows stay sparse.

Memory: (n, k) dual variables and 5n numbers (21n for Crammer–Singer with many classes), d·k weights twice while they
are joined (9 to 15 columns take 16), and a copy of X where its rows cannot be read in order (CSC, Fortran order) or its
columns have different penalty factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import count_live_rows
from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.design.products import matmul, row_norms, scale_columns
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.objective import Objective, check_finite
from lineal.solution import Certificate, Solution
from lineal.solvers.parts.column_groups import ColumnGroups
from lineal.solvers.parts.dual_margin import GROUP_COLUMNS, aligned_zeros, margin_pass, stored_columns
from lineal.solvers.parts.dual_simplex import KEPT_CLASSES, kept_pass, simplex_pass
from lineal.solvers.parts.monitor import Callback, Monitor, explain
from lineal.solvers.parts.vectors import dot
from lineal.targets import OneLabel

#: How X is read; a copy is made where it is stored otherwise.
ORDER = "rows"

#: Neighbouring rows that are visited together, until so many passes are done; then each goes alone. Neighbours share
#: cache lines, but the last digits come many times faster in an order without any structure.
BLOCK_ROWS = ((4, 64), (10, 8))

#: Passes without any gain after which rounding is to blame.
PATIENCE = 3

#: Passes over the kept classes of the rows that may follow one over all classes, and the gain below which they end,
#: relative to the gain of that.
KEPT_PASSES, KEPT_GAIN = 10, 0.1

#: Rows of W that are changed at a time.
WEIGHT_ROWS = 4096

#: β in units of mean‖x‖²/α. Larger values balance the intercept sooner and slow the steps.
BALANCE = 0.1


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    if getattr(loss, "dual_curvature", None) is None:
        raise OptionError(f"dual_cd does not know the dual steps of loss {loss.name!r}: use lbfgs or newton")
    if not penalty.is_smooth:
        raise OptionError(f"dual_cd needs penalty 'l2', not {penalty.name!r}")


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return (n * k + d * (k + max(k, 16 if 8 < k < 16 else 0)) + 5 * n) * size + 4 * (1 + KEPT_CLASSES) * n


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
    shrinking: bool = True,
) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is a pass over the rows.

    The objective costs half a pass, so `history` has it (instead of NaN) where the gap was checked and, if there are
    callbacks to see it, at every pass.
    """
    check(objective.loss, objective.regulariser.penalty)
    callbacks = tuple(callbacks)
    with Monitor(max_iter, max_time, callbacks) as monitor:
        ascent = _Ascent(objective, start, pool.thread_count(n_jobs), seed, shrinking)
        gap = _Gap(objective, tol)

        def record(iteration: int) -> str | None:
            if not callbacks:
                return monitor.count(iteration, gap.estimate(ascent))
            theta = ascent.theta()
            return monitor.record(iteration, objective.value(theta), gap.estimate(ascent), *objective.split(theta))

        iteration, status = 0, record(0)
        while not gap.is_reached(ascent, monitor.history[-1]) and status is None:
            if gap.is_stuck(ascent):
                status = "stalled"
                break
            ascent.run_pass()
            iteration += 1
            status = record(iteration)
        theta, certificate = gap.last(ascent)
    status = "converged" if certificate.meets(tol) else status or "stalled"
    W, b = objective.split(theta)
    monitor.history[-1].update(objective=certificate.primal, gap=certificate.value, nonzero_rows=count_live_rows(W))
    message = explain(status, certificate, tol, max_iter)
    return Solution(W, b, certificate, monitor.history, status, message, ascent.U)


class _Group:
    """Some columns with their own weights, intercepts, dual variables and active rows."""

    def __init__(self, first: int, last: int, W: np.ndarray, b: np.ndarray, U: np.ndarray, active: np.ndarray) -> None:
        self.first, self.last, self.U = first, last, U
        self.W, self.b, self.M, self.active = W, b.copy(), np.zeros_like(b), active.copy()
        self.slack, self.gain = math.inf, 0.0


class _Ascent:
    """Dual variables and weights of the whole problem, and passes over the rows that improve them."""

    def __init__(
        self, objective: Objective, start: np.ndarray | Solution | None, threads: int, seed: int, shrinking: bool
    ) -> None:
        engine, self.objective, self.threads, self.shrinking = _local(objective), objective, threads, shrinking
        strengths = objective.regulariser.strengths if engine.shape[1] else np.array([objective.regulariser.alpha])
        if not np.all(strengths > 0.0):
            raise OptionError("dual_cd needs a penalty on every weight: alpha and all factors must be > 0")
        self.alpha = float(strengths.max())
        self.stretch = np.sqrt(strengths / self.alpha) if strengths.min() < self.alpha else None
        self.X = by_rows(engine.X) if self.stretch is None else scale_columns(by_rows(engine.X), 1.0 / self.stretch)
        rows = by_rows(engine.X)  # certificates read X as the passes do
        self.by_rows = objective if rows is engine.X else replace(objective, engine=replace(engine, X=rows))
        self.columns, self.starts = _labels(engine.targets, self.X.shape[0])
        self._step_sizes(engine)
        self.offsets = np.empty((0, 0), self.X.dtype) if engine.offsets is None else engine.offsets
        k = engine.n_columns
        self.ranges = pool.ranges(k, 1 if objective.loss.is_direct else _pieces(k, threads))
        self.U = self._first_dual_point(start)
        self.groups = self._first_groups(objective.theta_of(start))
        keeps = objective.loss.is_direct and objective.loss.has_sparse_duals and k > 2 * KEPT_CLASSES
        self.kept = np.zeros((self.X.shape[0], 1 + KEPT_CLASSES) if keeps else (0, 0), np.int32)
        self.state, self.is_sorted = generator(seed), _is_sorted(self.columns, self.starts)
        self.gain, self.gained, self.extra, self.passes = math.inf, 0.0, 0.0, 0

    def _step_sizes(self, engine: LocalEngine) -> None:
        """Of every row: how much of a step reaches W (s/α), b and its own score, with rows seen from their mean."""
        weights, squares, dots = engine.weights, row_norms(self.X), np.zeros(self.X.shape[0])
        self.mean, self.mean_square = np.zeros(self.X.shape[1]), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.objective.fit_intercept:
                self.mean = self.objective.moments[0][:, 0] / (1.0 if self.stretch is None else self.stretch)
                self.mean_square = dot(self.mean, self.mean)
                dots = matmul(self.X, self.mean[:, None], threads=self.threads)[:, 0]
                squares = np.maximum(squares - 2.0 * dots + self.mean_square, 0.0)
            spread = dot(weights, squares)
            self.beta = BALANCE * spread / self.alpha + 1.0 if self.objective.fit_intercept else 0.0
            self.scale = self._narrow(weights / self.alpha)
            self.shift = self._narrow(weights * (self.beta - dots / self.alpha))
            self.tilt = self._narrow(dots - self.mean_square)
            q = self._narrow(weights * (squares / self.alpha + self.beta))
        self.q = np.maximum(q, self.X.dtype.type(1e-12))  # an empty row's score does not move
        self.weights, self.active = weights, weights > 0.0

    def _narrow(self, numbers: np.ndarray) -> np.ndarray:
        narrow = numbers.astype(self.X.dtype)
        check_finite(float(np.abs(narrow).max(initial=0.0)), "the squared norm of a row over α")
        return narrow

    def _first_dual_point(self, start: np.ndarray | Solution | None) -> ColumnGroups:
        n, k = self.X.shape[0], self.objective.engine.n_columns
        given = getattr(start, "dual_point", None)
        if start is None:
            return ColumnGroups.zeros(n, self.ranges, self.X.dtype)
        if given is None or given.shape != (n, k):
            given = np.empty((n, k), self.X.dtype)
            self.objective.gradients_into(self.objective.theta_of(start), given)
        return ColumnGroups.split(given, self.ranges, self.X.dtype)

    def _first_groups(self, theta: np.ndarray) -> list[_Group]:
        _, b = self.objective.split(theta)
        groups = [
            _Group(first, last, self._weights(first, last, U), b[first:last], U, self.active)
            for (first, last), U in zip(self.ranges, self.U.groups)
        ]
        for group in groups if self.beta > 0.0 else []:
            self._balance(group)
            group.b += (self.mean_square * group.M.astype(np.float64)).astype(group.b.dtype)
        return groups

    def _weights(self, first: int, last: int, U: np.ndarray) -> np.ndarray:
        """V − (1/α) X'SU of some columns."""
        centre = self.objective.regulariser.centre
        k = last - first
        width = k if self.objective.loss.is_direct else stored_columns(k)
        W = aligned_zeros(self.X.shape[1], width, self.X.dtype)
        if U.any():
            _add_rows(self.X.layout, self.scale, U, width, W.reshape(-1))
        if centre is not None:
            for start in range(0, len(W), WEIGHT_ROWS):
                rows = slice(start, start + WEIGHT_ROWS)
                part = centre[rows, first:last]
                W[rows, :k] += part if self.stretch is None else part * self.stretch[rows, None]
        return W

    def _balance(self, group: _Group) -> np.ndarray:
        """Σ s u of a group's columns, also noted in its M."""
        total = _weighted_sums(self.weights, group.U)
        group.M[:] = total / self.alpha
        return total

    def run_pass(self) -> None:
        """Visit every active row of every group once."""
        order = np.empty(self.X.shape[0], np.int64)
        _random_order(self.state, self.block_rows, order)
        pool.run([partial(self._visit, group, order) for group in self.groups], self.threads)
        self.gain = 0.5 * self.alpha * math.fsum(group.gain for group in self.groups)
        self.gained += self.gain + self.extra
        self.extra = 0.0
        self.passes += 1

    @property
    def block_rows(self) -> int:
        """Neighbouring rows that the next pass visits together."""
        return 1 if self.is_sorted else next((rows for until, rows in BLOCK_ROWS if self.passes < until), 1)

    @property
    def imbalance(self) -> float:
        """max |Σ s u|, which an intercept brings to zero."""
        if self.beta == 0.0:
            return 0.0
        return self.alpha * max(float(np.abs(group.M).max(initial=0.0)) for group in self.groups)

    @property
    def relative_gain(self) -> float:
        """Gain of the last pass over that of all passes."""
        return self.gain / self.gained if self.gained > 0.0 else 0.0 if self.passes else math.inf

    def _visit(self, group: _Group, order: np.ndarray) -> None:
        loss, rows = self.objective.loss, order[group.active[order]]
        slack = group.slack if self.shrinking else math.inf
        labels = (self.columns, self.starts)
        row = (self.scale, self.q, self.shift, self.tilt, self.offsets)
        model = (group.W.reshape(-1), group.b, group.M, group.U)
        columns, bend = (group.first, group.last - group.first), loss.dual_curvature
        if not loss.is_direct:
            group.gain, group.slack = margin_pass(
                loss, self.X.layout, rows, *labels, *row, *model, *columns, group.W.shape[1], bend, slack, group.active
            )
        else:
            group.gain, group.slack = simplex_pass(
                loss, self.X.layout, rows, *labels, *row, *model, *columns, bend, slack, group.active, self.kept
            )
            for _ in range(KEPT_PASSES if len(self.kept) else 0):
                _random_order(self.state, self.block_rows, order)
                gain = kept_pass(loss, self.X.layout, order, *row, *model, columns[1], bend, self.kept)
                self.extra += 0.5 * self.alpha * gain
                if gain < KEPT_GAIN * group.gain:
                    break
        if self.beta > 0.0:
            group.b -= (self.beta * self._balance(group)).astype(group.b.dtype)

    def reactivate(self) -> bool:
        """Bring all rows back; whether some were left out."""
        shrunk = any(np.count_nonzero(group.active) < np.count_nonzero(self.active) for group in self.groups)
        for group in self.groups:
            group.active, group.slack = self.active.copy(), math.inf
        return shrunk

    def theta(self) -> np.ndarray:
        """Weights and intercepts of all groups, joined."""
        theta = np.zeros(self.objective.shape, self.X.dtype)
        W, b = self.objective.split(theta)
        for group in self.groups:
            W[:, group.first : group.last] = group.W[:, : group.last - group.first]
            if self.beta > 0.0:
                for start in range(0, len(W), WEIGHT_ROWS):
                    rows = slice(start, start + WEIGHT_ROWS)
                    W[rows, group.first : group.last] += np.outer(self.mean[rows], group.M)
                b[group.first : group.last] = group.b - self.mean_square * group.M
        if self.stretch is not None:
            W /= self.stretch[:, None].astype(W.dtype)
        return theta


class _Gap:
    """Decides when the certificate is worth its price, and keeps the last one.

    The gain of a pass is free, and the gap follows it: in proportion for smooth losses, like its square root for the
    others. Each certificate tells the constant, hence when to try the next.
    """

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.power = 1.0 if objective.loss.is_smooth else 0.5
        self.ratio = 1.5 if objective.loss.is_smooth else 0.25
        self.failed: tuple[float, float] | None = None
        self.idle = 0
        self.found: tuple[int, np.ndarray, Certificate] | None = None

    def estimate(self, ascent: _Ascent) -> float:
        """Relative gap, as far as the last pass and the last certificate tell."""
        return self.ratio * ascent.relative_gain**self.power

    def is_reached(self, ascent: _Ascent, row: dict[str, float]) -> bool:
        """Whether the certificate, computed only when the estimate meets tol, does too; it is noted in the history."""
        if ascent.passes == 0 and not ascent.U.any():  # a warm start may be good enough, a cold one is not
            return False
        if ascent.passes > 0 and self.estimate(ascent) > self.tol:
            return False
        certificate = self.last(ascent)[1]
        row.update(objective=certificate.primal, gap=certificate.value)
        if certificate.meets(self.tol):
            return True
        if ascent.passes > 0:
            self._learn(certificate.value, ascent)
        return False

    def _learn(self, gap: float, ascent: _Ascent) -> None:
        """What a gap that is too large tells: when to look again, and whether rows that were left out are missed."""
        gain, expected = ascent.relative_gain, self.estimate(ascent)
        before, self.failed = self.failed, (gap, gain)
        is_missed = gap > 10.0 * expected
        if before is not None and before[1] > 0.0:
            is_missed |= gap > before[0] * (gain / before[1]) ** (0.5 * self.power)
        if is_missed and ascent.reactivate():
            return  # the next passes gain more again
        if gain > 0.0:
            self.ratio = 1.2 * gap / gain**self.power

    def is_stuck(self, ascent: _Ascent) -> bool:
        """Whether passes gain nothing but rounding."""
        eps = float(np.finfo(ascent.U.dtype).eps)
        if ascent.gain > eps**2 * ascent.gained or ascent.imbalance > eps:  # b moves while Σ s u is not zero
            self.idle = 0
        else:
            self.idle += 1
        if self.idle > PATIENCE and ascent.reactivate():
            self.idle = 0
        return self.idle > PATIENCE

    def last(self, ascent: _Ascent) -> tuple[np.ndarray, Certificate]:
        """θ and its certificate."""
        if self.found is None or self.found[0] != ascent.passes:
            theta = ascent.theta()
            self.found = (ascent.passes, theta, ascent.by_rows.certificate(theta, self.tol, ascent.U))
        return self.found[1:]


def _local(objective: Objective) -> LocalEngine:
    if not isinstance(objective.engine, LocalEngine):
        raise OptionError("dual_cd needs all rows in this process: use lbfgs or newton for rows held elsewhere")
    return objective.engine


def _pieces(k: int, threads: int) -> int:
    """Groups of at most GROUP_COLUMNS columns, as many for every thread."""
    pieces = -(-k // GROUP_COLUMNS)
    return min(k, -(-pieces // threads) * threads)


def _labels(targets: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Label columns of all rows, and where each row's begin."""
    if isinstance(targets, OneLabel):
        return targets.columns, np.arange(n + 1)
    return targets.columns, targets.starts


def _is_sorted(columns: np.ndarray, starts: np.ndarray) -> bool:
    """Whether neighbouring rows tend to have the same label, so that they must not be visited together."""
    firsts = columns[np.minimum(starts[:-1], max(len(columns) - 1, 0))] if len(columns) else columns
    if len(firsts) < 2:
        return False
    shares = np.unique(firsts, return_counts=True)[1] / len(firsts)
    expected, found = float(shares @ shares), float(np.mean(firsts[1:] == firsts[:-1]))
    return found > expected + 0.25 * (1.0 - expected)


@kernel
def _weighted_sums(weights, U):
    """Σ_i weights_i·u_i, in float64."""
    total = np.zeros(U.shape[1])
    for i in range(U.shape[0]):
        for r in range(U.shape[1]):
            total[r] += weights[i] * np.float64(U[i, r])
    return total


@kernel
def _add_rows(layout, scale, U, width, W):
    """W −= Σ_i scale_i·x_i·u_i'; W has `width` columns."""
    step = np.zeros(width, W.dtype)
    for i in range(U.shape[0]):
        for r in range(U.shape[1]):
            step[r] = -scale[i] * U[i, r]
        layout.row_update(i, step, 0, width, W)


@kernel
def _random_order(state, block, order):
    """Blocks of neighbouring rows in random order, and the rows of each block in random order."""
    n = order.shape[0]
    blocks = np.arange((n + block - 1) // block)
    shuffle(state, blocks)
    at = 0
    for position in range(blocks.shape[0]):
        start = blocks[position] * block
        stop = min(start + block, n)
        for i in range(start, stop):
            order[at + i - start] = i
        shuffle(state, order[at : at + stop - start])
        at += stop - start
