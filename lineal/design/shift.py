"""A matrix with a constant subtracted from some of its columns.

If the mean of a column is many standard deviations from zero (a year, a timestamp, a pressure), every solver loses
digits and needs more iterations. With a free intercept, the same column can be moved close to zero without changing the
problem. In a sparse matrix only nearly full columns can be that far from zero, so the copy has hardly more entries than
the matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design, wrap


class Shifted(NamedTuple):
    """X − 1·shift' as a `Design`, the shift (d,) in float64, and whether every difference is exact."""

    X: Design
    shift: np.ndarray
    is_exact: bool


def shift_columns(X: Design, columns: np.ndarray, means: np.ndarray) -> Shifted:
    """A copy of X with the means of these columns subtracted, in the layout and precision of X.

    The shift is rounded to the precision of X. The difference of two numbers that are within a factor of two of each
    other is then exact. A column whose entries are all equal is shifted by that entry and becomes zero.

    Memory: the size of X.
    """
    shift = np.zeros(X.shape[1], X.dtype)
    shift[columns] = means[columns]
    return _dense(X, columns, shift) if X.is_dense else _sparse(X, columns, shift)


def _dense(X: Design, columns: np.ndarray, shift: np.ndarray) -> Shifted:
    values = X.layout.values
    moved = np.array(values, X.dtype, order="F" if values.flags.f_contiguous else "C")
    is_exact = True
    for j in columns:  # one column at a time, because they may be all columns of X
        column = moved[:, j].astype(np.float64)
        if np.all(column == column[0]):
            shift[j] = column[0]
        column -= shift[j]
        moved[:, j] = column
        is_exact = is_exact and bool(np.array_equal(moved[:, j], column))
    return Shifted(Design(Dense(moved), X.shape, X.dtype), shift.astype(np.float64), is_exact)


def _sparse(X: Design, columns: np.ndarray, shift: np.ndarray) -> Shifted:
    kind = sparse.csr_array if isinstance(X.layout, CSR) else sparse.csc_array
    first, last = X.layout.indptr[0], X.layout.indptr[-1]
    S = kind((X.layout.data[first:last], X.layout.indices[first:last], X.layout.indptr - first), shape=X.shape)
    part = S[:, columns].tocsc()
    low, high = (extreme(axis=0).toarray().reshape(-1) for extreme in (part.min, part.max))
    shift[columns] = np.where(low == high, low, shift[columns])
    by_entry = shift[S.indices] if S.format == "csr" else np.repeat(shift, np.diff(S.indptr))
    exact = np.subtract(S.data, by_entry, dtype=np.float64)
    moved = kind((exact.astype(X.dtype), S.indices, S.indptr), shape=X.shape)
    is_exact = bool(np.array_equal(moved.data, exact))
    if part.nnz < part.shape[0] * part.shape[1]:  # entries that are not stored become −shift
        rows, where = _absent(part)
        values = -shift[columns[where]]
        moved = kind(moved + sparse.coo_array((values, (rows, columns[where])), shape=X.shape).asformat(S.format))
    return Shifted(wrap(moved), shift.astype(np.float64), is_exact)


def _absent(part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a CSC matrix that are not stored."""
    rows, columns = [], []
    for c in range(part.shape[1]):
        is_absent = np.ones(part.shape[0], bool)
        is_absent[part.indices[part.indptr[c] : part.indptr[c + 1]]] = False
        rows.append(np.flatnonzero(is_absent))
        columns.append(np.full(len(rows[-1]), c))
    return np.concatenate(rows), np.concatenate(columns)
