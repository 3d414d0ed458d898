"""Samples of rows from which Hessians are estimated: rows that matter more are drawn with higher probability.

The Hessian of the loss is Σ_i s_i C_i ⊗ x_i x_i', where C_i is the curvature of the loss at the scores of row i. The
leverage of a row bounds how much its term can be of the whole: rows with rare features, or of rare classes, have a
large one. Row i is drawn with a probability proportional to

    h_i Σ_r s_i C_irr / T_r,    T_r = Σ_i s_i C_irr,    h_i = x_i'Σ̂⁻¹x_i,

mixed with a share of its weight s_i, and its term is divided by that probability. The leverage h_i of the features is
estimated once, from products of Σ̂^(−½)x_i with random signs. Whether a row is drawn depends on its number and on the
seed, not on blocks or threads.

Memory: one number per row, as row state, and the rows of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.products import matmul
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.numerics.centred import Centred

#: Number of random signs from which leverages are estimated.
N_SIGNS = 16

#: Share of the probabilities that is proportional to the weights of the rows alone.
UNIFORM = 0.1

#: Smallest eigenvalue of the correlations of the features that leverages take into account.
FLOOR = 1e-5

#: Rows per range of a pass over scores.
RANGE_ROWS = 8192

_U = np.uintp


class Leverages(NamedTuple):
    """Matrix S and shift such that the leverage of x is estimated as the mean of the squares of x'S + shift."""

    matrix: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(centred: Centred, moment: np.ndarray, seed: int) -> Leverages:
        """Leverages with respect to the second moment of the centred rows (and the constant of an intercept)."""
        diagonal = np.diag(moment)
        scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        correlations = moment * scale[:, None] * scale
        values, vectors = linalg.eigh(correlations, check_finite=False)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(len(moment), N_SIGNS))
        S = scale[:, None] * (vectors @ (signs / np.sqrt(np.maximum(values, FLOOR))[:, None]))
        S *= (diagonal > 0.0)[:, None] / np.sqrt(N_SIGNS)
        if centred.means is None:
            return Leverages(S, np.zeros(N_SIGNS))
        return Leverages(S[:-1], S[-1] - centred.means[:, 0] @ S[:-1])


@dataclass(frozen=True)
class LeveragePieces:
    """Rebuild the leverages h of the rows of a block."""

    dtype: Any

    def __call__(self, block: Block, matrix: np.ndarray, shift: np.ndarray) -> Piece:
        found = matmul(block.X, np.ascontiguousarray(matrix, self.dtype), threads=block.threads)
        found += shift.astype(self.dtype)
        return {"h": np.einsum("ic,ic->i", found, found)}


@dataclass(frozen=True)
class CurvatureSums:
    """Step: T_r = Σ s·C_rr of each column, and the sums of h·s·C_rr, (2, k)."""

    loss: Any

    def __call__(self, block: Block, scores: Piece, leverages: Piece) -> tuple[np.ndarray]:
        Z = scores["Z"]
        given = (self.loss, block.targets, block.weights, Z.reshape(-1), Z.shape[1], leverages["h"])
        parts = _by_ranges(block, partial(_curvature_sums, *given))
        return (np.sum(parts, axis=0) if parts else np.zeros((2, Z.shape[1])),)


class Drawn(NamedTuple):
    """Rows of a sample, centred and with a constant feature for the intercept, and s·C divided by the probability.

    The C of a row are the upper triangle of its k × k curvature by rows, or only the diagonal if columns are separate.
    `sums` are `CurvatureSums` of all rows of the block.
    """

    X: np.ndarray
    C: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True)
