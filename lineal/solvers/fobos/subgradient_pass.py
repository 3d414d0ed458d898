"""A pass of subgradient steps over rows, each followed by the penalty's prox, paid late (see `fobos.py`)."""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import norm2

#: Parts in which a debt D is paid: this often D², and so many at most.
PARTS, MAX_PARTS = 50.0, 64


@kernel
def visit(
    loss, penalty, layout, order, targets, weights, offsets, strengths, parts, is_separable, rate, clock, paid,
    W, b, fit_intercept, duals
):  # fmt: skip
    """One step on each row of `order`; `clock` has t and the sum of all step lengths, `paid` that sum by feature."""
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, g, work = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, np.float64)
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        for at in range(layout.row_length(i)):
            _pay(penalty, strengths, parts, is_separable, clock, paid, W, layout.row_index(i, at))
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
        _pay(penalty, strengths, parts, is_separable, clock, paid, W, np.uintp(j))


@kernel
def _pay(penalty, strengths, parts, is_separable, clock, paid, W, j):
    """Pull the weights of feature j by all steps since it was met last."""
    due = (clock[1] - paid[j]) * strengths[j]
    paid[j] = clock[1]
    if due == 0.0 or penalty.group_is_zero(W[j]):
        return
    m = 1
    if parts > 1:
        share = due if is_separable else due / norm2(W[j])
        m = int(min(1.0 + PARTS * share * share, parts))
    for _ in range(m):
        penalty.group_prox(W[j], due / m, W[j])


@kernel
def mean_loss(loss, layout, rows, targets, weights, offsets, W, b):
    """Weighted mean of the losses of some rows."""
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, work = np.empty(k, W.dtype), np.empty(k, np.float64)
    total, mass = 0.0, 0.0
    for position in range(rows.shape[0]):
        i = np.uintp(rows[position])
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        total += weights[i] * loss.row_value(targets.labels(i), z, work)
        mass += weights[i]
    return total / mass
