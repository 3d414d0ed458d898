"""What one of several learners does in a pass: a pure function of its rows and of the average that it starts from.

It does not matter where and when that is done, or whether it is done twice. `lineal.online.parallel` has the passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from lineal.errors import DataError
from lineal.online.fit import nan_last
from lineal.online.history import Report
from lineal.online.options import OnlineOptions
from lineal.online.row_digest import RowDigest
from lineal.online.shuffled import Shuffle
from lineal.online.trainer import Block, Trainer


class LearnerRows(Protocol):
    """The rows of one learner. It can be pickled if learners are elsewhere."""

    @property
    def bad_lines(self) -> int:
        """Number of malformed lines that the last pass skipped."""
        ...

    @property
    def start(self) -> int | None:
        """Number of the first row in X, for messages; None where messages count the rows of the learner."""
        ...

    def count(self) -> int | None:
        """Number of rows, if epochs need it and it is known without a pass."""
        ...

    def blocks(self) -> Iterator[Block]:
        """The rows, in order."""
        ...

    def shuffled(self, how: Shuffle) -> Iterator[Block]:
        """The rows in random order."""
        ...


@dataclass(frozen=True)
class Job:
    """What every learner does in a pass.

    rates : the rates that are tried, each by a trainer of its own.
    period : every `period`-th row is held out; 0 for none.
    n_examples : examples of the first pass, as far as epochs need to know; None in the first pass.
    seconds : the learner stops after this many.
    is_noted : whether the rows are to be recognised when they are read again.
    number : number of passes before.
    """

    options: OnlineOptions
    kind: str
    classes: Any
    width: int
    n_learners: int
    rates: tuple[float, ...]
    period: int
    n_examples: int | None = None
    seconds: float | None = None
    is_noted: bool = False
    number: int = 0

    def trainer(self, rate: float, n_examples: int | None) -> Trainer:
        """A new trainer."""
        return Trainer(replace(self.options, rate=rate), self.kind, self.classes, n_examples, self.width)

    def shuffle(self, learner: int) -> Shuffle | None:
        """How the rows of a learner are shuffled; None if they are not."""
        if not self.options.shuffle:
            return None
        return Shuffle.of(self.options, self.kind, self.number * self.n_learners + learner)


class Outcome(NamedTuple):
    """What a learner has learned in a pass: states and reports of its trainers, one for every rate, and about its rows.

    digest : which rows these were (`RowDigest`).
    is_late : whether the time was over.
    """

    states: list[dict[str, Any]]
    reports: list[list[Report]]
    n_examples: int | None
    bad_lines: int
    digest: dict[str, Any]
    is_late: bool


class Answer(NamedTuple):
    """Outcomes of all learners; None for one that has not begun before an interrupt."""

    outcomes: list[Outcome | None]
    is_interrupted: bool = False


#: Shows reports of all learners together; called with all of those in the pass so far.
Show = Callable[[list[Report]], None]


class Place(Protocol):
    """Where learners are, with their rows."""

    @property
    def n_learners(self) -> int:
        """Number of learners."""
        ...

    def run(self, job: Job, state: dict[str, Any] | None, show: Show) -> Answer:
        """Let every learner do a pass from the same state; None for the first pass."""
        ...


class Watch:
    """Tells a learner whether to go on; on a worker of a cluster, nobody else does."""

    def __init__(self) -> None:
        self.begin = time.monotonic()

    def is_over(self, seconds: float | None) -> bool:
        """Whether more than this time has passed."""
        return seconds is not None and time.monotonic() - self.begin > seconds

    def goes_on(self, number: int, trainers: Sequence[Trainer]) -> bool:
        """Called by a learner after every block."""
        return True

    def interrupt(self) -> bool:
        """Called by a learner that the user has interrupted; returns whether what it has learned is wanted."""
        return False


def learn(job: Job, number: int, rows: LearnerRows, state: dict[str, Any] | None, watch: Watch) -> Outcome:
    """One pass of one learner over its rows: a pure function of them and the state."""
    n_examples = rows.count() if state is None else job.n_examples
    trainers = [job.trainer(rate, n_examples) for rate in job.rates]
    for trainer in trainers:
        if state is not None:
            trainer.restore(state)
        trainer.learner.part(has_counts=number == 0)
        trainer.start_rows(rows.start or 0)
        trainer.learner.start_pass(job.period)
    how = job.shuffle(number)
    digest, is_late = RowDigest(is_ordered=how is None), False
    try:
        with closing(rows.blocks() if how is None else rows.shuffled(how)) as blocks:  # type: ignore[type-var]
            for block in blocks:
                for trainer in trainers:
                    trainer.feed(block)
                if job.is_noted:
                    digest.add(block.X, block.y, block.weights)
                min(trainers, key=lambda trainer: nan_last(trainer.loss())).check_finite()
                is_late = watch.is_over(job.seconds)
                if is_late or not watch.goes_on(number, trainers):
                    break
    except KeyboardInterrupt:
        if not watch.interrupt():
            raise
    except DataError as error:
        if type(error) is not DataError or job.n_learners == 1:  # a ParseError names the file and the line
            raise
        raise DataError(f"learner {number + 1} of {job.n_learners}: {error}") from error
    for trainer in trainers:
        trainer.learner.report_rest()
        if how is not None:
            how.tell(trainer)
    reports = [trainer.learner.reports for trainer in trainers]
    states = [trainer.loop_state() for trainer in trainers]
    return Outcome(states, reports, n_examples, rows.bad_lines, digest.loop_state(), is_late)
