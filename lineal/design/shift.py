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

    Memory: the size of X.
    """
    return subtract(X, columns, shift_of(columns, means, extremes(X, columns), X.dtype))


def extremes(X: Design, columns: np.ndarray) -> np.ndarray:
    """Smallest and largest entries of these columns, (2, columns); of no rows, infinity and minus infinity."""
    if X.shape[0] == 0:
        return np.array([np.full(len(columns), np.inf), np.full(len(columns), -np.inf)])
    if X.is_dense:
        values = X.layout.values
        return np.array([[values[:, j].min() for j in columns], [values[:, j].max() for j in columns]], np.float64)
    part = _matrix(X)[:, columns].tocsc()
    return np.array([extreme(axis=0).toarray().reshape(-1) for extreme in (part.min, part.max)], np.float64)


def shift_of(columns: np.ndarray, means: np.ndarray, extremes: np.ndarray, dtype: Any) -> np.ndarray:
    """What to subtract from every column, (d,), given the means of all columns and the extremes of these.

    It is rounded to the precision of X, since the difference of two numbers that are within a factor of two of each
    other is then exact. It is the value of a column whose entries are all equal: that column becomes zero.
    """
    shift = np.zeros(len(means), dtype)
    low, high = extremes
    shift[columns] = np.where(low == high, low, means[columns])
    return shift


def subtract(X: Design, columns: np.ndarray, shift: np.ndarray) -> Shifted:
    """A copy of X with the shift of these columns subtracted."""
    return _dense(X, columns, shift) if X.is_dense else _sparse(X, columns, shift)


def _matrix(X: Design) -> Any:
    """A sparse X as SciPy knows it."""
    kind = sparse.csr_array if isinstance(X.layout, CSR) else sparse.csc_array
    first, last = X.layout.indptr[0], X.layout.indptr[-1]
    return kind((X.layout.data[first:last], X.layout.indices[first:last], X.layout.indptr - first), shape=X.shape)


def _dense(X: Design, columns: np.ndarray, shift: np.ndarray) -> Shifted:
    values = X.layout.values
    moved = np.array(values, X.dtype, order="F" if values.flags.f_contiguous else "C")
    is_exact = True
    for j in columns:  # one column at a time, because they may be all columns of X
        column = moved[:, j].astype(np.float64)
        column -= shift[j]
        moved[:, j] = column
        is_exact = is_exact and bool(np.array_equal(moved[:, j], column))
    return Shifted(Design(Dense(moved), X.shape, X.dtype), shift.astype(np.float64), is_exact)


def _sparse(X: Design, columns: np.ndarray, shift: np.ndarray) -> Shifted:
    S = _matrix(X)
    part = S[:, columns].tocsc()
    by_entry = shift[S.indices] if S.format == "csr" else np.repeat(shift, np.diff(S.indptr))
    exact = np.subtract(S.data, by_entry, dtype=np.float64)
    moved = type(S)((exact.astype(X.dtype), S.indices, S.indptr), shape=X.shape)
    is_exact = bool(np.array_equal(moved.data, exact))
    if part.nnz < part.shape[0] * part.shape[1]:  # entries that are not stored become −shift
        rows, where = _absent(part)
        values = -shift[columns[where]]
        absent = sparse.coo_array((values, (rows, columns[where])), shape=X.shape).asformat(S.format)
        moved = type(S)(moved + absent)
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
