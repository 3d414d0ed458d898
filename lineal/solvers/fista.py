"""FISTA: accelerated proximal gradient steps, for every smooth loss with every penalty.

    θ_{t+1} = prox_{αΩ/L}(y_t − ∇f(y_t)/L),   y_{t+1} = θ_{t+1} + β_t(θ_{t+1} − θ_t)

Beck & Teboulle (2009). L is found by a search (step="line_search"): doubled until f lies below its quadratic model at
y_t; or it is a bound that always holds (step="constant"): the curvature of a row's loss (2m for the multiclass squared
hinge) times the largest eigenvalue of X'SX, or, for comparison, the looser one of Blondel, Seki & Uehara (2013).
Momentum starts anew when it points uphill (O'Donoghue & Candès 2015), and the search may then find a smaller L.

An iteration is one product with X and one with X': scores at y follow from those of the last two iterates.

Memory: six θ and five times the scores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.engine.state import RowState
from lineal.numerics.best_iterate import descend
from lineal.numerics.composite import Composite, Step
from lineal.numerics.momentum import Momentum
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.numerics.vectors import beyond
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.options import FistaOptions


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("fista", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return (6 * d + 5 * n) * k * size


@solver(check=check, memory=memory, options=FistaOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: FistaOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; the answer is the best iterate."""
    with Monitor(budget) as monitor:
        composite = Composite(objective, budget.threads)
        return descend(_Descent(composite, objective.theta_of(start), options), monitor)


class _Descent:
    """The iterate θ and the point y from which it moves, with their scores, and the curvature L."""

    def __init__(self, composite: Composite, theta: np.ndarray, options: FistaOptions) -> None:
        self.composite, self.searches, self.restarts = composite, options.step == "line_search", options.restart
        self.theta = self.y = composite.inside(theta)
        self.shift = composite.shift(self.theta)
        self.scores = self.scores_of_y = composite.scores(self.theta, self.shift)
        self.value, self.momentum = composite.loss(self.scores) + composite.penalty(self.theta), Momentum()
        check_finite(self.value, "the objective at the starting point")
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        if self.searches:
            self.curvature = composite.least_curvature()
        else:
            is_spectral = options.constant == "spectral"
            self.curvature = composite.spectral_curvature() if is_spectral else composite.trace_curvature()

    def advance(self) -> bool:
        """One step; False where none can be had in this precision."""
        composite, gradient = self.composite, self.composite.gradient(self.scores_of_y)
        if not math.isfinite(gradient.loss):
            return False
        while True:
            found = composite.step(self.y, gradient, self.curvature, self.theta)
            if found.square == 0.0 and self.y is self.theta:
                return False
            scores = composite.scores(found.theta, found.shift)
            loss = composite.loss(scores)
            # A constant that bounds the curvature passes this test; it costs nothing, and eigenvalues are estimates.
            model = gradient.loss + found.slope + 0.5 * self.curvature * found.square
            if loss <= model + self.noise * abs(gradient.loss):
                break
            self.curvature *= 2.0
            if not math.isfinite(self.curvature):
                return False
        self.value = loss + found.penalty
        # Where steps are lost in rounding every L passes: then none must become smaller.
        is_telling = 0.5 * self.curvature * found.square > self.noise * abs(gradient.loss)
        self._extrapolate(found, scores, self.searches and is_telling)
        return True

    def _extrapolate(self, found: Step, scores: RowState, may_flatten: bool) -> None:
        is_uphill = self.restarts and found.uphill > 0.0
        if is_uphill and may_flatten:
            self.curvature *= 0.5
        length = self.momentum.following(is_uphill)
        self.y, self.scores_of_y = found.theta, scores
        if length > 0.0:
            self.y = beyond(self.theta, found.theta, length, self.composite.threads)
            self.scores_of_y = self.composite.scores_beyond(self.scores, scores, length, self.y)
        self.theta, self.shift, self.scores = found.theta, found.shift, scores
