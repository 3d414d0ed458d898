"""Time to a relative distance of 1e-3 and of 1e-4 from the least objective: lineal against the fastest peer."""

from __future__ import annotations

from typing import Any

from benchmarks.liblinear import ours, peers
from benchmarks.liblinear.exact import objective
from benchmarks.liblinear.problems import TARGETS, Plan, Rows, Task

TITLE = "Seconds to a relative suboptimality, C = 1, no intercept"
COLUMNS = (
    "data", "problem", "target", "fastest peer", "peer s", "f32 s", "f32 ratio", "f64 s", "f64 ratio",
    "1 thread f32 ratio",
)  # fmt: skip

#: A reference whose gap is larger deserves a remark.
DOUBTFUL = 1e-5


def rows_of(plan: Plan) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    table: list[list[Any]] = []
    details = []
    for task in plan.tasks():
        if not ours.capable(task):
            print(f"{task.data}, {task}: no solver of lineal takes it yet", flush=True)
            continue
        detail = compare(plan, task)
        details.append(detail)
        table += detail.pop("table")
        found = ", ".join("–" if row[6] is None else f"{row[6]:.2f}" for row in table[-len(TARGETS) :])
        doubt = f"; the least objective is known to {detail['reference_gap']:.1e} only"
        print(f"{task.data}, {task}: ratios {found}{doubt if detail['reference_gap'] > DOUBTFUL else ''}", flush=True)
    return table, details


def compare(plan: Plan, task: Task) -> dict[str, Any]:
    """All tries of one problem, and its rows of the table."""
    rows = plan.load(task.data)
    tests = _tests(plan, rows, task)
    warm = sum(ours.warm_up(X, rows.y, task, **options) for _, X, options, _ in tests)
    least, gap = ours.reference(plan, rows, task)
    goals = [least * (1.0 + target) for target in TARGETS]

    def value_of(model: Any) -> float:
        return objective(rows.X, rows.y, model.weights, task.loss, task.penalty, 1.0 / len(rows.y))

    found = {
        name: ours.descend(X, rows.y, task, value_of, goals, repeats, **options) for name, X, options, repeats in tests
    }
    theirs = peers.race(rows, task, goals, plan.is_quick)
    return {
        "data": task.data, "problem": str(task), "reference": least, "reference_gap": gap, "warm_up_seconds": warm,
        "auto": ours.default(rows.X, rows.y, task, 1.0 / len(rows.y)), "lineal": found, "peers": theirs,
        "table": [_row(task, target, goal, found, theirs) for target, goal in zip(TARGETS, goals)],
    }  # fmt: skip


def _tests(plan: Plan, rows: Rows, task: Task) -> list[tuple[str, Any, dict[str, Any], int]]:
    """Name, X, options and repetitions: solver="auto" in every setting; with --slow the others in the first, once."""
    common = {"alpha": 1.0 / len(rows.y), "max_time": plan.max_time}
    matrices = {dtype: rows.as_type(dtype) for _, dtype, _ in ours.SETTINGS}
    tests = [
        (name, matrices[dtype], {**common, "solver": "auto", "n_jobs": n_jobs}, plan.repeats)
        for name, dtype, n_jobs in ours.SETTINGS
    ]
    name, X, options, _ = tests[0]
    default = ours.default(X, rows.y, task, common["alpha"])
    others = [solver for solver in ours.capable(task) if solver != default] if plan.is_slow else []
    return tests + [(f"{name}, {solver}", X, {**options, "solver": solver}, 1) for solver in others]


def _row(task: Task, target: float, goal: float, found: dict[str, Any], theirs: list[dict[str, Any]]) -> list[Any]:
    peer = ours.fastest(theirs, goal)
    seconds = [(ours.fastest(found[name], goal) or {}).get("seconds") for name, _, _ in ours.SETTINGS]
    single, double, one_thread = (peer["seconds"] / one if peer and one else None for one in seconds)
    label = f"{peer['peer']} {peer['setting']}" if peer else None
    return [
        task.data, str(task), f"{target:g}", label, peer and peer["seconds"], seconds[0], single, seconds[1], double,
        one_thread,
    ]  # fmt: skip
