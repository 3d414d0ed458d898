"""The time that a step may take on each shard, where all shards together have a limit.

Shards of which some wait for others get a fair share each: the first ones must not take the time of the last ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lineal.engine.base import Block

#: Largest number of seconds for a step on a block.
TimeLimit = Callable[[Block], float]

#: Smallest limit of the time of a step, in seconds.
LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class EqualShare:
    """The same time for every shard, for those in other processes, which have other clocks."""

    seconds: float

    def __call__(self, block: Block) -> float:
        return max(self.seconds, LEAST_SECONDS)


@dataclass(frozen=True)
class ShareOfRest:
    """A fair share of the time until a deadline, for shards in this process, which begin in order.

    What a shard leaves is for those after it. `turns` is the number of shards that one thread works on one after the
    other, and n the number of rows of all shards.
    """

    deadline: float
    turns: int
    n: int

    def __call__(self, block: Block) -> float:
        turns_left = max(self.turns * (1.0 - block.first / max(self.n, 1)), 1.0)
        return max((self.deadline - time.monotonic()) / turns_left, LEAST_SECONDS)


def share_of_rest(seconds: float | None, turns: int, n: int) -> ShareOfRest | None:
    """Fair shares of the next seconds; None without a limit."""
    return None if seconds is None else ShareOfRest(time.monotonic() + seconds, turns, n)
