"""Figs. 2–4 of the paper: objective, test accuracy and non-zero rows against time, for every solver it compares.

Multiclass squared hinge, l1/l2, λ = 1e-3 and 1e-5, no intercept, float64, one thread. Every algorithm runs twice from
the same seed: once undisturbed, for the times of its iterations, and once with a callback that looks at the weights. So
no evaluation is on the clock; what a solver prepares for itself is. η₀ of FOBOS is chosen beforehand on held-out rows,
as in the paper, which is not on the clock either. "Working sets" is lineal's own method. Section 5.2.4: shrinking on
and off; section 5.3.1: softmax with and without line search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.liblinear.problems import Rows
from benchmarks.sparse_multiclass import exact, ours
from benchmarks.sparse_multiclass.orderings import COLUMNS as ORDER_COLUMNS
from benchmarks.sparse_multiclass.orderings import of_solvers
from benchmarks.sparse_multiclass.problems import STRONG, WEAK, Plan, Table, part_of, splits
from lineal.problem.solution import Solution

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)
COLUMNS = (
    "data", "λ", "algorithm", *(f"{level:g}" for level in LEVELS), "last", "accuracy", "non-zero rows",
    "rows settle s",
)  # fmt: skip
TITLE = "Seconds to a relative distance from the least objective; where each run ended"
ORDER_TITLE = "Orderings: the paper's and ours"
SHRINKING = "Shrinking on and off (section 5.2.4): seconds to a relative distance from the least objective"
LOGISTIC = (
    "Softmax with and without line search (section 5.3.1): seconds to a relative distance from the least objective"
)

#: Runs end at this gap at the latest.
TOL = 1e-6

#: Iterations that are looked at: all at first, then each this many times as late as the one before.
GROWTH = 1.1

#: Candidates for η₀ of FOBOS, the passes by which they are judged, and over how many rows at most.
RATES = tuple(10.0**power for power in range(-3, 4))
RATE_PASSES, RATE_ROWS = 20, 12_000

Point = dict[str, float]


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The tables, and the curves by part and problem for the file and the plots."""
    curves: dict[str, Any] = {"solvers": {}, "shrinking": {}, "logistic": {}}
    tables: dict[str, list[list[Any]]] = {name: [] for name in curves}
    ordered: list[list[Any]] = []
    for part, rows, alpha, loss, contestants in _runs(plan):
        test = plan.load(rows.name, "test")
        found, least = _race(plan, rows, test, alpha, loss, contestants)
        curves[part][f"{rows.name}, λ = {alpha:g}"] = {"least": least, "curves": found}
        tables[part] += [
            [rows.name, f"{alpha:g}", label, *_summary(points, least)] for label, points in found.items() if points
        ]
        if part == "solvers":
            ordered += of_solvers(rows.name, alpha, found, least["objective"])
        print(f"{part}: {rows.name}, λ = {alpha:g}: {', '.join(found)}", flush=True)
    return [
        Table("solvers", TITLE, COLUMNS, tables["solvers"]),
        Table("orderings", ORDER_TITLE, ORDER_COLUMNS, ordered),
        Table("shrinking", SHRINKING, COLUMNS, tables["shrinking"]),
        Table("logistic", LOGISTIC, COLUMNS, tables["logistic"]),
    ], curves


def _runs(plan: Plan) -> Iterator[tuple[str, Rows, float, str, dict[str, Callable[..., Solution]]]]:
    """Part, data, λ, loss and contestants."""
    for name in plan.figure_sets():
        for alpha in (STRONG, WEAK):
            yield "solvers", plan.load(name), alpha, ours.LOSS, ours.algorithms()
    kinds = {
        "shrinking": (ours.LOSS, {"on": ours.cyclic(shrinking=True), "off": ours.cyclic(shrinking=False)}),
        "logistic": ("softmax", {"line search": ours.cyclic(), "constant step": ours.randomised()}),
    }
    for part, (loss, contestants) in kinds.items():
        for name in plan.figure_sets():
            for alpha in (STRONG, WEAK):
                yield part, plan.load(name), alpha, loss, contestants


