"""Copies of a matrix in the order in which a solver reads it, by rows or by columns, and copies of some columns.

A counting sort by the other index turns one order into the other. It is the same for both directions, because the CSC
form of X is the CSR form of X'. The `Design` keeps its copy in another order, so that a path of α converts X once.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.csc import CSC
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design


def by_rows(X: Design, threads: int = 1) -> Design:
    """X as CSR or as a dense matrix in C order: X itself if it already is, else a copy of the size of X."""
    return X if _is_in(X, "rows") else _copy(X, "rows", threads)


def by_columns(X: Design, threads: int = 1) -> Design:
    """X as CSC or as a dense matrix in F order: X itself if it already is, else a copy of the size of X."""
    return X if _is_in(X, "columns") else _copy(X, "columns", threads)


def take_columns(X: Design, columns: np.ndarray) -> Design:
    """A copy of some columns of X, which is CSC or dense; a dense copy is in C order."""
    shape = (X.shape[0], len(columns))
    if X.is_dense:
        return Design(Dense(np.ascontiguousarray(X.layout.values[:, columns])), shape, X.dtype)
    indptr, data, indices = _taken(X, columns)
    return Design(CSC(data, indices, indptr, X.shape[0]), shape, X.dtype, X.is_sorted)


def take_rows(X: Design, rows: np.ndarray) -> Design:
    """A copy of some rows of X, which is CSR or dense; a dense copy is in C order."""
    shape = (len(rows), X.shape[1])
    if X.is_dense:
        return Design(Dense(np.ascontiguousarray(X.layout.values[rows])), shape, X.dtype)
    indptr, data, indices = _taken(X, rows)
    return Design(CSR(data, indices, indptr, X.shape[1]), shape, X.dtype, X.is_sorted)


def _taken(X: Design, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pointers, data and indices of some rows of a CSR matrix, or of some columns of a CSC matrix."""
    layout = X.layout
    indptr = np.zeros(len(lines) + 1, layout.indptr.dtype)
    np.cumsum(layout.indptr[lines + 1] - layout.indptr[lines], out=indptr[1:])
    data, indices = np.empty(indptr[-1], X.dtype), np.empty(indptr[-1], layout.indices.dtype)
    _copy_lines(layout, lines, indptr, data, indices)
    return indptr, data, indices


def copied_bytes(X: Design, order: str) -> int:
    """Number of bytes that a copy of X in this order ("rows" or "columns") takes in addition to X."""
    if _is_in(X, order):
        return 0
    if X.is_dense:
        return int(X.layout.values.nbytes)
    lines = X.shape[0] if order == "rows" else X.shape[1]
    entry = X.layout.data.itemsize + X.layout.indices.itemsize
    return X.stored * entry + (lines + 1) * X.layout.indptr.itemsize


def _is_in(X: Design, order: str) -> bool:
    if isinstance(X.layout, Dense):
        flags = X.layout.values.flags
        return bool(flags.c_contiguous if order == "rows" else flags.f_contiguous)
    return isinstance(X.layout, CSR if order == "rows" else CSC)


def _copy(X: Design, order: str, threads: int) -> Design:
    """The copy that X keeps; it is made at the first call."""
    if order not in X.copies:
        n, d = X.shape
        layout: Dense | CSR | CSC
        if X.is_dense:
            layout = Dense(np.array(X.layout.values, order="C" if order == "rows" else "F"))
        elif order == "columns":
            layout = CSC(*_transpose(X.layout, d, threads), n)
        else:
            layout = CSR(*_transpose(CSR(X.layout.data, X.layout.indices, X.layout.indptr, n), n, threads), d)
        X.copies[order] = Design(layout, X.shape, X.dtype)
    return X.copies[order]


def _transpose(rows: CSR, d: int, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, indices and pointers of the d columns; the indices of each column are ascending.

    Threads sort disjoint ranges of rows, so the copy does not depend on their number. Memory: the result, and one
    pointer per column and thread.
    """
    n = len(rows.indptr) - 1
    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    pieces = pool.ranges(n, max(1, min(threads, (last - first) // (4 * d + 1) + 1)))
    counts = np.zeros((len(pieces) + 1, d), rows.indptr.dtype)
    pool.run([partial(_count, rows, counts[at + 1], *piece) for at, piece in enumerate(pieces)], threads)
    np.cumsum(counts, axis=0, out=counts)
    indptr = np.zeros(d + 1, rows.indptr.dtype)
    np.cumsum(counts[-1], out=indptr[1:])
    counts[:-1] += indptr[:-1]  # the position at which each range of rows begins to write in each column
    data, indices = np.empty(last - first, rows.data.dtype), np.empty(last - first, rows.indices.dtype)
    tasks = [partial(_place, rows, counts[at], data, indices, *piece) for at, piece in enumerate(pieces)]
    pool.run(tasks, threads)
    return data, indices, indptr


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


@kernel
def _copy_lines(layout, lines, indptr, data, indices):
    for c in range(lines.shape[0]):
        at = np.uintp(indptr[c])
        for p in range(np.uintp(layout.indptr[lines[c]]), np.uintp(layout.indptr[lines[c] + 1])):
            data[at] = layout.data[p]
            indices[at] = layout.indices[p]
            at += np.uintp(1)
