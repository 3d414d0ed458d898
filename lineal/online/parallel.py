"""Several learners share the rows, and are averaged after every pass (Agarwal, Chapelle, Dudík & Langford 2014).

In a pass, every learner goes over its own rows by itself, as a single learner would, from the average of the pass
before. So a learner's work is a pure function of that average and of its rows (`learn`), and it does not matter where
and when it is done: on threads of this process, on workers of a cluster, or twice because a worker was lost. The number
of learners determines the result, not the number of threads or workers. A learner whose rows end early waits.

After the pass, the weights are averaged (`lineal.online.average`), and losses and counts are added up: those of the
progressive loss, and those of the rows that each learner holds out to decide which pass is the best.

With adaptive products, every learner chooses parents in the first pass, over epochs of its own. All of these parents
together are those of the average, and remain so in later passes (Agarwal et al. 2014, section 3).

Memory: every learner that learns now has a table of its own (see `lineal.online.learner`); so has the average, and if
there are several passes, the best one so far. From every learner, its slots in use come back.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from lineal.core import threads
from lineal.errors import CheckpointError, DataError
from lineal.online.average import average
from lineal.online.fit import LIMITS, message_of, nan_last
from lineal.online.history import Report, lines, together
from lineal.online.options import RATES, TUNE, OnlineOptions
from lineal.online.row_digest import RowDigest
from lineal.online.state import LOSS, PASS_EXAMPLES, WEIGHT
from lineal.online.trainer import Block, Trainer
from lineal.problem.checkpoint import MISFITS, Saved, checkpoint_of
from lineal.problem.loop_state import LoopState
from lineal.problem.progress import ProgressiveLines
from lineal.problem.solution import Run


class LearnerRows(Protocol):
    """The rows of one learner. It can be pickled if learners are elsewhere."""

    @property
    def bad_lines(self) -> int:
        """Number of malformed lines that the last pass skipped."""
        ...

    def count(self) -> int | None:
        """Number of rows, if epochs need it and it is known without a pass."""
        ...

    def blocks(self) -> Iterator[Block]:
        """The rows, in order."""
        ...


@dataclass(frozen=True)
class Job:
    """What every learner does in a pass.

    rates : the rates that are tried, each by a trainer of its own.
    period : every `period`-th row is held out; 0 for none.
    n_examples : examples of the first pass, as far as epochs need to know; None in the first pass.
    seconds : the learner stops after this many.
    is_noted : whether the rows are to be recognised when they are read again.
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

    def trainer(self, rate: float, n_examples: int | None) -> Trainer:
        """A new trainer."""
        return Trainer(replace(self.options, rate=rate), self.kind, self.classes, n_examples, self.width)


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
        trainer.rows = trainer.rows if number == 0 else 0
        trainer.learner.start_pass(job.period)
    digest, is_late = RowDigest(), False
    try:
        with closing(rows.blocks()) as blocks:  # type: ignore[type-var]
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
    reports = [trainer.learner.reports for trainer in trainers]
    states = [trainer.loop_state() for trainer in trainers]
    return Outcome(states, reports, n_examples, rows.bad_lines, digest.loop_state(), is_late)


# --- on threads


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


# --- all passes


class Learned(NamedTuple):
    """A trainer with the average of all learners, how learning went, and the malformed lines in the first pass."""

    trainer: Trainer
    run: Run
    bad_lines: int


def learn_together(place: Place, options: OnlineOptions, kind: str, *, classes: Any = None, width: int = 0) -> Learned:
    """Let all learners learn in as many passes as the options say, or until the examples held out tell to stop.

    After an interrupt by the user, or if the time is over, the result is the best whole pass; in the first pass it is
    the average so far, if there is one.
    """
    options = options.checked()
    passes = _Passes(place, options, kind, classes, width)
    passes.resume()
    status = "converged"
    try:
        while passes.number < options.passes and not passes.is_over:
            passes.run()
    except KeyboardInterrupt:
        if passes.latest is None:
            raise
        status = "interrupted"
    assert passes.latest is not None
    if passes.is_late:
        status = "max_time"
    passes.lines.show(passes.history)
    passes.latest.warn_of_cuts()
    if passes.checkpoint is not None and status == "converged":
        passes.checkpoint.remove()
    run = Run(passes.history, status, message_of(status, passes.latest))
    return Learned(passes.kept or passes.latest, run, passes.bad_lines)


