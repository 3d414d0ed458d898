"""F = f + αΩ as the proximal methods see it: value and gradient of the smooth part f, and steps through the prox of αΩ.

The intercept is that of the centred features (`centred.py`), and the prox leaves it alone: with x̄ the mean of the rows,
scores are W'(x − x̄) + c·β, and the gradient by W is X'R − x̄·1'R where R holds s·∇ℓ of every row. c² is the largest
variance of a column, so that β has as much curvature as a weight may have and one step length suits both: without it
the intercept of features in millions would hardly move, and that of tiny ones would make all steps short.

Scores of a point are row state, so that a point on the line through two others needs no product with X. A step, with
all that is asked about it, is one pass over the parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.engine.base import Block
from lineal.engine.state import Piece, RowState
from lineal.numerics.centred import Centred
from lineal.numerics.vectors import beyond, dot
from lineal.problem import row_sums, steps
from lineal.problem.objective import Objective

#: Relative error of the largest eigenvalue, which is found from below and hence raised by as much.
EIGENVALUE_ERROR = 0.02

#: Parameters of a piece of a step; partial sums are added in order, whatever the number of threads.
PIECE = 1 << 16

#: Of the intercept's unit, as a power of two: float32 must hold an intercept divided by it.
MAX_EXPONENT = 60


class Gradient(NamedTuple):
    """f, and X'R over the sums of R = s·∇ℓ, in the shape of θ and not yet centred."""

    loss: float
    sums: np.ndarray


class Step(NamedTuple):
    """Where a step from θ led, with αΩ there, ‖step‖², ∇f'step, and −step'(θ' − previous).

    `shift` is x̄'W', by which c·β and b differ.
    """

    theta: np.ndarray
    penalty: float
    square: float
    slope: float
    uphill: float
    shift: np.ndarray


