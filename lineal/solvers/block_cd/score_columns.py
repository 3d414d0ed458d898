"""One score column at a time: its rows by label, its slopes and its dual point."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide


def by_label(targets: Any, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of every label column: row numbers and where those of each column start."""
    starts = np.zeros(k + 2, np.int64)
    _count_labels(targets, n, starts)
    np.cumsum(starts, out=starts)
    rows = np.empty(starts[-1], np.int64)
    _place_labels(targets, n, starts, rows)
    return rows, starts[:-1]


@kernel
def _count_labels(targets, n, starts):
    for i in range(n):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                starts[labels[p] + 2] += 1


@kernel
def _place_labels(targets, n, starts, rows):
    for i in range(n):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                rows[starts[labels[p] + 1]] = i
                starts[labels[p] + 1] += 1


@kernel
def slopes(loss, signs, weights, z, R, c):
    """Column c of R: s·ℓ'."""
    for i in range(np.uintp(z.shape[0])):
        R[i, c] = weights[i] * loss.derivative(signs[i], wide(z[i]))


@kernel
def dual_column(loss, signs, z, scale, U, r):
    """Column r of U: the scaled dual point."""
    for i in range(np.uintp(z.shape[0])):
        U[i, r] = scale * loss.derivative(signs[i], wide(z[i]))


@kernel
def dual_value(loss, signs, weights, z, scale, offsets):
    """Σ s(u·o − ℓ*(u)) of u = scale·ℓ'."""
    total = 0.0
    for i in range(np.uintp(z.shape[0])):
        u = scale * loss.derivative(signs[i], wide(z[i]))
        here = -loss.conjugate(signs[i], u)
        if offsets.shape[0] > 0:
            here += u * wide(offsets[i])
        total += weights[i] * here
    return total
