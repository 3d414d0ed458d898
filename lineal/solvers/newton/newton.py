"""Truncated Newton for smooth losses with the l2 penalty: min_{W,b} F(W, b) by conjugate gradients on ∇²F·s = −∇F.

Lin, Weng & Keerthi (2008), "Trust region Newton method for large-scale logistic regression", and the line search of
Galli & Lin (2022), which reuses X·s so that a trial costs O(n·k). If there are few features, the Hessian is formed and
factorised (`small_hessian.py`), and directions are exact; otherwise it is never formed. Squared hinges have a
generalised Hessian over the rows inside the margin. One-vs-rest losses are k problems with their own step sizes, which
share every pass over X and become inactive when they have converged. Softmax and other losses that compare scores are
one problem with the full multi-class Hessian.

Where rows are dense, many times as many as parameters, and columns are coupled or several, the variant of `sampled.py`
is used with globalisation="line_search".

Memory: 5 parameter arrays, and 4·n·k numbers in the data type of X for scores, their changes, derivatives and
curvatures (row state, see `lineal/numerics/score_rows.py`). If one of these arrays would take more than `KEPT_BYTES`,
none is kept, and every product with the Hessian computes the scores again. Full Hessians of few features take
2k·(d + 1)² numbers in float64 and n·k curvatures more.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lineal.numerics.centred import Centred
from lineal.numerics.cg import NewtonDirection, System, truncated_cg
from lineal.numerics.gap_estimate import GapEstimate
from lineal.numerics.precondition import Spectral, metric
from lineal.numerics.score_rows import KEPT_BYTES, ScoreRows, useful_threads
from lineal.numerics.smooth_only import check_smooth
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.newton import sample_size, sampled
from lineal.solvers.newton.globalise import GLOBALISATIONS, Line
from lineal.solvers.newton.small_hessian import MAX_SIZE, SmallHessian, is_worthwhile
from lineal.solvers.options import NewtonOptions

#: Largest relative residual of the linear systems.
FORCING = 0.3

#: Iterations without progress after which the fit has stalled.
PATIENCE = 3

#: Smallest curvature of the intercept in the Hessian.
MIN_CURVATURE = 1e-6


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss or a penalty that this solver cannot handle."""
    check_smooth("newton", loss, penalty)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    hessians = 8 * k * (d + 1) ** 2 if k * (d + 1) ** 2 <= MAX_SIZE else 0
    hessians = max(hessians, sample_size.matrix_bytes(n, d, k))
    return (5 * d * k + (4 * n * k if n * k * size <= KEPT_BYTES else 0)) * size + hessians


