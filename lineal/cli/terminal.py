"""The terminal: standard streams that cannot surprise, messages and exit codes, and text that is safe to show.

This file imports next to nothing: Ctrl-C may interrupt the imports that take time, and it must work by then.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from lineal.errors import LinealError

FAILED, INTERRUPTED, PIPE_CLOSED, TERMINATED = 2, 130, 141, 143

#: Characters that move the cursor, change colours, end a line or change the direction of writing: C0, DEL, C1, and the
#: marks, embeddings, overrides and isolates of bidirectional text.
_UNSAFE = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _UNSAFE}
_VISIBLE = str.maketrans({**{chr(code): text for code, text in _ESCAPES.items()}, **_SHORT})
_IN_JSON = str.maketrans({chr(code): f"\\u{code:04x}" for code in _UNSAFE if code >= 0x20})


def visible(text: str) -> str:
    """Text for a person: characters that would act on the terminal are written as escapes, such as \\x1b."""
    return text.translate(_VISIBLE)


def visible_json(document: str) -> str:
    """A JSON document that says the same without any character that would act on a terminal."""
    return document.translate(_IN_JSON)


def say(message: str) -> None:
    """Write a line to standard error. Other programs may write there, too, so the line names this one."""
    line = f"lineal: {visible(message)}"
    try:
        print(line, file=sys.stderr)
    except RuntimeError:  # a second Ctrl-C came while the message about the first one was being written
        os.write(2, f"{line}\n".encode())


def say_error(message: str) -> int:
    """Write an error to standard error, as one line; return the exit code."""
    say(f"error: {_one_line(message)}")
    return FAILED


def report(error: BaseException) -> int:
    """Explain an error on standard error; return the exit code.

    With LINEAL_TRACEBACK=1, an unexpected error comes with its traceback.
    """
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    if isinstance(error, LinealError):
        from lineal.cli.wording import for_command_line

        return say_error(for_command_line(str(error)))
    if isinstance(error, MemoryError):
        return say_error("not enough memory; use --dtype float32, or fewer rows or columns (--bits)")
    if isinstance(error, OSError):
        full = "; free some space" if error.errno == errno.ENOSPC else ""
        name = f"{error.filename}: " if error.filename else ""
        return say_error(f"{name}{error.strerror or error}{full}")
    if os.environ.get("LINEAL_TRACEBACK") == "1":
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            print(visible(line), file=sys.stderr)
    what = _one_line(f"{type(error).__name__}: {error}").rstrip(": ")
    say(f"internal error: {what} (set LINEAL_TRACEBACK=1 for details)")
    return FAILED


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- standard streams


class _Results(io.FileIO):
    """Standard output whose errors say that they are about standard output."""

    def __init__(self, is_open: bool) -> None:
        super().__init__(1, "wb", closefd=False)
        self._is_open = is_open

    def write(self, data: Any) -> int:
        """Write some bytes."""
        if not self._is_open:
            raise OSError(errno.EBADF, "it is closed", "standard output")
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Messages(io.FileIO):
    """Standard error that cannot fail: a message that nobody can read must not end the work."""

    def __init__(self) -> None:
        super().__init__(2, "wb", closefd=False)

    def write(self, data: Any) -> int:
        """Write some bytes, or lose them."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Set up `sys.stdout` and `sys.stderr`.

    Closed streams get their numbers back, so that no file that is opened later gets such a number, and with it the
    output of the stream. Labels that do not fit the encoding of the terminal are written as escapes.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The system gives out the lowest free number. The new file cannot be used for what the stream is for.
            os.open(os.devnull, os.O_WRONLY if number == 0 else os.O_RDONLY)
    results, messages = sys.stdout, sys.stderr
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Results(results is not None)),
        encoding="utf-8" if results is None else results.encoding,
        errors="backslashreplace",
        line_buffering=results is not None and results.isatty(),
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Messages()),
        encoding="utf-8" if messages is None else messages.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
