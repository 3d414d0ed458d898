"""A pass of subgradient steps over rows, each followed by the penalty's prox, paid late (see `fobos.py`)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import norm2

#: Parts in which a debt D is paid: this often D², and so many at most.
PARTS, MAX_PARTS = 50.0, 64


class Rows(NamedTuple):
    """Labels, weights, base scores or empty, and sums of the subgradients of every row, or empty."""

    targets: Any
    weights: Any
    offsets: Any
    duals: Any


class Steps(NamedTuple):
    """Lengths of the steps, and what the penalty takes after them.

    `clock` has t and the sum of all step lengths, `paid` that sum per feature, up to which the penalty has been paid.
    """

    rate: float
    fit_intercept: bool
    strengths: Any
    parts: int
    is_separable: bool
    clock: Any
    paid: Any


@kernel
def visit(loss, penalty, layout, order, rows, steps, W, b):
    """One step on each row of `order`."""
    targets, weights, offsets, duals = rows
    clock, rate, fit_intercept = steps.clock, steps.rate, steps.fit_intercept
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, g, work = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, np.float64)
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        for at in range(layout.row_length(i)):
            _pay(penalty, steps, W, layout.row_index(i, at))
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        loss.row_gradient(targets.labels(i), z, work, g)
        clock[0] += 1.0
        length = rate / math.sqrt(clock[0])
        clock[1] += length
        for r in range(k):
            if duals.shape[0] > 0:
                duals[i, r] += g[r]
            g[r] *= -length * weights[i]
            if fit_intercept:
                b[r] += g[r]
        layout.row_update(i, g, 0, k, flat)
    for j in range(W.shape[0]):
        _pay(penalty, steps, W, np.uintp(j))


@kernel
def _pay(penalty, steps, W, j):
    """Apply to the weights of feature j the penalty of all steps since it was met last."""
    due = (steps.clock[1] - steps.paid[j]) * steps.strengths[j]
    steps.paid[j] = steps.clock[1]
    if due == 0.0 or penalty.group_is_zero(W[j]):
        return
    m = 1
    if steps.parts > 1:
        share = due if steps.is_separable else due / norm2(W[j])
        m = int(min(1.0 + PARTS * share * share, steps.parts))
    for _ in range(m):
        penalty.group_prox(W[j], due / m, W[j])


@kernel
def mean_loss(loss, layout, chosen, rows, W, b):
    """Weighted mean of the losses of the chosen rows."""
    targets, weights, offsets, _ = rows
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, work = np.empty(k, W.dtype), np.empty(k, np.float64)
    total, mass = 0.0, 0.0
    for position in range(chosen.shape[0]):
        i = np.uintp(chosen[position])
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        total += weights[i] * loss.row_value(targets.labels(i), z, work)
        mass += weights[i]
    return total / mass
