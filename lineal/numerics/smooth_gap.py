"""When a gradient method with the l2 penalty is done: the gap by its gradient, the certificate when that looks good.

For the l2 penalty the duality gap of u = ∇ℓ is ‖∇_W F‖²/(2α), up to the balance of the intercept: every gradient comes
with an estimate for nothing.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.numerics.centred import Centred
from lineal.numerics.vectors import dot
from lineal.problem.solution import Certificate


class SmoothGap:
    """Decides when the certificate is worth computing, and keeps the last one."""

    def __init__(self, centred: Centred, tol: float) -> None:
        self.centred, self.tol = centred, tol
        objective = centred.objective
        self.wait_below = math.inf
        self.last: tuple[np.ndarray, Certificate] | None = None
        strengths = objective.regulariser.strengths
        has_gap = getattr(objective, "has_gap", bool(np.all(strengths > 0.0)))
        self.inverse = 0.5 / strengths if has_gap else None
        self.reference = 1.0
        if self.inverse is None:  # without a gap, violations are relative to that of the zero model
            _, gradient = centred.value_and_gradient(centred.inside(objective.start()))
            self.reference = float(objective.gradient_norms(gradient).max(initial=0.0)) or 1.0

    def estimate(self, value: float, gradient: np.ndarray) -> float:
        """Relative gap if the intercept were balanced; relative gradient norm where there is no gap."""
        W, _ = self.centred.objective.split(gradient)
        if self.inverse is None:
            return float(self.centred.objective.gradient_norms(gradient).max(initial=0.0)) / self.reference
        rows = np.einsum("jr,jr->j", W, W, dtype=np.float64)
        distance = dot(rows, self.inverse)
        return distance / abs(value) if value != 0.0 else math.inf if distance > 0.0 else 0.0

    def is_reached(self, theta: np.ndarray, value: float, gradient: np.ndarray) -> bool:
        """Whether the certificate meets tol; computed only when the estimate has come down far enough."""
        estimate = self.estimate(value, gradient)
        if estimate > min(self.tol, self.wait_below):
            return False
        if self.certificate(theta).meets(self.tol):
            return True
        self.wait_below = 0.5 * estimate
        return False

    def certificate(self, theta: np.ndarray) -> Certificate:
        """Of θ; remembered, since the last one asked for is usually asked for again."""
        if self.last is None or self.last[0] is not theta:
            self.last = (theta, self.centred.objective.certificate(self.centred.outside(theta), self.tol))
        return self.last[1]
