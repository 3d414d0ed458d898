"""Factorisation of the d × d matrix of least squares, M = c·Σ̂ + diag(ridge): made once, solved with many times.

Σ̂ is the (centred, weighted) second moment of the features, X̃'SX̃. M is scaled to a unit diagonal and factorised by
Cholesky in float64. This fails, or leaves no correct digit, where columns are duplicates or constant and there is no
ridge. Eigenvectors are used then, without the directions below the rounding of Σ̂. That is exact for right-hand sides
X̃'R, which have no component in these directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from lineal.errors import DataError


class Factor:
    """Inverse of M, or its pseudo-inverse if M has no full rank. Memory: 8d² bytes, twice while it is computed."""

    def __init__(self, moment: np.ndarray, ridge: Any, curvature: float = 1.0, rounding: float | None = None) -> None:
        """`moment` is Σ̂, not changed; `rounding` is the relative error of its entries, by default that of float64."""
        M = curvature * moment
        if not np.isfinite(M).all():
            raise DataError("the squares of the features overflow or are NaN: scale the features")
        M[np.diag_indices(len(M))] += ridge
        diagonal = np.diag(M)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        M *= self.scale[:, None]
        M *= self.scale
        empty = np.flatnonzero(diagonal <= 0.0)
        M[empty, empty] = 1.0
        self.rounding = max(rounding or 0.0, len(M) * float(np.finfo(np.float64).eps))
        self.lower = _cholesky(M, self.rounding)
        if self.lower is None:
            values, vectors = linalg.eigh(M, check_finite=False)
            kept = values > self.rounding * max(float(values[-1]), 0.0)
            self.vectors, self.values = vectors[:, kept], values[kept]

    @property
    def rank(self) -> int:
        """Number of directions that are not only rounding."""
        return len(self.scale) if self.lower is not None else len(self.values)

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Product M⁻¹R in the precision of R."""
        wide = R.astype(np.float64) * self.scale[:, None]
        if self.lower is not None:
            solution = linalg.cho_solve((self.lower, True), wide, overwrite_b=True, check_finite=False)
        else:
            solution = self.vectors @ (self.vectors.T @ wide / self.values[:, None])
        solution *= self.scale[:, None]
        return np.ascontiguousarray(solution, R.dtype)


def _cholesky(M: np.ndarray, rounding: float) -> np.ndarray | None:
    """Lower factor of a matrix with a unit diagonal; None if it would have no correct digit."""
    try:
        lower = linalg.cholesky(M, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if not len(M):
        return lower
    reciprocal, _ = linalg.lapack.dpocon(lower, float(np.abs(M).sum(axis=0).max()), uplo="L")
    return lower if reciprocal > rounding else None
