"""What the one-vs-rest losses share: the loss of a row is the sum over columns of ℓ(t_r, z_r), with t = ±1.

A loss here gives `value`, `derivative`, `curvature` and `conjugate` of one score, and the `start_intercept` that is
best without features, for classes with the given shares of the weight; the rest follows.

Dual feasibility with a free intercept asks that Σ_i s_i u_ir = 0 in every column r. The domain of the conjugate is an
interval from 0 to one side, so the heavier of the two sides (positive and negative rows) can be scaled down.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide


class MarginLoss:
    """Mixin of the losses that see one score at a time."""

    __slots__ = ()

    is_smooth: ClassVar[bool] = True
    is_direct: ClassVar[bool] = False
    takes_label_sets: ClassVar[bool] = True
    has_conjugate: ClassVar[bool] = True
    #: Rows of the sums that `row_balance` adds to.
    n_sums: ClassVar[int] = 2
    #: Least curvature of ℓ* on its domain, of losses whose `dual_ascent` is known; None elsewhere.
    dual_curvature: ClassVar[float | None] = None
    #: How scores become probabilities: None, "logistic" (column by column) or "softmax".
    link: ClassVar[str | None] = None

    # --- called inside kernels: z are the scores of one row, labels its label columns, work a float64 scratch row

    def signs(self, labels, out):
        """Write t_r = +1 for the row's labels and -1 elsewhere."""
        for r in range(out.shape[0]):
            out[r] = -1.0
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                out[labels[p]] = 1.0

    def value_and_derivative(self, t, z):
        """Both at once, for losses that share work between them."""
        return self.value(t, z), self.derivative(t, z)

    def curvature_beside(self, t, z, derivative):
        """`curvature` where the derivative at z is known already, for losses that can make use of it."""
        return self.curvature(t, z)

    def expansion(self, t, z):
        """Value, derivative and curvature at once."""
        value, derivative = self.value_and_derivative(t, z)
        return value, derivative, self.curvature_beside(t, z, derivative)

    def row_value(self, labels, z, work):
        """Loss of one row."""
        self.signs(labels, work)
        total = 0.0
        for r in range(z.shape[0]):
            total += self.value(work[r], wide(z[r]))
        return total

    def row_gradient(self, labels, z, work, gradient):
        """Write ∇ℓ(z) to `gradient` and return the loss of the row."""
        self.signs(labels, work)
        total = 0.0
        for r in range(z.shape[0]):
            value, derivative = self.value_and_derivative(work[r], wide(z[r]))
            gradient[r] = derivative
            total += value
        return total

    def gradient_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        for r in range(k):
            R[at + r] = weight * self.derivative(-1.0, wide(Z[at + r]))
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                label = at + np.uintp(labels[p])
                R[label] = weight * self.derivative(1.0, wide(Z[label]))

    def add_diagonal(self, labels, Z, at, k, scale, out):
        """Add scale·∂²ℓ/∂z_r² of the scores Z[at : at+k] to every out[r]."""
        signs = np.empty(k)
        self.signs(labels, signs)
        for r in range(k):
            out[r] += scale * self.curvature(signs[r], wide(Z[at + r]))

    def row_curvature(self, labels, z, v, work, out):
        """Write ∇²ℓ(z)·v (a generalised Hessian where ℓ'' jumps)."""
        self.signs(labels, work)
        for r in range(z.shape[0]):
            out[r] = self.curvature(work[r], wide(z[r])) * wide(v[r])

    def row_conjugate(self, labels, u, work):
        """ℓ*(u), infinite outside of its domain."""
        self.signs(labels, work)
        total = 0.0
        for r in range(u.shape[0]):
            total += self.conjugate(work[r], wide(u[r]))
        return total

    def row_balance(self, labels, u, weight, references, work, sums):
        """Add what `repair` needs of a row's dual point: the weighted parts of its positive and negative columns."""
        self.signs(labels, work)
        for r in range(u.shape[0]):
            sums[0 if work[r] > 0.0 else 1, r] += weight * wide(u[r])

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write the repaired gradient at z to `u`; returns ℓ(z) and −ℓ*(u)."""
        value = self.row_gradient(labels, z, work, u)
        return value, self.row_dual_repair(labels, u, repair, scale, work, u)

    def row_dual_repair(self, labels, u, repair, scale, work, out):
        """Write a given dual point, repaired, to `out` (which may be u) and return −ℓ* of it."""
        self.signs(labels, work)
        total = 0.0
        for r in range(u.shape[0]):
            out[r] = scale * repair[0 if work[r] > 0.0 else 1, r] * wide(u[r])
            total -= self.conjugate(work[r], wide(out[r]))
        return total

    def dual_ascent_lanes(self, a, margin, q, one):
        """`dual_ascent` in a form that loops over columns can turn into vector instructions."""
        return self.dual_ascent(a, margin, q, one)

    # --- called from Python

    def reference_classes(self, class_weights: np.ndarray) -> int:
        """Not used: columns are balanced one by one."""
        return 0

    def identity_repair(self, k: int) -> np.ndarray:
        """The repair that changes nothing."""
        return np.ones((2, k))

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: int) -> np.ndarray | None:
        """Factors of the two sides that make Σ_i s_i u_i zero in every column; None where that is impossible."""
        heavy = np.maximum(np.abs(sums), np.finfo(np.float64).tiny)
        return np.minimum(heavy, heavy[::-1]) / heavy


def log_odds(shares: np.ndarray) -> np.ndarray:
    """log(p / (1 − p)), kept finite for labels that all or no rows have."""
    positive = np.clip(shares, 1e-12, 1.0 - 1e-12)
    return np.log(positive) - np.log1p(-positive)
