"""Compressed sparse columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.protocol import protocol
from lineal.design.gather_tiles import gather_tiles, scatter_tiles

# Unsigned cursors: Numba then leaves out the test for negative (wrap-around) indices.
_U = np.uintp


@protocol
class CSC(NamedTuple):
    """Columns of a sparse matrix. The matrices R, v, Z and out are flat and row-major with k columns."""

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

    def column_length(self, j):
        """Number of stored entries of column j."""
        return _U(self.indptr[j + 1]) - _U(self.indptr[j])

    def column_index(self, j, at):
        """Row of the stored entry number `at` of column j."""
        return _U(self.indices[_U(self.indptr[j]) + _U(at)])

    def column_value(self, j, at):
        """Value of the stored entry number `at` of column j."""
        return self.data[_U(self.indptr[j]) + _U(at)]

    def column_dot(self, j, v):
        """Σ_i x_ij·v_i for a vector v, in float64."""
        a, b, c, d = 0.0, 0.0, 0.0, 0.0  # one sum would wait for each addition to end
        p, stop = _U(self.indptr[j]), _U(self.indptr[j + 1])
        whole = p + ((stop - p) & ~_U(3))
        while p < whole:
            a += np.float64(self.data[p]) * np.float64(v[_U(self.indices[p])])
            b += np.float64(self.data[p + _U(1)]) * np.float64(v[_U(self.indices[p + _U(1)])])
            c += np.float64(self.data[p + _U(2)]) * np.float64(v[_U(self.indices[p + _U(2)])])
            d += np.float64(self.data[p + _U(3)]) * np.float64(v[_U(self.indices[p + _U(3)])])
            p += _U(4)
        while p < stop:
            a += np.float64(self.data[p]) * np.float64(v[_U(self.indices[p])])
            p += _U(1)
        return (a + b) + (c + d)

    def column_moments(self, j, gradients, curvatures):
        """Σ_i x_ij·gradients_i, Σ_i x_ij·curvatures_i and Σ_i x_ij²·curvatures_i, in float64."""
        gradient, mean, square = 0.0, 0.0, 0.0
        gradient_, mean_, square_ = 0.0, 0.0, 0.0
        p, stop = _U(self.indptr[j]), _U(self.indptr[j + 1])
        whole = p + ((stop - p) & ~_U(1))
        while p < whole:
            i, i_ = _U(self.indices[p]), _U(self.indices[p + _U(1)])
            x, x_ = np.float64(self.data[p]), np.float64(self.data[p + _U(1)])
            scaled, scaled_ = x * np.float64(curvatures[i]), x_ * np.float64(curvatures[i_])
            gradient += x * np.float64(gradients[i])
            gradient_ += x_ * np.float64(gradients[i_])
            mean += scaled
            mean_ += scaled_
            square += x * scaled
            square_ += x_ * scaled_
            p += _U(2)
        if p < stop:
            x = np.float64(self.data[p])
            scaled = x * np.float64(curvatures[_U(self.indices[p])])
            gradient += x * np.float64(gradients[_U(self.indices[p])])
            mean += scaled
            square += x * scaled
        return gradient + gradient_, mean + mean_, square + square_

    def column_add(self, j, step, out):
        """out_i += step·x_ij for a vector `out`."""
        step = out.dtype.type(step)
        for p in range(np.uintp(self.indptr[j]), np.uintp(self.indptr[j + 1])):
            out[np.uintp(self.indices[p])] += step * self.data[p]

    def column_add_scaled(self, j, step, factors, out):
        """out_i += step·x_ij·factors_i for vectors `factors` and `out`."""
        step = out.dtype.type(step)
        for p in range(np.uintp(self.indptr[j]), np.uintp(self.indptr[j + 1])):
            i = np.uintp(self.indices[p])
            out[i] += step * self.data[p] * factors[i]
