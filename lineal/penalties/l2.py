"""ω(w) = ½‖w‖²: the ridge penalty. Shrinks all weights, sets none to zero."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.maths import norm2, norm_inf, wide
from lineal.core.protocol import Fieldless, protocol
from lineal.penalties.base import SeparablePenalty, ball_indicator


@protocol
class L2(SeparablePenalty, Fieldless):
    """½‖w‖²."""

    __slots__ = ()
    name = "l2"
    is_smooth = True
    is_radial = True
    has_curvature = True
    frees_all = True

    @property
    def l1_weight(self) -> float:
        """Weight of ‖w‖₁: zero."""
        return 0.0

    def group_value(self, w: Any) -> float:
        return self.radial_value(norm2(w))

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """v / (1 + strength)."""
        for r in range(v.shape[0]):
            out[r] = wide(v[r]) / (1.0 + strength)

    def group_conjugate(self, v: Any, strength: float) -> float:
        """‖v‖² / (2·strength)."""
        if strength == 0.0:
            return ball_indicator(norm_inf(v), 0.0)
        return self.radial_conjugate(norm2(v), strength)

    def radial_value(self, size: float) -> float:
        """½·size²."""
        return 0.5 * size * size

    def radial_conjugate(self, size: float, strength: float) -> float:
        """(strength·ω)* of any vector of this norm, for strength > 0."""
        return 0.5 * size * (size / strength)

    def group_dual_scale(self, v: Any, strength: float) -> float:
        return 1.0 if strength > 0.0 or self.group_is_zero(v) else 0.0

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """‖g + strength·w‖."""
        total = 0.0
        for r in range(w.shape[0]):
            residual = wide(g[r]) + strength * wide(w[r])
            total += residual * residual
        return math.sqrt(total)

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """strength·w."""
        for r in range(w.shape[0]):
            out[r] = strength * wide(w[r])

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """strength·v."""
        for r in range(w.shape[0]):
            out[r] = strength * wide(v[r])

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        return strength

    def group_critical_strength(self, v: Any) -> float:
        """Zero for a zero gradient, else infinity, because no strength keeps weights at zero."""
        return 0.0 if self.group_is_zero(v) else math.inf
