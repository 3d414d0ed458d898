"""Passes over dense rows that read X once: scores, what the loss makes of them, and the product with X'.

    gradient    Y = XV + v,  R = s∘∇ℓ(Z + Y),    result X'R, and the sums of s∘ℓ and of R∘Y
    product     Y = XV + v,  R = s∘∇²ℓ(Z)·Y,     result X'R

A few hundred rows at a time stay in the CPU cache from the first product to the second one; both use register tiles
(`lineal.design.register_tiles`). Products are in the precision of V. They are added up in float64 after at most
`FLUSH_ROWS` rows. Threads take ranges of `RANGE_ROWS` rows, whose sums are added in order.

Memory: per thread two copies of V in its precision and one in float64, and one in float64 per range.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.matrix import Design
from lineal.design.register_tiles import ROWS, lanes, row_add, row_dot, tile_add, tile_dot
from lineal.engine.base import Block

#: Largest number of score columns.
MAX_WIDTH = 64

#: Number of multiplications below which separate products cost about the same.
WORTH_A_PASS = 1 << 21

#: Number of bytes of X that stay in the cache between the two products, and the rows that this may be.
CHUNK_BYTES, MIN_ROWS, MAX_ROWS = 192 << 10, 4 * ROWS, 84 * ROWS

#: Number of rows whose products are summed in the precision of V.
FLUSH_ROWS = 84 * ROWS

#: Number of rows per range.
RANGE_ROWS = 16 * FLUSH_ROWS

#: What a pass does with the scores.
GRADIENT, PRODUCT = 0, 1

_U = np.uintp


class Rows(NamedTuple):
    """Arrays of the rows: X, weights, the scores Z to which others are added, and Y, to which these are written.

    Z and Y can have no rows. Z then counts as zero, and nothing is written.
    """

    X: Any
    weights: Any
    Z: Any
    Y: Any


class Sizes(NamedTuple):
    """Lanes of a tile, and number of rows that are in the cache at the same time."""

    width: int
    chunk: int


class Scratch(NamedTuple):
    """Arrays of one thread, all flat: V in tiles, scores, scores + Z, R, R in tiles, one tile, sums of R in tiles."""

    packed: Any
    scores: Any
    shifted: Any
    R: Any
    padded: Any
    tile: Any
    sums: Any


def suits(X: Design, V: np.ndarray) -> bool:
    """Whether one pass over these rows is possible and worthwhile for this matrix V."""
    if not X.is_dense or X.shape[1] == 0:
        return False
    values, k = X.layout.values, V.shape[1]
    return (
        1 <= k <= MAX_WIDTH
        and bool(values.flags.c_contiguous)
        and values.dtype in (np.float32, np.float64)
        and V.dtype in (np.float32, np.float64)
        and values.dtype.itemsize <= V.dtype.itemsize
        and values.size * k >= WORTH_A_PASS
    )


def gradients(
    loss: Any, block: Block, V: np.ndarray, v: np.ndarray, Z: np.ndarray | None = None, out: np.ndarray | None = None
) -> tuple[float, float, np.ndarray]:
    """Loss at Z + Y for Y = XV + v, its derivative along Y, and X'R with the sums of R below it, (d + 1, k).

    Without Z, offsets take its place. Y is written to `out`.
    """
    Z = Z if Z is not None else block.offsets
    return _run(loss, block, V, v, GRADIENT, Z, out)


def product(loss: Any, block: Block, V: np.ndarray, v: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """X'R for R = s∘∇²ℓ(Z)(XV + v), with the sums of R below it, (d + 1, k)."""
    return _run(loss, block, V, v, PRODUCT, Z, None)[2]