@solver(check=check, memory=memory, options=NewtonOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: NewtonOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where α = 0).

    The seed chooses the random signs that estimate the curvature of coupled columns, for the preconditioner.
    """
    tol, globalisation, seed = budget.tol, options.globalisation, budget.seed
    if globalisation == "line_search" and sample_size.is_worthwhile(objective):
        return sampled.minimise(objective.with_threads(budget.threads), budget, objective.theta_of(start))
    with Monitor(budget) as monitor:
        threads = useful_threads(objective.engine, budget.threads)
        centred = Centred(objective.with_threads(threads))
        run = _Run(centred, objective.theta_of(start), tol, globalisation, seed)
        check_finite(run.value, "the objective at the starting point")
        iteration = monitor.resume(run)
        is_rebuilt = monitor.has_checkpoint and not run.rows.is_local

        def record(iteration: int) -> str | None:
            outside = centred.outside(run.theta())
            return monitor.record(iteration, run.value, run.estimate, *objective.split(outside))

        status = record(iteration)
        while not run.gap.is_reached(run.theta(), run.estimate) and status is None:
            run.drop_done_columns()
            status = run.step(partial(monitor.must_end, iteration))
            if status == "stalled" and run.has_dropped:  # a column became inactive too early: use all columns again
                run = _Run(centred, centred.outside(run.theta()), tol, globalisation, seed, may_drop=False)
                monitor.replace(run)
                status = None
            if status is None:
                if is_rebuilt:
                    run.rebuild()
                iteration += 1
                status = record(iteration)
        theta = run.theta()
        certificate = run.gap.certificate(theta)
    return monitor.finish(*objective.split(centred.outside(theta)), certificate, status)


class _Run(LoopState):
    """State of the fit: parameters, gradient and Hessian of the active columns, and the parameters of all columns."""

    state_names = (
        "full", "active", "rows", "gradient", "values", "penalties", "contributions", "first_contributions",
        "inactive_value", "inactive_contributions", "best", "idle", "may_drop", "has_dropped", "globalise", "gap",
        "small",
    )  # fmt: skip
    gradient: np.ndarray
    values: np.ndarray
    penalties: np.ndarray
    contributions: np.ndarray

    def __init__(
        self,
        centred: Centred,
        theta: np.ndarray,
        tol: float,
        globalisation: str,
        seed: int,
        may_drop: bool = True,
    ) -> None:
        objective, engine = centred.objective, centred.objective.engine
        self.seed, self.may_drop, self.has_dropped = seed, may_drop, False
        self.rows = ScoreRows(centred)
        self.dots, d = self.rows.dots, engine.shape[1]
        self.full = self.active = centred.inside(theta)
        self.centre = objective.regulariser.centre
        if self.centre is not None:
            self.centre = self.centre.astype(theta.dtype)
        self.ridge = np.zeros(objective.shape[0])
        self.ridge[:d] = objective.regulariser.strengths
        self.ridge[d:] = MIN_CURVATURE  # keeps the intercept finite if all rows are far from the margin
        self.strengths = self.ridge[:d, None].astype(theta.dtype)
        self.gap = GapEstimate(centred, tol, patience=0.3)
        self.globalise = GLOBALISATIONS[globalisation](self.rows.n_problems)
        self.small = SmallHessian(self.rows, self.ridge) if is_worthwhile(self.rows) else None
        self.metric: Spectral | None = None if self.small else metric(centred)
        self.inactive_value, self.inactive_contributions = 0.0, 0.0  # of the inactive columns
        self.best, self.idle = math.inf, 0
        self._restart()
        self.first_contributions = self.contributions.copy()

    @property
    def value(self) -> float:
        """Objective F of all columns."""
        return float(self.values.sum()) + self.inactive_value

    @property
    def estimate(self) -> float:
        """Estimate of the relative gap of all columns."""
        return self.gap.from_contributions(np.append(self.contributions, self.inactive_contributions))

    def theta(self) -> np.ndarray:
        """Parameters (W, b̃) of all columns."""
        if self.active is not self.full:
            self.full[:, self.rows.columns] = self.active
        return self.full

    def drop_done_columns(self) -> None:
        """Make the problems inactive whose contribution to the gap is small."""
        if self.rows.n_problems == 1 or not self.may_drop:
            return
        k = self.full.shape[1]
        is_done = self.contributions <= 0.5 * self.gap.contribution_target / k
        if self.rows.objective.fit_intercept:  # which the contributions do not include
            is_done &= np.abs(self.gradient[-1]) <= 0.1 * self.gap.tol * self.value / k
        if not is_done.any() or is_done.all():
            return
        self.has_dropped = True
        kept = np.flatnonzero(~is_done)
        self.full = self.theta().copy()
        self.inactive_value += float(self.values[is_done].sum())
        self.inactive_contributions += float(self.contributions[is_done].sum())
        self.active, self.gradient = (np.ascontiguousarray(A[:, kept]) for A in (self.active, self.gradient))
        self.values, self.penalties, self.contributions, self.first_contributions = (
            a[kept] for a in (self.values, self.penalties, self.contributions, self.first_contributions)
        )
        self.centre = None if self.centre is None else np.ascontiguousarray(self.centre[:, kept])
        for part in (self.rows, self.globalise, self.small):
            if part is not None:
                part.keep(kept)

    def step(self, must_end: Any) -> str | None:
        """Do one Newton update of each active problem; returns a status if the fit must end."""
        newton = self._direction(must_end)
        status = must_end()
        if status is not None:
            return status
        S, W = newton.direction, self._centred_weights()
        penalty_product = self.strengths * S[: len(W)]
        noise = 4.0 * float(np.finfo(S.dtype).eps) * np.maximum(np.abs(self.values), 1e-300)
        line = Line(
            self.values, self.penalties, self.dots(self.gradient, S), self.dots(W, penalty_product),
            self.dots(S[: len(W)], penalty_product), noise,
        )  # fmt: skip
        self.rows.set_direction(S)
        steps, values = self.globalise.choose(self.rows, line, newton)
        before = self.value
        self.active = self.active + steps.astype(S.dtype) * S
        if self.active.shape == self.full.shape:
            self.full = self.active
        self.rows.accept(steps, self.active)
        self._evaluate(values - self._penalties())
        return self._progress(before - self.value)

    def _progress(self, decrease: float) -> str | None:
        """Return "stalled" if neither the objective nor the gradient has decreased for `PATIENCE` iterations."""
        estimate = self.estimate
        if decrease > self._rounding() or estimate < 0.7 * self.best:
            self.idle = 0
        else:
            self.idle += 1
            self._restart()  # rounding errors may have accumulated in the scores
        self.best = min(self.best, estimate)
        return "stalled" if self.idle >= PATIENCE else None

    def _rounding(self) -> float:
        """Bound of the rounding error of the objective: of its sum, and of scores with terms that cancel."""
        squares = self.rows.objective.moments[1]
        terms = np.sqrt(np.einsum("jz,jr->r", squares, np.square(self.active[: len(squares)], dtype=np.float64)))
        return 4.0 * float(np.finfo(self.active.dtype).eps) * float(np.sum(np.abs(self.values)) + np.sum(terms))

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`, and what follows from it."""
        if name == "small" and value is None:
            self.small = None
            self.metric = self.metric or metric(self.rows.centred)
            return
        super().restore_part(name, value)
        if name == "rows" and self.centre is not None:
            self.centre = np.ascontiguousarray(self.centre[:, self.rows.columns])

    def rebuild(self) -> None:
        """Compute all row state from the parameters, as a fit does that continues from a checkpoint.

        Rows in other processes are not part of a checkpoint. With this after every iteration, the fit does not depend
        on when checkpoints are written. It costs a product with X, and small Hessians are computed from scratch.
        """
        self._restart()
        if self.small is not None:
            self.small.begin()

    def _restart(self) -> None:
        """Compute the scores of the active columns again, and everything that follows from them."""
        self._evaluate(self.rows.start(self.active))

    def _evaluate(self, losses: np.ndarray) -> None:
        """Compute objective, gradient and contributions at the current point of the rows."""
        self.penalties = self._penalties()
        self.values = losses + self.penalties
        gradient = self.rows.gradient()
        W = self._centred_weights()
        gradient[: len(W)] += self.strengths * W
        self.gradient = gradient
        by_column = self.gap.contributions(self.value, gradient)
        self.contributions = by_column if self.rows.n_problems == len(by_column) else np.array([by_column.sum()])

    def _centred_weights(self) -> np.ndarray:
        """Weights relative to the centre of the penalty."""
        W = self.active[: len(self.strengths)]
        return W if self.centre is None else W - self.centre

    def _penalties(self) -> np.ndarray:
        W = self._centred_weights()
        return 0.5 * self.dots(W, self.strengths * W)

    def _forcing(self) -> np.ndarray:
        """Relative residuals that give superlinear convergence, but are not smaller than the tolerance requires."""
        tiny = np.finfo(np.float64).tiny
        falling = np.minimum(FORCING, (self.contributions / np.maximum(self.first_contributions, tiny)) ** 0.25)
        target = self.gap.contribution_target / self.rows.n_problems
        enough = 0.3 * np.sqrt(target / np.maximum(self.contributions, tiny))
        return np.clip(np.maximum(falling, enough), 1e-10, FORCING)

    def _direction(self, must_end: Any) -> NewtonDirection:
        """Newton direction of each active problem, within its trust region."""
        forcing = self._forcing()
        if self.small is not None:
            self.small.update(forcing)
            solved = self.small.solve(self.gradient)
            if solved is not None:
                decrease = self.dots(self.gradient, solved)
                norm = np.sqrt(np.maximum(decrease, 0.0))
                with np.errstate(all="ignore"):
                    scale = np.where(norm > self.globalise.radius, self.globalise.radius / norm, 1.0)
                direction = np.multiply(solved, -scale, dtype=solved.dtype)
                return NewtonDirection(direction, (0.5 * scale**2 - scale) * decrease, scale < 1.0, scale * norm, 0)
            self.small, self.metric = None, metric(self.rows.centred)
        curvature = self.rows.mean_curvature(self.seed)
        system = self._system(np.arange(self.active.shape[1]), curvature)
        return truncated_cg(system, self.gradient, self.dots, forcing, self.globalise.radius, must_end)

    def _system(self, columns: np.ndarray, curvature: np.ndarray) -> System:
        """Linear system of some of the active columns, with their mean curvatures for the preconditioner."""
        chosen = columns if self.rows.n_problems > 1 and len(columns) < self.active.shape[1] else None

        def product(V: np.ndarray) -> np.ndarray:
            out = self.rows.product(V, chosen)
            out[: len(self.strengths)] += self.strengths * V[: len(self.strengths)]
            out[len(self.strengths) :] += V.dtype.type(MIN_CURVATURE) * V[len(self.strengths) :]
            return out

        def narrow(keep: np.ndarray) -> System:
            return self._system(columns[keep], curvature[keep])

        assert self.metric is not None  # set if there is no small Hessian
        return System(product, self.metric.solver(curvature), narrow)
