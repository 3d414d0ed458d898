"""X@V and X'@R for dense X in C order and few columns, in register tiles (`lineal.design.register_tiles`).

At most `COLUMNS` terms (X@V) or `ROW_BLOCK` terms (X'@R) are summed before they are added to the total, as in BLAS, so
that rounding errors do not grow with the length of a column. Threads share the rows (X@V) or the columns (X'@R) of X,
and no sum depends on the number of threads.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.register_tiles import ROWS, lanes, row_add, row_dot, tile_add, tile_dot

#: Largest number of columns of the other matrix, and smallest number of columns of X, for which tiles beat BLAS.
MAX_WIDTH, MIN_COLUMNS = 32, 64

#: Number of multiplications below which the choice does not matter.
WORTH_A_KERNEL = 1 << 20

#: Number of columns of X whose rows of V, or sums, stay in the cache.
COLUMNS = 1024

#: Number of rows whose products are summed before they are added to the total: 84 tiles.
ROW_BLOCK = 504

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


def serves(X: np.ndarray, given: np.ndarray, out: np.ndarray) -> bool:
    """Whether tiles serve X and `given`: both in C order, `given` narrow, and neither more precise than `out`."""
    k = given.shape[1]
    return (
        1 < k <= MAX_WIDTH
        and (X.shape[1] >= MIN_COLUMNS or X.dtype != out.dtype)  # BLAS would need a converted copy of X
        and X.flags.c_contiguous
        and given.flags.c_contiguous
        and X.dtype in (np.float32, np.float64)
        and given.dtype in (np.float32, np.float64)
        and max(X.dtype.itemsize, given.dtype.itemsize) <= out.dtype.itemsize
        and X.size * k >= WORTH_A_KERNEL
    )


def matmul(X: np.ndarray, V: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    """Write X @ V to `out`; all three are in C order."""
    n, width = len(X), lanes(out.dtype)
    tiles = pool.ranges(-(-n // ROWS), threads)  # whole tiles: a row is in the same tile for any number of threads
    pool.run([partial(_rows_times, X, V, width, out, ROWS * a, min(ROWS * b, n)) for a, b in tiles], threads)
    return out


def rmatmul(X: np.ndarray, R: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    """Write X' @ R to `out`; all three are in C order."""
    pieces = pool.ranges(X.shape[1], threads)
    pool.run([partial(_columns_times, X, R, lanes(out.dtype), out, *piece) for piece in pieces], threads)
    return out


@kernel
def _rows_times(X, V, width, out, first, last):
    """Write rows first … last − 1 of X @ V."""
    d, k, width, first, last = _U(X.shape[1]), _U(V.shape[1]), _U(width), _U(first), _U(last)
    X, V, out = X.reshape(-1), V.reshape(-1), out.reshape(-1)
    packed, sums = np.empty(_U(COLUMNS) * width, out.dtype), np.empty(_U(ROWS) * width, out.dtype)
    out[first * k : last * k] = 0.0
    whole = first + (last - first) // _U(ROWS) * _U(ROWS)
    for start in range(_U(0), d, _U(COLUMNS)):
        stop = min(start + _U(COLUMNS), d)
        for column in range(_U(0), k, width):
            count = min(width, k - column)
            _pack(V, start, stop, k, column, count, width, packed)
            for i in range(first, whole, _U(ROWS)):
                tile_dot(X, i * d, d, start, stop, packed, sums)
                _unpack(sums, _U(ROWS), width, count, out, i * k + column, k)
            for i in range(whole, last):
                row_dot(X, i * d, d, start, stop, packed, sums)
                _unpack(sums, _U(1), width, count, out, i * k + column, k)


@kernel
def _columns_times(X, R, width, out, first, last):
    """Write rows first … last − 1 of X' @ R, which belong to these columns of X."""
    n, d, k = _U(X.shape[0]), _U(X.shape[1]), _U(R.shape[1])
    width, first, last = _U(width), _U(first), _U(last)
    X, R, out = X.reshape(-1), R.reshape(-1), out.reshape(-1)
    packed, sums = np.empty(_U(ROW_BLOCK) * width, out.dtype), np.empty(_U(COLUMNS) * width, out.dtype)
    out[first * k : last * k] = 0.0
    for top in range(_U(0), n, _U(ROW_BLOCK)):
        bottom = min(top + _U(ROW_BLOCK), n)
        whole = top + (bottom - top) // _U(ROWS) * _U(ROWS)
        for column in range(_U(0), k, width):
            count = min(width, k - column)
            _pack(R, top, bottom, k, column, count, width, packed)
            for start in range(first, last, _U(COLUMNS)):
                stop = min(start + _U(COLUMNS), last)
                sums[:] = 0.0
                for i in range(top, whole, _U(ROWS)):
                    tile_add(X, i * d, d, start, stop, packed, (i - top) * width, sums)
                for i in range(whole, bottom):
                    row_add(X, i * d, d, start, stop, packed, (i - top) * width, sums)
                _unpack(sums, stop - start, width, count, out, start * k + column, k)


@kernel(inline="always")
def _pack(V, start, stop, k, column, count, width, packed):
    """Copy some columns of rows start … stop − 1 to `packed`, in its precision, and fill it up with zeros."""
    for j in range(start, stop):
        for c in range(count):
            packed[(j - start) * width + c] = V[j * k + column + c]
        for c in range(count, width):
            packed[(j - start) * width + c] = 0.0


@kernel(inline="always")
def _unpack(sums, rows, width, count, out, at, k):
    """Add the sums of a tile to some columns of `out`."""
    for row in range(rows):
        for c in range(count):
            out[at + row * k + c] += sums[row * width + c]
