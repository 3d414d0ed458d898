"""Inner products and updates of parameter arrays: threaded, in the array's precision, summed in float64.

BLAS would wake its own threads for long vectors, and those spin for a while on the cores that ours need.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel

#: Entries of a chunk; partial sums are added in order, whatever the number of threads.
CHUNK = 1 << 17


def _chunks(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK)]


def dot(a: np.ndarray, b: np.ndarray, threads: int = 1) -> float:
    """Σ a·b in float64."""
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    return math.fsum(pool.run([partial(_dot, flat_a, flat_b, *chunk) for chunk in _chunks(a.size)], threads))


def add_scaled(target: np.ndarray, factor: float, other: np.ndarray, threads: int = 1) -> None:
    """target += factor·other, in place."""
    flat, rest = target.reshape(-1), other.reshape(-1)
    pool.run([partial(_add_scaled, flat, factor, rest, *chunk) for chunk in _chunks(target.size)], threads)


def beyond(a: np.ndarray, b: np.ndarray, share: float, threads: int = 1) -> np.ndarray:
    """b + share·(b − a), new."""
    out = np.empty_like(b)
    flat_a, flat_b, flat = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    pool.run([partial(_beyond, flat_a, flat_b, share, flat, *chunk) for chunk in _chunks(out.size)], threads)
    return out


@kernel
def _beyond(a, b, share, out, start, stop):
    scale = out.dtype.type(share)
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
