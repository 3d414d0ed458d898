"""Solvers that run one after the other: each one until it is done or too slow, then the next one from where it ended.

The next solver starts from the parameters of the one before, unless those are worse than the start of the fit, and from
its dual variables if both have some. Together they have one budget and one history. The rules for leaving a solver see its history, but not the clock: the same fit
takes the same path each time, on any number of threads, also if it was interrupted and continues from a checkpoint.

In a checkpoint each solver is a phase, whose facts are the solution of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

from lineal.problem.budget import Budget
from lineal.problem.continued import following, joined
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.solver import Solver, Start

#: Tells from the history and the budget of a solver whether the next one should take over.
IsSlow = Callable[[list[dict[str, Any]], Budget], bool]


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
    return Solver("auto", function, first.check, first.check_objective, first.memory, first.order, None, solvers)


def _run(stages: list[Stage], objective: Objective, budget: Budget, start: Start) -> Solution:
    """Solution of the last solver that ran."""
    at, solution = _before(stages, budget)
    while True:
        solver, _, is_slow = stages[at]
        left = budget if solution is None else following(budget, solution)
        if is_slow is not None:
            left = replace(left, is_slow=lambda history, is_slow=is_slow, left=left: is_slow(history, left))
        begin = start if solution is None else _better_start(objective, start, solution)
        found = solver.run(objective, left, begin, solver.own_options({}))
        solution = found if solution is None else joined(solution, found)
        if solution.status != "slow":
            return replace(solution, choice=_choice(stages[: at + 1], solution))
        at += 1
        if budget.checkpoint is not None:
            facts = {entry.name: getattr(solution, entry.name) for entry in fields(solution)}
            budget.checkpoint.enter(stages[at].solver.name, {**facts, "dual_point": None})
            solution = replace(solution, dual_point=None)


def _better_start(objective: Objective, start: Start, solution: Solution) -> Start:
    """The solution, or the start of the whole fit if that has a lower objective.

    The weights of dual methods can be far above it in early iterations, where a primal method would lose its way.
    """
    if objective.has_values and objective.value(objective.theta_of(start)) < solution.certificate.primal:
        return start
    return solution


def _before(stages: list[Stage], budget: Budget) -> tuple[int, Solution | None]:
    """Number of the stage that a checkpoint was written in, and the solution of the one before; 0 and None if new."""
    found = None if budget.checkpoint is None else budget.checkpoint.found_phase
    names = [stage.solver.name for stage in stages]
    if found is None or found[0] not in names[1:] or not found[1]:
        return 0, None
    assert budget.checkpoint is not None
    budget.checkpoint.enter(*found)
    return names.index(found[0]), Solution(**found[1])


def _choice(stages: list[Stage], solution: Solution) -> str:
    """Which solvers ran, from which iteration on, and why."""
    firsts = {row["solver"]: row["iteration"] for row in reversed(solution.history)}
    texts = [f"{stages[0].solver.name}: {stages[0].why}"]
    texts += [f"{stage.solver.name} from iteration {firsts.get(stage.solver.name, 0)}: {stage.why}" for stage in stages[1:]]
    return "; then ".join(texts)
