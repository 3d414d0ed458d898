"""Working sets of blocks (rows of W, or groups of rows) for block coordinate descent: which to visit, and when to end.

A look at all blocks costs one product with X: gradients, violations of the penalty's optimality conditions, and the
next working set (`working_set.py`). Between two looks only blocks of the set are visited (`block_descent.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.design.orders import by_columns
from lineal.design.products import matmul, rmatmul
from lineal.engine.local import LocalEngine
from lineal.objective import Objective
from lineal.solution import Certificate
from lineal.solvers.parts import working_set
from lineal.solvers.parts.block_descent import RowState, descend, expand

#: A working set is left when its largest violation is this share of the largest of all blocks.
SET_SHARE = 0.2

#: Share of the entries of X that a working set may always gain, and growth of the entries of one that is larger.
LEAST, GROWTH = 0.1, 1.0

#: Sweeps over one working set.
SWEEPS = 10

#: Rows of a chunk whose gradients one thread computes.
CHUNK_ROWS = 2048


class RowBlocks:
    """θ, scores and gradients of all rows, and what is known of the optimality of every block."""

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        self.theta, self.tol, self.threads, self.engine = theta, tol, threads, engine
        self.X = by_columns(engine.X, threads)
        self.by_columns = replace(objective, engine=replace(engine, X=self.X, threads=threads))
        self.loss, self.regulariser = objective.loss, objective.regulariser
        self.W, b = objective.split(theta)
        self.b = b if objective.fit_intercept else np.empty(0, theta.dtype)
        n, k = engine.shape[0], engine.n_columns
        sizes = np.full(self.X.shape[1], n) if self.X.is_dense else np.diff(self.X.layout.indptr)
        self.sizes = self._by_block(sizes.astype(np.int64))
        self.least = int(LEAST * self.sizes.sum())
        self.curvatures = self.loss.typical_curvature(k) * self._by_block(objective.moments[1][:, 0])
        self.bend = np.array([self.loss.typical_curvature(k)])
        Z, R = np.empty((n, k), theta.dtype), np.empty((n, k), theta.dtype)
        self.rows = RowState(engine.weights, Z, R, np.empty(n), np.zeros(n + 1, np.int64))
        self.first = 0.0
        self.wait = math.inf
        self.found: tuple[float, Certificate] | None = None
        self.refresh()
        if len(self.b):
            self._descend(np.empty(0, np.int64), 1e-10, 50)  # zero weights are judged by their best intercept

    def _by_block(self, numbers: np.ndarray) -> np.ndarray:
        blocks = self.regulariser.blocks
        if not blocks.features.size:
            return np.ascontiguousarray(numbers)
        return np.add.reduceat(numbers[blocks.features], blocks.offsets[:-1])

    def refresh(self) -> None:
        """Scores anew from the weights: sums of many steps drift."""
        matmul(self.X, np.ascontiguousarray(self.W), out=self.rows.Z, threads=self.threads)
        if len(self.b):
            self.rows.Z[:] += self.b
        if self.engine.offsets is not None:
            self.rows.Z[:] += self.engine.offsets
        n = len(self.rows.Z)
        chunks = [(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]
        tasks = [partial(expand, self.loss, self.engine.targets, self.rows, *chunk) for chunk in chunks]
        pool.run(tasks, self.threads)

    def objective(self) -> float:
        """F(θ)."""
        return float(self.rows.weights @ self.rows.losses) + self.regulariser.value(np.ascontiguousarray(self.W))

    def look(self) -> None:
        """Violations of all blocks, and the next working set."""
        W = np.ascontiguousarray(self.W)
        gradient = rmatmul(self.X, self.rows.R, threads=self.threads, dtype=np.float64)
        violations = self.regulariser.violation(W, gradient)
        off_balance = np.linalg.norm(self.rows.R.sum(axis=0, dtype=np.float64)) if len(self.b) else 0.0
        self.largest = max(float(violations.max(initial=0.0)), float(off_balance))
        self.first = max(self.first, self.largest)
        is_free = ~self.regulariser.zero_blocks(W) | (self.regulariser.strengths == 0.0)
        self.chosen = working_set.choose(violations, is_free, self.largest, self.sizes, self.least, GROWTH)

    def estimate(self) -> float:
        """Relative gap, if violations tell; the last certificate says how much they mean."""
        if self.found is not None:
            violation, certificate = self.found
            return certificate.value * self.largest / violation if violation > 0.0 else certificate.value
        return self.largest / self.first if self.first > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether the certificate is worth computing."""
        return self.estimate() <= self.tol or self.largest == 0.0

    def tighten(self) -> None:
        """The certificate was not as good as the estimate: go on from exact scores."""
        self.refresh()
        self.look()

    def certificate(self) -> Certificate:
        """Of θ."""
        certificate = self.by_columns.certificate(self.theta, self.tol)
        self.found = (self.largest, certificate)
        return certificate

    def improve(self) -> None:
        """Sweeps over the working set."""
        self._descend(self.chosen, SET_SHARE * self.largest, SWEEPS)

    def _descend(self, chosen: np.ndarray, goal: float, sweeps: int) -> None:
        regulariser = self.regulariser
        descend(
            self.loss, regulariser.penalty, self.X.layout, self.engine.targets, self.rows, regulariser.blocks.offsets,
            regulariser.blocks.features, regulariser.strengths, chosen, self.curvatures, self.W, self.b, self.bend,
            goal, sweeps,
        )  # fmt: skip
