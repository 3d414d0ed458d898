"""Standard streams as the program needs them, whatever the caller has made of them."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


class _Results(io.FileIO):
    """Standard output whose errors say what they are about."""

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
    """Standard error that cannot fail: what nobody can read must not end the work."""

    def __init__(self) -> None:
        super().__init__(2, "wb", closefd=False)

    def write(self, data: Any) -> int:
        """Write some bytes, or lose them."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Set up `sys.stdout` and `sys.stderr`.

    The numbers of closed streams are taken, lest a file that is opened later get one of them, and with it what is meant
    for the stream. Labels may not fit the terminal's encoding: they are then written as escapes.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that is given. It cannot be used for what the stream is for.
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
