"""Score columns one at a time: which rows have their label, derivatives of the loss, and dual points."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide


def by_label(targets: Any, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that have each label: row numbers sorted by label, and the position at which each label starts."""
    starts = np.zeros(k + 2, np.int64)
    _count_labels(targets, n, starts)
    np.cumsum(starts, out=starts)
    rows = np.empty(starts[-1], np.int64)
    _place_labels(targets, n, starts, rows)
    return rows, starts[:-1]


@kernel
def _count_labels(targets, n, starts):
    """Add the number of rows of label r to starts[r + 2]."""
    for i in range(n):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                starts[labels[p] + 2] += 1


@kernel
def _place_labels(targets, n, starts, rows):
    """Write the row numbers; starts[r + 1] moves from the start of label r to its end."""
    for i in range(n):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                rows[starts[labels[p] + 1]] = i
                starts[labels[p] + 1] += 1


@kernel
def derivatives(loss, signs, weights, z, R, c):
    """Write s·ℓ', the weighted derivatives of the loss, to column c of R."""
    for i in range(np.uintp(z.shape[0])):
        R[i, c] = weights[i] * loss.derivative(signs[i], wide(z[i]))


@kernel
def dual_column(loss, signs, z, scale, U, r):
    """Write the scaled dual point to column r of U."""
    for i in range(np.uintp(z.shape[0])):
        U[i, r] = scale * loss.derivative(signs[i], wide(z[i]))


@kernel
def dual_value(loss, signs, weights, z, scale, offsets):
    """Part Σ s(u·o − ℓ*(u)) of the dual objective that depends on the rows, for u = scale·ℓ'."""
    total = 0.0
    for i in range(np.uintp(z.shape[0])):
        u = scale * loss.derivative(signs[i], wide(z[i]))
        value = -loss.conjugate(signs[i], u)
        if offsets.shape[0] > 0:
            value += u * wide(offsets[i])
        total += weights[i] * value
    return total
