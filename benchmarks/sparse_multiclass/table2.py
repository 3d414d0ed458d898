"""Fig. 5 and Table 2 of the paper: accuracy against non-zero rows, and training times, of three objectives.

Ten λ from 1e-3 to 1e-5, three splits (or `--splits`) that hold out a fifth of every class, float64, one thread. Each
objective is minimised twice: as in the paper (cyclic with line search for the hinges, randomised with a constant step
for softmax, stopped by the sum of violations at τ = 1e-3 or after K = 200 iterations), and by working sets to a gap of
1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.liblinear.problems import Rows
from benchmarks.sparse_multiclass import exact, ours
from benchmarks.sparse_multiclass.orderings import verdict
from benchmarks.sparse_multiclass.problems import STRONG, WEAK, Plan, Table, part_of, splits
from lineal.problem.solution import Solution

TAU, K = 1e-3, 200
OBJECTIVES = {
    "multiclass squared hinge": "multiclass_squared_hinge",
    "multitask squared hinge": "squared_hinge",
    "softmax": "softmax",
}
RANGE = "min / median / max"
TITLE = "Ten λ from 1e-3 to 1e-5: seconds, accuracy and non-zero rows of three objectives, means over splits"
COLUMNS = (
    "data", "method", "objective", f"seconds, {RANGE}", f"accuracy, {RANGE}", f"non-zero rows, {RANGE}",
    "the paper's seconds", "cut short",
)  # fmt: skip
ORDER_TITLE = "Orderings of the objectives: the paper's and ours"
ORDER_COLUMNS = ("data", "method", "the paper", "first", "second", "here")

#: Table 2 of the paper: minimum, median and maximum, in the order of `OBJECTIVES`.
PAPER = {
    "MNIST": ("32.6 / 55.3 / 61.7", "42.7 / 79.6 / 99.4", "141.5 / 260.3 / 645.0"),
    "20newsgroups": ("50.5 / 70.7 / 75.1", "71.4 / 93.8 / 98.2", "172.9 / 218.0 / 244.6"),
}

#: Accuracies (of the best λ) this close are about equal.
EQUAL_ACCURACY = 0.005


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The tables, and for the file and the plots every λ of every objective."""
    table: list[list[Any]] = []
    ordered: list[list[Any]] = []
    details: dict[str, Any] = {}
    for name in plan.figure_sets():
        rows = plan.in_float64(name)
        details[rows.name] = {}
        for method, solve in _methods().items():
            found = {label: _path(plan, rows, loss, solve(loss)) for label, loss in OBJECTIVES.items()}
            details[rows.name][method] = found
            for number, (label, points) in enumerate(found.items()):
                table.append([rows.name, method, label, *_summary(points), PAPER.get(name, (None,) * 3)[number],
                              sum(point["cut_short"] for point in points) or None])  # fmt: skip
            ordered += [[rows.name, method, *line] for line in _orderings(found)]
            print(f"{rows.name}, {method}: {[row[3] for row in table[-3:]]}", flush=True)
    return [
        Table("table2", TITLE, COLUMNS, table), Table("orderings", ORDER_TITLE, ORDER_COLUMNS, ordered),
    ], details  # fmt: skip


def _methods() -> dict[str, Callable[[str], Callable[..., Solution]]]:
    """What minimises a loss, by the name of the method."""
    return {
        "working sets": lambda loss: ours.algorithms()["working sets"],
        "the paper's": lambda loss: ours.randomised(rule="sum") if loss == "softmax" else ours.cyclic(rule="sum"),
    }


def _path(plan: Plan, rows: Rows, loss: str, solve: Callable[..., Solution]) -> list[dict[str, float]]:
    """Means over the splits of seconds, accuracy and share of non-zero rows, by λ."""
    alphas = np.geomspace(STRONG, WEAK, 3 if plan.is_quick else 10)
    sums = [
        {"alpha": float(alpha), "seconds": 0.0, "accuracy": 0.0, "live_rows": 0.0, "cut_short": 0} for alpha in alphas
    ]
    n_splits = 1 if plan.is_quick else plan.n_splits
    for split in range(n_splits):
        train, test = (part_of(rows, numbers) for numbers in splits(rows.y, split))
        ours.warm_up(train.X, train.y, STRONG, solve, loss=loss)
        for total in sums:
            seconds, solution = ours.run(
                train.X, train.y, total["alpha"], TAU, solve, n_jobs=1, max_iter=K, max_time=plan.max_time, loss=loss
            )  # fmt: skip
            total["seconds"] += seconds / n_splits
            total["accuracy"] += exact.accuracy(test.X, test.y, solution.weights) / n_splits
            total["live_rows"] += exact.live_rows(solution.weights) / n_splits
            total["cut_short"] += solution.status == "max_time"
    return sums


def _summary(points: list[dict[str, float]]) -> list[str]:
    shown = []
    for name, form in (("seconds", "{:.3g}"), ("accuracy", "{:.1%}"), ("live_rows", "{:.1%}")):
        values = [point[name] for point in points]
        shown.append(" / ".join(form.format(f(values)) for f in (np.min, np.median, np.max)))
    return shown


def _orderings(found: dict[str, list[dict[str, float]]]) -> list[list[Any]]:
    """The paper: ours is faster than both others, better than multitask and as good as softmax."""
    seconds = {label: float(np.median([point["seconds"] for point in points])) for label, points in found.items()}
    best = {label: max(point["accuracy"] for point in points) for label, points in found.items()}
    one, *others = OBJECTIVES
    lines: list[list[Any]] = []
    for other, words in zip(others, ("1.3 to 2 times", "3 to 12 times")):
        claim = f"{one} faster than {other}, {words} (median)"
        lines.append([claim, seconds[one], seconds[other], verdict(seconds[one], seconds[other])])
    for other, is_better in zip(others, (True, False)):
        ahead = best[one] - best[other]
        here = "better" if ahead > EQUAL_ACCURACY else "worse" if ahead < -EQUAL_ACCURACY else "about equal"
        claim = f"{one} {'better than' if is_better else 'about as good as'} {other} (best λ)"
        agrees = here == ("better" if is_better else "about equal")
        lines.append([claim, f"{best[one]:.1%}", f"{best[other]:.1%}", "agrees" if agrees else here])
    return lines
