"""Products with a `Design`: X@V, X'@R, the Gram matrix, norms. Sparse or narrow products use threads, others use BLAS.

Threads split the output of a sparse product: X@V by rows, X'@R by ranges of columns, which are found by bisection in
each sorted row. So no thread needs a copy of the output, and every entry is summed in row order for any number of
threads.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from lineal.core import blas
from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design import narrow_products
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.design.matrix import Design
from lineal.design.orders import by_rows
from lineal.errors import DataError

#: Number of multiplications below which starting a thread costs more than it saves.
WORTH_A_THREAD = 1_000_000

#: Number of multiplications per row below which bisecting every row costs more than a second thread saves.
WORTH_A_SPLIT = 1500

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp

#: Number of rows that are converted at a time if X and V differ in precision.
CONVERTED_ROWS = 1024

#: Largest number of pieces of a Gram matrix of dense rows, and of bytes of their sums.
GRAM_PIECES, GRAM_BYTES = 16, 64 << 20

#: Largest number of features for which the Gram matrix of dense rows is computed in float64.
FEW_COLUMNS = 64


def matmul(X: Design, V: np.ndarray, out: np.ndarray | None = None, threads: int = 1, dtype: Any = None) -> np.ndarray:
    """X @ V for a C-ordered (d, k) matrix V; the result has V's precision, or a wider `dtype`."""
    k = V.shape[1]
    out = _output(X.shape, V, out, dtype)
    if X.is_dense:
        return _dense_matmul(X.layout.values, V.astype(out.dtype, copy=False), out, threads)
    if isinstance(X.layout, CSR):
        return _gather(X.layout, np.ascontiguousarray(V), out, _useful(X, k, threads))
    return _scatter(_transposed(X), X.is_sorted, np.ascontiguousarray(V), out, _useful(X, k, threads))


def rmatmul(X: Design, R: np.ndarray, out: np.ndarray | None = None, threads: int = 1, dtype: Any = None) -> np.ndarray:
    """X' @ R for a C-ordered (n, k) matrix R; the result has R's precision, or a wider `dtype`."""
    k = R.shape[1]
    out = _output(X.shape[::-1], R, out, dtype)
    if X.is_dense:
        return _dense_rmatmul(X.layout.values, R, out, threads)
    if isinstance(X.layout, CSR):
        return _scatter(X.layout, X.is_sorted, np.ascontiguousarray(R), out, _useful(X, k, threads))
    return _gather(_transposed(X), np.ascontiguousarray(R), out, _useful(X, k, threads))


