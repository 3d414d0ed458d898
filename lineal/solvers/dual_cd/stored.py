"""Dual variables of rows in a file: one piece per run of rows, in memory up to a budget, then in a temporary file."""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from lineal.engine.scratch import Kept, Scratch
from lineal.errors import DataError
from lineal.solvers.dual_cd.column_groups import ColumnGroups


class StoredDuals:
    """An (n, k) matrix of dual variables that are read run by run. Slices of rows are arrays."""

    def __init__(
        self, scratch: Scratch, bounds: Sequence[tuple[int, int]], ranges: list[tuple[int, int]], dtype: Any
    ) -> None:
        self.scratch, self.bounds, self.ranges, self.dtype = scratch, list(bounds), ranges, np.dtype(dtype)
        self.shape = sum(n for _, n in bounds), ranges[-1][1] if ranges else 0
        self.firsts = [first for first, _ in self.bounds]
        self.kept: dict[int, Kept] = {}
        weakref.finalize(self, _drop_all, scratch, self.kept).atexit = False

    def any(self) -> bool:
        """Whether some dual variables have been set."""
        return bool(self.kept)

    def take(self, numbers: Sequence[int]) -> ColumnGroups:
        """Dual variables of some runs, zero at first; they can be changed, and then belong back here (`put`)."""
        parts = [self._piece(number) for number in numbers]
        if len(parts) == 1:
            return parts[0]
        return ColumnGroups([np.concatenate(group) for group in zip(*(part.groups for part in parts))])

    def _piece(self, number: int) -> ColumnGroups:
        if number not in self.kept:
            return ColumnGroups.zeros(self.bounds[number][1], self.ranges, self.dtype)
        piece = self.scratch.get(self.kept[number])
        return ColumnGroups([piece[str(group)] for group in range(len(self.ranges))])

    def put(self, numbers: Sequence[int], U: ColumnGroups) -> None:
        """Keep the dual variables of some runs. They cannot be computed again: a full disk is an error."""
        at = 0
        for number in numbers:
            part, at = slice(at, at + self.bounds[number][1]), at + self.bounds[number][1]
            piece = {str(group): points[part] for group, points in enumerate(U.groups)}
            if len(numbers) > 1:  # a view would keep all of them
                piece = {name: points.copy() for name, points in piece.items()}
            if number in self.kept:
                self.scratch.drop(self.kept.pop(number))
            try:
                self.kept[number] = self.scratch.keep(piece)
            except OSError as error:
                raise DataError(
                    "no room for the dual variables of dual_cd in the folder for temporary files "
                    f"({error.strerror}): free some space, set TMPDIR to another folder, raise memory_budget, or use "
                    "solver='lbfgs' if the loss is smooth"
                ) from error

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows of all columns."""
        start, stop, _ = rows.indices(self.shape[0])
        parts = []
        for number in range(max(bisect.bisect_right(self.firsts, start) - 1, 0), len(self.bounds)):
            first, n = self.bounds[number]
            if first >= stop:
                break
            low, high = max(start - first, 0), min(stop - first, n)
            if low < high:
                parts.append(self._piece(number)[low:high])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("dual variables that are stored by run cannot be joined without a copy")
        return np.asarray(self[:], dtype)


def _drop_all(scratch: Scratch, kept: dict[int, Kept]) -> None:
    for entry in kept.values():
        scratch.drop(entry)
