"""One pass of the sequential dual method over the rows, for losses whose ∇ℓ = p − e_y with p in the simplex.

The k dual variables of a row, u = p − e_y, are coupled: p stays in the simplex. With the other rows held, p is the
minimiser of ℓ*(p) − z'p + ½q‖p − p_old‖², q = s_i(‖x_i‖²/α + β), where z are the row's scores now: `row_dual_ascent` of
the loss. As in `dual_margin.py`, W = V − (1/α) Σ_i s_i x_i u_i'.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


@kernel
def simplex_pass(
    loss, layout, rows, columns, starts, scale, q, shift, tilt, offsets, W, b, M, U, first, k, curvature, slack, active
):
    """Visit the rows in the given order; returns the gain of the dual (times 2/α) and the largest violation.

    The arguments are those of `margin_pass`; all columns are in the one group. A row whose p sits on one class, and
    would still if scores moved by `slack`, has its flag in `active` cleared.
    """
    k = _U(k)
    flat = U.reshape(-1)
    z, old, best = np.empty(k, W.dtype), np.empty(k, W.dtype), np.empty(k, W.dtype)
    work = np.empty((3, k), W.dtype)
    one, zero, least = W.dtype.type(1.0), W.dtype.type(0.0), W.dtype.type(curvature)
    has_offsets = offsets.shape[0] > 0
    gain, worst = 0.0, 0.0
    for position in range(rows.shape[0]):
        i = _U(rows[position])
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
        distance = loss.row_dual_ascent(label, z, old, q_i, work, best)
        squares = zero
        for r in range(k):
            step = old[r] - best[r]
            squares += step * step
            flat[at + r] = best[r]
            z[r] = scale_i * step
            b[r] += shift_i * step
            M[r] -= scale_i * step
        flat[at + label] -= one
        if squares > zero:
            layout.row_update(i, z, 0, k, W)
            gain += np.float64(scale_i) * np.float64(q_i + least) * np.float64(squares)
            worst = max(worst, np.float64(q_i + least) * math.sqrt(np.float64(squares)))
        elif distance > slack:
            active[i] = False
    return gain, worst
