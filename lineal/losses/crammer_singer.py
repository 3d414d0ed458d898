"""Crammer–Singer loss, ℓ(y, z) = max_r (1 − [r = y] + z_r) − z_y: the direct multi-class hinge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import largest, wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.simplex import SimplexLoss


@protocol
class CrammerSinger(SimplexLoss, Fieldless):
    """ℓ*(u) = −(1 − p_y) for p = u + e_y in the simplex. Not smooth: the subgradient has p = 1 for one worst class."""

    __slots__ = ()
    name: ClassVar[str] = "crammer_singer"
    is_smooth: ClassVar[bool] = False
    dual_curvature: ClassVar[float] = 0.0
    has_sparse_duals: ClassVar[bool] = True

    def row_choice(self, labels, z, p):
        """Write the indicator of the first worst class (the label itself in a tie with it) and return the loss."""
        y = labels[0]
        worst = y
        top = wide(z[y])
        for r in range(z.shape[0]):
            p[r] = 0.0
            if r != y and 1.0 + wide(z[r]) > top:
                top = 1.0 + wide(z[r])
                worst = r
        p[worst] = 1.0
        return top - wide(z[y])

    def row_curvature(self, labels, z, v, work, out):
        """Curvature: zero wherever it exists."""
        for r in range(z.shape[0]):
            out[r] = 0.0

    def conjugate_term(self, u, is_label):
        """Summand of the conjugate: −p for every class except the label."""
        return 0.0 if is_label else -u

    def row_dual_ascent(self, label, k, z, old, q, work, best):
        """Write the minimiser p of −(z + 1 − e_y)'p + ½q‖p − old‖² over the simplex of k classes: a projection.

        p = max(v − τ, 0) with v = old + (z + 1 − e_y)/q. For any set of classes, (Σ v − 1)/size is at most τ. The set
        where `old` is positive gives a first bound, and few classes are above it; τ then rises to the bound of those
        that are still above it until they stay the same (Michelot 1986). Returns the lead over the next class of the
        class that has p = 1, and 0 where no class has.
        """
        one, zero = z.dtype.type(1.0), z.dtype.type(0.0)
        v, lead, few = work[0], work[1], work[2]
        for r in range(k):
            lead[r] = z[r] + one
        lead[label] -= one
        highest, inverse = largest(lead, k), one / q
        sharing, total = zero, zero
        for r in range(k):  # relative to the highest: with a tiny q the differences keep their digits
            v[r] = old[r] + (lead[r] - highest) * inverse
            shares = one if old[r] > zero else zero
            sharing += shares
            total += shares * v[r]
        tau = max(largest(v, k) - one, (total - one) / sharing)
        count, total = np.uintp(0), zero
        for r in range(k):
            if v[r] > tau:
                few[count] = v[r]
                total += v[r]
                count += np.uintp(1)
        above = count
        while True:
            tau = max((total - one) / z.dtype.type(above), tau)
            still, total = np.uintp(0), zero
            for c in range(count):
                if few[c] > tau:
                    still += np.uintp(1)
                    total += few[c]
            if still >= above or still == np.uintp(0):
                break
            above = still
        total = zero
        for c in range(count):
            total += max(few[c] - tau, zero)
        scale = one / total
        for r in range(k):
            best[r] = max(v[r] - tau, zero) * scale
        if above > np.uintp(1):
            return zero
        winner = label
        for r in range(k):
            if best[r] > zero:
                winner = r
        ahead = lead[winner]
        lead[winner] = -np.inf
        return ahead - largest(lead, k)

    def lipschitz(self, k: int) -> float | None:
        """Return None, because the gradient jumps."""
        return None

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Intercept of zeros."""
        return np.zeros(len(class_weights))


LOSS = CrammerSinger()
