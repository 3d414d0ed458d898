"""When a method with gradients and the l2 penalty is done: the gap by its gradient, then the certificate.

With the l2 penalty the duality gap of u = ∇ℓ is ‖∇_W F‖²/(2α), up to the balance of the intercept, which only the
certificate sees: every gradient comes with an estimate for nothing. Where some weights are not penalised there is no
gap, and the norm of the gradient, relative to that of the model without features, takes its place.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.numerics.centred import Centred
from lineal.problem.solution import Certificate


class GapEstimate:
    """Decides when the certificate is worth computing, and keeps the last one.

    A certificate that disappoints is not computed again before the estimate has fallen to `patience` times its value.
    """

    def __init__(self, centred: Centred, tol: float, patience: float = 0.5) -> None:
        self.centred, self.tol, self.patience = centred, tol, patience
        objective = centred.objective
        self.wait_below = math.inf
        self.last: tuple[np.ndarray, Certificate] | None = None
        self.inverse = 0.5 / objective.regulariser.strengths if objective.has_gap else None
        self.reference = 1.0
        if self.inverse is None:
            _, gradient = centred.value_and_gradient(centred.inside(objective.start()))
            self.reference = float(objective.gradient_norms(gradient).max(initial=0.0)) or 1.0

    def estimate(self, value: float, gradient: np.ndarray) -> float:
        """Relative gap if the intercept were balanced; relative norm of the gradient where there is no gap."""
        if self.inverse is None:
            return float(self.centred.objective.gradient_norms(gradient).max(initial=0.0)) / self.reference
        W, _ = self.centred.objective.split(gradient)
        distance = float(np.einsum("jr,jr->j", W, W, dtype=np.float64) @ self.inverse)
        return distance / abs(value) if value != 0.0 else math.inf if distance > 0.0 else 0.0

    def by_column(self, value: float, gradient: np.ndarray) -> np.ndarray:
        """What every column adds to the relative gap, or to the square of the relative norm of the gradient."""
        if self.inverse is None:
            d = len(self.centred.objective.regulariser.strengths)  # of single score columns, too
            squares = np.einsum("jr,jr->r", gradient[:d], gradient[:d], dtype=np.float64)
            for intercept in gradient[d:].astype(np.float64):
                squares += np.square(self.centred.objective.unit * intercept)
            return squares / self.reference**2
        if not value > 0.0:
            return np.zeros(gradient.shape[1])
        W = gradient[: len(self.inverse)]
        return np.einsum("jr,jr->r", W, W * self.inverse[:, None], dtype=np.float64) / value

    def of_columns(self, parts: np.ndarray) -> float:
        """The estimate for what the columns add to it."""
        total = float(parts.sum())
        return total if self.inverse is not None else math.sqrt(total)

    @property
    def column_target(self) -> float:
        """What all columns together may add, for the next certificate to be computed."""
        wanted = min(self.tol, self.wait_below)
        return wanted if self.inverse is not None else wanted**2

    def is_reached(self, theta: np.ndarray, estimate: float) -> bool:
        """Whether the certificate meets tol; computed only when the estimate has come down far enough."""
        if estimate > min(self.tol, self.wait_below):
            return False
        if self.certificate(theta).meets(self.tol):
            return True
        self.wait_below = self.patience * estimate
        return False

    def certificate(self, theta: np.ndarray) -> Certificate:
        """The certificate of θ; remembered, since the last one asked for is usually asked for again."""
        if self.last is None or not np.array_equal(self.last[0], theta):
            outside = self.centred.outside(theta)
            self.last = (theta.copy(), self.centred.objective.certificate(outside, self.tol))
        return self.last[1]
