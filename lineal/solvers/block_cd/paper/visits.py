"""Visits of blocks as in Blondel, Seki & Uehara (2013), algorithms 2 and 3: one after the other, or many at once."""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.solvers.block_cd.descent import expand_block, move, slopes

#: Of the line search: share of the promised decrease, shortening, least curvature, and steps tried.
SIGMA, OMEGA, EPSILON, MAX_TRIALS = 0.01, 0.5, 1e-12, 30


@kernel
def _load(features, grouped, first, last, W, out):
    """Weights of a block."""
    k = W.shape[1]
    for f in range(first, last):
        for r in range(k):
            out[(f - first) * k + r] = W[features[f] if grouped else f, r]


@kernel
def _add(features, grouped, first, last, step, W):
    k = W.shape[1]
    for f in range(first, last):
        for r in range(k):
            W[features[f] if grouped else f, r] += step[(f - first) * k + r]


@kernel
def _model_step(penalty, old, slope, strength, curvature, step):
    """The step to the minimum of the quadratic model; its square."""
    moved = np.empty(old.shape[0])
    for r in range(old.shape[0]):
        moved[r] = old[r] - slope[r] / curvature
    penalty.group_prox(moved, strength / curvature, moved)
    square = 0.0
    for r in range(old.shape[0]):
        step[r] = moved[r] - old[r]
        square += np.float64(step[r]) * np.float64(step[r])
    return square


@kernel
def _largest_diagonal(loss, layout, targets, rows, features, grouped, first, last, k):
    """max ∂²f/∂W_jr² over the weights of a block."""
    out = np.empty(k)
    largest = 0.0
    for f in range(first, last):
        j = features[f] if grouped else f
        out[:] = 0.0
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            x = np.float64(layout.column_value(j, p))
            loss.add_diagonal(targets.labels(i), rows.Z, i * k, k, rows.weights[i] * x * x, out)
        for r in range(k):
            largest = max(largest, out[r])
    return largest


@kernel
def _block_loss(loss, layout, targets, rows, features, grouped, first, last, k):
    """Σ s·ℓ of the rows that have some feature of a block."""
    rows.stamps[0] += 1
    work = np.empty(k)
    total = 0.0
    for f in range(first, last):
        j = features[f] if grouped else f
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if grouped:
                if rows.stamps[i + np.uintp(1)] == rows.stamps[0]:
                    continue
                rows.stamps[i + np.uintp(1)] = rows.stamps[0]
            total += rows.weights[i] * loss.row_value(targets.labels(i), rows.Z[i * k : i * k + k], work)
    return total


@kernel
def sweep(
    loss, penalty, layout, targets, rows, offsets, features, strengths, blocks, curvatures, searches, slack, active, W
):  # fmt: skip
    """Visit the blocks in the given order; returns the sum and the largest of their violations."""
    k = np.uintp(W.shape[1])
    grouped = features.shape[0] > 0
    sums, tops = 0.0, 0.0
    for position in range(blocks.shape[0]):
        g = blocks[position]
        first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
        size = (last - first) * W.shape[1]
        old, slope, step, moved = np.empty(size), np.empty(size), np.empty(size, W.dtype), np.empty(size)
        _load(features, grouped, first, last, W, old)
        slopes(layout, rows, features, grouped, first, last, slope, k)
        violation = penalty.group_violation(old, slope, strengths[g])
        sums += violation
        tops = max(tops, violation)
        if violation == 0.0:
            room = strengths[g] - penalty.group_critical_strength(slope)
            if room > slack and penalty.group_is_zero(old):
                active[g] = False
            continue
        curvature = curvatures[g]
        if searches:
            found = _largest_diagonal(loss, layout, targets, rows, features, grouped, first, last, k)
            curvature = max(found, EPSILON)
        if curvature <= 0.0 or _model_step(penalty, old, slope, strengths[g], curvature, step) == 0.0:
            continue
        if searches and not _search(
            loss, penalty, layout, targets, rows, features, grouped, first, last, strengths[g], old, slope, step, moved,
        ):  # fmt: skip
            continue
        if not searches:
            move(layout, rows, features, grouped, first, last, step, k)
        expand_block(loss, layout, targets, rows, features, grouped, first, last, k)
        _add(features, grouped, first, last, step, W)
    return sums, tops


