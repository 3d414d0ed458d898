"""What a user gets without options: lineal's defaults against scikit-learn's, on every data set.

`LinearClassifier` is given α = 1/n, scikit-learn's default C = 1, and nothing else: squared hinge, an intercept that is
not penalised (`LinearSVC` penalises its own, so that these two objectives differ a little and are not compared). The
drop-in classifiers minimise exactly what scikit-learn's do; a negative difference means that lineal's objective is
lower.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks.liblinear.exact import objective
from benchmarks.liblinear.problems import Plan, Rows, spread
from lineal import LinearClassifier, dropin

TITLE = "Default against default"
COLUMNS = ("data", "scikit-learn", "scikit-learn s", "lineal", "lineal s", "ratio", "objective, relative difference")

#: Rows of a set that are used without --slow: of 100,000, `LinearSVC` alone takes more than ten minutes.
MOST_ROWS = {"kddcup99": 20_000}

#: Seconds of a fit that is not repeated.
LONG = 20.0


def rows_of(plan: Plan) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """The table; the file has nothing more."""
    table: list[list[Any]] = []
    for name in plan.all_sets():
        rows = plan.load(name)
        most = MOST_ROWS.get(name, len(rows.y))
        if len(rows.y) > most and not plan.is_slow:
            rows = Rows(f"{name}, {most:,} rows", rows.X[:most], rows.y[:most])
            rows = rows._replace(y=np.unique(rows.y, return_inverse=True)[1])
        svm = [LinearSVC(), LinearClassifier(alpha=1.0 / len(rows.y)), dropin.LinearSVC()]
        seconds = [_seconds(model, rows, plan.repeats) for model in svm]
        lower = _svm_objective(svm[2], rows) / _svm_objective(svm[0], rows) - 1.0
        table.append(_row(rows, "LinearSVC()", seconds[0], "LinearClassifier(alpha=1/n)", seconds[1], None))
        table.append(_row(rows, "LinearSVC()", seconds[0], "dropin.LinearSVC()", seconds[2], lower))
        pair = [LogisticRegression(), dropin.LogisticRegression()]
        seconds = [_seconds(model, rows, plan.repeats) for model in pair]
        lower = _logistic_objective(pair[1], rows) / _logistic_objective(pair[0], rows) - 1.0
        row = _row(rows, "LogisticRegression()", seconds[0], "dropin.LogisticRegression()", seconds[1], lower)
        table.append(row)
        print(f"{rows.name}, defaults: ratios {[round(row[5], 2) for row in table[-3:]]}", flush=True)
    return table, []


def _row(rows: Rows, theirs: str, peer: float, ours: str, seconds: float, difference: float | None) -> list[Any]:
    shown = None if difference is None else f"{difference:+.1e}"
    return [rows.name, theirs, peer, ours, seconds, peer / seconds, shown]


def _seconds(model: Any, rows: Rows, repeats: int) -> float:
    """The least of some fits; lineal's classifiers are warmed up first."""
    best = float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if type(model).__module__.startswith("lineal"):
            few = spread(len(rows.y), 500)
            clone(model).fit(rows.X[few], rows.y[few])
            clone(model).set_params(max_iter=2).fit(rows.X, rows.y)
        for _ in range(repeats):
            start = time.perf_counter()
            model.fit(rows.X, rows.y)
            best = min(best, time.perf_counter() - start)
            if best > LONG:
                break
    return best


def _svm_objective(model: Any, rows: Rows) -> float:
    """With its penalised bias, in the units of a mean."""
    alpha, b = 1.0 / len(rows.y), np.asarray(model.intercept_, np.float64)
    value = objective(rows.X, rows.y, model.coef_.T, "squared_hinge", "l2", alpha, b)
    return value + 0.5 * alpha * float(b @ b)


def _logistic_objective(model: Any, rows: Rows) -> float:
    loss = "logistic" if rows.n_classes == 2 else "softmax"
    return objective(rows.X, rows.y, model.coef_.T, loss, "l2", 1.0 / len(rows.y), model.intercept_)
