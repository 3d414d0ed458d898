"""Whether rows come in random order as far as their labels tell, found while they are learned from.

In random order, the n_c of n rows that have the label c come in about e_c = n_c (n − n_c + 1) / n runs (Wald &
Wolfowitz 1940). Rows sorted by label come in one run per label, and rows that were collected label by label come in
few. The numbers of rows and runs are all that is kept, two integers per label, and those of consecutive parts can be
added up.

Numbers to predict count as labels as long as they have few values. Otherwise they are sorted if they nearly always rise
or nearly always fall from row to row: a time series does both.

Rows that are shuffled through a buffer are judged by the order in which they arrive: the buffer is a window, in which
each label should begin several runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lineal.problem.loop_state import LoopState

#: Rows are in long runs if there are at most this fraction of the runs that random order would have, …
FEW_RUNS = 0.1

#: … fewer than expected by so many standard deviations (or more: √e_c bounds the deviation), …
DEVIATIONS = 7.0

#: … for labels that this fraction of the rows has.
SHARE_OF_ROWS = 0.05

#: Runs of each label that a window of shuffled rows should have.
RUNS_PER_WINDOW = 10.0

#: Numbers with more different values than this are not counted one by one.
MOST_VALUES = 64


class Runs(NamedTuple):
    """Rows that are not in random order.

    label : the number of the label whose rows come together; None for all of them.
    found, expected : runs, and those of a random order.
    """

    label: int | None
    found: int
    expected: float


class LabelOrder(LoopState):
    """Numbers of rows and of runs of each label, which has a number; rows can have several labels.

    Attributes
    ----------
    rows : number of rows with labels.
    counts, runs : per label.
    first, last : labels of the first and the last row.
    """

    state_names = ("rows", "counts", "runs", "first", "last")

    def __init__(self) -> None:
        self.rows = 0
        self.counts: np.ndarray = np.zeros(0, np.int64)
        self.runs: np.ndarray = np.zeros(0, np.int64)
        self.first: np.ndarray = np.zeros(0, np.int64)
        self.last: np.ndarray = np.zeros(0, np.int64)

    def add(self, labels: np.ndarray) -> None:
        """Add rows with one label each."""
        if len(labels):
            begins = np.append(labels[:1] != self.last if len(self.last) == 1 else True, labels[1:] != labels[:-1])
            self._add(len(labels), labels, begins, labels[:1], labels[-1:])

    def add_sets(self, labels: np.ndarray, starts: np.ndarray) -> None:
        """Add rows with any number of labels; those of row i are from starts[i] to starts[i + 1]."""
        n = len(starts) - 1
        if n == 0:
            return
        rows = np.repeat(np.arange(n), np.diff(starts))
        order = np.argsort(labels, kind="stable")  # by label, then by row
        sorted_labels, sorted_rows = labels[order], rows[order]
        begins = np.ones(len(labels), bool)
        begins[1:] = (sorted_labels[1:] != sorted_labels[:-1]) | (sorted_rows[1:] > sorted_rows[:-1] + 1)
        begins &= ~((sorted_rows == 0) & np.isin(sorted_labels, self.last))
        self._add(n, sorted_labels, begins, labels[: starts[1]], labels[starts[n - 1] : starts[n]])

    def _add(self, n: int, labels: np.ndarray, begins: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        self._make_room(int(labels.max(initial=-1)) + 1)
        k = len(self.counts)
        self.counts = self.counts + np.bincount(labels, minlength=k)  # not in place: states share arrays
        self.runs = self.runs + np.bincount(labels[begins], minlength=k)
        if self.rows == 0:
            self.first = first.astype(np.int64)
        self.rows, self.last = self.rows + n, last.astype(np.int64)

    def _make_room(self, k: int) -> None:
        if k > len(self.counts):
            more = np.zeros(k - len(self.counts), np.int64)
            self.counts, self.runs = np.append(self.counts, more), np.append(self.runs, more)

    def turn(self) -> None:
        """Exchange the labels 0 and 1."""
        self._make_room(2)
        self.counts, self.runs = self.counts[[1, 0]], self.runs[[1, 0]]
        self.first, self.last = 1 - self.first, 1 - self.last

    def append(self, other: LabelOrder, places: np.ndarray) -> None:
        """Add the rows that follow; `places` are the numbers here of the labels there."""
        if other.rows == 0:
            return
        first, last = places[other.first], places[other.last]
        self._make_room(int(places.max(initial=-1)) + 1)
        used, k = places[: len(other.counts)], len(self.counts)
        joins = np.bincount(np.intersect1d(self.last, first), minlength=k)
        self.counts = self.counts + np.bincount(used, other.counts, k).astype(np.int64)
        self.runs = self.runs + np.bincount(used, other.runs, k).astype(np.int64) - joins
        if self.rows == 0:
            self.first = first
        self.rows, self.last = self.rows + other.rows, last

    def oddity(self, window: float = 0.0) -> Runs | None:
        """The runs, if they are too few; None if they are not, or if shuffling within windows makes up for it.

        `window` is the fraction of the rows that are shuffled together; 0 if they are not shuffled.
        """
        counts = self.counts.astype(np.float64)
        expected = counts * (self.rows - counts + 1.0) / max(self.rows, 1)
        total = Runs(None, int(self.runs.sum()), float(expected.sum()))
        mean_runs = float(self.runs @ counts) / max(counts.sum(), 1.0)
        if _are_few(total.found, total.expected) and mean_runs * window < RUNS_PER_WINDOW:
            return total
        together = _are_few(self.runs, expected) & (self.runs * window < RUNS_PER_WINDOW)
        if not together.any() or counts[together].sum() < SHARE_OF_ROWS * counts.sum():
            return None
        label = int(np.argmax(np.where(together, expected, 0.0)))
        return Runs(label, int(self.runs[label]), float(expected[label]))


class NumberOrder(LoopState):
    """How numbers change from row to row, and their runs if they have few values.

    Attributes
    ----------
    values : the values, in the order of their labels in `order`; none if they are too many.
    rises, falls : from how many rows to the next ones the number rises and falls.
    ends : the first and the last number; empty before the first row.
    rows : number of rows.
    """

    state_names = ("values", "order", "has_few", "rises", "falls", "ends", "rows")

    def __init__(self) -> None:
        self.values: np.ndarray = np.zeros(0)
        self.order = LabelOrder()
        self.has_few, self.rises, self.falls = True, 0, 0
        self.ends: np.ndarray = np.zeros(0)
        self.rows = 0

    def add(self, numbers: np.ndarray) -> None:
        """Add rows."""
        if not len(numbers):
            return
        changes = np.diff(np.append(self.ends[1:], numbers))
        self.rises += int(np.count_nonzero(changes > 0.0))
        self.falls += int(np.count_nonzero(changes < 0.0))
        self.ends = np.append(self.ends[:1] if len(self.ends) else numbers[:1], numbers[-1:])
        self.rows += len(numbers)
        if self.has_few:
            values, places = np.unique(numbers, return_inverse=True)
            own = self._places(values)
            if self.has_few:
                self.order.add(own[places.reshape(-1)])

    def _places(self, values: np.ndarray) -> np.ndarray:
        """The labels of different values, new ones among them; sets `has_few`."""
        self.values = np.append(self.values, values[~np.isin(values, self.values)])
        if len(self.values) > MOST_VALUES:
            self.has_few, self.values, self.order = False, np.zeros(0), LabelOrder()
            return np.zeros(0, np.int64)
        order = np.argsort(self.values)
        return order[np.searchsorted(self.values, values, sorter=order)]

    def append(self, other: NumberOrder) -> None:
        """Add the rows that follow."""
        if not len(other.ends):
            return
        begin = self.ends[0] if len(self.ends) else other.ends[0]
        change = other.ends[0] - self.ends[1] if len(self.ends) else 0.0
        self.rises += other.rises + int(change > 0.0)
        self.falls += other.falls + int(change < 0.0)
        self.rows += other.rows
        self.ends = np.array([begin, other.ends[1]])
        places = self._places(other.values)
        if self.has_few and other.has_few:
            self.order.append(other.order, places)
        else:
            self.has_few, self.values, self.order = False, np.zeros(0), LabelOrder()

    @property
    def is_sorted(self) -> bool:
        """Whether the numbers nearly always rise, or nearly always fall."""
        return bool(_are_few(min(self.rises, self.falls), (self.rises + self.falls) / 2.0))

    def oddity(self, window: float = 0.0) -> Runs | None:
        """The runs of equal numbers, as of `LabelOrder`."""
        return self.order.oddity(window) if self.has_few else None


def _are_few(found: Any, expected: Any) -> Any:
    return (expected > 0.0) & (found <= FEW_RUNS * expected) & (expected - found >= DEVIATIONS * np.sqrt(expected))


def restored(order: Any, state: dict[str, Any]) -> Any:
    """The new object with this state."""
    order.restore(state)
    return order


def joined(states: Sequence[dict[str, Any]], places: Sequence[np.ndarray] | None) -> LabelOrder | NumberOrder:
    """The order of consecutive parts; `places` are the labels of the labels of each part, None for numbers."""
    if places is None:
        numbers = NumberOrder()
        for state in states:
            numbers.append(restored(NumberOrder(), state))
        return numbers
    labels = LabelOrder()
    for state, own in zip(states, places, strict=True):
        labels.append(restored(LabelOrder(), state), own)
    return labels


def warning_of(order: LabelOrder | NumberOrder, classes: np.ndarray, window: int | None = None) -> str | None:
    """What is odd about the order of the rows, as a sentence; None if nothing is.

    `window` is the number of rows that are shuffled together; None if they are not shuffled.
    """
    if window is not None and window >= order.rows:
        return None
    odd = order.oddity(0.0 if window is None else window / order.rows)
    if odd is not None:
        whose = "labels" if odd.label is None or odd.label >= len(classes) else f"rows of {classes[odd.label].item()!r}"
        runs = "1 run" if odd.found == 1 else f"{odd.found} runs"
        what = f"the {whose} come in {runs}, and would in random order come in about {round(odd.expected)}"
    elif isinstance(order, NumberOrder) and order.is_sorted:
        what = f"the numbers rise {order.rises} times from row to row, and fall {order.falls} times"
    else:
        return None
    return (
        f"the rows are not in random order: {what}; an online learner forgets what it learned from earlier labels, and "
        "its progressive loss is then too low"
    )
