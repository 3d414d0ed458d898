"""Sums over blocks along one binary tree over the block numbers.

The tree depends only on the number of blocks. Whoever holds some of the blocks adds up the largest complete subtrees
among them, and these partial sums can be joined in any order and grouping: the result has the same bits, however the
blocks are spread over threads, processes and machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

#: What a step returns: arrays and numbers, which are added entry by entry.
Summands = tuple[Any, ...]


class TreeSum:
    """Partial sums of some blocks: the summands of the largest complete subtrees among them.

    A subtree of level l with index i contains the blocks i·2^l … (i + 1)·2^l − 1. Floating-point arrays are added in
    float64, and rounded to their data type in `total`. Memory: for blocks that are added in order, log₂(blocks) + 1
    summands.
    """

    def __init__(self) -> None:
        self.subtrees: dict[tuple[int, int], Summands] = {}

    def add(self, number: int, summands: Summands) -> None:
        """Add the summands of one block. They may be changed later."""
        self._put(0, number, summands)

    def join(self, other: TreeSum) -> TreeSum:
        """Add the partial sums of other blocks, which may be changed later; returns this object."""
        for (level, index), summands in other.subtrees.items():
            self._put(level, index, summands)
        return self

    def total(self, n_blocks: int) -> Summands:
        """The sum of blocks 0 … n_blocks − 1, all of which must have been added."""
        at, parts = 0, []
        for (level, index), summands in sorted(self.subtrees.items(), key=lambda entry: entry[0][1] << entry[0][0]):
            if index << level != at:
                raise ValueError(f"block {at} is missing from a sum")
            at = (index + 1) << level
            parts.append(summands)
        if at != n_blocks:
            raise ValueError(f"a sum over {n_blocks} blocks has {at}")
        total = parts.pop()
        while parts:
            total = _added(parts.pop(), total)
        return tuple(term.value() if isinstance(term, _Wide) else term for term in total)

    def _put(self, level: int, index: int, summands: Summands) -> None:
        while (level, index ^ 1) in self.subtrees:
            sibling = self.subtrees.pop((level, index ^ 1))
            summands = _added(summands, sibling) if index % 2 == 0 else _added(sibling, summands)
            level, index = level + 1, index // 2
        self.subtrees[level, index] = summands


def add_along_tree(parts: Iterable[Summands]) -> Summands:
    """Entrywise sum of the summands of all blocks, which come in order. Memory: log₂(blocks) + 1 summands."""
    tree, number = TreeSum(), -1
    for number, part in enumerate(parts):
        tree.add(number, part)
    return tree.total(number + 1)


class _Wide:
    """Sum of arrays in float64, with the data type to which it is rounded at the end."""

    def __init__(self, total: np.ndarray, dtype: np.dtype[Any]) -> None:
        self.total, self.dtype = total, dtype

    def plus(self, other: Any) -> _Wide:
        """This sum with another one or an array added, in place unless it arrived as read-only memory."""
        more = other.total if isinstance(other, _Wide) else other
        if self.total.flags.writeable:
            self.total += more
            return self
        return _Wide(self.total + more, self.dtype)

    def value(self) -> np.ndarray:
        """The sum in the data type of its summands."""
        return self.total.astype(self.dtype, copy=False)


def _added(left: Summands, right: Summands) -> Summands:
    return tuple(_sum(a, b) for a, b in zip(left, right, strict=True))


def _sum(a: Any, b: Any) -> Any:
    if isinstance(a, _Wide):
        return a.plus(b)
    if isinstance(b, _Wide):  # the last blocks can be in smaller subtrees than those before
        return b.plus(a)
    if isinstance(a, np.ndarray) and a.dtype.kind == "f":
        return _Wide(np.add(a, b, dtype=np.float64), a.dtype)
    return a + b
