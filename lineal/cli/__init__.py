"""The command line: one file a command, thin over the library.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 an error that one line
explains, 130 ended by Ctrl-C (`train` has then saved the best model so far), 141 the reader of a pipe went away.
Commands import what they use when they run, so that help needs neither Numba nor scikit-learn.
"""

from __future__ import annotations

import os
import sys

from lineal.cli.app import app
from lineal.cli.shell import report


def main() -> None:
    """The console script. It leaves at once: the interpreter's own teardown of Numba takes a good part of a second."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, open to the end
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # labels may not fit the terminal's encoding
    code = 0
    try:
        app(prog_name="lineal")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or report(error)
    os._exit(code)
