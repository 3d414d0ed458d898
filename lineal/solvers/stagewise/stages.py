"""One stage of stagewise regression: a block of features, made by chunks of rows and fitted to what is left.

See `solvers/stagewise.py` for the three ways of fitting it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lineal.design import wrap
from lineal.design.products import matmul, rmatmul
from lineal.features.base import checked_features
from lineal.numerics.basis import POLYNOMIAL, expand, functions
from lineal.numerics.links import sigmoid
from lineal.numerics.second_moment import Factor, without_constants

#: Bytes of features made at a time.
CHUNK_BYTES = 32 << 20

#: Functions of the running predictions among the features of calibrated blocks.
POWERS = functions(POLYNOMIAL)

#: Predictions whose powers are taken: beyond, those of rows that were not trained on would grow from block to block.
LOWEST, HIGHEST = -1.0, 2.0

#: Ridge of these functions in the t-th block, over t, beside that of the block. Predictions have the unit of labels,
#: hence a number serves all data. Every block sharpens what the ones before have said ("0.6 means 1", as most rows
#: teach), and moves rows that are wrong further away; it adds up, and without a ridge the fit comes to a stand.
POWERS_RIDGE = 3e-3

#: Whether a fit must end within a block.
MustEnd = Callable[[], bool]


@dataclass(frozen=True)
class Labelled:
    """Rows with their targets, the running predictions or raw scores (changed in place) and weights that add up to one.

    X is a dense array of any type or a CSR matrix; Y and `running` are (n, k) in the precision of the features. Columns
    are independent of each other for two classes (k = 1) and for label sets. `behind` is the number of blocks that have
    made `running` so far. `threads` serve products with features.
    """

    X: Any
    Y: np.ndarray
    running: np.ndarray
    weights: np.ndarray
    is_independent: bool = False
    behind: int = 0
    threads: int = 1

    def link(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities of raw scores: a sigmoid for each column, or softmax."""
        if self.is_independent:
            return sigmoid(Z).astype(Z.dtype)
        E = np.exp(Z - Z.max(axis=1, keepdims=True))
        E /= E.sum(axis=1, keepdims=True)
        return E

    def residual(self, update: str) -> np.ndarray:
        """What is left to fit; nothing in rows without weight."""
        left = self.Y - (self.link(self.running) if update == "softmax" else self.running)
        left[self.weights == 0.0] = 0.0
        return left


def add_stage(running: np.ndarray, F: np.ndarray, stage_weights: np.ndarray, b: np.ndarray, update: str) -> None:
    """Move the running predictions of some rows by a stage, whose features are F."""
    step = F @ stage_weights[: F.shape[1]]
    if update == "calibrated":
        step += powers_of(running) @ stage_weights[F.shape[1] :]
    running += step
    running += b


def powers_of(running: np.ndarray) -> np.ndarray:
    """y, y² and y³ of the running predictions, kept within bounds."""
    return expand(POWERS, np.clip(running, LOWEST, HIGHEST))


