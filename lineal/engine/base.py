"""The one interface between solvers and rows: `Engine.sum`.

A solver never loops over rows. It states what to do with a block of rows, and the engine adds up the answers, in the
order of the blocks. Arrays in memory, a memory-mapped file and a cluster differ only in who holds which block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lineal.design import Design

#: What a step returns: arrays and numbers that are added up entry by entry.
Summands = tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """Some consecutive rows with all that belongs to them.

    Attributes
    ----------
    X : the rows.
    targets : their labels (`lineal.problem.targets`).
    weights : their weights; over all blocks they add up to one.
    offsets : (rows, k) base scores, or None.
    threads : how many threads the step may use on this block.
    first : number of its first row among all rows of the engine.
    """

    X: Design
    targets: Any
    weights: np.ndarray
    offsets: np.ndarray | None
    threads: int
    first: int = 0


class Engine(Protocol):
    """Holder of all rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X."""
        ...

    @property
    def n_columns(self) -> int:
        """k, the number of score columns."""
        ...

    @property
    def threads(self) -> int:
        """Threads for work that is not over rows."""
        ...

    def sum(self, step: Callable[[Block], Summands], rows: int = 1) -> Summands:
        """Σ over blocks of step(block), added in the order of the blocks.

        A step whose answer is large (d × d) asks for blocks of at least so many `rows`.
        """
        ...


def add_in_order(parts: Iterator[Summands]) -> Summands:
    """Entrywise sum of tuples of arrays and numbers; the first tuple's arrays are reused."""
    total = list(next(parts))
    for part in parts:
        for position, term in enumerate(part):
            if isinstance(term, np.ndarray):
                total[position] += term
            else:
                total[position] = total[position] + term
    return tuple(total)
