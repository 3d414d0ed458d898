"""Compressed sparse columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.protocol import protocol
from lineal.design.tiles import gather_tiles, scatter_tiles


@protocol
class CSC(NamedTuple):
    """Columns of a sparse matrix. Matrices R, v, Z, out are flat and row-major with k columns."""

    data: Any
    indices: Any
    indptr: Any
    n_rows: int

    def column_products(self, j, R, k, out, at):
        """out[at : at+k] = Σ_i x_ij·R[i, :]."""
        gather_tiles(self.data, self.indices, self.indptr[j], self.indptr[j + 1], R, k, out, at)

    def column_update(self, j, v, at, k, Z):
        """Z[i, :] += x_ij·v[at : at+k] for every non-zero x_ij."""
        scatter_tiles(self.data, self.indices, self.indptr[j], self.indptr[j + 1], v, at, k, Z)

    def column_square(self, j):
        """Σ_i x_ij²."""
        total = 0.0
        for p in range(self.indptr[j], self.indptr[j + 1]):
            total += np.float64(self.data[p]) * np.float64(self.data[p])
        return total
