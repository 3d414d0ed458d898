"""An iterator that runs on its own thread, a few items ahead of its consumer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds to wait for the thread when the consumer stops early: it ends after the item that it is making. A read from
#: a silent pipe cannot be interrupted; the thread then ends with the pipe or with the process.
PATIENCE = 2.0


class _Queue:
    """A bounded queue of items between two threads."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.items: deque[Any] = deque()
        self.changed = threading.Condition()
        self.is_closed = False  # the consumer takes no more items
        self.is_last = False  # the item that is being made is the last one
        self.is_done = False  # the producer puts no more items
        self.error: BaseException | None = None

    def put(self, item: Any) -> bool:
        """Wait for room and add an item; False if the consumer wants no more."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or len(self.items) < self.depth)
            if not self.is_closed:
                self.items.append(item)
                self.changed.notify_all()
            return not self.is_closed

    def wait(self) -> bool:
        """Wait for an item; False at the end. An error of the other thread is raised after its items."""
        with self.changed:
            self.changed.wait_for(lambda: self.items or self.is_done)
            if not self.items and self.error is not None:
                raise self.error
            return bool(self.items)

    def take(self) -> Any:
        """Remove and return the next item."""
        with self.changed:
            self.changed.notify_all()
            return self.items.popleft()

    def end(self, error: BaseException | None) -> None:
        """Note that no more items come, and the error that is the reason, if any."""
        with self.changed:
            self.is_done, self.error = True, error
            self.changed.notify_all()

    def close(self) -> None:
        """Note that no more items are wanted, and drop those that wait."""
        with self.changed:
            self.is_closed = True
            self.items.clear()
            self.changed.notify_all()


def _work(source: Iterable[Any], queue: _Queue) -> None:
    error: BaseException | None = None
    iterator = iter(())  # type: Iterator[Any]
    try:
        iterator = iter(source)
        del source
        for item in iterator:
            wanted = queue.put(item)
            del item  # while the next one is made, only the consumer holds this one
            if not wanted or queue.is_last:
                break
    except BaseException as caught:  # every error is raised in the consumer's thread
        error = caught
    try:
        if isinstance(iterator, Generator):
            iterator.close()  # closes files and maps at once
    except BaseException as caught:
        error = error or caught
    queue.end(error)


def ahead(source: Iterable[T], depth: int = 2, end: Callable[[], None] | None = None) -> Iterator[T]:
    """The items of `source`, in order, made on another thread while the consumer works on earlier ones.

    Up to `depth` items wait. An error of the source is raised here, after the items before it. When the consumer stops
    early (it closes this generator, fails or is interrupted), the thread stops after the item that it is making, the
    source is closed and waiting items are dropped. The thread starts with the first item that is requested, and it
    never keeps a process alive.

    `end` is a function that makes the source end soon. With it, an interrupt (Ctrl-C) while the consumer waits is
    raised after the item that is being made: what was read from a pipe cannot be read again.
    """
    queue = _Queue(depth)
    thread = threading.Thread(target=_work, args=(source, queue), name="lineal-ahead", daemon=True)
    del source
    owner = os.getpid()
    thread.start()
    try:
        while _own(owner) and _wait(queue, end):
            yield queue.take()
    finally:
        if os.getpid() == owner:  # a fork has no such thread, and its lock may never be released
            queue.close()
            thread.join(PATIENCE)
            queue.error = None  # its traceback would keep frames and their arrays alive


def _wait(queue: _Queue, end: Callable[[], None] | None) -> bool:
    """Wait for an item; False at the end. The first interrupt is raised after the item that is being made."""
    try:
        if queue.wait():
            return True
    except KeyboardInterrupt:
        if end is None or queue.is_last:
            raise
        queue.is_last = True
        end()
        return _wait(queue, end)
    except Exception:
        if not queue.is_last:
            raise
    if queue.is_last:
        raise KeyboardInterrupt
    return False


def _own(owner: int) -> bool:
    if os.getpid() != owner:
        raise RuntimeError("a stream that was opened before a fork cannot be read in the child: open it there")
    return True
