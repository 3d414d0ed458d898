"""One pass of dual coordinate descent over the rows, for the losses that see one score at a time.

Row i and column r have a dual variable u_ir, and W = V − (1/α) Σ_i s_i x_i u_i'. With the other variables held, a
change δ of u_ir moves the score z_ir by −qδ, q = s_i(‖x_i‖²/α + β), and the best u_ir is known in closed form or from a
few Newton steps (`dual_ascent` of the loss). All columns of a row are visited in one pass over its non-zeros.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


@kernel
def margin_pass(
    loss, layout, rows, columns, starts, scale, q, shift, tilt, offsets, W, b, M, U, first, k, curvature, slack, active
):
    """Visit the rows in the given order; returns the gain of the dual (times 2/α) and the largest violation.

    W is (d, k) of this group's columns, flat; U holds all columns, of which the group's start at `first`. With an
    intercept the features are seen from their mean x̄: scores are x'W + b + tilt·M (see `dual_cd.py`). A row whose
    variables would stay at their bounds although margins move by `slack` has its flag in `active` cleared.
    """
    k, first, stride = _U(k), _U(first), _U(U.shape[1])
    flat = U.reshape(-1)
    z, best = np.empty(k, W.dtype), np.empty(k, W.dtype)
    signs = np.full(k, W.dtype.type(-1.0))
    one, zero, least = W.dtype.type(1.0), W.dtype.type(0.0), W.dtype.type(curvature)
    has_offsets = offsets.shape[0] > 0
    gain, worst = 0.0, 0.0
    for position in range(rows.shape[0]):
        i = _U(rows[position])
        at = i * stride + first
        for p in range(_U(starts[i]), _U(starts[i + _U(1)])):
            column = _U(columns[p]) - first  # -1, no label, and labels of other groups wrap to large numbers
            if column < k:
                signs[column] = one
        layout.row_scores(i, W, k, z, 0)
        if has_offsets:
            for r in range(k):
                z[r] += offsets[i, first + r]
        q_i, scale_i, shift_i, tilt_i = q[i], scale[i], shift[i], tilt[i]
        for r in range(k):
            z[r] = signs[r] * (z[r] + b[r] + tilt_i * M[r])
        if k > _U(1) and q_i <= W.dtype.type(4.0):
            for r in range(k):
                best[r] = loss.dual_ascent_lanes(-signs[r] * flat[at + r], z[r], q_i, one)
        else:
            for r in range(k):
                best[r] = loss.dual_ascent(-signs[r] * flat[at + r], z[r], q_i, one)
        squares, free = zero, zero
        for r in range(k):
            free += zero if loss.dual_is_bound(best[r], z[r], slack, one) else one
            step = signs[r] * best[r] + flat[at + r]
            squares += step * step
            flat[at + r] = -signs[r] * best[r]
            z[r] = scale_i * step
            b[r] += shift_i * step
            M[r] -= scale_i * step
        if squares > zero:
            layout.row_update(i, z, 0, k, W)
            gain += np.float64(scale_i) * np.float64(q_i + least) * np.float64(squares)
            worst = max(worst, np.float64(q_i + least) * math.sqrt(np.float64(squares)))
        if free == zero:
            active[i] = False
        for p in range(_U(starts[i]), _U(starts[i + _U(1)])):
            column = _U(columns[p]) - first
            if column < k:
                signs[column] = -one
    return gain, worst
