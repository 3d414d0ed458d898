"""Seconds to the objective of Spark MLlib and of dask-ml, in one process and on two worker processes.

A peer fits with its own defaults for iterations and tolerance; its rows are cached or persisted in memory before the
clock starts. lineal minimises the same objective and is stopped after the first iteration that is not above the
peer's; the time is that of the whole call of `fit`. Everyone fits once untimed, then the median of the repetitions
counts. Objectives are computed from the weights by NumPy and SciPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.distributed.problems import DASK_ML_TASKS, SPARK_TASKS, Plan, Table, Task
from benchmarks.distributed.process import Outcome, Shared
from benchmarks.liblinear.exact import accuracy, objective
from benchmarks.liblinear.problems import Rows

#: Largest number of features for which dask-ml's Newton method, which stores a dense d × d Hessian, is run.
MOST_FEATURES = 2000

#: Relative distance from the peer's objective that counts as reached: rounding.
SLACK = 1e-9

SOLVERS = ("auto", "newton", "lbfgs")
ENGINES = {"1 process": {"engine": "local"}, "2 workers": {"engine": "dask"}}

SECONDS = (
    "data", "problem", "peer", "peer s", "objective",
    *(part for name in ENGINES for part in (f"lineal, {name} s", f"{name} ratio")),
)  # fmt: skip
MEMORY = ("data", "problem", "peer", "peer GB", *(f"lineal, {name} GB" for name in ENGINES))
ACCURACY = ("data", "problem", "peer", "peer", *(f"lineal, {name}" for name in ENGINES))
WARM_UP = ("data", "problem", "contestant", "start and load s", "first fit s", "median of the others s")
BY_SOLVER = ("data", "problem", "peer", "rows", *(f"{solver} s" for solver in SOLVERS))


class Peer(NamedTuple):
    """One solver of one peer on a task: its script and the options of the problem that it minimises."""

    name: str
    task: Task
    script: str
    options: dict[str, Any]


def peers_of(plan: Plan, rows: Rows) -> list[Peer]:
    """The peers that take these rows."""
    alpha = 1.0 / len(rows.y)
    found = [
        Peer("Spark", task, "spark_script", {"loss": task.loss, "alpha": alpha, "fit_intercept": True})
        for task in plan.of(SPARK_TASKS)
        if task.data == rows.name
    ]
    for task in [task for task in plan.of(DASK_ML_TASKS) if task.data == rows.name]:
        for solver in ("lbfgs", "admm", "gradient_descent", "newton"):
            if solver == "newton" and rows.X.shape[1] > MOST_FEATURES and not plan.is_slow:
                continue
            own = 0.0 if solver in ("gradient_descent", "newton") else alpha  # those two have no penalty
            options = {"loss": task.loss, "alpha": own, "fit_intercept": False, "solver": solver}
            found.append(Peer(f"dask-ml {solver}", task, "dask_ml_script", options))
    return found


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The tables and, for the file, everything that was tried."""
    details: list[dict[str, Any]] = []
    for name in dict.fromkeys(task.data for task in plan.of((*SPARK_TASKS, *DASK_ML_TASKS))):
        rows = plan.load(name)
        with Shared(rows.X, rows.y) as shared:
            details += [_compare(plan, rows, peer, shared) for peer in peers_of(plan, rows)]
    return tables(details), details


def tables(details: list[dict[str, Any]]) -> list[Table]:
    """The tables of a result."""
    return [
        Table("seconds", "Seconds to the peer's objective", SECONDS, [_seconds(found) for found in details]),
        Table("memory", "Most resident memory of all processes during the fits", MEMORY, [_memory(f) for f in details]),
        Table("accuracy", "Accuracy on the training data", ACCURACY, [_accuracy(found) for found in details]),
        Table("warm_up", "Seconds that are not in the ratios", WARM_UP, [r for f in details for r in _warm_up(f)]),
        Table("solvers", "Seconds of lineal's solvers", BY_SOLVER, [r for f in details for r in _by_solver(f)]),
    ]


