"""A solver: a function from an objective to a solution, with a description of what it can handle and needs.

A solver's file defines `solve(objective, budget, start)`, or `solve(objective, budget, start, options)` where the
algorithm has its own options, and decorates it with `solver`. Callers then pass the budget and the options as
keywords: `fista.solve(objective, tol=1e-6, max_iter=100, step="constant")`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.problem.budget import Budget
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.system.solver_options import SolverOptions

#: Starting point of a fit: parameters θ, another solution, or None for the model without features.
Start = np.ndarray | Solution | None

_BUDGET = frozenset(field.name for field in dataclasses.fields(Budget))


@dataclass(frozen=True, eq=False)
class Solver:
    """An algorithm that minimises an `Objective`.

    Attributes
    ----------
    name : the value of `solver=` that selects it.
    function : the algorithm.
    check : raises an error that names a loss or a penalty that the algorithm cannot handle.
    check_objective : raises an error for an objective that it cannot handle for another reason.
    memory : number of bytes that it needs besides X, as a function of n, d, k and the bytes per number.
    order : "rows" or "columns" if it reads X in that order and needs a copy of an X that is stored otherwise.
    options : class of its own options; None if it has none.
    seeks_minimum : whether its answer should be the minimum. If not, as for averages of models, the answer is not
        replaced by the start where that has a lower objective.
    varies_with_threads : whether the number of threads changes its iterates, and not only its speed.
    stages : the solvers that it runs one after the other, if it is made of others (`in_turn`).
    """

    name: str
    function: Callable[..., Solution]
    check: Callable[[Any, Any], None]
    check_objective: Callable[[Objective], None]
    memory: Callable[[int, int, int, int], int]
    order: str | None
    options: type[SolverOptions] | None
    seeks_minimum: bool = True
    varies_with_threads: bool = False
    stages: tuple[Solver, ...] = ()

    def __call__(self, objective: Objective, *, start: Start = None, **keywords: Any) -> Solution:
        """Minimise the objective. Keywords are the fields of `Budget` and those of the solver's own options."""
        budget, options = self.sort(keywords)
        return self.run(objective, budget, start, options)

    def run(self, objective: Objective, budget: Budget, start: Start, options: SolverOptions | None) -> Solution:
        """Minimise the objective, after checking that the algorithm can handle it."""
        self.check(objective.loss, objective.regulariser.penalty)
        self.check_objective(objective)
        own = () if self.options is None else (options,)
        found = self.function(objective, budget, start, *own)
        if found.solver:
            return found
        for row in found.history:
            row["solver"] = self.name
        return replace(found, solver=self.name)

    def of_solution(self, found: Solution) -> Solver:
        """The solver that found a solution, with which the fit can go on: this one, or one of its stages."""
        return next((stage for stage in self.stages if stage.name == found.solver), self)

    def sort(self, keywords: dict[str, Any]) -> tuple[Budget, SolverOptions | None]:
        """Split keywords into a budget and checked options."""
        budget = Budget(**{name: value for name, value in keywords.items() if name in _BUDGET})
        return budget, self.own_options({name: value for name, value in keywords.items() if name not in _BUDGET})

    def own_options(self, values: dict[str, Any]) -> SolverOptions | None:
        """Options of this solver from a dictionary, checked."""
        return SolverOptions.of(self.options, self.name, values)


def solver(
    *,
    check: Callable[[Any, Any], None],
    check_objective: Callable[[Objective], None] = lambda objective: None,
    memory: Callable[[int, int, int, int], int] = lambda n, d, k, size: 0,
    order: str | None = None,
    options: type[SolverOptions] | None = None,
    seeks_minimum: bool = True,
    varies_with_threads: bool = False,
) -> Callable[[Callable[..., Solution]], Solver]:
    """Decorator that turns a function `solve` into a `Solver` with the name of its file."""

    def decorate(function: Callable[..., Solution]) -> Solver:
        name = function.__module__.rpartition(".")[2]
        return Solver(
            name, function, check, check_objective, memory, order, options, seeks_minimum, varies_with_threads
        )  # fmt: skip

    return decorate
