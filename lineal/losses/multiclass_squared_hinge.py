"""Multi-class squared hinge, ℓ(y, z) = Σ_{r ≠ y} max(1 − (z_y − z_r), 0)².

Eq. 2 of Blondel, Seki & Uehara, "Block coordinate descent algorithms for large-scale sparse multiclass
classification" (2013).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.pairs import PairLoss


@protocol
class MulticlassSquaredHinge(PairLoss, Fieldless):
    """With one label the pair variables are the entries of u: ℓ*(u) = Σ_{r ≠ y} (u_r²/4 − u_r), u_r ≥ 0, Σu = 0."""

    __slots__ = ()
    name: ClassVar[str] = "multiclass_squared_hinge"

    def row_value(self, labels, z, work):
        """Loss of one row."""
        y = labels[0]
        short = 1.0 - wide(z[y])
        total = 0.0
        for q in range(z.shape[0]):
            gap = max(short + wide(z[q]), 0.0) if q != y else 0.0  # taken off later, it would leave rounding
            total += gap * gap
        return total

    def row_gradient(self, labels, z, work, gradient):
        """Write u, u_q = 2·max(1 − z_y + z_q, 0) and u_y = −Σ u_q, and return the loss of the row."""
        y = labels[0]
        short = 1.0 - wide(z[y])
        total, out = 0.0, 0.0
        for q in range(z.shape[0]):
            gap = max(short + wide(z[q]), 0.0) if q != y else 0.0  # taken off later, it would leave rounding
            gradient[q] = 2.0 * gap
            out += gap
            total += gap * gap
        gradient[y] = -2.0 * out
        return total

    def gradient_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        label = at + np.uintp(labels[0])
        one, zero = Z.dtype.type(1.0), Z.dtype.type(0.0)
        short, double = one - Z[label], weight + weight
        total = zero
        for q in range(k):
            gap = max(short + Z[at + q], zero)
            total += gap
            R[at + q] = double * gap
        R[label] = -double * (total - max(short + Z[label], zero))

    def add_diagonal(self, labels, Z, at, k, scale, out):
        """Add scale·∂²ℓ/∂z_r² of the scores Z[at : at+k] to every out[r]."""
        label = np.uintp(labels[0])
        short = 1.0 - wide(Z[at + label])
        count = 0.0
        for q in range(k):
            if q != label and short + wide(Z[at + q]) > 0.0:
                out[q] += 2.0 * scale
                count += 1.0
        out[label] += 2.0 * scale * count

    def row_curvature(self, labels, z, v, work, out):
        """Generalised Hessian times v: Σ over active pairs of 2(v_q − v_y)(e_q − e_y)."""
        y = labels[0]
        short, own = 1.0 - wide(z[y]), wide(v[y])
        total = 0.0
        for q in range(z.shape[0]):
            flow = 2.0 * (wide(v[q]) - own) if short + wide(z[q]) > 0.0 else 0.0
            out[q] = flow
            total += flow
        out[y] = -total

    def row_conjugate(self, labels, u, work):
        """Conjugate ℓ*(u), infinite outside its domain."""
        total = 0.0
        value = 0.0
        size = 0.0
        for r in range(u.shape[0]):
            a = wide(u[r])
            total += a
            size += abs(a)
            if r != labels[0]:
                if a < 0.0:
                    return math.inf
                value += 0.25 * a * a - a
        return value if abs(total) <= 1e-5 * size else math.inf


LOSS = MulticlassSquaredHinge()
