"""Block coordinate descent on a working set: for every block of rows of W a proximal gradient step of its own length.

    W_g ← prox_{λ_g ω/L_g}(W_g − G_g/L_g),   G_g = Σ_i s_i x_ig ∇ℓ(z_i)'

Blondel, Seki & Uehara (2013), algorithms 1 to 3, after Tseng & Yun (2009). Weighted gradients R_i = s_i∇ℓ(z_i) of all
rows are kept up to date: a block that stays where it is costs one product, and only a step costs new gradients, of the
rows that have the block's features. L_g is not a bound but follows the curvature that the steps see. A step δ is taken
if the gradient has grown by δ'(G⁺ − G) ≤ L_g‖δ‖² along it: the objective has then fallen, since a convex loss grows by
at most δ'G⁺, and δ'G plus the growth of the penalty is at most −L_g‖δ‖². Else L_g grows. Differences of gradients tell
this in float32 long after differences of losses have drowned in rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel

#: Share by which L_g may fall from one step to the next, and by how much it exceeds the curvature seen.
FALL, MARGIN = 0.3, 1.2

#: Rounding of a gradient, relative to it.
NOISE = 1e-6

#: Sweeps over the blocks that were not good enough, between two over all that are chosen.
HOT_SWEEPS = 5

#: Growths of L_g for one step.
MAX_GROWTHS = 40


class RowState(NamedTuple):
    """Weights s, flat scores Z (n·k), flat weighted gradients R (n·k); stamps for visits of groups."""

    weights: Any
    Z: Any
    R: Any
    stamps: Any


@kernel
def expand(loss, targets, rows, k, start, stop):
    """Gradients of some rows from their scores."""
    k = np.uintp(k)
    for i in range(np.uintp(start), np.uintp(stop)):
        loss.gradient_at(targets.labels(i), rows.Z, i * k, k, rows.weights[i], rows.R)


@kernel
def descend(
    loss, penalty, layout, targets, rows, offsets, features, strengths, chosen, curvatures, W, b, bend, unit, goal,
    sweeps,
):  # fmt: skip
    """Sweeps over the chosen blocks, and steps of the intercept, until no violation exceeds the goal.

    Blocks that exceed it are visited again before all the others are. `b` is the intercept or empty, `bend` its L, and
    its violation counts `unit` times. Returns the largest violation of the last sweep.
    """
    largest = 1
    for c in range(chosen.shape[0]):
        if features.shape[0] > 0:
            largest = max(largest, offsets[chosen[c] + 1] - offsets[chosen[c]])
    size = largest * W.shape[1]
    scratch, step = np.empty((4, size)), np.empty(size, W.dtype)
    hot = np.empty(chosen.shape[0], chosen.dtype)
    worst = 0.0
    for _ in range(sweeps):
        worst, count = 0.0, chosen.shape[0]
        hot[:] = chosen
        if b.shape[0] > 0:
            worst = unit * balance(loss, targets, rows, b, bend)
        for turn in range(1 + HOT_SWEEPS):
            kept = 0
            for c in range(count):
                found = _visit(
                    loss, penalty, layout, targets, rows, offsets, features, strengths, hot[c], curvatures, W, scratch,
                    step, 0.1 * goal,
                )  # fmt: skip
                if turn == 0:
                    worst = max(worst, found)
                if found > goal:
                    hot[kept] = hot[c]
                    kept += 1
            count = kept
            if count == 0:
                break
        if worst <= goal:
            break
    return worst


@kernel
def _visit(
    loss, penalty, layout, targets, rows, offsets, features, strengths, g, curvatures, W, scratch, step, enough,
):  # fmt: skip
    """One step of block g; returns its violation before."""
    k = np.uintp(W.shape[1])
    grouped = features.shape[0] > 0
    first, last = (offsets[g], offsets[g + 1]) if grouped else (g, g + 1)
    size = np.uintp(last - first) * k
    slope, old, new = scratch[0][:size], scratch[1][:size], scratch[2][:size]
    slopes(layout, rows, features, grouped, first, last, slope, k)
    for f in range(first, last):
        j = features[f] if grouped else f
        for r in range(k):
            old[np.uintp(f - first) * k + r] = W[j, r]
    violation = penalty.group_violation(old, slope, strengths[g])
    if violation <= enough or curvatures[g] == 0.0:
        return violation
    seen = scratch[3][:size]
    for _ in range(MAX_GROWTHS):
        length = 1.0 / curvatures[g]
        for r in range(size):
            new[r] = old[r] - length * slope[r]
        penalty.group_prox(new, length * strengths[g], new)
        square = 0.0
        for r in range(size):
            step[r] = new[r] - old[r]  # rounded as it will be added
            square += np.float64(step[r]) * np.float64(step[r])
        if square == 0.0:
            return violation
        move(layout, rows, features, grouped, first, last, step, k)
        expand_block(loss, layout, targets, rows, features, grouped, first, last, k)
        bend, noise = 0.0, 0.0
        slopes(layout, rows, features, grouped, first, last, seen, k)
        for r in range(size):
            bend += (seen[r] - slope[r]) * np.float64(step[r])
            noise += abs(slope[r] * step[r])
        if bend <= curvatures[g] * square + NOISE * noise:
            curvatures[g] = max(min(MARGIN * bend / square, curvatures[g]), FALL * curvatures[g])
            for f in range(first, last):
                j = features[f] if grouped else f
                for r in range(k):
                    W[j, r] += step[np.uintp(f - first) * k + r]
            return violation
        for r in range(size):
            step[r] = -step[r]
        move(layout, rows, features, grouped, first, last, step, k)
        expand_block(loss, layout, targets, rows, features, grouped, first, last, k)
        curvatures[g] = max(2.0 * curvatures[g], min(bend / square, 10.0 * curvatures[g]))
    return violation


@kernel
def slopes(layout, rows, features, grouped, first, last, out, k):
    """The gradient by a block's weights."""
    for f in range(first, last):
        layout.column_products(features[f] if grouped else f, rows.R, k, out, np.uintp(f - first) * k)


