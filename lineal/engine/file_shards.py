"""Rows in files in shards: runs from random places, loaded together (`Engine.shards`).

Shards are loaded one after the other, and all threads work on one. There are as few as the memory budget allows.

Memory: three shards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.design import Design
from lineal.engine.base import Block
from lineal.engine.file import FileEngine, Load
from lineal.engine.in_process import InProcess
from lineal.engine.local_shards import check_count
from lineal.engine.streamed import Span
from lineal.errors import OptionError

#: Part of the memory budget that one shard may take; there are three of them.
SHARDS_PER_BUDGET = 12

#: Runs of consecutive rows per shard, at least. The more, the more a shard resembles all rows.
RUNS_PER_SHARD = 16


@dataclass(frozen=True, eq=False)
class FileShards(InProcess):
    """Shards of rows in files, which are loaded one after the other.

    Attributes
    ----------
    rows : the engine that reads the files.
    loads : the runs of each shard.
    """

    rows: FileEngine
    loads: tuple[tuple[Span, ...], ...]

    @staticmethod
    def of(engine: FileEngine, count: int | None, seed: int) -> FileShards:
        """The rows of a file engine in shards, as few as memory allows by default."""
        n = engine.shape[0]
        if count is not None:
            check_count(count, n)
        size = max(engine.load.nbytes, engine.source.left // SHARDS_PER_BUDGET)
        most = max(engine.load.rows, size // max(1, 8 * engine.n_columns))
        rows = replace(engine, load=Load(size, most))
        runs = _runs(rows, count or 1)
        order = np.arange(len(runs))
        shuffle(generator(seed, 2), order)
        mixed = [runs[number] for number in order.tolist()]
        least = len(rows.loads(mixed))
        if count is not None and count < least:
            raise OptionError(
                f"shards={count!r} are too few: within memory_budget a shard has at most {size >> 20} MB, so that "
                f"{least} are needed; raise memory_budget, or leave it out"
            )
        return FileShards(rows, _dealt(rows, mixed, max(count or 1, least)))

    @property
    def cache(self) -> Any:  # type: ignore[override]
        """Row state of the shards."""
        return self.rows.cache

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X."""
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of X."""
        return self.rows.dtype

    @property
    def n_columns(self) -> int:
        """Number of score columns, k."""
        return self.rows.n_columns

    @property
    def threads(self) -> int:
        """Number of threads for work on parameters instead of rows."""
        return self.rows.threads

    @property
    def is_dense(self) -> bool:
        """Whether X is stored with its zeros."""
        return self.rows.is_dense

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        return self.rows.stored

    @property
    def room(self) -> int:
        """Number of bytes that a solver may use besides rows."""
        return self.rows.room

    def with_threads(self, threads: int) -> FileShards:
        """An engine with the same shards and this many threads per shard."""
        return replace(self, rows=self.rows.with_threads(threads))

    def with_weights(self, weights: np.ndarray) -> FileShards:
        """An engine with the same shards and other weights of the rows of the files."""
        return replace(self, rows=self.rows.with_weights(weights))

    def with_features(self, change: Callable[[Design], Design]) -> FileShards:
        """An engine with the same shards in other coordinates."""
        return replace(self, rows=self.rows.with_features(change))

    def shards(self, count: int | None = None, seed: int = 0) -> FileShards:
        """These shards."""
        return self

    def blocks(self, at_least: int = 1) -> Iterator[Block]:
        """All shards in order; each one is valid until the next one is requested."""
        first = 0
        for block in self.rows.visit(self.loads, _itself):
            yield replace(block, first=first)
            first += block.n


def _itself(block: Block) -> Block:
    return block


def _runs(engine: FileEngine, count: int) -> list[Span]:
    """Runs of the files, at least as many as there are shards."""
    per_shard = RUNS_PER_SHARD
    while True:
        runs = engine.runs(per_shard)
        if len(runs) >= count or all(run.n == 1 for run in runs):
            return runs
        per_shard *= 4


def _dealt(engine: FileEngine, runs: Sequence[Span], count: int) -> tuple[tuple[Span, ...], ...]:
    """Runs dealt out to at least `count` shards, each small enough to be loaded at once."""
    while True:
        cuts = np.linspace(0, len(runs), count + 1).astype(int).tolist()
        shards = [runs[start:stop] for start, stop in itertools.pairwise(cuts)]
        if all(len(engine.loads(shard)) <= 1 for shard in shards):
            return tuple(tuple(shard) for shard in shards if shard)
        count += 1
