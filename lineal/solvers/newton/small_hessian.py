"""Full Hessians for few features, factorised: H_r = X̃' diag(D_r) X̃ + αF for every column r.

They are computed once, and then corrected only for the rows whose curvature has changed by more than a given fraction.
For a squared hinge these are the rows that have crossed the margin. If every curvature in D has a relative error of at
most δ, so has the matrix as a quadratic form, and a Newton update removes all but about a fraction δ of the error.

Memory: 2k·(d + 1)² numbers in float64, and n·k curvatures as row state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.csr import CSR
from lineal.engine.base import Block
from lineal.engine.local import pieces_of, put_pieces
from lineal.engine.state import Piece
from lineal.numerics.score_rows import RowFacts, ScoreRows, derivatives
from lineal.problem.loop_state import LoopState

#: Largest number of features for sparse rows and for dense rows (for which products with the Hessian are cheaper).
MAX_SPARSE, MAX_DENSE = 600, 96

#: Largest root mean square of the number of stored entries per sparse row; with more, products cost less.
MAX_STORED = 80

#: Largest number of entries of all matrices together.
MAX_SIZE = 4_000_000

#: Number of dense rows that are multiplied at once.
DENSE_ROWS = 2048

_U = np.uintp


def is_worthwhile(rows: ScoreRows) -> bool:
    """Whether the factorised Hessian costs less than products with it."""
    engine, (n, d) = rows.engine, rows.engine.shape
    if rows.is_coupled or n == 0 or d == 0 or engine.n_columns * (d + 1) ** 2 > MAX_SIZE:
        return False
    if engine.is_dense:
        return d <= MAX_DENSE
    if d > MAX_SPARSE:
        return False
    unsuited, squares = engine.sum(_row_lengths)
    return unsuited == 0 and squares <= MAX_STORED**2 * n


class SmallHessian(LoopState):
    """Hessians of the active columns of `rows`.

    Each block keeps the curvatures from which its part of the matrices was computed. If a block has lost them
    (`is_new`), it cannot correct its part, and the matrices are computed from scratch.
    """

    state_names = ("sums", "is_made", "held_pieces")

    def __init__(self, rows: ScoreRows, ridge: np.ndarray) -> None:
        self.rows, self.ridge = rows, ridge
        self.step = AddChanges(rows.facts, rows.objective.fit_intercept)
        self.begin()

    def begin(self) -> None:
        """Start with matrices of zeros and blocks without curvatures."""
        size, k = len(self.ridge), self.rows.n_problems
        self.held = self.rows.engine.state(_NothingHeld(self.rows.engine.dtype), k)
        self.sums, self.is_made = np.zeros((k, size, size)), False

    def keep(self, kept: np.ndarray) -> None:
        """Keep only some of the columns active."""
        self.rows.engine.update(_keep_held, kept, states=(self.held.to(len(kept)),))
        self.sums = self.sums[kept]

    @property
    def held_pieces(self) -> list[Piece] | None:
        """The curvatures that the blocks keep; None if they are in other processes."""
        return pieces_of(self.rows.engine, self.held)

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "held_pieces":
            self.held = self.rows.engine.state(_NothingHeld(self.rows.engine.dtype), self.rows.n_problems)
            put_pieces(self.rows.engine, self.held, value)
        else:
            super().restore_part(name, value)

    def update(self, accuracy: np.ndarray) -> None:
        """Correct the matrices for the rows whose curvature has changed by more than a fraction, one per column."""
        if self.is_made and self._add(accuracy):  # some blocks have lost their curvatures
            self.begin()
        if not self.is_made:
            self._add(accuracy)
            self.is_made = True

    def _add(self, accuracy: np.ndarray) -> bool:
        """Add the changes to the matrices; returns whether some blocks had no curvatures."""
        rows, means = self.rows, self.rows.centred.means
        centre = None if means is None else means[:, 0]
        states = (rows.state, self.held.to(rows.n_problems))
        changes, new = rows.engine.sum(self.step, accuracy, rows.columns, centre, states=states)
        self.sums += changes
        return bool(new > 0)

    def solve(self, gradient: np.ndarray) -> np.ndarray | None:
        """Product of H⁻¹ with the gradient of each column; None if rounding makes a factorisation impossible."""
        out = np.empty_like(gradient)
        for r in range(gradient.shape[1]):
            factor = _factor(self._matrix(r))
            if factor is None:
                return None
            out[:, r] = linalg.cho_solve(factor, gradient[:, r].astype(np.float64), check_finite=False)
        return out

    def _matrix(self, r: int) -> np.ndarray:
        """Lower triangle of H_r, with respect to W and b̃."""
        matrix = self.sums[r].copy()
        means = self.rows.centred.means
        if means is not None and not self.rows.engine.is_dense:
            mean, cross, weight = means[:, 0].astype(np.float64), matrix[-1, :-1].copy(), matrix[-1, -1]
            shifted = cross - 0.5 * weight * mean
            matrix[:-1, :-1] -= np.outer(mean, shifted) + np.outer(shifted, mean)
            matrix[-1, :-1] = cross - weight * mean
        matrix[np.diag_indices_from(matrix)] += self.ridge
        return matrix


def _row_lengths(block: Block) -> tuple[int, float]:
    """Step: 1 if the rows are not sorted CSR, else 0, and the sum of the squared numbers of entries per row."""
    layout = block.X.layout
    if not (isinstance(layout, CSR) and block.X.is_sorted):
        return 1, 0.0
    return 0, float(np.square(np.diff(layout.indptr).astype(np.float64)).sum())


@dataclass(frozen=True)
class _NothingHeld:
    """Rebuild the state of a block without curvatures, because the ones it was computed from are not known."""

    dtype: Any

    def __call__(self, block: Block, k: int) -> Piece:
        return {"D": np.zeros((block.n, k), self.dtype), "is_new": np.ones(1, bool)}


def _keep_held(block: Block, held: Piece, kept: np.ndarray) -> tuple[()]:
    held["D"] = np.ascontiguousarray(held["D"][:, kept])
    return ()


@dataclass(frozen=True)
class AddChanges:
    """Step: Σ change·xx' over the rows whose curvature has changed, per column, and whether the block had none."""

    facts: RowFacts
    fit_intercept: bool

    def __call__(
        self, block: Block, piece: Piece, held: Piece, accuracy: np.ndarray, columns: np.ndarray,
        centre: np.ndarray | None,
    ) -> tuple[np.ndarray, int]:  # fmt: skip
        D, threads = derivatives(self.facts, block, piece, columns)["D"], block.threads
        k, size = len(columns), block.X.shape[1] + self.fit_intercept
        total = np.zeros((k, size, size))
        tasks = [partial(_changes, D, held["D"], r, float(accuracy[r])) for r in range(k)]
        changes: list[Any] = pool.run(tasks, threads)
        if block.X.is_dense:
            for r, change in enumerate(changes):
                _add_dense(block.X.layout.values, centre, total[r], *change)
        elif k > 1 or len(changes[0][0]) < 4096 or threads == 1:
            tasks = [
                partial(_add_outer, block.X.layout, where, change, self.fit_intercept, total[r], 0, len(where))
                for r, (where, change) in enumerate(changes)
            ]
            pool.run(tasks, threads)
        else:
            where, change = changes[0]
            cuts = pool.ranges(len(where), threads)
            parts = [total[0], *np.zeros((len(cuts) - 1, size, size))]
            given = (block.X.layout, where, change, self.fit_intercept)
            pool.run([partial(_add_outer, *given, part, *cut) for part, cut in zip(parts, cuts)], threads)
            for part in parts[1:]:
                total[0] += part
        is_new, held["is_new"] = int(held["is_new"][0] and block.n > 0), np.zeros(1, bool)
        return total, is_new


