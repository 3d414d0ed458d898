"""Compressed sparse rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.protocol import protocol
from lineal.design.gather_tiles import first_not_below, gather_tiles, scatter_tiles

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


@protocol
class CSR(NamedTuple):
    """Rows of a sparse matrix. The matrices V, U and out are flat and row-major with k columns."""

    data: Any
    indices: Any
    indptr: Any
    n_columns: int

    def row_scores(self, i, V, k, out, at):
        """out[at : at+k] = x_i'V."""
        gather_tiles(self.data, self.indices, self.indptr[i], self.indptr[i + 1], V, k, out, at)

    def row_update(self, i, U, at, k, out):
        """out[j, :] += x_ij·U[at : at+k] for every non-zero x_ij."""
        scatter_tiles(self.data, self.indices, self.indptr[i], self.indptr[i + 1], U, at, k, out)

    def row_update_between(self, i, U, at, k, out, first, last):
        """Update the rows first ≤ j < last of `out` as `row_update` does; the indices of row i must be sorted."""
        start = first_not_below(self.indices, self.indptr[i], self.indptr[i + 1], first)
        stop = first_not_below(self.indices, start, self.indptr[i + 1], last)
        scatter_tiles(self.data, self.indices, start, stop, U, at, k, out)

    def row_scores_of(self, i, V, k, columns, first, count, out):
        """out[c] = x_i'V[:, columns[first + c]] for c < count."""
        for c in range(count):
            out[c] = 0.0
        for p in range(_U(self.indptr[i]), _U(self.indptr[i + _U(1)])):
            x, at = self.data[p], _U(self.indices[p]) * k
            for c in range(count):
                out[c] += x * V[at + _U(columns[first + c])]

    def row_update_one(self, i, step, r, k, out):
        """out[j, r] += x_ij·step for every non-zero x_ij."""
        for p in range(_U(self.indptr[i]), _U(self.indptr[i + _U(1)])):
            out[_U(self.indices[p]) * k + r] += self.data[p] * step

    def row_length(self, i):
        """Number of stored entries of row i."""
        return _U(self.indptr[i + _U(1)]) - _U(self.indptr[i])

    def row_index(self, i, at):
        """Column of the stored entry number `at` of row i."""
        return _U(self.indices[_U(self.indptr[i]) + _U(at)])

    def row_entry(self, i, at):
        """Stored entry number `at` of row i."""
        return self.data[_U(self.indptr[i]) + _U(at)]

    def row_square(self, i):
        """‖x_i‖²."""
        total = 0.0
        for p in range(self.indptr[i], self.indptr[i + 1]):
            total += np.float64(self.data[p]) * np.float64(self.data[p])
        return total
