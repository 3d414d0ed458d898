"""Softmax regression with a free intercept, C = 1: lineal against scikit-learn's fastest solver at equal objective.

Levels are the objectives that scikit-learn's default solver (lbfgs, float64) reaches at its tol of 1e-2, 1e-3 and 1e-4.
Its time to a level is that of its fastest fit (of all solvers, precisions and tolerances) that is as good; lineal's is
that of its fastest fit within 1e-6 (relative) of it. "Above the least" is how far a level is from the least objective
that anybody found.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.liblinear import ours
from benchmarks.liblinear.exact import objective
from benchmarks.liblinear.problems import Plan, Rows, Task

TITLE = "Softmax regression with intercept, C = 1: seconds to scikit-learn's objective"
COLUMNS = (
    "data", "their tol", "objective", "above the least", "fastest peer", "peer s", "f32 s", "f32 ratio", "f64 s",
    "f64 ratio", "1 thread f32 ratio",
)  # fmt: skip
TOLERANCES = (1e-2, 1e-3, 1e-4)
SLACK = 1e-6

#: Gaps at which lineal stops: scikit-learn's first level may be far from the optimum (many times its objective on
#: separable rows, where only a gap beyond one is as loose), its last one close to it.
GRID = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, *ours.GRID, 1e-5, 3e-6, 1e-6)

#: Iterations of scikit-learn at most. Where it stops, it has set the level.
MAX_ITER = 300

#: Weights of newton-cholesky's Hessian at most: its work grows with their square, its memory too.
MAX_CHOLESKY = 3000


def rows_of(plan: Plan) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    table: list[list[Any]] = []
    details = []
    for name in plan.softmax_sets():
        rows, task = plan.load(name), Task(name, "softmax")
        theirs = _peers(plan, rows)
        levels = {tol: theirs[0][f"tol={tol:g}"] for tol in TOLERANCES if f"tol={tol:g}" in theirs[0]}
        goals = [level * (1.0 + SLACK) for level in levels.values()]
        alpha, found, warm = 1.0 / len(rows.y), {}, 0.0
        for label, dtype, n_jobs in ours.SETTINGS:
            X = rows.as_type(dtype)
            options = {"alpha": alpha, "n_jobs": n_jobs, "fit_intercept": True, "max_time": plan.max_time}
            warm += ours.warm_up(X, rows.y, task, **options)
            found[label] = ours.descend(
                X, rows.y, task, lambda model, rows=rows: _value(rows, model.weights, model.intercept), goals,
                plan.repeats, GRID, **options,
            )  # fmt: skip
        table += [_row(name, tol, goal, found, theirs[1]) for tol, goal in zip(levels, goals)]
        details.append({"data": name, "warm_up_seconds": warm, "lineal": found, "peers": theirs[1]})
        print(f"{name}, softmax: ratios {[row[7] and round(row[7], 2) for row in table[-len(goals) :]]}", flush=True)
    return table, details


def _value(rows: Rows, W: np.ndarray, b: np.ndarray) -> float:
    return objective(rows.X, rows.y, W, "softmax", "l2", 1.0 / len(rows.y), np.asarray(b, np.float64))


def _peers(plan: Plan, rows: Rows) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The levels, and every fit."""
    names = ["lbfgs", "newton-cg", *(["saga"] if plan.is_slow else [])]
    if isinstance(rows.X, np.ndarray) and (rows.X.shape[1] + 1) * rows.n_classes <= MAX_CHOLESKY:
        names.append("newton-cholesky")
    tries: list[dict[str, Any]] = []
    levels: dict[str, float] = {}
    for name in names:
        for dtype in (np.float64, np.float32):
            X = rows.as_type(dtype)
            for tol in TOLERANCES[: 2 if plan.is_quick else None]:
                seconds, value = _fit(rows, X, name, tol)
                if name == "lbfgs" and dtype == np.float64:
                    levels[f"tol={tol:g}"] = value
                setting = f"{name} {np.dtype(dtype).name} tol={tol:g}"
                tries.append({"peer": "scikit-learn", "setting": setting, "seconds": seconds, "objective": value})
                best = ours.fastest(tries, min(levels.values()) * (1.0 + SLACK))
                if best is not None and seconds > best["seconds"]:  # the next would be slower still
                    break
    return levels, tries


def _fit(rows: Rows, X: Any, solver: str, tol: float) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = LogisticRegression(solver=solver, tol=tol, max_iter=MAX_ITER).fit(X, rows.y)
        seconds = time.perf_counter() - start
    return seconds, _value(rows, model.coef_.T, model.intercept_)


def _row(name: str, tol: float, goal: float, found: dict[str, Any], theirs: list[dict[str, Any]]) -> list[Any]:
    peer = ours.fastest(theirs, goal)
    seconds = [(ours.fastest(found[label], goal) or {}).get("seconds") for label, _, _ in ours.SETTINGS]
    single, double, one_thread = (peer["seconds"] / one if peer and one else None for one in seconds)
    least = min(one["objective"] for tries in (theirs, *found.values()) for one in tries)
    return [
        name, f"{tol:g}", f"{goal:.7g}", f"{goal / least - 1.0:.1e}", peer and peer["setting"],
        peer and peer["seconds"], seconds[0], single, seconds[1], double, one_thread,
    ]  # fmt: skip
