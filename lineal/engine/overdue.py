"""How long ago the running fit should have ended, which an engine asks while it waits for those who hold the rows.

A fit ends between two passes over the rows. One that is never answered would keep it from ending, so an engine gives up
such a pass (`lineal.errors.Unanswered`), and the fit ends with the best model so far.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _OfThread(threading.local):
    """The functions of the fits that run in a thread, the outermost one first.

    They are not context variables: connections that are opened during a fit would keep its context, and the rows.
    """

    def __init__(self) -> None:
        self.functions: tuple[Callable[[], float], ...] = ()


_of_thread = _OfThread()


@contextmanager
def asking(seconds: Callable[[], float]) -> Iterator[None]:
    """Let engines ask a function for how many seconds a fit, or the one that it is a part of, should have ended.

    It is called from another thread. It returns 0 as long as the fit may go on, or has no model to end with.
    """
    before = _of_thread.functions
    _of_thread.functions = (*before, seconds)
    try:
        yield
    finally:
        _of_thread.functions = before


def asked() -> Callable[[], float]:
    """A function for the fit of this thread, which other threads can call."""
    functions = _of_thread.functions
    return lambda: max((seconds() for seconds in functions), default=0.0)


def never() -> float:
    """The function while no fit runs."""
    return 0.0
