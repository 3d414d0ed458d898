"""All rows in this process: arrays or memory maps, cut into blocks that bound the workspace.

Threads work inside a block (rows of X@V, columns of X'@R) instead of each on its own block: no thread needs a private
d × k sum, and the result does not depend on the number of threads. Dense blocks are small enough to stay in cache
between the two products of a gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lineal.design import Design
from lineal.engine.base import Block, Summands, add_along_tree
from lineal.engine.state import Moving, RowState, StateCache, States, arrive, cut_rows

#: Bytes of scores that a block of sparse rows may need.
SCORE_BYTES = 64 << 20

#: Bytes of X in a block of dense rows.
DENSE_BYTES = 16 << 20


@dataclass(frozen=True)
class LocalEngine:
    """Rows held by this process. Workspace: scores and gradients of one block, at most 2·SCORE_BYTES, and row state."""

    X: Design
    targets: Any
    weights: np.ndarray
    n_columns: int
    offsets: np.ndarray | None = None
    threads: int = 1
    block_rows: int | None = None
    cache: StateCache = field(default_factory=StateCache, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X."""
        return self.X.dtype

    @property
    def is_dense(self) -> bool:
        """Whether the rows store all of their entries."""
        return self.X.is_dense

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        return self.X.stored

    def with_threads(self, threads: int) -> LocalEngine:
        """The same rows, with this many threads per block."""
        return self if threads == self.threads else replace(self, threads=threads)

    def with_weights(self, weights: np.ndarray) -> LocalEngine:
        """The same rows, not copied, with other weights, which add up to one."""
        return replace(self, weights=weights)

    def rows_of_a_block(self) -> int:
        """Rows in a block: all of them, unless scores or cache ask for less."""
        n, d = self.shape
        if not self.X.has_rows:
            return max(n, 1)
        if self.block_rows is not None:
            return self.block_rows
        size = self.dtype.itemsize
        rows = max(1, SCORE_BYTES // (8 * self.n_columns))
        if self.X.is_dense:
            # A block costs one addition of a d × k gradient: it must be worth more than that.
            rows = min(rows, max(DENSE_BYTES // max(1, d * size), 4 * self.n_columns, 256))
        return rows

    @functools.cached_property
    def _blocks(self) -> list[Block]:
        return self._cut(self.rows_of_a_block())

    def blocks(self, at_least: int = 1) -> list[Block]:
        """All blocks in order, of at least so many rows."""
        return self._blocks if at_least <= self.rows_of_a_block() else self._cut(at_least)

    def _cut(self, rows: int) -> list[Block]:
        n = self.shape[0]
        cuts = [(start, min(start + rows, n)) for start in range(0, max(n, 1), rows)]
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

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Σ over blocks of step(block, *pieces of the states, *arguments), along a fixed tree (`add_along_tree`)."""
        if not states:
            return add_along_tree(step(block, *arguments) for block in self.blocks(rows))
        return add_along_tree(self._answers(step, arguments, states))

    def update(self, step: Any, *arguments: Any, states: States) -> None:
        """Run a step for what it writes to the states that move, unless they are not kept."""
        if all(self.cache.holds(entry.state) for entry in states if isinstance(entry, Moving)):
            for _ in self._answers(step, arguments, states):
                pass
        else:
            arrive(states)

    def gather(self, step: Any, *arguments: Any, states: States = ()) -> list[Any]:
        """The answer of each block, in order."""
        return list(self._answers(step, arguments, states))

    def _answers(self, step: Any, arguments: tuple[Any, ...], states: States) -> Iterator[Any]:
        uses = [entry.use() for entry in states]
        for number, block in enumerate(self.blocks()):
            mine = [use.for_rows(block.first, block.n) for use in uses]
            yield self.cache.run(step, number, block, mine, arguments)
        arrive(states)

    def state(self, rebuild: Any, *arguments: Any, max_bytes: float = math.inf) -> RowState:
        """Row state that `rebuild(block, *arguments)` makes, kept up to `max_bytes` for all rows together."""
        return self.cache.drop_with(RowState(rebuild, arguments, max_bytes / max(self.shape[0], 1)))

    def cut(self, array: Any) -> RowState:
        """The rows of an array, (n, …), as row state, without a copy."""
        return RowState(cut_rows, (array,), -1.0)
