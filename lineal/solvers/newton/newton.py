"""Truncated Newton for smooth losses with the l2 penalty: min_{W,b} F(W, b) by conjugate gradients on ∇²F·s = −∇F.

Lin, Weng & Keerthi (2008), "Trust region Newton method for large-scale logistic regression", and the line search of
Galli & Lin (2022), which reuses X·s so that a trial costs O(n·k). The Hessian is never formed but where features are
few (`parts/small_hessian.py`): there it is factorised, and steps are exact. Squared hinges have a generalised Hessian,
over the rows inside of the margin. One-vs-rest losses are k problems with steps of their own that share every pass over
X and leave when they are done; softmax and its kin are one problem with all of its multi-class Hessian.

Memory: 5 parameter arrays; scores, directions' scores, derivatives and curvatures, 4·n·k numbers in the precision of
the data, if each such array takes at most `KEPT_BYTES`, otherwise none: then every product goes through all rows anew
and computes their scores again. Few features: k·(d + 1)² numbers more.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lineal.numerics.centred import Centred
from lineal.numerics.cg import Step, System, truncated_cg
from lineal.numerics.gap_estimate import GapEstimate
from lineal.numerics.precondition import Spectral, metric
from lineal.numerics.score_rows import KEPT_BYTES, ScoreRows, useful_threads
from lineal.numerics.smooth_only import check_smooth
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.newton.globalise import GLOBALISATIONS, Line
from lineal.solvers.newton.small_hessian import MAX_SIZE, SmallHessian, is_worthwhile
from lineal.solvers.options import NewtonOptions

#: Largest relative residual of the linear systems.
FORCING = 0.3

#: Iterations without progress in this precision after which a run ends.
PATIENCE = 3

#: Curvature of the intercept that the Hessian has at least.
LEAST_BEND = 1e-6


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth("newton", loss, penalty)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    hessians = 8 * k * (d + 1) ** 2 if k * (d + 1) ** 2 <= MAX_SIZE else 0
    return (5 * d * k + (4 * n * k if n * k * size <= KEPT_BYTES else 0)) * size + hessians


@solver(check=check, memory=memory, options=NewtonOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: NewtonOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where α = 0).

    The seed chooses the random signs that estimate the curvature of coupled columns, for the preconditioner.
    """
    tol, globalisation, seed = budget.tol, options.globalisation, budget.seed
    with Monitor(budget) as monitor:
        threads = useful_threads(objective.engine, budget.threads)
        centred = Centred(objective.with_threads(threads))
        run = _Run(centred, objective.theta_of(start), tol, globalisation, seed)
        check_finite(run.value, "the objective at the starting point")

        def record(iteration: int) -> str | None:
            outside = centred.outside(run.theta())
            return monitor.record(iteration, run.value, run.estimate, *objective.split(outside))

        iteration, status = 0, record(0)
        while not run.gap.is_reached(run.theta(), run.estimate) and status is None:
            run.drop_done_columns()
            status = run.step(partial(monitor.must_end, iteration))
            if status == "stalled" and run.has_dropped:  # a column was left too early: bring all of them back
                run = _Run(centred, centred.outside(run.theta()), tol, globalisation, seed, may_drop=False)
                status = None
            if status is None:
                iteration += 1
                status = record(iteration)
        theta = run.theta()
        certificate = run.gap.certificate(theta)
    return monitor.finish(*objective.split(centred.outside(theta)), certificate, status)


