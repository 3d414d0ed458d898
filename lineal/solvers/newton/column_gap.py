"""Estimates of the gap from the gradient, problem by problem, and when to ask for the certificate.

With the l2 penalty the duality gap of u = ∇ℓ is ‖∇_W F‖²/(2α), up to the balance of the intercept, which only the
certificate sees. Where some weights are not penalised there is no gap, and the square of the gradient, relative to that
of the model without features, takes its place.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.numerics.centred import Centred
from lineal.problem.solution import Certificate


class ColumnGap:
    """Decides when problems are done and when the certificate is worth computing, and keeps the last one."""

    def __init__(self, centred: Centred, tol: float) -> None:
        self.centred, self.tol = centred, tol
        objective = centred.objective
        strengths = objective.regulariser.strengths
        self.is_gap = bool(np.all(strengths > 0.0))
        self.wait_below = math.inf
        self.last: tuple[np.ndarray, Certificate] | None = None
        self.reference = 1.0
        if self.is_gap:
            self.inverse = (0.5 / strengths)[:, None]
        else:
            _, gradient = centred.value_and_gradient(centred.inside(objective.start()))
            self.reference = float(objective.gradient_norms(gradient).max(initial=0.0)) or 1.0

    def shares(self, value: float, gradient: np.ndarray) -> np.ndarray:
        """Of every column, what it adds to the estimate (relative gap, or squared relative violation)."""
        if not self.is_gap:
            d = len(self.centred.objective.regulariser.strengths)  # of single score columns, too
            squares = np.einsum("jr,jr->r", gradient[:d], gradient[:d], dtype=np.float64)
            for intercept in gradient[d:].astype(np.float64):
                squares += np.square(self.centred.objective.unit * intercept)
            return squares / self.reference**2
        if not value > 0.0:
            return np.zeros(gradient.shape[1])
        W = gradient[: len(self.inverse)]
        return np.einsum("jr,jr->r", W, W * self.inverse, dtype=np.float64) / value

    def estimate(self, shares: np.ndarray) -> float:
        """What the certificate is likely to say."""
        total = float(shares.sum())
        return total if self.is_gap else math.sqrt(total)

    @property
    def target(self) -> float:
        """Sum of shares to get below."""
        wanted = min(self.tol, self.wait_below)
        return wanted if self.is_gap else wanted**2

    def is_reached(self, theta: np.ndarray, estimate: float) -> bool:
        """Whether the certificate meets tol; computed only when the estimate has come down far enough."""
        if estimate > min(self.tol, self.wait_below):
            return False
        if self.certificate(theta).meets(self.tol):
            return True
        self.wait_below = 0.3 * estimate
        return False

    def certificate(self, theta: np.ndarray) -> Certificate:
        """Of θ; remembered, since the last one asked for is usually asked for again."""
        if self.last is None or not np.array_equal(self.last[0], theta):
            outside = self.centred.outside(theta)
            self.last = (theta.copy(), self.centred.objective.certificate(outside, self.tol))
        return self.last[1]
