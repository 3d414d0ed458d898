"""What happens to a fit when one worker process gets SIGKILL in the middle of it: measured, not looked up.

Each contestant fits undisturbed, and once more while a worker is killed after 40 % of the seconds of the first. Spark's
`local[2]` has no worker process: its partitions are in the JVM of the driver. So it runs as `local-cluster[2,1,4096]`
here, which has two executors in JVMs of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.distributed.peers import Peer, judged
from benchmarks.distributed.problems import ATTACKS, Plan, Table, Task
from benchmarks.distributed.process import Outcome, Shared

TITLE = "One of two worker processes is killed in the middle of a fit"
COLUMNS = (
    "data", "problem", "contestant", "undisturbed s", "killed after s", "outcome", "ended after s", "same objective",
    "same bits",
)  # fmt: skip

TASKS = (Task("wiki_toxicity", "logistic"), Task(ATTACKS, "logistic"))

#: Relative difference of two objectives that counts as none.
SAME = 1e-6


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    details: list[dict[str, Any]] = []
    for task in plan.of(TASKS):
        rows = plan.load(task.data)
        with Shared(rows.X, rows.y) as shared:
            for peer in _contestants(task, len(rows.y)):
                python = None if peer.script == "lineal_script" else plan.peers_python
                options = {**peer.options, "workers": 2, "repeats": 1, "kill": True}
                outcome = shared.run(peer.script, plan.max_time, python, **options)
                found = {"data": task.data, "problem": task.loss, "contestant": peer.name}
                found |= judged(outcome, rows, options)
                after = judged(outcome, rows, options, "found_killed")
                found["killed_objective"] = after.get("objective")
                found["same_bits"] = _same_bits(outcome)
                found["is_hanging"] = outcome.answer is None and outcome.phase == "kill"
                details.append(found)
                print(*_row(found), flush=True)
    return [Table("faults", TITLE, COLUMNS, [_row(found) for found in details])], details


def _contestants(task: Task, n: int) -> list[Peer]:
    common = {"loss": task.loss, "alpha": 1.0 / n, "fit_intercept": False}
    ours = {**common, "engine": "dask", "tol": 1e-6}
    return [
        Peer("Spark", task, "spark_script", {**common, "fit_intercept": True}),
        *(Peer(f"dask-ml {name}", task, "dask_ml_script", {**common, "solver": name}) for name in ("lbfgs", "admm")),
        *(Peer(f"lineal {name}", task, "lineal_script", {**ours, "solver": name}) for name in ("lbfgs", "newton")),
    ]


def _same_bits(outcome: Outcome) -> bool | None:
    if "found_killed_weights" not in outcome.arrays:
        return None
    return all(
        np.array_equal(outcome.arrays[f"found_{name}"], outcome.arrays[f"found_killed_{name}"])
        for name in ("weights", "intercept")
    )


def _row(found: dict[str, Any]) -> list[Any]:
    head = [found["data"], found["problem"], found["contestant"]]
    if "kill" not in found:
        text = f"hangs: {found['error']}" if found["is_hanging"] else found["error"]
        return [*head, found.get("median_seconds"), None, text, None, None, None]
    kill, is_same = found["kill"], None
    if found["killed_objective"] is not None:
        is_same = abs(found["killed_objective"] / found["objective"] - 1.0) <= SAME
    return [
        *head, found["median_seconds"], kill.get("killed_at"), kill["outcome"], kill.get("seconds"),
        _word(is_same), _word(found["same_bits"]),
    ]  # fmt: skip


def _word(found: bool | None) -> str | None:
    return None if found is None else "yes" if found else "no"
