"""The monitor of a run: history, callbacks, time limit and Ctrl-C, the same for every solver."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from lineal.core.jit import is_compiling
from lineal.core.maths import count_live_rows
from lineal.errors import OptionError
from lineal.problem.solution import Snapshot

#: A callback sees every iteration; returning True ends the fit.
Callback = Callable[[Snapshot], Any]


class Monitor:
    """Context manager around a solver's loop. `record` returns a status when the loop must end, else None.

    The first Ctrl-C inside the context only asks the loop to end, so that the best iterate is returned; a second one
    raises KeyboardInterrupt as usual. So does the first one while a kernel is being compiled, which takes seconds, and
    there is no iterate yet (`has_answer`).
    """

    def __init__(self, max_iter: int, max_time: float | None = None, callbacks: Iterable[Callback] = ()) -> None:
        self.max_iter, self.max_time, self.callbacks = max_iter, max_time, tuple(callbacks)
        self.history: list[dict[str, Any]] = []
        self.has_answer = False
        self._interrupted = False
        self._previous: Any = None

    def __enter__(self) -> Monitor:
        self._start = time.perf_counter()
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if callable(previous):  # SIGINT ignored or handled outside of Python stays so
                self._previous = previous
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        was_interrupted, self._interrupted = self._interrupted, True
        if was_interrupted or (is_compiling() and not self.has_answer):
            self._previous(number, frame)

    @property
    def seconds(self) -> float:
        """Since the loop began."""
        return time.perf_counter() - self._start

    def record(
        self, iteration: int, objective: float, gap: float, weights: np.ndarray, intercept: np.ndarray
    ) -> str | None:
        """Note an iteration; the status with which the loop must end, or None to go on."""
        live = count_live_rows(weights)
        snapshot = Snapshot(iteration, self.seconds, objective, gap, live, _frozen(weights), _frozen(intercept))
        self.history.append(snapshot.row())
        self.has_answer = True
        answers = [callback(snapshot) for callback in self.callbacks]  # every callback sees every iteration
        if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
            return "stopped"
        return self.must_end(iteration)

    def count(self, iteration: int, gap: float) -> str | None:
        """Note an iteration whose objective and weights nobody asked for: they are None in the history."""
        row = {"iteration": iteration, "seconds": self.seconds, "objective": None, "gap": gap, "nonzero_rows": None}
        self.history.append(row)
        self.has_answer = True
        return self.must_end(iteration)

    def must_end(self, iteration: int) -> str | None:
        """The status with which the loop must end, or None."""
        if self._interrupted:
            return "interrupted"
        if self.max_time is not None and self.seconds >= self.max_time:
            return "max_time"
        return "max_iter" if iteration >= self.max_iter else None


def _frozen(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def explain(status: str, certificate: Any, tol: float, max_iter: int) -> str:
    """One sentence about how a run ended, with what would help."""
    reached = f"reached {certificate}"
    wanted = f"asked for {tol:g}"
    return {
        "converged": f"converged: {reached}",
        "max_iter": f"stopped after max_iter={max_iter} iterations: {reached}, {wanted}; raise max_iter, scale the "
        "features, or raise tol",
        "max_time": f"stopped by max_time: {reached}, {wanted}; raise max_time, scale the features, or raise tol",
        "stopped": f"stopped by a callback: {reached}, {wanted}; this is the best model so far",
        "interrupted": f"interrupted: {reached}, {wanted}; this is the best model so far",
        "stalled": f"no further progress in this precision: {reached}, {wanted}; use float64 data, scale the features, "
        "or raise tol",
    }[status]


def checked_callbacks(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    """The callbacks, or an error that says what is none."""
    if callable(callbacks):
        raise OptionError("callbacks must be a list of functions, not one function: write callbacks=[f]")
    if not isinstance(callbacks, Iterable):
        raise OptionError(f"callbacks={callbacks!r} must be a list of functions")
    found = tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise OptionError(f"callbacks has {callback!r}, which cannot be called")
    return found
