"""Hessians of few features, kept whole and factorised: H_r = X̃' diag(D_r) X̃ + αF for every column r.

Built once, then only corrected by the rows whose curvature has changed by more than a given share: a squared hinge pays
for the rows that crossed the margin, a logistic loss for those whose D moved. A matrix whose every D is within a share
δ of the truth is within δ of it as a quadratic form too, so a step with it takes off all but about δ of the error.

Memory: k·(d + 1)² numbers, and n·k curvatures that the matrices hold.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.csr import CSR
from lineal.numerics.score_rows import ScoreRows

#: Features up to which a Hessian is kept whole: of sparse and of dense rows (whose products are cheaper by CG).
MAX_SPARSE, MAX_DENSE = 600, 96

#: Stored numbers of a sparse row, in the mean of squares, beyond which products cost less than the matrix.
MAX_STORED = 80

#: Numbers in all matrices together.
MAX_SIZE = 4_000_000

#: Rows of a dense block.
DENSE_ROWS = 2048

_U = np.uintp


def is_worthwhile(rows: ScoreRows) -> bool:
    """Whether the factorised Hessian costs less than products with it."""
    X, k = rows.engine.X, rows.engine.n_columns
    n, d = X.shape
    if rows.is_coupled or n == 0 or d == 0 or k * (d + 1) ** 2 > MAX_SIZE:
        return False
    if X.is_dense:
        return d <= MAX_DENSE
    if not (isinstance(X.layout, CSR) and X.is_sorted and d <= MAX_SPARSE):
        return False
    lengths = np.diff(X.layout.indptr).astype(np.float64)
    return float(np.square(lengths).sum()) <= MAX_STORED**2 * n


class SmallHessian:
    """The Hessians of the columns that take part in `rows`."""

    def __init__(self, rows: ScoreRows, ridge: np.ndarray) -> None:
        self.rows, self.ridge = rows, ridge
        size, k = len(ridge), rows.groups
        self.held = np.zeros_like(rows.D)
        self.sums = np.zeros((k, size, size))

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the columns only."""
        self.held, self.sums = np.ascontiguousarray(self.held[:, kept]), self.sums[kept]

    def update(self, share: np.ndarray) -> None:
        """Correct the matrices for the rows whose curvature has changed by more than its share, one a column."""
        rows = self.rows
        given = [partial(_changes, rows.D, self.held, r, float(share[r])) for r in range(rows.groups)]
        changes: list[Any] = pool.run(given, rows.threads)
        if rows.engine.X.is_dense:
            for r, change in enumerate(changes):
                self._add_dense(self.sums[r], *change)
            return
        layout, has_intercept = rows.engine.X.layout, rows.objective.fit_intercept
        if rows.groups > 1 or len(changes[0][0]) < 4096 or rows.threads == 1:
            tasks = [
                partial(_add_outer, layout, where, change, has_intercept, self.sums[r], 0, len(where))
                for r, (where, change) in enumerate(changes)
            ]
            pool.run(tasks, rows.threads)
            return
        where, change = changes[0]
        cuts = pool.ranges(len(where), rows.threads)
        parts = [self.sums[0], *np.zeros((len(cuts) - 1, *self.sums[0].shape))]
        pool.run(
            [partial(_add_outer, layout, where, change, has_intercept, part, *cut) for part, cut in zip(parts, cuts)],
            rows.threads,
        )
        for part in parts[1:]:
            self.sums[0] += part

    def _add_dense(self, total: np.ndarray, where: np.ndarray, change: np.ndarray) -> None:
        """Dense rows are centred before they are squared: large means cost no digits."""
        values, means = self.rows.engine.X.layout.values, self.rows.centred.means
        d = values.shape[1]
        for start in range(0, len(where), DENSE_ROWS):
            block = values[where[start : start + DENSE_ROWS]]
            if means is not None:
                block = block - means[:, 0].astype(block.dtype)
            weight = change[start : start + DENSE_ROWS]
            total[:d, :d] += block.T @ (block * weight[:, None].astype(block.dtype))
            if means is not None:
                total[d, :d] += weight @ block
                total[d, d] += weight.sum()

    def solve(self, gradient: np.ndarray) -> np.ndarray | None:
        """H⁻¹·gradient, column by column; None where rounding leaves a matrix without a factorisation."""
        out = np.empty_like(gradient)
        for r in range(gradient.shape[1]):
            factor = _factor(self._matrix(r))
            if factor is None:
                return None
            out[:, r] = linalg.cho_solve(factor, gradient[:, r].astype(np.float64), check_finite=False)
        return out

    def _matrix(self, r: int) -> np.ndarray:
        """Lower triangle of H_r by W and b̃."""
        matrix = self.sums[r].copy()
        means = self.rows.centred.means
        if means is not None and not self.rows.engine.X.is_dense:
            mean, cross, weight = means[:, 0].astype(np.float64), matrix[-1, :-1].copy(), matrix[-1, -1]
            moved = cross - 0.5 * weight * mean
            matrix[:-1, :-1] -= np.outer(mean, moved) + np.outer(moved, mean)
            matrix[-1, :-1] = cross - weight * mean
        matrix[np.diag_indices_from(matrix)] += self.ridge
        return matrix


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool] | None:
    at = np.diag_indices_from(matrix)
    diagonal = np.maximum(matrix[at], 0.0)
    floor = np.where(diagonal > 0.0, diagonal, 1.0)  # a column without entries and penalty: its gradient is zero
    for jitter in (1e-14, 1e-11, 1e-8):
        matrix[at] = diagonal + jitter * floor + (diagonal == 0.0)
        try:
            return linalg.cho_factor(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
    return None


@kernel
def _changes(D, held, r, share):
    """Rows whose curvature in column r has changed by more than its share, by how much, and `held` brought up to date.

    A change that is small beside the mean curvature does not count either.
    """
    n = D.shape[0]
    mean = 0.0
    for i in range(_U(n)):
        mean += np.float64(D[i, r])
    mean *= 0.05 / max(n, 1)
    rows, change = np.empty(n, np.int64), np.empty(n)
    count = _U(0)
    for i in range(_U(n)):
        now, before = np.float64(D[i, r]), np.float64(held[i, r])
        if abs(now - before) > share * (max(now, before) + mean):
            rows[count] = i
            change[count] = now - before
            held[i, r] = D[i, r]
            count += _U(1)
    return rows[:count], change[:count]


@kernel
def _add_outer(layout, rows, change, has_intercept, total, start, stop):
    """Lower triangle of total += Σ change·xx' over listed rows with ascending indices, the intercept's 1 at the end.

    (An index twice in a row makes its diagonal entry smaller than it is: still a Hessian to step with.)
    """
    last = total.shape[0] - 1
    for p in range(_U(start), _U(stop)):
        i, weight = _U(rows[p]), change[p]
        first = _U(layout.indptr[i])
        end = _U(layout.indptr[i + _U(1)])
        for a in range(first, end):
            j = _U(layout.indices[a])
            x = weight * np.float64(layout.data[a])
            for b in range(first, a + _U(1)):
                total[j, _U(layout.indices[b])] += x * np.float64(layout.data[b])
            if has_intercept:
                total[last, j] += x
        if has_intercept:
            total[last, last] += weight
