"""State of block coordinate descent on groups: parameters, and the scores and gradients of all rows.

Every update keeps the scores and gradients up to date. Memory: 2·n·k numbers in the precision of X.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lineal.core import threads as pool
from lineal.design.orders import by_columns
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem import row_sums
from lineal.problem.loop_state import put
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd.group_descent import GroupProblem, Parameters, RowState, expand
from lineal.solvers.block_cd.loop import State

#: Rows whose gradients one thread computes at a time.
RANGE_ROWS = 2048


class GroupState(State):
    """Parameters θ, scores Z and weighted gradients R of all rows, and X by columns.

    `curvatures` are the first L_g of the groups, if every row had a curvature of `curvature`.
    """

    state_names: ClassVar[tuple[str, ...]] = ("theta", "Z", "R", "curvatures", "intercept_curvature")

    def __init__(
        self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int, curvature: float
    ) -> None:
        self.theta, self.tol, self.threads, self.engine = theta, tol, threads, engine
        self.X = by_columns(engine.X, threads)
        self.by_columns = replace(objective, engine=replace(engine, X=self.X, threads=threads))
        self.loss, self.target = objective.loss, objective.regulariser
        self.W, b = objective.split(theta)
        self.b = b if objective.fit_intercept else np.empty(0, theta.dtype)
        n, k = engine.shape[0], engine.n_columns
        self.squares = self.target.by_group(objective.moments[1][:, 0])
        self.unit = objective.unit
        # The loss does not depend on the weights of an empty group, so no update would see a curvature. A start may
        # have such weights, and the penalty alone makes them zero.
        self.W[self.target.features_of((self.squares == 0.0) & (self.target.strengths > 0.0))] = 0.0
        self.curvatures = curvature * self.squares
        self.intercept_curvature = np.array([self.loss.typical_curvature(k)])
        self.parameters = Parameters(self.W, self.b, self.curvatures, self.intercept_curvature)
        self.Z, self.R = np.empty((n, k), theta.dtype), np.empty((n, k), theta.dtype)
        weights, stamps = engine.weights.astype(theta.dtype), np.zeros(n + 1, np.int64)
        self.rows = RowState(engine.targets, weights, self.Z.reshape(-1), self.R.reshape(-1), stamps, k)
        self.refresh()

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; kernels refer to the arrays of this class."""
        if name in GroupState.state_names:
            put(getattr(self, name), value)
        else:
            super().restore_part(name, value)

    def refresh(self) -> None:
        """Compute the scores from the weights again: rounding errors of many updates add up."""
        matmul(self.X, np.ascontiguousarray(self.W), out=self.Z, threads=self.threads)
        if len(self.b):
            self.Z += self.b
        if self.engine.offsets is not None:
            self.Z += self.engine.offsets
        self.expand()

    def expand(self) -> None:
        """Compute the gradients of all rows from their scores."""
        n = len(self.Z)
        ranges = [(start, min(start + RANGE_ROWS, n)) for start in range(0, n, RANGE_ROWS)]
        pool.run([partial(expand, self.loss, self.rows, *bounds) for bounds in ranges], self.threads)

    def gradient(self) -> np.ndarray:
        """Gradient of the loss term with respect to W."""
        return rmatmul(self.X, self.R, threads=self.threads, dtype=np.float64)

    def problem(self, regulariser: Regulariser) -> GroupProblem:
        """The objective with this penalty term, as kernels see it."""
        return GroupProblem(self.loss, regulariser.penalty, self.X.layout, regulariser.groups, regulariser.strengths)

    def objective(self) -> float:
        """Value of the objective at θ."""
        block = Block(self.X, self.engine.targets, self.engine.weights, None, self.threads)
        return row_sums.values(self.loss, block, self.Z) + self.target.value(np.ascontiguousarray(self.W))

    def certificate(self) -> Certificate:
        """Certificate of θ."""
        return self.by_columns.certificate(self.theta, self.tol)

    def intercept_violation(self) -> float:
        """Norm of the gradient with respect to the intercept, in units of the features."""
        return self.unit * float(np.linalg.norm(self.R.sum(axis=0, dtype=np.float64))) if len(self.b) else 0.0
