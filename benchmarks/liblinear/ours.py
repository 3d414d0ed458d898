"""lineal, timed from the matrix in memory to the certified solution, and the least objective it can find."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.liblinear.exact import objective
from benchmarks.liblinear.problems import Plan, Rows, Task, spread
from lineal import losses, penalties, solvers
from lineal.errors import OptionError
from lineal.linear.fit import fit, prepare
from lineal.linear.model import Model
from lineal.linear.options import TrainOptions
from lineal.problem.solution import Solution

#: Tolerances (relative duality gaps) that are tried in turn.
GRID = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)

#: Settings of the table: name, precision and threads (None means all cores).
SETTINGS = (("f32", np.float32, None), ("f64", np.float64, None), ("f32, 1 thread", np.float32, 1))

#: Seconds of each search for the reference optimum; a gap that is left then is printed.
REFERENCE_SECONDS = 15.0

#: The first two of these solvers that can handle a problem compute the reference optimum.
REFERENCES = ("dual_cd", "newton", "block_cd", "lbfgs")

_FOUND: dict[tuple[Any, ...], tuple[float, float]] = {}
_WARM: set[tuple[Any, ...]] = set()


def capable(task: Task) -> list[str]:
    """Solvers that take the loss with the penalty."""
    found = []
    for name in solvers.names():
        try:
            solvers.choose(name, losses.get(task.loss), penalties.get(task.penalty))
        except OptionError:
            continue
        found.append(name)
    return found


def default(X: Any, y: np.ndarray, task: Task, alpha: float) -> str:
    """The solver that "auto" stands for on this data."""
    problem = prepare(X, y, TrainOptions(loss=task.loss, penalty=task.penalty, alpha=alpha, fit_intercept=False))
    return solvers.pick("auto", problem.objective, GRID[0]).name


def run(X: Any, y: np.ndarray, task: Task, **options: Any) -> tuple[float, Model, Solution]:
    """One fit and its seconds. Options are those of training; without others: no intercept, seed 0."""
    chosen = TrainOptions(**{
        "loss": task.loss, "penalty": task.penalty, "fit_intercept": False, "random_state": 0, "max_iter": 100_000,
        **options,
    })  # fmt: skip
    start = time.perf_counter()
    model, solution = fit(X, y, chosen)
    return time.perf_counter() - start, model, solution


def warm_up(X: Any, y: np.ndarray, task: Task, **options: Any) -> float:
    """Seconds of fits that compile whatever this task needs: of few rows to a tight gap, of all rows for a moment."""
    kind = (task.loss, task.penalty, str(X.dtype), type(X).__name__, int(y.max()) > 1, options.get("solver", "auto"))
    if kind in _WARM:
        return 0.0
    _WARM.add(kind)
    start = time.perf_counter()
    few = spread(len(y), 1000)
    run(X[few], y[few], task, **{**options, "tol": 1e-4, "max_time": 10.0})
    run(X, y, task, **{**options, "max_iter": 2})
    return time.perf_counter() - start


def reference(plan: Plan, rows: Rows, task: Task, cost: float = 1.0) -> tuple[float, float]:
    """The least objective at α = 1/(C·n) that two solvers find in float64, and how far off it can be, relatively."""
    key = (plan, task, cost)
    if key not in _FOUND:
        alpha = 1.0 / (cost * len(rows.y))
        answers = []
        for solver in [name for name in REFERENCES if name in capable(task)][:2]:
            options = {"tol": 1e-9, "max_time": REFERENCE_SECONDS, "alpha": alpha}
            _, model, solution = run(rows.as_type(np.float64), rows.y, task, solver=solver, **options)
            value = objective(rows.X, rows.y, model.weights, task.loss, task.penalty, alpha)
            answers.append((value, solution.certificate.value))
        _FOUND[key] = (min(value for value, _ in answers), min(gap for _, gap in answers))
    return _FOUND[key]


def descend(
    X: Any, y: np.ndarray, task: Task, value_of: Callable[[Model], float], goals: Iterable[float], repeats: int,
    grid: Iterable[float] = GRID, **options: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Fits to smaller and smaller gaps until the least of the objectives `goals` is reached.

    The first fit that reaches a goal is repeated; of its times the least counts.
    """
    left, tries = sorted(goals, reverse=True), []
    for tol in grid:
        seconds, model, solution = run(X, y, task, tol=tol, **options)
        value = value_of(model)
        reached = [goal for goal in left if value <= goal]
        left = [goal for goal in left if value > goal]
        for _ in range(repeats - 1 if reached else 0):
            seconds = min(seconds, run(X, y, task, tol=tol, **options)[0])
        tries.append({"tol": tol, "seconds": seconds, "objective": value, "status": solution.status})
        if not left or solution.status == "max_time":
            break
    return tries


def fastest(tries: Iterable[dict[str, Any]], goal: float) -> dict[str, Any] | None:
    """The quickest of those that reach the objective."""
    return min((one for one in tries if one["objective"] <= goal), key=lambda one: one["seconds"], default=None)