class Features:
    """The features of one block, a chunk of rows at a time: kept from the first pass on, or made for every pass."""

    def __init__(self, block: Any, who: str, memory: int) -> None:
        self.block, self.who, self.memory = block, who, memory
        self.kept: list[np.ndarray] = []

    def chunks(self, X: Any, keep: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their features; nobody may change those."""
        n, width = X.shape[0], self.block.width
        rows = max(1, min(CHUNK_BYTES // (4 * width), n))
        bounds = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
        if keep and len(self.kept) == len(bounds):
            yield from zip(bounds, self.kept)
            return
        self.kept = []
        for part in bounds:
            F = checked_features(self.block.transform(X[part]), part.stop - part.start, width, self.who)
            if keep and F.itemsize * n * width <= self.memory:
                self.kept.append(F)
            yield part, F


@dataclass(frozen=True)
class _Moments:
    """Of the features of a block: means f̄, Σ̂ = Σ s(f − f̄)(f − f̄)' and Σ s(f − f̄)r' for targets r, with their means.

    Features that are `constant` have zeros in Σ̂ and in the products.
    """

    means: np.ndarray
    constant: np.ndarray
    square: np.ndarray
    product: np.ndarray
    target_means: np.ndarray

    def ridge(self, alpha: Any, rounding: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercept of the ridge regression; alpha may be one number a feature."""
        W = Factor(self.square, alpha, rounding=rounding).solve(self.product)
        return W, self.target_means - self.means @ W


def _moments(
    chunks: Iterable[tuple[slice, np.ndarray]], weights: np.ndarray, targets: Callable[[slice], np.ndarray]
) -> _Moments:
    """One pass over the rows. Products in the features' precision, sums of chunks in float64."""
    shift: Any = None
    square: Any = 0.0
    product: Any = 0.0
    means: Any = 0.0
    target_means: Any = 0.0
    is_even = bool((weights == weights[0]).all())
    for part, F in chunks:
        if shift is None:
            shift = _shift(F)
        if shift is not False:
            F = F - shift
        s = weights[part].astype(F.dtype)
        R = targets(part)
        scaled = s[:, None] * R
        means = means + (s @ F).astype(np.float64)
        product = product + (F.T @ scaled).astype(np.float64)
        target_means = target_means + weights[part] @ R
        G = F if is_even else F * np.sqrt(s)[:, None]
        square = square + (G.T @ G).astype(np.float64)  # NumPy sends A'A to the symmetric BLAS routine
    if is_even:
        square *= weights[0]
    square -= np.outer(means, means)
    product -= np.outer(means, target_means)
    means = means if shift is False else means + shift
    constant = without_constants(square, means, F.dtype)
    product[constant] = 0.0
    return _Moments(means, constant, square, product, target_means)


def _shift(F: np.ndarray) -> Any:
    """Means of a first chunk where they dwarf the deviations, whose squares would drown in rounding; or False."""
    means = F.mean(axis=0, dtype=np.float64)
    far = means**2 > 100.0 * F.var(axis=0, dtype=np.float64)
    return np.where(far, means, 0.0).astype(F.dtype) if far.any() else False


def _fit_residual(
    features: Features,
    rows: Labelled,
    alpha: float,
    count: int,
    inner_iter: int,
    must_end: MustEnd,
    powers: bool = False,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Linear and calibrated blocks, the `count`-th one: two passes over the rows."""

    def chunks(keep: bool) -> Iterator[tuple[slice, np.ndarray]]:
        for part, F in features.chunks(rows.X, keep):
            yield part, np.concatenate([F, powers_of(rows.running[part])], axis=1) if powers else F

    update = "calibrated" if powers else "linear"
    found = _moments(chunks(True), rows.weights, lambda part: rows.Y[part] - rows.running[part])
    dtype = rows.running.dtype
    ridges = np.full(len(found.means), alpha)
    ridges[features.block.width :] += POWERS_RIDGE * count
    W, b = (array.astype(dtype) for array in found.ridge(ridges, float(np.finfo(dtype).eps)))
    if must_end():
        return None
    for part, F in features.chunks(rows.X, True):
        add_stage(rows.running[part], F, W, b, update)
    return W, b


def _fit_labels(
    features: Features, rows: Labelled, alpha: float, count: int, inner_iter: int, must_end: MustEnd
) -> tuple[np.ndarray, np.ndarray] | None:
    """Softmax blocks: generalized least squares with momentum, a pass over the rows an iteration.

    Raw scores follow the point where the gradient is taken: z + W'f + b is updated by the difference of two points.
    """
    bound = 0.25 if rows.is_independent else 0.5
    found = _moments(features.chunks(rows.X, True), rows.weights, lambda part: np.zeros((part.stop - part.start, 1)))
    factor = Factor(found.square, alpha, bound, float(np.finfo(rows.running.dtype).eps))
    point = np.zeros(
        (features.block.width + 1, rows.Y.shape[1])
    )  # weights of the centred features, and the intercept below
    reached, move, age = point, np.zeros_like(point), 1.0
    scores = rows.running.copy()
    for iteration in range(inner_iter + 1):
        gradient = np.zeros_like(point)
        for part, F in features.chunks(rows.X, True):
            design = wrap(F)
            scores[part] += matmul(design, move[:-1].astype(F.dtype), threads=rows.threads)
            scores[part] += (move[-1] - found.means @ move[:-1]).astype(scores.dtype)
            if iteration < inner_iter:
                slopes = (rows.link(scores[part]) - rows.Y[part]) * rows.weights[part, None].astype(scores.dtype)
                gradient[:-1] += rmatmul(design, slopes, threads=rows.threads)
                gradient[-1] += slopes.sum(axis=0, dtype=np.float64)
        if must_end():
            return None
        if iteration == inner_iter:
            break
        gradient[:-1] -= np.outer(found.means, gradient[-1])
        gradient[found.constant] = 0.0
        gradient[:-1] += alpha * point[:-1]
        step = np.concatenate([factor.solve(gradient[:-1]), gradient[-1:] / bound])
        landed = point - step
        age = 1.0 if float((gradient * (landed - reached)).sum()) > 0.0 else age
        older, age = age, 0.5 + math.sqrt(0.25 + age * age)
        momentum = (older - 1.0) / age if iteration < inner_iter - 1 else 0.0  # the last point is one that was reached
        after = landed + momentum * (landed - reached)
        move, point, reached = after - point, after, landed
    rows.running[:] = scores
    W, b = point[:-1], point[-1] - found.means @ point[:-1]
    return W.astype(scores.dtype), b.astype(scores.dtype)


FITS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray] | None]] = {
    "linear": _fit_residual, "calibrated": partial(_fit_residual, powers=True), "softmax": _fit_labels,
}  # fmt: skip


def loss_of(rows: Labelled, update: str) -> float:
    """Mean squared error, or mean logistic loss of raw scores."""
    if update != "softmax":
        return float(rows.weights @ ((rows.Y - rows.running) ** 2).sum(axis=1, dtype=np.float64))
    Z = rows.running.astype(np.float64)
    if rows.is_independent:
        losses = (np.logaddexp(0.0, Z) - rows.Y * Z).sum(axis=1)
    else:
        top = Z.max(axis=1)
        losses = top + np.log(np.exp(Z - top[:, None]).sum(axis=1)) - (rows.Y * Z).sum(axis=1)
    return float(rows.weights @ losses)
