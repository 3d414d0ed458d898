"""`RowSparse`: weights with few non-zero rows, as they result from penalties on whole rows.

A (d, k) matrix is kept as the numbers of its rows that are not all zero, ascending, and those rows. A feature that no
class uses costs nothing: no memory, no byte of a model file, no work in a prediction. NumPy and SciPy only, since
models predict without Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import sparse

#: Bytes of the number of a row.
ROW_BYTES = 8

#: Entries of X, as a share of the columns, from which on a table of all columns is worth filling to look them up.
TABLE_SHARE = 0.25

#: Columns of weights from which on picking columns of X costs less than the products that it saves (measured).
WIDE = 8


class RowSparse(NDArrayOperatorsMixin):
    """Read-only (d, k) matrix of which only some rows are stored; all others are zero.

    Whatever takes an array takes it too, as a dense copy; ``X @ weights`` makes none for an ndarray X, and `product`
    none for SciPy's matrices either.

    Parameters
    ----------
    rows : numbers of the stored rows, strictly ascending.
    values : (len(rows), k), float32 or float64.
    shape : (d, k).

    Memory: len(rows)·(k numbers + 8 bytes).
    """

    ndim = 2

    def __init__(self, rows: Any, values: np.ndarray, shape: tuple[int, int]) -> None:
        rows = np.asarray(rows)
        d, k = (int(size) for size in shape)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise ValueError("rows must be a list of integers")
        if values.ndim != 2 or values.shape != (len(rows), k) or d < 0:
            raise ValueError(f"values of shape {values.shape} are not {len(rows)} rows of a matrix of shape {shape}")
        self.rows: np.ndarray = rows.astype(np.int64, copy=False)
        if len(rows) and (self.rows[0] < 0 or self.rows[-1] >= d or (np.diff(self.rows) <= 0).any()):
            raise ValueError(f"rows must ascend, from 0 to {d - 1} at most")
        self.values = values
        self.shape = (d, k)

    @property
    def dtype(self) -> np.dtype:
        """Data type of the values."""
        return self.values.dtype

    @property
    def size(self) -> int:
        """Number of entries d·k of the full matrix."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Number of bytes of the stored rows."""
        return int(self.rows.nbytes + self.values.nbytes)

    @property
    def T(self) -> np.ndarray:
        """Transposed matrix as a dense array."""
        return self.toarray().T

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<RowSparse {self.shape[0]} × {self.shape[1]} of {self.dtype}, {len(self.rows)} rows not zero>"

    def toarray(self) -> np.ndarray:
        """Convert to a dense (d, k) array."""
        W = np.zeros(self.shape, self.dtype)
        W[self.rows] = self.values
        return W

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a dense array of RowSparse weights is always a copy")
        return self.toarray().astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        return self.toarray()[key]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.toarray())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute X @ self from the stored rows; other operations use a dense copy."""
        if ufunc is np.matmul and method == "__call__" and inputs[1] is self and not options:
            X = np.asarray(inputs[0])
            if X.ndim in (1, 2):
                return self._product(X)
        dense = (entry.toarray() if isinstance(entry, RowSparse) else entry for entry in inputs)
        return getattr(ufunc, method)(*dense, **options)

    def _product(self, X: Any) -> Any:
        if X.shape[-1] != self.shape[0]:
            raise ValueError(f"X of shape {X.shape} has no product with weights of shape {self.shape}")
        entries = X.nnz if sparse.issparse(X) else X.size
        if self.shape[1] < WIDE and self.size <= entries:  # the copy is smaller than X, and its zeros soon multiplied
            return X @ self.toarray()
        return pick_columns(X, self.rows) @ self.values


#: Weights of a model, dense or not.
Weights = np.ndarray | RowSparse


def smaller(W: Weights) -> Weights:
    """W itself, or W as a `RowSparse` if that takes fewer bytes."""
    if isinstance(W, RowSparse):
        return W
    d, k = W.shape
    rows = np.flatnonzero(W.any(axis=1))
    if len(rows) * (k * W.itemsize + ROW_BYTES) >= d * k * W.itemsize:
        return W
    return RowSparse(rows, W[rows], (d, k))


def live(W: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the non-zero rows, and these rows."""
    numbers, values = (W.rows, W.values) if isinstance(W, RowSparse) else (None, W)
    kept = np.flatnonzero(values.any(axis=1))
    if len(kept) < len(values):
        values = values[kept]
        return (kept if numbers is None else numbers[kept]), values
    return (kept if numbers is None else numbers), values


def product(X: Any, W: Weights) -> np.ndarray:
    """X @ W for an ndarray or a SciPy matrix; SciPy's own operator would make a dense copy of `RowSparse` weights."""
    return W._product(X) if isinstance(W, RowSparse) else X @ W


def pick_columns(X: Any, columns: np.ndarray) -> Any:
    """The columns X[..., columns] for ascending indices.

    SciPy's own way to do so for CSR fills a table as long as a row of X, whatever it has to look up: for few rows of
    hashed text that is the most of it.
    """
    if not sparse.issparse(X):
        return X[..., columns]
    if X.format != "csr" or X.nnz >= TABLE_SHARE * X.shape[1]:
        return X[:, columns]
    picked = type(X)((X.shape[0], len(columns)), dtype=X.dtype)
    if len(columns):
        at = np.minimum(np.searchsorted(columns, X.indices), len(columns) - 1)
        kept = np.flatnonzero(columns[at] == X.indices)
        picked.data, picked.indices = X.data[kept], at[kept].astype(X.indices.dtype)
        picked.indptr = np.searchsorted(kept, X.indptr).astype(X.indptr.dtype)
    return picked
