"""Generalized least squares for smooth losses with the l2 penalty: one d × d matrix and no step size.

    θ ← θ − (L·Σ̂ + αI)⁻¹ ∇F(θ),   Σ̂ = X̃'SX̃,   X̃ = [X − x̄, 1]

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), Algorithm 1. With the Lipschitz constant L (1 for the identity
link, ½ for softmax, ¼ for the sigmoid), L·Σ̂ ⊗ I is an upper bound of the Hessian of the loss at any weights. So every
update decreases F, even if the features are badly conditioned, and all classes share one factorisation. Three methods
use it:

plain : the update above; F − F* ≤ 2L‖W*‖²_Σ̂/(t + 4) without a penalty. For the identity link one update is enough.
accelerated : the same with Nesterov's (1983) momentum, O(1/t²), restarted when it points uphill (O'Donoghue & Candès
    2015).
quasi_newton : L-BFGS with the matrix as its initial Hessian. L is replaced by the curvature along the updates, which is
    smaller once most rows are classified correctly, and the matrix is factorised again when it has changed by a factor
    of 3. Σ̂ need not be exact here: if there are many dense rows, a sample of four rows per feature is used. If the
    curvature of the loss is constant (identity link), all rows are used, the matrix is the Hessian, and one update is
    enough.

Memory: 16d² bytes, 4 parameter arrays (24 for quasi_newton) and two blocks of scores.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lineal.design.products import gram_rounding
from lineal.numerics.centred import Centred
from lineal.numerics.factorisation import Factor
from lineal.numerics.gap_estimate import GapEstimate
from lineal.numerics.momentum import Momentum
from lineal.numerics.precondition import ridge_of, second_moment
from lineal.numerics.smooth_only import check_smooth
from lineal.numerics.vectors import dot, extrapolated
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.lbfgs import lbfgs
from lineal.solvers.options import LeastSquaresSolverOptions

#: Factor by which the curvature must change before the matrix is factorised again.
WORTH_A_FACTOR = 3.0

#: Number of sampled rows for Σ̂: per feature, and the smallest number in total.
SAMPLED_ROWS, MIN_SAMPLED_ROWS = 4, 8192


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss or a penalty that this solver cannot handle."""
    check_smooth("least_squares", loss, penalty)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    return 16 * d * d + (2 * lbfgs.MEMORY + 4) * d * k * size


