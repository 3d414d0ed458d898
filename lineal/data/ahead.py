"""An iterator that runs on a thread of its own, a few items ahead of whoever takes them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds to wait for the thread when the consumer stops early: it ends after the item that it is making. A read from
#: a pipe that gives nothing cannot be interrupted; the thread then ends with the pipe or with the process.
PATIENCE = 2.0


class _Belt:
    """A bounded line of items between two threads."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.items: deque[Any] = deque()
        self.changed = threading.Condition()
        self.is_cut = False  # nobody takes any more
        self.is_last = False  # nothing is made after what is being made
        self.is_done = False  # nobody puts any more
        self.error: BaseException | None = None

    def put(self, item: Any) -> bool:
        """Wait for room; False where nobody wants it."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_cut or len(self.items) < self.depth)
            if not self.is_cut:
                self.items.append(item)
                self.changed.notify_all()
            return not self.is_cut

    def wait(self) -> bool:
        """Wait for an item; False at the end, where an error of the other thread is raised."""
        with self.changed:
            self.changed.wait_for(lambda: self.items or self.is_done)
            if not self.items and self.error is not None:
                raise self.error
            return bool(self.items)

    def take(self) -> Any:
        """The next item; it is no longer held here."""
        with self.changed:
            self.changed.notify_all()
            return self.items.popleft()

    def finish(self, error: BaseException | None) -> None:
        """No more items come."""
        with self.changed:
            self.is_done, self.error = True, error
            self.changed.notify_all()

    def cut(self) -> None:
        """No more items are wanted; those that wait are let go."""
        with self.changed:
            self.is_cut = True
            self.items.clear()
            self.changed.notify_all()


def _work(source: Iterable[Any], belt: _Belt) -> None:
    error: BaseException | None = None
    iterator = iter(())  # type: Iterator[Any]
    try:
        iterator = iter(source)
        del source
        for item in iterator:
            wanted = belt.put(item)
            del item  # while the next one is made, this one is the consumer's alone
            if not wanted or belt.is_last:
                break
    except BaseException as caught:  # whatever it is, it is the consumer's
        error = caught
    try:
        if hasattr(iterator, "close"):
            iterator.close()  # files and maps, here and now
    except BaseException as caught:
        error = error or caught
    belt.finish(error)


def ahead(source: Iterable[T], depth: int = 2, end: Callable[[], None] | None = None) -> Iterator[T]:
    """The items of `source`, in order, made on another thread while the consumer works on those before.

    Up to `depth` items wait. An error of the source is raised here, after the items before it. When the consumer stops
    early (closes this generator, fails, is interrupted), the thread stops after the item that it is making, the source
    is closed and what waits is let go. The thread begins with the first item asked for; it never keeps a process alive.

    With `end`, which has the source end soon, an interrupt (Ctrl-C) that comes while the consumer waits for an item is
    raised after the one that is being made: what was read of a pipe cannot be read again.
    """
    belt = _Belt(depth)
    thread = threading.Thread(target=_work, args=(source, belt), name="lineal-ahead", daemon=True)
    del source
    owner = os.getpid()
    thread.start()
    try:
        while _own(owner) and _wait(belt, end):
            yield belt.take()
    finally:
        if os.getpid() == owner:  # in a fork there is no thread, and its lock may be held for good
            belt.cut()
            thread.join(PATIENCE)
            belt.error = None  # its traceback holds frames, and they hold arrays


def _wait(belt: _Belt, end: Callable[[], None] | None) -> bool:
    """Wait for an item; False at the end. The first interrupt comes after what is being made, even if that fails."""
    try:
        if belt.wait():
            return True
    except KeyboardInterrupt:
        if end is None or belt.is_last:
            raise
        belt.is_last = True
        end()
        return _wait(belt, end)
    except Exception:
        if not belt.is_last:
            raise
    if belt.is_last:
        raise KeyboardInterrupt
    return False


def _own(owner: int) -> bool:
    if os.getpid() != owner:
        raise RuntimeError("a stream that was opened before a fork cannot be read in the child: open it there")
    return True
