"""Sums over the rows of a block: loss, gradients, curvatures and dual points at given scores.

Rows are cut into ranges of a fixed length, and the sums over ranges are added in order, so that they do not depend on
the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block
from lineal.problem.targets import label_entries

#: Smallest number of scores for which several threads are used.
WORTH_A_THREAD = 1 << 18

#: Number of rows per range.
RANGE_ROWS = 2048


#: What is done to the rows from `start` to `stop`, given three rows of k zeros.
RangeTask = Callable[[int, int, np.ndarray], Any]


class DualSums(NamedTuple):
    """Sums over rows that the dual objective of a point u needs.

    Attributes
    ----------
    primal : Σ s·ℓ at the scores that belong to u.
    dual : Σ s(u·o − ℓ*(u)).
    correlation : C = Σ s·x·u', (d, k).
    balance : Σ s·u, (k,).
    squares : Σ s·u², (k,).
    """

    primal: float
    dual: float
    correlation: np.ndarray
    balance: np.ndarray
    squares: np.ndarray


def scores(block: Block, W: np.ndarray, b: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Scores Z = XW + b + o, in the wider data type of W and b, or in an even wider `dtype`."""
    Z = matmul(block.X, W, threads=block.threads, dtype=dtype or np.result_type(W, b))
    Z += b
    if block.offsets is not None:
        Z += block.offsets
    return Z


def label_weights(block: Block, k: int) -> np.ndarray:
    """Total weight of the rows per label."""
    rows, columns = label_entries(block.targets)
    return np.bincount(columns, block.weights[rows], k)


def values(loss: Any, block: Block, Z: np.ndarray) -> float:
    """Weighted sum of the losses, Σ s·ℓ."""
    return _total(_by_ranges(block, Z, partial(_values, loss, block.targets, block.weights, Z)))


def gradients(loss: Any, block: Block, weights: np.ndarray, Z: np.ndarray, out: np.ndarray) -> float:
    """Weighted sum of the losses, Σ s·ℓ; the gradient s·∇ℓ of every row is written to `out`."""
    return _total(_by_ranges(block, Z, partial(_gradients, loss, block.targets, weights, Z, out)))


def curvatures(loss: Any, block: Block, Z: np.ndarray, Y: np.ndarray) -> None:
    """Replace every row y of Y by s·∇²ℓ·y."""
    _by_ranges(block, Z, partial(_curvatures, loss, block.targets, block.weights, Z, Y))


