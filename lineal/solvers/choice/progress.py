"""When dual coordinate descent is left to another solver: when its gap says that too much work is still to come.

The gap is computed after 20, 40, 80, … passes (`dual_cd.FIRST_LOOK`). It decreases by about the same factor per pass,
so two of them say how much work is left. Work is counted in visits of all rows: late passes skip most rows (shrinking),
and can be ten times cheaper than the first ones. The passes so far are not lost: the next solver starts from their
weights, and needs a half to a tenth of the iterations that it takes from zero.
"""

from __future__ import annotations

import math
from typing import Any

from lineal.problem.budget import Budget
from lineal.solvers.dual_cd.dual_cd import is_watched_pass

#: Passes before which the rate of the gap says little: on raw counts it decreases slowly at first, then faster.
PATIENCE = 80

#: Work still to come from which on another solver is faster, for one score column and for several. It is what `newton`
#: and `lbfgs` took from the weights of the first passes on raw counts and on tf-idf with a weak penalty (150 to 600).
MOST_WORK, MOST_WORK_SEVERAL = 200.0, 500.0


def dual_is_slow(history: list[dict[str, Any]], budget: Budget, n_columns: int) -> bool:
    """Whether dual coordinate descent should be left, from its history up to one pass after a look."""
    passes = history[-1]["iteration"] - 1
    if passes < PATIENCE or not is_watched_pass(passes):
        return False
    before, now = (row for row in history if row["iteration"] in (passes // 2, passes))
    if now["gap"] <= budget.tol:
        return False
    rounds = _rounds_left(before["gap"], now["gap"], budget.tol)
    work = rounds * (now["work"] - before["work"])
    most = MOST_WORK if n_columns == 1 else MOST_WORK_SEVERAL
    return work > most or rounds * (passes // 2) > budget.max_iter - passes


def _rounds_left(before: float, now: float, tol: float) -> float:
    """How many times the gap must still decrease as it did between two looks, until it is `tol`."""
    return math.log(now / tol) / math.log(before / now) if now < before else math.inf
