"""What softmax and Crammer–Singer share: ∇ℓ(z) = p − e_y with p in the simplex.

Balance with a free intercept asks Σ_i s_i p_i = N, the class weights, where all weights add up to one. Any p is mended
by mixing: with T = Σ_i s_i p_i take p' = (1 − λ)p + N − (1 − λ)T, where 1 − λ = min(1, min_r N_r/T_r) is the largest
share that leaves the added part non-negative. It adds up to λ, so p' is in the simplex again.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.maths import wide


class SimplexLoss:
    """Mixin: a loss gives `row_choice`, which writes p and returns ℓ, and `conjugate_term`, so that ℓ* is their sum."""

    __slots__ = ()

    is_smooth: ClassVar[bool] = True
    is_direct: ClassVar[bool] = True
    takes_label_sets: ClassVar[bool] = False
    has_conjugate: ClassVar[bool] = True
    n_sums: ClassVar[int] = 1
    link: ClassVar[str | None] = None
    #: Least curvature of ℓ* on its domain, of losses whose `row_dual_ascent` is known; None elsewhere.
    dual_curvature: ClassVar[float | None] = None
    #: Whether most classes of a row have none of the best p.
    has_sparse_duals: ClassVar[bool] = False

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

    def gradient_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        work = np.empty(k)
        self.row_gradient(labels, Z[at : at + k], work, R[at : at + k])
        for r in range(k):
            R[at + r] *= weight

    def row_conjugate(self, labels, u, work):
        """ℓ*(u), infinite where u + e_y leaves the simplex."""
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

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write the repaired gradient at z to `u`; returns ℓ(z) and −ℓ*(u)."""
        value = self.row_gradient(labels, z, work, u)
        return value, self.row_dual_repair(labels, u, repair, scale, work, u)

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

    def reference_classes(self, class_weights: np.ndarray) -> int:
        """Not used: all classes are balanced together."""
        return 0

    def identity_repair(self, k: int) -> np.ndarray:
        """The repair that changes nothing."""
        return np.stack([np.zeros(k), np.ones(k)])

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: int) -> np.ndarray | None:
        """Shift (row 0) and share kept (row 1) that make Σ s p equal to the class weights."""
        found = sums[0]
        largest = np.maximum(np.maximum(found, class_weights), np.finfo(np.float64).tiny)
        share = float(np.min(class_weights / largest))  # min(1, N/T)
        shift = np.maximum(class_weights - share * found, 0.0)
        return np.stack([shift, np.full_like(found, share)])
