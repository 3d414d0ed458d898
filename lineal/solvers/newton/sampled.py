"""Newton's method for many dense rows and few parameters: Hessians of samples of rows as preconditioners.

One pass over X costs n·d·k multiplications, its full Hessian k times d times as many. A sample of rows, drawn by their
leverage (`row_sample.py`), gives nearly the same matrix at the price of a few passes. All columns are one problem:

- M is the Hessian of a sample plus γ times an upper bound of all Hessians (`sampled_hessian.py`). As in the method of
  Levenberg and Marquardt, γ decreases where the quadratic model predicts the decrease of the objective well, and
  increases where it does not. If a step size of one does not decrease the objective enough, a shorter one is searched
  for, which needs scores only.
- While γ is large, the direction is −M⁻¹∇F. Later, conjugate gradients with products of the Hessian of all rows and
  the preconditioner M make it a direction of Newton's method.
- The dual point of the last direction gives the certificate (`newton_dual.py`). Conjugate gradients continue until
  their residual allows the gap that the tolerance requires.

Memory: 3·n·k numbers in the data type of X as row state, and what `sampler.py` says.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.numerics.centred import Centred
from lineal.numerics.gap_estimate import GapEstimate
from lineal.numerics.precondition import ridge_of, second_moment
from lineal.numerics.score_rows import ScoreRows
from lineal.problem.budget import Budget
from lineal.problem.certificate import primal_and_dual
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution
from lineal.solvers.newton import newton_dual
from lineal.solvers.newton.damping import BAD, Damping
from lineal.solvers.newton.sampled_hessian import Factors
from lineal.solvers.newton.sampler import Sampler
from lineal.solvers.newton.shorter import JointLine, shorter

#: γ below which the direction is improved by conjugate gradients.
TRUSTED = 1e-2

#: The damping of M in conjugate gradients is at least this share of the mean curvature of a column. It is a share of
#: that of the column: M would be far from the Hessian of rare classes, with one number for all.
LEAST_SHARE = 1e-4

#: Largest relative residual of conjugate gradients, and their largest number of products with the Hessian.
FORCING, MAX_PRODUCTS = 0.2, 20

#: Share of the tolerance that the residual may take.
RESIDUAL_SHARE = 0.25

#: Error of the quadratic model in the last iteration, relative to the tolerance, below which that residual is aimed at.
#: The dual point of a direction is tried below the other one.
NEARLY, CLOSE = 2.0, 0.02

#: Largest γ with which that residual is aimed at; γ is then zero for conjugate gradients.
NEARLY_UNDAMPED = 1e-4

#: Iterations without progress after which the fit has stalled.
PATIENCE = 4

#: Added to the curvature of the intercept in M, so that it stays finite.
INTERCEPT_RIDGE = 1e-9


def minimise(objective: Objective, budget: Budget, start: np.ndarray) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where α = 0)."""
    with Monitor(budget) as monitor:
        centred = Centred(objective)
        run = _Run(centred, centred.inside(start), budget.tol, budget.seed)
        check_finite(run.value, "the objective at the starting point")
        iteration = monitor.resume(run)
        is_rebuilt = monitor.has_checkpoint and not run.rows.is_local

        def record(iteration: int) -> str | None:
            outside = centred.outside(run.theta)
            return monitor.record(iteration, run.value, run.estimate, *objective.split(outside))

        status = record(iteration)
        while not run.is_reached() and status is None:
            status = run.step(partial(monitor.must_end, iteration))
            if status is None:
                if is_rebuilt:
                    run.restart()
                iteration += 1
                status = record(iteration)
        certificate = run.certificate()
    return monitor.finish(*objective.split(centred.outside(run.theta)), certificate, status)


class _Direction(NamedTuple):
    """Direction, gradient of the quadratic model of all rows at its end (None if not known), and model decrease."""

    change: np.ndarray
    residual: np.ndarray | None
    decrease: float


