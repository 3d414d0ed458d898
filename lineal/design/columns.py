"""A matrix by columns, for the solvers that visit one feature after another."""

from __future__ import annotations

from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.csc import CSC
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design


def by_columns(X: Design, threads: int = 1) -> Design:
    """X as CSC or as a dense matrix in F order: X itself where it is one already, else a copy of the size of X.

    Threads sort disjoint ranges of rows, so the copy does not depend on their number. Memory: the copy and one pointer
    a column and thread.
    """
    if isinstance(X.layout, Dense):
        if X.layout.values.flags.f_contiguous:
            return X
        return Design(Dense(np.asfortranarray(X.layout.values)), X.shape, X.dtype)
    if isinstance(X.layout, CSC):
        return X
    return Design(_to_columns(X.layout, X.shape, threads), X.shape, X.dtype)


def _to_columns(rows: CSR, shape: tuple[int, int], threads: int) -> CSC:
    n, d = shape
    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    pieces = pool.ranges(n, max(1, min(threads, (last - first) // (4 * d + 1) + 1)))
    counts = np.zeros((len(pieces) + 1, d), rows.indptr.dtype)
    pool.run([partial(_count, rows, counts[at + 1], *piece) for at, piece in enumerate(pieces)], threads)
    np.cumsum(counts, axis=0, out=counts)
    indptr = np.zeros(d + 1, rows.indptr.dtype)
    np.cumsum(counts[-1], out=indptr[1:])
    counts[:-1] += indptr[:-1]  # where each piece of rows begins to write in each column
    data, indices = np.empty(last - first, rows.data.dtype), np.empty(last - first, rows.indices.dtype)
    tasks = [partial(_place, rows, counts[at], data, indices, *piece) for at, piece in enumerate(pieces)]
    pool.run(tasks, threads)
    return CSC(data, indices, indptr, n)


@kernel
def _count(rows, counts, start, stop):
    for p in range(np.uintp(rows.indptr[start]), np.uintp(rows.indptr[stop])):
        counts[np.uintp(rows.indices[p])] += 1


@kernel
def _place(rows, cursors, data, indices, start, stop):
    for i in range(start, stop):
        for p in range(np.uintp(rows.indptr[i]), np.uintp(rows.indptr[i + 1])):
            j = np.uintp(rows.indices[p])
            at = np.uintp(cursors[j])
            cursors[j] += 1
            data[at] = rows.data[p]
            indices[at] = i
