"""Tables whose classes no hyperplane separates: errors and seconds of defaults, of SVC and of LightGBM."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.svm import SVC

import lineal
from benchmarks import datasets
from benchmarks.common import timed, whole_process
from benchmarks.tables.plan import Plan

#: Tables, the smallest first; --quick takes some of them.
TABLES = (
    "segment", "spambase", "satimage", "phoneme", "texture", "optdigits", "pendigits", "dry_bean", "htru2", "magic04",
    "letters", "elec", "shuttle",
)  # fmt: skip
QUICK_TABLES = 5

#: Most rows of anything with --quick.
QUICK_ROWS = 2000

#: Values of C, of which the best on a tenth of the training rows is taken.
STRENGTHS = (1.0, 10.0, 100.0)

#: What is asked for: with fewer rows than `FEW`, at most `SLOWER` times the seconds of SVC; with more than `MANY` rows,
#: fewer seconds; nowhere more than `WORSE` times its error.
FEW, MANY, SLOWER, WORSE = 10_000, 20_000, 3.0, 1.2

TITLE = "Tables that are not linear: errors on test rows, and seconds of a fit"
COLUMNS = (
    "table", "rows", "columns", "classes", "stagewise error", "linear error", "SVC C", "SVC error", "LightGBM error",
    "stagewise s", "linear s", "SVC s", "LightGBM s", "error / SVC's", "SVC s ratio", "block_size", "stages",
)  # fmt: skip
SUMMARY_TITLE = "`StagewiseClassifier()` and SVC with the best C"
SUMMARY = ("what", "tables", "of")


def rows_of(plan: Plan) -> tuple[list[Any], list[dict[str, Any]]]:
    """The table of all contestants, how often they meet what is asked for, and every run."""
    warm_up()
    names = TABLES[:QUICK_TABLES] if plan.is_quick else TABLES + datasets.IMAGES * plan.is_slow
    found = []
    for name in plan.wanted(names):
        found.append(compared(plan, name))
        print(found[-1], flush=True)
    summary = [] if plan.match else summary_of(found)
    return [
        ("curved", TITLE, COLUMNS, [list(one.values()) for one in found]),
        ("summary", SUMMARY_TITLE, SUMMARY, summary),
    ], found


def compared(plan: Plan, name: str) -> dict[str, Any]:
    """A row of the table, by columns."""
    X, y, X_test, y_test = rows_for(plan, name)
    ours, seconds = timed(lambda: lineal.StagewiseClassifier(verbose=0).fit(X, y))
    linear, linear_seconds = timed(lambda: lineal.LinearClassifier().fit(X, y))
    C, svc, svc_seconds = best_svc(X, y)
    errors = [float((model.predict(X_test) != y_test).mean()) for model in (ours, linear, svc)]
    trees = {} if plan.peers is None else boosted(plan.peers, X, y, X_test, y_test)
    values = (
        name, len(X), X.shape[1], len(ours.classes_), errors[0], errors[1], C, errors[2], trees.get("error"),
        seconds, linear_seconds, svc_seconds, trees.get("seconds"), errors[0] / max(errors[2], 1e-12),
        svc_seconds / seconds, ours.block_size_, ours.n_iter_,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def rows_for(plan: Plan, name: str) -> datasets.Split:
    """A table, standardised by its training rows; the first rows with --quick."""
    most = QUICK_ROWS if plan.is_quick else None
    return datasets.letters(most) if name == "letters" else datasets.dense_table(plan.data, name, most)


def best_svc(X: np.ndarray, y: np.ndarray) -> tuple[float, Any, float]:
    """C that is best on a tenth of the rows, the fit of all rows with it, and the seconds of that fit alone."""
    held, rest = np.split(np.random.default_rng(1).permutation(len(X)), [len(X) // 10])
    C = min(STRENGTHS, key=lambda C: float((SVC(C=C).fit(X[rest], y[rest]).predict(X[held]) != y[held]).mean()))
    return C, *timed(lambda: SVC(C=C).fit(X, y))


def boosted(python: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    """Error and seconds of LightGBM's defaults, in the interpreter that has it."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.npz")
        np.savez(path, X=X, y=y, X_test=X_test, y_test=y_test)
        return whole_process([python, str(Path(__file__).parent / "lightgbm_script.py"), path]).answer


def summary_of(found: list[dict[str, Any]]) -> list[list[Any]]:
    """How many of the tables meet what is asked for."""
    few = [one for one in found if one["rows"] < FEW]
    many = [one for one in found if one["rows"] > MANY]
    asked = [
        ("error no worse than SVC's", found, lambda one: one["error / SVC's"] <= 1.0),
        (f"error at most {WORSE:g} times SVC's", found, lambda one: one["error / SVC's"] <= WORSE),
        (f"below {FEW:,} rows: at most {SLOWER:g} times SVC's seconds", few,
         lambda one: one["SVC s ratio"] >= 1.0 / SLOWER),
        (f"above {MANY:,} rows: fewer seconds than SVC", many, lambda one: one["SVC s ratio"] > 1.0),
    ]  # fmt: skip
    return [[what, sum(map(meets, some)), len(some)] for what, some, meets in asked]


def warm_up() -> None:
    """Compile or load the kernels of all fits."""
    rng = np.random.default_rng(0)
    for k in (2, 3):
        X, y = rng.normal(size=(300, 70)).astype(np.float32), np.arange(300) % k
        for columns in (8, 70):
            lineal.StagewiseClassifier().fit(X[:, :columns].copy(), y)
            lineal.LinearClassifier().fit(X[:, :columns].copy(), y)
