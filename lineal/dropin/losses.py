"""Losses of scikit-learn's `SGDClassifier`, by its names: those of `lineal.losses`, and the five that only it has.

A loss gives `value` and `derivative` of one score z for the target t = ±1. At a kink the derivative is that of the side
that has a loss, as in scikit-learn: a perceptron that starts at zero would not move otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lineal.core.protocol import Fieldless, protocol
from lineal.losses.hinge import Hinge
from lineal.losses.logistic import LOSS as LOGISTIC
from lineal.losses.squared import LOSS as SQUARED
from lineal.losses.squared_hinge import LOSS as SQUARED_HINGE


class _Tolerance(NamedTuple):
    """Base of the losses with the parameter ε."""

    epsilon: float


@protocol
class KinkedHinge(Hinge):
    """Hinge loss whose derivative at the kink is −t."""

    __slots__ = ()

    def derivative(self, t, z):
        """−t up to the kink, 0 beyond."""
        return -t if t * z <= 1.0 else 0.0


@protocol
class Perceptron(Fieldless):
    """ℓ = max(−tz, 0)."""

    __slots__ = ()

    def value(self, t, z):
        """max(−tz, 0)."""
        return max(0.0, -t * z)

    def derivative(self, t, z):
        """−t up to the kink, 0 beyond."""
        return -t if t * z <= 0.0 else 0.0


@protocol
class ModifiedHuber(Fieldless):
    """Squared hinge for tz ≥ −1, and its tangent −4tz below."""

    __slots__ = ()

    def value(self, t, z):
        """max(1 − tz, 0)² or −4tz."""
        short = max(0.0, 1.0 - t * z)
        return short * short if t * z >= -1.0 else -4.0 * t * z

    def derivative(self, t, z):
        """−2t·max(1 − tz, 0), −4t below −1."""
        return -2.0 * t * max(0.0, 1.0 - t * z) if t * z >= -1.0 else -4.0 * t


@protocol
class Huber(_Tolerance):
    """½(z − t)² for |z − t| ≤ ε, linear beyond."""

    __slots__ = ()

    def value(self, t, z):
        """½r² or ε(|r| − ½ε), with r = z − t."""
        r = abs(z - t)
        return 0.5 * r * r if r <= self.epsilon else self.epsilon * (r - 0.5 * self.epsilon)

    def derivative(self, t, z):
        """z − t, clipped to ±ε."""
        return min(max(z - t, -self.epsilon), self.epsilon)


@protocol
class EpsilonInsensitive(_Tolerance):
    """max(|z − t| − ε, 0)."""

    __slots__ = ()

    def value(self, t, z):
        """max(|z − t| − ε, 0)."""
        return max(0.0, abs(z - t) - self.epsilon)

    def derivative(self, t, z):
        """The sign of z − t, where |z − t| > ε."""
        return 0.0 if abs(z - t) <= self.epsilon else 1.0 if z > t else -1.0


@protocol
class SquaredEpsilonInsensitive(_Tolerance):
    """max(|z − t| − ε, 0)²."""

    __slots__ = ()

    def value(self, t, z):
        """max(|z − t| − ε, 0)²."""
        rest = max(0.0, abs(z - t) - self.epsilon)
        return rest * rest

    def derivative(self, t, z):
        """2·max(|z − t| − ε, 0), with the sign of z − t."""
        return 2.0 * max(0.0, abs(z - t) - self.epsilon) * (1.0 if z > t else -1.0)


_FIXED: dict[str, Any] = {
    "hinge": KinkedHinge(), "perceptron": Perceptron(), "squared_hinge": SQUARED_HINGE,
    "modified_huber": ModifiedHuber(), "log_loss": LOGISTIC, "squared_error": SQUARED,
}  # fmt: skip
_WITH_EPSILON: dict[str, Any] = {
    "huber": Huber, "epsilon_insensitive": EpsilonInsensitive, "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}  # fmt: skip

#: scikit-learn's names of the losses.
NAMES = (*_FIXED, *_WITH_EPSILON)


def get(name: str, epsilon: float) -> Any:
    """The loss that scikit-learn calls `name`; `epsilon` is for those that have this parameter."""
    return _WITH_EPSILON[name](float(epsilon)) if name in _WITH_EPSILON else _FIXED[name]
