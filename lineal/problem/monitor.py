"""History, callbacks, limits, checkpoints and Ctrl-C, the same for every solver."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from lineal.core.jit import is_compiling
from lineal.core.maths import count_nonzero_rows
from lineal.engine.overdue import asking
from lineal.errors import OptionError, Unanswered
from lineal.problem.budget import Budget
from lineal.problem.checkpoint import MISFITS, Saved
from lineal.problem.loop_state import LoopState
from lineal.problem.solution import Certificate, Snapshot, Solution

#: Function that is called after every iteration; if it returns True, the fit ends.
Callback = Callable[[Snapshot], Any]

#: Function that returns weights and intercept.
Parameters = Callable[[], tuple[np.ndarray, np.ndarray]]

#: Statuses of a fit that has ended by itself, so that there is nothing to continue.
ENDED = ("converged", "stalled")


class Monitor:
    """Context manager around the loop of a solver. `record` returns a status when the loop must end, else None.

    The first Ctrl-C inside the context ends the loop after the current iteration, so that the best iterate is returned.
    It ends a fit and the fit that this one is a part of. A second one raises KeyboardInterrupt as usual. So does the
    first one while a kernel is being compiled, which takes seconds, and there is no iterate yet (`has_iterate`).

    An engine whose rows are on other machines gives up a pass that is not answered though the loop should have ended.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.history: list[dict[str, Any]] = []
        self.has_iterate = False
        self._seconds_before = 0.0  # of the fit before it was interrupted
        self._loop: LoopState | None = None
        self._latest: Saved | None = None  # what a checkpoint would hold, and whether it does
        self._is_written = False
        self._interrupted = False
        self._interrupted_at = math.inf
        self._previous: Any = None

    def __enter__(self) -> Monitor:
        self._start = time.perf_counter()
        self._asking = asking(self.overdue)
        self._asking.__enter__()
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if callable(previous):  # leave SIGINT alone if it is ignored or handled outside of Python
                self._previous = previous
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        self._asking.__exit__(None, None, None)
        if self.budget.kept is not None:
            self.budget.kept.note(self.history, self._interrupted_at)
        if isinstance(error, Unanswered):
            self._write()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        is_for_others = self._interrupted or (is_compiling() and not self.has_iterate)
        self._interrupted = True
        self._interrupted_at = min(self._interrupted_at, time.perf_counter())
        outer = getattr(self._previous, "__self__", None)  # a Monitor, if this fit is a part of another one
        if is_for_others:
            self._previous(number, frame)
        elif isinstance(outer, Monitor) and not outer._interrupted:
            outer._on_interrupt(number, frame)

    @property
    def seconds(self) -> float:
        """Seconds since the loop began, without those between an interruption and its continuation."""
        return self._seconds_before + time.perf_counter() - self._start

    def overdue(self) -> float:
        """Seconds since the loop should have ended; 0 as long as it has no iterate to end with."""
        if not self.has_iterate:
            return 0.0
        late = 0.0 if self.budget.max_time is None else self.seconds - self.budget.max_time
        return max(late, time.perf_counter() - self._interrupted_at, 0.0)

    @property
    def has_checkpoint(self) -> bool:
        """Whether checkpoints are written, so that an iteration that was cut short must not count."""
        return self.budget.checkpoint is not None

    def resume(self, loop: LoopState) -> int:
        """Declare what the loop changes, and restore it if there is a checkpoint; returns the iteration it belongs to.

        The first call of `record` must be for this iteration. A checkpoint has the state that the loop has at a call of
        `record`, so nothing else may change between that call and the next iteration, unless the loop does it again
        with the same result when it continues from that call.
        """
        checkpoint = self.budget.checkpoint
        if checkpoint is None:
            return 0
        self._loop, saved = loop, checkpoint.take()
        if saved is None:
            return 0
        try:
            loop.restore(saved.state)
        except MISFITS as error:
            raise checkpoint.misfit(error) from error
        self.history, self._seconds_before = saved.history, saved.seconds
        self.has_iterate = True
        return saved.iteration

    def replace(self, loop: LoopState) -> None:
        """Declare another object as what the loop changes from now on."""
        self._loop = loop if self._loop is not None else None

    def record(
        self, iteration: int, objective: float, gap: float, weights: np.ndarray, intercept: np.ndarray
    ) -> str | None:
        """Record an iteration; returns the status with which the loop must end, or None to continue."""
        if self.budget.kept is not None:
            self.budget.kept.offer(weights, intercept, objective)
        if self._is_recorded(iteration):
            return self._at_end(iteration)
        rows = count_nonzero_rows(weights)
        snapshot = Snapshot(iteration, self.seconds, objective, gap, rows, _frozen(weights), _frozen(intercept))
        self.history.append(snapshot.row())
        self._keep(iteration)
        results = [callback(snapshot) for callback in self.budget.callbacks]  # all, even if one ends the fit
        if any(isinstance(result, bool | np.bool_) and result for result in results):
            self._write()
            return "stopped"
        return self._ending(iteration)

    def count(self, iteration: int, gap: float, parameters: Parameters | None = None) -> str | None:
        """Record an iteration without computing its objective and weights, which are None in the history.

        The function `parameters` returns weights and intercept; it is called where rows are on other machines.
        """
        if self.budget.kept is not None and parameters is not None:
            self.budget.kept.offer(*parameters())
        if self._is_recorded(iteration):
            return self._at_end(iteration)
        row = {"iteration": iteration, "seconds": self.seconds, "objective": None, "gap": gap, "nonzero_rows": None}
        self.history.append(row)
        self._keep(iteration)
        return self._ending(iteration)

    def _ending(self, iteration: int) -> str | None:
        """Status with which the loop must end, after a checkpoint from which it could continue; None to continue."""
        status = self._at_end(iteration)
        if status is not None:
            self._write()
        return status

    def _at_end(self, iteration: int) -> str | None:
        """Status with which the loop must end after a recorded iteration, or None to continue."""
        status, is_slow = self.must_end(iteration), self.budget.is_slow
        return "slow" if status is None and is_slow is not None and is_slow(self.history) else status

    def _is_recorded(self, iteration: int) -> bool:
        """Whether this is the iteration that the loop continues from, which callbacks have seen."""
        return self._loop is not None and bool(self.history) and self.history[-1]["iteration"] == iteration

    def _keep(self, iteration: int) -> None:
        """Note the state of the loop, and write a checkpoint if it is due."""
        self.has_iterate = True
        checkpoint = self.budget.checkpoint
        if checkpoint is None:
            return
        if self._loop is None:
            raise OptionError("this solver writes no checkpoints: leave out checkpoint, or use another solver")
        last = [dict(self.history[-1])]  # which the loop may complete later
        self._latest, self._is_written = Saved(iteration, self.seconds, last, self._loop.loop_state()), False
        if checkpoint.is_due():
            self._write()

    def save(self) -> None:
        """Write a checkpoint with the state at the last call of `record`, before that state may get lost."""
        self._write()

    def lose(self) -> None:
        """Declare that the state at the last call of `record` is gone: the loop has changed it, and cannot go back.

        The checkpoint that was written last stays as it is.
        """
        self._latest = None

    def _write(self) -> None:
        """Write the last state of the loop, unless that is done."""
        if self.budget.checkpoint is not None and self._latest is not None and not self._is_written:
            rows = [row for row in self.history if row["iteration"] < self._latest.iteration]
            self.budget.checkpoint.write(self._latest._replace(history=[*rows, *self._latest.history]))
            self._is_written = True

    def must_end(self, iteration: int) -> str | None:
        """Status with which the loop must end, or None to continue."""
        if self._interrupted:
            return "interrupted"
        max_time = self.budget.max_time
        if max_time is not None and self.seconds >= max_time:
            return "max_time"
        return "max_iter" if iteration >= self.budget.max_iter else None

    def finish(
        self,
        weights: np.ndarray,
        intercept: np.ndarray,
        certificate: Certificate,
        status: str | None,
        *,
        is_met: bool | None = None,
        dual_point: Any = None,
    ) -> Solution:
        """Solution of a loop that has ended with `status`; the last row of the history is updated to describe it.

        A loop that ends by itself (None) has converged or, if its certificate does not meet the tolerance, has stalled.
        Solvers with another stopping rule than the certificate pass `is_met`.
        """
        if is_met is None:
            is_met = certificate.meets(self.budget.tol)
        status = "converged" if is_met else status or "stalled"
        if status not in ENDED:
            self._write()
        primal = None if math.isnan(certificate.primal) else certificate.primal
        self.history[-1].update(objective=primal, gap=certificate.value, nonzero_rows=count_nonzero_rows(weights))
        message = explain(status, certificate, self.budget.tol, self.budget.max_iter)
        return Solution(weights, intercept, certificate, self.history, status, message, dual_point)


