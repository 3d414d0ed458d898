"""Progress of long computations: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from lineal.problem.solution import Snapshot

S = TypeVar("S", bound="_Shown")

#: Seconds between two lines if there is no terminal.
SECONDS_PER_LINE = 2.0


def shown(verbose: int | None) -> int:
    """Whether a fit shows its progress: as told, or by itself where somebody looks at a terminal."""
    if verbose is not None:
        return int(verbose)
    return int(sys.stderr is not None and sys.stderr.isatty())


class _Shown:
    """A bar on a terminal, or a line every few seconds elsewhere. Silent if verbose is 0."""

    def __init__(self, verbose: int, title: str, total: float) -> None:
        self.verbose, self.title, self.total = int(verbose), title, total
        self._bar: Any = None
        self._last_line = -math.inf

    def __enter__(self: S) -> S:
        self._start = time.monotonic()
        self._bar = _bar(self.title) if self.verbose else None
        if self._bar is not None:
            self._task = self._bar.add_task(self.title, total=self.total, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _tell(self, completed: float, state: str, line: str) -> None:
        """Show the state beside the bar, or the line."""
        if self._bar is not None:
            self._bar.update(self._task, completed=completed, state=state)
        elif self.verbose and time.monotonic() - self._last_line >= SECONDS_PER_LINE:
            self._last_line = time.monotonic()
            print_line(f"{self._last_line - self._start:8.1f} s  {line}")


class Progress(_Shown):
    """Progress of one fit, as the fraction of the way from its first gap to `tol`."""

    def __init__(self, verbose: int, tol: float, remark: Callable[[], str] = str) -> None:
        super().__init__(verbose, "fitting", 1.0)
        self.tol, self.remark, self._first, self._fraction_done = tol, remark, 0.0, 0.0

    @property
    def callbacks(self) -> tuple[Any, ...]:
        """Callbacks to pass to a solver."""
        return (self._show,) if self.verbose else ()

    def _show(self, snapshot: Snapshot) -> None:
        state = f"iteration {snapshot.iteration}, objective {snapshot.objective:.6g}, gap {snapshot.gap:.1e}"
        remark = self.remark()
        self._fraction_done = self._fraction(snapshot.gap)
        self.note(f"{state}; {remark}" if remark else state)

    def note(self, state: str) -> None:
        """Show a state beside the bar, or as a line."""
        self._tell(self._fraction_done, state, state)

    def _fraction(self, gap: float) -> float:
        """Fraction of the way from the largest gap to `tol`, on a logarithmic scale."""
        if not (gap > 0.0 and math.isfinite(gap)):
            return 0.0
        self._first = max(self._first or gap, gap)
        if self._first <= self.tol:
            return 1.0
        return min(1.0, math.log(self._first / gap) / math.log(self._first / self.tol))


class Steps(_Shown):
    """Number of completed steps out of a total, which can be an upper bound."""

    done: int = 0

    def expect(self, total: float) -> None:
        """Set the number of steps, where it is known only now."""
        self.total = total
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def note(self, state: str) -> None:
        """Show a state beside the bar, or as a line, without another step."""
        self._tell(self.done, state, state)

    def step(self, state: str) -> None:
        """Announce the next step; `state` describes it."""
        self._tell(self.done, state, f"{self.done} of {self.total}, {state}")
        self.done += 1


class ProgressiveLines:
    """Lines with the progressive loss of an online learner, one each time the number of examples has doubled."""

    def __init__(self, verbose: int, done: int = 0) -> None:
        self.verbose, self.done = int(verbose), done

    def show(self, history: list[dict[str, Any]]) -> None:
        """Print the new rows of a history."""
        new, is_first = history[self.done :], self.done == 0
        self.done = len(history)
        if not self.verbose or not new:
            return
        if is_first:
            print_line(f"{'average':>10} {'since':>10} {'examples':>12} {'pass':>6} {'parents':>8}")
        for row in new:
            average, since = (
                "-" if row[name] is None else f"{row[name]:.6f}" for name in ("average_loss", "since_last")
            )
            print_line(f"{average:>10} {since:>10} {row['examples']:>12.0f} {row['pass']:>6.0f} {row['parents']:>8.0f}")


def print_line(line: str) -> None:
    """Write a line to standard error. A closed standard error must not end the computation."""
    if sys.stderr is not None:  # it is None if the caller has closed it
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def _bar(title: str) -> Any:
    """Progress bar on the terminal; None if standard error is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn(title), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    bar.start()
    return bar
