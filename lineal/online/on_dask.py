"""Learners on the workers of a Dask cluster: a task per learner and pass.

A task gets the average of the last pass and reads its own rows, from files that all workers can read, or from its
partitions, which are on the worker that runs it. It returns what it has learned. If its worker is lost, it runs again
elsewhere, with the same result.

Memory of the client: the slots in use of every learner. A worker has the partitions of its learner, and the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, Future

from lineal.engine.dask.tasks import Task, Tasks, begin_of, is_wanted
from lineal.online.history import Report, together
from lineal.online.learner_pass import Answer, Job, LearnerRows, Outcome, Show, Watch, learn
from lineal.online.learner_rows import PartitionRows
from lineal.online.trainer import Trainer


class OnDask:
    """Learners on workers; `parts` are the futures of the partitions of every learner, if their rows are such.

    Attributes
    ----------
    tasks : runs them; its `told` and `patience` can be changed.
    """

    def __init__(
        self, client: Client, rows: Sequence[LearnerRows], parts: Sequence[Sequence[Future]] | None = None,
        told: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.parts = list(rows), [()] * len(rows) if parts is None else list(parts)
        self.tasks = Tasks(client, told)

    @property
    def n_learners(self) -> int:
        """Number of learners."""
        return len(self.rows)

    def run(self, job: Job, state: dict[str, Any] | None, show: Show) -> Answer:
        """Let every learner do a pass. An interrupt ends it without a result."""
        run = uuid.uuid4().hex
        tasks = [
            Task(f"learner {number + 1} of {self.n_learners}", (run, number, rows, *parts))
            for number, (rows, parts) in enumerate(zip(self.rows, self.parts, strict=True))
        ]
        outcomes: list[Outcome | None] = self.tasks.run(_learn_there, (job, state), tasks, job.seconds)
        reports: list[list[Report]] = [outcome.reports[0] for outcome in outcomes if outcome is not None]
        show(together(reports, [True] * len(reports)))
        return Answer(outcomes)


class _WatchOfTask(Watch):
    """Ends a learner whose result is no longer wanted, as after an interrupt.

    The time of a pass began with the first learner of this worker: the others have waited for a free thread.
    """

    def __init__(self, run: str) -> None:
        super().__init__()
        self.begin = begin_of(run)

    def goes_on(self, number: int, trainers: Sequence[Trainer]) -> bool:
        """Whether somebody still waits for the task."""
        return is_wanted()


def _learn_there(
    given: tuple[Job, dict[str, Any] | None], run: str, number: int, rows: LearnerRows, *parts: Any
) -> Outcome:
    """Task: one pass of one learner."""
    job, state = given
    if isinstance(rows, PartitionRows):
        rows = PartitionRows(rows.kind, rows.column_kinds, parts)
    return learn(job, number, rows, state, _WatchOfTask(run))
