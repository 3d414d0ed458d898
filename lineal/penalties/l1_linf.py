"""ω(w) = ‖w‖∞: the l1/l∞ penalty (Turlach, Venables & Wright, 2005). Zero groups, and ties at the largest weight."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.jit import kernel
from lineal.core.maths import norm1, norm2, norm_inf, wide
from lineal.core.protocol import Fieldless, protocol
from lineal.penalties.base import NormPenalty


@protocol
class L1Linf(NormPenalty, Fieldless):
    """‖w‖∞, with dual norm ‖v‖₁."""

    __slots__ = ()
    name = "l1/linf"
    is_group = True

    def dual_norm_factor(self, size: int) -> float:
        """‖v‖₁ ≤ √size·‖v‖₂."""
        return math.sqrt(size)

    def group_value(self, w: Any) -> float:
        return norm_inf(w)

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """v minus its projection onto {‖x‖₁ ≤ strength} (Moreau): v clipped to [−τ, τ]."""
        tau = clip_level(v, strength)
        for r in range(v.shape[0]):
            out[r] = min(max(wide(v[r]), -tau), tau)

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """Distance of −g to the l1 ball where w = 0, else to its face {Σ_r u_r = strength, u ≥ 0}.

        On the face, u_r = −g_r·sign(w_r) for the largest weights, and all other coordinates are zero. Projecting u
        subtracts τ and cuts at zero, so that min(u_r, τ) remains as the distance.
        """
        top = norm_inf(w)
        if strength == 0.0:
            return norm2(g)
        if top == 0.0:
            tau = clip_level(g, strength)
        else:
            tau = simplex_threshold(w, g, top, strength)
        total = 0.0
        for r in range(w.shape[0]):
            u = face_coordinate(wide(w[r]), wide(g[r]), top)
            residual = wide(g[r]) if u == -math.inf else min(u, tau)
            total += residual * residual
        return math.sqrt(total)

    def group_critical_strength(self, v: Any) -> float:
        return norm1(v)


@kernel(borrows=True)
def clip_level(v: Any, strength: float) -> float:
    """τ ≥ 0 with Σ max(|v_r| − τ, 0) = strength, or 0 inside the ball."""
    if strength == 0.0:
        return norm_inf(v)
    if norm1(v) <= strength:
        return 0.0
    return max(simplex_threshold(v, v, 0.0, strength), 0.0)


@kernel
def face_coordinate(w: float, g: float, top: float) -> float:
    """Coordinate of −g along sign(w) where |w| = top, |g| if top = 0 (any sign is right), −∞ off the face."""
    if top == 0.0:
        return abs(g)
    if abs(w) < top:
        return -math.inf
    return -g if w > 0.0 else g


@kernel(borrows=True)
def simplex_threshold(w: Any, g: Any, top: float, radius: float) -> float:
    """τ with Σ max(u_r − τ, 0) = radius over the face coordinates u of g: the projection onto a simplex.

    Michelot (1986): average over the active coordinates, drop those below, repeat. It ends after a few passes, and
    needs no memory and no sort.
    """
    tau = -math.inf
    active = w.shape[0] + 1
    while True:
        total = 0.0
        count = 0
        for r in range(w.shape[0]):
            u = face_coordinate(wide(w[r]), wide(g[r]), top)
            if u > tau:
                total += u
                count += 1
        if count >= active or count == 0:
            return tau
        tau = (total - radius) / count
        active = count
