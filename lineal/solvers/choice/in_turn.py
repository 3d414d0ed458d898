"""Solvers that run one after the other: each one until it is done or too slow, then the next one.

A solver starts from the parameters of the one before, unless those are worse than the start of the fit. A solver that
comes back starts from where it was, with its own dual variables. Together they have one budget and one history.

The rules for leaving a solver see its history, but not the clock: the same fit takes the same path each time, on any
number of threads, also if it was interrupted and continues from a checkpoint. There, each stage is a phase, whose facts
are the solutions of the stages before.

Memory: between two runs of a solver, its parameters and dual variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.problem.budget import Budget
from lineal.problem.continued import following, joined
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Solver, Start

#: Tells whether the next solver should take over, from the history of a solver and, by keyword, its `budget` and the
#: history `before` it, if it is not the first one.
IsSlow = Callable[..., bool]


class Stage(NamedTuple):
    """A solver, why it was chosen, and when to leave it to the next one (None for the last one)."""

    solver: Solver
    why: str
    is_slow: IsSlow | None = None


def in_turn(stages: list[Stage]) -> Solver:
    """One solver that runs several, one after the other; it checks and needs what the first one does."""
    solvers = tuple(stage.solver for stage in stages)

    def function(objective: Objective, budget: Budget, start: Start) -> Solution:
        return _run(stages, objective, budget, start)

    first = solvers[0]
    varies = any(solver.varies_with_threads for solver in solvers)
    return Solver(
        "auto", function, first.check, first.check_objective, first.memory, first.order, None,
        varies_with_threads=varies, stages=solvers,
    )  # fmt: skip


def _run(stages: list[Stage], objective: Objective, budget: Budget, start: Start) -> Solution:
    """Solution of the last solver that ran."""
    done = _before(stages, budget)
    while True:
        solver, _, is_slow = stages[len(done)]
        left, begin = budget, start
        if done:
            left, begin = following(budget, done[-1]), _start(objective, start, done, solver)
        if is_slow is not None:
            seen = {"before": done[-1].history} if done else {}
            left = replace(left, is_slow=partial(is_slow, budget=left, **seen))
        found = solver.run(objective, left, begin, solver.own_options({}))
        done.append(joined(done[-1], found) if done else found)
        if found.status != "slow":
            return replace(_best(done), choice=_choice(stages, done))
        comes_back = any(later.solver is solver for later in stages[len(done) :])
        if not comes_back:
            done[-1] = replace(done[-1], dual_point=None)
        if budget.checkpoint is not None:
            if comes_back and found.dual_point is not None:
                done[-1] = replace(done[-1], dual_point=np.asarray(found.dual_point))
            budget.checkpoint.enter(_phase(stages, len(done)), {"solutions": [_facts(one) for one in done]})


def _start(objective: Objective, start: Start, done: list[Solution], solver: Solver) -> Start:
    """Where a solver starts: where it ended before, or where the one before ended, or at the start of the fit.

    The weights of dual methods can be far above the start in early iterations, and a primal method would lose its way.
    """
    own = next((one for one in reversed(done) if one.solver == solver.name), None)
    if own is not None and (own.dual_point is not None or own.certificate.primal <= done[-1].certificate.primal):
        return own
    if objective.has_values and objective.value(objective.theta_of(start)) < done[-1].certificate.primal:
        return start
    return done[-1]


def _best(done: list[Solution]) -> Solution:
    """The last solution; if it did not converge, with the best parameters and the best bound of all solvers."""
    last = done[-1]
    if last.status == "converged" or any(one.certificate.kind != "gap" for one in done):
        return last
    best = min(done, key=lambda one: one.certificate.primal)
    bounds = [one.certificate.dual for one in done if one.certificate.dual is not None]
    if not bounds:
        return last
    certificate = Certificate.of_gap(best.certificate.primal, max(bounds))
    if certificate.value >= last.certificate.value:
        return last
    return replace(
        last, weights=best.weights, intercept=best.intercept, certificate=certificate, dual_point=best.dual_point
    )


def _phase(stages: list[Stage], at: int) -> str:
    return f"{at + 1}: {stages[at].solver.name}"


def _facts(solution: Solution) -> dict[str, Any]:
    return {entry.name: getattr(solution, entry.name) for entry in fields(solution)}


def _before(stages: list[Stage], budget: Budget) -> list[Solution]:
    """Solutions of the stages before the one that a checkpoint was written in; none for a new fit."""
    phase, facts = ("", None) if budget.checkpoint is None else budget.checkpoint.found_phase or ("", None)
    if not facts or phase not in [_phase(stages, at) for at in range(1, len(stages))]:
        return []
    assert budget.checkpoint is not None
    budget.checkpoint.enter(phase, facts)
    return [Solution(**one) for one in facts["solutions"]]


def _choice(stages: list[Stage], done: list[Solution]) -> str:
    """Which solvers ran, from which iteration on, and why."""
    texts = [f"{stages[0].solver.name}: {stages[0].why}"]
    for (solver, why, _), before in zip(stages[1:], done):
        if before is not done[-1]:
            texts.append(f"{solver.name} after iteration {before.history[-1]['iteration']}: {why}")
    return "; then ".join(texts)