class _Run(LoopState):
    """State of the fit: parameters, objective, gradient, damping, and samples of the Hessian."""

    state_names = (
        "rows", "value", "gradient", "damping", "model_error", "sampler", "idle", "best",
        "lower", "newton_estimate", "newton_wait", "is_last_newton", "gap",
    )  # fmt: skip

    def __init__(self, centred: Centred, theta: np.ndarray, tol: float, seed: int) -> None:
        self.objective, self.centred, self.tol, self.seed = centred.objective, centred, tol, seed
        engine, loss = self.objective.engine, self.objective.loss
        d, self.k = engine.shape[1], engine.n_columns
        self.rows = ScoreRows(centred, is_coupled=True)
        self.gap = GapEstimate(centred, tol)
        self.moment = second_moment(centred)
        ridge = ridge_of(self.objective)
        self.strengths = ridge[:d, None]
        self.ridge = ridge.copy()
        self.ridge[d:] += INTERCEPT_RIDGE
        self.bound = float(loss.lipschitz(self.k))
        centre = self.objective.regulariser.centre
        self.centre = None if centre is None else centre.astype(np.float64)
        self.sampler = Sampler(centred, self.moment, seed)
        self.damping, self.model_error = Damping(), math.inf
        self.idle, self.best = 0, math.inf
        self.lower = -math.inf
        self.newton_estimate = self.newton_wait = math.inf
        self.is_last_newton = False
        self._direction_of_dual: tuple[np.ndarray, np.ndarray] | None = None
        self._certificate: Certificate | None = None
        self.theta = theta
        self.restart()
        self.damping = Damping(self._promise())

    def _promise(self) -> float:
        """Decrease of the objective that the bound of the Hessian promises from here, relative to the objective."""
        factors = Factors(np.zeros((1, *self.moment.shape)), self.moment, self.ridge, np.full(1, self.bound))
        if not factors.is_complete or not self.value > 0.0:
            return math.inf
        return 0.5 * sum(float(g @ factors.solve(g[:, None])[:, 0]) for g in self.gradient.T) / self.value

    @property
    def theta(self) -> np.ndarray:
        """Parameters (W, b̃)."""
        return self.rows.theta

    @theta.setter
    def theta(self, theta: np.ndarray) -> None:
        self.rows.theta = theta

    @property
    def estimate(self) -> float:
        """Estimate of the relative gap of the dual point ∇ℓ; that of the last direction may have a smaller one."""
        return self.gap.estimate(self.value, self.gradient)

    def restart(self) -> None:
        """Compute the scores of the parameters again, and what follows from them."""
        losses = self.rows.start(self.theta)
        self.value = float(losses[0]) + self._penalty(self.theta)
        self.gradient = self._penalised(self.rows.gradient().astype(np.float64))

    def _penalised(self, gradient: np.ndarray) -> np.ndarray:
        """Add the penalty to a gradient of the loss term, in place; columns that are constant have none."""
        gradient[self.centred.constant] = 0.0
        gradient[: len(self.strengths)] += self.strengths * self._weights(self.theta)
        return gradient

    def _weights(self, theta: np.ndarray) -> np.ndarray:
        """Weights relative to the centre of the penalty, in float64."""
        W = theta[: len(self.strengths)].astype(np.float64)
        return W if self.centre is None else W - self.centre

    def _penalty(self, theta: np.ndarray) -> float:
        W = self._weights(theta)
        return 0.5 * float(np.sum(self.strengths * W * W))

    # --- certificates

    def is_reached(self) -> bool:
        """Whether a certificate meets the tolerance; it is computed only if an estimate is small enough."""
        gap = self.gap.estimate(self.value, self.gradient)
        is_near = self.newton_estimate <= self.tol and self.model_error <= min(CLOSE * self.tol, self.newton_wait)
        if self.is_last_newton and gap > self.tol and is_near:
            if self._newton_certificate().meets(self.tol):
                return True
            self.newton_wait = 0.1 * self.model_error
        return self.gap.is_reached(self.theta, gap)

    def certificate(self) -> Certificate:
        """The best certificate of the parameters."""
        if self._certificate is not None and self._certificate.meets(self.tol):
            return self._certificate
        found = self.gap.certificate(self.theta)
        if found.dual is not None and self.lower > found.dual:
            return Certificate.of_gap(found.primal, self.lower)
        return found

    def _newton_certificate(self) -> Certificate:
        """Certificate by the dual point of the last direction."""
        assert self._direction_of_dual is not None
        theta, change = (self.objective.split(self.centred.outside(part)) for part in self._direction_of_dual)
        W, b = self.objective.split(self.centred.outside(self.theta))
        duals = self.objective.engine.state(newton_dual.NewtonDuals(self.objective.loss), *theta, *change)
        primal, dual = primal_and_dual(self.objective, duals, W, b.astype(np.float64))
        if math.isfinite(dual):
            self.lower = max(self.lower, dual)
        self._certificate = (
            Certificate.of_gap(primal, max(self.lower, -math.inf)) if math.isfinite(self.lower) else None
        )
        return self._certificate or self.gap.certificate(self.theta)

    # --- one iteration

    def step(self, must_end: Any) -> str | None:
        """Update the parameters once; returns a status if the fit must end."""
        hessians = self.sampler.hessians(self.rows.state)
        direction = self._direction(hessians, must_end)
        status = must_end()
        if status is not None:
            return status
        if direction is None:
            return "stalled"
        dtype = self.theta.dtype
        change = np.ascontiguousarray(direction.change, dtype)
        slope = float(np.vdot(self.gradient, direction.change))
        sums, gradient = self.rows.advance(change)
        W, V = self._weights(self.theta), direction.change[: len(self.strengths)]
        line = JointLine(
            self.value, slope, self._penalty(self.theta), float(np.sum(self.strengths * W * V)),
            float(np.sum(self.strengths * V * V)), 4.0 * float(np.finfo(dtype).eps) * abs(self.value),
        )  # fmt: skip
        value, derivative = line.at(sums, 1.0)
        ratio = (self.value - value) / direction.decrease if direction.decrease > 0.0 else -1.0
        before, step = self.value, 1.0
        is_flat = abs(derivative) <= 0.5 * abs(slope) and value <= self.value + line.noise
        if ratio < BAD and not is_flat:
            step, value = shorter(self.rows, line, value, derivative)
        theta = self.theta
        self.rows.accept(np.full(1, step), theta + dtype.type(step) * change)
        if step == 1.0:
            self.gradient = self._penalised(gradient)
        else:
            self.gradient = self._penalised(self.rows.gradient().astype(np.float64))
        self.value = value
        self._certificate = None
        self._note_newton(theta, direction, change, value, before, step)
        if step < 1.0:
            self.damping.tighten(step, slope, self.bound * float(np.vdot(change, self.moment @ change)))
        else:
            self.damping.adapt(ratio)
        return self._progress(before)

    def _note_newton(
        self, theta: np.ndarray, direction: _Direction, change: np.ndarray, value: float, before: float, step: float
    ) -> None:
        """Estimate the gap of the dual point that belongs to the direction."""
        self.model_error = abs(before - direction.decrease - value) / value if step == 1.0 and value > 0.0 else math.inf
        self.is_last_newton = (
            step == 1.0 and direction.residual is not None and self.objective.has_gap
            and newton_dual.serves(self.objective.loss) and value > 0.0
        )  # fmt: skip
        if not self.is_last_newton:
            return
        assert direction.residual is not None
        self.newton_estimate = self.gap.estimate(value, direction.residual) + self.model_error
        self._direction_of_dual = (theta, change)

    def _progress(self, before: float) -> str | None:
        """Return "stalled" if neither the objective nor the estimate of the gap has decreased for PATIENCE steps."""
        estimate = self.estimate
        noise = 4.0 * float(np.finfo(self.theta.dtype).eps) * abs(self.value)
        if before - self.value > noise or estimate < 0.7 * self.best:
            self.idle = 0
        else:
            self.idle += 1
            self.restart()  # rounding errors may have accumulated in the scores
        self.best = min(self.best, estimate)
        return "stalled" if self.idle >= PATIENCE else None

    def _direction(self, hessians: np.ndarray, must_end: Any) -> _Direction | None:
        """Newton direction; None if no matrix can be factorised."""
        damping = self.bound * self.damping.gamma
        is_rough = self.damping.gamma > TRUSTED
        curvatures = None if is_rough or self.sampler.is_exact else self.sampler.curvatures
        least = np.zeros(self.k) if curvatures is None else LEAST_SHARE * curvatures
        factors = Factors(hessians, self.moment, self.ridge, np.maximum(damping, least))
        if not factors.is_complete:
            return None
        solved = factors.solve(self.gradient)
        is_near = self.model_error <= NEARLY * self.tol and self.damping.gamma <= NEARLY_UNDAMPED
        target = RESIDUAL_SHARE * self.tol if is_near else math.inf
        if is_rough or (self.sampler.is_exact and math.isinf(target)):
            change = self._without_shift(-solved)
            return _Direction(change, None, -0.5 * float(np.vdot(self.gradient, change)))
        return self._conjugate_gradients(factors, damping if math.isinf(target) else 0.0, solved, target, must_end)

    def _conjugate_gradients(
        self, factors: Factors, damping: float, solved: np.ndarray, target: float, must_end: Any
    ) -> _Direction:
        """Solve the damped Newton system to a relative residual of FORCING and, if it is finite, to a `target` gap."""
        change, residual = np.zeros_like(self.gradient), -self.gradient
        z, p = -solved, -solved
        rz = float(np.vdot(residual, z))
        enough = FORCING**2 * rz
        for _ in range(MAX_PRODUCTS):
            product = self._product(p) + damping * (self.moment @ p)
            curvature = float(np.vdot(p, product))
            if not curvature > 0.0:
                break
            a = rz / curvature
            change += a * p
            residual -= a * product
            z = factors.solve(residual)
            before, rz = rz, float(np.vdot(residual, z))
            if not rz > 0.0 or must_end():
                break
            if rz <= enough and (math.isinf(target) or self._gap_of(change, residual, damping) <= target):
                break
            p = z + (rz / before) * p
        decrease = -0.5 * float(np.vdot(self.gradient, change)) + 0.5 * float(np.vdot(change, residual))
        return _Direction(self._without_shift(change), -residual - damping * (self.moment @ change), decrease)

    def _gap_of(self, change: np.ndarray, residual: np.ndarray, damping: float) -> float:
        """Part of the gap of the Newton dual point that the residual causes."""
        return self.gap.estimate(self.value, -residual - damping * (self.moment @ change))

    def _product(self, V: np.ndarray) -> np.ndarray:
        """Product of the Hessian of all rows with V."""
        out = self.rows.product(np.ascontiguousarray(V, self.theta.dtype)).astype(np.float64)
        out[self.centred.constant] = 0.0
        out[: len(self.strengths)] += self.strengths * V[: len(self.strengths)]
        return out

    def _without_shift(self, change: np.ndarray) -> np.ndarray:
        """A direction that does not move the intercepts of all columns alike, which changes no loss of all columns."""
        if self.objective.loss.is_direct and self.centred.means is not None:
            change[-1] -= change[-1].mean()
        return change
