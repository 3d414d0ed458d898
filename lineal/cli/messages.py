"""Messages to the person at the terminal, exit codes, and text that a terminal can show safely.

It imports next to nothing: it is there before anything that takes time to import, which Ctrl-C may interrupt.
"""

from __future__ import annotations

import errno
import os
import sys

from lineal.errors import LinealError

FAILED, INTERRUPTED, PIPE_CLOSED, TERMINATED = 2, 130, 141, 143

#: Characters that move the cursor, change colours, end a line or turn the direction of writing: C0, DEL, C1, and the
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
    """Write a line to standard error. Other programs may write there too, so it names this one."""
    print(f"lineal: {visible(message)}", file=sys.stderr)


def report(error: BaseException) -> int:
    """Explain an error on standard error; the exit code. LINEAL_TRACEBACK=1 adds where an unforeseen one happened."""
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    if hasattr(error, "format_message"):  # Click's usage errors, whichever package Typer has them from
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        say(f"error: {_one_line(error.format_message())}{hint}")
    elif isinstance(error, LinealError):
        say(f"error: {_one_line(str(error))}")
    elif isinstance(error, MemoryError):
        say("error: not enough memory; use --dtype float32, or fewer rows or columns (--bits)")
    elif isinstance(error, OSError):
        full = "; free some space" if error.errno == errno.ENOSPC else ""
        name = f"{error.filename}: " if error.filename else ""
        say(f"error: {name}{error.strerror or error}{full}")
    else:
        if os.environ.get("LINEAL_TRACEBACK") == "1":
            import traceback

            traceback.print_exception(error)
        what = _one_line(f"{type(error).__name__}: {error}").rstrip(": ")
        say(f"internal error: {what} (set LINEAL_TRACEBACK=1 for details)")
    return FAILED


def _one_line(text: str) -> str:
    return " ".join(text.split())