@kernel
def move(layout, rows, features, grouped, first, last, step, k):
    """Scores after a step of a block."""
    for f in range(first, last):
        layout.column_update(features[f] if grouped else f, step, np.uintp(f - first) * k, k, rows.Z)


@kernel
def expand_block(loss, layout, targets, rows, features, grouped, first, last, k):
    """New gradients of the rows that have some feature of a block, each computed once."""
    if grouped:
        rows.stamps[0] += 1
    for f in range(first, last):
        j = features[f] if grouped else f
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if grouped:
                if rows.stamps[i + np.uintp(1)] == rows.stamps[0]:
                    continue
                rows.stamps[i + np.uintp(1)] = rows.stamps[0]
            loss.gradient_at(targets.labels(i), rows.Z, i * k, k, rows.weights[i], rows.R)


@kernel
def balance(loss, targets, rows, b, bend):
    """One step of the intercept; returns the norm of its gradient before."""
    k = np.uintp(b.shape[0])
    n = np.uintp(rows.weights.shape[0])
    slope, seen, step = np.empty(k), np.empty(k), np.empty(k, b.dtype)
    squares = _sum_rows(rows, k, slope)
    square = 0.0
    for r in range(k):
        square += slope[r] * slope[r]
    eps = np.finfo(rows.R.dtype).eps
    is_noise = square <= eps * eps * squares  # such a step leads anywhere: nothing bends along it
    for _ in range(0 if is_noise else MAX_GROWTHS):
        length, noise, grown = 0.0, 0.0, 0.0
        for r in range(k):
            step[r] = -slope[r] / bend[0]
            length += np.float64(step[r]) * np.float64(step[r])
            noise += abs(slope[r] * step[r])
        for i in range(n):
            for r in range(k):
                rows.Z[i * k + r] += step[r]
        expand(loss, targets, rows, k, 0, n)
        _sum_rows(rows, k, seen)
        for r in range(k):
            grown += (seen[r] - slope[r]) * np.float64(step[r])
        if grown <= bend[0] * length + NOISE * noise:
            bend[0] = max(min(MARGIN * grown / length, bend[0]), FALL * bend[0]) if length > 0.0 else bend[0]
            for r in range(k):
                b[r] += step[r]
            break
        for i in range(n):
            for r in range(k):
                rows.Z[i * k + r] -= step[r]
        expand(loss, targets, rows, k, 0, n)
        bend[0] = max(2.0 * bend[0], min(grown / length, 10.0 * bend[0]))
    return np.sqrt(square)


@kernel
def _sum_rows(rows, k, out):
    """Σ R_i into `out`; returns the sum of their squares."""
    squares = 0.0
    for r in range(k):
        out[r] = 0.0
    for i in range(np.uintp(rows.weights.shape[0])):
        for r in range(k):
            gradient = np.float64(rows.R[i * k + r])
            out[r] += gradient
            squares += gradient * gradient
    return squares
