"""Values of decisions, and how they change while rows go over to one class.

A line search moves the threshold of one class r. As it falls, rows change one after the other from their best other
class to r. `along` gives the value after each of them, for all rows at once, in time O(m log m) and memory of about ten
times the m rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np


class Line(NamedTuple):
    """Rows in the order in which they go over to a class.

    Attributes
    ----------
    truth : (m,) their classes.
    weights : (m,) their weights, which add up to one.
    rest : (m,) the class that they leave, never `to`.
    to : the class that they go over to.
    """

    truth: np.ndarray
    weights: np.ndarray
    rest: np.ndarray
    to: int


class Value(Protocol):
    """What decisions are worth: the larger, the better."""

    def of(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> float:
        """Value of these decisions, with weights that add up to one."""
        ...

    def along(self, line: Line) -> np.ndarray:
        """Values (m + 1,) after the first 0, …, m rows of a line have gone over."""
        ...


@dataclass(frozen=True)
class Gain:
    """Mean gain of the decisions.

    Attributes
    ----------
    gains : (k, k) by true and predicted class.
    """

    gains: np.ndarray

    def of(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> float:
        """Mean gain."""
        return float(weights @ self.gains[truth, guess])

    def along(self, line: Line) -> np.ndarray:
        """Mean gains along a line."""
        before = self.gains[line.truth, line.rest]
        changes = line.weights * (self.gains[line.truth, line.to] - before)
        return float(line.weights @ before) + _after_each(changes)


@dataclass(frozen=True)
class MeanF1:
    """Mean F1 of some classes: 2·hits / (predicted + true), all of them sums of weights.

    Attributes
    ----------
    counted : (k,) bool, the classes; each of them has rows.
    """

    counted: np.ndarray

    def of(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> float:
        """Mean F1."""
        hits, guessed, true = self._sums(truth, guess, weights)
        return float(_f1(hits, guessed + true)[self.counted].mean())

    def along(self, line: Line) -> np.ndarray:
        """Mean F1 along a line."""
        truth, weights, rest, to = line
        hits, guessed, true = self._sums(truth, rest, weights)
        leaving = _RunningSums(rest, len(self.counted))
        lost_hits = leaving.of(np.where(truth == rest, weights, 0.0))
        lost, left = leaving.of(weights), leaving.groups
        after = _f1(np.maximum(hits[left] - lost_hits, 0.0), np.maximum(guessed[left] - lost, 0.0) + true[left])
        start = _f1(hits, guessed + true)
        changes = np.where(self.counted[left], after - leaving.before(after, start), 0.0)
        gained = _after_each(np.where(truth == to, weights, 0.0))
        own = _f1(gained, _after_each(weights) + true[to]) if self.counted[to] else 0.0
        total: np.ndarray = start[self.counted].sum() + _after_each(leaving.in_order(changes)) + own
        return total / np.count_nonzero(self.counted)

    def _sums(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        k = len(self.counted)
        hits = np.where(truth == guess, weights, 0.0)
        return tuple(np.bincount(of, sums, k) for of, sums in ((guess, hits), (guess, weights), (truth, weights)))


class _RunningSums:
    """Sums over the rows so far within each group, for rows sorted by group and else in their order."""

    def __init__(self, groups: np.ndarray, k: int) -> None:
        self.order = np.argsort(groups, kind="stable")
        self.groups = groups[self.order]
        counts = np.bincount(groups, minlength=k)
        self.firsts = (np.cumsum(counts) - counts)[self.groups]

    def of(self, values: np.ndarray) -> np.ndarray:
        """Running sums of the values of rows in their order."""
        values = values[self.order]
        sums = np.cumsum(values)
        return sums - (sums - values)[self.firsts]

    def before(self, values: np.ndarray, start: np.ndarray) -> np.ndarray:
        """For sorted rows, the value of the row before in the same group; for the first one, that of `start`."""
        before = np.empty_like(values)
        before[1:] = values[:-1]
        is_first = np.arange(len(values)) == self.firsts
        before[is_first] = start[self.groups[is_first]]
        return before

    def in_order(self, values: np.ndarray) -> np.ndarray:
        """Values of sorted rows, in the order of the rows."""
        found = np.empty_like(values)
        found[self.order] = values
        return found


def _after_each(changes: np.ndarray) -> np.ndarray:
    """Sums of the first 0, …, m changes."""
    return np.concatenate([[0.0], np.cumsum(changes)])


def _f1(hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """F1 from hits and from predicted plus true; 0 where both are 0."""
    return 2.0 * hits / np.where(sizes > 0.0, sizes, 1.0)
