"""`lineal warmup`: compile the common kernels once, so that no later fit has to wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lineal.cli import show
from lineal.cli.terminal import say
from lineal.system.files import scratch_folder

if TYPE_CHECKING:
    from lineal.cli.common_fits import Task


def warmup(json: show.Json = False) -> None:
    """Compile the common kernels once.

    These are the kernels for dense and sparse data in both precisions, the usual losses and estimators, and the readers
    of text files. Compiled kernels are kept on disk until lineal or Numba is updated. A second run has nothing to do.
    """
    from lineal.cli import common_fits
    from lineal.core import ahead, jit, kernel_files

    ahead.this.is_on = False  # the second process is one that has the same list
    start, before, cache = time.perf_counter(), len(jit.compiled), kernel_files.cache_folder()
    there = _kernels_in(cache)
    with scratch_folder() as folder, ExitStack() as helpers:
        is_helped = False
        for task in _track(common_fits.tasks(folder), quiet=json):
            if not is_helped and (not there or len(jit.compiled) > before):
                is_helped = True
                helpers.enter_context(_second_process(cache))
            common_fits.run(task)
    compiled = max(len(jit.compiled) - before, len(_kernels_in(cache) - there))
    seconds = time.perf_counter() - start
    if json:
        show.as_json({"compiled": compiled, "seconds": seconds, "cache": None if cache is None else str(cache)})
        return
    if cache is None:
        say("warning: there is no writable folder for compiled kernels: set LINEAL_CACHE_DIR")
    if compiled:
        print(f"compiled {compiled} kernels in {seconds:.1f} s; they are kept in {cache}")
    else:
        print(f"nothing to compile: all kernels are in {cache} ({seconds:.1f} s)")


def _kernels_in(cache: Path | None) -> set[str]:
    return set() if cache is None else {path.name for path in cache.glob("*.kernel")}


@contextmanager
def _second_process(cache: Path | None) -> Iterator[None]:
    """Context in which another process compiles the same kernels from the end of the list, if there is a core for it.

    Compiling keeps one core busy. Both processes save what they compile in the same folder, so that this one finds the
    second half there, and nothing depends on the other: it may fail, and is stopped when it is not needed any more.
    """
    from lineal.core.threads import available_cores

    if cache is None or available_cores() < 2 or not sys.executable:
        yield
        return
    code = f"from lineal.cli.warmup import run_backwards; run_backwards({os.getpid()})"
    try:
        other = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        yield
        return
    try:
        yield
    finally:
        other.terminate()
        other.wait()


def run_backwards(parent: int) -> None:
    """Run the common fits from the last one to the first, as long as the process that wants them is there."""
    from lineal.cli import common_fits, orderly_end
    from lineal.core import ahead

    ahead.this.is_on = False
    with orderly_end(), scratch_folder() as folder:
        for task in reversed(common_fits.tasks(folder)):
            if os.name == "posix" and os.getppid() != parent:
                return
            common_fits.run(task)


def _track(tasks: list[Task], quiet: bool) -> Iterable[Task]:
    """The tasks, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(tasks, "warming up", console=console, transient=True, disable=quiet or not console.is_terminal)
