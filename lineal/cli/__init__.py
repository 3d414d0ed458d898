"""The command line: one file per command, thin over the library.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 an error that one line
explains, 130 ended by Ctrl-C (`train` has then saved the best model so far, if there was one), 141 the reader of a pipe
went away, 143 ended by SIGTERM or SIGHUP.
Commands import what they use when they run, so that help needs neither Numba nor scikit-learn. This file imports next
to nothing before `main` has set up what happens on Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from lineal.cli.messages import INTERRUPTED, TERMINATED, report, say

if TYPE_CHECKING:
    from types import FrameType

#: Seconds until an interrupt that came at a bad moment comes again.
SOON = 0.01

#: What shows a cursor that a progress bar has hidden, on an empty line.
SHOW_CURSOR = "\r\x1b[K\x1b[?25h"


@contextmanager
def orderly_end() -> Iterator[None]:
    """Signals end the program without a traceback and without temporary files.

    SIGTERM and SIGHUP end it at once; Ctrl-C raises KeyboardInterrupt, so that a training can save what it has. A
    signal that is ignored from the start (`nohup`, a script's background) stays ignored.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name, handler in (("SIGTERM", _on_termination), ("SIGHUP", _on_termination), ("SIGINT", _on_interrupt)):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _on_termination(number: int, frame: FrameType | None) -> NoReturn:
    _leave_at_once(TERMINATED)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    files = _files_of(frame)
    if "<frozen importlib._bootstrap>" in files:  # extension modules would print the exception, or replace it
        say("interrupted")
        _leave_at_once(INTERRUPTED)
    if any(file.endswith(os.path.join("llvmlite", "binding", "executionengine.py")) for file in files):
        timer = threading.Timer(SOON, signal.raise_signal, [number])  # a C++ caller would swallow the exception
        timer.daemon = True
        timer.start()
        return
    raise KeyboardInterrupt


def _files_of(frame: FrameType | None) -> set[str]:
    """Source files of everything that is running in this thread."""
    files = set()
    while frame is not None:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _leave_at_once(code: int) -> NoReturn:
    """End the process without unwinding what it does, but with its temporary files removed."""
    if "lineal.files" in sys.modules:
        sys.modules["lineal.files"].drop_live_parts()
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR.encode())
    os._exit(code)


def main() -> None:
    """The console script. It leaves at once: the interpreter's own teardown of Numba takes a good part of a second."""
    code = 0
    try:
        with orderly_end():
            from lineal.cli import streams

            streams.prepare()
            from lineal.cli.app import app

            app(prog_name="lineal")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        code = report(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or report(error)
    os._exit(code)
