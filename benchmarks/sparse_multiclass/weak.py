"""What a weak penalty costs: seconds to a relative duality gap of 1e-3, certified, from λ = 1e-3 down to 1e-5."""

from __future__ import annotations

from typing import Any

from benchmarks.sparse_multiclass import exact, ours
from benchmarks.sparse_multiclass.problems import MEDIUM, STRONG, WEAK, Plan, Table

TITLE = "Seconds to a relative gap of 1e-3, multiclass squared hinge, l1/l2"
COLUMNS = ("data", "setting", "λ", "seconds", "iterations", "gap", "non-zero rows", "times λ = 1e-3")
TOL = 1e-3


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table; the file has the warm-up besides."""
    table: list[list[Any]] = []
    details: list[dict[str, Any]] = []
    for name in plan.weak_sets():
        rows = plan.load(name)
        for label, dtype, n_jobs in ours.SETTINGS:
            X, first = rows.as_type(dtype), None
            warm = ours.warm_up(X, rows.y, MEDIUM)
            for alpha in (STRONG, MEDIUM, WEAK):
                runs = [ours.run(X, rows.y, alpha, TOL, n_jobs=n_jobs) for _ in range(plan.repeats)]
                seconds, solution = min(runs, key=lambda one: one[0])
                first = first or seconds
                table.append([
                    name, label, f"{alpha:g}", seconds, int(solution.history[-1]["iteration"]),
                    solution.certificate.value, f"{exact.live_rows(solution.weights):.1%}", seconds / first,
                ])  # fmt: skip
                details.append({"data": name, "setting": label, "alpha": alpha, "history": solution.history})
            details[-1]["warm_up_seconds"] = warm
            print(f"{name}, {label}: λ = 1e-5 takes {table[-1][7]:.2f} times as long as 1e-3", flush=True)
    return [Table("weak", TITLE, COLUMNS, table)], details