class Composite:
    """f, ∇f and proximal steps by W and β; θ inside is theirs."""

    def __init__(self, objective: Objective, threads: int) -> None:
        self.objective, self.threads = objective.with_threads(threads), threads
        self.engine = self.objective.engine
        self.centred = Centred(objective)
        d, means = self.engine.shape[1], self.centred.means
        self.means: np.ndarray = np.zeros(d) if means is None else np.ascontiguousarray(means[:, 0])
        # Centred: the size of a far column says nothing about its curvature.
        self.variance = float(np.max(objective.moments[1][:, 0] - self.means**2, initial=0.0))
        self.unit = _power_of_two(math.sqrt(self.variance))

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """W and β of W and b."""
        if not self.objective.fit_intercept:
            return theta
        theta = self.centred.inside(theta)
        theta[-1] /= self.unit
        return theta

    def outside(self, theta: np.ndarray) -> np.ndarray:
        """W and b of W and β."""
        if not self.objective.fit_intercept:
            return theta
        theta = theta.copy()
        theta[-1] *= self.unit
        return self.centred.outside(theta)

    def shift(self, theta: np.ndarray) -> np.ndarray:
        """x̄'W, by which c·β and b differ."""
        shift: np.ndarray = np.einsum("j,jr->r", self.means, theta[: len(self.means)], dtype=np.float64)
        return shift

    def weights(self, theta: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W and b; no copy of W."""
        W, b = self.objective.split(theta)
        return W, self.unit * b - shift if self.objective.fit_intercept else b

    def scores(self, theta: np.ndarray, shift: np.ndarray) -> RowState:
        """Scores of every row, kept where the rows are."""
        return self.engine.state(steps.Scores(), *self.weights(theta, shift))

    def scores_beyond(self, before: RowState, after: RowState, length: float, theta: np.ndarray) -> RowState:
        """Scores of θ = after + length·(after − before), without a product with X."""
        scores = self.engine.state(steps.Scores())
        states = (scores.to(*self.weights(theta, self.shift(theta))), before, after)
        self.engine.update(_ScoresBeyond(self.threads), length, states=states)
        return scores

    def loss(self, scores: RowState) -> float:
        """f at these scores."""
        return float(self.engine.sum(_LossAt(self.objective.loss), states=(scores,))[0])

    def gradient(self, scores: RowState) -> Gradient:
        """f and its gradient at these scores, in one pass over the rows."""
        step = _GradientAt(self.objective.loss, self.objective.fit_intercept)
        value, sums = self.engine.sum(step, states=(scores,))
        return Gradient(float(value), sums)

    def change_along(self, before: RowState, after: RowState) -> float:
        """s'y of the step s from one point to another, and the change of the gradient y: (Xs)'(R − R of before).

        That is true in whatever coordinates, and needs no pass over the parameters.
        """
        return float(self.engine.sum(_ChangeAlong(self.objective.loss), states=(before, after))[0])

    def penalty(self, theta: np.ndarray) -> float:
        """αΩ(W)."""
        return self.objective.regulariser.value(self.objective.split(theta)[0])

    def step(self, theta: np.ndarray, gradient: Gradient, curvature: float, previous: np.ndarray) -> Step:
        """argmin over θ' of ∇f'(θ' − θ) + ½·curvature·‖θ' − θ‖² + αΩ(W')."""
        regulariser, out = self.objective.regulariser, np.empty_like(theta)
        (d, k), length = self.engine.shape[1:] + theta.shape[1:], 1.0 / curvature
        slopes = gradient.sums[d].astype(np.float64) if self.objective.fit_intercept else np.zeros(k)
        if regulariser.groups.features.size or regulariser.centre is not None:
            sums = self._step_by_groups(theta, gradient.sums, slopes, length, previous, out)
        else:
            tasks = [
                partial(
                    _step, regulariser.penalty, regulariser.strengths, length, self.means, slopes,
                    theta, gradient.sums, previous, out, *piece,
                )
                for piece in pool.ranges(d, max(1, d * k // PIECE))
            ]  # fmt: skip
            sums = np.sum(pool.run(tasks, self.threads), axis=0) if tasks else np.zeros(4 + k)
        if self.objective.fit_intercept:
            out[d] = theta[d] - length * self.unit * slopes
            move = out[d].astype(np.float64) - theta[d]
            sums[1:4] += move @ move, self.unit * (move @ slopes), -(move @ (out[d] - previous[d]))
        penalty, square, slope, uphill = (float(total) for total in sums[:4])
        return Step(out, penalty, square, slope, uphill, sums[4:])

    def _step_by_groups(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        slopes: np.ndarray,
        length: float,
        previous: np.ndarray,
        out: np.ndarray,
    ) -> np.ndarray:
        """The same where blocks are not single rows, or not pulled to zero."""
        regulariser, d = self.objective.regulariser, self.engine.shape[1]
        G = gradient[:d] - np.outer(self.means, slopes)
        W = out[:d]
        W[...] = theta[:d] - length * G
        regulariser.prox(W, length, out=W)
        move = np.subtract(W, theta[:d], dtype=np.float64)
        sums = [regulariser.value(W), dot(move, move), dot(move, G), -dot(move, W - previous[:d])]
        return np.concatenate([sums, np.einsum("j,jr->r", self.means, W, dtype=np.float64)])

    def least_curvature(self) -> float:
        """Of the directions along single features and β, the largest that f can have: what a search may begin with."""
        return self._scaled(self.objective.loss.typical_curvature(self.engine.n_columns), self.variance)

    def spectral_curvature(self) -> float:
        """A bound of the curvature of f everywhere: that of a row's loss times the largest eigenvalue of X'SX."""
        return self._scaled(self.objective.loss.lipschitz(self.engine.n_columns), self._largest_eigenvalue())

    def trace_curvature(self) -> float:
        """The looser bound of Blondel, Seki & Uehara (2013), appendix A: the trace in place of the eigenvalue."""
        loss, k = self.objective.loss, self.engine.n_columns
        total = math.fsum(self.objective.moments[1][:, 0])
        return self._scaled(loss.pairwise_lipschitz(k), total + self.unit**2 if self.objective.fit_intercept else total)

    def _scaled(self, constant: float, size: float) -> float:
        """The product, with a β's own curvature as the least of `size`; positive."""
        size = max(size, self.unit**2 if self.objective.fit_intercept else 0.0)
        return max(constant * size, np.finfo(np.float64).tiny ** 0.5)

    def _largest_eigenvalue(self) -> float:
        """Of the centred rows; β is not tied to any weight, and has an eigenvalue of its own, c²."""
        d = self.engine.shape[1]

        def product(v: np.ndarray) -> np.ndarray:
            V = np.ascontiguousarray(v.reshape(-1, 1), dtype=np.float64)
            (out,) = self.engine.sum(steps.GramProduct(), V)
            return out[:, 0] - self.means * dot(self.means, V)

        if d < 3:
            matrix = np.array([product(column) for column in np.eye(d)]).reshape(d, d)
            return float(np.max(np.linalg.eigvalsh(matrix), initial=0.0))
        # Signs at random: a start of one sign would be nearly the mean, which centring takes away.
        signs = np.random.default_rng(0).choice([-1.0, 1.0], d)
        start = signs * (np.sqrt(self.objective.moments[1][:, 0]) + np.finfo(np.float64).tiny ** 0.25)
        operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
        (found,) = eigsh(operator, k=1, v0=start, tol=EIGENVALUE_ERROR, return_eigenvectors=False)
        return float(found) * (1.0 + EIGENVALUE_ERROR)


# --- steps over rows


def _residuals(loss: Any, block: Block, scores: Piece) -> tuple[float, np.ndarray]:
    """Σ s·ℓ, and R = s·∇ℓ of every row, which the piece remembers."""
    if "R" not in scores:
        R = np.empty_like(scores["Z"])
        scores["value"] = np.array(row_sums.gradients(loss, block, block.weights, scores["Z"], R))
        scores["R"] = R
    return float(scores["value"]), scores["R"]


@dataclass(frozen=True)
class _LossAt:
    """Σ s·ℓ."""

    loss: Any

    def __call__(self, block: Block, scores: Piece) -> tuple[float]:
        return (row_sums.values(self.loss, block, scores["Z"]),)


@dataclass(frozen=True)
class _GradientAt:
    """Σ s·ℓ and its gradient in the shape of θ."""

    loss: Any
    fit_intercept: bool

    def __call__(self, block: Block, scores: Piece) -> tuple[float, np.ndarray]:
        value, R = _residuals(self.loss, block, scores)
        return value, steps.parameter_gradient(block, R, self.fit_intercept)


@dataclass(frozen=True)
class _ChangeAlong:
    """(Z − Z of before)'(R − R of before)."""

    loss: Any

    def __call__(self, block: Block, before: Piece, after: Piece) -> tuple[float]:
        changes = [_residuals(self.loss, block, piece)[1] for piece in (before, after)]
        return (dot(after["Z"] - before["Z"], changes[1] - changes[0]),)


@dataclass(frozen=True)
class _ScoresBeyond:
    """Fills scores with after + length·(after − before)."""

    threads: int

    def __call__(self, block: Block, scores: Piece, before: Piece, after: Piece, length: float) -> tuple[()]:
        scores["Z"] = beyond(before["Z"], after["Z"], length, self.threads)
        return ()


def _power_of_two(size: float) -> float:
    """A unit near `size` that rounds nothing; one for zero."""
    if not 0.0 < size < math.inf:
        return 1.0
    return 2.0 ** min(max(math.floor(math.log2(size)), -MAX_EXPONENT), MAX_EXPONENT)


@kernel
def _step(penalty, strengths, length, means, slopes, theta, gradient, previous, out, start, stop):
    """Rows start … stop − 1 of a step; αΩ, ‖step‖², ∇f'step, −step'(θ' − previous), and x̄'W' in the rest."""
    k = theta.shape[1]
    sums = np.zeros(4 + k)
    value, square, slope, uphill = 0.0, 0.0, 0.0, 0.0
    for j in range(np.uintp(start), np.uintp(stop)):
        mean, strength = means[j], strengths[j]
        for r in range(k):
            out[j, r] = theta[j, r] - length * (gradient[j, r] - mean * slopes[r])
        penalty.group_prox(out[j], length * strength, out[j])
        if strength > 0.0:
            value += strength * penalty.group_value(out[j])
        for r in range(k):
            w = np.float64(out[j, r])
            move = w - theta[j, r]
            square += move * move
            slope += move * (gradient[j, r] - mean * slopes[r])
            uphill -= move * (w - previous[j, r])
            sums[4 + r] += mean * w
    sums[0], sums[1], sums[2], sums[3] = value, square, slope, uphill
    return sums
