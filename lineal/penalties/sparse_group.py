"""ω(w) = ρ‖w‖₁ + (1 − ρ)‖w‖₂: the sparse group lasso (Simon et al., 2013). Zero groups, and zeros inside the others."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.maths import norm1, norm2, norm_inf, sign, soft_norm2, soft_threshold, wide
from lineal.core.protocol import protocol
from lineal.penalties.base import L1Ratio, NormPenalty, l1_residual, norm_curvature, over_norm

#: Newton's method on a convex function from the left: far more steps than it ever takes.
MAX_NEWTON_STEPS = 100


@protocol
class SparseGroup(NormPenalty, L1Ratio):
    """ρ‖w‖₁ + (1 − ρ)‖w‖₂."""

    __slots__ = ()
    name = "sparse_group"
    is_group = True
    has_curvature = True
    is_additive = False  # shrinking by ‖w‖₂ in between changes which weights are set to zero later

    def group_value(self, w: Any) -> float:
        return self.l1_ratio * norm1(w) + (1.0 - self.l1_ratio) * norm2(w)

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """The l1/l2 prox of the l1 prox: max(1 − (1 − ρ)·strength/‖u‖, 0)·u with u = soft_threshold(v, ρ·strength)."""
        threshold = self.l1_ratio * strength
        radius = (1.0 - self.l1_ratio) * strength
        size = soft_norm2(v, threshold)
        shrink = (size - radius) / size if size > radius else 0.0
        for r in range(v.shape[0]):
            out[r] = shrink * soft_threshold(wide(v[r]), threshold)

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """As for l1, with (1 − ρ)·strength·w/‖w‖ added to g; max(‖soft(g, ρ·s)‖ − (1 − ρ)·s, 0) where w = 0."""
        threshold = self.l1_ratio * strength
        radius = (1.0 - self.l1_ratio) * strength
        size = norm2(w)
        if size == 0.0:
            return max(soft_norm2(g, threshold) - radius, 0.0)
        total = 0.0
        for r in range(w.shape[0]):
            weight = wide(w[r])
            residual = l1_residual(weight, wide(g[r]) + radius * over_norm(weight, size), threshold)
            total += residual * residual
        return math.sqrt(total)

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """strength·(ρ·sign(w) + (1 − ρ)·w/‖w‖)."""
        size = norm2(w)
        for r in range(w.shape[0]):
            weight = wide(w[r])
            out[r] = strength * (self.l1_ratio * sign(weight) + (1.0 - self.l1_ratio) * over_norm(weight, size))

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """The curvature of the l1/l2 part: that of ‖w‖₁ is zero."""
        norm_curvature(w, v, (1.0 - self.l1_ratio) * strength, out)

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        return (1.0 - self.l1_ratio) * strength / norm2(w)

    def group_critical_strength(self, v: Any) -> float:
        """The dual norm: the root s of h(s) = ‖soft_threshold(v, ρ·s)‖₂ − (1 − ρ)·s.

        h is convex and falling and ‖v‖∞ is not above its root (ω ≤ ‖·‖₁), so that Newton's method climbs to the root
        without passing it. Solved for s/‖v‖∞, in [1, √m].
        """
        top = norm_inf(v)
        if top == 0.0:
            return 0.0
        ratio = self.l1_ratio
        s = 1.0
        for _ in range(MAX_NEWTON_STEPS):
            total = 0.0
            squares = 0.0
            for r in range(v.shape[0]):
                excess = max(over_norm(abs(wide(v[r])), top) - ratio * s, 0.0)
                total += excess
                squares += excess * excess
            size = math.sqrt(squares)
            height = size - (1.0 - ratio) * s
            if height <= 0.0:
                break
            step = height / (ratio * total / size + 1.0 - ratio)
            if step <= 2.0**-53 * s:
                break
            s += step
        return top * s
