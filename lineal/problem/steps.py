"""Steps over rows that objectives and certificates use (see `lineal.engine.base`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.design.products import column_moments, matmul, rmatmul, row_norms
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.problem import dense_pass, row_sums
from lineal.problem.row_sums import DualSums


def parameter_gradient(block: Block, R: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """Gradient in the shape of θ, from the gradients R with respect to the scores: X'R, and below it the sums of R."""
    d = block.X.shape[1]
    out = np.empty((d + fit_intercept, R.shape[1]), R.dtype)
    rmatmul(block.X, R, out=out[:d], threads=block.threads)
    if fit_intercept:
        out[d] = R.sum(axis=0, dtype=np.float64)
    return out


# --- statistics of the rows


def moments(block: Block) -> tuple[np.ndarray]:
    """Weighted sums Σ s·x and Σ s·x² of every column, (d, 2)."""
    return (column_moments(block.X, block.weights),)


def mean_square(block: Block) -> tuple[float]:
    """Weighted sum of the squared norms of the rows, Σ s·‖x‖²."""
    return (float(np.sum(row_norms(block.X) * block.weights)),)


@dataclass(frozen=True)
class LabelWeights:
    """Step: total weight of the rows per label, for k labels."""

    k: int

    def __call__(self, block: Block) -> tuple[np.ndarray]:
        return (row_sums.label_weights(block, self.k),)


@dataclass(frozen=True)
class GramProduct:
    """Step: product of the weighted Gram matrix with V, X'SXV."""

    def __call__(self, block: Block, V: np.ndarray) -> tuple[np.ndarray]:
        scores = matmul(block.X, V, threads=block.threads)
        scores *= block.weights[:, None]
        return (rmatmul(block.X, scores, threads=block.threads),)


# --- primal


@dataclass(frozen=True)
class LossValue:
    """Step: weighted sum of the losses, from scores in the data type of the parameters or in `dtype`."""

    loss: Any
    dtype: Any = None

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[float]:
        return (row_sums.values(self.loss, block, row_sums.scores(block, W, b, self.dtype)),)


@dataclass(frozen=True)
class LossGradient:
    """Step: weighted sum of the losses, and its gradient in the shape of θ."""

    loss: Any
    fit_intercept: bool

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
        if dense_pass.suits(block.X, W):
            value, _, gradient = dense_pass.gradients(self.loss, block, W, b)
            return value, gradient[: len(W) + self.fit_intercept].astype(W.dtype)
        Z = row_sums.scores(block, W, b)
        R = np.empty_like(Z)
        value = row_sums.gradients(self.loss, block, block.weights, Z, R)
        return value, parameter_gradient(block, R, self.fit_intercept)


@dataclass(frozen=True)
class RowGradients:
    """Step for `Engine.gather`: the gradients ∇ℓ of all rows of a block with respect to their scores."""

    loss: Any

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        Z = row_sums.scores(block, W, b)
        R = np.empty_like(Z)
        row_sums.gradients(self.loss, block, np.ones(block.n), Z, R)
        return R


@dataclass(frozen=True)
class SeparableColumns:
    """Step: Σ s·|∇ℓ| per score column, at scores scaled up until correctly classified rows have a zero gradient."""

    loss: Any
    scale: float

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        Z = matmul(block.X, W, threads=block.threads)
        Z += b
        Z *= self.scale / max(float(np.abs(Z).max(initial=0.0)), 1.0)
        R = np.empty_like(Z)
        row_sums.gradients(self.loss, block, block.weights, Z, R)
        return (np.abs(R).sum(axis=0),)


# --- row state


@dataclass(frozen=True)
class Scores:
    """Rebuild the scores Z = XW + b + o of every row, in `dtype` if it is given."""

    dtype: Any = None

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> Piece:
        return {"Z": row_sums.scores(block, W, b, self.dtype)}


# --- dual


@dataclass(frozen=True)
class InterceptCurvature:
    """Step: Σ s·∇ℓ and Σ s·∇²ℓ at the scores of a state plus an intercept."""

    loss: Any

    def __call__(self, block: Block, scores: Piece, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return row_sums.intercept_curvature(self.loss, block, scores["Z"] + b)


@dataclass(frozen=True)
class GradientBalance:
    """Step: sums that `repair` of the loss needs, for the dual point ∇ℓ at the scores of a state plus an intercept."""

    loss: Any

    def __call__(self, block: Block, scores: Piece, b: np.ndarray, references: np.ndarray) -> tuple[np.ndarray]:
        Z = scores["Z"] + b
        U = np.empty_like(Z)
        row_sums.gradients(self.loss, block, np.ones(block.n), Z, U)
        return (row_sums.balance(self.loss, block, U, references),)


@dataclass(frozen=True)
class GradientDual:
    """Step: `DualSums` of the adjusted dual point ∇ℓ at the scores of a state plus an intercept."""

    loss: Any

    def __call__(self, block: Block, scores: Piece, b: np.ndarray, repair: np.ndarray, scale: float) -> DualSums:
        return row_sums.duals_at(self.loss, block, scores["Z"] + b, repair, scale)


@dataclass(frozen=True)
class GivenBalance:
    """Step: sums that `repair` of the loss needs, for a dual point that a solver provides."""

    loss: Any

    def __call__(self, block: Block, point: Piece, references: np.ndarray) -> tuple[np.ndarray]:
        return (row_sums.balance(self.loss, block, point["rows"], references),)


@dataclass(frozen=True)
class GivenDual:
    """Step: `DualSums` of an adjusted dual point that a solver provides, with the losses at its parameters W and b."""

    loss: Any

    def __call__(
        self, block: Block, point: Piece, W: np.ndarray, b: np.ndarray, repair: np.ndarray, scale: float
    ) -> DualSums:
        primal = row_sums.values(self.loss, block, row_sums.scores(block, W, b, np.float64))
        return row_sums.duals_of(self.loss, block, point["rows"], repair, scale)._replace(primal=primal)


@dataclass(frozen=True)
class GivenGradient:
    """Step: Σ s·ℓ at W and b, the Fenchel–Young residual of a dual point u that a solver provides, and Σ s·x·u'.

    The last sum has the shape of θ: with an intercept, Σ s·u is its last row.
    """

    loss: Any
    fit_intercept: bool

    def __call__(self, block: Block, point: Piece, W: np.ndarray, b: np.ndarray) -> tuple[float, float, np.ndarray]:
        Z = row_sums.scores(block, W, b, np.float64)
        R = np.empty_like(Z)
        value, residual = row_sums.fenchel_young(self.loss, block, Z, point["rows"], R)
        return value, residual, parameter_gradient(block, R, self.fit_intercept)
