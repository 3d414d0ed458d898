"""Table 1 of Agarwal et al. (2014) on generated clicks: linear models, bigrams, and adaptive products on top of both.

The paper has 690 million advertisements on 100 machines, which nobody else has; these are some million generated rows
(`clicks`) on this machine, with products and pairs of words that are known. As in the paper there are five passes,
α = 0.25 (`growth`), several learners whose weights are averaged after every pass, and the area under the ROC curve of
rows that are not learned from. With several learners parents are chosen in the first pass, with one learner in all of
them. Seconds are those of a single run of `fit`, with reading, once kernels are compiled and the files have been read.
"""

from __future__ import annotations

import inspect
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import lineal
from benchmarks.distributed import clicks
from benchmarks.distributed.clicks import Feature, Files
from benchmarks.distributed.problems import Plan, Table
from lineal.features import HashedTokens

COLUMNS = (
    "method", "learners", "passes", "seconds", "AUC", "parents", "products of the data that the model has",
    "held-out log loss",
)  # fmt: skip

#: Options beside those of all methods.
APPLE = {"expansion": "adaptive", "growth": 0.25}
METHODS: dict[str, dict[str, Any]] = {
    "lin": {}, "lin + apple": APPLE, "bigram": {"ngram": "query=2"}, "bigram + apple": {"ngram": "query=2", **APPLE},
}  # fmt: skip

LEARNERS = (1, 2)
BITS, QUICK_BITS = 22, 18
PASSES, QUICK_PASSES = 5, 2
QUICK_ROWS, WARM_UP_ROWS = 20_000, 2_000
PARTS, SEED = 8, 0

#: Bytes of text per row, with those of the test, which must be free.
ROW_BYTES = 160


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    rows = QUICK_ROWS if plan.is_quick else plan.rows
    with TemporaryDirectory(dir=plan.scratch) as folder:
        if shutil.disk_usage(folder).free < 2 * ROW_BYTES * rows:
            print(f"apple: {2 * ROW_BYTES * rows / 1e9:.1f} GB must be free in {folder}; name another by --scratch")
            return [Table("apple", "", COLUMNS, [])], []
        start = time.perf_counter()
        files = clicks.write(Path(folder), rows, PARTS, SEED)
        details = [{
            "rows": rows, "bytes": files.size, "clicks": float(files.test_clicks.mean()),
            "products": len(files.products),
            "best_auc": float(roc_auc_score(files.test_clicks, files.test_scores)),
            "written_seconds": time.perf_counter() - start,
        }]  # fmt: skip
        print(details[0], flush=True)
        (Path(folder) / "small").mkdir()
        small = clicks.write(Path(folder) / "small", WARM_UP_ROWS, PARTS, SEED)
        for method in plan.selected(METHODS):
            for learners in _learners():
                details.append(_measured(plan, method, learners, files, small))
                print(details[-1], flush=True)
    return [_table(details)], details


def _learners() -> tuple[int, ...]:
    """The numbers of learners that this version can have."""
    return LEARNERS if "learners" in inspect.signature(lineal.OnlineClassifier).parameters else (1,)


def _measured(plan: Plan, method: str, learners: int, files: Files, small: Files) -> dict[str, Any]:
    passes, bits = (QUICK_PASSES, QUICK_BITS) if plan.is_quick else (PASSES, BITS)
    options: dict[str, Any] = {"bits": bits, "passes": passes, "hold_out": 0, **METHODS[method]}
    if learners > 1:
        options["learners"] = learners
    lineal.OnlineClassifier(**options).fit([str(path) for path in small.train])
    start = time.perf_counter()
    model = lineal.OnlineClassifier(**options).fit([str(path) for path in files.train]).model_
    seconds = time.perf_counter() - start
    scores = model.decision_function(str(files.test))
    chosen = model.learner.parents.monomials
    return {
        "method": method, "learners": learners, "passes": passes, "bits": bits, "seconds": seconds,
        "auc": float(roc_auc_score(files.test_clicks, scores)),
        "log_loss": float(np.logaddexp(0.0, np.where(files.test_clicks, -scores, scores)).mean()),
        "parents": [list(map(int, monomial)) for monomial in chosen],
        "found": sum(_has(product, {*chosen}, bits) for product in files.products),
        "products": len(files.products),
    }  # fmt: skip


def _has(product: tuple[Feature, Feature], parents: set[tuple[int, ...]], bits: int) -> bool:
    """Whether one of two features is a parent, so that the model has their product."""
    return any((_column(feature, bits),) in parents for feature in product)


def _column(feature: Feature, bits: int) -> int:
    return int(HashedTokens(bits, namespace=feature.namespace).transform([[feature.name]]).indices[0])


def _table(details: list[dict[str, Any]]) -> Table:
    data, fits = details[0], details[1:]
    title = (
        f"Generated clicks: {data['rows']:,} rows, {data['bytes'] / 1e9:.2f} GB of text, single runs; the scores from "
        f"which the clicks were drawn have an AUC of {data['best_auc']:.4f}"
    )
    rows = [
        [
            one["method"], one["learners"], one["passes"], one["seconds"], f"{one['auc']:.5f}", len(one["parents"]),
            f"{one['found']} of {one['products']}" if one["parents"] else None, f"{one['log_loss']:.5f}",
        ]
        for one in fits
    ]  # fmt: skip
    return Table("apple", title, COLUMNS, rows)
