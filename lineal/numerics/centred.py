"""An objective seen from the mean of its rows: b̃ = b + x̄'W in place of b.

A column with a large mean (a year, a timestamp) ties its weight to the intercept: hardly any step of one alone helps.
With b̃ the scores are W'(x − x̄) + b̃ and the tie is gone, though X itself is never changed. A column that is constant but
for rounding is one of zeros then, and so is its part of the gradient: a weak penalty would divide what rounding leaves
of it by next to nothing.
"""

from __future__ import annotations

import numpy as np

from lineal.design.constant_columns import is_constant
from lineal.problem.objective import Objective


class Centred:
    """Value and gradient of an objective by W and b̃. Without an intercept it is the objective itself."""

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
        """W and b̃ of W and b."""
        return self._shifted(theta, 1.0)

    def outside(self, theta: np.ndarray) -> np.ndarray:
        """W and b of W and b̃."""
        return self._shifted(theta, -1.0)

    def _shifted(self, theta: np.ndarray, sign: float) -> np.ndarray:
        if self.means is None:
            return theta
        moved = theta.copy()
        moved[-1] = theta[-1] + sign * np.einsum("j,jr->r", self.means[:, 0], theta[:-1], dtype=np.float64)
        return moved

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient by W and b̃."""
        return self.objective.penalised(theta, *self.loss_and_gradient(theta))

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss term and its gradient by W and b̃."""
        value, gradient = self.objective.loss_and_gradient(self.outside(theta))
        if self.means is not None:
            gradient[:-1] -= self.means.astype(gradient.dtype) * gradient[-1]
            gradient[self.constant] = 0.0
        return value, gradient
