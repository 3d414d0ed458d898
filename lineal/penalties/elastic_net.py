"""ω(w) = ρ‖w‖₁ + (1 − ρ)/2·‖w‖²: the elastic net (Zou & Hastie, 2005)."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.maths import norm1, norm2, norm_inf, sign, soft_norm2, soft_threshold, wide
from lineal.core.protocol import protocol
from lineal.penalties.base import L1Ratio, SeparablePenalty, ball_indicator, ball_scale, l1_residual


@protocol
class ElasticNet(SeparablePenalty, L1Ratio):
    """ρ‖w‖₁ + (1 − ρ)/2·‖w‖²: sets single weights to zero and spreads weight over correlated features."""

    __slots__ = ()
    name = "elastic_net"
    has_curvature = True

    @property
    def l1_weight(self) -> float:
        """ρ, as the user chose it."""
        return self.l1_ratio

    def group_value(self, w: Any) -> float:
        size = norm2(w)
        return self.l1_ratio * norm1(w) + 0.5 * (1.0 - self.l1_ratio) * size * size

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """soft_threshold(v, ρ·strength) / (1 + (1 − ρ)·strength)."""
        threshold = self.l1_ratio * strength
        curvature = (1.0 - self.l1_ratio) * strength
        for r in range(v.shape[0]):
            out[r] = soft_threshold(wide(v[r]), threshold) / (1.0 + curvature)

    def group_conjugate(self, v: Any, strength: float) -> float:
        """‖soft_threshold(v, ρ·strength)‖² / (2(1 − ρ)·strength)."""
        threshold = self.l1_ratio * strength
        curvature = (1.0 - self.l1_ratio) * strength
        if curvature == 0.0:  # without the square: the l1 norm, or nothing at all
            return ball_indicator(norm_inf(v), threshold)
        size = soft_norm2(v, threshold)
        return 0.5 * size * (size / curvature)

    def group_dual_scale(self, v: Any, strength: float) -> float:
        if (1.0 - self.l1_ratio) * strength > 0.0:
            return 1.0
        return ball_scale(norm_inf(v), self.l1_ratio * strength)

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """As for l1, with the gradient (1 − ρ)·strength·w of the square added to g."""
        threshold = self.l1_ratio * strength
        curvature = (1.0 - self.l1_ratio) * strength
        total = 0.0
        for r in range(w.shape[0]):
            weight = wide(w[r])
            residual = l1_residual(weight, wide(g[r]) + curvature * weight, threshold)
            total += residual * residual
        return math.sqrt(total)

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """strength·(ρ·sign(w) + (1 − ρ)·w)."""
        for r in range(w.shape[0]):
            out[r] = strength * (self.l1_ratio * sign(wide(w[r])) + (1.0 - self.l1_ratio) * wide(w[r]))

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """strength·(1 − ρ)·v."""
        for r in range(w.shape[0]):
            out[r] = strength * (1.0 - self.l1_ratio) * wide(v[r])

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        return strength * (1.0 - self.l1_ratio)

    def group_critical_strength(self, v: Any) -> float:
        return norm_inf(v) / self.l1_ratio
