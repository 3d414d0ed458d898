"""Common part of the softmax and Crammer–Singer losses: ∇ℓ(z) = p − e_y with p in the simplex.

Repair: a dual point is feasible if Σ_i s_i p_i = N, the class weights, where all weights add up to one. Any p is made
feasible by mixing: with T = Σ_i s_i p_i take p' = (1 − λ)p + N − (1 − λ)T, where 1 − λ = min(1, min_r N_r/T_r) is the
largest factor that leaves the added part non-negative. That part adds up to λ, so p' is in the simplex again.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.losses.base import Loss


class SimplexLoss(Loss):
    """A loss of this kind defines `row_choice`, which writes p and returns ℓ, and `conjugate_term`: ℓ* is their sum."""

    __slots__ = ()
    is_direct: ClassVar[bool] = True

    def row_value(self, labels, z, work):
        """Loss of one row."""
        return self.row_choice(labels, z, work)

    def row_gradient(self, labels, z, work, gradient):
        """Write p − e_y and return the loss of the row."""
        value = self.row_choice(labels, z, work)
        others = 0.0
        for r in range(z.shape[0]):
            gradient[r] = work[r]
            others += work[r] if r != labels[0] else 0.0
        gradient[labels[0]] = -others  # p_y − 1 without its cancellation
        return value

    def row_conjugate(self, labels, u, work):
        """Conjugate ℓ*(u), infinite if u + e_y is outside the simplex."""
        total = 0.0
        value = 0.0
        for r in range(u.shape[0]):
            is_label = r == labels[0]
            if wide(u[r]) < (-1.0 if is_label else 0.0) - 1e-6:
                return math.inf
            total += wide(u[r])
            value += self.conjugate_term(wide(u[r]), is_label)
        return value if abs(total) < 1e-5 else math.inf

    def row_balance(self, labels, u, weight, references, work, sums):
        """Add the weighted p of a row's dual point u = p − e_y."""
        for r in range(u.shape[0]):
            sums[0, r] += weight * (wide(u[r]) + (1.0 if r == labels[0] else 0.0))

    def row_dual_repair(self, labels, u, repair, scale, work, out):
        """Write a given dual point, repaired, to `out` (which may be u) and return −ℓ* of it."""
        others = 0.0
        for r in range(u.shape[0]):
            if r != labels[0]:
                out[r] = scale * (repair[1, 0] * max(wide(u[r]), 0.0) + repair[0, r])
                others += wide(out[r])
        if others > 1.0:  # p_y would be negative
            for r in range(u.shape[0]):
                out[r] = wide(out[r]) / others
            others = 1.0
        out[labels[0]] = -others
        return -self.row_conjugate(labels, out, work)

    def identity_repair(self, k: int) -> np.ndarray:
        """Repair that changes nothing."""
        return np.stack([np.zeros(k), np.ones(k)])

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Summand (row 0) and factor 1 − λ (row 1) of p that make Σ s p equal to the class weights."""
        totals = sums[0]
        largest = np.maximum(np.maximum(totals, class_weights), np.finfo(np.float64).tiny)
        factor = float(np.min(class_weights / largest))  # min(1, N/T)
        added = np.maximum(class_weights - factor * totals, 0.0)
        return np.stack([added, np.full_like(totals, factor)])
