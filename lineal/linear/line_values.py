"""Values of decisions, and how they change while rows go over to one class.

A line search moves the threshold of one class. As it falls, rows change one after the other from their best other class
to this one. `along` gives the value after each of them, for m rows in time O(m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from lineal.core.jit import kernel


class Line(NamedTuple):
    """Rows, and the order in which they go over to a class.

    Attributes
    ----------
    order : (m,) numbers of the rows.
    truth : (m,) their classes.
    rest : (m,) the class that each of them leaves, never `to`.
    weights : (m,) their weights, which add up to one.
    to : the class that they go over to.
    """

    order: np.ndarray
    truth: np.ndarray
    rest: np.ndarray
    weights: np.ndarray
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
        values = np.empty(len(line.order) + 1)
        _gains_along(line, self.gains, self.of(line.truth, line.rest, line.weights), values)
        return values


@dataclass(frozen=True)
class MeanF1:
    """Mean F1 of some classes: 2·hits / (predicted + true), all of them sums of weights.

    Attributes
    ----------
    counted : (k,) bool, the classes, at least one.
    """

    counted: np.ndarray

    def of(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> float:
        """Mean F1."""
        hits, guessed, true = self._sums(truth, guess, weights)
        return float(_f1(hits, guessed + true)[self.counted].mean())

    def along(self, line: Line) -> np.ndarray:
        """Mean F1 along a line."""
        hits, guessed, true = self._sums(line.truth, line.rest, line.weights)
        values = np.empty(len(line.order) + 1)
        start = _f1(hits, guessed + true)
        _f1_along(line, self.counted / np.count_nonzero(self.counted), np.stack([hits, guessed + true, start]), values)
        return values

    def _sums(self, truth: np.ndarray, guess: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        k = len(self.counted)
        hits = np.where(truth == guess, weights, 0.0)
        return tuple(np.bincount(of, sums, k) for of, sums in ((guess, hits), (guess, weights), (truth, weights)))


def _f1(hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """F1 from hits and from predicted plus true; 0 where both are 0."""
    return 2.0 * hits / np.where(sizes > 0.0, sizes, 1.0)


@kernel
def _gains_along(line: Line, gains: np.ndarray, start: float, values: np.ndarray) -> None:
    total, to = start, line.to
    values[0] = start
    for j in range(len(line.order)):
        i = line.order[j]
        y = line.truth[i]
        total += line.weights[i] * (gains[y, to] - gains[y, line.rest[i]])
        values[j + 1] = total


@kernel
def _f1_along(line: Line, shares: np.ndarray, sums: np.ndarray, values: np.ndarray) -> None:
    """`shares` of the classes in the mean; `sums` has hits, predicted plus true, and F1 per class, and is changed."""
    hits, sizes, f1, to = sums[0], sums[1], sums[2], line.to
    total = (shares * f1).sum()  # F1 of `to` is 0 here: no row has it
    gained, own = 0.0, sizes[to]
    values[0] = total
    for j in range(len(line.order)):
        i = line.order[j]
        s, y, weight = line.rest[i], line.truth[i], line.weights[i]
        sizes[s] -= weight
        own += weight
        if y == s:
            hits[s] -= weight
        elif y == to:
            gained += weight
        before = f1[s]
        f1[s] = 2.0 * max(hits[s], 0.0) / sizes[s] if sizes[s] > 0.0 else 0.0
        total += shares[s] * (f1[s] - before)
        values[j + 1] = total + shares[to] * 2.0 * gained / own


@kernel
def two_best(A: np.ndarray, rows: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Write the classes with the largest and the second largest score of these rows; of equal ones the first."""
    k = A.shape[1]
    for i in rows:
        best, other = (0, 1) if A[i, 0] >= A[i, 1] else (1, 0)
        for r in range(2, k):
            if A[i, r] > A[i, best]:
                best, other = r, best
            elif A[i, r] > A[i, other]:
                other = r
        first[i], second[i] = best, other
