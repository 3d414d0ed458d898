"""`lineal warmup`: compile the common kernels once, so that no later fit has to wait."""

from __future__ import annotations

import time
from collections.abc import Iterable
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
    from lineal.core import jit, kernel_files

    start, before = time.perf_counter(), len(jit.compiled)
    with scratch_folder() as folder:
        for task in _track(common_fits.tasks(folder), quiet=json):
            common_fits.run(task)
    compiled, seconds = len(jit.compiled) - before, time.perf_counter() - start
    cache = kernel_files.cache_folder()
    if json:
        show.as_json({"compiled": compiled, "seconds": seconds, "cache": None if cache is None else str(cache)})
        return
    if cache is None:
        say("warning: there is no writable folder for compiled kernels: set LINEAL_CACHE_DIR")
    if compiled:
        print(f"compiled {compiled} kernels in {seconds:.1f} s; they are kept in {cache}")
    else:
        print(f"nothing to compile: all kernels are in {cache} ({seconds:.1f} s)")


def _track(tasks: list[Task], quiet: bool) -> Iterable[Task]:
    """The tasks, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(tasks, "warming up", console=console, transient=True, disable=quiet or not console.is_terminal)
