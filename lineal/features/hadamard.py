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

#: Rows that go through the transform together: every step is then a loop over neighbours in memory.
LANES = 16

_U = np.uintp


def order(d: int) -> int:
    """Length of the transforms of rows of length d."""
    return max(SHORTEST, 1 << (d - 1).bit_length())


def signs(state: np.ndarray, count: int, p: int) -> np.ndarray:
    """Random signs ±1, (stacks, 3, p) in int8, for as many stacks of p frequencies as `count` needs."""
    stacks = -(-count // p)
    draws = np.empty(stacks * 3 * p)
    rng.fill_uniform(state, draws)
    return np.where(draws < 0.5, np.int8(-1), np.int8(1)).reshape(stacks, 3, p)


class Structured:
    """Frequencies given by signs and lengths.

    Memory: 3 bytes per sign; sparse rows are converted to dense ones in chunks of at most 4 M numbers.
    """

    def __init__(self, signs: np.ndarray, lengths: np.ndarray) -> None:
        self.signs, self.count = signs, len(lengths)
        p = signs.shape[2]
        self.lengths = lengths * p**-1.5  # three transforms that are not normalised

    def turns(self, X: Any, out: np.ndarray, threads: int) -> None:
        """Write the products of the rows with the frequencies to `out`."""
        lengths = self.lengths.astype(out.dtype)
        for start, stop in rows.chunks(X, 1, made_dense=True):
            part, target = rows.dense(X[start:stop]), out[start:stop]
            ranges = pool.ranges(len(part), threads)
            pool.run([partial(_turns, part[a:b], self.signs, lengths, target[a:b]) for a, b in ranges], threads)


@kernel
def _turns(X: Any, signs: Any, lengths: Any, out: Any) -> None:
    d, p = X.shape[1], signs.shape[2]
    work = np.empty((p, LANES), out.dtype)
    flat = work.reshape(p * LANES)
    for top in range(0, X.shape[0], LANES):
        lanes = min(LANES, X.shape[0] - top)
        for stack in range(signs.shape[0]):
            first = stack * p
            work[:] = 0
            for lane in range(lanes):
                for j in range(d):
                    work[j, lane] = X[top + lane, j]
            for step in range(2, -1, -1):
                for j in range(p):
                    if signs[stack, step, j] < 0:
                        for lane in range(LANES):
                            work[j, lane] = -work[j, lane]
                transform(flat, LANES)
            for lane in range(lanes):
                for j in range(min(p, lengths.shape[0] - first)):
                    out[top + lane, first + j] = work[j, lane] * lengths[first + j]


@kernel
def transform(x: Any, lanes: int) -> None:
    """Replace x by Hx, for the Hadamard matrix H with entries ±1 and `lanes` interleaved vectors at once.

    The length of each is a power of two.
    """
    size, h = _U(x.shape[0]), _U(lanes)
    while h < size:
        for start in range(_U(0), size, h + h):
            for j in range(start, start + h):
                a, b = x[j], x[j + h]
                x[j] = a + b
                x[j + h] = a - b
        h += h
