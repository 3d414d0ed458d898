"""Method of multipliers: losses with kinks, with every penalty, by a few fits of smooth losses.

With the dual variables u_i of the rows (`lineal.problem.certificate`) and a width μ > 0, one iteration is

    W, b ← argmin  Σ_i s_i ℓ_μ(z_i + μu_i) + αΩ(W),   z = XW + b + o
    u_i  ← ∇ℓ_μ(z_i + μu_i)

where ℓ_μ is the loss with kinks that are smoothed over a width μ (its Moreau envelope), ℓ_μ(z) = max_v v·z − ℓ*(v) −
½μ‖v‖². This is the proximal point method for the dual problem, u ← argmax_v D(v) − ½μ Σ s_i‖v_i − u_i‖² (Rockafellar
1976). It converges for every μ, the faster the smaller μ is; where the minimum is that of a piecewise linear function,
it is reached after finitely many iterations. So μ need not tend to zero, and the smooth problems stay well conditioned.

A smooth problem has the same rows and the same penalty, and offsets o + μu. It goes to the solver that is the fastest
for it, from the last W and b: `block_cd` for penalties that set weights to zero, otherwise `newton` or `lbfgs`. It needs
to be solved only a little better than what is already known about the answer. u is a gradient of ℓ_μ, so it lies in
the domain of ℓ* and gives a lower bound of the minimum, or a violation where some weights have no penalty.

Memory: that of the solver of the smooth problems, 5·n·k numbers and two parameter arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal import penalties, solvers
from lineal.design.products import rmatmul
from lineal.engine.base import Block
from lineal.errors import OptionError
from lineal.numerics.local_only import local_rows
from lineal.penalties.regulariser import Regulariser
from lineal.problem import row_sums
from lineal.problem.budget import Budget
from lineal.problem.certificate import reference_violation
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.block_cd.block_cd import memory as memory_of_block_cd
from lineal.solvers.multipliers.few_features import FewFeatures, is_worthwhile
from lineal.solvers.multipliers.smoothed_crammer_singer import SmoothedCrammerSinger
from lineal.solvers.multipliers.smoothed_hinge import SmoothedHinge
from lineal.solvers.options import MultipliersOptions

#: Smoothed forms of the losses with kinks.
SMOOTHED: dict[str, Callable[[float], Any]] = {"hinge": SmoothedHinge, "crammer_singer": SmoothedCrammerSinger}

#: A smooth problem is solved to this fraction of the last gap, but not below this fraction of the gap that is wanted.
INNER_FRACTION, LEAST_FRACTION = 0.1, 0.2

#: Largest number of iterations of the solver of a smooth problem, before the dual variables change again.
INNER_ITER = 100

#: Factor of μ after an iteration whose gap is more than this fraction of the one before.
SHRINK, SLOW = 0.2, 0.3

#: Range of μ, relative to its first value.
SMALLEST_WIDTH = 1e-10

#: Iterations without a better certificate after which the fit has stalled: only rounding errors are left.
PATIENCE = 12


def check(loss: Any, penalty: Any) -> None:
    """Raise an error for a loss that is smooth, or whose smoothed form is not known."""
    if loss.name not in SMOOTHED:
        what = "is smooth: use block_cd, lbfgs or newton" if loss.is_smooth else "has no smoothed form: use fobos"
        raise OptionError(f"multipliers is for the losses {', '.join(map(repr, SMOOTHED))}, and {loss.name!r} {what}")


def check_objective(objective: Objective) -> None:
    """Raise an error for rows in another process."""
    local_rows("multipliers", objective)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X and a copy of it by columns."""
    return memory_of_block_cd(n, d, k, size) + (5 * n + 2 * d) * k * size


