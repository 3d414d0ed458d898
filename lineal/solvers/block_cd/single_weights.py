"""Penalties of single weights: every score column is a separate problem, with its own working set and duality gap.

Proximal Newton steps improve a column on its working set (`proximal_newton.py`); `block_cd.py` explains the method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.design import Design
from lineal.design.orders import by_columns
from lineal.design.products import matmul, rmatmul
from lineal.engine.local import LocalEngine
from lineal.problem.loop_state import put
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd import score_columns, working_set
from lineal.solvers.block_cd.loop import State
from lineal.solvers.block_cd.proximal_newton import ColumnProblem, ColumnRows, WeightPenalty, descend

#: A working set has converged when its largest violation is this fraction of the largest of all features.
SET_FRACTION = 0.1

#: Fraction of the entries of X that a working set may always add, and relative growth of a larger working set.
LEAST, GROWTH = 0.25, 0.5

#: Proximal Newton steps per working set.
MAX_STEPS = 2

#: A dual point that must be scaled by less than this is hardly better than zero: its value is not computed.
SMALLEST_SCALE = 0.1


class SingleWeights(State):
    """Parameters θ, their scores, and what is known about the optimality of each score column."""

    state_names = (
        "theta", "Z", "fraction", "active", "violations", "gaps", "scales", "values", "penalties", "working_sets",
    )  # fmt: skip

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        self.theta, self.tol, self.threads = theta, tol, threads
        self.X = by_columns(engine.X, threads)
        self.by_columns = replace(objective, engine=replace(engine, X=self.X, threads=threads))
        self.loss, self.fit_intercept = objective.loss, objective.fit_intercept
        self.W, self.b = objective.split(theta)
        self.weights, self.offsets = engine.weights, engine.offsets
        self.penalty = _weight_penalty(objective)
        self.sizes = _sizes(self.X)
        self.least = int(LEAST * self.sizes.sum())
        n, k = engine.shape[0], engine.n_columns
        self.positive = score_columns.by_label(engine.targets, n, k)
        self.is_gap = bool(np.all(objective.regulariser.strengths > 0.0))
        self.reference = 1.0 if self.is_gap else _reference(objective) / math.sqrt(k)
        self.fraction = 0.9  # of tol that a column must reach
        self.active = np.arange(k)  # columns that have not converged
        self.violations, self.gaps, self.scales = np.zeros(k), np.full(k, np.inf), np.ones(k)
        self.values, self.penalties = np.zeros(k), np.zeros(k)
        self.sets: dict[int, np.ndarray] = {}
        self.refresh()
        self._each(self._start)

    @property
    def working_sets(self) -> list[np.ndarray]:
        """Working sets of the active columns."""
        return [self.sets[r] for r in self.active.tolist() if r in self.sets]

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "theta":
            put(self.theta, value)
        elif name == "working_sets":
            self.sets = dict(zip(self.active.tolist(), value))
        else:
            super().restore_part(name, value)

    def refresh(self) -> None:
        """Compute the scores from the weights again: rounding errors of many updates add up."""
        Z = matmul(self.X, np.ascontiguousarray(self.W), threads=self.threads)
        Z += self.b
        if self.offsets is not None:
            Z += self.offsets
        self.Z = np.ascontiguousarray(Z.T)  # each score column is contiguous

    def objective(self) -> float:
        """Value of the objective at θ."""
        return float(self.values.sum() + self.penalties.sum())

    def estimate(self) -> float:
        """Relative gap of all columns together, or the largest relative violation."""
        if not self.is_gap:
            return float(self.violations.max(initial=0.0)) / self.reference if self.reference > 0.0 else 0.0
        value = self.objective()
        return float(self.gaps.sum()) / value if value > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether to compute the certificate: all columns have converged, or the estimate meets `tol`."""
        return len(self.active) == 0 or self.estimate() <= self.fraction * self.tol

    def accepts(self, certificate: Certificate) -> bool:
        """Whether the certificate meets `tol`."""
        return certificate.meets(self.tol)

    def tighten(self) -> None:
        """Require smaller gaps of all columns, from exact scores, since the certificate was worse than the estimate."""
        self.fraction *= 0.3
        self.active = np.arange(len(self.values))
        self.refresh()
        self.measure()

    def certificate(self) -> Certificate:
        """Certificate of θ, with the dual point of the estimates."""
        dual_point = None
        if self.is_gap and np.isfinite(self.gaps).all():
            dual_point = np.empty(self.Z.T.shape)
            rounding = 1e-8 if self.theta.dtype == np.float64 else 1e-3  # of the gradient, relative to λ1
            scales = (1.0 - min(rounding, 1e-2 * self.tol)) * self.scales  # feasible in float64, too

            def fill(r: int, c: int) -> None:
                score_columns.dual_column(self.loss, self._signs(r), self.Z[r], scales[r], dual_point, r)

            self._each(fill, every=True)
        return self.by_columns.certificate(self.theta, self.tol, dual_point)

    def measure(self) -> None:
        """Compute gradients, violations and gaps of the active columns, and the working sets of the next iteration."""
        n, (d, _) = len(self.weights), self.W.shape
        R = np.empty((n, len(self.active)), self.theta.dtype)
        self._each(lambda r, c: score_columns.derivatives(self.loss, self._signs(r), self.weights, self.Z[r], R, c))
        self.G = rmatmul(self.X, R, threads=self.threads)

        def measure_column(r: int, c: int) -> None:
            violations, is_free = np.empty(d), np.empty(d, np.bool_)
            largest, excess, total = working_set.survey(self.penalty, r, self.G, c, self.W, violations, is_free)
            of_intercept = abs(float(R[:, c].sum(dtype=np.float64))) if self.fit_intercept else 0.0
            self.violations[r], self.penalties[r] = max(largest, of_intercept), total
            if self.is_gap:
                self._gap(r, c, excess, of_intercept)
            self.sets[r] = working_set.choose(violations, is_free, largest, self.sizes, self.least, GROWTH)

        self.sets = {}
        self._each(measure_column)
        if self.is_gap:
            done = self.gaps <= self.fraction * self.tol * (self.values + self.penalties)
        else:
            done = self.violations <= self.fraction * self.tol * self.reference
        self.active = self.active[~done[self.active]]

    def _gap(self, r: int, c: int, excess: float, of_intercept: float) -> None:
        """Compute the gap of column r; an imbalance Σ s u ≠ 0 adds |b| times as much, as in the certificate."""
        scale = 1.0 / excess if excess > 1.0 else 1.0
        if scale < SMALLEST_SCALE:
            scale, dual = 0.0, 0.0
        else:
            offsets = np.zeros(0) if self.offsets is None else self.offsets[:, r]
            dual = score_columns.dual_value(self.loss, self._signs(r), self.weights, self.Z[r], scale, offsets)
            dual -= working_set.conjugate(self.penalty, r, self.G, c, scale)
        gap = self.values[r] + self.penalties[r] - dual
        self.scales[r], self.gaps[r] = scale, abs(gap) + of_intercept * abs(float(self.b[r]))

    def improve(self) -> None:
        """Do proximal Newton steps for every active column on its working set."""
        self._each(lambda r, c: self._descend(r, self.sets[r], SET_FRACTION * float(self.violations[r]), MAX_STEPS))

    def _start(self, r: int, c: int) -> None:
        """Compute the loss at the start with the best intercept, since violations of zero weights depend on it."""
        self._descend(r, np.empty(0, np.int64), 1e-12, 30 if self.fit_intercept else 0)

    def _descend(self, r: int, chosen: np.ndarray, goal: float, max_steps: int) -> None:
        """Do proximal Newton steps for column r on the chosen features."""
        scratch = [np.empty(len(self.weights), self.theta.dtype) for _ in range(3)]
        rows = ColumnRows(self.weights, self._signs(r), self.Z[r], *scratch)
        problem = ColumnProblem(self.X.layout, self.loss, self.penalty, r, chosen)
        w = self.W[chosen, r].astype(np.float64)
        intercept = np.array([self.b[r]] if self.fit_intercept else [], np.float64)
        value = descend(problem, rows, w, intercept, goal, SET_FRACTION, max_steps)
        self.W[chosen, r] = w
        if self.fit_intercept:
            self.b[r] = intercept[0]
        self.values[r] = value

    def _signs(self, r: int) -> np.ndarray:
        """Targets of column r: +1 for rows with its label, −1 for the others."""
        rows, starts = self.positive
        signs = np.full(len(self.weights), -1.0, np.float32)
        signs[rows[starts[r] : starts[r + 1]]] = 1.0
        return signs

    def _each(self, task: Callable[[int, int], None], every: bool = False) -> None:
        """Run a task for each active column (or every column), with its number and its position among them."""
        columns = np.arange(len(self.values)) if every else self.active
        pool.run([partial(task, int(r), c) for c, r in enumerate(columns)], self.threads)


def _sizes(X: Design) -> np.ndarray:
    """Number of stored entries of every feature."""
    return np.full(X.shape[1], X.shape[0], np.int64) if X.is_dense else np.diff(X.layout.indptr).astype(np.int64)


def _weight_penalty(objective: Objective) -> WeightPenalty:
    """The penalty of single weights as λ1 and λ2 per feature."""
    regulariser = objective.regulariser
    ratio = regulariser.penalty.l1_weight
    centres = np.zeros((0, 0)) if regulariser.centre is None else regulariser.centre.astype(np.float64)
    return WeightPenalty(ratio * regulariser.strengths, (1.0 - ratio) * regulariser.strengths, centres)


def _reference(objective: Objective) -> float:
    """Violation of the zero model, to which violations are relative if there is no gap."""
    zero = objective.start(np.float64)
    _, gradient = objective.loss_and_gradient(zero)
    W, b = objective.split(gradient)
    largest = float(np.max(objective.regulariser.violation(objective.split(zero)[0], W), initial=0.0))
    return max(largest, float(np.linalg.norm(b)))
