"""A matrix with one more column, which is constant: its weight is an intercept that is treated like other weights."""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design

#: The name under which a `Design` keeps its copy.
COPY = "constant column"


def with_constant(X: Design, value: float) -> Design:
    """A copy of X, which is CSR or dense, with a last column of this value. X keeps the copy.

    Memory: that of X, and a number and an index per row.
    """
    known = X.copies.get(COPY)
    if known is None or known[0] != value:
        known = X.copies[COPY] = value, _made(X, value)
    made: Design = known[1]
    return made


def _made(X: Design, value: float) -> Design:
    n, d = X.shape
    if X.is_dense:
        values = np.empty((n, d + 1), X.dtype)
        values[:, :d], values[:, d] = X.layout.values, value
        return Design(Dense(values), values.shape, X.dtype)
    rows = X.layout
    indptr = rows.indptr - rows.indptr[0] + np.arange(n + 1, dtype=rows.indptr.dtype)
    data, indices = np.empty(indptr[-1], X.dtype), np.empty(indptr[-1], rows.indices.dtype)
    _append(rows, X.dtype.type(value), indptr, data, indices)
    return Design(CSR(data, indices, indptr, d + 1), (n, d + 1), X.dtype, X.is_sorted)


@kernel
def _append(rows, value, indptr, data, indices):
    for i in range(indptr.shape[0] - 1):
        at = np.uintp(indptr[i])
        for p in range(np.uintp(rows.indptr[i]), np.uintp(rows.indptr[i + 1])):
            data[at], indices[at] = rows.data[p], rows.indices[p]
            at += np.uintp(1)
        data[at], indices[at] = value, rows.n_columns
