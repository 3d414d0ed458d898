"""Dual variables of rows in a file: one piece per block, in memory up to a budget, then in a temporary file."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from lineal.engine.scratch import Kept, Scratch
from lineal.errors import DataError
from lineal.solvers.dual_cd.column_groups import ColumnGroups


class StoredDuals:
    """An (n, k) matrix of dual variables that are read block by block. Slices of rows are arrays."""

    def __init__(
        self, scratch: Scratch, bounds: Sequence[tuple[int, int]], ranges: list[tuple[int, int]], dtype: Any
    ) -> None:
        self.scratch, self.bounds, self.ranges, self.dtype = scratch, list(bounds), ranges, np.dtype(dtype)
        self.shape = sum(n for _, n in bounds), ranges[-1][1] if ranges else 0
        self.kept: dict[int, Kept] = {}
        weakref.finalize(self, _drop_all, scratch, self.kept).atexit = False

    def any(self) -> bool:
        """Whether some dual variables have been set."""
        return bool(self.kept)

    def take(self, number: int) -> ColumnGroups:
        """Dual variables of a block, zero at first; they can be changed, and then belong back here (`put`)."""
        if number not in self.kept:
            return ColumnGroups.zeros(self.bounds[number][1], self.ranges, self.dtype)
        piece = self.scratch.get(self.kept[number])
        return ColumnGroups([piece[str(group)] for group in range(len(self.ranges))])

    def put(self, number: int, U: ColumnGroups) -> None:
        """Keep the dual variables of a block. They cannot be computed again: a full disk is an error."""
        if number in self.kept:
            self.scratch.drop(self.kept.pop(number))
        try:
            self.kept[number] = self.scratch.keep({str(at): group for at, group in enumerate(U.groups)})
        except OSError as error:
            raise DataError(
                f"no room for the dual variables of dual_cd in the folder for temporary files ({error.strerror}): free "
                "some space, set TMPDIR to another folder, raise memory_budget, or use solver='lbfgs' if the loss is "
                "smooth"
            ) from error

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows of all columns."""
        start, stop, _ = rows.indices(self.shape[0])
        parts = []
        for number, (first, n) in enumerate(self.bounds):
            low, high = max(start - first, 0), min(stop - first, n)
            if low < high:
                parts.append(self.take(number)[low:high])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("dual variables that are stored by block cannot be joined without a copy")
        return np.asarray(self[:], dtype)


def _drop_all(scratch: Scratch, kept: dict[int, Kept]) -> None:
    for entry in kept.values():
        scratch.drop(entry)
