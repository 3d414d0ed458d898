"""Run a solver on an objective, with the safeguards that all solvers share.

- Where most columns of sparse rows are empty, they are left out first (`used_columns.py`).
- Columns that are far from zero are centred and scaled (`conditioned.py`).
- A fit that stalls in float32 continues in float64.
- The solution is finite and, if the solver seeks the minimum, no worse than the start. If numbers overflow, it is the
  best iterate before that, and the status and message say so.
- If the minimum is at infinity, the message says so.

A checkpoint has the state of the solver that is running. The second fit, in float64, is a phase of its own.

Rows on other machines may never answer. If the fit should have ended by then, the solution is its best iterate so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lineal.design.matrix import in_float64
from lineal.engine.local import LocalEngine
from lineal.engine.overdue import asking
from lineal.errors import DataError, Unanswered
from lineal.problem.budget import Budget
from lineal.problem.checkpoint import Checkpoint
from lineal.problem.conditioned import Conditioned, conditioned
from lineal.problem.continued import following, joined
from lineal.problem.fingerprint import of_objective
from lineal.problem.kept import Kept
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Snapshot, Solution
from lineal.problem.solver import Solver, Start
from lineal.problem.steps import SeparableColumns
from lineal.problem.used_columns import narrowed
from lineal.system import memory
from lineal.system.solver_options import SolverOptions

#: Size to which scores are scaled up to test whether classes are separable; exponentials of it are 0 or infinite.
SCORE_SCALE = 1e300

#: A fit that stalls in float32 continues in float64 if its gap exceeds this. Most data reach a smaller gap.
COARSE = 1e-4

#: Phase of a checkpoint while a fit continues in float64.
FLOAT64 = "float64"

AT_INFINITY = (
    "weights without a penalty separate the classes, so the minimum is at infinity and these weights grow as long as "
    "the fit runs; use alpha > 0"
)


@dataclass(frozen=True)
class _Fit:
    """One fit: a solver with its options, an objective and a start."""

    solver: Solver
    options: SolverOptions | None
    objective: Objective
    start: Start

    def run(self, budget: Budget) -> Solution:
        return self.solver.run(self.objective, budget, self.start, self.options)


def minimise(solver: Solver, objective: Objective, *, start: Start = None, **keywords: Any) -> Solution:
    """Minimise an objective with a solver; keywords are the fields of `Budget` and the solver's own options."""
    budget, options = solver.sort(keywords)
    narrow = narrowed(objective)
    if narrow is None:
        return _minimise(solver, options, objective, start, budget)
    callbacks = [narrow.callback(callback) for callback in budget.callbacks]
    start, budget = narrow.start(start), replace(budget, callbacks=callbacks)
    return narrow.solution(_minimise(solver, options, narrow.inside, start, budget))


def _minimise(
    solver: Solver, options: SolverOptions | None, objective: Objective, start: Start, budget: Budget
) -> Solution:
    """Minimise an objective in better coordinates, if there are some."""
    scaled = conditioned(objective)
    if budget.checkpoint is not None:
        is_conditioned = scaled is not None
        budget.checkpoint.match(of_objective(objective, solver.name, options, budget.seed, is_conditioned))
    fit = _Fit(solver, options, objective, start)
    if not objective.engine.is_remote:
        return _outside(fit, scaled, budget)
    kept = Kept(budget.max_time)
    try:
        with asking(kept.overdue):
            return _outside(fit, scaled, replace(budget, kept=kept))
    except Unanswered as error:
        if not kept.is_filled:
            raise
        found = kept.solution(error)
        return found if scaled is None else scaled.given_up(found)


def _outside(fit: _Fit, scaled: Conditioned | None, budget: Budget) -> Solution:
    """Solution of a fit, which is run in better coordinates where there are some."""
    if scaled is None:
        return _finite(fit, budget)
    inside = replace(fit, objective=scaled.inside, start=scaled.start(fit.start))
    callbacks = [scaled.callback(callback) for callback in budget.callbacks]
    return scaled.solution(_finite(inside, replace(budget, callbacks=callbacks)), budget.tol)


