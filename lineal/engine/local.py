"""All rows in this process: arrays or memory maps, cut into blocks that bound the workspace.

Threads work inside a block (rows of X@V, columns of X'@R) instead of each on its own block: no thread needs a private
d × k sum, and the result does not depend on the number of threads. Dense blocks are small enough to stay in cache
between the two products of a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.design import Design
from lineal.engine.base import Block, Summands, add_in_order

#: Bytes of scores that a block of sparse rows may need.
SCORE_BYTES = 64 << 20

#: Bytes of X in a block of dense rows.
DENSE_BYTES = 16 << 20


@dataclass(frozen=True)
class LocalEngine:
    """Rows held by this process. Workspace: scores and gradients of one block, at most 2·SCORE_BYTES."""

    X: Design
    targets: Any
    weights: np.ndarray
    n_columns: int
    offsets: np.ndarray | None = None
    threads: int = 1
    block_rows: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X."""
        return self.X.dtype

    def rows_of_a_block(self) -> int:
        """Rows in a block: all of them, unless scores or cache ask for less."""
        n, d = self.shape
        if self.block_rows is not None:
            return self.block_rows
        if not self.X.has_rows:
            return max(n, 1)
        size = self.dtype.itemsize
        rows = max(1, SCORE_BYTES // (8 * self.n_columns))
        if self.X.is_dense:
            # A block costs one addition of a d × k gradient: it must be worth more than that.
            rows = min(rows, max(DENSE_BYTES // max(1, d * size), 4 * self.n_columns, 256))
        return rows

    def blocks(self, at_least: int = 1) -> list[Block]:
        """All blocks in order."""
        n, rows = self.shape[0], max(self.rows_of_a_block(), at_least)
        cuts = [(start, min(start + rows, n)) for start in range(0, n, rows)]
        return [
            Block(
                self.X.rows(start, stop),
                self.targets.rows(start, stop),
                self.weights[start:stop],
                None if self.offsets is None else self.offsets[start:stop],
                self.threads,
                start,
            )
            for start, stop in cuts
        ]

    def sum(self, step: Callable[[Block], Summands], rows: int = 1) -> Summands:
        """Σ over blocks (of at least so many `rows`) of step(block), added in the order of the blocks."""
        return add_in_order(step(block) for block in self.blocks(rows))
