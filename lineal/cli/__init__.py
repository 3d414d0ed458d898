"""The command line: one file per command. It parses, prints and sets exit codes; learning happens in the layers below.

May import every other folder. To add a command, write it in a file of its own and list it in `app`.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 success; 2 an error, explained in
one line; 130 ended by Ctrl-C (`train` has then saved the best model so far, if there was one); 141 the reader of a pipe
went away; 143 ended by SIGTERM or SIGHUP. Commands import what they use when they run, so that help needs neither Numba
nor scikit-learn. This file imports next to nothing before `main` has set up what happens on Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from lineal.cli import terminal
from lineal.cli.terminal import INTERRUPTED, TERMINATED, report, say
from lineal.data import own_process

if TYPE_CHECKING:
    from types import FrameType

#: Seconds until an interrupt that came at a bad moment is raised again.
SOON = 0.01

#: Clears the line and shows the cursor, which a progress bar may have hidden.
SHOW_CURSOR = "\r\x1b[K\x1b[?25h"


@contextmanager
def orderly_end() -> Iterator[None]:
    """A context in which signals end the program without a traceback and without leaving temporary files.

    SIGTERM and SIGHUP end it at once; Ctrl-C raises KeyboardInterrupt, so that training can save its model. A signal
    that is ignored from the start (with `nohup`, or in the background of a script) stays ignored.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name, handler in (("SIGTERM", _on_termination), ("SIGHUP", _on_termination), ("SIGINT", _on_interrupt)):
            number = signal.__dict__.get(name)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    unraisable, sys.unraisablehook = sys.unraisablehook, _on_unraisable
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _on_termination(number: int, frame: FrameType | None) -> NoReturn:
    _leave_at_once(TERMINATED)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    files = _files_of(frame)
    if "<frozen importlib._bootstrap>" in files:  # extension modules would print or replace the exception
        say("interrupted")
        _leave_at_once(INTERRUPTED)
    if any(file.endswith(os.path.join("llvmlite", "binding", "executionengine.py")) for file in files):
        _interrupt_soon()  # a C++ caller would swallow the exception
        return
    raise KeyboardInterrupt


def _on_unraisable(unraisable: Any) -> None:
    """Raise an interrupt again that came while an object was deleted, where Python drops every exception."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _interrupt_soon()
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    timer = threading.Timer(SOON, signal.raise_signal, [signal.SIGINT])
    timer.daemon = True
    timer.start()


def _files_of(frame: FrameType | None) -> set[str]:
    """The source files of all functions that are running in this thread."""
    files = set()
    while frame is not None:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _leave_at_once(code: int) -> NoReturn:
    """End the process without unwinding, but remove its temporary files."""
    _drop_parts()
    if sys.stderr is not None and sys.stderr.isatty():
        with suppress(OSError):  # the terminal may be gone
            os.write(sys.stderr.fileno(), SHOW_CURSOR.encode())
    os._exit(code)


def _drop_parts() -> None:
    with suppress(KeyError, AttributeError):  # a module that is not imported completely has made no files
        sys.modules["lineal.system.files"].drop_own_parts()


def main() -> None:
    """The console script. It leaves at once, because tearing down Numba would take a good part of a second."""
    code = INTERRUPTED  # for another Ctrl-C while the first is handled
    try:
        try:
            code = _run()
        finally:
            _ignore_interrupts()
    finally:  # also if one more Ctrl-C came just before they were ignored
        _ignore_interrupts()
        _drop_parts()  # the files that such a Ctrl-C has left
        os._exit(code)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run() -> int:
    code = 0
    try:
        with orderly_end():
            terminal.prepare_streams()
            own_process.claim()
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
    return code
