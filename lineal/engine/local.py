"""Engine for rows in this process: arrays or memory maps, in blocks that limit the workspace.

Threads share the work inside a block (rows of X@V, columns of X'@R) instead of working on one block each. So no thread
needs its own d × k sum, and the result does not depend on the number of threads. Dense blocks are small enough to stay
in the CPU cache between the two products of a gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lineal.design import Design
from lineal.engine.base import Block
from lineal.engine.in_process import InProcess
from lineal.engine.state import Piece, RowState, StateCache

if TYPE_CHECKING:
    from lineal.engine.local_shards import LocalShards

#: Largest number of bytes for the scores of a block.
SCORE_BYTES = 64 << 20

#: Largest number of bytes of X in a block of dense rows.
DENSE_BYTES = 16 << 20


def rows_per_block(d: int, itemsize: int, is_dense: bool, n_columns: int) -> int:
    """Largest number of rows of a block, for d columns of numbers of that many bytes and n_columns scores per row."""
    rows = max(1, SCORE_BYTES // (8 * n_columns))
    if is_dense:
        # Each block adds a d × k gradient to the sum, so it must have enough rows to make that cheap.
        rows = min(rows, max(DENSE_BYTES // max(1, d * itemsize), 4 * n_columns, 256))
    return rows


@dataclass(frozen=True)
class LocalEngine(InProcess):
    """Engine whose rows are arrays in this process.

    Memory: scores and gradients of one block, at most 2·SCORE_BYTES, and row state.
    """

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
        """Number of rows and columns of X."""
        return self.X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of X."""
        return self.X.dtype

    @property
    def is_dense(self) -> bool:
        """Whether X is stored with its zeros."""
        return self.X.is_dense

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        return self.X.stored

    def with_threads(self, threads: int) -> Self:
        """An engine with the same rows and this many threads per block."""
        return self if threads == self.threads else replace(self, threads=threads)

    def with_weights(self, weights: np.ndarray) -> Self:
        """An engine with the same rows, not copied, and other weights, which add up to one."""
        return replace(self, weights=weights)

    def with_features(self, change: Callable[[Design], Design]) -> Self:
        """An engine with the same rows in other coordinates."""
        return replace(self, X=change(self.X))

    def shards(self, count: int | None = None, seed: int = 0) -> LocalShards:
        """The same rows, dealt out at random to this many blocks, which are worked on side by side."""
        from lineal.engine.local_shards import local_shards

        return local_shards(self, count, seed)

    def rows_of_a_block(self) -> int:
        """Number of rows per block: all rows, unless their scores or the CPU cache limit it."""
        n, d = self.shape
        if not self.X.has_rows:
            return max(n, 1)
        if self.block_rows is not None:
            return self.block_rows
        return rows_per_block(d, self.dtype.itemsize, self.X.is_dense, self.n_columns)

    @functools.cached_property
    def _blocks(self) -> list[Block]:
        return self._cut(self.rows_of_a_block())

    def blocks(self, at_least: int = 1) -> list[Block]:
        """All blocks in order, of at least `at_least` rows each (the last one may be smaller)."""
        return self._blocks if at_least <= self.rows_of_a_block() else self._cut(at_least)

    def _cut(self, rows: int) -> list[Block]:
        n = self.shape[0]
        return [self.block_of(start, min(start + rows, n), self.threads) for start in range(0, max(n, 1), rows)]

    def block_of(self, start: int, stop: int, threads: int) -> Block:
        """Rows start … stop − 1 as a block."""
        return Block(
            self.X.rows(start, stop),
            self.targets.rows(start, stop),
            self.weights[start:stop],
            None if self.offsets is None else self.offsets[start:stop],
            threads,
            start,
        )


def pieces_of(engine: Any, state: RowState) -> list[Piece] | None:
    """The pieces of a row state in block order, for a checkpoint; None if a local engine does not keep all of them.

    State that is not kept is rebuilt from its parameters for every step, with the same result.
    """
    if not isinstance(engine, LocalEngine):
        return None
    found = [engine.cache.kept.get((state.key, number)) for number in range(len(engine._blocks))]
    if any(entry is None or entry[0] != state.version for entry in found):
        return None
    return [dict(entry[1]) for entry in found if entry is not None]


def put_pieces(engine: Any, state: RowState, pieces: list[Piece] | None) -> None:
    """Give the pieces of a checkpoint to a new row state."""
    if pieces is None:
        return
    if not isinstance(engine, LocalEngine) or len(pieces) != len(engine._blocks):
        raise ValueError("its rows are in other blocks")
    for number, (piece, block) in enumerate(zip(pieces, engine._blocks)):
        if any(len(array) != block.n for name, array in piece.items() if array.ndim == 2 and array.size):
            raise ValueError("its blocks have other lengths")
        engine.cache.put(number, state.use(), piece)
