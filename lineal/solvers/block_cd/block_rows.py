"""What block coordinate descent keeps of the rows: their scores and gradients, up to date after every step.

Memory: 2·n·k numbers in the precision of X.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.design.orders import by_columns
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.problem import row_sums
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd.descent import RowState, expand

#: Rows of a chunk whose gradients one thread computes.
CHUNK_ROWS = 2048


class BlockRows:
    """θ, scores Z and weighted gradients R of all rows, and X by columns."""

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        self.theta, self.tol, self.threads, self.engine = theta, tol, threads, engine
        self.X = by_columns(engine.X, threads)
        self.by_columns = replace(objective, engine=replace(engine, X=self.X, threads=threads))
        self.loss, self.target = objective.loss, objective.regulariser
        self.W, b = objective.split(theta)
        self.b = b if objective.fit_intercept else np.empty(0, theta.dtype)
        n, k = engine.shape[0], engine.n_columns
        self.squares = self.target.by_group(objective.moments[1][:, 0])
        self.unit = objective.unit
        # No loss holds a weight of an empty block: a start may have some, and no step would see a curvature there.
        self.W[self.target.features_of((self.squares == 0.0) & (self.target.strengths > 0.0))] = 0.0
        self.bend = np.array([self.loss.typical_curvature(k)])
        self.Z, self.R = np.empty((n, k), theta.dtype), np.empty((n, k), theta.dtype)
        stamps = np.zeros(n + 1, np.int64)
        self.rows = RowState(engine.weights.astype(theta.dtype), self.Z.reshape(-1), self.R.reshape(-1), stamps)
        self.refresh()

    def refresh(self) -> None:
        """Scores anew from the weights: sums of many steps drift."""
        matmul(self.X, np.ascontiguousarray(self.W), out=self.Z, threads=self.threads)
        if len(self.b):
            self.Z += self.b
        if self.engine.offsets is not None:
            self.Z += self.engine.offsets
        self.expand()

    def expand(self) -> None:
        """Gradients of all rows from their scores."""
        n, k = self.Z.shape
        chunks = [(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]
        tasks = [partial(expand, self.loss, self.engine.targets, self.rows, k, *chunk) for chunk in chunks]
        pool.run(tasks, self.threads)

    def gradient(self) -> np.ndarray:
        return rmatmul(self.X, self.R, threads=self.threads, dtype=np.float64)

    def objective(self) -> float:
        """F(θ)."""
        block = Block(self.X, self.engine.targets, self.engine.weights, None, self.threads)
        return row_sums.values(self.loss, block, self.Z) + self.target.value(np.ascontiguousarray(self.W))

    def certificate(self) -> Certificate:
        """Of θ."""
        return self.by_columns.certificate(self.theta, self.tol)

    def off_balance(self) -> float:
        """Norm of the gradient by the intercept, in units of the features."""
        return self.unit * float(np.linalg.norm(self.R.sum(axis=0, dtype=np.float64))) if len(self.b) else 0.0
