"""Which method, on two workers: rounds, bytes and seconds to objectives near the minimum; and the hybrid by itself.

Distances are relative, from the minimum that a tight fit found. The clock stops when `fit` has returned, which it does
after the first iteration that is close enough. Averaging has no tolerance: it does one round, and the table shows how
far from the minimum it ends. The second table is about one process and two workers, to one per cent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import lineal
from benchmarks.distributed.peers import judged
from benchmarks.distributed.problems import Plan, Table, Task
from benchmarks.distributed.process import Shared
from benchmarks.liblinear.problems import Rows

TASKS = (Task("wiki_toxicity", "logistic"), Task("20newsgroups", "softmax"))
HYBRID_TASKS = (Task("MNIST", "softmax"), Task("kddcup99", "softmax"))
METHODS = ("newton", "lbfgs", "hybrid", "admm", "averaging")
TARGETS = (1e-2, 1e-3, 1e-4)

ENGINES = {"1 process": {"engine": "local", "n_jobs": 2}, "2 workers": {"engine": "dask", "workers": 2}}

COLUMNS = ("data", "problem", "method", "distance", "iterations", "rounds", "MB", "s", "reached")
HYBRID = ("data", "rows are in", "lbfgs iterations", "lbfgs s", "hybrid iterations", "hybrid s", "hybrid / lbfgs")

#: Seconds of one contestant at most, with all of its fits.
PATIENCE = 600.0


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The tables and, for the file, everything that was tried."""
    details = [*_methods(plan), *_hybrid(plan)]
    by_kind = {kind: [one for one in details if one["kind"] == kind] for kind in ("method", "hybrid")}
    title = "Rounds, bytes and seconds to a relative distance from the minimum, 2 workers"
    return [
        Table("methods", title, COLUMNS, [_method_row(one) for one in by_kind["method"]]),
        Table("hybrid", "Seconds to 1 % above the minimum", HYBRID, _hybrid_rows(by_kind["hybrid"])),
    ], details


def _methods(plan: Plan) -> list[dict[str, Any]]:
    details = []
    for task in plan.of(TASKS):
        rows = plan.load(task.data)
        least = _least(rows, task.loss)
        with Shared(rows.X, rows.y) as shared:
            for method in METHODS:
                for target in TARGETS if method != "averaging" else (np.inf,):
                    about = {"kind": "method", "data": task.data, "method": method, "target": target}
                    details.append(_run(plan, shared, rows, about, task.loss, least, ENGINES["2 workers"]))
    return details


def _hybrid(plan: Plan) -> list[dict[str, Any]]:
    details = []
    for task in plan.of(HYBRID_TASKS):
        rows = plan.load(task.data)
        least = _least(rows, task.loss)
        with Shared(rows.X, rows.y) as shared:
            for place, engine in ENGINES.items():
                for method in ("lbfgs", "hybrid"):
                    about = {"kind": "hybrid", "data": task.data, "place": place, "method": method, "target": 1e-2}
                    details.append(_run(plan, shared, rows, about, task.loss, least, engine))
    return details


def _least(rows: Rows, loss: str) -> float:
    """The least objective, by a tight fit in this process: its lower bound."""
    model = lineal.LinearClassifier(loss=loss, alpha=1.0 / len(rows.y), tol=1e-5, max_iter=5000).fit(rows.X, rows.y)
    bound = model.certificate_.dual
    return float(model.certificate_.primal if bound is None else bound)


def _run(
    plan: Plan, shared: Shared, rows: Rows, about: dict[str, Any], loss: str, least: float, engine: dict[str, Any]
) -> dict[str, Any]:
    options = {"loss": loss, "alpha": 1.0 / len(rows.y), "repeats": plan.repeats, "solver": about["method"], **engine}
    if np.isfinite(about["target"]):
        options["goal"] = least * (1.0 + about["target"])
    else:
        options |= {"tol": 1e-3, "max_iter": 100}
    found = {**about, "n": len(rows.y), "problem": loss, "least": least}
    found |= judged(shared.run("lineal_script", min(plan.max_time, PATIENCE), **options), rows, options)
    print(*about.values(), found.get("median_seconds") or found["error"], flush=True)
    return found


def _method_row(one: dict[str, Any]) -> list[Any]:
    reached = f"{one['objective'] / one['least'] - 1.0:.1e}" if "objective" in one else one["error"]
    wanted = f"{one['target']:g}" if np.isfinite(one["target"]) else "one round"
    return [
        one["data"], one["problem"], one["method"], wanted, one.get("iterations"), one.get("rounds"),
        one.get("megabytes"), one.get("median_seconds"), reached,
    ]  # fmt: skip


def _hybrid_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    found = []
    for place, plain in [(one["place"], one) for one in details if one["method"] == "lbfgs"]:
        other = next(
            one for one in details if (one["data"], one["place"], one["method"]) == (plain["data"], place, "hybrid")
        )
        seconds = plain.get("median_seconds"), other.get("median_seconds")
        ratio = f"{seconds[1] / seconds[0]:.2f}" if seconds[0] and seconds[1] else None
        found.append(
            [plain["data"], place, plain.get("iterations"), seconds[0], other.get("iterations"), seconds[1], ratio]
        )
    return found
