"""FISTA: accelerated proximal gradient steps, for every smooth loss with every penalty.

    θ_{t+1} = prox_{αΩ/L}(y_t − ∇f(y_t)/L),   y_{t+1} = θ_{t+1} + β_t(θ_{t+1} − θ_t)

Beck & Teboulle (2009). With step="line_search", L is doubled until the quadratic model at y_t bounds f. With
step="constant", L is an upper bound of the curvature: that of the loss (2m for the multiclass squared hinge) times the
largest eigenvalue of X'SX or, for comparison, the looser bound of Blondel, Seki & Uehara (2013). The momentum is
restarted when it points uphill (O'Donoghue & Candès 2015), and the line search can then find a smaller L.

An iteration takes one product with X and one with X', because the scores at y are computed from those of the last two
iterates.

Memory: six parameter arrays, and five arrays of n·k numbers as row state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.engine.state import RowState
from lineal.numerics.best_iterate import Descent, descend
from lineal.numerics.composite import Composite, Update
from lineal.numerics.momentum import Momentum
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.numerics.vectors import extrapolated
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.options import FistaOptions


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss that this solver cannot handle."""
    check_smooth_loss("fista", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    return (6 * d + 5 * n) * k * size


@solver(check=check, memory=memory, options=FistaOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: FistaOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; the result is the best iterate."""
    with Monitor(budget) as monitor:
        composite = Composite(objective, budget.threads)
        return descend(_Descent(composite, objective.theta_of(start), options), monitor)


class _Descent(Descent):
    """Iterate θ and extrapolated point y, with their scores, and the curvature L.

    `before` and `length` say how y was computed, from which its scores can be computed again.
    """

    state_names = ("theta", "y", "shift", "value", "curvature", "momentum", "before", "shift_before", "length")

    def __init__(self, composite: Composite, theta: np.ndarray, options: FistaOptions) -> None:
        self.composite, self.searches, self.restarts = composite, options.step == "line_search", options.restart
        self.theta = self.y = composite.inside(theta)
        self.shift = self.shift_before = composite.shift(self.theta)
        self.before, self.length = self.theta, 0.0
        self.scores = self.scores_of_y = composite.scores(self.theta, self.shift)
        self.value, self.momentum = composite.loss(self.scores) + composite.penalty(self.theta), Momentum()
        check_finite(self.value, "the objective at the starting point")
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        if self.searches:
            self.curvature = composite.typical_curvature()
        else:
            is_spectral = options.constant == "spectral"
            self.curvature = composite.spectral_curvature() if is_spectral else composite.trace_curvature()

    def advance(self) -> bool:
        """Do one iteration; returns False if no progress is possible in this precision."""
        composite, gradient = self.composite, self.composite.gradient(self.scores_of_y)
        if not math.isfinite(gradient.loss):
            return False
        while True:
            update = composite.update(self.y, gradient, self.curvature, self.theta)
            if update.square == 0.0 and self.y is self.theta:
                return False
            scores = composite.scores(update.theta, update.shift)
            loss = composite.loss(scores)
            # A constant L is tested as well: that costs nothing, and the largest eigenvalue is only an estimate.
            model = gradient.loss + update.derivative + 0.5 * self.curvature * update.square
            if loss <= model + self.noise * abs(gradient.loss):
                break
            self.curvature *= 2.0
            if not math.isfinite(self.curvature):
                return False
        self.value = loss + update.penalty
        # If the change is smaller than rounding errors, any L passes the test and must not be decreased.
        is_significant = 0.5 * self.curvature * update.square > self.noise * abs(gradient.loss)
        self._extrapolate(update, scores, self.searches and is_significant)
        return True

    def _extrapolate(self, update: Update, scores: RowState, may_decrease: bool) -> None:
        """Accept an update and compute the next y; `may_decrease` allows a smaller L after a restart."""
        is_uphill = self.restarts and update.restart_test > 0.0
        if is_uphill and may_decrease:
            self.curvature *= 0.5
        length = self.momentum.following(is_uphill)
        self.before, self.shift_before, scores_before = self.theta, self.shift, self.scores
        self.theta, self.shift, self.scores, self.length = update.theta, update.shift, scores, length
        self.y = self.theta
        if length > 0.0:
            self.y = extrapolated(self.before, self.theta, length, self.composite.threads)
        self._score_y(scores_before)

    def _score_y(self, before: RowState) -> None:
        """Compute the scores of y, from those of the iterate and of the one before."""
        self.scores_of_y = self.scores
        if self.length > 0.0:
            shift = self.shift + self.length * (self.shift - self.shift_before)
            self.scores_of_y = self.composite.extrapolated_scores(before, self.scores, self.length, self.y, shift)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the iterates, and compute their scores."""
        super().restore(state)
        self.scores = self.composite.scores(self.theta, self.shift)
        self._score_y(self.composite.scores(self.before, self.shift_before))
