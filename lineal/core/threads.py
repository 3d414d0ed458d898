"""Threads that work on disjoint ranges; no other module starts threads.

Kernels release the GIL, so plain threads scale. A range is cut the same way however many threads run, and partial
results come back in the order of the ranges: sums do not depend on the number of threads.
"""

from __future__ import annotations

import itertools
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Any, TypeVar

from lineal.errors import OptionError

T = TypeVar("T")


def available_cores() -> int:
    """Number of cores that this process may use, within the limits of containers and affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: Number of cores for what runs in this context; None for all of them.
_share: ContextVar[int | None] = ContextVar("share", default=None)


@contextmanager
def core_share(cores: int) -> Iterator[None]:
    """Context in which all cores are this many: others run side by side in this process and have the rest."""
    before = _share.set(cores)
    try:
        yield
    finally:
        _share.reset(before)


def thread_count(given: int | None) -> int:
    """Number of threads for an `n_jobs` as users give it: None or -1 means all cores, -2 all but one."""
    n_jobs, share = given, _share.get()
    cores = available_cores() if share is None else share
    if n_jobs is None:
        return cores
    try:
        n_jobs = operator.index(n_jobs)
    except TypeError:
        n_jobs = 0
    if n_jobs == 0:
        raise OptionError(f"n_jobs={given!r} is not a number of threads: give 1, 2, … or None for all cores")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="lineal")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a pool's threads do not survive a fork


class _Helper(threading.local):
    """State of a helping thread: whether the thread that it works for has given up."""

    is_cancelled: threading.Event | None = None


_helper = _Helper()


def raise_if_cancelled() -> None:
    """End a helping thread if its work is no longer needed. Call it before slow work, such as compiling."""
    if _helper.is_cancelled is not None and _helper.is_cancelled.is_set():
        raise CancelledError


def run(tasks: Iterable[Callable[[], T]], threads: int) -> list[T]:
    """Run the tasks on up to `threads` threads, this one included; results are in the order of the tasks."""
    tasks = list(tasks)
    threads = min(threads, len(tasks))
    if threads <= 1:
        return [task() for task in tasks]
    results: list[Any] = [None] * len(tasks)
    waiting = enumerate(tasks)  # its next() is atomic: every task is taken once
    is_cancelled = threading.Event()

    def work() -> None:
        for position, task in waiting:
            if is_cancelled.is_set():
                return
            results[position] = task()

    def help_out() -> None:
        _helper.is_cancelled = is_cancelled
        work()

    helpers = [
        _pool(threads - 1).submit(copy_context().run, help_out) for _ in range(threads - 1)
    ]  # NumPy's errstate too
    try:
        work()
    except BaseException:
        is_cancelled.set()
        raise
    finally:  # what has begun must end before its arrays are touched again
        unfinished = wait([helper for helper in helpers if not helper.cancel()]).done
    for helper in unfinished:
        helper.result()
    return results


def ranges(length: int, pieces: int) -> list[tuple[int, int]]:
    """Cut [0, length) into at most `pieces` non-empty ranges of nearly equal length."""
    pieces = max(1, min(pieces, length))
    bounds = [length * piece // pieces for piece in range(pieces + 1)]
    return [(start, stop) for start, stop in itertools.pairwise(bounds) if stop > start]


class _SerialBlas:
    """BLAS with one thread, while fits run: its setting is that of the process, so the last fit to end restores it."""

    def __init__(self) -> None:
        self.holders = 0
        self.before: list[int] = []
        self.renew_lock()

    def renew_lock(self) -> None:
        """Create a new lock: in a forked process, no thread is left that could release the old one."""
        self.lock = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Take BLAS's threads away."""
        with self.lock:
            if self.holders == 0:
                self.before = [library.get_num_threads() for library in _blas_libraries()]
                _set_blas_threads([1] * len(self.before))
            self.holders += 1
        try:
            yield
        finally:
            with self.lock:
                self.holders -= 1
                if self.holders == 0:
                    _set_blas_threads(self.before)


_SERIAL = _SerialBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SERIAL.renew_lock)

#: Number of our threads for dense products in this context; None where BLAS may use threads of its own.
_product_threads: ContextVar[int | None] = ContextVar("product_threads", default=None)


def product_threads() -> int | None:
    """Number of threads for dense products (`lineal.core.blas`); None outside of `blas_limit`."""
    return _product_threads.get()


def serial_blas() -> AbstractContextManager[None]:
    """Context in which BLAS has one thread, for products that several of our threads compute side by side."""
    return _SERIAL.hold()


@contextmanager
def blas_limit(threads: int) -> Iterator[None]:
    """Context in which BLAS has one thread, and dense products (`lineal.core.blas`) at most this number of ours.

    BLAS's own threads spin while they wait for each other: on a busy machine, for longer than the product takes.
    """
    before = _product_threads.set(threads)
    try:
        with serial_blas():
            yield
    finally:
        _product_threads.reset(before)


@cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401, its BLAS must be there to be found
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_blas_threads(counts: list[int]) -> None:
    """Set the number of threads of each library, from any thread.

    Since version 3.8, threadpoolctl ignores all threads but the first one that sets a number, until that one gives the
    right up. A fit can run in any thread, and the last one to end need not be the first.
    """
    import threadpoolctl

    has_owner = tuple(map(int, threadpoolctl.__version__.split(".")[:2])) >= (3, 8)
    for library, count in zip(_blas_libraries(), counts):
        if has_owner:
            threadpoolctl.OpenBLASController.clear_controlling_thread(force=True)
        library.set_num_threads(count)
    if has_owner:
        threadpoolctl.OpenBLASController.clear_controlling_thread(force=True)
