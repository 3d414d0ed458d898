"""Losses of online learning: those of `lineal.losses` with an update that counts an example of weight h as h examples.

An update u moves the score z by q·u, where q is the sensitivity of the score. Plain gradient descent takes
u = −a·ℓ'(z), with a the rate times the weight h, and goes past the label where a is large. Here an example of weight h
counts as h/ε examples of weight ε, one after the other: the score follows dz/dt = −q·ℓ'(z) for a time a (Karampatziakis
& Langford 2011, "Online importance weight aware updates"). Squared, hinge and quantile loss have closed forms. For the
logistic loss the margin m becomes m' with m' + e^m' = m + e^m + a·q, solved by Newton's method. No update goes past the
label, however large a is.

Values and derivatives come from `lineal.losses`; only the quantile loss is written here. To add a loss, derive from its
class and from `ColumnLoss`, write `invariant_update`, and add it to `_LOSSES`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.core.simd import lane_exp
from lineal.losses.hinge import Hinge
from lineal.losses.logistic import Logistic
from lineal.losses.squared import LOSS as HALF_SQUARED

U = np.uintp

#: Relative change of the margin at which Newton's method ends.
_CLOSE = 1e-12


@kernel(forceinline=True)
def update_of(loss: Any, t: float, z: float, derivative: float, a: float, q: float) -> float:
    """The update u that follows the loss for a time a, where the score moves by q·u; `derivative` is ℓ'(z)."""
    if derivative != 0.0 and a * q > 0.0:
        return loss.invariant_update(t, z, a, q)
    return -a * derivative


@kernel(forceinline=True, borrows=True)
def each_derivative(loss: Any, scores: Any, labels: Any, k: int, out: Any) -> None:
    """Write ℓ'(z) of the first k columns to `out`, one after the other."""
    for c in range(k):
        out[c] = loss.derivative(labels[c], wide(scores[c]))


@kernel(forceinline=True, borrows=True)
def each_update(loss: Any, scores: Any, labels: Any, q: Any, scale: float, a: float, out: Any) -> None:
    """Write `update_of` to `out` for the columns that have a label and no update yet, one after the other."""
    for c in range(scores.shape[0]):
        if labels[c] != 0.0 and out[c] == 0.0:
            t, z = labels[c], wide(scores[c])
            out[c] = update_of(loss, t, z, loss.derivative(t, z), a, scale * wide(q[c]))


class ColumnLoss:
    """Mixin: derivatives and updates of all columns of an example. Columns that only fill up a vector have label 0."""

    __slots__ = ()

    def column_derivatives(self, scores, labels, k, out):
        """Write ℓ'(z) of the first k columns to `out`."""
        each_derivative(self, scores, labels, k, out)

    def column_updates(self, scores, labels, q, scale, a, out):
        """Write the update of each column to `out`; column c has the sensitivity scale·q[c]."""
        out[:] = 0.0
        each_update(self, scores, labels, q, scale, a, out)


@protocol
class OnlineHinge(ColumnLoss, Hinge):
    """Hinge loss."""

    __slots__ = ()

    def invariant_update(self, t, z, a, q):
        """The update u that follows the loss for a time a, where the score moves by q·u; a and q are positive."""
        return t * min(a, self.value(t, z) / q)


@protocol
class OnlineSquared(ColumnLoss, Fieldless):
    """Squared loss without the factor ½: ℓ(t, z) = (z − t)², as in Vowpal Wabbit, with which rates are shared."""

    __slots__ = ()
    name: ClassVar[str] = "squared"

    def value(self, t, z):
        """Loss (z − t)²."""
        return 2.0 * HALF_SQUARED.value(t, z)

    def derivative(self, t, z):
        """Derivative 2(z − t)."""
        return 2.0 * HALF_SQUARED.derivative(t, z)

    def invariant_update(self, t, z, a, q):
        """The update u that follows the loss for a time a, where the score moves by q·u; a and q are positive."""
        return HALF_SQUARED.derivative(t, z) * math.expm1(-2.0 * a * q) / q


class _Quantile(NamedTuple):
    tau: float


@protocol
class Quantile(ColumnLoss, _Quantile):
    """Quantile loss: ℓ = τ(t − z) for scores below the label, (1 − τ)(z − t) above. Its minimum is the τ-quantile."""

    __slots__ = ()

    def value(self, t, z):
        """Loss τ(t − z) or (1 − τ)(z − t), whichever is positive."""
        error = t - z
        return self.tau * error if error > 0.0 else (self.tau - 1.0) * error

    def derivative(self, t, z):
        """Derivative: −τ below the label, 1 − τ above, 0 at the label."""
        error = t - z
        return 0.0 if error == 0.0 else -self.tau if error > 0.0 else 1.0 - self.tau

    def invariant_update(self, t, z, a, q):
        """The update u that follows the loss for a time a, where the score moves by q·u; a and q are positive."""
        error = t - z
        return min(self.tau * a, error / q) if error > 0.0 else max((self.tau - 1.0) * a, error / q)