def intercept_curvature(loss: Any, block: Block, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient Σ s·∇ℓ and Hessian Σ s·∇²ℓ with respect to the intercept."""
    k = Z.shape[1]
    gradient, curvature = np.zeros(k), np.zeros((k, k))
    _intercept_curvature(loss, block.targets, block.weights, Z, loss.is_direct, gradient, curvature, np.ones((3, k)))
    return gradient, curvature


def balance(loss: Any, block: Block, U: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Sums over the dual points U that `repair` of the loss needs."""
    sums = np.zeros((loss.n_sums, U.shape[1]))
    _balances(loss, block.targets, block.weights, U, references, np.empty(U.shape[1]), sums)
    return sums


def duals_at(loss: Any, block: Block, Z: np.ndarray, repair: np.ndarray, scale: float) -> DualSums:
    """Dual sums of the gradients at scores Z, adjusted to a feasible point."""
    U = np.empty_like(Z)
    return _dual_sums(block, U, partial(_duals_at, loss, block.targets, block.weights, Z, repair, scale, U))


def duals_of(loss: Any, block: Block, given: np.ndarray, repair: np.ndarray, scale: float) -> DualSums:
    """Dual sums of given dual points, adjusted to a feasible point; `primal` is not known here, and zero."""
    U = np.empty(given.shape)
    return _dual_sums(block, U, partial(_duals_of, loss, block.targets, block.weights, given, repair, scale, U))


def fenchel_young(loss: Any, block: Block, Z: np.ndarray, given: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """Σ s·ℓ(z), and Σ s(ℓ(z) + ℓ*(u) − u·z) for given dual points u; s·u of every row is written to `out`."""
    parts = _by_ranges(block, Z, partial(_fenchel_young, loss, block.targets, block.weights, Z, given, out))
    return _total([part[0] for part in parts]), _total([part[1] for part in parts])


def _dual_sums(block: Block, U: np.ndarray, task: RangeTask) -> DualSums:
    parts = _by_ranges(block, U, task)
    primal, dual = (_total([part[term] for part in parts]) for term in (0, 1))
    sums = np.sum([part[2] for part in parts], axis=0) if parts else np.zeros((2, U.shape[1]))
    if block.offsets is not None:
        dual += float(np.einsum("ir,ir->", U, block.offsets, dtype=np.float64))
    return DualSums(primal, dual, rmatmul(block.X, U, threads=block.threads), *sums)


def _by_ranges(block: Block, Z: np.ndarray, task: RangeTask) -> list[Any]:
    """Results of a task for consecutive ranges of the rows of a block; Z has one row per row of the block.

    A task gets the bounds of a range, and three rows of k zeros of its own, so that kernels make no arrays: those that
    do take longer to compile.
    """
    n, k = Z.shape
    threads = block.threads if Z.size >= WORTH_A_THREAD else 1
    ranges = [(start, min(start + RANGE_ROWS, n)) for start in range(0, n, RANGE_ROWS)]
    return pool.run([partial(_with_room, task, *bounds, k) for bounds in ranges], threads)


def _with_room(task: RangeTask, start: int, stop: int, k: int) -> Any:
    return task(start, stop, np.zeros((3, k)))


def _total(parts: list[float]) -> float:
    return math.fsum(parts) if np.all(np.isfinite(parts)) else math.inf


@kernel
def _values(loss, targets, weights, Z, start, stop, room):
    work = room[0]
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_value(targets.labels(i), Z[i], work)
    return total


@kernel
def _gradients(loss, targets, weights, Z, R, start, stop, room):
    work = room[0]
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_gradient(targets.labels(i), Z[i], work, R[i])
        for r in range(Z.shape[1]):
            R[i, r] *= weights[i]
    return total


@kernel
def _curvatures(loss, targets, weights, Z, Y, start, stop, room):
    work, out = room[0], room[1]
    for i in range(start, stop):
        loss.row_curvature(targets.labels(i), Z[i], Y[i], work, out)
        for r in range(Z.shape[1]):
            Y[i, r] = weights[i] * out[r]


@kernel
def _intercept_curvature(loss, targets, weights, Z, is_direct, gradient, curvature, ones):
    """Add up Σ s·∇ℓ and Σ s·∇²ℓ; losses that treat the columns separately need only the diagonal, from one product."""
    k = Z.shape[1]
    work, unit, out = ones[0], ones[1], ones[2]
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
def _balances(loss, targets, weights, U, references, work, sums):
    for i in range(U.shape[0]):
        if weights[i] > 0.0:
            loss.row_balance(targets.labels(i), U[i], weights[i], references, work, sums)


@kernel(inline="always")
def _weigh(U, i, weight, sums):
    """Multiply row i of U by its weight s, and add s·u and s·u² to the sums."""
    for r in range(U.shape[1]):
        sums[1, r] += weight * U[i, r] * U[i, r]
        U[i, r] *= weight
        sums[0, r] += U[i, r]


@kernel
def _duals_at(loss, targets, weights, Z, repair, scale, U, start, stop, room):
    """Return Σ s·ℓ, −Σ s·ℓ*(u), and Σ s·u and Σ s·u² as two rows; s·u is written to U."""
    work, sums = room[0], room[1:]
    primal, dual = 0.0, 0.0
    for i in range(start, stop):
        value, bound = loss.row_dual(targets.labels(i), Z[i], repair, scale, work, U[i])
        primal += weights[i] * value
        dual += weights[i] * bound
        _weigh(U, i, weights[i], sums)
    return primal, dual, sums


@kernel
def _duals_of(loss, targets, weights, given, repair, scale, U, start, stop, room):
    """Return 0, −Σ s·ℓ*(u), and Σ s·u and Σ s·u² as two rows, for given dual points; s·u is written to U."""
    work, sums = room[0], room[1:]
    dual = 0.0
    for i in range(start, stop):
        if weights[i] == 0.0:  # the dual variables of a row without weight can be anything
            U[i] = 0.0
            continue
        dual += weights[i] * loss.row_dual_repair(targets.labels(i), given[i], repair, scale, work, U[i])
        _weigh(U, i, weights[i], sums)
    return 0.0, dual, sums


@kernel
def _fenchel_young(loss, targets, weights, Z, given, R, start, stop, room):
    """Return Σ s·ℓ(z) and Σ s(ℓ(z) + ℓ*(u) − u·z), which has no negative terms; s·u is written to R."""
    work = room[0]
    value, residual = 0.0, 0.0
    for i in range(start, stop):
        if weights[i] == 0.0:  # the dual variables of a row without weight can be anything
            R[i] = 0.0
            continue
        labels = targets.labels(i)
        loss_of_row = loss.row_value(labels, Z[i], work)
        difference = loss_of_row + loss.row_conjugate(labels, given[i], work)
        for r in range(Z.shape[1]):
            difference -= wide(given[i, r]) * Z[i, r]
            R[i, r] = weights[i] * given[i, r]
        value += weights[i] * loss_of_row
        residual += weights[i] * max(difference, 0.0)
    return value, residual
