"""Accuracy of one model of all rows against averages of models of parts of the rows: the table of the talk.

All rows are in one process, in random shards. Everyone minimises the hinge with α = 1/n to a certified gap of 1e-3: one
model of all rows, the mean of the models of the shards, their vote, and four rounds of short fits from the last mean.
Accuracy is that on rows that nobody was trained on.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse

import lineal
from benchmarks.distributed.problems import Plan, Table
from benchmarks.liblinear.problems import Rows

TITLE = "Accuracy of averaged models"
COLUMNS = (
    "data", "rows", "shards", "all rows", "mean", "vote", "4 rounds", "s, all rows", "s, mean", "objective, mean / all",
)  # fmt: skip

DATA = ("20newsgroups", "wiki_toxicity", "kddcup99", "generated")

#: Shards, and rows, features and entries per row of the generated rows; with --quick few.
SHARDS, ROWS, WIDTH, ENTRIES = 8, 5_000_000, 200_000, 20
QUICK_ROWS = 20_000

#: Part of the rows that is held out where a data set has no test part.
HELD_OUT = 5

#: Ways of training: name in the table, solver and its options.
WAYS: dict[str, dict[str, Any]] = {
    "all rows": {},
    "mean": {"solver": "averaging", "solver_options": {"shards": SHARDS}},
    "vote": {"solver": "averaging", "solver_options": {"shards": SHARDS, "combine": "vote"}},
    "4 rounds": {"solver": "averaging", "solver_options": {"shards": SHARDS, "rounds": 4}},
}


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    details = [_compared(name, *_parts(plan, name)) for name in plan.selected(DATA)]
    return [Table("averages", TITLE, COLUMNS, [_row(one) for one in details])], details


def generated(plan: Plan) -> Rows:
    """Sparse rows with two labels by a linear model with noise; features have Zipf frequencies."""
    n, rng = QUICK_ROWS if plan.is_quick else ROWS, np.random.default_rng(0)
    indices = np.minimum(np.floor(np.exp(rng.random((n, ENTRIES)) * np.log(WIDTH))).astype(np.int32), WIDTH - 1)
    indices.sort(axis=1)
    weights = rng.normal(size=WIDTH).astype(np.float32)
    scores = weights[indices].sum(axis=1) / np.sqrt(ENTRIES) + rng.normal(size=n).astype(np.float32)
    indptr = np.arange(0, n * ENTRIES + 1, ENTRIES, dtype=np.int64)
    values = np.full(n * ENTRIES, 1.0 / np.sqrt(ENTRIES), np.float32)
    X = sparse.csr_array((values, indices.reshape(-1), indptr), shape=(n, WIDTH))
    X.sum_duplicates()
    return Rows("generated", X, (scores > 0.0).astype(np.int64))


def _parts(plan: Plan, name: str) -> tuple[Rows, Rows]:
    """Rows to train on, and rows to test on."""
    if name in ("20newsgroups", "wiki_toxicity") and not plan.is_quick:
        return plan.load(name), plan.load(name, "test")
    rows = generated(plan) if name == "generated" else plan.load(name)
    order = np.random.default_rng(1).permutation(len(rows.y))
    test, train = np.split(order, [len(order) // HELD_OUT])
    return Rows(name, rows.X[train], rows.y[train]), Rows(name, rows.X[test], rows.y[test])


def _compared(name: str, train: Rows, test: Rows) -> dict[str, Any]:
    X, found = train.as_type(np.float32), {"data": name, "rows": len(train.y)}
    for way, options in WAYS.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # averages end above the minimum
            model = lineal.LinearClassifier(
                loss="hinge", alpha=1.0 / len(train.y), tol=1e-3, random_state=0, **options
            ).fit(X, train.y)
        seconds = time.perf_counter() - start
        accuracy = float(np.mean(model.predict(test.as_type(np.float32)) == test.y))
        found[way] = {"seconds": seconds, "objective": model.certificate_.primal, "accuracy": accuracy}
        print(name, way, found[way], flush=True)
    return found


def _row(found: dict[str, Any]) -> list[Any]:
    everything = found["all rows"]
    return [
        found["data"], found["rows"], SHARDS, *(f"{found[way]['accuracy']:.2%}" for way in WAYS), everything["seconds"],
        found["mean"]["seconds"], f"{found['mean']['objective'] / everything['objective']:.4f}",
    ]  # fmt: skip
