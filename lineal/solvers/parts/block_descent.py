"""Block coordinate descent on a working set: for every block of rows of W a proximal gradient step of its own length.

    W_g ← prox_{λ_g ω/L_g}(W_g − G_g/L_g),   G_g = Σ_i s_i x_ig ∇ℓ(z_i)'

Blondel, Seki & Uehara (2013), algorithms 1 to 3, after Tseng & Yun (2009). Weighted gradients R_i = s_i∇ℓ(z_i) of all
rows are kept up to date: a block that stays where it is costs one product, and only a step costs new gradients, of the
rows that have the block's features. L_g is not a bound but follows the curvature that the steps see: a step is taken if the
loss ends below its quadratic model, else L_g is doubled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel

#: Share by which L_g may fall from one step to the next, and by how much it exceeds the curvature seen.
FALL, MARGIN = 0.3, 1.2

#: Doublings of L_g for one step.
MAX_DOUBLINGS = 40


class RowState(NamedTuple):
    """Weights s, scores Z (n, k), weighted gradients R (n, k) and losses of the rows; stamps for visits of groups."""

    weights: Any
    Z: Any
    R: Any
    losses: Any
    stamps: Any


@kernel
def expand(loss, targets, rows, start, stop):
    """Gradients and losses of some rows from their scores."""
    k = rows.Z.shape[1]
    work, gradient = np.empty(k), np.empty(k)
    for i in range(start, stop):
        _expand_row(loss, targets, rows, i, work, gradient)


@kernel
def _expand_row(loss, targets, rows, i, work, gradient):
    value = loss.row_gradient(targets.labels(i), rows.Z[i], work, gradient)
    rows.losses[i] = value
    for r in range(gradient.shape[0]):
        rows.R[i, r] = rows.weights[i] * gradient[r]
    return rows.weights[i] * value


@kernel
def descend(
    loss, penalty, layout, targets, rows, offsets, features, strengths, chosen, curvatures, W, b, bend, goal, sweeps
):
    """Sweeps over the chosen blocks, and steps of the intercept, until no violation exceeds the goal.

    `b` is the intercept or empty, `bend` its L. Returns the largest violation of the last sweep.
    """
    k = np.uintp(W.shape[1])
    largest = 1
    for c in range(chosen.shape[0]):
        if features.shape[0] > 0:
            largest = max(largest, offsets[chosen[c] + 1] - offsets[chosen[c]])
    size = largest * W.shape[1]
    scratch = np.empty((4, size))
    step, work, gradient = np.empty(size, W.dtype), np.empty(k), np.empty(k)
    worst = 0.0
    for _ in range(sweeps):
        worst = 0.0
        if b.shape[0] > 0:
            worst = _balance(loss, targets, rows, b, bend, work, gradient)
        for c in range(chosen.shape[0]):
            found = _visit(
                loss, penalty, layout, targets, rows, offsets, features, strengths, chosen[c], curvatures, W, scratch,
                step, work, gradient, 0.1 * goal,
            )  # fmt: skip
            worst = max(worst, found)
        if worst <= goal:
            break
    return worst


@kernel
def _visit(
    loss, penalty, layout, targets, rows, offsets, features, strengths, g, curvatures, W, scratch, step, work, gradient,
    enough,
):  # fmt: skip
    """One step of block g; returns its violation before."""
    k = np.uintp(W.shape[1])
    grouped = features.shape[0] > 0
    first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
    size = np.uintp(last - first) * k
    slope, old, new = scratch[0][:size], scratch[1][:size], scratch[2][:size]
    flat = rows.R.reshape(-1)
    for f in range(first, last):
        j = features[f] if grouped else f
        at = np.uintp(f - first) * k
        layout.column_products(j, flat, k, slope, at)
        for r in range(k):
            old[at + r] = W[j, r]
    violation = penalty.block_violation(old, slope, strengths[g])
    if violation <= enough or curvatures[g] == 0.0:
        return violation
    before = _sum_losses(layout, rows, features, grouped, first, last)
    for _ in range(MAX_DOUBLINGS):
        length = 1.0 / curvatures[g]
        for r in range(size):
            new[r] = old[r] - length * slope[r]
        penalty.block_prox(new, length * strengths[g], new)
        along, square = 0.0, 0.0
        for r in range(size):
            step[r] = new[r] - old[r]  # rounded as it will be added
            along += slope[r] * step[r]
            square += np.float64(step[r]) * np.float64(step[r])
        if square == 0.0:
            return violation
        _move(layout, rows, features, grouped, first, last, step, k)
        change = _expand_block(loss, layout, targets, rows, features, grouped, first, last, work, gradient) - before
        if change <= along + 0.5 * curvatures[g] * square + 1e-14 * before:
            seen = 2.0 * (change - along) / square
            curvatures[g] = min(max(MARGIN * seen, FALL * curvatures[g]), curvatures[g])
            for f in range(first, last):
                j = features[f] if grouped else f
                for r in range(k):
                    W[j, r] += step[np.uintp(f - first) * k + r]
            return violation
        for r in range(size):
            step[r] = -step[r]
        _move(layout, rows, features, grouped, first, last, step, k)
        _expand_block(loss, layout, targets, rows, features, grouped, first, last, work, gradient)
        curvatures[g] *= 2.0
    return violation


@kernel
def _move(layout, rows, features, grouped, first, last, step, k):
    """Scores after a step of a block."""
    flat = rows.Z.reshape(-1)
    for f in range(first, last):
        layout.column_update(features[f] if grouped else f, step, np.uintp(f - first) * k, k, flat)


@kernel
def _sum_losses(layout, rows, features, grouped, first, last):
    """Σ s·ℓ of the rows that have some feature of a block, each counted once."""
    rows.stamps[0] += 1
    total = 0.0
    for f in range(first, last):
        j = features[f] if grouped else f
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if not grouped or rows.stamps[i + 1] != rows.stamps[0]:
                rows.stamps[i + 1] = rows.stamps[0]
                total += rows.weights[i] * rows.losses[i]
    return total


@kernel
def _expand_block(loss, layout, targets, rows, features, grouped, first, last, work, gradient):
    """New gradients of the rows that have some feature of a block; returns Σ s·ℓ of them."""
    rows.stamps[0] += 1
    total = 0.0
    for f in range(first, last):
        j = features[f] if grouped else f
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if not grouped or rows.stamps[i + 1] != rows.stamps[0]:
                rows.stamps[i + 1] = rows.stamps[0]
                total += _expand_row(loss, targets, rows, i, work, gradient)
    return total


@kernel
def _balance(loss, targets, rows, b, bend, work, gradient):
    """One step of the intercept; returns the norm of its gradient before."""
    n, k = rows.R.shape
    slope = np.zeros(k)
    before = 0.0
    for i in range(n):
        before += rows.weights[i] * rows.losses[i]
        for r in range(k):
            slope[r] += rows.R[i, r]
    square = 0.0
    for r in range(k):
        square += slope[r] * slope[r]
    if square == 0.0:
        return 0.0
    step = np.empty(k, b.dtype)
    for _ in range(MAX_DOUBLINGS):
        along, length = 0.0, 0.0
        for r in range(k):
            step[r] = -slope[r] / bend[0]
            along += slope[r] * step[r]
            length += np.float64(step[r]) * np.float64(step[r])
        total = 0.0
        for i in range(n):
            for r in range(k):
                rows.Z[i, r] += step[r]
            total += _expand_row(loss, targets, rows, i, work, gradient)
        change = total - before
        if change <= along + 0.5 * bend[0] * length + 1e-14 * before:
            seen = 2.0 * (change - along) / length if length > 0.0 else bend[0]
            bend[0] = min(max(MARGIN * seen, FALL * bend[0]), bend[0])
            for r in range(k):
                b[r] += step[r]
            return np.sqrt(square)
        for i in range(n):
            for r in range(k):
                rows.Z[i, r] -= step[r]
            _expand_row(loss, targets, rows, i, work, gradient)
        bend[0] *= 2.0
    return np.sqrt(square)
