"""Children of the fault tests: steps at which a process dies or fails, and what must be true of every ending."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Calls of the operating system that writing a file is made of. A process may die before any of them.
STEPS = ("open", "mkdir", "dup", "fsync", "chmod", "replace", "unlink", "rmdir", "close")


def in_a_fork(work: Callable[[], Any]) -> int:
    """Run `work` in a forked child; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def before_step(
    step: int, act: Callable[[], None], work: Callable[[], Any], steps: tuple[str, ...] = STEPS
) -> Callable[[], Any]:
    """The same work, with something that happens before the given step of it. To run in a child."""

    def run() -> None:
        count = 0

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def instead(*args: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                if count == step:
                    act()
                return call(*args, **named)

            return instead

        for name in steps:
            setattr(os, name, counted(getattr(os, name)))
        work()

    return run


def die() -> None:
    """End this process as a kill does."""
    os.kill(os.getpid(), signal.SIGKILL)


def parts_in(folder: Path) -> list[str]:
    """Parts of files that are left in a folder."""
    return [name for name in os.listdir(folder) if name.startswith(".lineal-")]


def problem_with(code: int, errors: str, expected: tuple[int, ...]) -> str | None:
    """What is wrong with the ending of a command: its exit code, a traceback, more than a line about an error."""
    if code not in expected:
        return f"exit code {code}, expected {expected}: {errors[-300:]}"
    if "Traceback" in errors or "internal error" in errors or "Exception ignored" in errors:
        return errors[-300:]
    lines = [line for line in errors.splitlines() if line.startswith("lineal: error")]
    return f"several errors: {errors}" if len(lines) > 1 else None
