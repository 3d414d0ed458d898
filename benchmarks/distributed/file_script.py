"""One measurement of the file engine, in a process of its own.

    python -m benchmarks.distributed.file_script write PATH JSON
    python -m benchmarks.distributed.file_script fit PATH JSON

`write` generates sparse rows block by block; JSON has bytes and seed. `fit` trains on the file, or on its rows in
memory; JSON has kind (newton, dual_cd or online), budget (None means in memory), small (the path of a small file of the
same kind, for the warm-up) and repeats. Anonymous memory (RssAnon) is sampled by a thread: unlike the resident size it
has no pages of files, which the system can drop.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import lineal
from benchmarks.distributed.contestant import phase
from lineal.data.binary.write import write
from lineal.data.dataset import Dataset
from lineal.online.from_files import FileLearner, Labels
from lineal.online.options import OnlineOptions

#: Shape of the generated rows: words of a document, of a vocabulary whose first words are frequent.
FEATURES, DRAWS = 200_000, 80

#: Bytes of a stored entry: a float32 and an int32.
ENTRY = 8

#: Rows that are generated at a time.
BLOCK_ROWS = 50_000

#: Seconds between two samples of the memory.
INTERVAL = 0.01

#: Options of the batch fits.
FITS = {
    "newton": {"loss": "logistic", "solver": "newton", "alpha": 1e-5, "tol": 1e-3},
    "dual_cd": {"loss": "squared_hinge", "solver": "dual_cd", "alpha": 1e-5, "tol": 1e-2, "random_state": 0},
}


class AnonymousMemory:
    """The most anonymous memory that this process has held since it was last asked."""

    def __init__(self) -> None:
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self._most = max(self._most, anonymous_bytes())

    def taken(self) -> float:
        """GB; a new measurement begins."""
        most, self._most = max(self._most, anonymous_bytes()), 0
        return most / 1e9


def anonymous_bytes() -> int:
    """Anonymous memory of this process now."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssAnon:"))
    return 1024 * int(line.split()[1])


def generate(size: int, seed: int) -> Iterator[Dataset]:
    """Blocks of sparse rows of about `size` bytes in all, from a linear model with noise; a seed fixes all of them."""
    weights = np.random.default_rng((seed, 0)).normal(size=FEATURES).astype(np.float32)
    written = number = 0
    while written < size:
        number += 1
        rng = np.random.default_rng((seed, number))
        rows = min(BLOCK_ROWS, max(1, (size - written) // (ENTRY * DRAWS)))
        drawn = np.sort((FEATURES * rng.random((rows, DRAWS), np.float32) ** 3).astype(np.int32), axis=1)
        is_new = np.ones(drawn.shape, bool)
        is_new[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
        counts = is_new.sum(axis=1)
        values = rng.random(int(counts.sum()), np.float32) + np.float32(0.5)
        values /= np.repeat(np.sqrt(counts), counts).astype(np.float32)  # rows of about the same length
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        X = sparse.csr_array((values, drawn[is_new], indptr.astype(np.int32)), shape=(rows, FEATURES))
        scores = 2.0 * (X @ weights) + rng.logistic(size=rows)
        written += ENTRY * X.nnz
        yield Dataset(X, (scores > 0.0).astype(np.int32))


def main() -> None:
    """Write or fit, and answer."""
    task, path, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    memory = AnonymousMemory()
    phase(task)
    if task == "write":
        start = time.perf_counter()
        write(generate(int(options["bytes"]), int(options["seed"])), path)
        answer = {"seconds": time.perf_counter() - start, "bytes": path.stat().st_size, "anonymous_gb": memory.taken()}
    else:
        answer = _fits(path, options, memory)
    print("answer " + json.dumps(answer), flush=True)


def _fits(path: Path, options: dict[str, Any], memory: AnonymousMemory) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    kind, budget = options["kind"], options["budget"]
    start = time.perf_counter()
    _fitted(kind, Path(options["small"]), budget)(), _fitted(kind, Path(options["small"]), None)()
    warm_up = time.perf_counter() - start
    read_through(path)
    before = memory.taken()
    fit = _fitted(kind, path, budget)
    seconds: list[float] = []
    found: dict[str, Any] = {}
    for _ in range(options["repeats"]):
        start = time.perf_counter()
        found = fit()
        seconds.append(time.perf_counter() - start)
    return {
        "warm_up_seconds": warm_up, "seconds": seconds, "median_seconds": float(np.median(seconds)),
        "anonymous_gb": memory.taken(), "anonymous_gb_before": before, **found,
    }  # fmt: skip


def _fitted(kind: str, path: Path, budget: str | None) -> Callable[[], dict[str, Any]]:
    """A fit that can be repeated: from the path if there is a budget, else from the rows in memory."""
    data = None if budget is not None else lineal.read(path, mapped="no")
    if kind == "online":
        options = OnlineOptions(loss="logistic")
        if data is None:
            return lambda: {"examples": FileLearner(str(path), options, {}, Labels()).fit()[1].learner.examples}
        online = lineal.OnlineClassifier(loss="logistic")
        return lambda: {"examples": online.fit(data.X, data.y).model_.learner.examples}
    model = lineal.LinearClassifier(**FITS[kind])
    if data is None:
        model.set_params(engine="file", memory_budget=budget)
        return lambda: _told(model.fit(str(path)))
    return lambda: _told(model.fit(data.X, data.y))


def _told(model: Any) -> dict[str, Any]:
    certificate = model.certificate_
    return {"objective": certificate.primal, "gap": certificate.value, "iterations": int(model.n_iter_),
            "status": model.status_}  # fmt: skip


def read_through(path: Path) -> None:
    """Read a file once, so that its pages are in the cache of the system."""
    with _opened(path) as file:
        while os.read(file, 1 << 20):
            pass


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
