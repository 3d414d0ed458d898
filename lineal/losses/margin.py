"""Common part of the one-vs-rest losses: the loss of a row is the sum over columns of ℓ(t_r, z_r), with t = ±1.

A loss of this kind defines `value`, `derivative`, `curvature` and `conjugate` of one score, and what `Loss` asks of all
losses from Python; everything else follows.

Repair: the domain of the conjugate is an interval from 0 to one side, so that in every column the larger of the two
sums (over positive and over negative rows) can be scaled down to the other.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.losses.base import Loss


class MarginLoss(Loss):
    """Base of the losses that consider one score at a time."""

    __slots__ = ()
    takes_label_sets: ClassVar[bool] = True
    n_sums: ClassVar[int] = 2

    # --- called inside kernels

    def signs(self, labels, out):
        """Write t_r = +1 for the row's labels and -1 elsewhere."""
        for r in range(out.shape[0]):
            out[r] = -1.0
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                out[labels[p]] = 1.0

    def value_and_derivative(self, t, z):
        """Value and derivative together, for losses in which they share work."""
        return self.value(t, z), self.derivative(t, z)

    def curvature_beside(self, t, z, derivative):
        """Curvature if the derivative at z is already known, for losses that can use it."""
        return self.curvature(t, z)

    def expansion(self, t, z):
        """Value, derivative and curvature together."""
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

    def value_and_gradient_at(self, labels, Z, at, k, weight, work, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z, and return ℓ."""
        total, p = 0.0, 0
        for r in range(k):
            is_label = p < labels.shape[0] and labels[p] == r
            p += 1 if is_label else 0
            value, derivative = self.value_and_derivative(1.0 if is_label else -1.0, wide(Z[at + r]))
            R[at + r] = weight * derivative
            total += value
        return total

    def curvature_at(self, labels, Z, at, k, weight, V, place, work, R):
        """Write weight·∇²ℓ(Z[at : at+k]) times V[place : place+k] to R[place : place+k], in the precision of R."""
        p = 0
        for r in range(k):
            is_label = p < labels.shape[0] and labels[p] == r
            p += 1 if is_label else 0
            R[place + r] = weight * self.curvature(1.0 if is_label else -1.0, wide(Z[at + r])) * wide(V[place + r])

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
        """Conjugate ℓ*(u), infinite outside its domain."""
        self.signs(labels, work)
        total = 0.0
        for r in range(u.shape[0]):
            total += self.conjugate(work[r], wide(u[r]))
        return total

    def row_balance(self, labels, u, weight, references, work, sums):
        """Add the weighted dual point of a row: to row 0 of `sums` in its label columns, to row 1 in all others."""
        self.signs(labels, work)
        for r in range(u.shape[0]):
            sums[0 if work[r] > 0.0 else 1, r] += weight * wide(u[r])

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

    def identity_repair(self, k: int) -> np.ndarray:
        """Factors of one, which change nothing."""
        return np.ones((2, k))

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Factors for the columns that are labels (row 0) and those that are not (row 1): both sums become equal."""
        sizes = np.maximum(np.abs(sums), np.finfo(np.float64).tiny)
        return np.minimum(sizes, sizes[::-1]) / sizes


def log_odds(shares: np.ndarray) -> np.ndarray:
    """Log odds log(p / (1 − p)), kept finite for labels that all rows or no rows have."""
    positive = np.clip(shares, 1e-12, 1.0 - 1e-12)
    return np.log(positive) - np.log1p(-positive)
