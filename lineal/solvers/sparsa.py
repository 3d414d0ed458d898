"""SpaRSA: proximal gradient steps whose length follows the curvature that the last step saw.

    θ_{t+1} = prox_{αΩ/L}(θ_t − ∇f(θ_t)/L),   L = s'y/s's of the last step s and change of gradient y

Wright, Nowak & Figueiredo (2009). The objective may rise now and then: a step is taken when it ends sufficiently below
the largest of the last few objectives, else L is doubled.

Memory: five θ and six times the scores.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from lineal.numerics.best_iterate import descend
from lineal.numerics.composite import Composite
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver

#: Objectives before the last that a new one is compared with.
REMEMBERED = 5

#: Share of ½L‖step‖² by which it must be lower.
DECREASE = 0.01

#: How far L may fall at once: where f is flat along a step, many doublings would have to bring it back.
LARGEST_FALL = 1e3

#: How far L may be from the first guess, as a factor.
CURVATURE_RANGE = 1e12


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("sparsa", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return (5 * d + 6 * n) * k * size


@solver(check=check, memory=memory)
def solve(objective: Objective, budget: Budget, start: Start) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`.

    The objective need not fall at every iteration; the answer is the best iterate.
    """
    with Monitor(budget) as monitor:
        composite = Composite(objective, budget.threads)
        return descend(_Descent(composite, objective.theta_of(start)), monitor)


class _Descent:
    """The iterate θ with its scores, objective and gradient, and the curvature L."""

    def __init__(self, composite: Composite, theta: np.ndarray) -> None:
        self.composite, self.theta = composite, composite.inside(theta)
        self.shift = composite.shift(self.theta)
        self.scores = composite.scores(self.theta, self.shift)
        self.gradient = composite.gradient(self.scores)
        self.value = self.gradient.loss + composite.penalty(self.theta)
        check_finite(self.value, "the objective at the starting point")
        self.recent = deque([self.value], maxlen=REMEMBERED + 1)
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        self.curvature = first = composite.least_curvature()
        self.bounds = (first / CURVATURE_RANGE, first * CURVATURE_RANGE)

    def advance(self) -> bool:
        """One step; False where none can be had in this precision."""
        composite = self.composite
        while True:
            found = composite.step(self.theta, self.gradient, self.curvature, self.theta)
            if found.square == 0.0:
                return False
            scores = composite.scores(found.theta, found.shift)
            value = composite.loss(scores) + found.penalty
            enough = max(self.recent) - 0.5 * DECREASE * self.curvature * found.square
            if value <= enough + self.noise * abs(self.value):
                break
            self.curvature *= 2.0
            if not self.curvature <= self.bounds[1]:
                return False
        gradient = composite.gradient(scores)
        seen = composite.change_along(self.scores, scores) / found.square
        least = max(self.bounds[0], self.curvature / LARGEST_FALL)
        self.curvature = min(max(seen, least), self.bounds[1]) if math.isfinite(seen) else self.bounds[1]
        self.theta, self.shift = found.theta, found.shift
        self.scores, self.gradient, self.value = scores, gradient, value
        self.recent.append(value)
        return True
