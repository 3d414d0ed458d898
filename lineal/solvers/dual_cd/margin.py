"""One pass of dual coordinate descent over the rows, for one-vs-rest losses.

Row i and column r have a dual variable u_ir, and W = V − (1/α) Σ_i s_i x_i u_i'. If the other variables are fixed, a
change δ of u_ir changes the score z_ir by −qδ, q = s_i(‖x_i‖²/α + β). The best u_ir has a closed form or takes a few
Newton steps (`dual_ascent` of the loss). All columns of a row are updated in one pass over its non-zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel

# Unsigned indices: Numba then omits the test for negative indices.
_U = np.uintp

#: Largest number of columns per group.
GROUP_COLUMNS = 64

#: Bytes per cache line.
LINE_BYTES = 64

# One array has all numbers of the columns: scores z, signs t, dual variables u, intercepts b, means M and the best
# dual variables, at fixed distances. The compiler then knows that they do not overlap, and uses vector instructions in
# loops over columns. With separate arrays it could not know.
_T, _DUAL, _BIAS, _MEAN, _BEST, _END = (_U(field * GROUP_COLUMNS) for field in range(1, 7))


def stored_columns(k: int) -> int:
    """Number of columns that are stored for k columns of weights, so that 9 to 15 fill a cache line of float32."""
    return 16 if 8 < k < 16 else k


def aligned_zeros(rows: int, columns: int, dtype: Any) -> np.ndarray:
    """Matrix of zeros that begins at a cache line, so that a row of one line does not touch two."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(rows * columns + LINE_BYTES // size, dtype)
    skipped = -room.ctypes.data % LINE_BYTES // size
    return room[skipped : skipped + rows * columns].reshape(rows, columns)


@kernel
def margin_pass(loss, curvature, layout, order, rows, group, slack):
    """Visit the rows in the given order; returns the gain of the dual (times 2/α) and the largest violation.

    A row becomes inactive if its variables would stay at their bounds even if its margins changed by `slack`.
    """
    columns, starts, scale, q, shift, tilt, offsets = rows
    W, b, M, U, active, first, k, width = group
    k, width, first = _U(k), _U(width), _U(first)
    flat = U.reshape(-1)
    S = np.zeros(_END, W.dtype)
    for r in range(k):
        S[_T + r] = -1.0
        S[_BIAS + r] = b[r]
        S[_MEAN + r] = M[r]
    one, zero, least = W.dtype.type(1.0), W.dtype.type(0.0), W.dtype.type(curvature)
    limit = W.dtype.type(slack)
    has_offsets = offsets.shape[0] > 0
    gain, worst = 0.0, 0.0
    for position in range(order.shape[0]):
        i = _U(order[position])
        at = i * k
        for p in range(_U(starts[i]), _U(starts[i + _U(1)])):
            column = _U(columns[p]) - first  # no label (-1) and labels of other groups become large numbers
            if column < k:
                S[_T + column] = one
        layout.row_scores(i, W, width, S, 0)
        if has_offsets:
            for r in range(k):
                S[r] += offsets[i, first + r]
        for r in range(k):
            S[_DUAL + r] = flat[at + r]
        q_i, scale_i, shift_i, tilt_i = q[i], scale[i], shift[i], tilt[i]
        for r in range(k):
            S[r] = S[_T + r] * (S[r] + S[_BIAS + r] + tilt_i * S[_MEAN + r])
        if k > _U(1) and q_i <= W.dtype.type(4.0):
            for r in range(k):
                S[_BEST + r] = loss.dual_ascent_lanes(-S[_T + r] * S[_DUAL + r], S[r], q_i, one)
        else:
            for r in range(k):
                S[_BEST + r] = loss.dual_ascent(-S[_T + r] * S[_DUAL + r], S[r], q_i, one)
        squares, free = zero, zero
        for r in range(k):
            t, best = S[_T + r], S[_BEST + r]
            free += zero if loss.dual_is_bound(best, S[r], limit, one) else one
            step = t * best + S[_DUAL + r]
            squares += step * step
            S[_DUAL + r] = -t * best
            S[r] = scale_i * step
            S[_BIAS + r] += shift_i * step
            S[_MEAN + r] -= scale_i * step
        for r in range(k):
            flat[at + r] = S[_DUAL + r]
        if squares > zero:
            layout.row_update(i, S, 0, width, W)
            gain += np.float64(scale_i) * np.float64(q_i + least) * np.float64(squares)
            worst = max(worst, np.float64(q_i + least) * math.sqrt(np.float64(squares)))
        if free == zero:
            active[i] = False
        for p in range(_U(starts[i]), _U(starts[i + _U(1)])):
            column = _U(columns[p]) - first
            if column < k:
                S[_T + column] = -one
    for r in range(k):
        b[r] = S[_BIAS + r]
        M[r] = S[_MEAN + r]
    return gain, worst
