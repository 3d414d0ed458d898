"""Squared hinge loss, ℓ(t, z) = max(1 − t·z, 0)²: the L2-loss support vector machine."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.protocol import Fieldless, protocol
from lineal.losses.margin import MarginLoss


@protocol
class SquaredHinge(MarginLoss, Fieldless):
    """ℓ = max(1 − tz, 0)²; ℓ*(u) = tu + u²/4 for tu ≤ 0."""

    __slots__ = ()
    name: ClassVar[str] = "squared_hinge"
    dual_curvature: ClassVar[float] = 0.5

    def value(self, t, z):
        """Loss max(1 − tz, 0)²."""
        gap = max(1.0 - t * z, 0.0)
        return gap * gap

    def derivative(self, t, z):
        """Derivative −2t·max(1 − tz, 0)."""
        return -2.0 * t * max(1.0 - t * z, 0.0)

    def curvature(self, t, z):
        """Curvature: 2 inside the margin, 0 outside."""
        return 2.0 if t * z < 1.0 else 0.0

    def conjugate(self, t, u):
        """Conjugate tu + u²/4 if tu ≤ 0, else ∞."""
        a = -t * u
        return 0.25 * a * a - a if a >= 0.0 else math.inf

    def dual_ascent(self, a, margin, q, one):
        """Best dual variable a = −tu of one score, if changing a by δ changes the margin by q·δ."""
        half = one / (one + one)
        return max(a + (one - margin - half * a) / (q + half), one - one)

    def dual_is_bound(self, a, margin, slack, one):
        """Whether a is zero and would stay so if the margin moved by `slack`."""
        return a <= one - one and margin - one > slack

    def lipschitz(self, k: int) -> float | None:
        """Two, the curvature inside the margin."""
        return 2.0

    def typical_curvature(self, k: int) -> float:
        """Two, because every margin is violated at the start."""
        return 2.0

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Intercept: the mean of t."""
        return 2.0 * class_weights - 1.0


LOSS = SquaredHinge()