def _frozen(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def explain(status: str, certificate: Certificate, tol: float, max_iter: int) -> str:
    """One sentence about how a fit ended and what would help."""
    reached, required = str(certificate), f"tol is {tol:g}"
    return {
        "converged": f"converged: {reached}",
        "max_iter": f"stopped after max_iter={max_iter} iterations: {reached}; {required}; raise max_iter, scale the "
        "features, or raise tol",
        "max_time": f"stopped by max_time: {reached}; {required}; raise max_time, scale the features, or raise tol",
        "stopped": f"stopped by a callback: {reached}; {required}; this is the best model so far",
        "interrupted": f"interrupted: {reached}; {required}; this is the best model so far",
        "slow": f"left to another solver: {reached}; {required}",
        "stalled": f"no further progress in this precision: {reached}; {required}; use float64 data, scale the "
        "features, or raise tol",
    }[status]


def checked_callbacks(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    """Callbacks as a tuple; raises an error for anything that cannot be called."""
    if callable(callbacks):
        raise OptionError("callbacks must be a list of functions, not one function: write callbacks=[f]")
    if not isinstance(callbacks, Iterable):
        raise OptionError(f"callbacks={callbacks!r} must be a list of functions")
    checked = tuple(callbacks)
    for callback in checked:
        if not callable(callback):
            raise OptionError(f"callbacks contains {callback!r}, which cannot be called")
    return checked
