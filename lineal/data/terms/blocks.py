"""Blocks of documents, which threads take as they become free. Results come in the order of the blocks."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lineal.core import threads as pool
from lineal.data.terms.documents import Documents

T = TypeVar("T")

#: Bytes of a block of documents: the least and the most.
SMALL_BLOCK, LARGE_BLOCK = 1 << 16, 1 << 21

#: Blocks for each thread, so that none waits long for the last one.
PER_THREAD = 8


def over(tasks: list[Any], workers: list[Any], work: Callable[[int, Any], T]) -> list[T]:
    """Results of work(number of the worker, task); each worker does one task at a time, on a thread of its own."""
    results: list[Any] = [None] * len(tasks)
    waiting, lock = iter(range(len(tasks))), threading.Lock()

    def work_on(number: int) -> None:
        while True:
            with lock:
                place = next(waiting, None)
            if place is None:
                return
            results[place] = work(number, tasks[place])

    used = min(len(workers), len(tasks))
    pool.run([lambda number=number: work_on(number) for number in range(used)], used)  # type: ignore[misc]
    return results


def row_ranges(documents: Documents, n_workers: int) -> list[tuple[int, int]]:
    """Ranges of documents with about the same number of bytes."""
    offsets = documents.offsets
    size = int(offsets[-1] - offsets[0])
    block = int(np.clip(size // (PER_THREAD * n_workers), SMALL_BLOCK, LARGE_BLOCK))
    targets = np.arange(int(offsets[0]) + block, int(offsets[-1]), block)
    bounds = np.unique(np.concatenate([[0], np.searchsorted(offsets, targets), [len(documents)]])).tolist()
    return list(itertools.pairwise(bounds))
