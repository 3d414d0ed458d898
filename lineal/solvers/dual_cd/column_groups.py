"""A matrix stored as one array per group of columns, so that threads on different groups share no cache line."""

from __future__ import annotations

from typing import Any

import numpy as np


class ColumnGroups:
    """An (n, k) matrix, stored as arrays (n, k₁), (n, k₂), … Slices of rows are joined; `np.asarray` joins all."""

    def __init__(self, groups: list[np.ndarray]) -> None:
        self.groups = groups

    @classmethod
    def split(cls, matrix: Any, ranges: list[tuple[int, int]], dtype: Any) -> ColumnGroups:
        """Copy of a matrix, split into ranges of columns."""
        matrix = np.asarray(matrix)
        return cls([np.array(matrix[:, first:last], dtype, order="C") for first, last in ranges])

    @classmethod
    def zeros(cls, n: int, ranges: list[tuple[int, int]], dtype: Any) -> ColumnGroups:
        """Matrix of zeros, split into ranges of columns."""
        return cls([np.zeros((n, last - first), dtype) for first, last in ranges])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return (len(self.groups[0]), sum(group.shape[1] for group in self.groups))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the entries."""
        return self.groups[0].dtype

    def any(self) -> bool:
        """Whether some entry is not zero."""
        return any(bool(group.any()) for group in self.groups)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows of all columns."""
        if len(self.groups) == 1:
            return self.groups[0][rows]
        return np.concatenate([group[rows] for group in self.groups], axis=1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and len(self.groups) > 1:
            raise ValueError("groups of columns cannot be joined without a copy")
        return np.array(self[:], dtype, copy=copy or None)