def _run(
    loss: Any, block: Block, V: np.ndarray, v: np.ndarray, mode: int, Z: np.ndarray | None, out: np.ndarray | None
) -> tuple[float, float, np.ndarray]:
    dtype, (d, k), n = V.dtype, V.shape, block.n
    none = np.empty((0, k), dtype)
    rows = Rows(
        block.X.layout.values, block.weights, none if Z is None else Z.astype(dtype, copy=False),
        none if out is None else out,
    )  # fmt: skip
    fitting = CHUNK_BYTES // (d * rows.X.itemsize) // ROWS * ROWS
    sizes = Sizes(lanes(dtype), min(max(fitting, MIN_ROWS), MAX_ROWS))
    given = (loss, block.targets, rows, np.ascontiguousarray(V), np.ascontiguousarray(v, dtype), mode, sizes)
    bounds = [(start, min(start + RANGE_ROWS, n)) for start in range(0, n, RANGE_ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):
        parts = pool.run([partial(_pass, *given, *bound) for bound in bounds], block.threads)
        total = np.zeros((d + 1, k))
        for part in parts:
            total += part[2]
        value, derivative = (np.array([part[term] for part in parts]) for term in (0, 1))
    return math.fsum(value) if np.isfinite(value).all() else math.inf, float(derivative.sum()), total


@kernel
def _pass(loss, targets, rows, V, v, mode, sizes, first, last):
    """One pass over rows first … last − 1; returns the loss, its derivative along Y, and X'R above the sums of R."""
    d, k, width, chunk = _U(V.shape[0]), _U(V.shape[1]), _U(sizes.width), _U(sizes.chunk)
    groups = (k + width - _U(1)) // width
    scratch = Scratch(
        np.zeros(groups * d * width, V.dtype), np.empty(chunk * k, V.dtype), np.empty(chunk * k, V.dtype),
        np.empty(chunk * k, V.dtype), np.zeros(chunk * width, V.dtype), np.empty(_U(ROWS) * width, V.dtype),
        np.zeros(groups * d * width, V.dtype),
    )  # fmt: skip
    for group in range(groups):
        for j in range(d):
            for c in range(min(width, k - group * width)):
                scratch.packed[(group * d + j) * width + c] = V[j, group * width + c]
    total, out, work = np.zeros((d + _U(1), k)), np.zeros(2), np.empty(k)
    X, Z, Y = rows.X.reshape(-1), rows.Z.reshape(-1), rows.Y.reshape(-1)
    waiting = _U(0)
    for top in range(_U(first), _U(last), chunk):
        bottom = min(top + chunk, _U(last))
        _scores(X, d, k, width, top, bottom, v, scratch)
        if mode == GRADIENT:
            _gradient_rows(loss, targets, rows.weights, Z, Y, k, top, bottom, work, scratch, out, total)
        else:
            _product_rows(loss, targets, rows.weights, Z, k, top, bottom, work, scratch, total)
        _add(X, d, k, width, top, bottom, scratch)
        waiting += bottom - top
        if waiting + chunk > _U(FLUSH_ROWS):
            _flush(d, k, width, scratch, total)
            waiting = _U(0)
    _flush(d, k, width, scratch, total)
    return out[0], out[1], total


@kernel(borrows=True)
def _scores(X, d, k, width, top, bottom, v, scratch):
    """Write X·V + v of some rows to the scores."""
    packed, scores, tile = scratch.packed, scratch.scores, scratch.tile
    whole = top + (bottom - top) // _U(ROWS) * _U(ROWS)
    for column in range(_U(0), k, width):
        count = min(width, k - column)
        part = packed[column * d : (column + width) * d]
        for i in range(top, whole, _U(ROWS)):
            tile_dot(X, i * d, d, _U(0), d, part, tile)
            for row in range(_U(ROWS)):
                for c in range(count):
                    scores[(i - top + row) * k + column + c] = tile[row * width + c] + v[column + c]
        for i in range(whole, bottom):
            row_dot(X, i * d, d, _U(0), d, part, tile)
            for c in range(count):
                scores[(i - top) * k + column + c] = tile[c] + v[column + c]


@kernel
def _gradient_rows(loss, targets, weights, Z, Y, k, top, bottom, work, scratch, out, total):
    """Write R = s∘∇ℓ(Z + Y) of some rows; adds the losses, R∘Y and the rows of R to the sums."""
    scores, shifted, R, last = scratch.scores, scratch.shifted, scratch.R, _U(total.shape[0] - 1)
    has_base, is_kept = Z.shape[0] > 0, Y.shape[0] > 0
    value, derivative = 0.0, 0.0
    for i in range(top, bottom):
        at, place = (i - top) * k, i * k
        for r in range(k):
            shifted[at + r] = scores[at + r] + (Z[place + r] if has_base else Z.dtype.type(0.0))
        weight = weights[i]
        value += weight * loss.value_and_gradient_at(targets.labels(i), shifted, at, k, weight, work, R)
        for r in range(k):
            derivative += wide(R[at + r]) * wide(scores[at + r])
            total[last, r] += wide(R[at + r])
            if is_kept:
                Y[place + r] = scores[at + r]
    out[0] += value
    out[1] += derivative


@kernel
def _product_rows(loss, targets, weights, Z, k, top, bottom, work, scratch, total):
    """Write R = s∘∇²ℓ(Z)·Y of some rows; adds the rows of R to the sums."""
    scores, R, last = scratch.scores, scratch.R, _U(total.shape[0] - 1)
    for i in range(top, bottom):
        at = (i - top) * k
        loss.curvature_at(targets.labels(i), Z, i * k, k, weights[i], scores, at, work, R)
        for r in range(k):
            total[last, r] += wide(R[at + r])


@kernel(borrows=True)
def _add(X, d, k, width, top, bottom, scratch):
    """Add X'R of some rows to the sums in tiles."""
    R, padded, sums = scratch.R, scratch.padded, scratch.sums
    whole = top + (bottom - top) // _U(ROWS) * _U(ROWS)
    for column in range(_U(0), k, width):
        count = min(width, k - column)
        for i in range(bottom - top):
            for c in range(count):
                padded[i * width + c] = R[i * k + column + c]
            for c in range(count, width):
                padded[i * width + c] = R.dtype.type(0.0)
        part = sums[column * d : (column + width) * d]
        for i in range(top, whole, _U(ROWS)):
            tile_add(X, i * d, d, _U(0), d, padded, (i - top) * width, part)
        for i in range(whole, bottom):
            row_add(X, i * d, d, _U(0), d, padded, (i - top) * width, part)


@kernel(borrows=True)
def _flush(d, k, width, scratch, total):
    """Move the sums in tiles to the float64 total."""
    sums = scratch.sums
    for column in range(_U(0), k, width):
        for j in range(d):
            for c in range(min(width, k - column)):
                total[j, column + c] += wide(sums[column * d + j * width + c])
    sums[:] = 0.0
