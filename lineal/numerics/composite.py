"""Composite objective F = f + αΩ for proximal methods: the smooth part f, its gradient, and proximal updates for αΩ.

The intercept is that of the centred features (`centred.py`) and is not penalised. With the mean x̄ of the rows, scores
are W'(x − x̄) + c·β, and the gradient with respect to W is X'R − x̄·1'R, where R contains s·∇ℓ of every row. c² is the
largest variance of a column. So β has about as much curvature as a weight, and one step size suits both: otherwise the
intercept would hardly change if features are in the millions, and all steps would be short if features are tiny.

The scores of a point are row state, so that a point on the line through two others needs no product with X. A proximal
update and the sums that belong to it take one pass over the parameters.
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
from lineal.numerics.vectors import dot, extrapolated
from lineal.problem import row_sums, steps
from lineal.problem.objective import Objective

#: Relative error of the largest eigenvalue. The estimate is a lower bound, so it is increased by this much.
EIGENVALUE_ERROR = 0.02

#: Parameters per range. Sums over ranges are added in order, so they do not depend on the number of threads.
RANGE = 1 << 16

#: Largest exponent of the unit of the intercept, a power of two; an intercept divided by it must fit into float32.
MAX_EXPONENT = 60


class Gradient(NamedTuple):
    """Smooth part f, and its gradient in the shape of θ, not yet centred: X'R above the sums of R = s·∇ℓ."""

    loss: float
    sums: np.ndarray


class Update(NamedTuple):
    """Proximal update from θ to θ' = θ + s, with the sums that belong to it.

    Attributes
    ----------
    theta : the new point θ'.
    penalty : αΩ at θ'.
    square : ‖s‖².
    derivative : ∇f's, the directional derivative of f.
    restart_test : −s'(θ' − previous), positive if the update points against the momentum.
    shift : x̄'W', by which c·β and b differ.
    """

    theta: np.ndarray
    penalty: float
    square: float
    derivative: float
    restart_test: float
    shift: np.ndarray


