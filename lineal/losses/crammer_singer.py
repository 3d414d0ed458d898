"""Crammer–Singer loss, ℓ(y, z) = max_r (1 − [r = y] + z_r) − z_y: the direct multi-class hinge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.simplex import SimplexLoss


@protocol
class CrammerSinger(SimplexLoss, Fieldless):
    """ℓ*(u) = −(1 − p_y) for p = u + e_y in the simplex. Not smooth: a subgradient puts all of p on one worst class."""

    __slots__ = ()
    name: ClassVar[str] = "crammer_singer"
    is_smooth: ClassVar[bool] = False
    dual_curvature: ClassVar[float] = 0.0

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
        """Zero wherever it exists."""
        for r in range(z.shape[0]):
            out[r] = 0.0

    def conjugate_term(self, u, is_label):
        """−p of every class but the label."""
        return 0.0 if is_label else -u

    def row_dual_ascent(self, label, z, old, q, work, best):
        """Write the minimiser p of −(z + 1 − e_y)'p + ½q‖p − old‖² over the simplex: a projection.

        p = max(v − τ, 0) with v = old + (z + 1 − e_y)/q; τ climbs from a lower bound to the mean excess of the columns
        above it until these stay the same (Michelot 1986). Returns by how much the one class with all of p is ahead
        of the next, 0 where several share it.
        """
        one, zero = z.dtype.type(1.0), z.dtype.type(0.0)
        k = z.shape[0]
        v, lead = work[0], work[1]
        for r in range(k):
            lead[r] = z[r] + one
        lead[label] -= one
        highest = lead[0]
        for r in range(k):
            highest = max(highest, lead[r])
        inverse, total = one / q, zero
        for r in range(k):  # from the highest, so that a tiny q leaves its digits
            v[r] = old[r] + (lead[r] - highest) * inverse
            total += v[r]
        top = v[0]
        for r in range(k):
            top = max(top, v[r])
        tau = max(top - one, (total - one) / z.dtype.type(k))
        above = k + 1
        for _ in range(k):
            count, total = zero, zero
            for r in range(k):
                is_above = one if v[r] > tau else zero
                count += is_above
                total += is_above * v[r]
            if count >= above:
                break
            above = count
            tau = max((total - one) / max(count, one), tau)
        total = zero
        for r in range(k):
            best[r] = max(v[r] - tau, zero)
            total += best[r]
        scale = one / total
        for r in range(k):
            best[r] *= scale
        if above > 1:
            return zero
        ahead, runner_up, winner = zero, lead[0] - z.dtype.type(1e30), 0
        for r in range(k):
            if best[r] > zero:
                winner, ahead = r, lead[r]
        for r in range(k):
            runner_up = max(runner_up, lead[r] if r != winner else runner_up)
        return ahead - runner_up

    def lipschitz(self, k: int) -> float | None:
        """The gradient jumps: there is none."""
        return None

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Zeros."""
        return np.zeros(len(class_weights))


LOSS = CrammerSinger()
