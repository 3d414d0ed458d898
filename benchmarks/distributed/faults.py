"""What happens to a fit when one worker process gets SIGKILL in the middle of it: measured, not looked up.

Each contestant fits undisturbed, and then several times more, while one of its two workers is killed after 20, 40, 60
and 80 % of the seconds of an undisturbed fit. One that has not done all of them after an hour (`--seconds`) hangs.
Spark's `local[2]` has no worker process: its partitions are in the JVM of the driver. So it runs as
`local-cluster[2,1,4096]` here, which has two executors in JVMs of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from benchmarks.distributed.peers import Peer, judged
from benchmarks.distributed.problems import ATTACKS, Plan, Table, Task
from benchmarks.distributed.process import Outcome, Shared

TITLE = "One of two worker processes is killed in the middle of a fit"
COLUMNS = (
    "data", "problem", "contestant", "undisturbed s", "kills", "finished", "median of these s", "same bits",
    "largest relative difference of the weights", "other outcomes",
)  # fmt: skip

TASKS = (Task("wiki_toxicity", "logistic"), Task(ATTACKS, "logistic"), Task("20newsgroups", "softmax"))


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    details: list[dict[str, Any]] = []
    for task in plan.of(TASKS):
        rows = plan.load(task.data)
        with Shared(rows.X, rows.y) as shared:
            for peer in _contestants(task, len(rows.y)):
                python = None if peer.script == "lineal_script" else plan.peers_python
                options = {**peer.options, "workers": 2, "repeats": plan.repeats, "kill": True}
                outcome = shared.run(peer.script, plan.max_time, python, **options)
                found = {"data": task.data, "problem": task.loss, "contestant": peer.name}
                details.append(found | judged(outcome, rows, options) | {"trials": _trials(outcome)})
                print(*_row(details[-1]), flush=True)
    return [Table("faults", TITLE, COLUMNS, [_row(found) for found in details])], details


def _contestants(task: Task, n: int) -> list[Peer]:
    common = {"loss": task.loss, "alpha": 1.0 / n, "fit_intercept": False}
    ours = {**common, "engine": "dask", "tol": 1e-6}
    binary_only = () if task.loss == "softmax" else ("lbfgs", "admm")
    return [
        Peer("Spark", task, "spark_script", {**common, "fit_intercept": True}),
        *(Peer(f"dask-ml {name}", task, "dask_ml_script", {**common, "solver": name}) for name in binary_only),
        *(Peer(f"lineal {name}", task, "lineal_script", {**ours, "solver": name}) for name in ("lbfgs", "newton")),
    ]


def _trials(outcome: Outcome) -> list[dict[str, Any]]:
    """What came of each kill; a contestant that did not answer in time hangs in its last one."""
    is_hanging = outcome.is_late and outcome.phase.startswith("kill")
    return [*outcome.trials, *([{"outcome": f"hangs: {outcome.error}"}] if is_hanging else [])]


def _row(found: dict[str, Any]) -> list[Any]:
    head, trials = [found["data"], found["problem"], found["contestant"], found.get("median_seconds")], found["trials"]
    if not trials:
        return [*head, None, None, None, None, None, found["error"]]
    finished = [one for one in trials if one["outcome"] == "finished"]
    others = Counter(one["outcome"] for one in trials if one["outcome"] != "finished")
    text = "; ".join(f"{count} × {outcome[:120]}" for outcome, count in others.items()) or None
    if not finished:
        return [*head, len(trials), 0, None, None, None, text]
    return [
        *head, len(trials), len(finished), float(np.median([one["seconds"] for one in finished])),
        "yes" if all(one["same_bits"] for one in finished) else "no",
        f"{max(one['difference'] for one in finished):.1e}", text,
    ]  # fmt: skip