@np.errstate(over="ignore", invalid="ignore")  # `Factor` refuses matrices that are not finite
def gram(
    X: Design, weights: np.ndarray | None = None, threads: int = 1, centre: np.ndarray | None = None
) -> np.ndarray:
    """(X − 1c')' diag(weights) (X − 1c') as a dense float64 (d, d) matrix, where c is `centre` or zero.

    Dense rows are cut into pieces, the same for any number of threads, each of which calls BLAS with one thread of its
    own: threads of BLAS would wait for each other after every product. `lineal.core.blas` cuts a single piece.

    The relative rounding error of its entries is `gram_rounding`. Memory: 8d² bytes, and if X is dense GRAM_BYTES and a
    range of rows per thread; CSC is copied to CSR (`by_rows`).
    """
    n, d = X.shape
    total = np.zeros((d, d))
    if X.is_dense:
        count = min(GRAM_PIECES, GRAM_BYTES // max(total.nbytes, 1), n // max(4 * CONVERTED_ROWS, 4 * d))
        if count <= 1:
            return _dense_gram(X, weights, centre, blas.gram, 0, n)
        tasks = [partial(_dense_gram, X, weights, centre, _square, *piece) for piece in pool.ranges(n, count)]
        with pool.serial_blas():
            for part in pool.run(tasks, threads):
                total += part
        return total
    X_rows = by_rows(X, threads)
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    pieces = pool.ranges(d, 4 * threads if threads > 1 else 1)
    pool.run(
        [partial(_gram_rows, X_rows.layout, weights, total, X_rows.is_sorted, *piece) for piece in pieces], threads
    )
    if X_rows.is_sorted:
        _mirror(total)
    if centre is not None:
        sums = rmatmul(X, weights[:, None], threads=threads)[:, 0]
        total += weights.sum() * np.outer(centre, centre) - np.outer(sums, centre) - np.outer(centre, sums)
    return total


def _square(A: np.ndarray) -> np.ndarray:
    return np.asarray(A.T @ A)  # NumPy sends this to the symmetric BLAS routine


def _dense_gram(
    X: Design, weights: np.ndarray | None, centre: np.ndarray | None, square: Any, first: int, last: int
) -> np.ndarray:  # fmt: skip
    """Gram matrix of some dense rows."""
    d = X.shape[1]
    rows, dtype, total = max(CONVERTED_ROWS, d), _gram_dtype(X.dtype, d), np.zeros((d, d))
    with np.errstate(over="ignore", invalid="ignore"):  # its factorisation checks this
        for start in range(first, last, rows):
            stop = min(start + rows, last)
            block = X.layout.values[start:stop].astype(dtype, copy=False)
            if centre is not None:
                block = block - centre.astype(dtype)
            if weights is not None:
                block = block * np.sqrt(weights[start:stop, None]).astype(dtype)
            total += square(block)
    return total


def gram_rounding(dtype: Any, d: int) -> float:
    """Largest relative rounding error of the entries of a Gram matrix."""
    return float(np.finfo(_gram_dtype(dtype, d)).eps)


def _gram_dtype(dtype: Any, d: int) -> Any:
    """Precision of the products of dense rows: float64 for few features, where it costs almost nothing."""
    return dtype if d > FEW_COLUMNS else np.float64


def scale_columns(X: Design, factors: np.ndarray) -> Design:
    """A copy X·diag(factors) in the same layout (CSR or dense) and precision."""
    factors = factors.astype(X.dtype)
    if X.is_dense:
        return Design(Dense(X.layout.values * factors), X.shape, X.dtype)
    return Design(X.layout._replace(data=X.layout.data * factors[X.layout.indices]), X.shape, X.dtype, X.is_sorted)


def scale_entries(X: Design, exponent: int) -> Design:
    """A copy 2^exponent·X in the same layout and precision."""
    if X.is_dense:
        return Design(Dense(np.ldexp(X.layout.values, exponent, dtype=X.dtype)), X.shape, X.dtype)
    return Design(X.layout._replace(data=np.ldexp(X.layout.data, exponent)), X.shape, X.dtype, X.is_sorted)


def row_norms(X: Design) -> np.ndarray:
    """‖x_i‖² of every row, in float64."""
    out = np.zeros(X.shape[0])
    if X.has_rows:
        _row_squares(X.layout, out)
    else:
        _squares_by_index(X.layout, np.ones(X.shape[1]), out)
    return out


def column_moments(X: Design, weights: np.ndarray) -> np.ndarray:
    """Σ_i weights_i·x_ij and Σ_i weights_i·x_ij² of every column, (d, 2) in float64."""
    out = np.zeros((X.shape[1], 2))
    if X.is_dense:
        for start in range(0, X.shape[0], CONVERTED_ROWS):
            block, part = X.layout.values[start : start + CONVERTED_ROWS], weights[start : start + CONVERTED_ROWS]
            out[:, 0] += part @ block
            out[:, 1] += np.einsum("ij,ij,i->j", block, block, part, dtype=np.float64)
    elif isinstance(X.layout, CSR):
        _moments_by_index(X.layout, weights, out)
    else:
        _moments_of_columns(X.layout, weights, out)
    return out


def _output(shape: tuple[int, int], V: np.ndarray, out: np.ndarray | None, dtype: Any) -> np.ndarray:
    """`out`, or a new array, for the product of a matrix of this shape with V. Kernels rely on this check of shapes."""
    if V.ndim != 2 or V.shape[0] != shape[1]:
        raise DataError(f"a matrix of shape {shape} cannot be multiplied with one of shape {V.shape}")
    if out is None:
        return np.empty((shape[0], V.shape[1]), dtype or V.dtype)
    if out.shape != (shape[0], V.shape[1]) or out.dtype != (dtype or V.dtype) or not out.flags.c_contiguous:
        raise DataError(f"out must be {V.dtype} in C order, of shape {(shape[0], V.shape[1])}, found {out.shape}")
    return out


def _useful(X: Design, k: int, threads: int) -> int:
    return max(1, min(threads, X.stored * k // WORTH_A_THREAD))


def _transposed(X: Design) -> CSR:
    """The CSC arrays of X as the CSR form of X'."""
    return CSR(X.layout.data, X.layout.indices, X.layout.indptr, X.shape[0])


def _dense_matmul(X: np.ndarray, V: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    """Write X @ V to `out`; V has the precision of `out`, X is of any numeric type."""
    if narrow_products.serves(X, V, out):
        return narrow_products.matmul(X, V, out, threads)
    if X.dtype == V.dtype:
        return blas.matmul(X, V, out)
    for start in range(0, len(X), CONVERTED_ROWS):
        stop = start + CONVERTED_ROWS
        np.matmul(X[start:stop].astype(V.dtype), V, out=out[start:stop])
    return out


def _dense_rmatmul(X: np.ndarray, R: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    """Write X' @ R to `out`; X is of any numeric type."""
    if narrow_products.serves(X, R, out):
        return narrow_products.rmatmul(X, R, out, threads)
    if X.dtype == R.dtype == out.dtype:
        return blas.rmatmul(X, R, out)
    out[:] = 0
    for start in range(0, len(X), CONVERTED_ROWS):
        stop = start + CONVERTED_ROWS
        out += X[start:stop].T.astype(out.dtype) @ R[start:stop].astype(out.dtype, copy=False)
    return out


def _gather(layout: CSR, V: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    n = len(layout.indptr) - 1
    first, last = layout.indptr[0], layout.indptr[-1]
    cuts = [first + (last - first) * piece // threads for piece in range(1, threads)]
    bounds = [0, *np.searchsorted(layout.indptr, cuts).tolist(), n]
    flat_V, flat_out, k = V.reshape(-1), out.reshape(-1), V.shape[1]
    pieces = [(a, b) for a, b in pairwise(bounds) if b > a]
    pool.run([partial(_rows_matmul, layout, flat_V, k, flat_out, *piece) for piece in pieces], threads)
    return out


def _scatter(layout: CSR, is_sorted: bool, R: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    flat_R, flat_out, k = R.reshape(-1), out.reshape(-1), R.shape[1]
    first, last = int(layout.indptr[0]), int(layout.indptr[-1])
    if threads == 1 or not is_sorted or (last - first) * k < WORTH_A_SPLIT * (len(layout.indptr) - 1):
        flat_out[:] = 0
        _rows_rmatmul(layout, flat_R, k, flat_out)
        return out
    # Quantiles of a sample of the indices, two ranges per thread, because rare columns cost more cache misses.
    sample = np.sort(layout.indices[first : last : max(1, (last - first) // 4096)])
    inner = sample[len(sample) * np.arange(1, 2 * threads) // (2 * threads)]
    bounds = np.unique([0, *(inner.astype(np.int64) + 1).tolist(), layout.n_columns])
    tasks = [partial(_rows_rmatmul_between, layout, flat_R, k, flat_out, *piece) for piece in pairwise(bounds.tolist())]
    pool.run(tasks[::-1], threads)
    return out


@kernel
def _rows_matmul(layout, V, k, out, start, stop):
    for i in range(_U(start), _U(stop)):
        layout.row_scores(i, V, k, out, i * _U(k))


@kernel
def _is_zero(R, start, k):
    """Whether a row of R is zero, as for sparse weights and for rows beyond the margin."""
    for at in range(start, start + _U(k)):  # noqa: SIM110 (kernels know no generators)
        if R[at] != 0.0:
            return False
    return True


@kernel
def _rows_rmatmul(layout, R, k, out):
    for i in range(_U(layout.indptr.shape[0] - 1)):
        if not _is_zero(R, i * _U(k), k):
            layout.row_update(i, R, i * _U(k), k, out)


@kernel
def _rows_rmatmul_between(layout, R, k, out, first, last):
    for at in range(first * k, last * k):
        out[at] = 0.0
    for i in range(_U(layout.indptr.shape[0] - 1)):
        if not _is_zero(R, i * _U(k), k):
            layout.row_update_between(i, R, i * _U(k), k, out, first, last)


@kernel
def _gram_rows(layout, weights, total, is_sorted, first, last):
    """Add up rows first … last − 1 of the Gram matrix; only the upper triangle if the rows of X are sorted."""
    d = _U(total.shape[0])
    flat = total.reshape(-1)
    for i in range(_U(layout.indptr.shape[0] - 1)):
        start, stop = _U(layout.indptr[i]), _U(layout.indptr[i + _U(1)])
        for p in range(start, stop):
            j = _U(layout.indices[p])
            if _U(first) <= j < _U(last):
                x = weights[i] * np.float64(layout.data[p])
                for q in range(p if is_sorted else start, stop):
                    flat[j * d + _U(layout.indices[q])] += x * np.float64(layout.data[q])


@kernel
def _mirror(total):
    """Copy the upper triangle of a matrix to the lower one."""
    for i in range(total.shape[0]):
        for j in range(i):
            total[i, j] = total[j, i]


@kernel
def _row_squares(layout, out):
    for i in range(out.shape[0]):
        out[i] = layout.row_square(i)


@kernel
def _squares_by_index(layout, weights, out):
    """Add up the weighted squares of the entries of a compressed matrix by index."""
    for i in range(_U(layout.indptr.shape[0] - 1)):
        for p in range(_U(layout.indptr[i]), _U(layout.indptr[i + _U(1)])):
            out[_U(layout.indices[p])] += weights[i] * np.float64(layout.data[p]) * np.float64(layout.data[p])


@kernel
def _moments_by_index(layout, weights, out):
    for i in range(layout.indptr.shape[0] - 1):
        for p in range(_U(layout.indptr[i]), _U(layout.indptr[i + 1])):
            j, x = _U(layout.indices[p]), np.float64(layout.data[p])
            out[j, 0] += weights[i] * x
            out[j, 1] += weights[i] * x * x


@kernel
def _moments_of_columns(layout, weights, out):
    for j in range(out.shape[0]):
        for p in range(layout.indptr[j], layout.indptr[j + 1]):
            x = np.float64(layout.data[p])
            out[j, 0] += weights[layout.indices[p]] * x
            out[j, 1] += weights[layout.indices[p]] * x * x
