"""A few long tasks on the workers of a cluster, each a pure function of what it is given.

A task whose worker is lost runs again on another one. What all tasks need is sent to the workers once, and is still
here: if it is lost with the workers, the tasks start again. While there is no worker, or while one takes much longer
than the others, the caller is told so. An error of the function ends all: it would come again.

Tasks with a time limit share it: one that waits for a free thread begins late, and has only what is left. Clocks of
machines differ, so every worker counts from the first of the tasks that it runs (`begin_of`).
"""

from __future__ import annotations

import asyncio
import statistics
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from distributed import Client, Future, KilledWorker, get_worker
from distributed.worker import thread_state

from lineal.engine.dask.cluster import no_workers
from lineal.engine.dask.rounds import ATTEMPTS, PATIENCE, RETRIES
from lineal.engine.dask.shares import sendable
from lineal.engine.dask.waiting import SLOW, SLOW_SECONDS, leave
from lineal.errors import ClusterError, LinealError, Unanswered

#: Seconds between two looks at the tasks.
LOOK_SECONDS = 0.5

#: Seconds between two messages about what is waited for.
TELL_SECONDS = 5.0

#: Number of runs whose beginnings a worker remembers.
KEPT_RUNS = 64


class Task(NamedTuple):
    """Arguments of one task, of which some can be futures, and what messages call it."""

    name: str
    arguments: tuple[Any, ...]


class FailedThere(Exception):
    """Where an error of a task comes from: the worker, and the traceback there. It is the cause of that error."""


class _Failure(NamedTuple):
    """An error of a function, and the worker and traceback that it comes from."""

    error: Exception
    worker: str
    trace: str


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

        After `seconds`, the tasks end by themselves. Workers from which nothing comes for `patience` seconds after that
        are named in an error, `Unanswered`.
        """
        answers: list[Any] = self.client.sync(self._run, function, shared, tasks, seconds)
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, _Failure):
                if isinstance(answer.error, LinealError):
                    raise answer.error
                raise answer.error from FailedThere(f"{task.name} on worker {answer.worker}:\n{answer.trace}")
        return answers

    async def _run(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task], seconds: float | None
    ) -> list[Any]:
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
                if await _is_failed(futures):
                    raise
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
        watched = _Watched(dict(zip((str(future.key) for future in futures), names, strict=True)), seconds)
        last = watched.begin
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                now, workers = time.monotonic(), await self.client.nthreads()
                last = now if workers else last
                if now - last > self.patience:
                    raise no_workers(self.client, now - last)
                watched.look(now, frozenset(workers), [str(future.key) for future in futures if future.done()])
                await self._look_at(watched, now)
            found: list[Any] = waiting.result()
            return found
        finally:
            leave(waiting)

    async def _look_at(self, watched: _Watched, now: float) -> None:
        """Name the workers of tasks that take much longer than the others; an error if they should have ended."""
        is_over = now - watched.due > self.patience
        if not watched.late or not (is_over or watched.is_slow(now)):
            return
        processing = await self.client.processing()
        places = [
            f"{watched.late[str(key)]} on worker {address}"
            for address, keys in processing.items()
            for key in keys
            if str(key) in watched.late
        ]
        named = ", ".join(places or watched.late.values())
        if is_over:
            raise Unanswered(f"no answer {self.patience:.0f} s after the time was over: {named}; end that worker")
        self._tell(
            f"waiting for {named}: {now - watched.begin:.0f} s, and the others took "
            f"{statistics.median(watched.took.values()):.0f} s"
        )

    def _tell(self, line: str) -> None:
        if self.told is not None and time.monotonic() - self._last_told >= TELL_SECONDS:
            self._last_told = time.monotonic()
            self.told(line)


class _Watched:
    """What is known of tasks that are waited for.

    Attributes
    ----------
    begin : when they were sent.
    due : when the next one should have ended: at the end of the time, or as soon as something has changed after that.
        An answer gives its thread to the next task, and a worker that joins begins with its tasks.
    took : seconds of those that have ended.
    late : names of the others.
    """

    def __init__(self, names: dict[str, str], seconds: float | None) -> None:
        self.begin, self.seconds = time.monotonic(), seconds
        self.due = float("inf") if seconds is None else self.begin + seconds
        self.took: dict[str, float] = {}
        self.late = names
        self._workers: frozenset[str] | None = None

    def look(self, now: float, workers: frozenset[str], done: Sequence[str]) -> None:
        """Take note of who is there, and which tasks have ended."""
        joined = self._workers is not None and bool(workers - self._workers)
        new = [key for key in done if key in self.late]
        if self.seconds is not None and joined:
            self.due = now + self.seconds
        elif new:
            self.due = max(self.due, now)
        self.late = {key: name for key, name in self.late.items() if key not in new}
        self.took.update((key, now - self.begin) for key in new)
        self._workers = workers

    def is_slow(self, now: float) -> bool:
        """Whether the others took much less time."""
        if not self.took:
            return False
        return now - self.begin > max(SLOW * statistics.median(self.took.values()), SLOW_SECONDS)


async def _is_failed(futures: Sequence[Future]) -> bool:
    """Whether a task has failed, and not because workers were lost: its arguments or result cannot be sent."""
    for future in futures:
        if future.status == "error" and not isinstance(await future.exception(), KilledWorker | OSError):
            return True
    return False


def is_wanted() -> bool:
    """Whether the result of the task that this thread runs is still wanted."""
    task = get_worker().state.tasks.get(thread_state.key)
    return task is not None and task.state == "executing"


_begins: dict[str, float] = {}


def begin_of(run: str) -> float:
    """When this process began with the tasks of a run, by `time.monotonic`; they have the same text `run`."""
    begin = _begins.setdefault(run, time.monotonic())
    for old in list(_begins)[:-KEPT_RUNS]:
        _begins.pop(old, None)
    return begin


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Task: the result of a function, or its error, which would come again if it were tried again."""
    try:
        return function(*arguments)
    except Exception as error:
        return _Failure(sendable(error), str(get_worker().address), traceback.format_exc())