class _Passes(LoopState):
    """Passes of all learners. All rates are tried in the first one; the best pass is kept.

    Attributes
    ----------
    number : passes that are done.
    latest : trainer with the average after the latest pass; `kept` is that of the best one so far.
    digests : which rows the learners had in the first pass.
    """

    state_names = (
        "number", "rates", "n_examples", "bad_lines", "digests", "history", "learned", "best", "without_gain",
        "kept_state",
    )  # fmt: skip

    def __init__(self, place: Place, options: OnlineOptions, kind: str, classes: Any, width: int) -> None:
        self.place, self.options, self.checkpoint = place, options, checkpoint_of(options)
        self.kind, self.classes, self.width = kind, classes, width
        self.rates = RATES if options.rate == TUNE else (float(options.rate),)
        self.period = int(options.hold_out) if options.passes > 1 else 0
        self.lines, self.begin = ProgressiveLines(options.verbose), time.monotonic()
        self.number, self.bad_lines, self.is_late, self.is_over = 0, 0, False, False
        self.n_examples: int | None = None
        self.digests: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.latest: Trainer | None = None
        self.kept: Trainer | None = None
        self.best, self.without_gain = math.inf, 0

    # --- checkpoints

    @property
    def seconds(self) -> float:
        """Seconds of learning, without those between an interruption and its continuation."""
        return time.monotonic() - self.begin

    @property
    def learned(self) -> dict[str, Any] | None:
        """The average after the latest pass."""
        return None if self.latest is None else self.latest.loop_state()

    @property
    def kept_state(self) -> dict[str, Any] | None:
        """The best pass, if it is not the latest one."""
        return None if self.kept is None or self.kept is self.latest else self.kept.loop_state()

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "learned":
            self.latest = self._restored(value)
        elif name == "kept_state":
            self.kept = self.latest if value is None and self.best < math.inf else self._restored(value)
        else:
            super().restore_part(name, value)

    def _restored(self, state: dict[str, Any] | None) -> Trainer | None:
        if state is None:
            return None
        trainer = self._job().trainer(self.rates[0], self.n_examples)
        trainer.restore(state)
        return trainer

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if self.checkpoint is None:
            return
        options = {name: value for name, value in self.options.to_json().items() if name not in LIMITS}
        self.checkpoint.match({
            "solver": "online", **options, "kind of labels": self.kind, "number of columns": self.width,
            "labels that are known": None if self.classes is None else len(self.classes),
        })  # fmt: skip
        saved = self.checkpoint.take()
        if saved is None:
            return
        try:
            self.restore(saved.state)
        except MISFITS as error:
            raise self.checkpoint.misfit(error) from error
        self.begin -= saved.seconds
        self.lines.done = len(self.history)
        self.is_over = self.without_gain >= self.options.patience

    def _check_rows(self, digests: list[dict[str, Any]]) -> None:
        """Refuse rows that are not those of the first pass; it may have been done by another process."""
        if self.checkpoint is None or self.is_late:
            return
        self.digests = self.digests or digests
        other = [number for number, (old, new) in enumerate(zip(self.digests, digests, strict=True), 1) if old != new]
        if other:
            raise CheckpointError(
                f"{self.checkpoint.path} is a checkpoint of other rows: those of learner {other[0]} are not the ones "
                "of the first pass; continue with the same data, delete the file, or name another one"
            )

    # --- learning

    def _job(self) -> Job:
        left = None if self.options.max_time is None else max(0.0, self.options.max_time - self.seconds)
        return Job(
            self.options, self.kind, self.classes, self.width, self.place.n_learners, tuple(self.rates), self.period,
            self.n_examples, left, self.checkpoint is not None,
        )  # fmt: skip

    def run(self) -> None:
        """Do one pass; sets `is_over` if it was the last. An interrupted one counts only if it was the first."""
        job = self._job()
        answer = self.place.run(job, self.learned, self._show)
        outcomes = [outcome for outcome in answer.outcomes if outcome is not None]
        if answer.is_interrupted and (self.latest is not None or not _has_labels(outcomes)):
            raise KeyboardInterrupt
        self.is_late = self.is_over = any(outcome.is_late for outcome in outcomes)
        self._take(job, outcomes)
        if answer.is_interrupted:
            raise KeyboardInterrupt
        if self.period and not self.is_late:
            self._compare()
        if self.checkpoint is not None and not self.is_late:  # a part of a pass is not a state to go on from
            self.checkpoint.write(Saved(self.number, self.seconds, [], self.loop_state()))

    def _show(self, reports: list[Report]) -> None:
        """Show reports of this pass."""
        self.lines.show([*self.history, *lines(reports, self.number + 1)])

    def _take(self, job: Job, outcomes: list[Outcome]) -> None:
        """Average what the learners have learned, with the best rate."""
        place = min(range(len(job.rates)), key=lambda place: nan_last(_loss([one.states[place] for one in outcomes])))
        counts = [outcome.n_examples for outcome in outcomes]
        if self.number == 0:
            self.n_examples = None if None in counts else sum(count for count in counts if count is not None)
            self.bad_lines = sum(outcome.bad_lines for outcome in outcomes)
        trainer = job.trainer(job.rates[place], self.n_examples)
        average(trainer, [outcome.states[place] for outcome in outcomes])
        if trainer.learner.examples == 0:
            raise DataError("there are no examples to learn from")
        if not trainer.has_labels:
            raise DataError("there are no labels to learn from: no example has one")
        trainer.check_finite()
        self._check_rows([outcome.digest for outcome in outcomes])
        reports = together([outcome.reports[place] for outcome in outcomes], [True] * len(outcomes))
        reports[-1:] = [report._replace(parents=len(trainer.learner.parents)) for report in reports[-1:]]
        self.history = [*self.history, *lines(reports, self.number + 1)]
        trainer.learner.history = list(self.history)
        self.latest, self.rates, self.number = trainer, (job.rates[place],), self.number + 1

    def _compare(self) -> None:
        """Keep the average if it is the best so far on the examples held out; end after passes without improvement."""
        assert self.latest is not None
        held = self.latest.loss(held=True)
        if held == math.inf and self.best == math.inf:  # fewer rows than hold_out: nothing says when to stop
            return
        if held < self.best:
            self.best, self.without_gain, self.kept = held, 0, self.latest
        else:
            self.without_gain += 1
            self.is_over = self.without_gain >= self.options.patience


def _has_labels(outcomes: Sequence[Outcome]) -> bool:
    states = [outcome.states[0] for outcome in outcomes]
    return any(state["has_labels"] and state["learner"]["counts"][PASS_EXAMPLES] > 0 for state in states)


def _loss(states: Sequence[dict[str, Any]]) -> float:
    """Mean progressive loss of all learners together."""
    sums = sum(state["learner"]["sums"] for state in states)
    return float(sums[LOSS] / sums[WEIGHT]) if sums[WEIGHT] > 0.0 else math.inf
