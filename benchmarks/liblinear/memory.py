"""The most memory that a fit allocates on top of its data, next to the weights W and the dual variables α.

Counted by tracemalloc: every NumPy array that Python code allocates, but not the scratch arrays inside of kernels,
which are a few rows long.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from benchmarks.liblinear import ours
from benchmarks.liblinear.problems import Plan, Task

TITLE = "Peak memory of a fit, squared hinge (MB)"
COLUMNS = (
    "data",
    "precision",
    "solver",
    "data MB",
    "W MB",
    "dual variables MB",
    "peak extra MB",
    "extra / (W + α)",
)


def rows_of(plan: Plan) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """The table; the file has nothing more."""
    table: list[list[Any]] = []
    for name in plan.selected(["banking77"] if plan.is_quick else ["20newsgroups", "wiki_toxicity"]):
        rows, task = plan.load(name), Task(name, "squared_hinge")
        for dtype in (np.float32, np.float64):
            X, n = rows.as_type(dtype), len(rows.y)
            options = {"alpha": 1.0 / n, "tol": 1e-3, "max_time": plan.max_time}
            ours.warm_up(X, rows.y, task, **options)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            _, model, _ = ours.run(X, rows.y, task, **options)
            extra = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
            data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
            k, size = model.weights.shape[1], np.dtype(dtype).itemsize
            dual = n * k * size
            parts = [data, model.weights.nbytes, dual, extra]
            table.append(
                [name, np.dtype(dtype).name, ours.default(X, rows.y, task, 1.0 / n), *(part / 2**20 for part in parts),
                 extra / (model.weights.nbytes + dual)]
            )  # fmt: skip
    return table, []
