"""Rows of W that a duality gap proves to be zero, whether that is true, and how many visits of rows are saved.

The reference is a solution with a gap of 1e-10 (or as small as it gets; the gap is printed). At solutions of larger
gaps `lineal.solvers.block_cd.screening.safe_zeros` says which rows are surely zero; none of them may be non-zero in
the reference. Visits are counted sweep by sweep in a run to a gap of 1e-6: as it is, with nothing ever screened, and
as if every sweep went over all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.liblinear.problems import Rows
from benchmarks.sparse_multiclass import ours
from benchmarks.sparse_multiclass.problems import MEDIUM, STRONG, WEAK, Plan, Table
from lineal.solvers.block_cd import weight_groups
from lineal.solvers.block_cd.screening import safe_zeros

TITLE = "Rows that are proven to be zero at a relative gap, and whether they are"
COLUMNS = ("data", "λ", "reference gap", "non-zero rows", "tolerance", "gap", "screened", "of all", "wrongly screened")
VISITS_TITLE = "Visits of rows on the way to a gap of 1e-6"
VISITS_COLUMNS = (
    "data", "λ", "rows", "sweeps", "visits", "without screening", "every sweep over all rows", "saved by screening",
    "saved in all",
)  # fmt: skip
GAPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
REFERENCE_GAP = 1e-10


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """Both tables; a screened row that is not zero is an error."""
    table: list[list[Any]] = []
    visits: list[list[Any]] = []
    for name in plan.text_sets():
        rows = plan.in_float64(name)
        for alpha in (STRONG, MEDIUM, WEAK):
            table += _proofs(plan, rows, alpha)
            visits.append(_visits(plan, rows, alpha))
            print(f"{name}, λ = {alpha:g}: {table[-1][6]} rows screened, {visits[-1][-1]} visits saved", flush=True)
    wrong = sum(row[-1] for row in table)
    print(f"{wrong} rows were screened that are not zero", flush=True)
    tables = [Table("screening", TITLE, COLUMNS, table), Table("visits", VISITS_TITLE, VISITS_COLUMNS, visits)]
    return tables, [{"wrongly_screened": wrong}]


def _proofs(plan: Plan, rows: Rows, alpha: float) -> list[list[Any]]:
    problem = ours.problem(rows.X, rows.y, alpha)
    solve = ours.algorithms()["working sets"]
    best = solve(problem, tol=REFERENCE_GAP, max_iter=ours.MANY, max_time=3.0 * plan.max_time)
    live = np.any(best.weights != 0.0, axis=1)
    table = []
    for tol in GAPS:
        found = solve(problem, tol=tol, max_iter=ours.MANY, max_time=plan.max_time)
        screened = safe_zeros(problem, found.weights)
        table.append([
            rows.name, f"{alpha:g}", f"{best.certificate.value:.1e}", int(live.sum()), f"{tol:g}",
            f"{found.certificate.value:.1e}", int(screened.sum()), f"{screened.mean():.1%}",
            int((screened & live).sum()),
        ])  # fmt: skip
    return table


def _visits(plan: Plan, rows: Rows, alpha: float) -> list[Any]:
    counts = []
    for is_screening in (True, False):
        with _counted(is_screening) as count:
            ours.run(rows.X, rows.y, alpha, 1e-6, max_time=plan.max_time)
        counts.append(count)
    d = rows.X.shape[1]
    own, plain, every = counts[0]["visits"], counts[1]["visits"], counts[0]["sweeps"] * d
    return [
        rows.name, f"{alpha:g}", d, counts[0]["sweeps"], own, plain, every, f"{1.0 - own / max(plain, 1):.1%}",
        f"{1.0 - own / max(every, 1):.1%}",
    ]  # fmt: skip


@contextmanager
def _counted(is_screening: bool) -> Iterator[dict[str, int]]:
    """Stands in for the sweeps of the working sets, one at a time, and counts; screening can be off."""
    count = {"sweeps": 0, "visits": 0}
    sweep = weight_groups.descend

    def counting(*arguments: Any) -> float:
        *rest, goal, sweeps = arguments
        chosen, worst = rest[3], 0.0
        for _ in range(sweeps if len(chosen) else 0):
            count["sweeps"] += 1
            count["visits"] += len(chosen)
            worst = sweep(*rest, goal, 1)
            if worst <= goal:
                break
        return worst if len(chosen) else sweep(*arguments)

    with patch.object(weight_groups, "descend", counting):
        if is_screening:
            yield count
        else:
            with patch.object(weight_groups, "safe_zeros", lambda objective, theta: np.zeros(objective.shape[0], bool)):
                yield count
