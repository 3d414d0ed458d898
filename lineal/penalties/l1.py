"""ω(w) = ‖w‖₁: the lasso penalty. Sets single weights to zero."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.maths import norm1, norm_inf, sign, soft_threshold, wide
from lineal.core.protocol import Fieldless, protocol
from lineal.penalties.base import NormPenalty, SeparablePenalty, l1_residual


@protocol
class L1(NormPenalty, SeparablePenalty, Fieldless):
    """‖w‖₁, with dual norm ‖v‖∞."""

    __slots__ = ()
    name = "l1"
    has_curvature = True

    @property
    def l1_weight(self) -> float:
        """Weight of ‖w‖₁: one."""
        return 1.0

    def group_value(self, w: Any) -> float:
        return norm1(w)

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """sign(v)·max(|v| − strength, 0)."""
        for r in range(v.shape[0]):
            out[r] = soft_threshold(wide(v[r]), strength)

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """Per weight |g + strength·sign(w)|, or max(|g| − strength, 0) where w = 0."""
        total = 0.0
        for r in range(w.shape[0]):
            residual = l1_residual(wide(w[r]), wide(g[r]), strength)
            total += residual * residual
        return math.sqrt(total)

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """strength·sign(w)."""
        for r in range(w.shape[0]):
            out[r] = strength * sign(wide(w[r]))

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """Curvature: zero."""
        for r in range(w.shape[0]):
            out[r] = 0.0

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        return 0.0

    def group_critical_strength(self, v: Any) -> float:
        return norm_inf(v)
