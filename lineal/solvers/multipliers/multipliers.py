"""Method of multipliers: losses with kinks, with every penalty, by a few fits of smooth losses.

With the dual variables u_i of the rows (`lineal.problem.certificate`) and a width μ > 0, one iteration is

    W, b ← argmin  Σ_i s_i ℓ_μ(z_i + μu_i) + αΩ(W),   z = XW + b + o
    u_i  ← ∇ℓ_μ(z_i + μu_i)

where ℓ_μ is the loss with kinks that are smoothed over a width μ, ℓ_μ(z) = max_v v·z − ℓ*(v) − ½μ‖v‖². This is the
proximal point method for the dual problem, u ← argmax_v D(v) − ½μ Σ s_i‖v_i − u_i‖² (Rockafellar 1976). It converges
for every μ, the faster the smaller μ is; if the objective is piecewise linear, it ends after finitely many iterations.
So μ need not tend to zero, and the smooth problems stay well conditioned. μ becomes smaller where the gap decreases
slowly.

A smooth problem has the same rows and the same penalty, and offsets o + μu. With few features, Newton's method solves
it exactly (`few_features.py`); otherwise another solver does, to a tolerance (`smooth_fits.py`). u is a gradient of
ℓ_μ, so it lies in the domain of ℓ* and gives a lower bound of the minimum, or a violation where some weights have no
penalty.

Memory: that of the solver of the smooth problems, 5·n·k numbers and two parameter arrays; with few features, a dense
copy of X in float64 of at most 128 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lineal.design.products import rmatmul
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.errors import OptionError
from lineal.numerics.dual_start import given_point
from lineal.numerics.local_only import local_rows
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.block_cd.block_cd import memory as memory_of_block_cd
from lineal.solvers.multipliers.few_features import FewFeatures, is_worthwhile
from lineal.solvers.multipliers.smooth_fits import CUT, SmoothFits
from lineal.solvers.multipliers.smoothed_crammer_singer import SmoothedCrammerSinger
from lineal.solvers.multipliers.smoothed_hinge import SmoothedHinge
from lineal.solvers.options import MultipliersOptions

#: Smoothed forms of the losses with kinks, by their width and the share of the curvature beyond the kink.
SMOOTHED: dict[str, Callable[[float, float], Any]] = {
    "hinge": SmoothedHinge,
    "crammer_singer": lambda width, share: SmoothedCrammerSinger(width),
}

#: Factor of μ after an iteration whose gap is more than this fraction of the one before, and the smallest μ relative to
#: the first one.
SHRINK, SLOW, SMALLEST_WIDTH = 0.2, 0.3, 1e-10

#: Iterations without a better certificate after which the fit has stalled, and what counts as better.
PATIENCE, BETTER = 12, 0.95


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
    return memory_of_block_cd(n, d, k, size) + 5 * n * k * 8 + 2 * d * k * size


@solver(check=check, check_objective=check_objective, memory=memory, order="columns", options=MultipliersOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: MultipliersOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is the fit of one smooth loss."""
    with Monitor(budget) as monitor:
        run = _Run(objective, budget, start, options.width)
        iteration = monitor.resume(run)

        def record(iteration: int) -> str | None:
            certificate = run.certificate
            return monitor.record(iteration, certificate.primal, certificate.value, *objective.split(run.best))

        status = record(iteration)
        while not run.certificate.meets(budget.tol) and status is None:
            if run.idle >= PATIENCE:
                status = "stalled"
                break
            status = run.advance(monitor)
            if status is not None:  # the iteration was cut short
                break
            iteration += 1
            status = record(iteration)
    return monitor.finish(*objective.split(run.best), run.certificate, status, dual_point=run.best_dual)


class _Run(LoopState):
    """Parameters θ, dual variables u and the width μ; and the best parameters and dual variables so far."""

    state_names = ("theta", "dual", "width", "best", "best_dual", "certificate", "gap", "idle", "method")
    method: FewFeatures | SmoothFits

    def __init__(self, objective: Objective, budget: Budget, start: Start, width: float) -> None:
        self.objective, self.tol, self.max_time = objective.with_threads(budget.threads), budget.tol, budget.max_time
        engine = local_rows("multipliers", self.objective)
        self.engine, self.width, self.least_width = engine, float(width), SMALLEST_WIDTH * width
        self.theta = self.best = objective.theta_of(start)
        given = given_point(objective, start)
        self.dual = np.zeros((engine.shape[0], engine.n_columns)) if given is None else np.array(given, np.float64)
        self.best_dual = None if given is None else self.dual
        self.certificate = self.objective.certificate(self.theta, self.tol, self.best_dual)
        check_finite(self.certificate.primal, "the objective at the starting point")
        self.gap, self.idle = math.inf, 0
        smoothed = SMOOTHED[objective.loss.name]
        if is_worthwhile(self.objective, engine):
            self.method = FewFeatures(self.objective, engine, smoothed, self.theta)
        else:
            self.method = SmoothFits(self.objective, engine, budget, smoothed)

    def advance(self, monitor: Monitor) -> str | None:
        """Do one iteration; returns the status of the fit if a limit or Ctrl-C has cut it short."""
        if isinstance(self.method, FewFeatures):
            self.theta, self.dual, status = self.method.improve(self.dual, self.width, lambda: monitor.must_end(-1))
        else:
            left = None if self.max_time is None else max(self.max_time - monitor.seconds, 1e-3)
            self.theta, self.dual, status = self.method.improve(
                self.theta, self.dual, self.width, self.certificate, left
            )
        if not np.isfinite(self.theta).all():
            self.theta, self.idle = self.best, PATIENCE
            return None
        scaled = self._scaled(self.dual)
        certificate = self.objective.certificate(self.theta, self.tol, scaled)
        before, self.gap = self.gap, certificate.value
        self._keep(certificate, scaled)
        if self.gap > SLOW * before and status == "converged":
            self.width = max(self.width * SHRINK, self.least_width)
        return status if status in CUT else None

    def _keep(self, found: Certificate, dual: np.ndarray) -> None:
        """Keep the better parameters and dual variables, which together give the best certificate."""
        known = self.certificate
        if known.dual is None or found.dual is None:
            if found.value < known.value:
                self.best, self.best_dual, self.certificate = self.theta, dual, found
        else:
            if found.primal < known.primal:
                self.best = self.theta
            if found.dual > known.dual:
                self.best_dual = dual
            self.certificate = Certificate.of_gap(min(found.primal, known.primal), max(found.dual, known.dual))
        self.idle = 0 if self.certificate.value < BETTER * known.value else self.idle + 1

    def _scaled(self, dual: np.ndarray) -> np.ndarray:
        """Dual variables whose score columns satisfy the constraints of the l1 penalty each by itself.

        The certificate scales all of them by one factor, which the worst column decides.
        """
        regulariser, loss = self.objective.regulariser, self.objective.loss
        is_by_column = regulariser.penalty.is_norm and regulariser.penalty.is_separable and not loss.is_direct
        if not is_by_column or not self.objective.has_gap:
            return dual
        (correlation,) = self.engine.sum(_correlation, states=(self.engine.cut(dual),))
        excess = np.max(np.abs(correlation) / regulariser.strengths[:, None], axis=0, initial=1.0)
        return dual / excess


def _correlation(block: Block, point: Piece) -> tuple[np.ndarray]:
    """Step: Σ s·x·u' of dual points u."""
    return (rmatmul(block.X, block.weights[:, None] * point["rows"], threads=block.threads),)
