"""An objective on the columns that have entries, for sparse rows most of whose columns are empty.

Words hashed to 2^22 columns fill a few per cent of them. The weights of empty columns are zero in any solution, but
solvers that work on whole vectors of weights spend nearly all their time on them. Solvers see the rows with the used
columns only, whose entries are shared with the rows that were given; all others see all columns. Objective, certificate
and dual variables are the same.

Memory: the indices of X once more, and 4 bytes per column of X while they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.design.csc import CSC
from lineal.design.matrix import Design
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.solution import Members, Snapshot, Solution
from lineal.system import memory

#: The name under which a `Design` keeps the rows with fewer columns.
COPY = "used columns"

#: Columns are left out if there are at least so many, of which at most this share is used.
MANY, LARGEST_SHARE = 1 << 14, 0.25


@dataclass(frozen=True)
class Narrowed:
    """An objective as solvers see it (`inside`), and the way back to the one that was given (`outside`)."""

    outside: Objective
    inside: Objective
    used: np.ndarray

    def start(self, start: np.ndarray | Solution | None) -> np.ndarray | Solution | None:
        """A starting point for all columns as one for the used columns."""
        if start is None:
            return None
        if isinstance(start, Solution):
            return replace(start, weights=start.weights[self.used])
        W, b = self.outside.split(start)
        return np.vstack([W[self.used], b[None, :]])[: self.inside.shape[0]]

    def callback(self, callback: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Any]:
        """A callback that is shown the weights of all columns."""

        def shown(snapshot: Snapshot) -> Any:
            W = self._outside(snapshot.weights)
            W.flags.writeable = False
            return callback(replace(snapshot, weights=W))

        return shown

    def solution(self, found: Solution) -> Solution:
        """A solution for the used columns as one for all columns."""
        members = found.members
        if members is not None:
            members = Members(np.stack([self._outside(W) for W in members.weights]), members.intercepts)
        return replace(found, weights=self._outside(found.weights), members=members)

    def _outside(self, W: np.ndarray) -> np.ndarray:
        whole = np.zeros((self.outside.engine.shape[1], W.shape[1]), W.dtype)
        whole[self.used] = W
        return whole


def narrowed(objective: Objective) -> Narrowed | None:
    """The objective on the used columns; None if that saves little, or if the empty ones cannot be left out.

    Rows must be in this process. X keeps the narrow copy, like those of `lineal.design.orders`.
    """
    engine, regulariser = objective.engine, objective.regulariser
    d = engine.shape[1]
    if d < MANY or not isinstance(engine, LocalEngine) or engine.is_dense:
        return None
    if regulariser.groups.features.size or regulariser.centre is not None:
        return None
    if np.count_nonzero(objective.moments[1]) > LARGEST_SHARE * d:
        return None
    copy = _copy(engine.X)
    if copy is None:
        return None
    used, X = copy
    penalty = Regulariser(regulariser.penalty, regulariser.alpha, len(used), regulariser.factors[used])
    inside = replace(objective, engine=replace(engine, X=X), regulariser=penalty)
    inside.__dict__["moments"] = tuple(moment[used] for moment in objective.moments)
    for known in ("mean_square", "_class_weights"):
        if known in objective.__dict__:
            inside.__dict__[known] = objective.__dict__[known]
    return Narrowed(objective, inside, used)


def _copy(X: Design) -> tuple[np.ndarray, Design] | None:
    """Numbers of the used columns, and the rows with these columns only; None if too many are used, or no room."""
    known: tuple[np.ndarray, Design] | None = X.copies.get(COPY)
    if known is not None:
        return known
    if not memory.has_room(X.nbytes):
        return None
    layout, d = X.layout, X.shape[1]
    if isinstance(layout, CSC):
        used = np.flatnonzero(np.diff(layout.indptr))
        starts = np.append(layout.indptr[used], layout.indptr[-1:])
        narrow = layout._replace(indptr=starts)
    else:
        entries = slice(int(layout.indptr[0]), int(layout.indptr[-1]))
        is_used = np.zeros(d, bool)
        is_used[layout.indices[entries]] = True
        used = np.flatnonzero(is_used)
        numbers = np.zeros(d, np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        indices = numbers[layout.indices[entries]].astype(layout.indices.dtype, copy=False)
        narrow = layout._replace(
            data=layout.data[entries], indices=indices, indptr=layout.indptr - layout.indptr[0], n_columns=len(used)
        )
    if not 0 < len(used) <= LARGEST_SHARE * d:
        return None
    known = X.copies[COPY] = (used, Design(narrow, (X.shape[0], len(used)), X.dtype, X.is_sorted))
    return known
