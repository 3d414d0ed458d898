"""`lineal warmup`: compile the common kernels once, so that no later fit has to wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from lineal.cli import show
from lineal.cli.terminal import say
from lineal.system.files import scratch_folder

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset

#: Losses whose kernels are compiled.
LOSSES = ("squared_hinge", "logistic", "softmax")


def warmup(json: show.Json = False) -> None:
    """Compile the common kernels once.

    These are the kernels for dense and sparse data in both precisions, the usual losses, and the svmlight parser.
    Compiled kernels are kept on disk until lineal or Numba is updated. A second run has nothing to do.
    """
    from lineal.core import jit

    start, before = time.perf_counter(), len(jit.compiled)
    with scratch_folder() as folder:
        for task in _track(list(_tasks(folder)), quiet=json):
            task()
    compiled, seconds = len(jit.compiled) - before, time.perf_counter() - start
    cache = jit.cache_folder()
    if json:
        show.as_json({"compiled": compiled, "seconds": seconds, "cache": None if cache is None else str(cache)})
        return
    if cache is None:
        say("warning: there is no writable folder for compiled kernels: set LINEAL_CACHE_DIR")
    if compiled:
        print(f"compiled {compiled} kernels in {seconds:.1f} s; they are kept in {cache}")
    else:
        print(f"nothing to compile: all kernels are in {cache} ({seconds:.1f} s)")


def _track(tasks: list[Callable[[], Any]], quiet: bool) -> Iterable[Callable[[], Any]]:
    """The tasks, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(tasks, "warming up", console=console, transient=True, disable=quiet or not console.is_terminal)


def _tasks(folder: str) -> Iterator[Callable[[], Any]]:
    """Tiny tasks that together use the common kernels."""
    from lineal.data.holdout import split

    for precision in ("float32", "float64"):
        data = _read(folder, precision)
        for X in (data.X, data.X.toarray(), _converted(folder, precision)):
            for loss in LOSSES:
                yield partial(_fit, X, data.y, loss)
        for loss in LOSSES:  # with so few columns, auto chooses other solvers
            yield partial(_fit, data.X, data.y, loss, "dual_cd")
        yield partial(_multiply, precision)
    yield partial(split, data, 0.2, 0)


def _read(folder: str, precision: str) -> Dataset:
    from lineal.data.read import read

    path = os.path.join(folder, "rows.svm")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines(f"{i % 3} {1 + i % 5}:{i + 1} {6 + i % 4}:0.5\n" for i in range(30))
    return read(path, dtype=precision)


def _converted(folder: str, precision: str) -> Any:
    """Rows read from a converted file, whose arrays are read-only: Numba compiles separate kernels for these."""
    from lineal.data.binary.layout import convert, open_layout

    path = os.path.join(folder, f"{precision}.arrow")
    return open_layout(convert(os.path.join(folder, "rows.svm"), path, dtype=precision)).X


def _multiply(precision: str) -> None:
    """Multiply enough dense rows for kernels to be used, in their own precision and in that of certificates."""
    import numpy as np

    from lineal.design import narrow_products, products, wrap

    d = narrow_products.MIN_COLUMNS
    X, V = np.ones((narrow_products.WORTH_A_KERNEL // d, d), precision), np.ones((d, 10), precision)
    for is_writable in (True, False):
        X.setflags(write=is_writable)
        for dtype in dict.fromkeys((precision, "float64")):
            scores = products.matmul(wrap(X), V, dtype=dtype)
            products.rmatmul(wrap(X), scores)


def _fit(X: Any, y: Any, loss: str, solver: str = "auto") -> None:
    from lineal.linear.fit import fit
    from lineal.linear.options import TrainOptions

    for labels in (y, y > 0):
        for max_iter in (1, 20):  # a fit that stops early runs kernels that a converged one does not
            fit(X, labels, TrainOptions(loss=loss, solver=solver, max_iter=max_iter))
