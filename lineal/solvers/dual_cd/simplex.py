"""One pass of the sequential dual method over the rows, for losses whose ∇ℓ = p − e_y with p in the simplex.

The k dual variables of a row, u = p − e_y, are coupled: p stays in the simplex. If the other rows are fixed, the best p
minimises ℓ*(p) − z'p + ½q‖p − p_old‖², q = s_i(‖x_i‖²/α + β), where z are the current scores of the row. The loss
computes it (`row_dual_ascent`). As in `margin.py`, W = V − (1/α) Σ_i s_i x_i u_i'.

If p is sparse (Crammer–Singer), a pass over all classes notes the few classes per row where p is positive or nearly so,
and `kept_pass` then updates only those: of a hundred classes, usually a handful.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel

# Unsigned indices: Numba then omits the test for negative indices.
_U = np.uintp

#: Largest number of classes that are kept per row; rows where p has more are updated by passes over all classes only.
KEPT_CLASSES = 15

#: Numbers between arrays of one kernel that do not touch.
APART = 32

#: A class is kept if its score is at most this far below that of the best class.
NEAR = 0.02


@kernel
def simplex_pass(loss, curvature, layout, order, rows, group, slack, kept):
    """Visit the rows in the given order; returns the gain of the dual (times 2/α) and the largest violation.

    All columns are in one group. A row becomes inactive if p is 1 for one class, and would be even if scores changed
    by `slack`. `kept`, (n, 1 + KEPT_CLASSES) or empty, receives the number of kept classes per row, and these classes
    with the label first.
    """
    columns, _, scale, q, shift, tilt, offsets = rows
    W, b, M, U, active, _, k, _ = group
    k = _U(k)
    flat = U.reshape(-1)
    # Parts of one array at a fixed distance: whether loops use vector instructions, which round differently, can depend
    # on where their arrays are, and a seed must give the same bits every time.
    step = k + _U(APART)
    room = np.empty(_U(3) * step + _U(3) * k, W.dtype)
    z, old, best = room[:k], room[step : step + k], room[_U(2) * step : _U(2) * step + k]
    work = room[_U(3) * step :].reshape((np.intp(3), np.intp(k)))
    one, zero, least = W.dtype.type(1.0), W.dtype.type(0.0), W.dtype.type(curvature)
    has_offsets, keeps = offsets.shape[0] > 0, kept.shape[0] > 0
    gain, worst = 0.0, 0.0
    for position in range(order.shape[0]):
        i = _U(order[position])
        at = i * k
        label = _U(columns[i])
        layout.row_scores(i, W, k, z, 0)
        q_i, scale_i, shift_i, tilt_i = q[i], scale[i], shift[i], tilt[i]
        for r in range(k):
            z[r] += b[r] + tilt_i * M[r]
            old[r] = flat[at + r]
        if has_offsets:
            for r in range(k):
                z[r] += offsets[i, r]
        old[label] += one
        distance = loss.row_dual_ascent(label, k, z, old, q_i, work, best)
        if keeps:
            _keep(i, label, k, z, old, best, q_i, kept)
        squares, changed = zero, _U(0)
        for r in range(k):
            z[r] = old[r] - best[r]
            squares += z[r] * z[r]
        if squares > zero:
            for r in range(k):
                flat[at + r] = best[r]
                changed += _U(1) if z[r] != zero else _U(0)
            flat[at + label] -= one
            for r in range(k):
                b[r] += shift_i * z[r]
                M[r] -= scale_i * z[r]
            for r in range(k):
                z[r] *= scale_i
            if changed * _U(8) < k:
                for r in range(k):
                    if z[r] != zero:
                        layout.row_update_one(i, z[r], r, k, W)
            else:
                layout.row_update(i, z, 0, k, W)
            gain += np.float64(scale_i) * np.float64(q_i + least) * np.float64(squares)
            worst = max(worst, np.float64(q_i + least) * math.sqrt(np.float64(squares)))
        elif distance > slack:
            active[i] = False
    return gain, worst


@kernel
def _keep(i, label, k, z, old, best, q, kept):
    """Note the classes with p > 0 and, if there is room, those less than NEAR below them; none if too many."""
    top = z.dtype.type(0.0)
    count = 1
    kept[i, 1] = label
    for r in range(k):
        if best[r] > z.dtype.type(0.0):
            top = (
                z[r] + q * (old[r] - best[r]) + z.dtype.type(0.0 if r == label else 1.0)
            )  # the same for all classes with p > 0
            if r != label:
                if count == KEPT_CLASSES:
                    kept[i, 0] = 0
                    return
                count += 1
                kept[i, count] = r
    least = top - z.dtype.type(1.0 + NEAR)
    for r in range(k):
        if z[r] > least and best[r] == z.dtype.type(0.0) and r != label and count < KEPT_CLASSES:
            count += 1
            kept[i, count] = r
    kept[i, 0] = count


@kernel
def kept_pass(loss, curvature, layout, order, rows, group, kept):
    """Visit the rows as in `simplex_pass`, but update only the kept classes of each row; returns the gain."""
    _, _, scale, q, shift, tilt, offsets = rows
    W, b, M, U, _, _, k, _ = group
    k, stride = _U(k), _U(kept.shape[1])
    flat, classes = U.reshape(-1), kept.reshape(-1)
    z, old, best = np.empty(KEPT_CLASSES, W.dtype), np.empty(KEPT_CLASSES, W.dtype), np.empty(KEPT_CLASSES, W.dtype)
    work = np.empty((3, KEPT_CLASSES), W.dtype)
    one, zero, least = W.dtype.type(1.0), W.dtype.type(0.0), W.dtype.type(curvature)
    has_offsets = offsets.shape[0] > 0
    gain = 0.0
    for position in range(order.shape[0]):
        i = _U(order[position])
        first = i * stride + _U(1)
        count = _U(classes[first - _U(1)])
        if count < _U(2):
            continue
        at = i * k
        layout.row_scores_of(i, W, k, classes, first, count, z)
        q_i, scale_i, shift_i, tilt_i = q[i], scale[i], shift[i], tilt[i]
        for c in range(count):
            r = _U(classes[first + c])
            z[c] += b[r] + tilt_i * M[r]
            if has_offsets:
                z[c] += offsets[i, r]
            old[c] = flat[at + r]
        old[0] += one
        loss.row_dual_ascent(_U(0), count, z, old, q_i, work, best)
        squares = zero
        for c in range(count):
            r = _U(classes[first + c])
            step = old[c] - best[c]
            if step != zero:
                squares += step * step
                flat[at + r] = best[c] - one if c == _U(0) else best[c]
                b[r] += shift_i * step
                M[r] -= scale_i * step
                layout.row_update_one(i, scale_i * step, r, k, W)
        gain += np.float64(scale_i) * np.float64(q_i + least) * np.float64(squares)
    return gain
