"""Products of dense matrices by BLAS, on our own threads.

BLAS's own threads wait for each other within every product, and spin while they wait. Where another program has one of
the cores, a product therefore takes tens to hundreds of times as long. Within `threads.blas_limit`, which every fit
holds, BLAS has one thread, and here our threads compute pieces of a product that need nothing of each other. The pieces
depend only on the shapes, so results do not depend on the number of threads. Outside, BLAS does as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool

#: Number of multiplications that are worth a piece of their own, and largest number of pieces.
WORTH_A_PIECE, MOST_PIECES = 1 << 22, 8

#: Smallest number of columns per piece: BLAS is slow with fewer.
COLUMNS = 128


def matmul(A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """A @ B; pieces are rows of A."""
    if out is None:
        out = np.empty((len(A), B.shape[1]), np.result_type(A, B))
    pieces = pool.ranges(len(A), _pieces(A.size * B.shape[1]))
    _run([partial(np.matmul, A[a:b], B, out=out[a:b]) for a, b in pieces])
    return out


def rmatmul(A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """A' @ B; pieces are columns of A or, if it has few, rows whose products are added up in order.

    Memory: with few columns, as many results as there are pieces.
    """
    d, work = A.shape[1], A.size * B.shape[1]
    if out is None:
        out = np.empty((d, B.shape[1]), np.result_type(A, B))
    if d >= 2 * COLUMNS or _pieces(work) == 1:
        pieces = pool.ranges(d, min(_pieces(work), max(1, d // COLUMNS)))
        _run([partial(np.matmul, A[:, a:b].T, B, out=out[a:b]) for a, b in pieces])
        return out
    pieces = pool.ranges(len(A), _pieces(work))
    parts = np.empty((len(pieces), *out.shape), out.dtype)
    _run([partial(np.matmul, A[a:b].T, B[a:b], out=part) for (a, b), part in zip(pieces, parts)])
    return np.add.reduce(parts, axis=0, out=out)


def gram(A: np.ndarray) -> np.ndarray:
    """A' @ A; pieces are blocks of the result or, if it is small, rows of A whose products are added up in order.

    Memory: for a small result, as many results as there are pieces.
    """
    d, count = A.shape[1], _pieces(A.size * A.shape[1] // 2)
    if count == 1:
        return A.T @ A  # NumPy sends this to the symmetric BLAS routine
    if d < 2 * COLUMNS:
        pieces = pool.ranges(len(A), count)
        parts = np.empty((len(pieces), d, d), A.dtype)
        _run([partial(_square, A[a:b], part) for (a, b), part in zip(pieces, parts)])
        total: np.ndarray = np.add.reduce(parts, axis=0)
        return total
    out = np.empty((d, d), A.dtype)
    panels = pool.ranges(d, min(4, d // COLUMNS))
    # The blocks beside the diagonal take twice as long as those on it: they come first.
    blocks = [(rows, columns) for rows in panels for columns in panels if rows < columns]
    tasks = [partial(_block, A, out, *rows, *columns) for rows, columns in blocks]
    _run([*tasks, *(partial(_square, A[:, a:b], out[a:b, a:b]) for a, b in panels)])
    return out


def _square(A: np.ndarray, out: np.ndarray) -> None:
    out[:] = A.T @ A


def _block(A: np.ndarray, out: np.ndarray, first: int, last: int, start: int, stop: int) -> None:
    np.matmul(A[:, first:last].T, A[:, start:stop], out=out[first:last, start:stop])
    out[start:stop, first:last] = out[first:last, start:stop].T


def _pieces(work: int) -> int:
    """Number of pieces for this many multiplications; one where BLAS has threads of its own."""
    return 1 if pool.product_threads() is None else max(1, min(MOST_PIECES, work // WORTH_A_PIECE))


def _run(tasks: Sequence[Callable[[], Any]]) -> None:
    pool.run(tasks, pool.product_threads() or 1)
