"""From blocks of labelled rows to an online model: passes, search for a rate, time limits."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from scipy import sparse

from lineal.core import threads
from lineal.design.matrix import summed
from lineal.errors import DataError
from lineal.online.options import RATES, TUNE, OnlineOptions
from lineal.online.trainer import Block, Trainer
from lineal.problem.progress import ProgressiveLines
from lineal.problem.solution import Run

#: Rows of an array that are learned from between two looks at the clock.
CHUNK_ROWS = 8192


def fit_online(
    blocks: Callable[[], Iterable[Block]], options: OnlineOptions, kind: str, *, classes: Any = None,
    n_examples: int | None = None, width: int = 0, start: Trainer | None = None,
) -> tuple[Trainer, Run]:  # fmt: skip
    """Learn from `blocks()`, which is called once per pass; `start` is a trainer to continue.

    An interrupt by the user and `max_time` keep what was learned: the best whole pass, if there are several. Several
    passes need memory for two copies of the weights.
    """
    options = options.checked()
    total = None if n_examples is None else n_examples * int(options.passes)
    rates = RATES if options.rate == TUNE else (float(options.rate),)
    trainers = (
        [start]
        if start is not None
        else [Trainer(replace(options, rate=rate), kind, classes, total, width) for rate in rates]
    )
    passes = _Passes(options, trainers)
    status = "converged"
    try:
        while passes.number < options.passes and not passes.is_over:
            passes.run(blocks())
    except KeyboardInterrupt:
        if not any(trainer.learner.examples and trainer.has_labels for trainer in passes.trainers):
            raise
        status = "interrupted"
    trainer = passes.best_trainer()
    if status == "interrupted":
        trainer.learner.report_rest()
    elif passes.is_late:
        status = "max_time"
    history = trainer.learner.history
    passes.lines.show(history)
    trainer.warn_of_cuts()
    trainer = passes.kept or trainer
    return trainer, Run(history, status, _message(status, trainer))


class _Passes:
    """Passes over the rows. All rates learn in the first pass, the best one in the others; the best pass is kept."""

    def __init__(self, options: OnlineOptions, trainers: list[Trainer]) -> None:
        self.options, self.trainers = options, trainers
        self.period = int(options.hold_out) if options.passes > 1 else 0
        self.jobs, self.lines = threads.thread_count(options.n_jobs), ProgressiveLines(options.verbose)
        self.begin = time.monotonic()
        self.number, self.is_late, self.is_over = 0, False, False
        self.best, self.without_gain = math.inf, 0
        self.kept: Trainer | None = None

    def best_trainer(self) -> Trainer:
        """Trainer with the smallest progressive loss."""
        return min(self.trainers, key=lambda trainer: _nan_last(trainer.loss()))

    def run(self, blocks: Iterable[Block]) -> None:
        """Do one pass; sets `is_over` if it was the last."""
        for trainer in self.trainers:
            trainer.learner.start_pass(self.period)
        for block in blocks:
            threads.run([partial(trainer.feed, block) for trainer in self.trainers], self.jobs)
            self.lines.show(self.trainers[0].learner.history)
            self.best_trainer().check_finite()
            if self.options.max_time is not None and time.monotonic() - self.begin > self.options.max_time:
                self.is_late = self.is_over = True
                break
        trainer = self.best_trainer()
        self.trainers = [trainer]
        if self.number == 0 and trainer.learner.examples == 0:
            raise DataError("there are no examples to learn from")
        if not trainer.has_labels:
            raise DataError("there are no labels to learn from: no example has one")
        trainer.learner.report()
        self.number += 1
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


def _message(status: str, trainer: Trainer) -> str:
    learned, history = f"{trainer.learner.examples} examples learned", trainer.learner.history
    if history and history[-1]["average_loss"] is not None:
        learned += f", progressive loss {history[-1]['average_loss']:.6g}"
    return {"converged": learned, "max_time": f"max_time reached: {learned}"}.get(status, f"interrupted: {learned}")


def array_blocks(X: Any, y: Any, weights: Any = None, column_kinds: Any = None) -> Iterable[Block]:
    """The rows of arrays, `CHUNK_ROWS` at a time."""
    X = summed(X) if sparse.issparse(X) else X
    for first in range(0, X.shape[0], CHUNK_ROWS):
        rows = slice(first, min(first + CHUNK_ROWS, X.shape[0]))
        yield Block(X[rows], y[rows], None if weights is None else weights[rows], column_kinds=column_kinds)


def _nan_last(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss
