"""Record which kernels common fits need, in order: `lineal/core/common_kernels.json`, by which lineal looks ahead.

    python wheels/record.py [PATH]

Run it after kernels have been added, renamed or given other arguments. Each fit runs in a process of its own, so that
it asks for all its kernels; what is not cached is compiled. Fits are small, and their kernels those of larger ones. It
takes some minutes.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import lineal
from lineal.cli import common_fits, common_rows
from lineal.cli.app import app
from lineal.cli.common_rows import LONG, NARROW, PRECISIONS, TALL, WIDE
from lineal.core import ahead, forecast, jit, maths
from lineal.core.forecast import Kernel

#: Penalties besides the default.
PENALTIES = ("l1", "elastic_net", "l1/l2")


def fits(folder: str) -> Iterator[Callable[[], object]]:
    """All of them, without arguments."""
    for precision in PRECISIONS:
        for layout in common_fits.MAIN:
            for size in (NARROW, WIDE, TALL if layout == "dense" else LONG):
                for n_classes in common_fits.CLASSES:
                    for name in common_fits.ESTIMATORS:
                        if common_fits.takes(name, size):
                            model = common_fits.estimator(name)(**common_fits.SHORTER.get(name, {}))
                            yield partial(fit, model, layout, precision, size, n_classes)
                    for loss in common_fits.CHOICES["loss"].common:
                        yield partial(fit, lineal.LinearClassifier(loss), layout, precision, size, n_classes)
                    for penalty in PENALTIES:
                        model = lineal.LinearClassifier(penalty=penalty, alpha=1e-3)
                        yield partial(fit, model, layout, precision, size, n_classes)
    for name in common_rows.LINES:
        path = common_rows.file(folder, name)
        yield partial(command, "train", path, "--model", os.path.join(folder, "model"))
        if not name.endswith("jsonl"):
            yield partial(learn, path)
            yield partial(command, "train", path, "--online", "--model", os.path.join(folder, "model"))


def fit(model: object, layout: str, precision: str, size: common_rows.Size, n_classes: int) -> None:
    """Fit a model to random rows, and predict."""
    X, y = common_rows.rows(layout, precision, size), common_rows.labels(size.n, n_classes)
    model.fit(X, y.astype(np.float64) if type(model).__name__.endswith("Regressor") else y).predict(X)


def learn(path: str) -> None:
    """Learn from a file."""
    lineal.OnlineClassifier().fit(path)


def command(*arguments: str) -> None:
    """Run a command."""
    app(arguments, prog_name="lineal", standalone_mode=False)


def needed_by(run: Callable[[], object]) -> list[Kernel] | None:
    """The kernels that it needs, in order; None if it fails."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            warnings.simplefilter("ignore")
            run()
            with os.fdopen(writer, "wb") as file:
                pickle.dump(list(_spelled()), file)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        content = file.read()
    os.wait()
    return pickle.loads(content) if content else None


def _spelled() -> Iterator[Kernel]:
    for module, name, arguments in jit.needed:
        try:
            yield Kernel(module, name, [forecast.spelled(one) for one in arguments])
        except ValueError as error:
            print(f"{module}.{name} is left out: {error}", file=sys.stderr)


def timed(fits: list[list[Kernel]]) -> list[list[Kernel]]:
    """The same with the seconds that a new process needs to compile each kernel into an empty cache."""
    kernels = list({json.dumps(kernel): kernel for fit in fits for kernel in fit}.values())
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--time"]
        done = subprocess.run(
            command, input=json.dumps(kernels), text=True, check=True, stdout=subprocess.PIPE,
            env={**os.environ, "LINEAL_CACHE_DIR": folder},
        )  # fmt: skip
    seconds = {json.dumps(kernel): one for kernel, one in zip(kernels, json.loads(done.stdout))}
    return [[kernel._replace(seconds=seconds[json.dumps(kernel)]) for kernel in fit] for fit in fits]


def compile_all() -> None:
    """Compile the kernels that standard input has, and print the seconds of each."""
    maths.sigmoid(0.0)  # what Numba imports for the first kernel
    seconds = []
    for one in json.load(sys.stdin):
        start = time.process_time()
        Kernel(*one).compile()
        seconds.append(time.process_time() - start)
    print(json.dumps(seconds))


def main() -> None:
    """Record everything."""
    ahead.this.is_on = False
    if sys.argv[1:] == ["--time"]:
        compile_all()
        return
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else forecast.PATH
    found = []
    with TemporaryDirectory() as folder:
        for run in fits(folder):
            kernels = needed_by(run)
            if kernels is None:
                print(f"failed: {run}", file=sys.stderr)
            else:
                found.append(kernels)
    forecast.write(timed(found), path)
    records = forecast.records(path)
    print(f"{path}: {len(found)} fits, {len(records.fits)} different ones, {len(records.kernels)} kernels")


if __name__ == "__main__":
    main()