def _add_dense(
    values: np.ndarray, centre: np.ndarray | None, total: np.ndarray, where: np.ndarray, change: np.ndarray
) -> None:
    """Add Σ change·xx' of dense rows. They are centred first, so that large means do not cost precision."""
    d = values.shape[1]
    for start in range(0, len(where), DENSE_ROWS):
        rows = values[where[start : start + DENSE_ROWS]]
        if centre is not None:
            rows = rows - centre.astype(rows.dtype)
        weight = change[start : start + DENSE_ROWS]
        total[:d, :d] += rows.T @ (rows * weight[:, None].astype(rows.dtype))
        if centre is not None:
            total[d, :d] += weight @ rows
            total[d, d] += weight.sum()


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool] | None:
    """Cholesky factorisation, with a small multiple of the diagonal added if needed; None if that does not help."""
    at = np.diag_indices_from(matrix)
    diagonal = np.maximum(matrix[at], 0.0)
    floor = np.where(diagonal > 0.0, diagonal, 1.0)  # empty columns without a penalty, whose gradient is zero
    for jitter in (1e-14, 1e-11, 1e-8):
        matrix[at] = diagonal + jitter * floor + (diagonal == 0.0)
        try:
            return linalg.cho_factor(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
    return None


@kernel
def _changes(D, held, r, fraction):
    """Rows whose curvature in column r has changed by more than a fraction, and by how much; updates `held`.

    Changes that are small compared to the mean curvature are ignored as well.
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
        if abs(now - before) > fraction * (max(now, before) + mean):
            rows[count] = i
            change[count] = now - before
            held[i, r] = D[i, r]
            count += _U(1)
    return rows[:count], change[:count]


@kernel
def _add_outer(layout, rows, change, has_intercept, total, start, stop):
    """Add Σ change·xx' over the listed rows to the lower triangle of `total`; the intercept is the last feature.

    Indices are ascending. If an index occurs twice in a row, its diagonal entry is too small, which only makes the
    update less accurate.
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
