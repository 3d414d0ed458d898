"""An objective seen from the mean of its rows: b̃ = b + x̄'W in place of b.

A column with a large mean (a year, a timestamp) ties its weight to the intercept: hardly any step of one alone helps.
With b̃ the scores are W'(x − x̄) + b̃ and the tie is gone, though X itself is never changed.
"""

from __future__ import annotations

import numpy as np

from lineal.objective import Objective


class Centred:
    """Value and gradient of an objective by W and b̃. Without an intercept it is the objective itself."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.means: np.ndarray | None = objective.moments[0] if objective.fit_intercept else None

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
        return self._pulled(*self.objective.value_and_gradient(self.outside(theta)))

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss term and its gradient by W and b̃."""
        return self._pulled(*self.objective.loss_and_gradient(self.outside(theta)))

    def _pulled(self, value: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        if self.means is not None:
            gradient[:-1] -= self.means.astype(gradient.dtype) * gradient[-1]
        return value, gradient
