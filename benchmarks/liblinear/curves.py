"""Objective and accuracy against time for lineal's algorithms, and what a large C does to dual coordinate descent.

The experiments of Lin's survey talks on large-scale linear classification: squared hinge, C = 1, no intercept, float64,
one thread. Every algorithm runs twice from the same seed: once undisturbed, for the times of its iterations, and once
with a callback that computes the objective (and the accuracy on the test part) of each. So no evaluation is on the
clock.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.liblinear import ours
from benchmarks.liblinear.exact import accuracy, objective
from benchmarks.liblinear.problems import Plan, Rows, Task
from lineal import solvers
from lineal.linear.fit import prepare
from lineal.linear.options import TrainOptions

LEVELS = tuple(10.0**-power for power in range(1, 7))
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)

#: A curve ends here: relative distance from the least objective.
LAST = 3e-7

#: Iterations that are looked at: all at first, then each this many times as late as the one before.
GROWTH = 1.05

#: Seconds of a run that is not repeated.
LONG = 20.0

CURVES = ("Seconds to a relative suboptimality, by algorithm", ("data", "algorithm", *(f"{e:g}" for e in LEVELS)))
ACCURACY = (
    "Accuracy on the test part: seconds until it stays within 0.5 and 0.1 points of the optimum's",
    ("data", "algorithm", "accuracy of the optimum", "within 0.5 points", "within 0.1 points"),
)
COST = (
    "Seconds to a relative suboptimality of 1e-3 as C grows",
    ("data", "C", "dual_cd s", "its passes", "newton s", "its steps"),
)


def algorithms() -> dict[str, Callable[..., Any]]:
    """Those that this version has, by the name on the plots."""
    wanted = {
        "dual CD, no shrinking": ("dual_cd", {"shrinking": False}),
        "dual CD": ("dual_cd", {"shrinking": True}),
        "primal CD": ("block_cd", {}),
        "Newton, line search": ("newton", {"globalisation": "line_search"}),
        "Newton, trust region": ("newton", {"globalisation": "trust_region"}),
    }
    return {
        label: partial(importlib.import_module(f"lineal.solvers.{name}").solve, **options)
        for label, (name, options) in wanted.items()
        if name in solvers.names()
    }


def trace(
    plan: Plan, rows: Rows, solve: Callable[..., Any], test: Rows | None = None, cost: float = 1.0, last: float = LAST
) -> list[dict[str, float]]:
    """Seconds, relative suboptimality and test accuracy of every iteration, up to the suboptimality `last`."""
    task, alpha = Task(rows.name, "squared_hinge"), 1.0 / (cost * len(rows.y))
    least, _ = ours.reference(plan, rows, task, cost)
    options = TrainOptions(loss=task.loss, alpha=alpha, fit_intercept=False, n_jobs=1)
    problem = prepare(rows.X, rows.y, options)
    points: list[dict[str, float]] = []

    def look(snapshot: Any) -> bool:
        if points and snapshot.iteration < GROWTH * points[-1]["iteration"]:
            return False
        value = objective(rows.X, rows.y, snapshot.weights, task.loss, task.penalty, alpha)
        points.append({"iteration": snapshot.iteration, "suboptimality": value / least - 1.0})
        if test is not None:
            points[-1]["accuracy"] = accuracy(test.X, test.y, snapshot.weights)
        return points[-1]["suboptimality"] <= last

    solve(problem.objective, tol=1e-2, max_iter=3, n_jobs=1)  # compiles
    common = {"tol": 1e-12, "n_jobs": 1, "seed": 0}
    solve(problem.objective, **common, max_iter=1_000_000, max_time=2.0 * plan.max_time, callbacks=[look])
    seconds: dict[float, float] = {}
    for _ in range(plan.repeats):  # of every iteration the least time counts
        timed = solve(problem.objective, **common, max_iter=int(points[-1]["iteration"]), max_time=plan.max_time)
        for row in timed.history:
            seconds[row["iteration"]] = min(row["seconds"], seconds.get(row["iteration"], np.inf))
        if timed.history[-1]["seconds"] > LONG:
            break
    return [{**point, "seconds": seconds[point["iteration"]]} for point in points if point["iteration"] in seconds]


def time_to(points: list[dict[str, float]], level: float) -> dict[str, float]:
    """The first point at this suboptimality, or nothing."""
    return next((point for point in points if point["suboptimality"] <= level), {})


def settled(points: list[dict[str, float]], wanted: float, slack: float) -> float | None:
    """Seconds from which on the accuracy stays within `slack` of the one wanted."""
    found = None
    for point in reversed(points):
        if abs(point["accuracy"] - wanted) > slack + 1e-12:
            break
        found = point["seconds"]
    return found


def rows_of(plan: Plan) -> tuple[dict[str, list[list[Any]]], dict[str, Any]]:
    """The three tables by name, and the curves for the file and the plots."""
    tables: dict[str, list[list[Any]]] = {"curves": [], "accuracy": [], "cost": []}
    curves: dict[str, Any] = {}
    for name in plan.curve_sets():
        rows = plan.load(name)
        test = plan.load(name, "test") if name in plan.accuracy_sets() else None
        found = {label: trace(plan, rows, solve, test) for label, solve in algorithms().items()}
        curves[name] = found
        tables["curves"] += [
            [name, label, *(time_to(points, e).get("seconds") for e in LEVELS)] for label, points in found.items()
        ]
        if test is not None:
            closest = min((points[-1] for points in found.values()), key=lambda point: point["suboptimality"])
            wanted = closest["accuracy"]
            tables["accuracy"] += [
                [name, label, f"{wanted:.2%}", settled(points, wanted, 0.005), settled(points, wanted, 0.001)]
                for label, points in found.items()
            ]
        print(f"{name}: curves of {', '.join(found)}", flush=True)
    tables["cost"] = [row for name in plan.cost_sets() for row in _costs(plan, name)]
    return tables, {"curves": curves, "cost": [dict(zip(COST[1], row)) for row in tables["cost"]]}


def _costs(plan: Plan, name: str) -> list[list[Any]]:
    rows, table = plan.load(name), []
    able = algorithms()
    for cost in COSTS[:3] if plan.is_quick else COSTS:
        row: list[Any] = [name, f"{cost:g}"]
        for label in ("dual CD", "Newton, line search"):
            point = time_to(trace(plan, rows, able[label], cost=cost, last=1e-3), 1e-3)
            row += [point.get("seconds"), point.get("iteration")]
        table.append(row)
        print(f"{name}, C = {cost:g}: {row[2:]}", flush=True)
    return table


def as_arrays(points: list[dict[str, float]], *names: str) -> list[np.ndarray]:
    """Columns of a curve."""
    return [np.array([point[name] for point in points]) for name in names]
