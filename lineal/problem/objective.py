"""The objective of every solver.

    F(W, b) = (1/Σs) Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α·Ω(W)

Sample and class weights are in s, offsets o are base scores, the intercept b is never penalised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lineal.engine.base import Engine
from lineal.engine.state import RowState
from lineal.errors import DataError
from lineal.penalties.regulariser import Regulariser
from lineal.problem import steps
from lineal.problem.certificate import certify
from lineal.problem.solution import Certificate, Solution

#: n·k² beyond which the intercept's k × k curvature is not worth computing for a certificate.
MAX_INTERCEPT_WORK = 2e9


@dataclass(frozen=True)
class Objective:
    """Loss, penalty and data together. Parameters are one array θ: the rows of W, and b as a last row if there is one.

    Memory: two blocks of scores (see the engine) and one θ of gradients.
    """

    engine: Engine
    loss: Any
    regulariser: Regulariser
    fit_intercept: bool = True

    @property
    def has_values(self) -> bool:
        """Whether F can be computed, and not only its gradient."""
        return True

    @property
    def has_gap(self) -> bool:
        """Whether certificates are duality gaps: not where some weights have no penalty."""
        return bool(np.all(self.regulariser.strengths > 0.0))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of θ."""
        return (self.engine.shape[1] + self.fit_intercept, self.engine.n_columns)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """θ as weights (d, k) and intercept (k,): views, or zeros for an intercept that is not fitted."""
        d = self.engine.shape[1]
        return theta[:d], theta[d] if self.fit_intercept else np.zeros(theta.shape[1], theta.dtype)

    def with_alpha(self, alpha: float) -> Objective:
        """The same rows and loss with another strength of the penalty; what is known of the columns is kept."""
        return self._with_moments(replace(self, regulariser=self.regulariser.with_alpha(alpha)))

    def with_threads(self, threads: int) -> Objective:
        """The same objective, with this many threads for the rows; what is known of the columns is kept."""
        return self._with_moments(replace(self, engine=self.engine.with_threads(threads)))

    def _with_moments(self, other: Objective) -> Objective:
        for known in ("moments", "mean_square"):
            if known in self.__dict__:
                other.__dict__[known] = self.__dict__[known]
        return other

    def class_weights(self) -> np.ndarray:
        """Share of the weight on each label column."""
        return self.engine.sum(steps.LabelWeights(self.engine.n_columns))[0]

    def start(self, dtype: Any = None) -> np.ndarray:
        """θ of the model without features: zero weights and the loss's best intercept for them, where it knows one."""
        theta = np.zeros(self.shape, dtype or self.engine.dtype)
        if self.fit_intercept:
            theta[-1] = self.loss.start_intercept(self.class_weights())
        return theta

    def theta_of(self, start: np.ndarray | Solution | None) -> np.ndarray:
        """A new θ to start from, in the precision of the data: of an array, a solution or, for None, `start()`."""
        if start is None:
            return self.start()
        W = start if isinstance(start, np.ndarray) else start.weights
        found = W.shape if W is start else (len(W) + self.fit_intercept, *W.shape[1:])
        if found != self.shape:
            raise DataError(f"a start of shape {found} does not fit parameters of shape {self.shape}")
        if not isinstance(start, np.ndarray):
            theta = np.empty(self.shape, self.engine.dtype)
            theta[: len(start.weights)] = start.weights
            if self.fit_intercept:
                theta[-1] = start.intercept
            return theta
        return np.array(start, self.engine.dtype, order="C")

    # --- primal

    def value(self, theta: np.ndarray, dtype: Any = None) -> float:
        """F(θ), from scores in the precision of θ or a wider one."""
        W, b = self.split(theta)
        (value,) = self.engine.sum(steps.LossValue(self.loss, dtype), W, b)
        return float(value) + self.regulariser.value(W)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """F(θ) and ∇F(θ), for a smooth loss and penalty; with another penalty, use `loss_and_gradient`."""
        return self.penalised(theta, *self.loss_and_gradient(theta))

    def penalised(self, theta: np.ndarray, value: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """A loss term with the penalty of θ, and its gradient, changed in place, with the penalty's."""
        W, _ = self.split(theta)
        gradient[: len(W)] += self.regulariser.gradient(W)
        return value + self.regulariser.value(W), gradient

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss term and its gradient (a subgradient for non-smooth losses), in the shape of θ."""
        value, gradient = self.engine.sum(steps.LossGradient(self.loss, self.fit_intercept), *self.split(theta))
        return float(value), gradient

    def newton_intercept(self, b: np.ndarray, scores: RowState) -> np.ndarray | None:
        """b after one Newton step with the weights held; None where that costs too much or leads nowhere.

        `scores` are those of the weights and a zero intercept, in float64.
        """
        k = len(b)
        if self.loss.is_direct and k * k * self.engine.shape[0] > MAX_INTERCEPT_WORK:
            return None
        gradient, curvature = self.engine.sum(steps.InterceptCurvature(self.loss), b, states=(scores,))
        curvature[np.diag_indices(k)] += 1e-12 * np.trace(curvature) + np.finfo(np.float64).tiny
        nearer = b - np.linalg.solve(curvature, gradient)
        return nearer if np.isfinite(nearer).all() else None

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ s·x and Σ s·x² of every column, (d, 1) each.

        Columns whose squares overflow are refused: no gradient and no certificate could be computed.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            (sums,) = self.engine.sum(steps.moments)
        overflows = np.flatnonzero(~np.isfinite(sums).all(axis=1))
        if len(overflows):
            raise DataError(
                f"column {overflows[0]} of X (counted from 0) has values so large that their squares overflow: divide "
                "it by its largest value"
            )
        return sums[:, :1], sums[:, 1:]

    @cached_property
    def unit(self) -> float:
        """The intercept's column of ones in the unit of the features: the largest root mean square of one of them.

        Gradients by features have their unit, the intercept's has none. Compared as they are, rounding of the latter
        would pass for a violation of features that are all small.
        """
        return math.sqrt(float(np.max(self.moments[1], initial=0.0))) or 1.0

    def gradient_norms(self, gradient: np.ndarray) -> np.ndarray:
        """Norms of the rows of a gradient in the shape of θ, the intercept's in the unit of the features."""
        norms = np.linalg.norm(gradient.astype(np.float64, copy=False), axis=1)
        if self.fit_intercept:
            norms[-1] *= self.unit
        return norms

    @cached_property
    def mean_square(self) -> float:
        """Σ s·‖x‖²."""
        return float(self.engine.sum(steps.mean_square)[0])

    # --- dual

    def certificate(self, theta: np.ndarray, tol: float = 0.0, dual_point: Any = None) -> Certificate:
        """A relative duality gap, or a relative violation where some weights are not penalised (see `certificate.py`).

        A solver that has dual variables gives them as `dual_point`: (n, k), a u_i in the domain of ℓ* a row, of which
        slices of rows are arrays. Without, the dual point is ∇ℓ, and where its gap exceeds `tol` also ∇ℓ at an
        intercept one Newton step nearer to the best one for these weights: a gap is as sensitive to the balance of
        the intercept as its logarithm.
        """
        return certify(self, theta, tol, dual_point)


def check_finite(value: float, what: str) -> None:
    """Refuse to go on from an overflow."""
    if not math.isfinite(value):
        raise DataError(f"{what} is not finite: X has NaN or values too large for its precision; scale the features")