class DrawRows:
    """Step for `Engine.gather`: draw rows, with a probability of size·(share of the row), at most one."""

    loss: Any
    seed: int
    size: float

    def __call__(
        self, block: Block, scores: Piece, leverages: Piece, factors: np.ndarray, means: np.ndarray | None
    ) -> Drawn:
        Z = scores["Z"]
        k = Z.shape[1]
        given = (self.loss, block.targets, block.weights, Z.reshape(-1), k, leverages["h"], factors)
        chances = np.empty(block.n)
        sums = _by_ranges(block, partial(_chances, *given, self.size, chances))
        rows = np.flatnonzero(_uniform(self.seed, block.first, block.n) < chances)
        dtype = np.result_type(block.X.dtype, np.float32)
        X = np.ones((len(rows), block.X.shape[1] + (means is not None)), dtype)
        X[:, : block.X.shape[1]] = block.X.layout.values[rows]
        if means is not None:
            X[:, :-1] -= means.astype(dtype)
        C = np.empty((len(rows), k * (k + 1) // 2 if self.loss.is_direct else k))
        weights = block.weights[rows] / chances[rows]
        _curvatures(self.loss, block.targets, rows, weights, Z, self.loss.is_direct, C)
        return Drawn(X, C, np.sum(sums, axis=0) if sums else np.zeros((2, k)))


def _by_ranges(block: Block, task: Any) -> list[Any]:
    bounds = [(start, min(start + RANGE_ROWS, block.n)) for start in range(0, block.n, RANGE_ROWS)]
    return pool.run([partial(task, *bound) for bound in bounds], block.threads)


def _uniform(seed: int, first: int, n: int) -> np.ndarray:
    """Random numbers in [0, 1) that depend only on the seed and on the numbers of the rows."""
    x = np.arange(first, first + n, dtype=np.uint64) + (np.uint64(seed & 0xFFFFFFFF) << np.uint64(32))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of SplitMix64, twice
        x = (x + np.uint64(0x9E3779B97F4A7C15)) ^ (x >> np.uint64(shift))
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


@kernel
def _curvature_sums(loss, targets, weights, Z, k, h, start, stop):
    sums, diagonal = np.zeros((2, k)), np.empty(k)
    for i in range(_U(start), _U(stop)):
        diagonal[:] = 0.0
        loss.add_diagonal(targets.labels(i), Z[i * _U(k) : (i + _U(1)) * _U(k)], _U(0), _U(k), weights[i], diagonal)
        for r in range(k):
            sums[0, r] += diagonal[r]
            sums[1, r] += wide(h[i]) * diagonal[r]
    return sums


@kernel
def _chances(loss, targets, weights, Z, k, h, factors, size, out, start, stop):
    """Write the probability of each row: size·(Σ_r factors_r·h·s·C_rr + UNIFORM·s), at most one; returns the sums."""
    sums, diagonal = np.zeros((2, k)), np.empty(k)
    for i in range(_U(start), _U(stop)):
        diagonal[:] = 0.0
        loss.add_diagonal(targets.labels(i), Z[i * _U(k) : (i + _U(1)) * _U(k)], _U(0), _U(k), weights[i], diagonal)
        share = 0.0
        for r in range(k):
            share += factors[r] * diagonal[r]
            sums[0, r] += diagonal[r]
            sums[1, r] += wide(h[i]) * diagonal[r]
        out[i] = min(size * (wide(h[i]) * share + UNIFORM * weights[i]), 1.0)
    return sums


@kernel
def _curvatures(loss, targets, rows, weights, Z, is_direct, C):
    """Write weight·C of some rows: upper triangles, or diagonals if the loss treats columns separately."""
    k = Z.shape[1]
    unit, out, work, flat = np.zeros(k, Z.dtype), np.empty(k, Z.dtype), np.empty(k), Z.reshape(-1)
    if not is_direct:
        unit[:] = 1.0
    for p in range(rows.shape[0]):
        i, place = rows[p], 0
        for r in range(k if is_direct else 1):
            if is_direct:
                unit[:] = 0.0
                unit[r] = 1.0
            loss.curvature_at(targets.labels(i), flat, _U(i) * _U(k), _U(k), 1.0, unit, _U(0), work, out)
            for q in range(r if is_direct else 0, k):
                C[p, place] = weights[p] * wide(out[q])
                place += 1
