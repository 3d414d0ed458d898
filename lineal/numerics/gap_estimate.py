"""Stopping rule of gradient methods with the l2 penalty: a cheap estimate of the gap, then the certificate.

With the l2 penalty the duality gap of u = ∇ℓ is ‖∇_W F‖²/(2α), apart from the effect of the intercept, which only the
certificate includes. So every gradient gives an estimate of the gap at no cost. If some weights are not penalised,
there is no finite gap, and the norm of the gradient, relative to that at the model without features, is used instead.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.numerics.centred import Centred
from lineal.problem.loop_state import LoopState
from lineal.problem.solution import Certificate


class GapEstimate(LoopState):
    """Decides when to compute the certificate, and keeps the last one.

    If a certificate does not meet the tolerance, the next one is computed when the estimate has decreased to `patience`
    times its value.
    """

    state_names = ("wait_below",)

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
        """Relative gap without the effect of the intercept; relative norm of the gradient if there is no finite gap."""
        if self.inverse is None:
            return float(self.centred.objective.gradient_norms(gradient).max(initial=0.0)) / self.reference
        W, _ = self.centred.objective.split(gradient)
        distance = float(np.einsum("jr,jr->j", W, W, dtype=np.float64) @ self.inverse)
        return distance / abs(value) if value != 0.0 else math.inf if distance > 0.0 else 0.0

    def contributions(self, value: float, gradient: np.ndarray) -> np.ndarray:
        """Contribution of each column to the relative gap, or to the square of the relative norm of the gradient."""
        if self.inverse is None:
            d = len(self.centred.objective.regulariser.strengths)
            squares = np.einsum("jr,jr->r", gradient[:d], gradient[:d], dtype=np.float64)
            for intercept in gradient[d:].astype(np.float64):
                squares += np.square(self.centred.objective.unit * intercept)
            return squares / self.reference**2
        if not value > 0.0:
            return np.zeros(gradient.shape[1])
        W = gradient[: len(self.inverse)]
        return np.einsum("jr,jr->r", W, W * self.inverse[:, None], dtype=np.float64) / value

    def from_contributions(self, contributions: np.ndarray) -> float:
        """Estimate of the gap from the contributions of all columns."""
        total = float(contributions.sum())
        return total if self.inverse is not None else math.sqrt(total)

    @property
    def contribution_target(self) -> float:
        """Largest sum of contributions at which the next certificate is computed."""
        target = min(self.tol, self.wait_below)
        return target if self.inverse is not None else target**2

    def is_reached(self, theta: np.ndarray, estimate: float) -> bool:
        """Whether the certificate meets tol; it is computed only if the estimate is small enough."""
        if estimate > min(self.tol, self.wait_below):
            return False
        if self.certificate(theta).meets(self.tol):
            return True
        self.wait_below = self.patience * estimate
        return False

    def certificate(self, theta: np.ndarray) -> Certificate:
        """Certificate of θ; the last one is kept, because it is usually needed again."""
        if self.last is None or not np.array_equal(self.last[0], theta):
            outside = self.centred.outside(theta)
            self.last = (theta.copy(), self.centred.objective.certificate(outside, self.tol))
        return self.last[1]
