"""Hinge loss, ℓ(t, z) = max(1 − t·z, 0): the L1-loss support vector machine."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.protocol import Fieldless, protocol
from lineal.losses.margin import MarginLoss


@protocol
class Hinge(MarginLoss, Fieldless):
    """ℓ = max(1 − tz, 0); ℓ*(u) = tu for −tu ∈ [0, 1]. At the kink, any number from −t to 0 is a subgradient."""

    __slots__ = ()
    name: ClassVar[str] = "hinge"
    is_smooth: ClassVar[bool] = False
    dual_curvature: ClassVar[float] = 0.0

    def value(self, t, z):
        """Loss max(1 − tz, 0)."""
        return max(1.0 - t * z, 0.0)

    def derivative(self, t, z):
        """Subgradient with respect to z; 0 at the kink."""
        return -t if t * z < 1.0 else 0.0

    def curvature(self, t, z):
        """Curvature: zero wherever it exists."""
        return 0.0

    def conjugate(self, t, u):
        """Conjugate tu on the interval from −t to 0."""
        a = -t * u
        return -a if -1e-12 <= a <= 1.0 + 1e-12 else math.inf

    def dual_ascent(self, a, margin, q, one):
        """Best dual variable a = −tu of one score, if changing a by δ changes the margin by q·δ."""
        return min(max(a + (one - margin) / q, one - one), one)

    def dual_is_bound(self, a, margin, slack, one):
        """Whether a is at an end of its interval and would stay there if the margin moved by `slack`."""
        return (a <= one - one and margin - one > slack) or (a >= one and one - margin > slack)

    def lipschitz(self, k: int) -> float | None:
        """Return None, because the gradient jumps."""
        return None

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Intercept ±1, on the side of the majority."""
        return np.where(2.0 * class_weights >= 1.0, 1.0, -1.0)


LOSS = Hinge()
