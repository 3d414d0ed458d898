"""Logistic loss, ℓ(t, z) = log(1 + exp(−t·z)), one column per label."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.maths import log1p_exp, sigmoid, x_log_x
from lineal.core.protocol import Fieldless, protocol
from lineal.core.simd import lane_exp
from lineal.losses.margin import MarginLoss, log_odds


@protocol
class Logistic(MarginLoss, Fieldless):
    """ℓ = log(1 + e^{−tz}); with a = −tu, ℓ*(u) = a log a + (1 − a) log(1 − a) on [0, 1]."""

    __slots__ = ()
    name: ClassVar[str] = "logistic"
    link: ClassVar[str | None] = "logistic"
    dual_curvature: ClassVar[float] = 4.0

    def value(self, t, z):
        """Loss log(1 + e^{−tz})."""
        return log1p_exp(-t * z)

    def derivative(self, t, z):
        """Derivative −t·σ(−tz)."""
        return -t * sigmoid(-t * z)

    def value_and_derivative(self, t, z):
        """Value and derivative from one exponential."""
        e = math.exp(-abs(z))
        margin = t * z
        tail = math.log1p(e)
        if margin > 0.0:
            return tail, -t * e / (1.0 + e)
        return tail - margin, -t / (1.0 + e)

    def expansion(self, t, z):
        """Value, derivative and curvature from one exponential."""
        e = math.exp(-abs(z))
        share = 1.0 / (1.0 + e)
        margin = t * z
        tail = math.log1p(e)
        if margin > 0.0:
            return tail, -t * e * share, e * share * share
        return tail - margin, -t * share, e * share * share

    def curvature(self, t, z):
        """Curvature σ(z)(1 − σ(z))."""
        return sigmoid(z) * sigmoid(-z)

    def curvature_beside(self, t, z, derivative):
        """`curvature` without another exponential: |derivative| is the probability of the other label."""
        return abs(derivative) * (1.0 - abs(derivative))

    def conjugate(self, t, u):
        """Negative entropy of the probability −tu."""
        a = -t * u
        if a < -1e-12 or a > 1.0 + 1e-12:
            return math.inf
        a = min(max(a, 0.0), 1.0)
        return x_log_x(a) + ((1.0 - a) * math.log1p(-a) if a < 1.0 else 0.0)

    def dual_ascent(self, a, margin, q, one):
        """Best dual variable a = −tu of one score, if changing a by δ changes the margin by q·δ.

        It is a' = σ(−m) for the root of the increasing m − margin − q(σ(−m) − a), between margin − qa and
        margin + q(1 − a): Newton steps from the root of the sigmoid's tangent at zero, halving where one leaves the
        bracket.
        """
        half = one / (one + one)
        low, high = margin - q * a, margin + q * (one - a)
        m = min(max((margin + q * (half - a)) / (one + half * half * q), low), high)
        p = one / (one + lane_exp(m))
        for _ in range(50):
            excess = m - margin - q * (p - a)
            high = m if excess > one - one else high
            low = low if excess > one - one else m
            step = excess / (one + q * p * (one - p))
            m -= step
            m = half * (low + high) if m < low or m > high else m
            p = one / (one + lane_exp(m))
            if abs(step) * (one + q) < 1e-3:  # the next step would be its square
                break
        return p

    def dual_ascent_lanes(self, a, margin, q, one):
        """`dual_ascent` for q ≤ 4, where two steps are enough, without branches: LLVM vectorises loops over it."""
        half = one / (one + one)
        low, high = margin - q * a, margin + q * (one - a)
        m = min(max((margin + q * (half - a)) / (one + half * half * q), low), high)
        p = one / (one + lane_exp(m))
        m = min(max(m - (m - margin - q * (p - a)) / (one + q * p * (one - p)), low), high)
        p = one / (one + lane_exp(m))
        m = min(max(m - (m - margin - q * (p - a)) / (one + q * p * (one - p)), low), high)
        return one / (one + lane_exp(m))

    def dual_is_bound(self, a, margin, slack, one):
        """Return False, because the ends of the interval are reached at infinite margins only."""
        return False

    def lipschitz(self, k: int) -> float | None:
        """One quarter, the curvature at z = 0."""
        return 0.25

    def typical_curvature(self, k: int) -> float:
        """One quarter, the curvature at z = 0."""
        return 0.25

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Log-odds of the class frequencies."""
        return log_odds(class_weights)


LOSS = Logistic()