@kernel
def _search(loss, penalty, layout, targets, rows, features, grouped, first, last, strength, old, slope, step, moved):
    """Shorten the step until the objective falls enough, with the scores moved along; False where it never does."""
    k = np.uintp(rows.Z.shape[0] // rows.weights.shape[0])
    before = _block_loss(loss, layout, targets, rows, features, grouped, first, last, k)
    old_penalty = penalty.group_value(old)
    promised, new = 0.0, np.empty(old.shape[0])
    for r in range(old.shape[0]):
        new[r] = old[r] + step[r]
        promised += slope[r] * step[r]
    promised += strength * (penalty.group_value(new) - old_penalty)
    share, back = 1.0, np.empty_like(step)
    move(layout, rows, features, grouped, first, last, step, k)
    for _ in range(MAX_TRIALS):
        for r in range(old.shape[0]):
            new[r] = old[r] + step[r]
        change = _block_loss(loss, layout, targets, rows, features, grouped, first, last, k) - before
        if change + strength * (penalty.group_value(new) - old_penalty) <= SIGMA * share * promised:
            return True
        for r in range(old.shape[0]):
            back[r] = (OMEGA - 1.0) * step[r]
            step[r] += back[r]
        share *= OMEGA
        move(layout, rows, features, grouped, first, last, back, k)
    for r in range(old.shape[0]):
        back[r] = -step[r]
    move(layout, rows, features, grouped, first, last, back, k)
    return False


@kernel
def steps_of(
    loss, penalty, layout, targets, rows, offsets, features, strengths, blocks, curvatures, W, steps, start, stop
):  # fmt: skip
    """Steps of some blocks, all from the same gradients; the sum and the largest of their violations."""
    k = np.uintp(W.shape[1])
    grouped = features.shape[0] > 0
    sums, tops = 0.0, 0.0
    for position in range(start, stop):
        g = blocks[position]
        first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
        size = (last - first) * W.shape[1]
        old, slope = np.empty(size), np.empty(size)
        _load(features, grouped, first, last, W, old)
        slopes(layout, rows, features, grouped, first, last, slope, k)
        violation = penalty.group_violation(old, slope, strengths[g])
        sums += violation
        tops = max(tops, violation)
        if violation > 0.0 and curvatures[g] > 0.0:
            _model_step(penalty, old, slope, strengths[g], curvatures[g], steps[position][:size])
    return sums, tops


@kernel
def take_steps(loss, penalty, layout, targets, rows, offsets, features, blocks, steps, W):
    """Take the steps of all the blocks, then renew the gradients of their rows."""
    k = np.uintp(W.shape[1])
    grouped = features.shape[0] > 0
    for position in range(blocks.shape[0]):
        g = blocks[position]
        first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
        if steps[position].any():
            move(layout, rows, features, grouped, first, last, steps[position], k)
            _add(features, grouped, first, last, steps[position], W)
    rows.stamps[0] += 1
    for position in range(blocks.shape[0]):
        if not steps[position].any():
            continue
        g = blocks[position]
        first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
        for f in range(first, last):
            j = features[f] if grouped else f
            for p in range(layout.column_length(j)):
                i = layout.column_index(j, p)
                if rows.stamps[i + np.uintp(1)] != rows.stamps[0]:
                    rows.stamps[i + np.uintp(1)] = rows.stamps[0]
                    loss.gradient_at(targets.labels(i), rows.Z, i * k, k, rows.weights[i], rows.R)