def judged(outcome: Outcome, rows: Rows, options: dict[str, Any]) -> dict[str, Any]:
    """What a contestant said, with the objective and the accuracy of its weights."""
    found: dict[str, Any] = {"error": outcome.error, "peak_gb": outcome.peak_gb, **(outcome.answer or {})}
    if outcome.answer is not None:
        W, b = outcome.arrays["found_weights"], outcome.arrays["found_intercept"]
        found["median_seconds"] = float(np.median(outcome.answer["seconds"]))
        found["objective"] = objective(rows.X, rows.y, W, options["loss"], "l2", options["alpha"], b)
        found["accuracy"] = accuracy(rows.X, rows.y, W, b)
    return found


def _compare(plan: Plan, rows: Rows, peer: Peer, shared: Shared) -> dict[str, Any]:
    common = {"workers": plan.n_workers, "repeats": plan.repeats}
    outcome = shared.run(peer.script, plan.max_time, plan.peers_python, **peer.options, **common)
    theirs = judged(outcome, rows, peer.options)
    found: dict[str, Any] = {"data": rows.name, "problem": _problem(peer), "peer": peer.name, "theirs": theirs}
    found["ours"] = {name: {} for name in ENGINES}
    print(f"{peer.task}, {peer.name}: {theirs.get('median_seconds') or theirs['error']}", flush=True)
    for name, engine in ENGINES.items():
        for solver in _solvers(plan, peer) if "objective" in theirs else ():
            options = {**peer.options, "solver": solver, "goal": theirs["objective"], **engine, **common}
            own = judged(shared.run("lineal_script", plan.max_time, **options), rows, options)
            own["is_reached"] = own.get("objective", np.inf) <= theirs["objective"] * (1.0 + SLACK)
            found["ours"][name][solver] = own
            print(f"    lineal, {name}, {solver}: {own.get('median_seconds') or own['error']}", flush=True)
    return found


def _solvers(plan: Plan, peer: Peer) -> tuple[str, ...]:
    """Those that can minimise the loss; with --quick only the one that is chosen by default."""
    return SOLVERS[:1] if plan.is_quick or peer.options["loss"] == "hinge" else SOLVERS


def _problem(peer: Peer) -> str:
    words = [peer.task.loss]
    if not peer.options["fit_intercept"]:
        words.append("no intercept")
    if peer.options["alpha"] == 0.0:
        words.append("no penalty")
    return ", ".join(words)


def seconds_of(found: dict[str, Any], engine: str, solver: str) -> float | None:
    """Seconds of lineal to the objective of the peer, if it got there."""
    own = found["ours"][engine].get(solver, {})
    return own["median_seconds"] if own.get("is_reached") else None


def _head(found: dict[str, Any]) -> list[Any]:
    return [found["data"], found["problem"], found["peer"]]


def _seconds(found: dict[str, Any]) -> list[Any]:
    theirs = found["theirs"]
    value = f"{theirs['objective']:.6g}" if "objective" in theirs else "failed"
    row = [*_head(found), theirs.get("median_seconds"), value]
    for engine in ENGINES:
        own = seconds_of(found, engine, "auto")
        row += [own, None if own is None else theirs["median_seconds"] / own]
    return row


def _memory(found: dict[str, Any]) -> list[Any]:
    all_of = [found["theirs"], *(found["ours"][engine].get("auto", {}) for engine in ENGINES)]
    return [*_head(found), *(one["peak_gb"]["fit"] if "objective" in one else None for one in all_of)]


def _accuracy(found: dict[str, Any]) -> list[Any]:
    all_of = [found["theirs"], *(found["ours"][engine].get("auto", {}) for engine in ENGINES)]
    return [*_head(found), *(f"{one['accuracy']:.2%}" if "accuracy" in one else None for one in all_of)]


def _warm_up(found: dict[str, Any]) -> list[list[Any]]:
    named = {found["peer"]: found["theirs"]}
    named |= {f"lineal, {engine}": found["ours"][engine].get("auto", {}) for engine in ENGINES}
    return [
        [*_head(found)[:2], name, one.get("load_seconds"), one.get("warm_up_seconds"), one.get("median_seconds")]
        for name, one in named.items()
    ]


def _by_solver(found: dict[str, Any]) -> list[list[Any]]:
    return [[*_head(found), engine, *(seconds_of(found, engine, solver) for solver in SOLVERS)] for engine in ENGINES]
