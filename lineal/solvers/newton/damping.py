"""Damping γ of Newton directions, as in the method of Levenberg and Marquardt."""

from __future__ import annotations

import math

from lineal.problem.loop_state import LoopState

#: Largest γ at the start, largest later, and smallest.
FIRST, LARGEST, SMALLEST = 1.0, 10.0, 1e-12

#: γ at the start is this times the relative decrease that the bound of the Hessian promises, and at most FIRST.
PROMISE = 10.0

#: Ratios of the decrease of the objective to that of the quadratic model: it is good, fair, or bad.
GOOD, FAIR, BAD = 0.75, 0.4, 0.1

#: Largest factor by which γ is divided after a good step; after a bad one it begins at 2, and doubles.
MOST_RELIEF = 8.0


class Damping(LoopState):
    """γ, and the factor by which it is divided after the next good step."""

    state_names = ("gamma", "relief")

    def __init__(self, promise: float = math.inf) -> None:
        self.gamma, self.relief = FIRST * min(max(PROMISE * promise, SMALLEST), 1.0), MOST_RELIEF

    def adapt(self, ratio: float) -> None:
        """After a step of size one: `ratio` is the decrease of the objective over that of the model."""
        if ratio > GOOD:
            self.gamma, self.relief = self.gamma / self.relief, min(2.0 * self.relief, MOST_RELIEF)
        elif ratio > FAIR:
            self.gamma /= 2.0
        elif ratio < BAD:
            self.gamma, self.relief = 4.0 * self.gamma, 2.0
        self.gamma = max(self.gamma, SMALLEST)

    def tighten(self, step: float, slope: float, curvature: float) -> None:
        """After a shorter step: with the new γ, the direction would have had this length.

        `curvature` is that of the bound of the Hessian along the direction, and `slope` the derivative there.
        """
        needed = -slope * (1.0 / max(step, 1e-3) - 1.0) / curvature if curvature > 0.0 else 0.0
        self.gamma, self.relief = min(max(4.0 * self.gamma, needed), LARGEST), 2.0
