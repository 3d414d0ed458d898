"""How the program meets the shell: one line an error, exit codes, help in sections."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

from typer.core import TyperCommand, TyperGroup

from lineal.errors import LinealError

FAILED, INTERRUPTED, PIPE_CLOSED, TERMINATED = 2, 130, 141, 143


class Command(TyperCommand):
    """A command whose help shows its options in sections, where they name one."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The argument and option lists of the help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """The program. A command returns its exit code or None; an error it raises becomes one line and a code."""

    def main(self, args: Any = None, prog_name: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run, and leave with an exit code."""
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except Exception as error:
            code = report(error)
        if not standalone_mode:
            return code
        sys.exit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Interruptions are caught here, before Click translates them."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()  # a full disk must fail here, not in the interpreter's last moments
            return code
        except (KeyboardInterrupt, OSError) as error:
            return report(error)


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
            traceback.print_exception(error)
        what = _one_line(f"{type(error).__name__}: {error}").rstrip(": ")
        say(f"internal error: {what} (set LINEAL_TRACEBACK=1 for details)")
    return FAILED


def say(message: str) -> None:
    """A line to the person at the terminal, who may be reading another program's output: it names this one."""
    print(f"lineal: {message}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())
