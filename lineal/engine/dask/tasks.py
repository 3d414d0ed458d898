"""A few long tasks on the workers of a cluster, each a pure function of what it is given.

A task whose worker is lost runs again on another one. What all tasks need is sent to the workers once, and is still
here: if it is lost with the workers, the tasks start again. While there is no worker, or while one takes much longer
than the others, the caller is told so.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from distributed import Client, Future, get_worker
from distributed.worker import thread_state

from lineal.engine.dask.cluster import no_workers
from lineal.engine.dask.rounds import ATTEMPTS, PATIENCE, RETRIES, SLOW, SLOW_SECONDS
from lineal.engine.dask.shares import sendable
from lineal.errors import ClusterError, LinealError

#: Seconds between two looks at the tasks.
LOOK_SECONDS = 0.5

#: Seconds between two messages about what is waited for.
TELL_SECONDS = 5.0


class Task(NamedTuple):
    """Arguments of one task, of which some can be futures, and what messages call it."""

    name: str
    arguments: tuple[Any, ...]


class Tasks:
    """Runs a function on workers.

    Attributes
    ----------
    told : function that is told what is waited for, or None.
    patience : seconds to wait for a first worker, and for tasks that have not ended when they should have.
    """

    def __init__(self, client: Client, told: Callable[[str], None] | None = None) -> None:
        self.client, self.told, self.patience = client, told, PATIENCE
        self._last_told = -float("inf")

    def run(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task], seconds: float | None = None
    ) -> list[Any]:
        """Results of function(shared, *arguments) for all tasks; an error of the function is raised as it is.

        After `seconds`, the tasks end by themselves: workers that do not answer some time later are named in an error.
        """
        answers: list[tuple[Any, Exception | None]] = self.client.sync(self._run, function, shared, tasks, seconds)
        for _, error in answers:
            if error is not None:
                raise error
        return [result for result, _ in answers]

    async def _run(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task], seconds: float | None
    ) -> list[tuple[Any, Exception | None]]:
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(0.1 * (2**attempt - 1))
            futures: list[Future] = []
            try:
                await self._wait_for_workers()
                sent = await self.client.scatter([shared], broadcast=True, hash=False)
                futures += sent
                running = [
                    self.client.submit(
                        _guarded, function, sent[0], *task.arguments, pure=False, retries=RETRIES,
                        key=f"lineal-{task.name.replace(' ', '-')}-{uuid.uuid4().hex}",
                    )
                    for task in tasks
                ]  # fmt: skip
                futures += running
                return await self._gathered(running, [task.name for task in tasks], seconds)
            except LinealError:
                raise
            except Exception as error:
                failure = error.with_traceback(None)
            finally:
                for future in futures:
                    future.release()
        raise ClusterError(f"workers were lost {ATTEMPTS} times: {type(failure).__name__}: {failure}") from failure

    async def _wait_for_workers(self) -> None:
        start = time.monotonic()
        while not await self.client.nthreads():
            waited = time.monotonic() - start
            if waited > self.patience:
                raise no_workers(self.client, waited)
            self._tell(f"waiting for workers ({waited:.0f} s)")
            await asyncio.sleep(LOOK_SECONDS)

    async def _gathered(self, futures: list[Future], names: list[str], seconds: float | None) -> list[Any]:
        """Results of the tasks, which are watched meanwhile."""
        waiting = asyncio.ensure_future(self.client.gather(futures, direct=True))
        begin = last = time.monotonic()
        took: dict[str, float] = {}
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                now = time.monotonic()
                last = now if await self.client.nthreads() else last
                if now - last > self.patience:
                    raise no_workers(self.client, now - last)
                for future in futures:
                    if future.done():
                        took.setdefault(str(future.key), now - begin)
                late = {str(future.key): name for future, name in zip(futures, names, strict=True) if not future.done()}
                await self._look_at(late, list(took.values()), now - begin, seconds)
            found: list[Any] = waiting.result()
            return found
        finally:
            waiting.cancel()

    async def _look_at(self, late: dict[str, str], took: list[float], so_far: float, seconds: float | None) -> None:
        """Name the workers of tasks that take much longer than the others; an error if they should have ended."""
        is_over = seconds is not None and so_far > seconds + self.patience
        is_slow = bool(took) and so_far > max(SLOW * statistics.median(took), SLOW_SECONDS)
        if not late or not (is_over or is_slow):
            return
        processing = await self.client.processing()
        places = [
            f"{late[str(key)]} on worker {address}"
            for address, keys in processing.items()
            for key in keys
            if str(key) in late
        ]
        named = ", ".join(places or late.values())
        if is_over:
            raise ClusterError(f"no answer {self.patience:.0f} s after the time was over: {named}; end that worker")
        self._tell(f"waiting for {named}: {so_far:.0f} s, and the others took {statistics.median(took):.0f} s")

    def _tell(self, line: str) -> None:
        if self.told is not None and time.monotonic() - self._last_told >= TELL_SECONDS:
            self._last_told = time.monotonic()
            self.told(line)


def is_wanted() -> bool:
    """Whether the result of the task that this thread runs is still wanted."""
    task = get_worker().state.tasks.get(thread_state.key)
    return task is not None and task.state == "executing"


def _guarded(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Exception | None]:
    """Task: the result of a function, or its error, which would come again if it were tried again."""
    try:
        return function(*arguments), None
    except LinealError as error:
        return None, sendable(error)
