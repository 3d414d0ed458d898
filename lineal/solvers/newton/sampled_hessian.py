"""Hessians of all columns together from a sample of rows, damped and factorised.

    M = Σ_i s_i C_i ⊗ x_i x_i' + γκ·(I ⊗ Σ̂) + αF

over the rows of a sample (`row_sample.py`), with κ a bound of the curvature of the loss: at γ = 1 the first two terms
are above the Hessian at any parameters. Losses that treat columns separately have one (d + 1) × (d + 1) matrix per
column, others one for all columns, with the (d + 1)·k parameters in the order of the columns.

Memory: 8k·(d + 1)² bytes, or 8k²·(d + 1)², three times while M is made, and the rows of the sample.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.solvers.newton.row_sample import Drawn

#: Number of multiplications up to which the products of a sample are in float64.
FEW_PRODUCTS = 2e9

#: Number of drawn rows that are multiplied at once, and per task.
ROWS_AT_ONCE, TASK_ROWS = 4096, 4096

#: Number of curvatures per row from which products of features are formed once for all of them, and their bytes.
MANY_CURVATURES, PAIR_BYTES = 6, 1 << 20

_U = np.uintp


def of_sample(drawn: list[Drawn], k: int, is_direct: bool, threads: int) -> np.ndarray:
    """Hessians of the loss term: (k, size, size) for separate columns, else (1, k·size, k·size)."""
    X = np.concatenate([part.X for part in drawn])
    C = np.concatenate([part.C for part in drawn])
    m, size = X.shape
    if m * size * size * C.shape[1] <= FEW_PRODUCTS:
        X = X.astype(np.float64)
    with pool.serial_blas():
        blocks = _of_pairs(X, C, threads) if C.shape[1] >= MANY_CURVATURES else _of_columns(X, C, threads)
    if not is_direct:
        return blocks
    H = np.empty((k, size, k, size))
    for (r, q), block in zip(zip(*np.triu_indices(k)), blocks):
        H[r, :, q] = block
        H[q, :, r] = block
    return H.reshape(1, k * size, k * size)


def _of_columns(X: np.ndarray, C: np.ndarray, threads: int) -> np.ndarray:
    """X' diag(C_p) X of every column of C, (columns, size, size)."""
    bounds = [(start, min(start + ROWS_AT_ONCE, len(X))) for start in range(0, len(X), ROWS_AT_ONCE)]
    out = np.zeros((C.shape[1], X.shape[1], X.shape[1]))
    for part in pool.run([partial(_columns, X, C, *bound) for bound in bounds], threads):
        out += part
    return out


def _columns(X: np.ndarray, C: np.ndarray, start: int, stop: int) -> np.ndarray:
    rows, weights = X[start:stop], C[start:stop].astype(X.dtype)
    return np.stack([rows.T @ (rows * weights[:, p, None]) for p in range(C.shape[1])])


def _of_pairs(X: np.ndarray, C: np.ndarray, threads: int) -> np.ndarray:
    """The same as one product: that of the pairs of features of every row with its curvatures."""
    m, size = X.shape
    bounds = [(start, min(start + TASK_ROWS, m)) for start in range(0, m, TASK_ROWS)]
    total = np.zeros((size * (size + 1) // 2, C.shape[1]))
    for part in pool.run([partial(_pairs, X, C, *bound) for bound in bounds], threads):
        total += part
    upper = np.triu_indices(size)
    out = np.empty((C.shape[1], size, size))
    out[:, upper[0], upper[1]] = total.T
    out[:, upper[1], upper[0]] = total.T
    return out


def _pairs(X: np.ndarray, C: np.ndarray, start: int, stop: int) -> np.ndarray:
    size = X.shape[1]
    n_pairs = size * (size + 1) // 2
    at_once = int(min(max(PAIR_BYTES // (n_pairs * X.itemsize), 16), 1024))
    total, room = np.zeros((n_pairs, C.shape[1])), np.empty((at_once, n_pairs), X.dtype)
    for top in range(start, stop, at_once):
        rows = X[top : min(top + at_once, stop)]
        _products(rows, room)
        total += room[: len(rows)].T @ C[top : top + len(rows)].astype(X.dtype)
    return total


@kernel
def _products(X, out):
    """Write the products of all pairs of features of every row, the upper triangle of xx' by rows."""
    size = _U(X.shape[1])
    for i in range(_U(X.shape[0])):
        place = _U(0)
        for a in range(size):
            x = X[i, a]
            for b in range(a, size):
                out[i, place + b - a] = x * X[i, b]
            place += size - a


class Factors:
    """Factorised M. Parameters and gradients are (size, k)."""

    def __init__(self, hessians: np.ndarray, moment: np.ndarray, ridge: np.ndarray, damping: np.ndarray) -> None:
        """`damping` is γκ of every column; `moment` is Σ̂ and `ridge` the diagonal αF, of one column."""
        self.lowers = []
        size = len(ridge)
        for hessian, dampings in zip(hessians, np.split(damping, len(hessians))):
            M = hessian.copy()
            columns = M.reshape(len(M) // size, size, len(M) // size, size)
            for r, one in enumerate(dampings):
                columns[r, :, r] += one * moment
            M[np.diag_indices(len(M))] += np.tile(ridge, len(M) // size)
            self.lowers.append(_cholesky(M))

    @property
    def is_complete(self) -> bool:
        """Whether rounding made no factorisation impossible."""
        return all(lower is not None for lower in self.lowers)

    def solve(self, G: np.ndarray) -> np.ndarray:
        """Product M⁻¹G in float64."""
        parts = G.T.reshape(len(self.lowers), -1)
        solved = [linalg.cho_solve((lower, True), part, check_finite=False) for lower, part in zip(self.lowers, parts)]
        return np.ascontiguousarray(np.stack(solved).reshape(G.T.shape).T)


def _cholesky(M: np.ndarray) -> np.ndarray | None:
    """Lower factor of M, which is changed, with a small multiple of its diagonal added if needed."""
    at = np.diag_indices_from(M)
    diagonal = np.maximum(M[at], 0.0)
    floor = np.where(diagonal > 0.0, diagonal, 1.0)  # empty columns without a penalty, whose gradient is zero
    for jitter in (1e-13, 1e-10, 1e-7, 1e-5):
        M[at] = diagonal + jitter * floor
        try:
            return linalg.cholesky(M, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
    return None
