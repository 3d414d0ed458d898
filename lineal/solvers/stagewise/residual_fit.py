"""Linear and calibrated stages: ridge regression of the residual on the features of a stage, in one pass over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lineal.core import blas
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece, States
from lineal.numerics.label_residuals import residuals
from lineal.numerics.ridge import Moments, Ridge
from lineal.solvers.stagewise.features import StageFeatures, rows_of
from lineal.solvers.stagewise.running import powers_of

#: Ridge of the powers of predictions in the t-th stage, divided by t, in addition to that of the stage. Predictions
#: have the unit of labels, so one number serves all data. Every stage sharpens the predictions of those before, which
#: is right for most rows and moves wrong rows further away. That adds up: without a ridge the fit stops improving.
POWERS_RIDGE = 3e-3

#: Features whose squared mean exceeds their variance so many times are shifted before they are squared.
FAR = 100.0


class FeatureSums(NamedTuple):
    """Sums over rows of features f, less a shift, and targets r.

    `first` has count, Σ f and Σ f² of the first chunk of each block, `is_far` counts blocks whose features need a
    shift; their other sums are zero.
    """

    square: np.ndarray
    product: np.ndarray
    means: np.ndarray
    target_means: np.ndarray
    is_far: int
    first: np.ndarray


def fit_residual(
    engine: Engine, states: States, features: StageFeatures, update: str, alpha: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and intercept of the `count`-th stage."""
    moments, product, target_means = moments_of(engine, states, features, update)
    ridges = np.full(len(product), alpha)
    ridges[features.width :] += POWERS_RIDGE * count
    W, b = Ridge(moments, ridges, float(np.finfo(features.dtype).eps)).solve_centred(product, target_means)
    return W.astype(features.dtype), b.astype(features.dtype)


def moments_of(
    engine: Engine, states: States, features: StageFeatures, update: str
) -> tuple[Moments, np.ndarray, np.ndarray]:
    """Moments of the features, Σ s(f − f̄)r' and the means of the targets r = y − ŷ (zeros for softmax)."""
    shift: np.ndarray | None = None
    sums = FeatureSums(*engine.sum(SumFeatures(update), features, None, states=states))
    if sums.is_far:
        shift = _shift(sums.first).astype(features.dtype)
        sums = FeatureSums(*engine.sum(SumFeatures(update), features, shift, states=states))
    square = np.outer(sums.means, sums.means)
    np.subtract(sums.square, square, out=square)
    product = sums.product - np.outer(sums.means, sums.target_means)
    means = sums.means if shift is None else sums.means + shift
    moments = Moments.of(means, square, features.dtype)
    return moments, product, sums.target_means


def _shift(first: np.ndarray) -> np.ndarray:
    """Means where they dwarf the deviations, whose squares would be lost in rounding; else zero."""
    count, total, squares = first
    means = total / np.maximum(count, 1.0)
    variances = squares / np.maximum(count, 1.0) - means**2
    return np.where(means**2 > FAR * variances, means, 0.0)


@dataclass(frozen=True)
class SumFeatures:
    """`FeatureSums` of a block. Products are in the features' precision, sums of chunks in float64."""

    update: str

    def __call__(
        self, block: Block, running: Piece, seen: Piece, kept: Piece, features: StageFeatures, shift: np.ndarray | None
    ) -> FeatureSums:
        P, weights = running["P"], block.weights
        R = residuals(block, P) if self.update != "softmax" else None
        width = features.width + (3 * P.shape[1] if self.update == "calibrated" else 0)
        sums = _zeros(width, P.shape[1])
        is_even = block.n > 0 and bool((weights == weights[0]).all())
        for part, F in features.chunks(rows_of(block, seen), kept):
            if self.update == "calibrated":
                F = np.concatenate([F, powers_of(P[part])], axis=1)
            if shift is not None:
                F = F - shift
            elif part.start == 0:
                means, variances = F.mean(axis=0, dtype=np.float64), F.var(axis=0, dtype=np.float64)
                sums.first[:] = len(F) * np.array([np.ones(width), means, variances + means**2])
                if (means**2 > FAR * variances).any():
                    return sums._replace(is_far=1)
            s = weights[part].astype(F.dtype)
            sums.means[:] += s @ F
            if R is not None:
                sums.product[:] += blas.rmatmul(F, s[:, None] * R[part])
                sums.target_means[:] += weights[part] @ R[part]
            G = F if is_even else F * np.sqrt(s)[:, None]
            sums.square[:] += blas.gram(G)
        if is_even:
            sums.square[:] *= weights[0]
        return sums


def _zeros(width: int, k: int) -> FeatureSums:
    square, product = np.zeros((width, width)), np.zeros((width, k))
    return FeatureSums(square, product, np.zeros(width), np.zeros(k), 0, np.zeros((3, width)))