class Composite:
    """Smooth part f, its gradient and proximal updates, for parameters θ = (W, β)."""

    def __init__(self, objective: Objective, threads: int) -> None:
        self.objective, self.threads = objective.with_threads(threads), threads
        self.engine = self.objective.engine
        self.centred = Centred(objective)
        d, means = self.engine.shape[1], self.centred.means
        self.means: np.ndarray = np.zeros(d) if means is None else np.ascontiguousarray(means[:, 0])
        # Centred: the mean of a column has no effect on its curvature.
        self.variance = float(np.max(objective.moments[1][:, 0] - self.means**2, initial=0.0))
        self.unit = _power_of_two(math.sqrt(self.variance))

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """Convert θ from (W, b) to (W, β)."""
        if not self.objective.fit_intercept:
            return theta
        theta = self.centred.inside(theta)
        theta[-1] /= self.unit
        return theta

    def outside(self, theta: np.ndarray) -> np.ndarray:
        """Convert θ from (W, β) to (W, b)."""
        if not self.objective.fit_intercept:
            return theta
        theta = theta.copy()
        theta[-1] *= self.unit
        return self.centred.outside(theta)

    def shift(self, theta: np.ndarray) -> np.ndarray:
        """Difference x̄'W of c·β and b."""
        shift: np.ndarray = np.einsum("j,jr->r", self.means, theta[: len(self.means)], dtype=np.float64)
        return shift

    def weights(self, theta: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights, not copied, and intercept b of θ = (W, β)."""
        W, b = self.objective.split(theta)
        return W, self.unit * b - shift if self.objective.fit_intercept else b

    def scores(self, theta: np.ndarray, shift: np.ndarray) -> RowState:
        """Scores of all rows at θ, as row state."""
        return self.engine.state(steps.Scores(), *self.weights(theta, shift))

    def extrapolated_scores(
        self, before: RowState, after: RowState, length: float, theta: np.ndarray, shift: np.ndarray
    ) -> RowState:
        """Scores of θ = after + length·(after − before), without a product with X; `shift` is that of θ."""
        scores = self.engine.state(steps.Scores())
        states = (scores.to(*self.weights(theta, shift)), before, after)
        self.engine.update(_ExtrapolateScores(self.threads), length, states=states)
        return scores

    def loss(self, scores: RowState) -> float:
        """Smooth part f at these scores."""
        return float(self.engine.sum(_LossAt(self.objective.loss), states=(scores,))[0])

    def gradient(self, scores: RowState) -> Gradient:
        """Smooth part f and its gradient at these scores, in one pass over the rows."""
        step = _GradientAt(self.objective.loss, self.objective.fit_intercept)
        value, sums = self.engine.sum(step, states=(scores,))
        return Gradient(float(value), sums)

    def change_along(self, before: RowState, after: RowState) -> float:
        """Inner product s'y of the update s between two points with the change y of the gradient.

        It is computed from scores Z and gradients R as (Z − Z of before)'(R − R of before), without a pass over the
        parameters.
        """
        return float(self.engine.sum(_ChangeAlong(self.objective.loss), states=(before, after))[0])

    def penalty(self, theta: np.ndarray) -> float:
        """Penalty αΩ(W) of θ."""
        return self.objective.regulariser.value(self.objective.split(theta)[0])

    def update(self, theta: np.ndarray, gradient: Gradient, curvature: float, previous: np.ndarray) -> Update:
        """Proximal update: the minimiser θ' of ∇f'(θ' − θ) + ½·curvature·‖θ' − θ‖² + αΩ(W')."""
        regulariser, out = self.objective.regulariser, np.empty_like(theta)
        (d, k), length = self.engine.shape[1:] + theta.shape[1:], 1.0 / curvature
        intercept_gradient = gradient.sums[d].astype(np.float64) if self.objective.fit_intercept else np.zeros(k)
        if regulariser.groups.features.size or regulariser.centre is not None:
            sums = self._update_by_groups(theta, gradient.sums, intercept_gradient, length, previous, out)
        else:
            weights = WeightRows(regulariser.strengths, self.means, theta, gradient.sums, previous, out)
            tasks = [
                partial(_update, regulariser.penalty, weights, length, intercept_gradient, *bounds)
                for bounds in pool.ranges(d, max(1, d * k // RANGE))
            ]
            sums = np.sum(pool.run(tasks, self.threads), axis=0) if tasks else np.zeros(4 + k)
        if self.objective.fit_intercept:
            out[d] = theta[d] - length * self.unit * intercept_gradient
            change = out[d].astype(np.float64) - theta[d]
            sums[1:4] += change @ change, self.unit * (change @ intercept_gradient), -(change @ (out[d] - previous[d]))
        penalty, square, derivative, restart_test = (float(total) for total in sums[:4])
        return Update(out, penalty, square, derivative, restart_test, sums[4:])

    def _update_by_groups(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        intercept_gradient: np.ndarray,
        length: float,
        previous: np.ndarray,
        out: np.ndarray,
    ) -> np.ndarray:
        """Proximal update of the weights for penalties with groups of features or a centre other than zero."""
        regulariser, d = self.objective.regulariser, self.engine.shape[1]
        G = gradient[:d] - np.outer(self.means, intercept_gradient)
        W = out[:d]
        W[...] = theta[:d] - length * G
        regulariser.prox(W, length, out=W)
        change = np.subtract(W, theta[:d], dtype=np.float64)
        sums = [regulariser.value(W), dot(change, change), dot(change, G), -dot(change, W - previous[:d])]
        return np.concatenate([sums, np.einsum("j,jr->r", self.means, W, dtype=np.float64)])

    def typical_curvature(self) -> float:
        """Typical curvature of f along the feature with the largest variance or β: where a line search can start."""
        return self._scaled(self.objective.loss.typical_curvature(self.engine.n_columns), self.variance)

    def spectral_curvature(self) -> float:
        """Upper bound of the curvature of f: that of the loss times the largest eigenvalue of X'SX."""
        return self._scaled(self.objective.loss.lipschitz(self.engine.n_columns), self._largest_eigenvalue())

    def trace_curvature(self) -> float:
        """Looser upper bound of the curvature by Blondel, Seki & Uehara (2013), appendix A, with the trace of X'SX."""
        loss, k = self.objective.loss, self.engine.n_columns
        total = math.fsum(self.objective.moments[1][:, 0])
        return self._scaled(loss.pairwise_lipschitz(k), total + self.unit**2 if self.objective.fit_intercept else total)

    def _scaled(self, constant: float, size: float) -> float:
        """Product of two factors, positive; `size` is at least that of β."""
        size = max(size, self.unit**2 if self.objective.fit_intercept else 0.0)
        return max(constant * size, np.finfo(np.float64).tiny ** 0.5)

    def _largest_eigenvalue(self) -> float:
        """Largest eigenvalue of X'SX of the centred rows. β is not coupled to the weights and has the eigenvalue c²."""
        d = self.engine.shape[1]

        def product(v: np.ndarray) -> np.ndarray:
            V = np.ascontiguousarray(v.reshape(-1, 1), dtype=np.float64)
            (out,) = self.engine.sum(steps.GramProduct(), V)
            return out[:, 0] - self.means * dot(self.means, V)

        if d < 3:
            matrix = np.array([product(column) for column in np.eye(d)]).reshape(d, d)
            return float(np.max(np.linalg.eigvalsh(matrix), initial=0.0))
        # Random signs: a start with equal signs would be close to the mean, which centring removes.
        signs = np.random.default_rng(0).choice([-1.0, 1.0], d)
        start = signs * (np.sqrt(self.objective.moments[1][:, 0]) + np.finfo(np.float64).tiny ** 0.25)
        operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
        (largest,) = eigsh(operator, k=1, v0=start, tol=EIGENVALUE_ERROR, return_eigenvectors=False)
        return float(largest) * (1.0 + EIGENVALUE_ERROR)


# --- steps over rows


def _residuals(loss: Any, block: Block, scores: Piece) -> tuple[float, np.ndarray]:
    """Weighted sum of the losses and R = s·∇ℓ of every row, both kept in the piece."""
    if "R" not in scores:
        R = np.empty_like(scores["Z"])
        scores["value"] = np.array(row_sums.gradients(loss, block, block.weights, scores["Z"], R))
        scores["R"] = R
    return float(scores["value"]), scores["R"]


@dataclass(frozen=True)
class _LossAt:
    """Step: weighted sum of the losses at given scores."""

    loss: Any

    def __call__(self, block: Block, scores: Piece) -> tuple[float]:
        return (row_sums.values(self.loss, block, scores["Z"]),)


@dataclass(frozen=True)
class _GradientAt:
    """Step: weighted sum of the losses at given scores, and its gradient in the shape of θ."""

    loss: Any
    fit_intercept: bool

    def __call__(self, block: Block, scores: Piece) -> tuple[float, np.ndarray]:
        value, R = _residuals(self.loss, block, scores)
        return value, steps.parameter_gradient(block, R, self.fit_intercept)


@dataclass(frozen=True)
class _ChangeAlong:
    """Step: (Z − Z of before)'(R − R of before), for scores Z and gradients R."""

    loss: Any

    def __call__(self, block: Block, before: Piece, after: Piece) -> tuple[float]:
        changes = [_residuals(self.loss, block, piece)[1] for piece in (before, after)]
        return (dot(after["Z"] - before["Z"], changes[1] - changes[0]),)


@dataclass(frozen=True)
class _ExtrapolateScores:
    """Step: fill the scores with after + length·(after − before)."""

    threads: int

    def __call__(self, block: Block, scores: Piece, before: Piece, after: Piece, length: float) -> tuple[()]:
        scores["Z"] = extrapolated(before["Z"], after["Z"], length, self.threads)
        return ()


def _power_of_two(size: float) -> float:
    """Power of two near `size`, so that dividing by it is exact; one for zero."""
    if not 0.0 < size < math.inf:
        return 1.0
    return 2.0 ** min(max(math.floor(math.log2(size)), -MAX_EXPONENT), MAX_EXPONENT)


class WeightRows(NamedTuple):
    """Arrays with one row per feature that an update reads, and `out`, which it writes."""

    strengths: Any
    means: Any
    theta: Any
    gradient: Any
    previous: Any
    out: Any


@kernel
def _update(penalty, rows, length, intercept_gradient, start, stop):
    """Update rows start … stop − 1 of θ; returns αΩ, ‖s‖², ∇f's, −s'(θ' − previous) and then x̄'W' (see `Update`)."""
    strengths, means, theta = rows.strengths, rows.means, rows.theta
    gradient, previous, out = rows.gradient, rows.previous, rows.out
    k = theta.shape[1]
    sums = np.zeros(4 + k)
    value, square, derivative, restart_test = 0.0, 0.0, 0.0, 0.0
    for j in range(np.uintp(start), np.uintp(stop)):
        mean, strength = means[j], strengths[j]
        for r in range(k):
            out[j, r] = theta[j, r] - length * (gradient[j, r] - mean * intercept_gradient[r])
        penalty.group_prox(out[j], length * strength, out[j])
        if strength > 0.0:
            value += strength * penalty.group_value(out[j])
        for r in range(k):
            w = np.float64(out[j, r])
            change = w - theta[j, r]
            square += change * change
            derivative += change * (gradient[j, r] - mean * intercept_gradient[r])
            restart_test -= change * (w - previous[j, r])
            sums[4 + r] += mean * w
    sums[0], sums[1], sums[2], sums[3] = value, square, derivative, restart_test
    return sums