@protocol
class OnlineLogistic(ColumnLoss, Logistic):
    """Logistic loss. Derivatives and updates of many columns are loops that become vector instructions."""

    __slots__ = ()

    def invariant_update(self, t, z, a, q):
        """The update u that follows the loss for a time a, where the score moves by q·u; a and q are positive."""
        return t * margin_change(t * z, a * q) / q

    def column_derivatives(self, scores, labels, k, out):
        """Write ℓ'(z) of all columns to `out`. Columns beyond the first k have the label 0, and 0 as derivative."""
        logistic_derivatives(scores, labels, out)

    def column_updates(self, scores, labels, q, scale, a, out):
        """Write the update of each column to `out`; column c has the sensitivity scale·q[c]."""
        small_logistic_updates(scores, labels, q, scale, a, out)
        each_update(self, scores, labels, q, scale, a, out)


_LOSSES: dict[str, Any] = {"squared": OnlineSquared(), "logistic": OnlineLogistic(), "hinge": OnlineHinge()}


def get(name: str, tau: float) -> Any:
    """The online loss called `name`; `tau` is for the quantile loss."""
    return Quantile(float(tau)) if name == "quantile" else _LOSSES[name]


@kernel
def margin_change(margin: float, aq: float) -> float:
    """Change δ of the margin m, the root of δ + eᵐ(e^δ − 1) = a·q, by Newton's method from above."""
    if margin > 700.0:
        return 0.0
    e = math.exp(margin)
    ratio = aq / e if e > 0.0 else math.inf
    # Both are bounds: the first drops the curvature, the second the linear term.
    delta = min(aq / (1.0 + e), math.log1p(ratio) if ratio < math.inf else math.log(aq) - margin)
    if delta > 700.0:  # scores never get so far from the label
        return delta
    for _ in range(30):
        growth = math.expm1(delta)
        change = (delta + e * growth - aq) / (1.0 + e * (growth + 1.0))
        delta -= change
        if abs(change) <= _CLOSE * delta:
            break
    return max(delta, 0.0)


@kernel(forceinline=True, borrows=True)
def logistic_derivatives(scores: Any, labels: Any, out: Any) -> None:
    """Derivatives of the logistic loss for many scores, without branches; zero if the label is 0."""
    for c in range(U(scores.shape[0])):
        out[c] = -labels[c] / (1.0 + lane_exp(labels[c] * wide(scores[c])))


@kernel(forceinline=True)
def unit_expm1(x: float) -> float:
    """Compute eˣ − 1 for 0 ≤ x ≤ 1 to 1e-14, without branches, by Taylor's polynomial at x/2 and one doubling."""
    h, total = 0.5 * x, 0.0
    for n in range(13, 0, -1):
        total = (1.0 + total) * h / n
    return total * (2.0 + total)


@kernel(forceinline=True, borrows=True)
def small_logistic_updates(scores: Any, labels: Any, q: Any, scale: float, a: float, out: Any) -> None:
    """Importance-invariant updates of the logistic loss for many scores, where the margin changes by at most 1.

    Writes 0 where it changes by more, which only new features do. With e = eᵐ, two steps of fourth order solve
    δ + e(e^δ − 1) = a·q to 1e-12 where δ ≤ 1. They start at the root of (1 + e)δ + ½eδ² = a·q, which is not below δ.
    """
    for c in range(U(scores.shape[0])):
        y, unit = labels[c], scale * wide(q[c])
        aq = a * unit * abs(y)
        e = lane_exp(y * wide(scores[c]))
        first = 2.0 * aq / (1.0 + e + math.sqrt((1.0 + e) * (1.0 + e) + 2.0 * e * aq))
        delta = min(first, 1.0)
        for _ in range(2):
            grown = e * unit_expm1(delta)
            f, g = (delta + grown - aq) / (1.0 + e + grown), (e + grown) / (1.0 + e + grown)
            delta -= f * (1.0 - 0.5 * f * g) / (1.0 - f * g + f * f * g / 6.0)
        out[c] = y * delta / unit if first <= 1.0 and delta > 0.0 else 0.0
