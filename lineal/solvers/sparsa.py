"""SpaRSA: proximal gradient updates whose step size follows the curvature along the last update.

    θ_{t+1} = prox_{αΩ/L}(θ_t − ∇f(θ_t)/L),   L = s'y/s's for the last update s and its change y of the gradient

Wright, Nowak & Figueiredo (2009). The objective can increase in some iterations: an update is accepted if its objective
is sufficiently below the largest of the last few objectives, otherwise L is doubled.

Memory: five parameter arrays, and six arrays of n·k numbers as row state.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from lineal.numerics.best_iterate import Descent, descend
from lineal.numerics.composite import Composite
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver

#: Number of objectives before the last one with which a new one is compared.
REMEMBERED = 5

#: Smallest decrease, relative to ½L‖s‖² of the update s.
DECREASE = 0.01

#: Largest factor by which L decreases at once. If f is flat along an update, it would take many doublings to recover.
MAX_DECREASE = 1e3

#: Largest factor between L and its first value.
CURVATURE_RANGE = 1e12


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss that this solver cannot handle."""
    check_smooth_loss("sparsa", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    return (5 * d + 6 * n) * k * size


@solver(check=check, memory=memory)
def solve(objective: Objective, budget: Budget, start: Start) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`.

    The objective can increase in some iterations; the result is the best iterate.
    """
    with Monitor(budget) as monitor:
        composite = Composite(objective, budget.threads)
        return descend(_Descent(composite, objective.theta_of(start)), monitor)


class _Descent(Descent):
    """Iterate θ with its scores, objective and gradient, and the curvature L."""

    state_names = ("theta", "shift", "value", "recent", "curvature")

    def __init__(self, composite: Composite, theta: np.ndarray) -> None:
        self.composite, self.theta = composite, composite.inside(theta)
        self.shift = composite.shift(self.theta)
        self.scores = composite.scores(self.theta, self.shift)
        self.gradient = composite.gradient(self.scores)
        self.value = self.gradient.loss + composite.penalty(self.theta)
        check_finite(self.value, "the objective at the starting point")
        self.recent = deque([self.value], maxlen=REMEMBERED + 1)
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        self.curvature = first = composite.typical_curvature()
        self.bounds = (first / CURVATURE_RANGE, first * CURVATURE_RANGE)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the iterate, and compute its scores and gradient."""
        super().restore(state)
        self.scores = self.composite.scores(self.theta, self.shift)
        self.gradient = self.composite.gradient(self.scores)

    def advance(self) -> bool:
        """Do one iteration; returns False if no progress is possible in this precision."""
        composite = self.composite
        while True:
            update = composite.update(self.theta, self.gradient, self.curvature, self.theta)
            if update.square == 0.0:
                return False
            scores = composite.scores(update.theta, update.shift)
            value = composite.loss(scores) + update.penalty
            largest = max(self.recent) - 0.5 * DECREASE * self.curvature * update.square
            if value <= largest + self.noise * abs(self.value):
                break
            self.curvature *= 2.0
            if not self.curvature <= self.bounds[1]:
                return False
        gradient = composite.gradient(scores)
        curvature = composite.change_along(self.scores, scores) / update.square
        least = max(self.bounds[0], self.curvature / MAX_DECREASE)
        self.curvature = min(max(curvature, least), self.bounds[1]) if math.isfinite(curvature) else self.bounds[1]
        self.theta, self.shift = update.theta, update.shift
        self.scores, self.gradient, self.value = scores, gradient, value
        self.recent.append(value)
        return True
