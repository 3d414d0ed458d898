"""Sums over the rows of a block: loss, gradients, curvatures and dual points at given scores.

Rows are cut into chunks of a fixed length, and sums over chunks are added in order: they do not depend on the number of
threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block

#: Scores below which a second thread is not worth its start.
WORTH_A_THREAD = 1 << 18

#: Rows of a chunk.
CHUNK_ROWS = 2048


class DualSums(NamedTuple):
    """Of a dual point u: Σ s·ℓ where it is the gradient of, Σ s(u·o − ℓ*(u)), C = Σ s·x·u', Σ s·u and Σ s·u²."""

    primal: float
    dual: float
    correlation: np.ndarray
    balance: np.ndarray
    squares: np.ndarray


def scores(block: Block, W: np.ndarray, b: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Z = XW + b + o, in the wider precision of W and b, or in `dtype`, which is wider."""
    Z = matmul(block.X, W, threads=block.threads, dtype=dtype or np.result_type(W, b))
    Z += b
    if block.offsets is not None:
        Z += block.offsets
    return Z


def label_weights(block: Block, k: int) -> np.ndarray:
    """Weight of the rows with each label."""
    return _label_weights(block.targets, block.weights, k)


def values(loss: Any, block: Block, Z: np.ndarray) -> float:
    """Σ s·ℓ."""
    return _total(_by_chunks(block, Z, partial(_values, loss, block.targets, block.weights, Z)))


def gradients(loss: Any, block: Block, weights: np.ndarray, Z: np.ndarray, out: np.ndarray) -> float:
    """Σ s·ℓ, with s·∇ℓ written to `out`."""
    return _total(_by_chunks(block, Z, partial(_gradients, loss, block.targets, weights, Z, out)))


def curvatures(loss: Any, block: Block, Z: np.ndarray, Y: np.ndarray) -> None:
    """Replace y by s·∇²ℓ·y in every row."""
    _by_chunks(block, Z, partial(_curvatures, loss, block.targets, block.weights, Z, Y))


def intercept_curvature(loss: Any, block: Block, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ s·∇ℓ and Σ s·∇²ℓ."""
    k = Z.shape[1]
    gradient, curvature = np.zeros(k), np.zeros((k, k))
    _intercept_curvature(loss, block.targets, block.weights, Z, loss.is_direct, gradient, curvature)
    return gradient, curvature


def balance(loss: Any, block: Block, U: np.ndarray, references: np.ndarray) -> np.ndarray:
    """What `repair` of the loss needs to know of dual points U."""
    sums = np.zeros((loss.n_sums, U.shape[1]))
    _balances(loss, block.targets, block.weights, U, references, sums)
    return sums


def duals_at(loss: Any, block: Block, Z: np.ndarray, repair: np.ndarray, scale: float) -> DualSums:
    """Of the gradients at scores Z, repaired."""
    U = np.empty_like(Z)
    return _dual_sums(block, U, partial(_duals_at, loss, block.targets, block.weights, Z, repair, scale, U))


def duals_of(loss: Any, block: Block, given: np.ndarray, repair: np.ndarray, scale: float) -> DualSums:
    """Of given dual points, repaired; `primal` is zero."""
    U = np.empty(given.shape)
    return _dual_sums(block, U, partial(_duals_of, loss, block.targets, block.weights, given, repair, scale, U))


def _dual_sums(block: Block, U: np.ndarray, task: Callable[[int, int], tuple[float, float, np.ndarray]]) -> DualSums:
    parts = _by_chunks(block, U, task)
    primal, dual = (_total([part[term] for part in parts]) for term in (0, 1))
    sums = np.sum([part[2] for part in parts], axis=0) if parts else np.zeros((2, U.shape[1]))
    if block.offsets is not None:
        dual += float(np.einsum("ir,ir->", U, block.offsets, dtype=np.float64))
    return DualSums(primal, dual, rmatmul(block.X, U, threads=block.threads), *sums)


def _by_chunks(block: Block, Z: np.ndarray, task: Callable[[int, int], Any]) -> list[Any]:
    """Results of a task over chunks of the rows of Z, which are those of the block."""
    n, threads = len(Z), block.threads if Z.size >= WORTH_A_THREAD else 1
    chunks = [(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]
    return pool.run([partial(task, *chunk) for chunk in chunks], threads)


def _total(parts: list[float]) -> float:
    return math.fsum(parts) if np.all(np.isfinite(parts)) else math.inf


@kernel
def _label_weights(targets, weights, k):
    total = np.zeros(k, np.float64)
    for i in range(weights.shape[0]):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                total[labels[p]] += weights[i]
    return total


@kernel
def _values(loss, targets, weights, Z, start, stop):
    work = np.empty(Z.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_value(targets.labels(i), Z[i], work)
    return total


@kernel
def _gradients(loss, targets, weights, Z, R, start, stop):
    work = np.empty(Z.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_gradient(targets.labels(i), Z[i], work, R[i])
        for r in range(Z.shape[1]):
            R[i, r] *= weights[i]
    return total


@kernel
def _curvatures(loss, targets, weights, Z, Y, start, stop):
    work, out = np.empty(Z.shape[1], np.float64), np.empty(Z.shape[1], np.float64)
    for i in range(start, stop):
        loss.row_curvature(targets.labels(i), Z[i], Y[i], work, out)
        for r in range(Z.shape[1]):
            Y[i, r] = weights[i] * out[r]


@kernel
def _intercept_curvature(loss, targets, weights, Z, is_direct, gradient, curvature):
    """Σ s·∇ℓ and Σ s·∇²ℓ; of losses that treat each column alone only the diagonal, from one product."""
    k = Z.shape[1]
    work, unit, out = np.empty(k), np.ones(k), np.empty(k)
    for i in range(Z.shape[0]):
        labels = targets.labels(i)
        loss.row_gradient(labels, Z[i], work, out)
        for q in range(k):
            gradient[q] += weights[i] * out[q]
        for r in range(k if is_direct else 1):
            if is_direct:
                unit[:] = 0.0
                unit[r] = 1.0
            loss.row_curvature(labels, Z[i], unit, work, out)
            for q in range(k):
                curvature[q, r if is_direct else q] += weights[i] * out[q]


@kernel
def _balances(loss, targets, weights, U, references, sums):
    work = np.empty(U.shape[1], np.float64)
    for i in range(U.shape[0]):
        if weights[i] > 0.0:
            loss.row_balance(targets.labels(i), U[i], weights[i], references, work, sums)


@kernel(inline="always")
def _weigh(U, i, weight, sums):
    """Make s·u of u in row i, and add it and s·u² to the sums."""
    for r in range(U.shape[1]):
        sums[1, r] += weight * U[i, r] * U[i, r]
        U[i, r] *= weight
        sums[0, r] += U[i, r]


@kernel
def _duals_at(loss, targets, weights, Z, repair, scale, U, start, stop):
    """Σ s·ℓ, Σ −s·ℓ*(u), and Σ s·u over Σ s·u²; s·u in U."""
    work, sums = np.empty(Z.shape[1], np.float64), np.zeros((2, Z.shape[1]))
    primal, dual = 0.0, 0.0
    for i in range(start, stop):
        value, bound = loss.row_dual(targets.labels(i), Z[i], repair, scale, work, U[i])
        primal += weights[i] * value
        dual += weights[i] * bound
        _weigh(U, i, weights[i], sums)
    return primal, dual, sums


@kernel
def _duals_of(loss, targets, weights, given, repair, scale, U, start, stop):
    """The same of given dual points, without Σ s·ℓ."""
    work, sums = np.empty(U.shape[1], np.float64), np.zeros((2, U.shape[1]))
    dual = 0.0
    for i in range(start, stop):
        if weights[i] == 0.0:  # what is given of a row that does not count may be anything
            U[i] = 0.0
            continue
        dual += weights[i] * loss.row_dual_repair(targets.labels(i), given[i], repair, scale, work, U[i])
        _weigh(U, i, weights[i], sums)
    return 0.0, dual, sums
