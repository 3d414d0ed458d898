"""Products of the rows of a compressed matrix with row-major matrices, by register tiles (`lineal.core.simd`)."""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.core.simd import (
    gather1,
    gather2,
    gather4,
    gather8,
    gather16,
    scatter1,
    scatter2,
    scatter4,
    scatter8,
    scatter16,
)

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


@kernel(inline="always")
def gather_tiles(data, indices, start, stop, V, k, out, at):
    """out[at : at+k] = Σ_p data[p]·V[indices[p], :] for start ≤ p < stop; V and out are flat."""
    start, stop, k, at, r = _U(start), _U(stop), _U(k), _U(at), _U(0)
    while r + _U(16) <= k:
        gather16(data, indices, start, stop, V, k, r, out, at + r)
        r += _U(16)
    if r + _U(8) <= k:
        gather8(data, indices, start, stop, V, k, r, out, at + r)
        r += _U(8)
    if r + _U(4) <= k:
        gather4(data, indices, start, stop, V, k, r, out, at + r)
        r += _U(4)
    if r + _U(2) <= k:
        gather2(data, indices, start, stop, V, k, r, out, at + r)
        r += _U(2)
    if r < k:
        gather1(data, indices, start, stop, V, k, r, out, at + r)


@kernel(inline="always")
def scatter_tiles(data, indices, start, stop, U, at, k, out):
    """out[indices[p], :] += data[p]·U[at : at+k] for start ≤ p < stop; U and out are flat."""
    start, stop, k, at, r = _U(start), _U(stop), _U(k), _U(at), _U(0)
    while r + _U(16) <= k:
        scatter16(data, indices, start, stop, U, at + r, out, k, r)
        r += _U(16)
    if r + _U(8) <= k:
        scatter8(data, indices, start, stop, U, at + r, out, k, r)
        r += _U(8)
    if r + _U(4) <= k:
        scatter4(data, indices, start, stop, U, at + r, out, k, r)
        r += _U(4)
    if r + _U(2) <= k:
        scatter2(data, indices, start, stop, U, at + r, out, k, r)
        r += _U(2)
    if r < k:
        scatter1(data, indices, start, stop, U, at + r, out, k, r)


@kernel(inline="always")
def first_not_below(indices, start, stop, bound):
    """Position of the first index ≥ bound in indices[start : stop], which are sorted."""
    low, high = _U(start), _U(stop)
    while low < high:
        middle = (low + high) >> _U(1)
        if indices[middle] < bound:
            low = middle + _U(1)
        else:
            high = middle
    return low
