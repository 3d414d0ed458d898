"""A fit that goes on with another one: its budget is what the first has left, and their histories become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lineal.problem.budget import Budget
from lineal.problem.solution import Snapshot, Solution


def following(budget: Budget, before: Solution) -> Budget:
    """What a solution leaves of its budget. Callbacks count iterations and seconds from the beginning."""
    done, seconds = int(before.history[-1]["iteration"]), before.history[-1]["seconds"]
    max_time = None if budget.max_time is None else max(budget.max_time - seconds, 1e-3)

    def shown(callback: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Any]:
        def later(snapshot: Snapshot) -> Any:
            if snapshot.iteration == 0:  # the last iteration of the first fit, which it has shown
                return None
            iteration = snapshot.iteration + done
            return callback(replace(snapshot, iteration=iteration, seconds=snapshot.seconds + seconds))

        return later

    return replace(
        budget, max_iter=max(int(budget.max_iter - done), 0), max_time=max_time,
        callbacks=[shown(callback) for callback in budget.callbacks],
    )  # fmt: skip


def joined(before: Solution, after: Solution) -> Solution:
    """The second solution, with the history of both. The first row of the second one is the end of the first."""
    done, seconds = before.history[-1]["iteration"], before.history[-1]["seconds"]
    rows = [{**row, "iteration": row["iteration"] + done, "seconds": row["seconds"] + seconds} for row in after.history]
    return replace(after, history=[*before.history, *rows[1:]])
