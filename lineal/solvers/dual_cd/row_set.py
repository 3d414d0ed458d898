"""Rows that passes run over: all rows of a fit in memory, or one block of a file."""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel
from lineal.core.rng import shuffle
from lineal.design import Design
from lineal.solvers.dual_cd.column_groups import ColumnGroups
from lineal.solvers.dual_cd.rows import PassRows
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES

#: Lengths of runs of neighbouring rows that are visited together: (number of passes, rows per run); then one row per
#: run. Neighbours share cache lines, but the last digits converge many times faster in a completely random order.
RUN_ROWS = ((4, 64), (10, 8))


class RowSet:
    """Some rows with their dual variables.

    Attributes
    ----------
    X : the rows, with the columns divided as `Geometry.stretched` does.
    given : what a pass reads of them.
    weights : their weights.
    U : their dual variables.
    active : per group of columns, a mask of the rows that the next pass visits.
    slack : per group of columns, the largest violation in the last pass.
    kept : classes that are kept per row (see `simplex.py`), or an empty array.
    order : memory for the order of the next pass.
    """

    def __init__(self, X: Design, given: PassRows, weights: np.ndarray, U: ColumnGroups, keeps: bool) -> None:
        self.X, self.given, self.weights, self.U = X, given, weights, U
        self.active, self.slack = [weights > 0.0 for _ in U.groups], [math.inf for _ in U.groups]
        self.kept = np.zeros((len(weights), 1 + KEPT_CLASSES) if keeps else (0, 0), np.int32)
        self.order = np.empty(len(weights), np.int64)
        self.is_sorted = _is_sorted(given.columns, given.starts)

    def shuffled(self, state: np.ndarray, passes: int) -> np.ndarray:
        """Random order of all rows, for a pass after so many others."""
        runs = 1 if self.is_sorted else next((rows for until, rows in RUN_ROWS if passes < until), 1)
        _random_order(state, runs, self.order)
        return self.order

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        count = np.count_nonzero(self.weights > 0.0)
        shrunk = any(np.count_nonzero(mask) < count for mask in self.active)
        self.active = [self.weights > 0.0 for _ in self.active]
        self.slack = [math.inf for _ in self.slack]
        return shrunk


def _is_sorted(columns: np.ndarray, starts: np.ndarray) -> bool:
    """Whether neighbouring rows often have the same label, so that they must not be visited together."""
    firsts = columns[np.minimum(starts[:-1], max(len(columns) - 1, 0))] if len(columns) else columns
    if len(firsts) < 2:
        return False
    fractions = np.unique(firsts, return_counts=True)[1] / len(firsts)
    expected, observed = float(fractions @ fractions), float(np.mean(firsts[1:] == firsts[:-1]))
    return observed > expected + 0.25 * (1.0 - expected)


@kernel
def _random_order(state, length, order):
    """Write a random order of runs of neighbouring rows, with the rows of each run in random order."""
    n = order.shape[0]
    runs = np.arange((n + length - 1) // length)
    shuffle(state, runs)
    at = 0
    for position in range(runs.shape[0]):
        start = runs[position] * length
        stop = min(start + length, n)
        for i in range(start, stop):
            order[at + i - start] = i
        shuffle(state, order[at : at + stop - start])
        at += stop - start
