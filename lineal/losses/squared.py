"""Squared loss on ±1 targets, ℓ(t, z) = ½(z − t)²: least-squares classification."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.margin import MarginLoss


@protocol
class Squared(MarginLoss, Fieldless):
    """ℓ = ½(z − t)²; ℓ*(u) = ½u² + tu everywhere, so a dual point is repaired by a shift of each column."""

    __slots__ = ()
    name: ClassVar[str] = "squared"
    is_quadratic: ClassVar[bool] = True

    def value(self, t, z):
        """Loss ½(z − t)²."""
        return 0.5 * (z - t) * (z - t)

    def derivative(self, t, z):
        """Derivative z − t."""
        return z - t

    def curvature(self, t, z):
        """Curvature: one."""
        return 1.0

    def conjugate(self, t, u):
        """Conjugate ½u² + tu."""
        return 0.5 * u * u + t * u

    def row_dual_repair(self, labels, u, repair, scale, work, out):
        """Write a given dual point, shifted, to `out` (which may be u) and return −ℓ* of it."""
        self.signs(labels, work)
        total = 0.0
        for r in range(u.shape[0]):
            out[r] = scale * (wide(u[r]) + repair[0, r])
            total -= self.conjugate(work[r], wide(out[r]))
        return total

    def lipschitz(self, k: int) -> float | None:
        """One, the curvature."""
        return 1.0

    def identity_repair(self, k: int) -> np.ndarray:
        """Repair that shifts nothing."""
        return np.zeros((1, k))

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Shift of each column: minus its mean derivative."""
        return -(sums[0] + sums[1])[None, :]

    def typical_curvature(self, k: int) -> float:
        """One, because the curvature is the same everywhere."""
        return 1.0

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Intercept: the mean of t."""
        return 2.0 * class_weights - 1.0


LOSS = Squared()
