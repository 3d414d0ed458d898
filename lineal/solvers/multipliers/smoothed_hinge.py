"""Hinge loss with a smoothed kink: ℓ_μ(t, z) = max_u uz − ℓ*(u) − ½μu² for the conjugate ℓ* of the hinge loss."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from lineal.core.protocol import protocol
from lineal.losses.hinge import LOSS as HINGE
from lineal.losses.margin import MarginLoss


class _Width(NamedTuple):
    """Base of the loss: the width μ > 0 of the smoothed kink, and the share of the largest curvature beyond it."""

    width: float
    share: float = 0.0


@protocol
class SmoothedHinge(MarginLoss, _Width):
    """With m = 1 − tz: 0 for m ≤ 0, m²/2μ for m < μ, and m − ½μ above. ℓ* = tu + ½μu² for −tu ∈ [0, 1]."""

    __slots__ = ()
    name: ClassVar[str] = "smoothed_hinge"

    def value(self, t, z):
        """Loss: quadratic within the width of the kink, linear beyond."""
        short = max(1.0 - t * z, 0.0)
        return 0.5 * short * (short / self.width) if short < self.width else short - 0.5 * self.width

    def derivative(self, t, z):
        """Derivative, between −t and 0."""
        short = max(1.0 - t * z, 0.0)
        return -t * (short / self.width) if short < self.width else -t

    def curvature(self, t, z):
        """Curvature: 1/μ within the width of the kink, and elsewhere a share of what bounds the loss.

        The parabola of curvature 1/max(μ, |2m − μ|) that touches the loss at m = 1 − tz is nowhere below it. With this
        curvature coordinate descent sees the kinks that are ahead; a feature all of whose rows are beyond them would
        otherwise have none.
        """
        short = 1.0 - t * z
        return (
            1.0 / self.width
            if 0.0 < short < self.width
            else self.share / max(self.width, abs(2.0 * short - self.width))
        )

    def conjugate(self, t, u):
        """Conjugate tu + ½μu² on the interval from −t to 0."""
        a = -t * u
        return 0.5 * self.width * a * a - a if -1e-12 <= a <= 1.0 + 1e-12 else math.inf

    def lipschitz(self, k: int) -> float | None:
        """One over the width."""
        return 1.0 / self.width

    def typical_curvature(self, k: int) -> float:
        """One over the width, the largest curvature."""
        return 1.0 / self.width

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """That of the hinge loss."""
        return HINGE.start_intercept(class_weights)
