"""Several learners share the rows, and are averaged after every pass (Agarwal, Chapelle, Dudík & Langford 2014).

In a pass, every learner goes over its own rows by itself, as a single learner would, from the average of the pass
before. So a learner's work is a pure function of that average and of its rows (`learner_pass.py`). It does not matter
where and when it is done: on threads of this process, on workers of a cluster, or twice because a worker was lost. The
number of learners determines the result, not the number of threads or workers. A learner whose rows end early waits.

After the pass, the weights are averaged (`lineal.online.average`), and losses and counts are added up: those of the
progressive loss, and those of the rows that each learner holds out to decide which pass is the best.

With adaptive products, every learner chooses parents in the first pass, over epochs of its own. All of these parents
together are those of the average, and remain so in later passes (Agarwal et al. 2014, section 3).

Memory: every learner that learns now has a table of its own (see `lineal.online.learner`); so has the average, and if
there are several passes, the best one so far. From every learner, its slots in use come back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from lineal.errors import CheckpointError, DataError, Unanswered
from lineal.online.average import average
from lineal.online.ending import EARLY, OnlineRun, after_passes, message_of
from lineal.online.fit import LIMITS, advice_of, nan_last
from lineal.online.history import Report, lines, together
from lineal.online.learner_pass import Job, Outcome, Place
from lineal.online.options import RATES, TUNE, OnlineOptions
from lineal.online.state import LOSS, PASS_EXAMPLES, WEIGHT
from lineal.online.trainer import Trainer
from lineal.problem.checkpoint import MISFITS, Saved, checkpoint_of
from lineal.problem.loop_state import LoopState
from lineal.problem.progress import ProgressiveLines


class Learned(NamedTuple):
    """A trainer with the average of all learners, how learning went, and the malformed lines in the first pass."""

    trainer: Trainer
    run: OnlineRun
    bad_lines: int


def learn_together(place: Place, options: OnlineOptions, kind: str, *, classes: Any = None, width: int = 0) -> Learned:
    """Let all learners learn in as many passes as the options say, or until the examples held out tell to stop.

    After an interrupt by the user, or if the time is over, the result is the best whole pass; in the first pass it is
    the average so far, if there is one. A learner that does not answer when the time is over ends learning likewise;
    in the first pass, that is an error.
    """
    options = options.checked()
    passes = _Passes(place, options, kind, classes, width)
    passes.resume()
    status, why = "", ""
    try:
        while passes.number < options.passes and not passes.is_over:
            passes.run()
    except KeyboardInterrupt:
        if passes.latest is None:
            raise
        status = "interrupted"
    except Unanswered as error:
        if passes.latest is None:
            raise
        status, why = "max_time", f"; {error}"
    assert passes.latest is not None
    status = "max_time" if passes.is_late else status or after_passes(passes.number)
    passes.lines.show(passes.history)
    passes.latest.warn_of_cuts()
    trainer = passes.kept or passes.latest
    trainer.warn_of_order(options, advice_of(options, trainer.order.rows))
    if passes.checkpoint is not None and status not in EARLY:
        passes.checkpoint.remove()
    run = OnlineRun(passes.history, status, message_of(status, passes.latest) + why)
    return Learned(trainer, run, passes.bad_lines)


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
            self.n_examples, left, self.checkpoint is not None, self.number,
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
