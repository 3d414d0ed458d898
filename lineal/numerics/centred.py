"""Objective in terms of centred features: b̃ = b + x̄'W takes the place of the intercept b.

If a column has a large mean (a year, a timestamp), its weight and the intercept are strongly correlated, and changing
one alone hardly decreases the objective. With b̃ the scores are W'(x − x̄) + b̃ without this correlation; X itself is
never changed. A column that is constant up to rounding becomes a column of zeros, and its part of the gradient is set
to zero: otherwise a weak penalty would amplify rounding errors.
"""

from __future__ import annotations

import numpy as np

from lineal.design.odd_columns import is_constant
from lineal.problem.objective import Objective


class Centred:
    """Value and gradient of an objective with respect to W and b̃. Without an intercept nothing is centred."""

    def __init__(self, objective: Objective, known: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        """`known` are the means, (d, 1), and the constant columns, where they are known better than by the moments."""
        self.objective = objective
        self.means: np.ndarray | None = None
        self.constant: np.ndarray = np.empty(0, np.int64)
        if known is not None:
            self.means, self.constant = known
        elif objective.fit_intercept:
            self.means = objective.moments[0]
            variances = objective.moments[1] - self.means**2
            self.constant = np.flatnonzero(is_constant(variances[:, 0], self.means[:, 0]))

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """Convert θ from (W, b) to (W, b̃)."""
        return self._shifted(theta, 1.0)

    def outside(self, theta: np.ndarray) -> np.ndarray:
        """Convert θ from (W, b̃) to (W, b)."""
        return self._shifted(theta, -1.0)

    def _shifted(self, theta: np.ndarray, sign: float) -> np.ndarray:
        if self.means is None:
            return theta
        shifted = theta.copy()
        shifted[-1] = theta[-1] + sign * np.einsum("j,jr->r", self.means[:, 0], theta[:-1], dtype=np.float64)
        return shifted

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and its gradient with respect to W and b̃."""
        return self.objective.penalised(theta, *self.loss_and_gradient(theta))

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss term and its gradient with respect to W and b̃."""
        value, gradient = self.objective.loss_and_gradient(self.outside(theta))
        if self.means is not None:
            gradient[:-1] -= self.means.astype(gradient.dtype) * gradient[-1]
            gradient[self.constant] = 0.0
        return value, gradient
