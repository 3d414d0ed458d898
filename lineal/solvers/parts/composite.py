"""F = f + αΩ as the proximal methods see it: value and gradient of the smooth part f, and steps through the prox of αΩ.

The intercept is that of the centred features (`centred.py`), and the prox leaves it alone.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block
from lineal.objective import Objective
from lineal.solution import Certificate
from lineal.solvers.parts.centred import Centred
from lineal.solvers.parts.vectors import dot

#: Relative error of the largest eigenvalue, which is found from below and hence raised by as much.
EIGENVALUE_ERROR = 0.02


class Composite:
    """f, ∇f and proximal steps by W and b̃."""

    def __init__(self, objective: Objective, threads: int) -> None:
        self.objective, self.threads = objective, threads
        self.centred = Centred(objective)
        self.inside, self.outside = self.centred.inside, self.centred.outside

    def loss(self, theta: np.ndarray) -> float:
        """f(θ)."""
        W, _ = self.objective.split(theta)
        return self.objective.value(self.outside(theta)) - self.objective.regulariser.value(W)

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """f(θ) and ∇f(θ)."""
        return self.centred.loss_and_gradient(theta)

    def penalty(self, theta: np.ndarray) -> float:
        """αΩ(W)."""
        return self.objective.regulariser.value(self.objective.split(theta)[0])

    def step(self, theta: np.ndarray, gradient: np.ndarray, curvature: float) -> np.ndarray:
        """argmin over θ' of ∇f'(θ' − θ) + ½·curvature·‖θ' − θ‖² + αΩ(W')."""
        moved = theta - (gradient / curvature).astype(theta.dtype, copy=False)
        W, _ = self.objective.split(moved)
        self.objective.regulariser.prox(W, 1.0 / curvature, out=W)
        return moved

    def least_curvature(self) -> float:
        """Of the directions along single features, the largest that f can have: what a search may begin with."""
        loss, (_, squares) = self.objective.loss, self.objective.moments
        largest = float(squares.max(initial=0.0))
        k = self.objective.engine.n_columns
        return max(loss.typical_curvature(k) * largest, np.finfo(np.float64).tiny ** 0.5)

    def spectral_curvature(self) -> float:
        """A bound of the curvature of f everywhere: that of a row's loss times the largest eigenvalue of X'SX."""
        k = self.objective.engine.n_columns
        return max(self.objective.loss.lipschitz(k) * self._largest_eigenvalue(), np.finfo(np.float64).tiny ** 0.5)

    def trace_curvature(self) -> float:
        """The looser bound of Blondel, Seki & Uehara (2013), appendix A: the trace in place of the eigenvalue."""
        loss, k = self.objective.loss, self.objective.engine.n_columns
        constant = loss.pairwise_lipschitz(k) if hasattr(loss, "pairwise_lipschitz") else loss.lipschitz(k)
        total = math.fsum(self.objective.moments[1][:, 0]) + self.objective.fit_intercept
        return max(constant * total, np.finfo(np.float64).tiny ** 0.5)

    def _largest_eigenvalue(self) -> float:
        d, means = self.objective.engine.shape[1], self.centred.means
        floor = 1.0 if self.objective.fit_intercept else 0.0  # b̃ has a curvature of its own
        if d == 0:
            return floor

        def product(v: np.ndarray) -> np.ndarray:
            V = np.ascontiguousarray(v.reshape(-1, 1), dtype=np.float64)

            def gram(block: Block) -> tuple[np.ndarray]:
                scores = matmul(block.X, V, threads=block.threads)
                return (rmatmul(block.X, scores * block.weights[:, None], threads=block.threads),)

            (out,) = self.objective.engine.sum(gram)
            return out[:, 0] if means is None else out[:, 0] - means[:, 0] * dot(means, V)

        if d < 3:
            matrix = np.stack([product(column) for column in np.eye(d)])
            return max(floor, float(np.linalg.eigvalsh(matrix)[-1]))
        operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
        start = np.sqrt(self.objective.moments[1][:, 0]) + np.finfo(np.float64).tiny ** 0.25
        (found,) = eigsh(operator, k=1, v0=start, tol=EIGENVALUE_ERROR, return_eigenvectors=False)
        return max(floor, float(found) * (1.0 + EIGENVALUE_ERROR))


class GapSchedule:
    """Certificates at iterations that grow by a fixed factor, so that all of them cost little beside the iterations."""

    def __init__(self, composite: Composite, tol: float, growth: float = 1.25) -> None:
        self.composite, self.tol, self.growth = composite, tol, growth
        self.next = 1
        self.estimate = math.inf
        self.last: tuple[np.ndarray, Certificate] | None = None

    def is_reached(self, iteration: int, theta: np.ndarray) -> bool:
        """Whether a certificate was due and meets tol."""
        if iteration < self.next and iteration > 0:
            return False
        self.next = max(iteration + 1, math.ceil(self.growth * iteration))
        return self.certificate(theta).meets(self.tol)

    def certificate(self, theta: np.ndarray) -> Certificate:
        """Of θ; remembered, since the last one asked for is usually asked for again."""
        if self.last is None or self.last[0] is not theta:
            objective = self.composite.objective
            self.last = (theta, objective.certificate(self.composite.outside(theta), self.tol))
            self.estimate = self.last[1].value
        return self.last[1]
