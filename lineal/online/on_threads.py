"""Learners on threads of this process; kernels and readers release the interpreter, so that they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from lineal.core import threads
from lineal.online.history import Report, together
from lineal.online.learner_pass import Answer, Job, LearnerRows, Show, Watch, learn
from lineal.online.trainer import Trainer


class OnThreads:
    """Learners on up to `jobs` threads of this process."""

    def __init__(self, rows: Sequence[LearnerRows], jobs: int) -> None:
        self.rows, self.jobs = list(rows), jobs

    @property
    def n_learners(self) -> int:
        """Number of learners."""
        return len(self.rows)

    def run(self, job: Job, state: dict[str, Any] | None, show: Show) -> Answer:
        """Let every learner do a pass. After an interrupt, all of them end with the blocks that they have begun."""
        watch = _SharedWatch(len(self.rows), show)
        try:
            threads.run([partial(self._run_one, job, n, state, watch) for n in range(len(self.rows))], self.jobs)
        except KeyboardInterrupt:  # while this thread waited for the others
            watch.interrupt()
            watch.wait()
        return Answer(watch.outcomes, watch.is_interrupted)

    def _run_one(self, job: Job, number: int, state: dict[str, Any] | None, watch: _SharedWatch) -> None:
        if not watch.enter():
            return
        try:
            watch.outcomes[number] = learn(job, number, self.rows[number], state, watch)
            watch.note(number, watch.outcomes[number].reports[0], True)
        except BaseException:
            watch.stop()
            raise
        finally:
            watch.leave()


class _SharedWatch(Watch):
    """What learners in this process tell each other: that all should stop, and what they have reported."""

    def __init__(self, count: int, show: Show) -> None:
        super().__init__()
        self.outcomes: list[Any] = [None] * count
        self.is_interrupted = False
        self._show = show
        self._reports: list[list[Report]] = [[] for _ in range(count)]
        self._has_ended = [False] * count
        self._is_stopped, self._running = False, 0
        self._changed = threading.Condition()

    def enter(self) -> bool:
        """Begin to learn; False if that is no longer wanted."""
        with self._changed:
            self._running += not self._is_stopped
            return not self._is_stopped

    def leave(self) -> None:
        """Note that a learner has ended."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no learner is learning."""
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0)

    def stop(self) -> None:
        """Let all learners end after their block."""
        self._is_stopped = True

    def interrupt(self) -> bool:
        """Let all learners end after their block; what they have learned is wanted."""
        self.is_interrupted = True
        self.stop()
        return True

    def goes_on(self, number: int, trainers: Sequence[Trainer]) -> bool:
        """Take note of the reports of a learner, and tell it whether to go on."""
        self.note(number, trainers[0].learner.reports, False)
        return not self._is_stopped

    def note(self, number: int, reports: list[Report], has_ended: bool) -> None:
        """Take note of the reports of a learner, and show those that all have made."""
        with self._changed:
            if len(reports) > len(self._reports[number]) or has_ended:
                self._reports[number], self._has_ended[number] = list(reports), has_ended
                self._show(together(self._reports, self._has_ended))