class _Run:
    """Parameters, gradient and Hessian of the columns that still take part, and those of the others."""

    gradient: np.ndarray
    values: np.ndarray
    penalties: np.ndarray
    shares: np.ndarray

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
        self.full = self.live = centred.inside(theta)
        self.centre = objective.regulariser.centre
        if self.centre is not None:
            self.centre = self.centre.astype(theta.dtype)
        self.ridge = np.zeros(objective.shape[0])
        self.ridge[:d] = objective.regulariser.strengths
        self.ridge[d:] = LEAST_BEND  # where all rows are far from the margin, the intercept must not go to infinity
        self.strengths = self.ridge[:d, None].astype(theta.dtype)
        self.gap = GapEstimate(centred, tol, patience=0.3)
        self.globalise = GLOBALISATIONS[globalisation](self.rows.groups)
        self.small = SmallHessian(self.rows, self.ridge) if is_worthwhile(self.rows) else None
        self.metric: Spectral | None = None if self.small else metric(centred)
        self.others, self.other_shares = 0.0, 0.0  # objective and gap of the columns that are done
        self.best, self.idle = math.inf, 0
        self._restart()
        self.first = self.shares.copy()

    @property
    def value(self) -> float:
        """F."""
        return float(self.values.sum()) + self.others

    @property
    def estimate(self) -> float:
        """Of the gap."""
        return self.gap.of_columns(np.append(self.shares, self.other_shares))

    def theta(self) -> np.ndarray:
        """All columns, by W and b̃."""
        if self.live is not self.full:
            self.full[:, self.rows.columns] = self.live
        return self.full

    def drop_done_columns(self) -> None:
        """Go on without the problems whose part of the gap is small."""
        if self.rows.groups == 1 or not self.may_drop:
            return
        k = self.full.shape[1]
        is_done = self.shares <= 0.5 * self.gap.column_target / k
        if self.rows.objective.fit_intercept:  # the shares know nothing of the intercept's balance
            is_done &= np.abs(self.gradient[-1]) <= 0.1 * self.gap.tol * self.value / k
        if not is_done.any() or is_done.all():
            return
        self.has_dropped = True
        kept = np.flatnonzero(~is_done)
        self.full = self.theta().copy()
        self.others += float(self.values[is_done].sum())
        self.other_shares += float(self.shares[is_done].sum())
        self.live, self.gradient = (np.ascontiguousarray(A[:, kept]) for A in (self.live, self.gradient))
        self.values, self.penalties, self.shares, self.first = (
            a[kept] for a in (self.values, self.penalties, self.shares, self.first)
        )
        self.centre = None if self.centre is None else np.ascontiguousarray(self.centre[:, kept])
        for part in (self.rows, self.globalise, self.small):
            if part is not None:
                part.keep(kept)

    def step(self, must_end: Any) -> str | None:
        """One Newton step of every problem; a status where no more can be had."""
        step = self._direction(must_end)
        status = must_end()
        if status is not None:
            return status
        S, W = step.direction, self._pulled_weights()
        stiff = self.strengths * S[: len(W)]
        noise = 4.0 * float(np.finfo(S.dtype).eps) * np.maximum(np.abs(self.values), 1e-300)
        line = Line(
            self.values, self.penalties, self.dots(self.gradient, S), self.dots(W, stiff),
            self.dots(S[: len(W)], stiff), noise,
        )  # fmt: skip
        self.rows.look_along(S)
        steps, values = self.globalise.choose(self.rows, line, step)
        before = self.value
        self.live = self.live + steps.astype(S.dtype) * S
        if self.live.shape == self.full.shape:
            self.full = self.live
        self.rows.accept(steps, self.live)
        self._settle(values - self._penalties())
        return self._progress(before - self.value)

    def _progress(self, decrease: float) -> str | None:
        """ "stalled" once neither the objective nor the gradient has come down for a while."""
        estimate = self.estimate
        if decrease > self._rounding() or estimate < 0.7 * self.best:
            self.idle = 0
        else:
            self.idle += 1
            self._restart()  # the scores may have drifted from the weights
        self.best = min(self.best, estimate)
        return "stalled" if self.idle >= PATIENCE else None

    def _rounding(self) -> float:
        """Error of the objective by rounding: of its sum, and of scores whose terms may be larger than they are."""
        squares = self.rows.objective.moments[1]
        terms = np.sqrt(np.einsum("jz,jr->r", squares, np.square(self.live[: len(squares)], dtype=np.float64)))
        return 4.0 * float(np.finfo(self.live.dtype).eps) * float(np.sum(np.abs(self.values)) + np.sum(terms))

    def _restart(self) -> None:
        self._settle(self.rows.start(self.live))

    def _settle(self, losses: np.ndarray) -> None:
        """Gradient and estimates at the point that the rows have come to."""
        self.penalties = self._penalties()
        self.values = losses + self.penalties
        gradient = self.rows.gradient()
        W = self._pulled_weights()
        gradient[: len(W)] += self.strengths * W
        self.gradient = gradient
        shares = self.gap.by_column(self.value, gradient)
        self.shares = shares if self.rows.groups == len(shares) else np.array([shares.sum()])

    def _pulled_weights(self) -> np.ndarray:
        """W − V."""
        W = self.live[: len(self.strengths)]
        return W if self.centre is None else W - self.centre

    def _penalties(self) -> np.ndarray:
        W = self._pulled_weights()
        return 0.5 * self.dots(W, self.strengths * W)

    def _forcing(self) -> np.ndarray:
        """Relative residuals that end with superlinear steps, though never far beyond what is asked for."""
        tiny = np.finfo(np.float64).tiny
        falling = np.minimum(FORCING, (self.shares / np.maximum(self.first, tiny)) ** 0.25)
        enough = 0.3 * np.sqrt(self.gap.column_target / self.rows.groups / np.maximum(self.shares, tiny))
        return np.clip(np.maximum(falling, enough), 1e-10, FORCING)

    def _direction(self, must_end: Any) -> Step:
        forcing = self._forcing()
        if self.small is not None:
            self.small.update(forcing)
            solved = self.small.solve(self.gradient)
            if solved is not None:
                decrease = self.dots(self.gradient, solved)
                norm = np.sqrt(np.maximum(decrease, 0.0))
                with np.errstate(all="ignore"):
                    share = np.where(norm > self.globalise.radius, self.globalise.radius / norm, 1.0)
                direction = np.multiply(solved, -share, dtype=solved.dtype)
                return Step(direction, (0.5 * share**2 - share) * decrease, share < 1.0, share * norm, 0)
            self.small, self.metric = None, metric(self.rows.centred)
        curvature = self.rows.mean_curvature(self.seed)
        system = self._system(np.arange(self.live.shape[1]), curvature)
        return truncated_cg(system, self.gradient, self.dots, forcing, self.globalise.radius, must_end)

    def _system(self, columns: np.ndarray, curvature: np.ndarray) -> System:
        chosen = columns if self.rows.groups > 1 and len(columns) < self.live.shape[1] else None

        def product(V: np.ndarray) -> np.ndarray:
            out = self.rows.product(V, chosen)
            out[: len(self.strengths)] += self.strengths * V[: len(self.strengths)]
            out[len(self.strengths) :] += V.dtype.type(LEAST_BEND) * V[len(self.strengths) :]
            return out

        def narrow(keep: np.ndarray) -> System:
            return self._system(columns[keep], curvature[keep])

        assert self.metric is not None  # made where there is no small Hessian
        return System(product, self.metric.solver(curvature), narrow)
