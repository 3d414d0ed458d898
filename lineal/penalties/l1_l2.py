"""ω(w) = ‖w‖₂: the group lasso (Yuan & Lin, 2006). Sets whole groups to zero: features leave all classes at once."""

from __future__ import annotations

import math
from typing import Any

from lineal.core.maths import norm2, wide
from lineal.core.protocol import Fieldless, protocol
from lineal.penalties.base import NormPenalty, norm_curvature, over_norm


@protocol
class L1L2(NormPenalty, Fieldless):
    """‖w‖₂, its own dual norm."""

    __slots__ = ()
    name = "l1/l2"
    is_group = True
    has_curvature = True
    frees_all = True

    def group_value(self, w: Any) -> float:
        return norm2(w)

    def group_prox(self, v: Any, strength: float, out: Any) -> None:
        """max(1 − strength/‖v‖, 0)·v."""
        size = norm2(v)
        shrink = (size - strength) / size if size > strength else 0.0
        for r in range(v.shape[0]):
            out[r] = shrink * wide(v[r])

    def group_violation(self, w: Any, g: Any, strength: float) -> float:
        """‖g + strength·w/‖w‖‖, or max(‖g‖ − strength, 0) where w = 0."""
        size = norm2(w)
        if size == 0.0:
            return max(norm2(g) - strength, 0.0)
        total = 0.0
        for r in range(w.shape[0]):
            residual = wide(g[r]) + strength * over_norm(wide(w[r]), size)
            total += residual * residual
        return math.sqrt(total)

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """strength·w/‖w‖."""
        size = norm2(w)
        for r in range(w.shape[0]):
            out[r] = strength * over_norm(wide(w[r]), size)

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """strength·(v − w·w'v/‖w‖²)/‖w‖."""
        norm_curvature(w, v, strength, out)

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        return strength / norm2(w)

    def group_critical_strength(self, v: Any) -> float:
        return norm2(v)