@solver(check=check, memory=memory, options=LeastSquaresSolverOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: LeastSquaresSolverOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where α = 0).

    The seed is for the sample of rows of quasi_newton; the other methods use no random numbers.
    """
    if options.method == "quasi_newton":
        return lbfgs.descend(objective, budget, start, partial(_Adaptive, seed=budget.seed))
    centred = Centred(objective)
    point = centred.inside(objective.theta_of(start))
    with Monitor(budget) as monitor:
        descent = Descent(centred, point, options.method == "accelerated", budget.threads)
        if not math.isnan(descent.value):  # NaN for a link whose potential is not given
            check_finite(descent.value, "the objective at the starting point")
        factor, gap = _majorant(centred), GapEstimate(centred, budget.tol)

        def record(iteration: int, estimate: float) -> str | None:
            return monitor.record(
                iteration, descent.value, estimate, *objective.split(centred.outside(descent.point))
            )  # fmt: skip

        iteration = monitor.resume(_Both(descent, gap))
        estimate = gap.estimate(descent.value, descent.gradient)
        status = record(iteration, estimate)
        while not gap.is_reached(descent.point, estimate) and status is None:
            if not descent.advance(factor):
                status = "stalled"
                break
            descent.evaluate()
            iteration, estimate = iteration + 1, gap.estimate(descent.value, descent.gradient)
            status = record(iteration, estimate)
        certificate = gap.certificate(descent.point)
    return monitor.finish(*objective.split(centred.outside(descent.point)), certificate, status)


class _Both(LoopState):
    """State of the loop: the iterations, and when the next certificate is computed."""

    state_names = ("descent", "gap")

    def __init__(self, descent: Descent, gap: GapEstimate) -> None:
        self.descent, self.gap = descent, gap


class Descent(LoopState):
    """The iterations of Algorithm 1 by W and b̃, plain or accelerated.

    Attributes
    ----------
    point : where F and its gradient are taken.
    reached : where the last update led, before momentum was added.
    value, gradient : F and its gradient at `point`.
    """

    state_names = ("point", "reached", "value", "gradient", "momentum")

    def __init__(self, centred: Centred, point: np.ndarray, is_accelerated: bool, threads: int) -> None:
        self.centred, self.threads = centred, threads
        self.momentum = Momentum() if is_accelerated else None
        self.point = self.reached = point
        self.evaluate()

    def evaluate(self) -> None:
        """Compute F and its gradient at the point."""
        self.value, self.gradient = self.centred.value_and_gradient(self.point)

    def advance(self, factor: Factor) -> bool:
        """Move the point by one update; False where the update is not finite."""
        landed = self.point - factor.solve(self.gradient)
        if not np.isfinite(landed).all():
            return False
        before, self.point, self.reached = self.reached, landed, landed
        if self.momentum is not None:
            length = self.momentum.following(dot(self.gradient, landed - before, self.threads) > 0.0)
            self.point = extrapolated(before, landed, length, self.threads)
        return True


class _Matrix:
    """Matrix c·Σ̂ + αI, which can be factorised for any c."""

    def __init__(self, centred: Centred, sample: int | None = None, seed: int = 0) -> None:
        self.moment, self.ridge = second_moment(centred, sample, seed), ridge_of(centred.objective)
        engine = centred.objective.engine
        self.rounding = gram_rounding(engine.dtype, engine.shape[1])

    def factor(self, curvature: float) -> Factor:
        """Factorisation for the curvature c."""
        return Factor(self.moment, self.ridge, curvature, self.rounding)


def _majorant(centred: Centred) -> Factor:
    """Factorisation of L·Σ̂ + αI, an upper bound of the Hessian."""
    objective = centred.objective
    bound = objective.loss.lipschitz(objective.engine.n_columns)
    return _Matrix(centred).factor(bound)


class _Adaptive(LoopState):
    """Inverse of c·Σ̂ + αI for a curvature c that is adapted to the updates."""

    state_names = ("curvature", "steps")

    def __init__(self, centred: Centred, seed: int) -> None:
        loss, engine = centred.objective.loss, centred.objective.engine
        self.curvature = loss.typical_curvature(engine.n_columns)
        sample = max(SAMPLED_ROWS * engine.shape[1], MIN_SAMPLED_ROWS)
        self.matrix = _Matrix(centred, None if loss.is_quadratic else sample, seed)
        self.smallest, self.largest = 1e-8 * self.curvature, 1e2 * self.curvature
        self.factor = self.matrix.factor(self.curvature)
        self.steps = 0

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the curvature, and factorise the matrix for it."""
        super().restore(state)
        self.factor = self.matrix.factor(self.curvature)

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Product of (c·Σ̂ + αI)⁻¹ with a gradient."""
        return self.factor.solve(gradient)

    def adapt(self, curvature_along: float, y: np.ndarray) -> None:
        """Adapt c so that y'M⁻¹y ≈ s'y, as it would be if M were the mean Hessian along the update s.

        This is done after 1, 2, 4, 8, … updates, because it costs as much as the linear system of an update, and the
        curvature changes less and less.
        """
        self.steps += 1
        if self.steps & (self.steps - 1):
            return
        found = self.curvature * dot(y, self.factor.solve(y)) / curvature_along
        wanted = min(max(found, self.smallest), self.largest)
        if not WORTH_A_FACTOR > wanted / self.curvature > 1.0 / WORTH_A_FACTOR:
            self.curvature = wanted
            self.factor = self.matrix.factor(wanted)
