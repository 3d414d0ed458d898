"""Inner products and updates of parameter arrays: in the array's data type, summed in float64.

Long vectors are cut into ranges for several threads. BLAS would start threads of its own, which would compete with ours
for the cores.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel

#: Entries per range. Sums over ranges are added in order, so they do not depend on the number of threads.
RANGE = 1 << 17


def _ranges(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + RANGE, size)) for start in range(0, size, RANGE)]


def dot(a: np.ndarray, b: np.ndarray, threads: int = 1) -> float:
    """Inner product Σ a·b of two arrays, in float64."""
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    return math.fsum(pool.run([partial(_dot, flat_a, flat_b, *bounds) for bounds in _ranges(a.size)], threads))


def column_dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Inner product of each column of A with that of B, in float64."""
    if A.shape[1] == 1:
        return np.array([dot(A, B)])
    return np.einsum("jr,jr->r", A, B, dtype=np.float64)


def total_dot(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Inner product of A and B, as an array of one number in float64."""
    return np.array([np.einsum("jr,jr->", A, B, dtype=np.float64)])


def add_scaled(target: np.ndarray, factor: float, other: np.ndarray, threads: int = 1) -> None:
    """Add factor·other to the target, in place."""
    flat, rest = target.reshape(-1), other.reshape(-1)
    pool.run([partial(_add_scaled, flat, factor, rest, *bounds) for bounds in _ranges(target.size)], threads)


def extrapolated(a: np.ndarray, b: np.ndarray, factor: float, threads: int = 1) -> np.ndarray:
    """New array b + factor·(b − a), which extrapolates the line from a to b."""
    out = np.empty_like(b)
    flat_a, flat_b, flat = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    pool.run([partial(_extrapolate, flat_a, flat_b, factor, flat, *bounds) for bounds in _ranges(out.size)], threads)
    return out


@kernel
def _extrapolate(a, b, factor, out, start, stop):
    scale = out.dtype.type(factor)
    for i in range(np.uintp(start), np.uintp(stop)):
        out[i] = b[i] + scale * (b[i] - a[i])


@kernel
def _dot(a, b, start, stop):
    total = 0.0
    for i in range(np.uintp(start), np.uintp(stop)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@kernel
def _add_scaled(target, factor, other, start, stop):
    scale = target.dtype.type(factor)
    for i in range(np.uintp(start), np.uintp(stop)):
        target[i] += scale * other[i]
