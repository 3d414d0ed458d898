"""The command line: one file a command, thin over the library.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 an error that one line
explains, 130 ended by Ctrl-C (`train` has then saved the best model so far), 141 the reader of a pipe went away,
143 ended by SIGTERM or SIGHUP.
Commands import what they use when they run, so that help needs neither Numba nor scikit-learn.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lineal.cli.app import app
from lineal.cli.shell import TERMINATED, report


@contextmanager
def orderly_end() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program by way of its clean-up, so that no temporary file stays behind."""
    before: dict[int, Any] = {}

    def leave(number: int, frame: Any) -> None:
        for name in before:
            signal.signal(name, signal.SIG_IGN)  # a second one must not interrupt the clean-up
        raise SystemExit(TERMINATED)

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """The console script. It leaves at once: the interpreter's own teardown of Numba takes a good part of a second."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, open to the end
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # labels may not fit the terminal's encoding
    code = 0
    try:
        with orderly_end():
            app(prog_name="lineal")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or report(error)
    os._exit(code)
