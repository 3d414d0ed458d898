"""Dense matrices in C or F order: rows and columns alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.protocol import protocol


@protocol
class Dense(NamedTuple):
    """A dense matrix. Matrices V, U, R, v, Z, out are flat and row-major with k columns."""

    values: Any

    def row_scores(self, i, V, k, out, at):
        """out[at : at+k] = x_i'V."""
        for r in range(k):
            out[at + r] = 0.0
        if k == 1:
            total = out[at]
            for j in range(self.values.shape[1]):
                total += self.values[i, j] * V[j]
            out[at] = total
            return
        for j in range(self.values.shape[1]):
            x = self.values[i, j]
            for r in range(k):
                out[at + r] += x * V[j * k + r]

    def row_update(self, i, U, at, k, out):
        """out[j, :] += x_ij·U[at : at+k]."""
        for j in range(self.values.shape[1]):
            x = self.values[i, j]
            for r in range(k):
                out[j * k + r] += x * U[at + r]

    def row_square(self, i):
        """‖x_i‖²."""
        total = 0.0
        for j in range(self.values.shape[1]):
            total += np.float64(self.values[i, j]) * np.float64(self.values[i, j])
        return total

    def column_products(self, j, R, k, out, at):
        """out[at : at+k] = Σ_i x_ij·R[i, :]."""
        for r in range(k):
            out[at + r] = 0.0
        for i in range(self.values.shape[0]):
            x = self.values[i, j]
            for r in range(k):
                out[at + r] += x * R[i * k + r]

    def column_update(self, j, v, at, k, Z):
        """Z[i, :] += x_ij·v[at : at+k]."""
        for i in range(self.values.shape[0]):
            x = self.values[i, j]
            for r in range(k):
                Z[i * k + r] += x * v[at + r]

    def column_square(self, j):
        """Σ_i x_ij²."""
        total = 0.0
        for i in range(self.values.shape[0]):
            total += np.float64(self.values[i, j]) * np.float64(self.values[i, j])
        return total
