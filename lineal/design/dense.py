"""Dense matrices in C or F order, with row and column methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.protocol import protocol


@protocol
class Dense(NamedTuple):
    """A dense matrix. The matrices V, U, R, v, Z and out are flat and row-major with k columns."""

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

    def row_scores_of(self, i, V, k, columns, first, count, out):
        """out[c] = x_i'V[:, columns[first + c]] for c < count."""
        for c in range(count):
            out[c] = 0.0
        for j in range(np.uintp(self.values.shape[1])):
            x = self.values[i, j]
            for c in range(count):
                out[c] += x * V[j * k + np.uintp(columns[first + c])]

    def row_update_one(self, i, step, r, k, out):
        """out[j, r] += x_ij·step."""
        for j in range(np.uintp(self.values.shape[1])):
            out[j * k + r] += self.values[i, j] * step

    def row_length(self, i):
        """Number of stored entries of row i."""
        return np.uintp(self.values.shape[1])

    def row_index(self, i, at):
        """Column of entry number `at` of row i."""
        return np.uintp(at)

    def row_entry(self, i, at):
        """Stored entry number `at` of row i."""
        return self.values[i, at]

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

    def column_length(self, j):
        """Number of stored entries of column j."""
        return np.uintp(self.values.shape[0])

    def column_index(self, j, at):
        """Row of entry number `at` of column j."""
        return np.uintp(at)

    def column_value(self, j, at):
        """Entry number `at` of column j."""
        return self.values[at, j]

    def column_dot(self, j, v):
        """Σ_i x_ij·v_i for a vector v, in float64."""
        total = 0.0
        for i in range(np.uintp(self.values.shape[0])):
            total += np.float64(self.values[i, j]) * np.float64(v[i])
        return total

    def column_moments(self, j, gradients, curvatures):
        """Σ_i x_ij·gradients_i, Σ_i x_ij·curvatures_i and Σ_i x_ij²·curvatures_i, in float64."""
        gradient, mean, square = 0.0, 0.0, 0.0
        for i in range(np.uintp(self.values.shape[0])):
            x = np.float64(self.values[i, j])
            scaled = x * np.float64(curvatures[i])
            gradient += x * np.float64(gradients[i])
            mean += scaled
            square += x * scaled
        return gradient, mean, square

    def column_add(self, j, step, out):
        """out_i += step·x_ij for a vector `out`."""
        step = out.dtype.type(step)
        for i in range(np.uintp(self.values.shape[0])):
            out[i] += step * self.values[i, j]

    def column_add_scaled(self, j, step, factors, out):
        """out_i += step·x_ij·factors_i for vectors `factors` and `out`."""
        step = out.dtype.type(step)
        for i in range(np.uintp(self.values.shape[0])):
            out[i] += step * self.values[i, j] * factors[i]
