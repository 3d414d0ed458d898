"""The command line: one file a command, thin over the library.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 an error that one line
explains, 130 ended by Ctrl-C (`train` has then saved the best model so far), 141 the reader of a pipe went away.
Commands import what they use when they run, so that help needs neither Numba nor scikit-learn.
"""

from __future__ import annotations

import contextlib
import os
import sys

from lineal.cli.app import app


def main() -> None:
    """The console script. It leaves at once: the interpreter's own teardown of Numba takes a good part of a second."""
    code = 0
    try:
        app(prog_name="lineal")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe; what was lost has been reported
            stream.flush()
    os._exit(code)
