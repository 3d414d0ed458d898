"""Who a pass over the rows waits for, what is said of them, and when they are given up."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lineal.engine.dask.shares import Report

#: A worker that takes this many times as long as the others, and longer than so many seconds, is slow.
SLOW, SLOW_SECONDS = 2.0, 0.5

#: Seconds before a worker is named that a pass waits for.
WAIT_SECONDS = 3.0

#: Seconds that a pass takes as far as nothing is known.
UNKNOWN_SECONDS = 30.0

#: Largest number of workers that are named.
NAMED = 3


def leave(waiting: asyncio.Future[Any]) -> None:
    """Let results be gathered that nobody waits for any more; the gathering ends when their futures are released.

    Dask waits for every future in a task of its own. If the gathering were cancelled, these tasks would go on, and
    asyncio would log the error of each of them.
    """
    waiting.add_done_callback(retrieve)


def retrieve(future: asyncio.Future[Any]) -> None:
    """Look at the exception of a future that nobody waits for: asyncio would log it, and keep what it refers to."""
    if not future.cancelled():
        future.exception()


class Waiting:
    """Waits for the answers of workers to one pass.

    Parameters
    ----------
    late : function that returns the addresses of workers that have not answered yet.
    longest : seconds that the longest pass before took; 0 if there was none.
    """

    def __init__(self, late: Callable[[], Sequence[str]], longest: float) -> None:
        self._late, self._longest = late, longest
        self._begin = time.monotonic()
        self._took: list[float] = []
        self.late = list(late())

    def look(self) -> None:
        """Take note of who has answered since the last look."""
        late = list(self._late())
        self._took += [self.seconds] * (len(self.late) - len(late))
        self.late = late

    @property
    def seconds(self) -> float:
        """Seconds since the pass began."""
        return time.monotonic() - self._begin

    @property
    def named(self) -> str:
        """The workers that have not answered, for messages."""
        names = list(dict.fromkeys(self.late))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"worker{'s' * (len(names) > 1)} {', '.join(names[:NAMED])}{more}"

    def remark(self) -> str:
        """Who is waited for, if they take much longer than most of the others, or than passes before; else nothing."""
        is_most = len(self._took) >= len(self.late)
        usual = statistics.median(self._took) if self._took and is_most else self._longest or UNKNOWN_SECONDS
        if not self.late or self.seconds <= max(WAIT_SECONDS, SLOW * usual):
            return ""
        return f"waiting for {self.named} for {self.seconds:.0f} s"

    def is_hopeless(self, patience: float) -> bool:
        """Whether the pass takes longer than `patience`, and much longer than any before and any answer to this one."""
        return bool(self.late) and self.seconds > max(patience, SLOW * max([self._longest, *self._took]))


def on_slow_worker(passes: Iterable[Sequence[Report]]) -> str:
    """What to say of a worker that took much longer than the others in some passes; usually nothing."""
    seconds: dict[str, list[float]] = {}
    for reports in passes:
        for report in reports:
            seconds.setdefault(report.address, []).append(report.seconds)
    means = {address: statistics.fmean(values) for address, values in seconds.items() if len(values) > 1}
    if len(means) < 2:
        return ""
    slowest = max(means, key=lambda address: means[address])
    others = statistics.median(mean for address, mean in means.items() if address != slowest)
    if means[slowest] < SLOW_SECONDS or means[slowest] < SLOW * others:
        return ""
    return f"worker {slowest} takes {means[slowest] / max(others, 1e-9):.1f} times as long as the others"
