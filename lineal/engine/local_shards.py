"""Rows in this process in shards: random parts, on each of which a step can solve a problem (`Engine.shards`).

The rows are dealt out in random order, into a copy of X that X keeps, so that every shard resembles all rows even if
they are sorted by label. Threads work on one shard each.

Memory: a copy of X.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.rng import generator, shuffle
from lineal.design import Design
from lineal.design.orders import by_rows, take_rows
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.engine.state import States, commit
from lineal.engine.time_limit import ShareOfRest, share_of_rest
from lineal.engine.tree import Summands, add_along_tree
from lineal.errors import OptionError

#: Number of shards if none is given. It does not depend on the machine, because results depend on it.
SHARDS = 4

#: The name under which a `Design` keeps its copy with the rows in random order.
COPY = "shards"


@dataclass(frozen=True)
class LocalShards(LocalEngine):
    """Shards of rows in this process. The rows are in the order of the shards."""

    count: int = 1

    @functools.cached_property
    def _cuts(self) -> list[int]:
        cuts: list[int] = np.linspace(0, self.shape[0], self.count + 1).astype(int).tolist()
        return cuts

    @functools.cached_property
    def _blocks(self) -> list[Block]:
        threads = max(1, self.threads // self.count)
        return [self.block_of(start, stop, threads) for start, stop in itertools.pairwise(self._cuts)]

    @property
    def partition(self) -> np.ndarray:
        """Numbers that tell which rows are in which shard: where each one begins, in the order of the seed."""
        return np.array(self._cuts, np.int64)

    def time_per_shard(self, seconds: float | None) -> ShareOfRest | None:
        """Limit of the time of a step on each shard, so that all shards take at most so many seconds from now on."""
        return share_of_rest(seconds, -(-self.count // max(1, self.threads)), self.shape[0])

    def blocks(self, at_least: int = 1) -> list[Block]:
        """The shards."""
        return self._blocks

    def shards(self, count: int | None = None, seed: int = 0) -> LocalShards:
        """These shards."""
        return self

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Sum of step(block, *pieces of the states, *arguments) over all shards (see `add_along_tree`)."""
        return add_along_tree(self._results(step, arguments, states))

    def _results(self, step: Any, arguments: tuple[Any, ...], states: States) -> Iterator[Any]:
        uses = [entry.use() for entry in states]
        tasks = [
            partial(self.cache.run, step, number, block, uses, arguments) for number, block in enumerate(self._blocks)
        ]
        yield from pool.run(tasks, self.threads)
        commit(states)


def local_shards(engine: LocalEngine, count: int | None, seed: int) -> LocalShards:
    """The rows of a local engine in shards."""
    n = engine.shape[0]
    number = max(1, min(SHARDS, n)) if count is None else count
    check_count(number, n)
    X, targets, weights, offsets = by_rows(engine.X), engine.targets, engine.weights, engine.offsets
    if number > 1:
        order, X = _mixed(X, seed)
        targets, weights = targets.take(order), weights[order]
        offsets = None if offsets is None else offsets[order]
    return LocalShards(
        X, targets, weights, engine.n_columns, offsets, engine.threads, cache=engine.cache, count=number
    )  # fmt: skip


def _mixed(X: Design, seed: int) -> tuple[np.ndarray, Design]:
    """The rows in random order, as numbers and as a copy that X keeps."""
    if X.copies.get(COPY, (None,))[0] != seed:
        order = np.arange(X.shape[0])
        shuffle(generator(seed, 2), order)
        X.copies[COPY] = seed, order, take_rows(X, order)
    _, order, mixed = X.copies[COPY]
    return order, mixed


def check_count(count: int, n: int) -> None:
    """Refuse more shards than rows."""
    if count > max(n, 1):
        raise OptionError(f"shards={count!r} is more than the {n} rows: use at most {max(n, 1)}")
