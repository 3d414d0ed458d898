"""How long ago the running fit should have ended, which an engine asks while it waits for those who hold the rows.

A fit ends between two passes over the rows. One that is never answered would keep it from ending, so an engine gives up
such a pass (`lineal.errors.Unanswered`), and the fit ends with the best model so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_seconds: ContextVar[Callable[[], float]] = ContextVar("overdue", default=lambda: 0.0)


@contextmanager
def asking(seconds: Callable[[], float]) -> Iterator[None]:
    """Let engines ask a function for how many seconds a fit, or the one that it is a part of, should have ended.

    It is called from another thread. It returns 0 as long as the fit may go on, or has no model to end with.
    """
    outer = _seconds.get()
    token = _seconds.set(lambda: max(outer(), seconds()))
    try:
        yield
    finally:
        _seconds.reset(token)


def asked() -> Callable[[], float]:
    """The function for the fit of this thread."""
    return _seconds.get()
