"""The objective that every solver minimises.

    F(W, b) = (1/Σs) Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α·Ω(W)

The row weights s contain sample and class weights, offsets o are base scores, and the intercept b is never penalised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.core.cached import cached_property
from lineal.engine.base import Engine
from lineal.engine.state import RowState
from lineal.errors import DataError
from lineal.penalties.regulariser import Regulariser
from lineal.problem import steps
from lineal.problem.certificate import certify
from lineal.problem.solution import Certificate, Solution

#: Largest n·k² for which a certificate computes the k × k curvature of the intercept.
MAX_INTERCEPT_WORK = 2e9


@dataclass(frozen=True)
class Objective:
    """Loss, penalty and data. Parameters are one array θ: the rows of W and, with an intercept, b as the last row.

    Memory: two blocks of scores (see the engine) and one gradient in the shape of θ.
    """

    engine: Engine
    loss: Any
    regulariser: Regulariser
    fit_intercept: bool = True

    @property
    def has_values(self) -> bool:
        """Whether the value of F can be computed, and not only its gradient."""
        return True

    @property
    def has_gap(self) -> bool:
        """Whether certificates are duality gaps, which needs a penalty on every weight."""
        return bool(np.all(self.regulariser.strengths > 0.0))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of θ."""
        return (self.engine.shape[1] + self.fit_intercept, self.engine.n_columns)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (d, k) and intercept (k,) of θ, as views; the intercept is zero if it is not fitted."""
        d = self.engine.shape[1]
        return theta[:d], theta[d] if self.fit_intercept else np.zeros(theta.shape[1], theta.dtype)

    def with_alpha(self, alpha: float) -> Objective:
        """Objective with another strength of the penalty; sums that are already computed are kept."""
        return self._with_moments(replace(self, regulariser=self.regulariser.with_alpha(alpha)))

    def with_threads(self, threads: int) -> Objective:
        """Objective with this many threads for sums over rows; sums that are already computed are kept."""
        return self._with_moments(replace(self, engine=self.engine.with_threads(threads)))

    def with_loss(self, loss: Any, engine: Engine) -> Objective:
        """Objective with another loss and engine, for the same rows, labels and weights; known sums are kept."""
        return self._with_moments(replace(self, loss=loss, engine=engine))

    def _with_moments(self, other: Objective) -> Objective:
        for known in ("moments", "mean_square", "_class_weights"):
            if known in self.__dict__:
                other.__dict__[known] = self.__dict__[known]
        return other

    def class_weights(self) -> np.ndarray:
        """Total row weight per label column."""
        return self._class_weights

    @cached_property
    def _class_weights(self) -> np.ndarray:
        return self.engine.sum(steps.LabelWeights(self.engine.n_columns))[0]

    def start(self, dtype: Any = None) -> np.ndarray:
        """Parameters of the model without features: zero weights and, if the loss knows it, the best intercept."""
        theta = np.zeros(self.shape, dtype or self.engine.dtype)
        if self.fit_intercept:
            theta[-1] = self.loss.start_intercept(self.class_weights())
        return theta

    def theta_of(self, start: np.ndarray | Solution | None) -> np.ndarray:
        """A new θ to start from, in the data type of X: from an array, a solution or, for None, `start()`."""
        if start is None:
            return self.start()
        W = start if isinstance(start, np.ndarray) else start.weights
        shape = W.shape if W is start else (len(W) + self.fit_intercept, *W.shape[1:])
        if shape != self.shape:
            raise DataError(f"a start of shape {shape} does not fit parameters of shape {self.shape}")
        if not isinstance(start, np.ndarray):
            theta = np.empty(self.shape, self.engine.dtype)
            theta[: len(start.weights)] = start.weights
            if self.fit_intercept:
                theta[-1] = start.intercept
            return theta
        return np.array(start, self.engine.dtype, order="C")

    # --- primal

    def value(self, theta: np.ndarray, dtype: Any = None) -> float:
        """Objective F(θ), from scores in the data type of θ or in a wider `dtype`."""
        W, b = self.split(theta)
        (value,) = self.engine.sum(steps.LossValue(self.loss, dtype), W, b)
        return float(value) + self.regulariser.value(W)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective F(θ) and its gradient, for a smooth loss and penalty; otherwise use `loss_and_gradient`."""
        return self.penalised(theta, *self.loss_and_gradient(theta))

    def penalised(self, theta: np.ndarray, value: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Add the penalty at θ to the value of the loss term, and its gradient, in place, to the given gradient."""
        W, _ = self.split(theta)
        gradient[: len(W)] += self.regulariser.gradient(W)
        return value + self.regulariser.value(W), gradient

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss term and its gradient (a subgradient for non-smooth losses), in the shape of θ."""
        value, gradient = self.engine.sum(steps.LossGradient(self.loss, self.fit_intercept), *self.split(theta))
        return float(value), gradient

    def newton_intercept(self, b: np.ndarray, scores: RowState) -> np.ndarray | None:
        """Intercept after one Newton update with fixed weights; None if that is too expensive or not finite.

        `scores` belong to the weights and a zero intercept, in float64.
        """
        k = len(b)
        if self.loss.is_direct and k * k * self.engine.shape[0] > MAX_INTERCEPT_WORK:
            return None
        gradient, curvature = self.engine.sum(steps.InterceptCurvature(self.loss), b, states=(scores,))
        curvature[np.diag_indices(k)] += 1e-12 * np.trace(curvature) + np.finfo(np.float64).tiny
        updated = b - np.linalg.solve(curvature, gradient)
        return updated if np.isfinite(updated).all() else None

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted mean Σ s·x and mean square Σ s·x² of every column, (d, 1) each.

        Columns whose squares overflow raise an error: neither gradients nor certificates could be computed.
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
        """Scale of the features: the largest root mean square of a column.

        The gradient with respect to a weight has the unit of its feature, that of the intercept has none. Without
        this factor, a rounding error in the intercept's gradient would look like a large violation if all features
        are small.
        """
        return math.sqrt(float(np.max(self.moments[1], initial=0.0))) or 1.0

    def gradient_norms(self, gradient: np.ndarray) -> np.ndarray:
        """Norm of each row of a gradient in the shape of θ; that of the intercept is multiplied by `unit`."""
        norms = np.linalg.norm(gradient.astype(np.float64, copy=False), axis=1)
        if self.fit_intercept:
            norms[-1] *= self.unit
        return norms

    @cached_property
    def mean_square(self) -> float:
        """Weighted mean of the squared norms of the rows, Σ s·‖x‖²."""
        return float(self.engine.sum(steps.mean_square)[0])

    # --- dual

    def certificate(self, theta: np.ndarray, tol: float = 0.0, dual_point: Any = None) -> Certificate:
        """Relative duality gap, or a relative violation if some weights are not penalised (see `certificate.py`).

        A solver with dual variables passes them as `dual_point`: (n, k), one u_i in the domain of ℓ* per row; slices
        of rows must be arrays. A violation is then that of the pair of parameters and dual variables. Otherwise the
        dual point is ∇ℓ. If its gap exceeds `tol`, ∇ℓ at an intercept that is improved by one Newton update is tried
        as well, because the gap is sensitive to small errors of the intercept.
        """
        return certify(self, theta, tol, dual_point)


def check_finite(value: float, what: str) -> None:
    """Raise an error if a value has overflowed."""
    if not math.isfinite(value):
        raise DataError(f"{what} is not finite: X has NaN or values too large for its precision; scale the features")