def _finite(fit: _Fit, budget: Budget) -> Solution:
    """Solution of a fit with finite numbers, no worse than the start, and as precise as float64 allows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # overflows are handled below
        before = None if budget.checkpoint is None else _before_float64(budget.checkpoint)
        solution = before or _first(fit, budget)
        if before is not None or _needs_float64(fit.objective, solution, budget.tol):
            further = _continued(fit, budget, solution)
            if further is not solution and further.status != "converged":  # a smaller gap, but maybe a higher objective
                further = _no_worse_than_start(fit.objective, further, budget.tol, solution)
            solution = further
        if is_at_infinity(fit.objective, solution):
            return replace(solution, message=f"{solution.message}; {AT_INFINITY}", has_minimum=False)
    return solution


def _first(fit: _Fit, budget: Budget) -> Solution:
    """Finite solution in the precision of X; no worse than the start, if the solver seeks the minimum."""
    solution = fit.run(budget)
    if not _is_finite(fit.objective, solution):
        solution = _best_finite(fit, budget, solution)
    if fit.solver.seeks_minimum and (solution.status != "converged" or solution.certificate.kind == "violation"):
        solution = _no_worse_than_start(fit.objective, solution, budget.tol, fit.start)
    return solution


def _before_float64(checkpoint: Checkpoint) -> Solution | None:
    """Solution of the first fit, if a checkpoint was written during the second one, in float64."""
    phase, facts = checkpoint.found_phase or ("", {})
    return Solution(**facts) if phase == FLOAT64 and facts else None


def _is_finite(objective: Objective, solution: Solution) -> bool:
    """Whether parameters and objective are finite."""
    values = (solution.certificate.primal,) if objective.has_values else ()
    return all(bool(np.isfinite(number).all()) for number in (solution.weights, solution.intercept, *values))


@dataclass
class _BestFinite:
    """Callback that keeps the best finite iterate, and ends the fit when numbers are no longer finite."""

    theta: np.ndarray | None = None
    value: float = math.inf

    def __call__(self, snapshot: Snapshot) -> bool:
        parts = snapshot.weights, snapshot.intercept
        if not (math.isfinite(snapshot.objective) and all(np.isfinite(part).all() for part in parts)):
            return True
        if snapshot.objective < self.value:
            self.theta, self.value = np.vstack([snapshot.weights, snapshot.intercept[None, :]]), snapshot.objective
        return False


def _best_finite(fit: _Fit, budget: Budget, broken: Solution) -> Solution:
    """Best iterate of a fit whose numbers overflowed. Solvers are deterministic, so the fit is run once more."""
    best, objective, tol = _BestFinite(), fit.objective, budget.tol
    again = fit.run(replace(budget, callbacks=[best], max_time=None, checkpoint=None))
    if best.theta is None:
        raise DataError(
            "the objective at the starting point is not finite: X or the offsets have values too large for their "
            "precision; scale the features"
        )
    theta = best.theta[: objective.shape[0]]
    certificate = objective.certificate(theta, tol)
    W, b = objective.split(theta)
    status = "converged" if certificate.meets(tol) else "stalled"
    message = (
        f"numbers overflowed in {objective.engine.dtype}, and this is the best iterate before that: {certificate}; "
        f"tol is {tol:g}; centre and scale the features, or use float64"
    )
    history = again.history[:-1] if again.status == "stopped" else again.history  # without the row of the overflow
    history[-1] = {**history[-1], "gap": certificate.value}
    return replace(
        broken, weights=W, intercept=b, certificate=certificate, history=history, status=status, message=message,
        dual_point=None,
    )  # fmt: skip


def _no_worse_than_start(objective: Objective, solution: Solution, tol: float, start: Start) -> Solution:
    """The solution, or the starting point if that has a lower objective, as can happen with dual methods."""
    if not objective.has_values:
        return solution
    starts = [objective.theta_of(start)]
    if start is None:
        starts.append(np.zeros_like(starts[0]))  # the intercepts of the first one do not take offsets into account
    value, at = min((objective.value(theta, np.float64), at) for at, theta in enumerate(starts))
    theta = starts[at]
    if not value < solution.certificate.primal:
        return solution
    W, b = objective.split(theta)
    certificate = objective.certificate(theta, tol)
    # A lower bound holds for any weights.
    bounds = [bound for bound in (certificate.dual, solution.certificate.dual) if bound is not None]
    if bounds:
        certificate = Certificate.of_gap(value, max(bounds))
    status = "stalled" if solution.status == "converged" and not certificate.meets(tol) else solution.status
    message = f"{solution.message}; the start has a lower objective, {value:.8g}, and is returned instead"
    return replace(
        solution, weights=W, intercept=b, certificate=certificate, status=status, message=message, dual_point=None
    )


def _needs_float64(objective: Objective, solution: Solution, tol: float) -> bool:
    """Whether a fit in float32 stalled far from its tolerance, and the rows fit into memory in float64."""
    engine = objective.engine
    if not isinstance(engine, LocalEngine) or engine.dtype != np.float32 or solution.status != "stalled":
        return False
    return solution.certificate.value > max(tol, COARSE) and memory.has_room(2 * engine.X.nbytes)


def _continued(fit: _Fit, budget: Budget, solution: Solution) -> Solution:
    """Continue a fit in float64 from its last iterate, within its remaining iterations and time."""
    if budget.checkpoint is not None:
        facts = {entry.name: getattr(solution, entry.name) for entry in fields(solution)}
        budget.checkpoint.enter(FLOAT64, {**facts, "dual_point": None})
    engine: Any = fit.objective.engine
    if "float64" not in engine.X.copies:
        engine.X.copies["float64"] = in_float64(engine.X)
    X = engine.X.copies["float64"]
    offsets = None if engine.offsets is None else engine.offsets.astype(np.float64)
    wide = replace(fit.objective, engine=replace(engine, X=X, offsets=offsets))
    solver = fit.solver.of_solution(solution)
    options = fit.options if solver is fit.solver else solver.own_options({})
    further = _Fit(solver, options, wide, replace(solution, dual_point=None)).run(following(budget, solution))
    if not _is_finite(wide, further) or not further.certificate.value < solution.certificate.value:
        return solution
    message = f"{further.message} (in float64: float32 was not precise enough)"
    return replace(joined(solution, further), message=message, choice=solution.choice)


def is_at_infinity(objective: Objective, solution: Solution) -> bool:
    """Whether weights without a penalty separate the classes, for a loss that decreases as long as scores grow.

    Scaling up such weights moves the scores of all rows in the right direction. At very large scores all gradients are
    then exactly zero: those of one score column, or of all columns if the loss compares them.
    """
    free = objective.regulariser.features_of(objective.regulariser.strengths == 0.0)
    if solution.certificate.kind != "violation" or not isinstance(objective.loss.link, str) or not free.any():
        return False
    W = np.where(free[:, None], solution.weights, 0.0).astype(np.float64)
    b = solution.intercept.astype(np.float64) if objective.fit_intercept else np.zeros(W.shape[1])
    (sums,) = objective.engine.sum(SeparableColumns(objective.loss, SCORE_SCALE), W, b)
    return not sums.any() if objective.loss.is_direct else not sums.all()
