"""Rows for generators: dense of any numeric type or CSR, read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core import blas, rng
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design
from lineal.errors import DataError

#: Most numbers in a chunk of rows, and in its features.
CHUNK = 1 << 22


def precision(X: Any) -> Any:
    """Data type of the features of X: float64 if X is float64, else float32."""
    return np.dtype(np.float64 if X.dtype == np.float64 else np.float32)


def dense(X: Any, dtype: Any = None) -> np.ndarray:
    """The chunk as a C-ordered array of floats."""
    dtype = precision(X) if dtype is None else dtype
    if sparse.issparse(X):
        return np.ascontiguousarray(X.toarray(), dtype)
    return np.ascontiguousarray(X, dtype)


def sliceable(X: Any) -> Any:
    """X in a form in which ranges of rows can be taken: CSR if it is sparse, otherwise an array."""
    if sparse.issparse(X):
        return X if X.format == "csr" else X.tocsr()
    return X if isinstance(X, np.ndarray) else np.asarray(X)


def design_of(X: Any) -> Design:
    """X (dense of any numeric type, or CSR) as a `Design` in the precision of its features, without a copy."""
    if sparse.issparse(X):
        return Design(CSR(X.data, X.indices, X.indptr, X.shape[1]), X.shape, precision(X))
    return Design(Dense(X), X.shape, precision(X))


def in_precision(X: Any, dtype: Any) -> Any:
    """Rows for features of this precision. Numbers of up to two bytes, and integers for float32, stay as they are."""
    dtype = np.dtype(dtype)
    if X.dtype == dtype or (dtype != np.float64 and (X.dtype.kind != "f" or X.dtype.itemsize <= 2)):
        return X
    with np.errstate(over="ignore"):  # numbers that become infinite are refused with the features
        return X.astype(dtype)


def matrix_of(design: Design) -> Any:
    """Rows of an engine as an array or a CSR matrix for generators, without a copy of the entries."""
    if isinstance(design.layout, Dense):
        return design.layout.values
    data, indices, indptr = design.layout.data, design.layout.indices, design.layout.indptr
    entries = slice(int(indptr[0]), int(indptr[-1]))
    return sparse.csr_array((data[entries], indices[entries], indptr - indptr[0]), shape=design.shape)


def correlations(X: Any, R: np.ndarray) -> np.ndarray:
    """Correlations X'R, (d, k) in float64."""
    products = np.zeros((X.shape[1], R.shape[1]))
    for start, stop in chunks(X, R.shape[1]):
        part = X[start:stop] if sparse.issparse(X) else dense(X[start:stop])
        target = R[start:stop].astype(precision(X), copy=False)
        products += part.T @ target if sparse.issparse(part) else blas.rmatmul(part, target)
    return products


class SumsHere:
    """Sums over rows in this process (see `contracts.RowSums`)."""

    def __init__(self, X: Any) -> None:
        self.X, self.n_rows = X, X.shape[0]

    def total(self, step: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        """Result of step(X, *arguments)."""
        return step(self.X, *arguments)


def chunks(X: Any, width: int, made_dense: bool = False) -> Iterator[tuple[int, int]]:
    """Ranges of rows that limit the memory for the rows themselves and for `width` features of each."""
    is_dense = made_dense or not sparse.issparse(X)
    length = X.shape[1] if is_dense else X.nnz // max(1, X.shape[0])
    step = max(1, min(8192, CHUNK // max(1, length, width)))
    for start in range(0, X.shape[0], step):
        yield start, min(start + step, X.shape[0])


def project(X: Any, V: np.ndarray, threads: int = 1, out: np.ndarray | None = None) -> np.ndarray:
    """X @ V in the precision of the features of X."""
    dtype = precision(X)
    V = V.astype(dtype, copy=False)
    if not sparse.issparse(X):
        return blas.matmul(dense(X), V, out=out)
    from lineal.design import wrap
    from lineal.design.products import matmul

    product = matmul(wrap(X.astype(dtype, copy=False)), V, threads=threads)
    if out is None:
        return product
    out[...] = product
    return out


def sample(n: int, size: int, seed: int, stream: int) -> np.ndarray:
    """Up to `size` random row indices below n, ascending, without repeats."""
    if n <= size:
        return np.arange(n)
    state = rng.generator(seed, stream)
    if n <= 8 * size:
        order = np.arange(n)
        rng.shuffle(state, order)
        return np.sort(order[:size])
    draws = np.empty(2 * size)
    rng.fill_uniform(state, draws)
    drawn = np.unique((draws * n).astype(np.int64))  # some come twice; far more than `size` are left
    rng.shuffle(state, drawn)
    return np.sort(drawn[:size])


def distances(X: Any, first: np.ndarray, second: np.ndarray, power: int) -> np.ndarray:
    """Distances Σ_j |x_j − x'_j|^power of pairs of rows, in float64."""
    found = np.zeros(len(first))
    step = len(first) if sparse.issparse(X) else max(1, (CHUNK // 4) // max(1, X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            gap = abs(X[first[part]].astype(np.float64) - X[second[part]].astype(np.float64))
            if power == 2:
                gap = gap.multiply(gap) if sparse.issparse(gap) else gap * gap
            found[part] = np.asarray(gap.sum(axis=1)).reshape(-1)
    if not np.isfinite(found).all():
        raise DataError("the distances between rows are too large for floating-point numbers: scale the columns")
    return found
