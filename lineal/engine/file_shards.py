"""Rows in files in shards: runs from random places, loaded together (`Engine.shards`).

Shards are loaded one after the other, and all threads work on one. There are as few as the memory budget allows. Which
rows are in which shard depends on the files, the number of score columns, the budget that was given, the number of
shards and the seed.

Memory: three shards.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.design import Design
from lineal.engine.base import Block
from lineal.engine.file import FileEngine, FileSource, Load
from lineal.engine.file_sizes import too_small
from lineal.engine.in_process import InProcess
from lineal.engine.local_shards import check_count
from lineal.engine.streamed import Span
from lineal.engine.time_limit import ShareOfRest, share_of_rest
from lineal.errors import OptionError

#: Part of the memory budget that one shard may take, and the number of shards in memory: one is used, one waits and one
#: is being read.
SHARDS_PER_BUDGET, SHARDS_AT_ONCE = 12, 3

#: Runs of consecutive rows per shard, at least. The more, the more a shard resembles all rows.
RUNS_PER_SHARD = 16

#: The runs of each shard.
Loads = tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, eq=False)
class FileShards(InProcess):
    """Shards of rows in files, which are loaded one after the other.

    Attributes
    ----------
    rows : the engine that reads the files.
    loads : the runs of each shard.
    """

    rows: FileEngine
    loads: Loads

    @staticmethod
    def of(engine: FileEngine, count: int | None, seed: int) -> FileShards:
        """The rows of a file engine in shards, as few as memory allows by default."""
        source = engine.source
        if count is not None:
            check_count(count, engine.shape[0])
        if _memory(source, source.planned) > source.left:
            raise too_small("shards of rows", partial(_memory, source), source.left)
        size = _shard_bytes(source, source.planned)
        most = max(engine.load.rows, size // max(1, 8 * engine.n_columns))
        rows = replace(engine, load=Load(size, most))
        runs = _runs(rows, count)
        order = np.arange(len(runs))
        shuffle(generator(seed, 2), order)
        loads = _dealt(rows, [runs[number] for number in order.tolist()], count or 1)
        if count is not None and count < len(loads):
            raise OptionError(
                f"shards={count!r} are too few: within memory_budget a shard has at most {size >> 20} MB, so that "
                f"{len(loads)} are needed; raise memory_budget, or leave shards out"
            )
        return FileShards(rows, loads)

    @functools.cached_property
    def partition(self) -> np.ndarray:
        """Numbers that tell which rows are in which shard: for each run its shard, its first row and its length."""
        runs = [(number, run.first, run.n) for number, load in enumerate(self.loads) for run in load]
        return np.array(runs, np.int64)

    def time_per_shard(self, seconds: float | None) -> ShareOfRest | None:
        """Limit of the time of a step on each shard, so that all shards take at most so many seconds from now on."""
        return share_of_rest(seconds, len(self.loads), self.shape[0])

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


def _shard_bytes(source: FileSource, planned: int) -> int:
    """Largest number of bytes of X in a shard, where sizes are made for `planned` bytes."""
    return max(source.block_bytes(planned), planned // SHARDS_PER_BUDGET)


def _memory(source: FileSource, planned: int) -> int:
    """Number of bytes of X that are in memory at once."""
    return SHARDS_AT_ONCE * min(_shard_bytes(source, planned), source.nbytes)


def _runs(engine: FileEngine, count: int | None) -> list[Span]:
    """Runs of the files: at least RUNS_PER_SHARD per shard, as far as there are so many rows.

    One shard has all rows, wherever they are from, so that it needs no more runs than the files have blocks.
    """
    per_load = RUNS_PER_SHARD
    while True:
        runs = engine.runs(per_load)
        shards = max(count or 1, len(engine.loads(runs)))
        if shards == 1 or len(runs) >= RUNS_PER_SHARD * shards or len(runs) == engine.shape[0]:
            return runs
        per_load *= 4


def _dealt(engine: FileEngine, runs: Sequence[Span], count: int) -> Loads:
    """Runs dealt out to `count` shards, or to more of them if one of these is too large to be loaded at once."""
    count = max(count, len(engine.loads(runs)))
    while True:
        cuts = np.linspace(0, len(runs), count + 1).astype(int).tolist()
        shards = [runs[start:stop] for start, stop in itertools.pairwise(cuts)]
        if all(len(engine.loads(shard)) <= 1 for shard in shards):
            return tuple(tuple(shard) for shard in shards if shard)
        count += 1
