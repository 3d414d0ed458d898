"""Some columns of a matrix that is stored by columns, as a matrix of their own."""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.design.csc import CSC
from lineal.design.dense import Dense
from lineal.design.matrix import Design


def take_columns(X: Design, columns: np.ndarray) -> Design:
    """A copy of some columns of X, which is CSC or dense; a dense copy is in C order."""
    shape = (X.shape[0], len(columns))
    if X.is_dense:
        return Design(Dense(np.ascontiguousarray(X.layout.values[:, columns])), shape, X.dtype)
    layout = X.layout
    sizes = layout.indptr[columns + 1] - layout.indptr[columns]
    indptr = np.zeros(len(columns) + 1, layout.indptr.dtype)
    np.cumsum(sizes, out=indptr[1:])
    data, indices = np.empty(indptr[-1], X.dtype), np.empty(indptr[-1], layout.indices.dtype)
    _copy(layout, columns, indptr, data, indices)
    return Design(CSC(data, indices, indptr, X.shape[0]), shape, X.dtype, X.is_sorted)


@kernel
def _copy(layout, columns, indptr, data, indices):
    for c in range(columns.shape[0]):
        at = np.uintp(indptr[c])
        for p in range(np.uintp(layout.indptr[columns[c]]), np.uintp(layout.indptr[columns[c] + 1])):
            data[at] = layout.data[p]
            indices[at] = layout.indices[p]
            at += np.uintp(1)
