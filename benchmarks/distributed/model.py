"""A cost model of training on a cluster, fitted to measurements on this machine; `docs/scale.md` explains it.

Measured: seconds per entry of a gradient pass and of an online pass over sparse rows with 2^24 features, on one core,
and milliseconds per pass and per megabyte of parameters on a local cluster, from the part `rounds`. Predicted: the
minutes of the experiment of Agarwal et al. that the talk quotes, 17 billion rows with 16 million features on 1000 nodes
in 70 minutes.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.distributed import rounds
from benchmarks.distributed.cluster import local_cluster
from benchmarks.distributed.problems import Plan, Table
from lineal import losses
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.problem.steps import LossGradient
from lineal.problem.targets import OneLabel
from lineal.solvers.hybrid.hybrid import Online

MEASURED = ("what", "value")
PREDICTED = (
    "network",
    "load the rows, min",
    "online pass, min",
    "L-BFGS, min",
    "messages, min",
    "all, min",
    "published",
)

#: Rows and features of the measurement, and entries per row; with --quick few.
ROWS, WIDTH, ENTRIES = 1_000_000, 1 << 24, 100
QUICK = 20_000, 1 << 16


class Cluster(NamedTuple):
    """The experiment: rows, features, entries per row, nodes, passes of L-BFGS, and minutes that were published."""

    rows: float = 17e9
    features: float = 16e6
    entries: float = 125.0
    nodes: int = 1000
    passes: int = 25
    published: float = 70.0


class Network(NamedTuple):
    """Bytes per second of a link, and of the disk of a node."""

    name: str
    link: float
    disk: float


NETWORKS = (
    Network("1 Gb/s, as in 2011", 125e6, 100e6),
    Network("10 Gb/s", 1.25e9, 1e9),
    Network("as between processes here", np.nan, 1e9),
)


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The tables and, for the file, the measurements."""
    found = {**_compute(plan), **_messages(plan)}
    cluster = Cluster()
    measured: list[list[Any]] = [
        ["gradient pass, ns per entry", 1e9 * found["gradient"]],
        ["online pass, ns per entry", 1e9 * found["online"]],
        ["fixed cost of a pass, ms", 1e3 * found["fixed"]],
        ["parameters, ms per MB and pass", 1e9 * found["per_byte"]],
    ]
    predicted = [_predicted(found, cluster, network) for network in NETWORKS]
    return [
        Table("measured", "Measured here, one core per worker", MEASURED, measured),
        Table("predicted", f"{cluster.rows:.2g} rows on {cluster.nodes} nodes", PREDICTED, predicted),
    ], [found]


def _compute(plan: Plan) -> dict[str, Any]:
    """Seconds per entry of the passes, on one core."""
    n, d = QUICK if plan.is_quick else (ROWS, WIDTH)
    rng = np.random.default_rng(0)
    indices = np.minimum(np.exp(rng.random((n, ENTRIES), np.float32) * np.log(d)), d - 1).astype(np.int32)
    indices.sort(axis=1)
    indptr = np.arange(0, n * ENTRIES + 1, ENTRIES, dtype=np.int64)
    X = wrap(sparse.csr_array((np.ones(n * ENTRIES, np.float32), indices.reshape(-1), indptr), shape=(n, d)))
    targets = OneLabel(rng.integers(-1, 1, n).astype(np.int32))
    engine = LocalEngine(X, targets, np.full(n, 1.0 / n), 1, None, 1)
    loss, theta = losses.get("logistic"), np.zeros((d + 1, 1), np.float32)
    gradient = _least(lambda: engine.sum(LossGradient(loss, True), theta[:d], theta[d]), plan.repeats)
    step, inverses = Online(loss, True, 0), np.ones(d, np.float32)
    online = _least(lambda: engine.sum(step, theta, theta, inverses, 0.1, 0), plan.repeats)
    stored = float(X.stored)
    return {"gradient": gradient / stored, "online": online / stored, "n": n, "d": d}


def _least(function: Any, repeats: int) -> float:
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _messages(plan: Plan) -> dict[str, Any]:
    """Fixed seconds of a pass on a local cluster, and seconds per byte of the parameters, by least squares."""
    sizes = rounds.SIZES[:3] if plan.is_quick else rounds.SIZES
    passes = rounds.QUICK_PASSES if plan.is_quick else rounds.PASSES
    with local_cluster(rounds.WORKERS) as client:
        details = [rounds.measured(client, size, rounds.WORKERS, passes) for size in sizes]
    overhead = [float(np.median([whole - part for whole, part in one["ours"]])) for one in details]
    per_byte, fixed = np.polyfit(np.array(sizes, float), overhead, 1, w=1.0 / np.array(overhead))
    return {"fixed": float(fixed), "per_byte": float(per_byte), "sizes": list(sizes), "overhead": overhead}


def _predicted(found: dict[str, Any], cluster: Cluster, network: Network) -> list[Any]:
    """Minutes of each part, for one core per node."""
    entries = cluster.rows * cluster.entries / cluster.nodes
    load = entries * 6.0 / network.disk  # 6 bytes per entry of compressed text
    online, gradients = entries * found["online"], cluster.passes * entries * found["gradient"]
    size, levels = 8.0 * cluster.features, np.ceil(np.log2(cluster.nodes))
    # Parameters go down and sums come up a binary tree, in pieces, so that levels work side by side.
    per_pass = 2.0 * size / network.link if np.isfinite(network.link) else found["per_byte"] * size
    messages = (cluster.passes + 1) * (levels * found["fixed"] + per_pass)
    parts = [load, online, gradients, messages]
    return [network.name, *(seconds / 60.0 for seconds in parts), sum(parts) / 60.0, cluster.published]
