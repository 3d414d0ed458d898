"""What it takes to minimise on worker processes: rounds, bytes and seconds, and how that changes with their number.

Every worker is a process with one thread. `rounds` goes to certified relative gaps on real documents. The other tables
repeat a fixed number of L-BFGS iterations on generated dense rows with many classes, which keep the processor busy and
not the network: strong scaling cuts the same rows into more partitions, weak scaling adds rows with the partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.distributed.peers import judged
from benchmarks.distributed.problems import Plan, Table, Task
from benchmarks.distributed.process import Shared
from benchmarks.liblinear.problems import Rows

TASKS = (Task("wiki_toxicity", "logistic"), Task("20newsgroups", "softmax"))
SOLVERS = ("newton", "lbfgs")
TOLERANCES = (1e-2, 1e-3, 1e-4)

#: Partitions per worker.
PARTS = (1, 2, 4)

#: Features, classes and rows per partition of the generated rows; with --quick few.
WIDTH, CLASSES, ROWS = 400, 50, 25_000
QUICK = 20, 5, 500

#: Iterations of the fits of the generated rows.
ITERATIONS = 20

TO_GAP = ("data", "problem", "solver", "gap", "iterations", "rounds", "MB", "s", "ms per round")
PARTITIONS = ("scaling", "partitions per worker", "rows", "rounds", "MB", "s", "µs per row and iteration", "speed")
WORKERS = ("rows", "features × classes", "engine", "cores", "s", "speed-up")


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The tables and, for the file, everything that was tried."""
    details = [*_to_gaps(plan), *_partitions(plan), *_workers(plan)]
    return tables(details), details


def tables(details: list[dict[str, Any]]) -> list[Table]:
    """The tables of a result."""
    by_kind = {kind: [one for one in details if one["kind"] == kind] for kind in ("gap", "partitions", "workers")}
    return [
        Table("rounds", "Rounds, bytes and seconds to a relative gap on 2 workers", TO_GAP, _gap_rows(by_kind["gap"])),
        Table("partitions", "Partitions per worker, 2 workers", PARTITIONS, _partition_rows(by_kind["partitions"])),
        Table("workers", "Two workers against one", WORKERS, _worker_rows(by_kind["workers"])),
    ]


def _to_gaps(plan: Plan) -> list[dict[str, Any]]:
    details = []
    for task in plan.of(TASKS):
        rows = plan.load(task.data)
        with Shared(rows.X, rows.y) as shared:
            for solver in SOLVERS:
                for tol in TOLERANCES:
                    about = {"kind": "gap", "data": task.data, "solver": solver, "tol": tol}
                    details.append(_run(plan, shared, rows, about, loss=task.loss, solver=solver, tol=tol, workers=2))
    return details


def _partitions(plan: Plan) -> list[dict[str, Any]]:
    details = []
    for number in PARTS:
        for scaling, units in (("strong", 2 * max(PARTS)), ("weak", 2 * number)):
            if scaling == "weak" and number == max(PARTS):
                details.append({**details[-1], "scaling": "weak"})  # the same rows in the same partitions
                continue
            rows = generated(plan, units)
            with Shared(rows.X, rows.y) as shared:
                about = {"kind": "partitions", "scaling": scaling, "partitions": number}
                details.append(_fixed(plan, shared, rows, about, workers=2, parts=2 * number))
    return details


def _workers(plan: Plan) -> list[dict[str, Any]]:
    rows, details = generated(plan, 2 * max(PARTS)), []
    with Shared(rows.X, rows.y) as shared:
        for cores in (1, 2):
            about = {"kind": "workers", "cores": cores, "d": rows.X.shape[1], "k": rows.n_classes}
            details.append(_fixed(plan, shared, rows, {**about, "engine": "dask"}, workers=cores, parts=4))
            details.append(_fixed(plan, shared, rows, {**about, "engine": "local"}, engine="local", n_jobs=cores))
    return details


def generated(plan: Plan, units: int) -> Rows:
    """Dense rows of a softmax model with noise: so many partitions of them."""
    d, k, per_unit = QUICK if plan.is_quick else (WIDTH, CLASSES, ROWS)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(units * per_unit, d))
    scores = X @ (rng.normal(size=(d, k)) / np.sqrt(d)) + 0.3 * rng.gumbel(size=(len(X), k))
    return Rows("generated", X, np.unique(scores.argmax(axis=1), return_inverse=True)[1])


def _fixed(plan: Plan, shared: Shared, rows: Rows, about: dict[str, Any], **options: Any) -> dict[str, Any]:
    work = {"loss": "softmax", "solver": "lbfgs", "tol": 1e-14, "max_iter": ITERATIONS}
    return _run(plan, shared, rows, about, **work, **options)


def _run(plan: Plan, shared: Shared, rows: Rows, about: dict[str, Any], **options: Any) -> dict[str, Any]:
    given = {"engine": "dask", "alpha": 1.0 / len(rows.y), "repeats": plan.repeats, **options}
    found = {**about, "n": len(rows.y), "problem": given["loss"]}
    found |= judged(shared.run("lineal_script", plan.max_time, **given), rows, given)
    print(*about.values(), found.get("median_seconds") or found["error"], flush=True)
    return found


def _gap_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    return [
        [
            one["data"], one["problem"], one["solver"], f"{one['tol']:g}", one.get("iterations"), one.get("rounds"),
            one.get("megabytes"), one.get("median_seconds"), _ratio(1e3, one.get("median_seconds"), one.get("rounds")),
        ]
        for one in details
    ]  # fmt: skip


def _partition_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    found = []
    for one in sorted(details, key=lambda one: one["scaling"]):
        first = next(other for other in details if other["scaling"] == one["scaling"])
        per_row = [_ratio(1e6, x.get("median_seconds"), x["n"] * (x.get("iterations") or 0)) for x in (one, first)]
        found.append([
            one["scaling"], one["partitions"], one["n"], one.get("rounds"), one.get("megabytes"),
            one.get("median_seconds"), per_row[0], _percent(per_row[1], per_row[0]),
        ])  # fmt: skip
    return found


def _worker_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    found = []
    for one in sorted(details, key=lambda one: one["engine"]):
        base = next(other for other in details if other["engine"] == one["engine"])
        speed = _ratio(1.0, base.get("median_seconds"), one.get("median_seconds"))
        shape = f"{one['d']} × {one['k']}"
        found.append([
            one["n"], shape, one["engine"], one["cores"], one.get("median_seconds"), speed and f"{speed:.2f}×",
        ])  # fmt: skip
    return found


def _ratio(scale: float, part: float | None, whole: float | None) -> float | None:
    return scale * part / whole if part and whole else None


def _percent(part: float | None, whole: float | None) -> str | None:
    return f"{part / whole:.0%}" if part and whole else None