@solver(
    check=check, check_objective=check_objective, memory=memory, order="columns", options=MultipliersOptions
)  # fmt: skip
def solve(objective: Objective, budget: Budget, start: Start, options: MultipliersOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is the fit of one smooth loss."""
    with Monitor(budget) as monitor:
        run = _Run(objective, budget, start, options)
        iteration = monitor.resume(run)
        status = run.record(iteration, monitor)
        while not run.certificate.meets(budget.tol) and status is None:
            if run.is_stuck():
                status = "stalled"
                break
            status = run.advance(monitor)
            if status is not None:  # the iteration was cut short
                break
            iteration += 1
            status = run.record(iteration, monitor)
    return monitor.finish(*objective.split(run.best), run.certificate, status, dual_point=run.best_dual)


class _Run(LoopState):
    """Parameters θ, dual variables u and the width μ; and the best parameters and dual variables so far."""

    state_names = ("theta", "dual", "width", "best", "best_dual", "certificate", "gap", "idle", "point", "weight_dual")

    def __init__(self, objective: Objective, budget: Budget, start: Start, options: MultipliersOptions) -> None:
        self.objective, self.budget = objective.with_threads(budget.threads), budget
        self.engine = local_rows("multipliers", self.objective)
        self.smoothed = SMOOTHED[objective.loss.name]
        self.first_width = self.width = float(options.width)
        self.theta = self.best = objective.theta_of(start)
        given = start.dual_point if isinstance(start, Solution) else None
        shape = (self.engine.shape[0], self.engine.n_columns)
        known = given is not None and given.shape == shape
        self.dual = np.array(given, np.float64) if known else np.zeros(shape)
        self.best_dual = self.dual if known else None
        self.certificate = self.objective.certificate(self.theta, budget.tol, self.best_dual)
        check_finite(self.certificate.primal, "the objective at the starting point")
        self.gap, self.idle = math.inf, 0
        self.few = FewFeatures(self.objective, self.engine) if is_worthwhile(self.objective, self.engine) else None
        self.weight_dual = np.zeros_like(self.theta[: self.engine.shape[1]], np.float64)
        self.point = self.few.inside(self.theta) if self.few else np.empty(0)
        self.reference = 0.0 if objective.has_gap else reference_violation(self.objective)

    def record(self, iteration: int, monitor: Monitor) -> str | None:
        """Record an iteration."""
        value, split = self.certificate, self.objective.split
        return monitor.record(iteration, value.primal, value.value, *split(self.best))

    def is_stuck(self) -> bool:
        """Whether the last iterations gave no better certificate."""
        return self.idle >= PATIENCE

    def advance(self, monitor: Monitor) -> str | None:
        """Do one iteration; returns the status of the fit if a limit or Ctrl-C has cut it short."""
        if self.few is not None:
            return self._advance_few(self.few)
        problem = self._smooth_problem()
        limit = self.budget.max_time
        left = None if limit is None else max(limit - monitor.seconds, 1e-3)
        tol = self._tolerance(problem)
        found = solvers.pick("auto", problem, tol)(
            problem, start=self.theta, tol=tol, max_iter=INNER_ITER, max_time=left, n_jobs=self.budget.threads,
            seed=self.budget.seed,
        )  # fmt: skip
        is_cut = found.status in ("interrupted", "max_time")
        theta = problem.theta_of(found)
        if not np.isfinite(theta).all():
            self.idle = PATIENCE
            return None
        self.theta = theta
        step = _SmoothedDual(problem.loss)
        dual = np.concatenate(problem.engine.gather(step, *self.objective.split(theta.astype(np.float64))))
        self._note(dual, found.status)
        return found.status if is_cut else None

    def _advance_few(self, few: FewFeatures) -> None:
        loss, offsets = self.smoothed(self.width), self.dual * self.width
        if self.engine.offsets is not None:
            offsets += self.engine.offsets
        penalty = few.penalty(self.width, self.weight_dual)
        self.point = few.minimise(loss, offsets, penalty, self.point)
        V, self.weight_dual = penalty.point(few.weights(self.point))
        self.theta = few.outside(V, self.point, self.engine.dtype)
        Z = few.A @ self.point + offsets
        dual = np.empty_like(Z)
        row_sums.gradients(loss, few.block, np.ones(few.block.n), Z, dual)
        self._note(dual, "converged")

    def _smooth_problem(self) -> Objective:
        """The smooth problem of the next iteration."""
        offsets = (self.dual * self.width).astype(self.engine.dtype)
        if self.engine.offsets is not None:
            offsets += self.engine.offsets
        loss = self.smoothed(self.width)
        if hasattr(loss, "share"):
            loss = loss._replace(share=float(__import__("os").environ.get("SHARE", "0.01")))
        problem = self.objective.with_loss(loss, replace(self.engine, offsets=offsets))
        if problem.regulariser.strengths.any():
            return problem
        nothing = Regulariser(penalties.get("l2"), 0.0, self.engine.shape[1])  # no penalty is a smooth one, too
        return replace(problem, regulariser=nothing)

    def _tolerance(self, problem: Objective) -> float:
        """Tolerance for the smooth problem: a fraction of the last gap or violation, in units of this problem."""
        tol = max(INNER_FRACTION * min(self.certificate.value, 1.0), LEAST_FRACTION * self.budget.tol)
        if self.certificate.kind == "violation":
            reference = reference_violation(problem)
            return tol * self.reference / reference if reference > 0.0 and self.reference > 0.0 else tol
        value = problem.value(self.theta, np.float64)
        return min(tol * self.certificate.primal / value, 0.5) if value > 0.0 else tol

    def _note(self, dual: np.ndarray, status: str) -> None:
        """Change the dual variables and the width, and keep the best parameters and dual variables."""
        self.dual = dual
        certificate = self.objective.certificate(self.theta, self.budget.tol, self._scaled(dual))
        before, self.gap = self.gap, certificate.value
        self._keep(certificate, dual)
        if self.gap > SLOW * before and status == "converged":
            self.width = max(self.width * SHRINK, SMALLEST_WIDTH * self.first_width)

    def _keep(self, found: Certificate, dual: np.ndarray) -> None:
        """Keep the parameters and dual variables of a better certificate."""
        known, was = self.certificate, self.certificate.value
        if found.kind == "violation" or known.dual is None or found.dual is None:
            if found.value < known.value:
                self.best, self.best_dual, self.certificate = self.theta, dual, found
        else:
            if found.primal < known.primal:
                self.best = self.theta
            if found.dual > known.dual:
                self.best_dual = self._scaled(dual)
            self.certificate = Certificate.of_gap(min(found.primal, known.primal), max(found.dual, known.dual))
        self.idle = 0 if self.certificate.value < 0.95 * was else self.idle + 1

    def _scaled(self, dual: np.ndarray) -> np.ndarray:
        """Dual variables whose score columns satisfy the constraints of the l1 penalty each by itself.

        The certificate scales all of them by one factor, which the worst column decides.
        """
        regulariser, loss = self.objective.regulariser, self.objective.loss
        if loss.is_direct or not (regulariser.penalty.is_norm and regulariser.penalty.is_separable):
            return dual
        if not self.objective.has_gap:
            return dual
        (correlation,) = self.engine.sum(_Correlation(), states=(self.engine.cut(dual),))
        excess = np.max(np.abs(correlation) / regulariser.strengths[:, None], axis=0, initial=0.0)
        return dual * (1.0 / np.maximum(excess, 1.0)).astype(dual.dtype)


@dataclass(frozen=True)
class _SmoothedDual:
    """Step for `Engine.gather`: the gradients of a smoothed loss at the scores of all rows, in float64."""

    loss: Any

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        Z = row_sums.scores(block, W, b)
        U = np.empty_like(Z)
        row_sums.gradients(self.loss, block, np.ones(block.n), Z, U)
        return U


@dataclass(frozen=True)
class _Correlation:
    """Step: Σ s·x·u' of dual points u."""

    def __call__(self, block: Block, point: dict[str, np.ndarray]) -> tuple[np.ndarray]:
        return (rmatmul(block.X, block.weights[:, None] * point["rows"], threads=block.threads),)
