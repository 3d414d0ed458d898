"""Frequencies without a matrix: H D₁ H D₂ H D₃, with H the Walsh–Hadamard matrix and D random signs.

The product is orthogonal and close to a uniform rotation (Yu et al. 2016; Choromanski et al. 2017); a row of p numbers
goes through it in 3 p log₂ p additions. Rows are filled up with zeros to a power of two.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lineal.core import rng
from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.features import rows

#: Shortest transform: the sums of fewer random signs are not near to normal.
SHORTEST = 64

_U = np.uintp


def order(d: int) -> int:
    """Length of the transforms of rows of length d."""
    return max(SHORTEST, 1 << (d - 1).bit_length())


def signs(state: np.ndarray, count: int, p: int) -> np.ndarray:
    """(stacks, 3, p) of ±1, int8, for as many stacks of p frequencies as `count` takes."""
    stacks = -(-count // p)
    draws = np.empty(stacks * 3 * p)
    rng.fill_uniform(state, draws)
    return np.where(draws < 0.5, np.int8(-1), np.int8(1)).reshape(stacks, 3, p)


class Structured:
    """Frequencies given by signs and lengths.

    Memory: 3 bytes a sign; a chunk of a sparse matrix is made dense by at most 4 M numbers.
    """

    def __init__(self, signs: np.ndarray, lengths: np.ndarray, threads: int) -> None:
        self.signs, self.count = signs, len(lengths)
        p = signs.shape[2]
        self.lengths = lengths * p**-1.5  # three transforms that are not normalised

    def turns(self, X: Any, out: np.ndarray, threads: int) -> None:
        """The products of the rows with the frequencies, into `out`."""
        lengths = self.lengths.astype(out.dtype)
        for start, stop in rows.chunks(X, 1):
            part, target = rows.dense(X[start:stop]), out[start:stop]
            ranges = pool.ranges(len(part), threads)
            pool.run([partial(_turns, part[a:b], self.signs, lengths, target[a:b]) for a, b in ranges], threads)


@kernel
def _turns(X: Any, signs: Any, lengths: Any, out: Any) -> None:
    d, p = X.shape[1], signs.shape[2]
    work = np.empty(p, out.dtype)
    for i in range(X.shape[0]):
        for stack in range(signs.shape[0]):
            first = stack * p
            kept = min(p, lengths.shape[0] - first)
            for j in range(d):
                work[j] = X[i, j] * signs[stack, 2, j]
            work[d:] = 0
            transform(work)
            for j in range(p):
                work[j] *= signs[stack, 1, j]
            transform(work)
            for j in range(p):
                work[j] *= signs[stack, 0, j]
            transform(work)
            for j in range(kept):
                out[i, first + j] = work[j] * lengths[first + j]


@kernel
def transform(x: Any) -> None:
    """x ← Hx for the Hadamard matrix of entries ±1, in place; its length is a power of two."""
    p = _U(x.shape[0])
    h = _U(1)
    while h < p:
        for start in range(_U(0), p, h + h):
            for j in range(start, start + h):
                a, b = x[j], x[j + h]
                x[j] = a + b
                x[j + h] = a - b
        h += h
