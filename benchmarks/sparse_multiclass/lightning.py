"""Seconds to the objective that lightning has after 200 iterations, and at its own stop.

lightning's CDClassifier (l1/l2, multiclass squared hinge, C = 1/n, cyclic) runs in its own interpreter, in float64,
timed around `fit` with its layout made beforehand. lineal's clock runs from the matrix in memory (rows of a sparse X, a
dense one in C order) until an iteration's objective is within `SLACK` of lightning's; both objectives are computed from
the weights by NumPy and SciPy. The second row of a problem is lightning stopped by its default tol, the third (with
--slow) lightning without shrinking, which at tol=0 may drop rows of W that should move.
"""

from __future__ import annotations

from typing import Any

from benchmarks.liblinear.problems import Rows
from benchmarks.sparse_multiclass import exact, ours
from benchmarks.sparse_multiclass.elsewhere import Elsewhere
from benchmarks.sparse_multiclass.problems import MEDIUM, STRONG, Plan, Table

TITLE = "Seconds to lightning's objective, multiclass squared hinge, l1/l2, no intercept"
COLUMNS = (
    "data", "λ", "lightning stops", "lightning s", "objective", "non-zero rows",
    *(part for name, _, _ in ours.SETTINGS for part in (f"{name} s", f"{name} ratio")),
)  # fmt: skip

#: lightning's iterations, tolerance and shrinking; the first is what lineal is judged by, the last needs --slow.
STOPS = {
    "after 200 iterations": {"max_iter": 200, "tol": 0.0, "shrinking": True},
    "by tol=1e-3": {"max_iter": 200, "tol": 1e-3, "shrinking": True},
    "after 200, no shrinking": {"max_iter": 200, "tol": 0.0, "shrinking": False},
}

#: Relative distance from lightning's objective that counts as reached, by the precision: rounding.
SLACK = {"float32": 1e-6, "float64": 1e-9}

#: Seconds of lightning at most.
MAX_SECONDS = 3600.0


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    table: list[list[Any]] = []
    details: list[dict[str, Any]] = []
    if plan.lightning is None:
        print("lightning: give its interpreter by --lightning PYTHON", flush=True)
        return [Table("lightning", TITLE, COLUMNS, table)], details
    for name in plan.lightning_sets():
        rows = plan.load(name)
        with Elsewhere(plan.lightning, rows.X, rows.y) as peer:
            for alpha in (STRONG, MEDIUM):
                for stop in list(STOPS)[: None if plan.is_slow else 2]:
                    found = _compare(plan, rows, alpha, stop, peer)
                    if found is not None:
                        table.append(_row(found))
                        details.append(found)
                        print(f"{name}, λ = {alpha:g}, {stop}: ratio {ours.show(table[-1][7])}", flush=True)
    return [Table("lightning", TITLE, COLUMNS, table)], details


def _compare(plan: Plan, rows: Rows, alpha: float, stop: str, peer: Elsewhere) -> dict[str, Any] | None:
    answer = peer.run("lightning_script.py", MAX_SECONDS, alpha=alpha, repeats=plan.repeats, **STOPS[stop])
    if answer is None:
        return None
    W = answer.pop("weights")
    value = exact.objective(rows.X, rows.y, W, ours.LOSS, alpha)
    found: dict[str, Any] = {
        "data": rows.name, "alpha": alpha, "stop": stop, "peer": answer, "objective": value,
        "live_rows": exact.live_rows(W), "warm_up_seconds": 0.0, "lineal": {},
    }  # fmt: skip
    for label, dtype, n_jobs in ours.SETTINGS:
        X = rows.as_type(dtype)
        if n_jobs is None:
            found["warm_up_seconds"] += ours.warm_up(X, rows.y, alpha)
        goal = value * (1.0 + SLACK[str(X.dtype)])
        one = ours.time_to(X, rows.y, alpha, goal, n_jobs, plan.max_time, plan.repeats)
        if one["objective"] is not None:
            one["above"] = one["objective"] / value - 1.0
        found["lineal"][label] = one
    return found


def _row(found: dict[str, Any]) -> list[Any]:
    seconds = found["peer"]["seconds"]
    row = [
        found["data"], f"{found['alpha']:g}", found["stop"], seconds, f"{found['objective']:.7g}",
        f"{found['live_rows']:.1%}",
    ]  # fmt: skip
    for label, _, _ in ours.SETTINGS:
        own = found["lineal"][label]["seconds"]
        row += [own, None if own is None else seconds / own]
    return row
