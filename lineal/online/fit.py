"""From blocks of labelled rows to an online model: passes, search for a rate, time limits."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core import threads
from lineal.design.matrix import summed
from lineal.errors import CheckpointError, DataError
from lineal.online.ending import EARLY, OnlineRun, after_passes, message_of
from lineal.online.options import RATES, TUNE, OnlineOptions
from lineal.online.row_digest import RowDigest
from lineal.online.shuffled import Shuffle, through_buffer
from lineal.online.trainer import Block, Trainer
from lineal.problem.checkpoint import MISFITS, Checkpoint, Saved, checkpoint_of
from lineal.problem.fingerprint import Fingerprint
from lineal.problem.loop_state import LoopState
from lineal.problem.progress import ProgressiveLines

#: Options that may differ between a fit and its continuation.
LIMITS = ("max_time", "engine", "n_jobs", "verbose")

#: Rows of an array that are learned from between two looks at the clock.
CHUNK_ROWS = 8192


def fit_online(
    blocks: Callable[[], Iterable[Block]], options: OnlineOptions, kind: str, *, classes: Any = None,
    n_examples: int | None = None, width: int = 0, start: Trainer | None = None,
    shuffled: Callable[[Shuffle], Iterable[Block]] | None = None, begin: float | None = None,
) -> tuple[Trainer, OnlineRun]:  # fmt: skip
    """Learn from `blocks()`, which is called once per pass; `start` is a trainer to continue.

    `shuffled` gives the rows of a pass in random order, if the options ask for that; without it, they go through a
    buffer. `max_time` counts from `begin`, a time of `time.monotonic`; None means now.

    An interrupt by the user and `max_time` keep what was learned: the best whole pass, if there are several. Several
    passes need memory for two copies of the weights.
    """
    options = options.checked()
    checkpoint = checkpoint_of(options)
    total = None if n_examples is None else n_examples * int(options.passes)
    rates = RATES if options.rate == TUNE else (float(options.rate),)
    trainers = (
        [start]
        if start is not None
        else [Trainer(replace(options, rate=rate), kind, classes, total, width) for rate in rates]
    )
    passes = _Passes(options, trainers, checkpoint, time.monotonic() if begin is None else begin)
    passes.resume()
    status = ""
    try:
        while passes.number < options.passes and not passes.is_over:
            if not options.shuffle:
                passes.run(blocks())
                continue
            how = Shuffle.of(options, kind, passes.number)
            passes.run(through_buffer(blocks(), how) if shuffled is None else shuffled(how), how)
    except KeyboardInterrupt:
        if not any(trainer.learner.examples and trainer.has_labels for trainer in passes.trainers):
            raise
        status = "interrupted"
        passes.save_interrupted()
    trainer = passes.best_trainer()
    if status == "interrupted":
        trainer.learner.report_rest()
    else:
        status = "max_time" if passes.is_late else after_passes(passes.number)
    history = trainer.learner.history
    passes.lines.show(history)
    trainer.warn_of_cuts()
    trainer = passes.kept or trainer
    trainer.warn_of_order(options, advice_of(options, trainer.order.rows))
    if checkpoint is not None and status not in EARLY:
        checkpoint.remove()
    return trainer, OnlineRun(history, status, message_of(status, trainer))


def advice_of(options: OnlineOptions, rows: int) -> str:
    """What to do about so many rows that are not in random order; with several learners, each shuffles its own."""
    if not options.shuffle:
        alone = " and learners=1" if options.learners > 1 else ""
        return f"Set shuffle=True{alone}, or shuffle the rows first"
    if options.learners > 1:
        larger = " and raise shuffle_buffer" if options.shuffle_buffer < rows else ""
        return f"Every learner shuffles its own rows: set learners=1{larger}, or shuffle the rows first"
    return (
        f"A buffer of {options.shuffle_buffer} rows cannot change that: raise shuffle_buffer, or shuffle the rows first"
    )


class _Passes(LoopState):
    """Passes over the rows. All rates learn in the first pass, the best one in the others; the best pass is kept.

    `seen` are the rows of the pass that were learned from, and `block` those that are being learned from.
    """

    state_names = ("number", "rates", "learned", "seen", "best", "without_gain", "kept_state")

    def __init__(
        self, options: OnlineOptions, trainers: list[Trainer], checkpoint: Checkpoint | None, begin: float
    ) -> None:
        self.options, self.trainers, self.checkpoint, self.begin = options, trainers, checkpoint, begin
        self.seen = RowDigest()
        self.block: Block | None = None
        self.period = int(options.hold_out) if options.passes > 1 else 0
        self.jobs, self.lines = threads.thread_count(options.n_jobs), ProgressiveLines(options.verbose)
        self.number, self.is_late, self.is_over = 0, False, False
        self.best, self.without_gain = math.inf, 0
        self.kept: Trainer | None = None

    # --- checkpoints

    @property
    def seconds(self) -> float:
        """Seconds of learning, without those between an interruption and its continuation."""
        return time.monotonic() - self.begin

    @property
    def rates(self) -> list[float]:
        """The rates that are left."""
        return [float(trainer.learner.options.rate) for trainer in self.trainers]

    @property
    def learned(self) -> list[dict[str, Any]]:
        """What the trainers have learned."""
        return [trainer.loop_state() for trainer in self.trainers]

    @property
    def kept_state(self) -> dict[str, Any] | None:
        """The best whole pass, if it is kept."""
        return None if self.kept is None else self.kept.loop_state()

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "rates":
            by_rate = dict(zip(self.rates, self.trainers))
            self.trainers = [by_rate[rate] for rate in value]
        elif name == "learned":
            for trainer, learned in zip(self.trainers, value, strict=True):
                trainer.restore(learned)
        elif name == "kept_state":
            if value is not None:
                self.kept = copy.deepcopy(self.trainers[0])
                self.kept.restore(value)
        else:
            super().restore_part(name, value)

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if self.checkpoint is None:
            return
        self.checkpoint.match(self._fingerprint())
        saved = self.checkpoint.take()
        if saved is None:
            return
        try:
            self.restore(saved.state)
        except MISFITS as error:
            raise self.checkpoint.misfit(error) from error
        self.begin -= saved.seconds
        self.lines.done = len(self.trainers[0].learner.history)

    def _fingerprint(self) -> Fingerprint:
        """Facts by which learning is recognised before any row is read again."""
        trainer = self.trainers[0]
        options = {name: value for name, value in self.options.to_json().items() if name not in LIMITS}
        return {
            "solver": "online", **options, "kind of labels": trainer.kind, "number of columns": trainer.width,
            "labels that are known": None if trainer.may_grow else len(trainer.classes),
            "examples at the start": trainer.learner.examples,
        }  # fmt: skip

    def save(self, is_due: bool = True) -> None:
        """Write a checkpoint, between two blocks."""
        if self.checkpoint is not None and is_due:
            self.checkpoint.write(Saved(self.number, self.seconds, [], self.loop_state()))

    def save_interrupted(self) -> None:
        """Write a checkpoint after an interrupt, if all trainers have learned from the same rows."""
        places = {trainer.learner.pass_examples for trainer in self.trainers}
        if self.checkpoint is None or len(places) > 1:
            return
        done = places.pop() - self.seen.rows
        if done > 0 and self.block is not None:
            self._note(self.block.rows(0, done))
        if done >= 0:
            self.save()

    def _note(self, block: Block) -> None:
        """Note that rows were learned from."""
        if self.checkpoint is not None:
            self.seen.add(block.X, block.y, block.weights)

    def _left(self, blocks: Iterable[Block]) -> Iterable[Block]:
        """The rows that are left of this pass; those before must be the ones that were learned from."""
        skipped, wanted = RowDigest(), copy.deepcopy(self.seen)
        for block in blocks:
            count = min(block.X.shape[0], wanted.rows - skipped.rows)
            if count > 0:
                part = block.rows(0, count)
                skipped.add(part.X, part.y, part.weights)
                if skipped.rows == wanted.rows and not skipped.equals(wanted):
                    raise self._other_rows()
            if count < block.X.shape[0]:
                yield block.rows(count, block.X.shape[0]) if count > 0 else block
        if skipped.rows < wanted.rows:
            raise self._other_rows()

    def _other_rows(self) -> CheckpointError:
        path = "" if self.checkpoint is None else self.checkpoint.path
        return CheckpointError(
            f"{path} is a checkpoint of other rows: the first {self.seen.rows} rows are not those that were learned "
            "from; continue with the same data, delete the file, or name another one"
        )

    # --- learning

    def best_trainer(self) -> Trainer:
        """Trainer with the smallest progressive loss."""
        return min(self.trainers, key=lambda trainer: nan_last(trainer.loss()))

    def run(self, blocks: Iterable[Block], how: Shuffle | None = None) -> None:
        """Do one pass; sets `is_over` if it was the last. `how` says how the rows are shuffled."""
        if self.seen.rows:  # a pass that was interrupted
            blocks = self._left(blocks)
        else:
            for trainer in self.trainers:
                trainer.start_rows()
                trainer.learner.start_pass(self.period)
        for block in blocks:
            self.block = block
            threads.run([partial(trainer.feed, block) for trainer in self.trainers], self.jobs)
            self._note(block)
            self.block = None
            self.lines.show(self.trainers[0].learner.history)
            self.best_trainer().check_finite()
            if self.options.max_time is not None and self.seconds > self.options.max_time:
                self.save()
                self.is_late = self.is_over = True
                break
            self.save(self.checkpoint is not None and self.checkpoint.is_due())
        trainer = self.best_trainer()
        self.trainers = [trainer]
        if self.number == 0 and trainer.learner.examples == 0:
            raise DataError("there are no examples to learn from")
        if not trainer.has_labels:
            raise DataError("there are no labels to learn from: no example has one")
        trainer.learner.report()
        if how is not None:
            how.tell(trainer)
        self.number, self.seen = self.number + 1, RowDigest()
        if self.period and not self.is_late:
            self._compare(trainer)

    def _compare(self, trainer: Trainer) -> None:
        """Keep the trainer if it is the best so far on the examples held out; end after passes without improvement."""
        held = trainer.loss(held=True)
        if held == math.inf and self.best == math.inf:  # fewer rows than hold_out: nothing says when to stop
            return
        if held < self.best:
            is_last = self.number == self.options.passes
            self.best, self.without_gain, self.kept = held, 0, trainer if is_last else copy.deepcopy(trainer)
        else:
            self.without_gain += 1
            self.is_over = self.without_gain >= self.options.patience


def array_blocks(
    X: Any, y: Any, weights: Any = None, column_kinds: Any = None, start: int = 0, stop: int | None = None,
    order: np.ndarray | None = None,
) -> Iterator[Block]:  # fmt: skip
    """The rows of arrays, those from `start` to `stop`, or those with the numbers `order`, `CHUNK_ROWS` at a time."""
    X = summed(X) if sparse.issparse(X) else X
    stop = (X.shape[0] if order is None else len(order)) if stop is None else stop
    for first in range(start, stop, CHUNK_ROWS):
        rows: Any = slice(first, min(first + CHUNK_ROWS, stop))
        rows = rows if order is None else order[rows]
        yield Block(X[rows], y[rows], None if weights is None else weights[rows], column_kinds=column_kinds)


def nan_last(loss: float) -> float:
    """A loss by which trainers can be compared."""
    return math.inf if math.isnan(loss) else loss
