"""A pass of subgradient updates over the rows, each followed by a delayed prox of the penalty (see `fobos.py`)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import norm2

#: Number of parts in which a strength D is applied: PARTS·D², and at most MAX_PARTS.
PARTS, MAX_PARTS = 50.0, 64


class Rows(NamedTuple):
    """Labels and weights of the rows, their base scores or an empty array, and sums of their subgradients or empty."""

    targets: Any
    weights: Any
    offsets: Any
    duals: Any


class Steps(NamedTuple):
    """Step sizes, and how the penalty is applied.

    `clock` has t and the sum of all step sizes. `applied` has, per feature, the value of that sum when the penalty was
    last applied. `parts` is the largest number of parts in which a delayed penalty is applied.
    """

    rate: float
    fit_intercept: bool
    strengths: Any
    parts: int
    is_separable: bool
    clock: Any
    applied: Any


@kernel
def visit(loss, penalty, layout, order, rows, steps, W, b):
    """Update the parameters for each row of `order`, then apply the rest of the penalty."""
    targets, weights, offsets, duals = rows
    clock, rate, fit_intercept = steps.clock, steps.rate, steps.fit_intercept
    k = np.uintp(W.shape[1])
    flat = W.reshape(-1)
    z, g, work = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, np.float64)
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        for at in range(layout.row_length(i)):
            _apply_penalty(penalty, steps, W, layout.row_index(i, at))
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            z[r] += b[r]
            if offsets.shape[0] > 0:
                z[r] += offsets[i, r]
        loss.row_gradient(targets.labels(i), z, work, g)
        clock[0] += 1.0
        step_size = rate / math.sqrt(clock[0])
        clock[1] += step_size
        for r in range(k):
            if duals.shape[0] > 0:
                duals[i, r] += g[r]
            g[r] *= -step_size * weights[i]
            if fit_intercept:
                b[r] += g[r]
        layout.row_update(i, g, 0, k, flat)
    for j in range(W.shape[0]):
        _apply_penalty(penalty, steps, W, np.uintp(j))


@kernel
def _apply_penalty(penalty, steps, W, j):
    """Apply the penalty of all updates since the last one to the weights of feature j."""
    strength = (steps.clock[1] - steps.applied[j]) * steps.strengths[j]
    steps.applied[j] = steps.clock[1]
    if strength == 0.0 or penalty.group_is_zero(W[j]):
        return
    m = 1
    if steps.parts > 1:
        relative = strength if steps.is_separable else strength / norm2(W[j])
        m = int(min(1.0 + PARTS * relative * relative, steps.parts))
    for _ in range(m):
        penalty.group_prox(W[j], strength / m, W[j])


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
