"""Linear and calibrated stages: ridge regression of the residual on the features of a stage, in one pass over rows."""

from __future__ import annotations

from collections.abc import Sequence
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

#: Rows of a block that say whether its features need a shift.
FIRST_ROWS = 1024


class FeatureSums(NamedTuple):
    """Sums over rows of features f, less a shift, and targets r.

    `first` has count, Σ f and Σ f² of the first rows of each block, `is_far` counts blocks whose features need a
    shift; their other sums are zero.
    """

    square: np.ndarray
    product: np.ndarray
    means: np.ndarray
    target_means: np.ndarray
    is_far: int
    first: np.ndarray


class Fit(NamedTuple):
    """Weights and intercept of a stage, and the ridge that they were fitted with."""

    weights: np.ndarray
    intercept: np.ndarray
    alpha: float


def fit_residual(
    engine: Engine,
    states: States,
    features: StageFeatures,
    update: str,
    alphas: Sequence[float],
    count: int,
    held_out: np.ndarray | None = None,
) -> Fit:
    """Fit the `count`-th stage. Of several ridges, the one with the least squared error of held-out rows is taken.

    Their weights are `held_out`. All ridges share the moments of the features, which are most of the work; each takes a
    factorisation, and its weights as much memory as those of a stage.
    """
    moments, product, target_means = moments_of(engine, states, features, update)

    def fit(alpha: float) -> Fit:
        ridges = np.full(len(product), alpha)
        ridges[features.width :] += POWERS_RIDGE * count
        ridge = Ridge(moments, ridges, float(np.finfo(features.dtype).eps))
        W, b = ridge.solve_centred(product.copy(), target_means)
        return Fit(W.astype(features.dtype), b.astype(features.dtype), alpha)

    fits = [fit(alpha) for alpha in alphas]
    if held_out is None or len(fits) == 1:
        return fits[0]
    running, seen, kept = states
    step = HeldOutLosses(update)
    weights, intercepts = (
        np.concatenate([one.weights for one in fits], 1),
        np.concatenate([one.intercept for one in fits]),
    )
    (losses,) = engine.sum(step, features, weights, intercepts, states=(running, seen, kept, engine.cut(held_out)))
    return fits[int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))]


@dataclass(frozen=True)
class HeldOutLosses:
    """Squared errors of held-out rows after a stage, for several weights of it side by side: (p, m·k), (m·k,)."""

    update: str

    def __call__(
        self,
        block: Block,
        running: Piece,
        seen: Piece,
        kept: Piece,
        held_out: Piece,
        features: StageFeatures,
        weights: np.ndarray,
        intercepts: np.ndarray,
    ) -> tuple[np.ndarray]:
        k = running["P"].shape[1]
        losses = np.zeros(len(intercepts) // k)
        if not np.any(held_out["rows"]):
            return (losses,)
        R = residuals(block, running["P"])
        for part, F in features.chunks(rows_of(block, seen), kept):
            held = np.flatnonzero(held_out["rows"][part])
            mine, F = held + part.start, F[held]
            if self.update == "calibrated":
                F = np.concatenate([F, powers_of(running["P"][mine])], axis=1)
            left = np.tile(R[mine], (1, len(losses))) - F @ weights - intercepts
            squares = np.square(left).reshape(len(mine), len(losses), k).sum(axis=2, dtype=np.float64)
            losses += held_out["rows"][mine] @ squares
        return (losses,)


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
                first = F[:FIRST_ROWS].astype(np.float64)
                means, variances = first.mean(axis=0), first.var(axis=0)
                sums.first[:] = len(first) * np.array([np.ones(width), means, variances + means**2])
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
