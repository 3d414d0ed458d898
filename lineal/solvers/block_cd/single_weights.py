"""Penalties of single weights: every score column is a problem of its own, with its own working set.

Proximal Newton steps on the set (`proximal_newton.py`), and a duality gap of every column (see `block_cd.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.design import Design
from lineal.design.orders import by_columns
from lineal.design.products import matmul, rmatmul
from lineal.engine.local import LocalEngine
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd import score_columns, working_set
from lineal.solvers.block_cd.proximal_newton import Rows, Scalars, descend

#: A working set is left when its largest violation is this share of the largest of all features.
SET_SHARE = 0.1

#: Share of the entries of X that a working set may always gain, and growth of the entries of one that is larger.
LEAST, GROWTH = 0.25, 0.5

#: Proximal Newton steps on one working set.
STEPS = 2

#: A dual point that must be scaled by less is hardly better than zero, and not worth its logarithms.
HOPELESS = 0.1


class SingleWeights:
    """θ, its scores, and per score column what is known of its optimality."""

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        self.theta, self.tol, self.threads = theta, tol, threads
        self.X = by_columns(engine.X, threads)
        self.by_columns = replace(objective, engine=replace(engine, X=self.X, threads=threads))
        self.loss, self.fit_intercept = objective.loss, objective.fit_intercept
        self.W, self.b = objective.split(theta)
        self.weights, self.offsets = engine.weights, engine.offsets
        self.penalty = _scalars(objective)
        self.sizes = _sizes(self.X)
        self.least = int(LEAST * self.sizes.sum())
        n, k = engine.shape[0], engine.n_columns
        self.positive = score_columns.by_label(engine.targets, n, k)
        self.is_gap = bool(np.all(objective.regulariser.strengths > 0.0))
        self.reference = 1.0 if self.is_gap else _reference(objective) / math.sqrt(k)
        self.share = 0.9  # of tol, that a column must reach
        self.open = np.arange(k)  # columns that are not done
        self.violations, self.gaps, self.scales = np.zeros(k), np.full(k, np.inf), np.ones(k)
        self.values, self.penalties = np.zeros(k), np.zeros(k)
        self.refresh()
        self._each(self._first)

    def refresh(self) -> None:
        """Scores anew from the weights: sums of many steps drift."""
        Z = matmul(self.X, np.ascontiguousarray(self.W), threads=self.threads)
        Z += self.b
        if self.offsets is not None:
            Z += self.offsets
        self.Z = np.ascontiguousarray(Z.T)  # one score column after the other

    def objective(self) -> float:
        """F(θ)."""
        return float(self.values.sum() + self.penalties.sum())

    def estimate(self) -> float:
        """Relative gap of the sum, or largest relative violation."""
        if not self.is_gap:
            return float(self.violations.max(initial=0.0)) / self.reference if self.reference > 0.0 else 0.0
        value = self.objective()
        return float(self.gaps.sum()) / value if value > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether the certificate is worth computing."""
        return len(self.open) == 0 or self.estimate() <= self.share * self.tol

    def accepts(self, certificate: Certificate) -> bool:
        """Whether this is what was asked for."""
        return certificate.meets(self.tol)

    def tighten(self) -> None:
        """The certificate was not as good as the estimate: ask for more, of all columns, from exact scores."""
        self.share *= 0.3
        self.open = np.arange(len(self.values))
        self.refresh()
        self.look()

    def certificate(self) -> Certificate:
        """Of θ, with the dual point that the estimates are of."""
        dual_point = None
        if self.is_gap and np.isfinite(self.gaps).all():
            dual_point = np.empty(self.Z.T.shape)
            rounding = 1e-8 if self.theta.dtype == np.float64 else 1e-3  # of the gradient, relative to λ1
            scales = (1.0 - min(rounding, 1e-2 * self.tol)) * self.scales  # inside of the feasible set in float64, too

            def fill(r: int, c: int) -> None:
                score_columns.dual_column(self.loss, self._signs(r), self.Z[r], scales[r], dual_point, r)

            self._each(fill, every=True)
        return self.by_columns.certificate(self.theta, self.tol, dual_point)

    def look(self) -> None:
        """Gradients, violations and gaps of the open columns; those that are good enough are closed."""
        n, (d, _) = len(self.weights), self.W.shape
        R = np.empty((n, len(self.open)), self.theta.dtype)
        self._each(lambda r, c: score_columns.slopes(self.loss, self._signs(r), self.weights, self.Z[r], R, c))
        self.G = rmatmul(self.X, R, threads=self.threads)

        def one(r: int, c: int) -> None:
            violations, is_free = np.empty(d), np.empty(d, np.bool_)
            largest, excess, total = working_set.survey(self.penalty, r, self.G, c, self.W, violations, is_free)
            off_balance = abs(float(R[:, c].sum(dtype=np.float64))) if self.fit_intercept else 0.0
            self.violations[r], self.penalties[r] = max(largest, off_balance), total
            if self.is_gap:
                self._gap(r, c, excess, off_balance)
            self.sets[r] = working_set.choose(violations, is_free, largest, self.sizes, self.least, GROWTH)

        self.sets: dict[int, np.ndarray] = {}
        self._each(one)
        if self.is_gap:
            done = self.gaps <= self.share * self.tol * (self.values + self.penalties)
        else:
            done = self.violations <= self.share * self.tol * self.reference
        self.open = self.open[~done[self.open]]

    def _gap(self, r: int, c: int, excess: float, off_balance: float) -> None:
        """Of column r; Σ s u ≠ 0 is charged to the intercept, as the certificate's repair will."""
        scale = 1.0 / excess if excess > 1.0 else 1.0
        if scale < HOPELESS:
            scale, dual = 0.0, 0.0
        else:
            offsets = np.zeros(0) if self.offsets is None else self.offsets[:, r]
            dual = score_columns.dual_value(self.loss, self._signs(r), self.weights, self.Z[r], scale, offsets)
            dual -= working_set.conjugate(self.penalty, r, self.G, c, scale)
        gap = self.values[r] + self.penalties[r] - dual
        self.scales[r], self.gaps[r] = scale, abs(gap) + off_balance * abs(float(self.b[r]))

    def improve(self) -> None:
        """Proximal Newton steps of every open column on its working set."""
        self._each(lambda r, c: self._descend(r, self.sets[r], SET_SHARE * float(self.violations[r]), STEPS))

    def _first(self, r: int, c: int) -> None:
        """The loss at the start; with the intercept moved to its best, so that zero weights are judged by that."""
        self._descend(r, np.empty(0, np.int64), 1e-12, 30 if self.fit_intercept else 0)

    def _descend(self, r: int, chosen: np.ndarray, goal: float, steps: int) -> None:
        n, dtype = len(self.weights), self.theta.dtype
        slopes, bends, change = (np.empty(n, dtype) for _ in range(3))
        rows = Rows(self.weights, self._signs(r), slopes, bends, change)
        w = self.W[chosen, r].astype(np.float64)
        intercept = np.array([self.b[r]] if self.fit_intercept else [], np.float64)
        value = descend(
            self.X.layout, self.loss, self.penalty, r, rows, self.Z[r], chosen, w, intercept, goal, SET_SHARE, steps
        )  # fmt: skip
        self.W[chosen, r] = w
        if self.fit_intercept:
            self.b[r] = intercept[0]
        self.values[r] = value

    def _signs(self, r: int) -> np.ndarray:
        rows, starts = self.positive
        signs = np.full(len(self.weights), -1.0, np.float32)
        signs[rows[starts[r] : starts[r + 1]]] = 1.0
        return signs

    def _each(self, task: Callable[[int, int], None], every: bool = False) -> None:
        """Run a task for the open columns (or all), with the column's number and its place among them."""
        columns = np.arange(len(self.values)) if every else self.open
        pool.run([partial(task, int(r), c) for c, r in enumerate(columns)], self.threads)


def _sizes(X: Design) -> np.ndarray:
    """Stored entries of every column."""
    return np.full(X.shape[1], X.shape[0], np.int64) if X.is_dense else np.diff(X.layout.indptr).astype(np.int64)


def _scalars(objective: Objective) -> Scalars:
    """The penalty of single weights as λ1 and λ2 of every feature."""
    regulariser = objective.regulariser
    ratio = regulariser.penalty.l1_weight
    centres = np.zeros((0, 0)) if regulariser.centre is None else regulariser.centre.astype(np.float64)
    return Scalars(ratio * regulariser.strengths, (1.0 - ratio) * regulariser.strengths, centres)


def _reference(objective: Objective) -> float:
    """The violation of the zero model, by which violations are measured where there is no gap."""
    zero = objective.start(np.float64)
    _, gradient = objective.loss_and_gradient(zero)
    W, b = objective.split(gradient)
    largest = float(np.max(objective.regulariser.violation(objective.split(zero)[0], W), initial=0.0))
    return max(largest, float(np.linalg.norm(b)))
