"""Checks of the row offsets and column indices of sparse rows, some at a time: kernels trust them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from lineal.data.dataset import Dataset
from lineal.errors import DataError

#: Number of elements that are checked at a time.
CHECK_STEP = 1 << 18

Slice = Callable[[int, int], np.ndarray]


def check_rows(
    offsets: Slice, n_offsets: int, indices: Slice, n_indices: int, bound: int, name: str, ascending: bool = True
) -> None:
    """Check that row offsets do not decrease, and that indices lie in [0, bound) and ascend strictly within a row.

    `offsets` and `indices` are functions that return a slice. Only the first index of a row may be no larger than
    the index before it.
    """
    for start in range(0, n_offsets - 1, CHECK_STEP):
        rows = offsets(start, min(start + CHECK_STEP + 1, n_offsets))
        if (rows[1:] < rows[:-1]).any() or rows[0] < 0 or rows[-1] > n_indices:
            raise DataError(f"{name} is damaged: its row offsets are out of order near row {start}")
        first, last = int(rows[0]), int(rows[-1])
        for entry in range(first, last, CHECK_STEP):
            before = max(entry - 1, first)
            part = indices(before, min(entry + CHECK_STEP, last))
            low, high = int(part.min()), int(part.max())
            if low < 0 or high >= bound:
                wrong = low if low < 0 else high
                raise DataError(f"{name} is damaged: index {wrong} is out of range for {bound} columns")
            if not ascending:
                continue
            falls = before + 1 + np.flatnonzero(part[1:] <= part[:-1])
            row = np.searchsorted(rows, falls)
            if (rows[row] != falls).any():
                wrong = start + int(row[(rows[row] != falls).argmax()]) - 1
                raise DataError(f"{name} is damaged: the indices of row {wrong} do not ascend")


def check_sparse(data: Dataset, name: str = "the dataset", ascending: bool = False) -> None:
    """Check every row offset and column index of a dataset; with `ascending`, also that the indices of a row ascend."""
    for matrix in (data.X, data.y):
        if sparse.issparse(matrix):
            pointers, indices = matrix.indptr, matrix.indices
            if len(pointers) != matrix.shape[0] + 1 or pointers[0] != 0 or pointers[-1] > len(indices):
                raise DataError(f"{name} is damaged: its row offsets do not match its entries")
            check_rows(
                _slices(pointers), len(pointers), _slices(indices), int(pointers[-1]), matrix.shape[1], name, ascending
            )


def _slices(values: np.ndarray) -> Slice:
    return lambda first, last: values[first:last]
