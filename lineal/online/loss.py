"""Losses as an online learner wants them: value, slope, and the step that an example of weight h is worth.

A step moves the score p by q·u, where q is what a unit of step does to the score. Taken as a flow instead of a jump,
an example of weight h is h/ε examples of weight ε, one after the other: dp/dt = −q·ℓ'(p) for a time a (Karampatziakis
& Langford 2011). All these losses have a closed form or, for the logistic one, an equation in one unknown:
m' + eᵐ' = m + eᵐ + a·q for the margin m before and m' after. No step goes past the label, however large a is.

The kind of loss is a number, not a type: one kernel serves all of them, and is compiled once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import log1p_exp, sigmoid, wide
from lineal.core.simd import lane_exp

U = np.uintp

SQUARED, LOGISTIC, HINGE, QUANTILE = range(4)

KINDS = {"squared": SQUARED, "logistic": LOGISTIC, "hinge": HINGE, "quantile": QUANTILE}

#: Relative change of the margin at which Newton's method ends.
_CLOSE = 1e-12


@kernel
def loss_value(kind: int, p: float, y: float, tau: float) -> float:
    """ℓ(p, y)."""
    if kind == LOGISTIC:
        return log1p_exp(-y * p)
    if kind == HINGE:
        return max(0.0, 1.0 - y * p)
    error = y - p
    if kind == SQUARED:
        return error * error
    return tau * error if error > 0.0 else (tau - 1.0) * error


@kernel
def loss_slope(kind: int, p: float, y: float, tau: float) -> float:
    """∂ℓ/∂p."""
    if kind == LOGISTIC:
        return -y * sigmoid(-y * p)
    if kind == HINGE:
        return -y if y * p < 1.0 else 0.0
    error = y - p
    if kind == SQUARED:
        return -2.0 * error
    return 0.0 if error == 0.0 else -tau if error > 0.0 else 1.0 - tau


@kernel
def logistic_move(margin: float, aq: float) -> float:
    """δ with δ + eᵐ(e^δ − 1) = a·q: how far the margin goes, by Newton's method from above."""
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


@kernel
def invariant_step(kind: int, p: float, y: float, tau: float, a: float, q: float) -> float:
    """u: the flow of length a, divided by what a unit of step does to the score."""
    aq = a * q
    if not aq > 0.0:
        return -a * loss_slope(kind, p, y, tau)
    if kind == LOGISTIC:
        return y * logistic_move(y * p, aq) / q
    if kind == HINGE:
        return y * min(a, max(0.0, 1.0 - y * p) / q)
    error = y - p
    if kind == SQUARED:
        return -error * math.expm1(-2.0 * aq) / q
    if error > 0.0:
        return min(tau * a, error / q)
    return max((tau - 1.0) * a, error / q)


@kernel(forceinline=True, borrows=True)
def logistic_slopes(scores: Any, labels: Any, out: Any) -> None:
    """`loss_slope` of the logistic loss for many scores, without branches: a loop over vectors. A label 0 has none."""
    for c in range(U(scores.shape[0])):
        out[c] = -labels[c] / (1.0 + lane_exp(labels[c] * wide(scores[c])))


@kernel(forceinline=True)
def unit_expm1(x: float) -> float:
    """eˣ − 1 for 0 ≤ x ≤ 1 to 1e-14, without branches: Taylor's polynomial at the half, doubled."""
    h, total = 0.5 * x, 0.0
    for n in range(13, 0, -1):
        total = (1.0 + total) * h / n
    return total * (2.0 + total)


@kernel(forceinline=True, borrows=True)
def logistic_moves(scores: Any, labels: Any, q: Any, a: float, N: float, out: Any) -> None:
    """`invariant_step` of the logistic loss for many scores, N·q what a unit of step does to each.

    Zero where that has to be asked itself. With e = eᵐ and the root of (1 + e)δ + ½eδ² = a·N·q to begin with, which is
    not below, two steps of fourth order solve δ + e(e^δ − 1) = a·N·q to 1e-12 where δ ≤ 1. Only new features move a
    score further.
    """
    for c in range(U(scores.shape[0])):
        y, unit = labels[c], N * wide(q[c])
        aq = a * unit * abs(y)
        e = lane_exp(y * wide(scores[c]))
        first = 2.0 * aq / (1.0 + e + math.sqrt((1.0 + e) * (1.0 + e) + 2.0 * e * aq))
        delta = min(first, 1.0)
        for _ in range(2):
            grown = e * unit_expm1(delta)
            f, g = (delta + grown - aq) / (1.0 + e + grown), (e + grown) / (1.0 + e + grown)
            delta -= f * (1.0 - 0.5 * f * g) / (1.0 - f * g + f * f * g / 6.0)
        out[c] = y * delta / unit if first <= 1.0 and delta > 0.0 else 0.0
