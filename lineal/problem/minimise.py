"""Run a solver on an objective: what is the same for all of them.

Solvers get the rows with far columns moved to zero, in a unit that suits them (`conditioned.py`). A fit that stalls in
float32 is carried on in float64. The answer is finite and no worse than the start: where numbers overflow, it is the
best iterate before that, with a status and a message that say so. A minimum at infinity is named as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.design.matrix import in_float64
from lineal.engine.local import LocalEngine
from lineal.errors import DataError
from lineal.problem.budget import Budget
from lineal.problem.conditioned import conditioned
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Snapshot, Solution
from lineal.problem.solver import Solver, Start
from lineal.problem.steps import SeparableColumns
from lineal.system import memory
from lineal.system.solver_options import SolverOptions

#: How far scores are stretched to see whether classes are separable: beyond what any exponential distinguishes.
STRETCH = 1e300

#: Gap beyond which a fit that stalled in float32 is carried on in float64: most data reach a smaller one.
COARSE = 1e-4

AT_INFINITY = (
    "the classes are separable by weights without a penalty, so the minimum is at infinity and these weights grow as "
    "long as the fit goes on: use alpha > 0"
)


@dataclass(frozen=True)
class _Fit:
    """A solver with its options, on one objective, from one start."""

    solver: Solver
    options: SolverOptions | None
    objective: Objective
    start: Start

    def run(self, budget: Budget) -> Solution:
        return self.solver.run(self.objective, budget, self.start, self.options)


def minimise(solver: Solver, objective: Objective, *, start: Start = None, **keywords: Any) -> Solution:
    """The answer of a solver to an objective; keywords are those of the solver: of `Budget` and of its own options."""
    budget, options = solver.sort(keywords)
    moved = conditioned(objective)
    if moved is None:
        return _finite(_Fit(solver, options, objective, start), budget)
    inside = replace(budget, callbacks=[moved.callback(callback) for callback in budget.callbacks])
    return moved.solution(_finite(_Fit(solver, options, moved.inside, moved.start(start)), inside), budget.tol)


def _finite(fit: _Fit, budget: Budget) -> Solution:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what overflows is dealt with here
        found = fit.run(budget)
        if not _is_finite(fit.objective, found):
            found = _best_finite(fit, budget, found)
        if found.status != "converged" or found.certificate.kind == "violation":
            found = _no_worse_than_start(fit.objective, found, budget.tol, fit.start)
        if _needs_float64(fit.objective, found, budget.tol):
            found = _carried_on(fit, budget, found)
        if is_at_infinity(fit.objective, found):
            return replace(found, message=f"{found.message}; {AT_INFINITY}", has_minimum=False)
    return found


def _is_finite(objective: Objective, found: Solution) -> bool:
    values = (found.certificate.primal,) if objective.has_values else ()
    return all(bool(np.isfinite(number).all()) for number in (found.weights, found.intercept, *values))


@dataclass
class _Keeper:
    """A callback that keeps the best finite iterate, and ends the fit where numbers stop being finite."""

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
    """The best iterate of a fit whose numbers overflowed: solvers repeat themselves, so the fit is run once more."""
    keeper, objective, tol = _Keeper(), fit.objective, budget.tol
    again = fit.run(replace(budget, callbacks=[keeper], max_time=None))
    if keeper.theta is None:
        raise DataError(
            "the objective at the starting point is not finite: X has values too large for its precision; scale the "
            "features"
        )
    theta = keeper.theta[: objective.shape[0]]
    certificate = objective.certificate(theta, tol)
    W, b = objective.split(theta)
    status = "converged" if certificate.meets(tol) else "stalled"
    message = (
        f"numbers overflowed in {objective.engine.dtype}: the answer is the best iterate before that and has "
        f"{certificate}, asked for {tol:g}; centre and scale the features, or use float64"
    )
    history = again.history[:-1] if again.status == "stopped" else again.history  # which the keeper did at the overflow
    history[-1] = {**history[-1], "gap": certificate.value}
    return replace(
        broken, weights=W, intercept=b, certificate=certificate, history=history, status=status, message=message,
        dual_point=None,
    )  # fmt: skip


def _no_worse_than_start(objective: Objective, found: Solution, tol: float, start: Start) -> Solution:
    """The answer, or the starting point where that has a lower objective: dual methods may end above it."""
    if not objective.has_values:
        return found
    theta = objective.theta_of(start)
    value = objective.value(theta, np.float64)
    if not value < found.certificate.primal:
        return found
    W, b = objective.split(theta)
    certificate = objective.certificate(theta, tol)
    bounds = [bound for bound in (certificate.dual, found.certificate.dual) if bound is not None]  # of any weights
    if bounds:
        certificate = Certificate.of_gap(value, max(bounds))
    status = "stalled" if found.status == "converged" and not certificate.meets(tol) else found.status
    message = f"{found.message}; the start, with objective {value:.8g}, was better than all that and is the answer"
    return replace(
        found, weights=W, intercept=b, certificate=certificate, status=status, message=message, dual_point=None
    )


def _needs_float64(objective: Objective, found: Solution, tol: float) -> bool:
    """Whether a fit in float32 came to its end far from its tolerance, and there is room for the rows in float64."""
    engine = objective.engine
    if not isinstance(engine, LocalEngine) or engine.dtype != np.float32 or found.status != "stalled":
        return False
    return found.certificate.value > max(tol, COARSE) and memory.has_room(2 * engine.X.nbytes)


def _carried_on(fit: _Fit, budget: Budget, found: Solution) -> Solution:
    """The fit carried on in float64 from where it came to, within what is left of its iterations and its time."""
    done, seconds = int(found.history[-1]["iteration"]), found.history[-1]["seconds"]
    max_time = None if budget.max_time is None else max(budget.max_time - seconds, 1e-3)
    engine: Any = fit.objective.engine
    if "float64" not in engine.X.copies:
        engine.X.copies["float64"] = in_float64(engine.X)
    X = engine.X.copies["float64"]
    offsets = None if engine.offsets is None else engine.offsets.astype(np.float64)
    wide = replace(fit.objective, engine=replace(engine, X=X, offsets=offsets))

    def later(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, iteration=snapshot.iteration + done, seconds=snapshot.seconds + seconds)

    shown = [lambda snapshot, callback=callback: callback(later(snapshot)) for callback in budget.callbacks]
    left = replace(budget, max_iter=max(int(budget.max_iter - done), 0), max_time=max_time, callbacks=shown)
    further = replace(fit, objective=wide, start=replace(found, dual_point=None)).run(left)
    if not _is_finite(wide, further) or not further.certificate.value < found.certificate.value:
        return found
    rows = [
        {**row, "iteration": row["iteration"] + done, "seconds": row["seconds"] + seconds} for row in further.history
    ]
    return replace(
        further, history=[*found.history, *rows[1:]], message=f"{further.message} (in float64: float32 was too coarse)"
    )


def is_at_infinity(objective: Objective, found: Solution) -> bool:
    """Whether weights without a penalty separate the rows, for a loss that falls as long as scores grow.

    Along such weights the scores of all rows grow in the right direction. Gradients at scores stretched beyond what an
    exponential can tell from infinity are zero then: of one score column, or of all where the loss compares them.
    """
    free = objective.regulariser.features_of(objective.regulariser.strengths == 0.0)
    if found.certificate.kind != "violation" or not isinstance(objective.loss.link, str) or not free.any():
        return False
    W = np.where(free[:, None], found.weights, 0.0).astype(np.float64)
    b = found.intercept.astype(np.float64) if objective.fit_intercept else np.zeros(W.shape[1])
    (sums,) = objective.engine.sum(SeparableColumns(objective.loss, STRETCH), W, b)
    return not sums.any() if objective.loss.is_direct else not sums.all()