def _race(
    plan: Plan, rows: Rows, test: Rows, alpha: float, loss: str, contestants: dict[str, Callable[..., Solution]]
) -> tuple[dict[str, list[Point]], dict[str, float]]:
    """Curves of all, and the least objective of anybody with its share of non-zero rows."""
    X = rows.as_type(np.float64)
    rows = Rows(rows.name, np.asfortranarray(X) if isinstance(X, np.ndarray) else X, rows.y)
    limit = 2.0 * plan.seconds
    _, best = ours.run(rows.X, rows.y, alpha, 1e-8, max_time=limit, loss=loss)
    value = exact.objective(rows.X, rows.y, best.weights, loss, alpha)
    found = {}
    for label, solve in contestants.items():
        if label == "FOBOS":
            solve = partial(solve, rate=_rate(rows, alpha, loss, solve))
        found[label] = trace(plan, rows, test, alpha, loss, solve)
    lowest = min((point["objective"] for points in found.values() for point in points), default=value)
    least = {
        "objective": min(value, lowest), "gap": best.certificate.value, "live_rows": exact.live_rows(best.weights),
        "accuracy": exact.accuracy(test.X, test.y, best.weights),
    }  # fmt: skip
    for points in found.values():
        for point in points:
            point["suboptimality"] = point["objective"] / least["objective"] - 1.0
    return found, least


def trace(plan: Plan, rows: Rows, test: Rows, alpha: float, loss: str, solve: Callable[..., Solution]) -> list[Point]:
    """Seconds, exact objective, test accuracy and share of non-zero rows of the iterations of one run."""
    points: list[Point] = []

    def look(snapshot: Any) -> None:
        if points and snapshot.iteration < min(GROWTH * points[-1]["iteration"], last):
            return
        W = snapshot.weights
        points.append({
            "iteration": snapshot.iteration, "objective": exact.objective(rows.X, rows.y, W, loss, alpha),
            "accuracy": exact.accuracy(test.X, test.y, W), "live_rows": exact.live_rows(W),
        })  # fmt: skip

    def fresh() -> Any:
        return ours.problem(rows.X, rows.y, alpha, loss, n_jobs=1)

    with ours.blas_for(rows.X, 1):
        solve(fresh(), tol=0.5, max_iter=3, n_jobs=1)  # compiles
        common = {"tol": TOL, "n_jobs": 1, "seed": 0}
        timed = solve(fresh(), **common, max_iter=ours.MANY, max_time=plan.seconds)
        seconds = {row["iteration"]: row["seconds"] for row in timed.history}
        last = max(seconds)
        solve(fresh(), **common, max_iter=max(int(last), 1), callbacks=[look])
    return [{**point, "seconds": seconds[point["iteration"]]} for point in points if point["iteration"] in seconds]


def _rate(rows: Rows, alpha: float, loss: str, solve: Callable[..., Solution]) -> float:
    """η₀ with the least objective on a fifth of the rows after some passes over (some of) the others."""
    train, held_out = (part_of(rows, numbers[:RATE_ROWS]) for numbers in splits(rows.y, 0))

    def value(rate: float) -> float:
        problem = ours.problem(train.X, train.y, alpha, loss, n_jobs=1)
        found = solve(problem, tol=TOL, max_iter=RATE_PASSES, n_jobs=1, rate=rate)
        result = exact.objective(held_out.X, held_out.y, found.weights, loss, alpha)
        return result if np.isfinite(result) else np.inf

    return min(RATES, key=value)


def _summary(points: list[Point], least: dict[str, float]) -> list[Any]:
    """A row of a table from its levels on."""
    settled = None
    for point in reversed(points):
        if abs(point["live_rows"] - least["live_rows"]) > 0.1 * least["live_rows"]:
            break
        settled = point["seconds"]
    last = points[-1]
    return [
        *(seconds_to(points, level) for level in LEVELS), f"{last['suboptimality']:.1e}", f"{last['accuracy']:.2%}",
        f"{last['live_rows']:.1%}", settled,
    ]  # fmt: skip


def seconds_to(points: list[Point], level: float) -> float | None:
    """Seconds to this relative suboptimality."""
    return next((point["seconds"] for point in points if point["suboptimality"] <= level), None)
