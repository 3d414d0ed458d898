"""When a solver is left to another one: when its gaps say that more work is to come than the other one would need.

Work is counted in products with all rows, as one evaluation of the objective and its gradient makes them.

**Dual coordinate descent** computes its gap after 40, 80, 160, … passes (`dual_cd.FIRST_LOOK`). It decreases by about
the same factor per pass, so two of them say how many passes are left. Late passes skip most rows (shrinking), and can
be ten times cheaper than the first ones: visits of rows are counted.

**L-BFGS** takes over from the weights of the first passes. If it turns out to be the slower one, by the same kind of
estimate, dual coordinate descent comes back to where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lineal.problem.budget import Budget
from lineal.solvers.dual_cd.dual_cd import first_look, is_watched_pass

History = Sequence[dict[str, Any]]

#: Work still to come from which on L-BFGS is faster. From the weights of the first passes it took 100 to 500 iterations
#: on raw counts and on tf-idf with a weak penalty.
MOST_WORK = 200.0

#: How much more work may be to come for a solver that has come back.
SECOND_CHANCE = 5.0

#: A relative gap (P − D)/P near one says little: P and D can both improve a lot without changing it. A fit that has
#: such a gap is not judged before this multiple of the first look.
SATURATED, LOOKS = 0.8, 8

#: Work per visit of all rows where updates take several Newton steps.
DEAR_VISIT = 6.0

#: Work per iteration of L-BFGS with several score columns: its passes over W take longer than those over the rows.
SEVERAL = 2.0

#: Iterations of L-BFGS after which it is judged for the first time, and again whenever they have doubled.
FIRST_JUDGED = 200


class Costs:
    """What the work of both solvers costs for an objective."""

    def __init__(self, is_dear: bool, n_columns: int) -> None:
        self.visit, self.first_look = DEAR_VISIT if is_dear else 1.0, first_look(is_dear)
        self.iteration = 1.0 if n_columns == 1 else SEVERAL

    def dual_is_slow(self, history: History, budget: Budget, before: History = (), chance: float = 1.0) -> bool:
        """Whether dual coordinate descent should be left, from its history up to one pass after a look."""
        passes = history[-1]["iteration"] - 1
        if passes == self.first_look or not is_watched_pass(passes, self.first_look):
            return False
        if history[passes]["gap"] <= budget.tol:
            return False
        if history[passes // 2]["gap"] > SATURATED and passes < LOOKS * self.first_look:
            return False
        rounds, work = self._left(history, passes, budget.tol)
        return work > chance * MOST_WORK * self.iteration or rounds * (passes // 2) > budget.max_iter - passes

    def _left(self, history: History, passes: int, tol: float) -> tuple[float, float]:
        """How often the passes so far must be doubled, and the work that this is, until the gap is `tol`."""
        before, now = history[passes // 2], history[passes]
        rounds = rounds_left(before["gap"], now["gap"], tol)
        return rounds, rounds * self.visit * (now["work"] - before["work"])

    def lbfgs_is_slow(self, history: History, budget: Budget, before: History) -> bool:
        """Whether L-BFGS should be left, given the history of dual coordinate descent before it."""
        done = history[-1]["iteration"]
        looks, rest = divmod(done, FIRST_JUDGED)
        if rest or not looks or looks & (looks - 1):
            return False
        _, dual = self._left(before, before[-1]["iteration"] - 1, budget.tol)
        gaps = [row["gap"] for row in history]  # which go up and down
        middle, last = min(gaps[done // 4 : done // 2]), min(gaps[3 * done // 4 :])
        return self.iteration * rounds_left(middle, last, budget.tol) * (done // 2) > 2.0 * dual


def rounds_left(before: float, now: float, tol: float) -> float:
    """How many times the gap must still decrease as it did between two looks, until it is `tol`."""
    if now <= tol:
        return 0.0
    return math.log(now / tol) / math.log(before / now) if now < before else math.inf
