"""What a pass over the rows costs beyond the workers' computations, against the size of the parameters.

A pass sends the parameters to two worker processes and brings back the gradient of a softmax. The naive pass is the
usual one in Dask: parameters scattered to all workers, one task per partition, results gathered and added up on the
client. Both run the same step on the same rows, in turns. The overhead is the time of a pass on the client less the
time that the step takes on the worker that needs longest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from distributed import Client, get_worker
from scipy import sparse

from benchmarks.distributed.cluster import local_cluster
from benchmarks.distributed.problems import Plan, Table
from lineal import losses
from lineal.design import wrap
from lineal.engine.base import Block
from lineal.engine.dask.source import DaskSource
from lineal.engine.source import Labelled, RawRows
from lineal.engine.tree import add_along_tree
from lineal.problem.steps import LossGradient
from lineal.problem.targets import OneLabel

#: Bytes of the parameters, in float64.
SIZES = tuple(4000 * 2**power for power in (0, 4, 7, 10, 12, 13))

#: Classes, and rows per partition: few, so that the time is spent on parameters.
CLASSES, ROWS = 10, 200

#: Partitions per worker, and workers.
PARTS, WORKERS = (2, 4), 2

#: Passes of each kind per size.
PASSES, QUICK_PASSES = 30, 3

COLUMNS = (
    "parameters", "partitions", "ms", "ms of workers", "ms overhead", "naive ms", "naive ms of workers",
    "naive ms overhead", "overhead / naive",
)  # fmt: skip


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, every pass."""
    sizes = SIZES[:3] if plan.is_quick else SIZES
    passes = QUICK_PASSES if plan.is_quick else PASSES
    with local_cluster(WORKERS) as client:
        details = [measured(client, size, WORKERS * parts, passes) for parts in PARTS for size in sizes]
    table = [_row(one) for one in details]
    return [Table("overhead", f"Time of a pass beyond computations, {WORKERS} workers", COLUMNS, table)], details


def measured(client: Client, size: int, n_parts: int, passes: int) -> dict[str, Any]:
    """Milliseconds of all passes of both kinds for one size of the parameters."""
    d = size // (8 * CLASSES)
    workers = sorted(client.nthreads())
    owners = [workers[number * len(workers) // n_parts] for number in range(n_parts)]
    parts = [client.submit(_rows, number, d, workers=[owner], pure=False) for number, owner in enumerate(owners)]
    blocks = [
        client.submit(_block, part, n_parts * ROWS, workers=[owner], pure=False) for part, owner in zip(parts, owners)
    ]
    engine = DaskSource(client, parts).engine(_Encode(n_parts * ROWS), CLASSES, 1)
    step = LossGradient(losses.get("softmax"), fit_intercept=False)
    W, b = np.random.default_rng(0).normal(size=(d, CLASSES)), np.zeros(CLASSES)

    def ours() -> tuple[Any, float]:
        found = engine.sum(step, W, b)
        return found, max(report.seconds for report in engine.family.rounds.recent[-1])

    def naive() -> tuple[Any, float]:
        sent = client.scatter(W, broadcast=True, hash=False)
        tasks = [client.submit(_run, step, block, sent, b, pure=False) for block in blocks]
        answers = client.gather(tasks)
        by_worker: dict[str, float] = {}
        for _, seconds, worker in answers:
            by_worker[worker] = by_worker.get(worker, 0.0) + seconds
        return add_along_tree(found for found, _, _ in answers), max(by_worker.values())

    (value, gradient), _ = ours()
    (expected, other), _ = naive()
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, other, rtol=1e-9, atol=1e-12)
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "naive": []}
    for number in range(passes + 2):
        for name, function in (("ours", ours), ("naive", naive)):
            seconds = _timed(function)
            if number >= 2:
                found[name].append(seconds)
    about = {"bytes": size, "partitions": n_parts, **found}
    print(*_row(about), flush=True)
    return about


def _timed(function: Callable[[], tuple[Any, float]]) -> tuple[float, float]:
    """Seconds of a pass, and of the worker that took longest."""
    start = time.perf_counter()
    _, computing = function()
    return time.perf_counter() - start, computing


def _row(found: dict[str, Any]) -> list[Any]:
    row: list[Any] = [_size(found["bytes"]), found["partitions"]]
    overheads = []
    for name in ("ours", "naive"):
        overheads.append(statistics.median(1e3 * (whole - part) for whole, part in found[name]))
        row += [1e3 * statistics.median(seconds) for seconds in zip(*found[name])]
        row.append(overheads[-1])
    return [*row, f"{overheads[0] / overheads[1]:.2f}"]


def _size(count: int) -> str:
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


class _Encode:
    """Labels are the classes, and all rows have the same weight."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, rows: RawRows) -> Labelled:
        return Labelled(OneLabel(rows.y), np.full(len(rows.y), 1.0 / self.n), None)


def _rows(seed: int, d: int) -> RawRows:
    """Task: random sparse rows with ten entries each."""
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.integers(0, d, (ROWS, 10)), axis=1).astype(np.int32).ravel()
    X = sparse.csr_array((rng.normal(size=indices.size), indices, np.arange(0, indices.size + 1, 10)), shape=(ROWS, d))
    X.sum_duplicates()
    return RawRows(X, rng.integers(0, CLASSES, ROWS).astype(np.int32))


def _block(rows: RawRows, n: int) -> Block:
    """Task: the rows as a block."""
    labelled = _Encode(n)(rows)
    return Block(wrap(rows.X), labelled.targets, labelled.weights, None, 1)


def _run(step: Any, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[Any, float, str]:
    """Task of a naive pass."""
    start = time.perf_counter()
    found = step(block, W, b)
    return found, time.perf_counter() - start, get_worker().address
