"""Online learning: predict, then update, one example after the other, with hashed features and products of them.

The update is that of Vowpal Wabbit: adaptive, normalised and importance-invariant (`lineal.online.state` has the
formulas). Products of features are in `lineal.online.monomials`; those that grow while learning (Agarwal et al. 2014)
are chosen in `lineal.online.parents`.

Rows come in blocks, and results do not depend on how a stream is cut into blocks. Memory: 2^bits slots of 16 bytes for
one score, or of 4·(2k + 1) bytes for k scores (k rounded up to a multiple of 8), and one example after its expansion.
Adaptive expansion adds 8 bytes per slot for the names of the monomials.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lineal.errors import DataError, OptionError
from lineal.online import loss as losses
from lineal.online.expansion import Products, check_slots
from lineal.online.history import Report
from lineal.online.many_columns import learn_many_rows, score_many_rows
from lineal.online.monomials import Scratch
from lineal.online.one_column import learn_rows, score_rows
from lineal.online.options import OnlineOptions
from lineal.online.parents import Parents
from lineal.online.state import (
    ENTRIES,
    EXAMPLES,
    HIGHEST,
    LOGISTIC_LIMIT,
    LOWEST,
    PASS_EXAMPLES,
    Many,
    Record,
    Rows,
    Rule,
)
from lineal.online.table import WeightTable
from lineal.problem.loop_state import LoopState

_PICKY = "picky expansion works with one score per example only: for two classes, or for numbers"


class Learner(LoopState):
    """The state of an online learner.

    Parameters
    ----------
    options : checked `OnlineOptions`.
    k : scores per example; 1 for two classes and for numbers.
    has_sets : whether an example can have several labels.
    is_number : whether labels are numbers rather than −1 and 1: scores are clipped to the labels seen.
    n_examples : examples of all passes together, for equal epochs; None if the number is not known.

    Attributes
    ----------
    reports : what the lines of the history for this pass were made of: sums of losses, examples, and parents. Those of
        several learners can be added up.
    """

    state_names = (
        "counts", "passes", "history", "sums", "_reported", "_next_report", "period", "table", "products",
    )  # fmt: skip

    def __init__(
        self,
        options: OnlineOptions,
        k: int = 1,
        has_sets: bool = False,
        n_examples: int | None = None,
        is_number: bool = False,
    ) -> None:
        self.options, self.has_sets, self.is_number = options, has_sets, is_number
        if options.picky and k > 1:
            raise OptionError(_PICKY)
        with _memory(options.bits, k):
            self.products = Products(options, n_examples)
            limit = LOGISTIC_LIMIT if options.loss == "logistic" else 0.0
            self.table = WeightTable(self.products.slots, k, limit)
        self.counts: np.ndarray = np.zeros(3, np.int64)
        self.passes: int = 0
        self.history: list[dict[str, Any]] = []
        self.reports: list[Report] = []
        self.sums: np.ndarray = np.zeros(4)
        self._reported: np.ndarray = np.zeros(4)
        self._next_report = 1
        self.period = 0
        self._scratch: Scratch | None = None

    @property
    def k(self) -> int:
        """Number of scores per example."""
        return self.table.k

    @property
    def examples(self) -> int:
        """Number of examples in all passes, learned from or held out."""
        return int(self.counts[EXAMPLES])

    @property
    def pass_examples(self) -> int:
        """Number of examples in this pass, learned from or held out."""
        return int(self.counts[PASS_EXAMPLES])

    @property
    def entries(self) -> int:
        """Number of stored entries of all examples."""
        return int(self.counts[ENTRIES])

    @property
    def parents(self) -> Parents:
        """Monomials by which adaptive expansion multiplies features."""
        return self.products.parents

    def weights(self, slots: Any = slice(None)) -> np.ndarray:
        """Weights after penalties, (slots + 1, k), with the constant in the last row; or those of some slots."""
        return self.table.weights(slots)

    def grow(self, k: int) -> None:
        """Make room for k scores per example, if there are fewer."""
        if k <= self.k:
            return
        if self.options.picky:
            raise OptionError(_PICKY)
        with _memory(self.options.bits, k):
            self.table, self._scratch = self.table.grown(k), None

    # --- files

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; a table may have grown since the first example."""
        if name == "table" and value["k"] != self.k:
            self.table = WeightTable(self.table.slots, value["k"], self.table.limit)
        super().restore_part(name, value)

    def tensors(self) -> dict[str, np.ndarray]:
        """Learned values as arrays over the slots that are in use."""
        is_kept = self.table.is_touched()
        origin = self.products.origin
        is_kept[: len(origin)] |= origin != 0  # candidates, and what was held out
        slots = np.flatnonzero(is_kept).astype(np.int64)
        return {"slots": slots, **self.table.tensors(slots), **self.products.tensors(slots)}

    def restore_tensors(self, parents: Parents, tensors: dict[str, np.ndarray], width: int) -> None:
        """Restore learned values from the arrays of a model file, for rows of `width` columns.

        Raises a ValueError if they do not fit: a file may be damaged.
        """
        slots = tensors["slots"]
        check_slots("slots", slots, self.products.slots)
        self.table.restore_tensors(slots, tensors)
        self.products.restore_tensors(parents, slots, tensors, width)

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rows: Rows, sets: np.ndarray | None = None, set_starts: np.ndarray | None = None) -> np.ndarray:
        """Learn from rows in order; returns the prediction for each row before its update: a score, or the best column.

        With several columns, `sets` has the label columns of the rows; those of row i start at set_starts[i].
        """
        rows = rows._replace(first=self.pass_examples)
        table, products = self.table, self.products
        predicted: np.ndarray = np.empty(len(rows.labels), np.float64 if table.k == 1 else np.int32)
        rule, record = self._rule(), Record(self.sums, self.counts, predicted)
        self._do_what_is_due()  # an interrupt may have come between
        for first, last in self._pieces(len(rows.labels)):
            self._make_room(rows)
            if table.k == 1:
                learn_rows(rows, first, last, table.one, rule, products.arrays, self._scratch, record)
            else:
                many = self._many(sets, set_starts)
                learn_many_rows(rows, first, last, many, rule, products.arrays, self._scratch, record)
            self._do_what_is_due()
        return predicted

    def _do_what_is_due(self) -> None:
        """Report and grow if the number of examples requires it and it has not been done."""
        if self.examples == self._next_report:
            self.report()
        if self.examples == self.products.next_growth() > 0:
            self.products.grow(self.table, self.entries / max(self.examples, 1))

    def count_features(self, rows: Rows) -> int:
        """Number of features of all rows after an adaptive expansion, without the constant."""
        clashes: np.ndarray = np.zeros(2, np.int64)
        self.scores(rows, clashes)
        return int(clashes[1])

    def scores(self, rows: Rows, clashes: np.ndarray | None = None) -> np.ndarray:
        """Scores (n, k) without learning. Adds to `clashes`, if given, as in `Expansion`."""
        n, table = len(rows.starts) - 1, self.table
        expansion = self.products.for_scores(clashes)
        scratch = self._room(rows)
        if table.k == 1:
            single: np.ndarray = np.empty(n)
            score_rows(rows, 0, n, table.one, expansion, scratch, single)
            if self.is_number:
                np.clip(single, table.totals[0, LOWEST], table.totals[0, HIGHEST], out=single)
            return single[:, None]
        scores: np.ndarray = np.empty((n, table.k))
        score_many_rows(rows, 0, n, self._many(None, None), expansion, scratch, scores)
        return scores

    def start_pass(self, period: int = 0) -> None:
        """Start a pass: rows and losses are counted from zero. Every `period`-th row is held out; 0 for none."""
        self.passes, self.period = self.passes + 1, period
        self.counts[PASS_EXAMPLES] = 0
        self.reports = []
        self.sums, self._reported = np.zeros(4), np.zeros(4)
        self._next_report = self.examples + 1

    def part(self, has_counts: bool) -> None:
        """Become one of several learners that go on from the same state; one of them has its counts.

        So the counts of all of them together are right.
        """
        self.history = []
        self.counts = self.counts.copy() if has_counts else np.zeros_like(self.counts)
        if not has_counts:
            self.products.clashes[:], self.products.cuts[:] = 0, 0

    def report_rest(self) -> None:
        """Report the examples since the last report, if there are any, also those without a label or a weight."""
        has_more = bool(self.reports) and self.reports[-1].examples < self.pass_examples
        if has_more or not np.array_equal(self.sums, self._reported):
            self.report()

    def report(self) -> None:
        """Add a line to the history: the progressive loss of this pass so far and since the last report."""
        report = Report(self.sums.copy(), self.pass_examples, len(self.parents))
        self.reports.append(report)
        self.history.append(report.line(max(self.passes, 1), self._reported))
        self._reported = self.sums.copy()
        self._next_report = self.examples + max(1, self.pass_examples)

    def go_on_after(self, sums: np.ndarray) -> None:
        """Go on after a pass with these sums of losses, which have been reported."""
        self.sums, self._reported = sums, sums.copy()
        self._next_report = self.examples + max(1, self.pass_examples)

    def _rule(self) -> Rule:
        o = self.options
        return Rule(
            losses.get(str(o.loss), o.tau), float(o.rate), float(o.power_t), float(o.initial_t), float(o.l1),
            float(o.l2), bool(o.adaptive), bool(o.normalised), bool(o.invariant), bool(o.theorem), int(self.period),
            float(o.caution) if o.expansion == "adaptive" else 0.0,
        )  # fmt: skip

    def _many(self, sets: np.ndarray | None, set_starts: np.ndarray | None) -> Many:
        def vector(dtype: Any = np.float32) -> np.ndarray:
            return np.zeros(self.table.width, dtype)

        return Many(
            self.k, self.has_sets, self.table.many, scores=vector(), labels=vector(np.float64),
            derivatives=vector(np.float64), squares=vector(), q=vector(), updates=vector(np.float64), steps=vector(),
            sets=np.zeros(0, np.int32) if sets is None else sets,
            set_starts=np.zeros(1, np.int64) if set_starts is None else set_starts,
        )  # fmt: skip

    def _pieces(self, n: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that end where a report or a growth is due."""
        first = 0
        while first < n:
            stops = [self._next_report, self.products.next_growth()]
            ahead = min([stop - self.examples for stop in stops if stop > self.examples] + [n - first])
            yield first, first + ahead
            first += ahead

    def _make_room(self, rows: Rows) -> None:
        if self._scratch is None or not self.products.has_room(self._scratch, rows, self._rate_columns):
            self._scratch = self._room(rows)

    def _room(self, rows: Rows) -> Scratch:
        return self.products.room(rows, self._rate_columns)

    @property
    def _rate_columns(self) -> int:
        return self.table.width if self.k > 1 else 0


@contextmanager
def _memory(bits: int, k: int) -> Iterator[None]:
    """Turn a MemoryError into one that says what needs the memory."""
    try:
        yield
    except MemoryError as error:
        raise DataError(f"not enough memory for 2**{bits} weights of {k} scores: use fewer bits (--bits)") from error
