"""What the scripts of the contestants share: load, warm up, fit with the clock on, kill a worker, answer.

    python -m benchmarks.distributed.NAME_script FOLDER JSON

FOLDER has the rows (`process.Shared`). A script prints "phase load", "phase fit" and "phase kill 1" when these begin,
"trial JSON" after each fit during which a worker was killed, and "answer JSON" at the end; weights and intercepts are
written to FOLDER. No contestant needs the packages of another.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

#: Shares of the seconds of an undisturbed fit after which a worker is killed, one for each further fit.
KILL_AT = (0.2, 0.4, 0.6, 0.8)

#: Seconds to wait for a new worker before a further fit.
PATIENCE = 60.0


class Fitted(NamedTuple):
    """Weights (d, k), intercepts (k,), and what else the contestant says about its fit."""

    weights: np.ndarray
    intercept: np.ndarray
    about: dict[str, Any]


@dataclass
class Contestant:
    """A fit that can be repeated on rows that are in memory, and the process numbers of its workers now."""

    fit: Callable[[], Fitted]
    workers: Callable[[], list[int]]
    about: dict[str, Any]


Opened = Callable[[Path, dict[str, Any]], AbstractContextManager[Contestant]]


def main(opened: Opened) -> None:
    """Measure the contestant that the context manager gives."""
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    phase("load")
    start = time.perf_counter()
    with opened(folder, options) as contestant:
        load_seconds = time.perf_counter() - start
        phase("fit")
        warm_up_seconds, _ = _timed(contestant.fit)
        seconds = []
        for _ in range(options.get("repeats", 1)):
            took, fitted = _timed(contestant.fit)
            seconds.append(took)
        np.save(folder / "found_weights.npy", np.asarray(fitted.weights, np.float64))
        np.save(folder / "found_intercept.npy", np.asarray(fitted.intercept, np.float64))
        answer = {
            "load_seconds": load_seconds, "warm_up_seconds": warm_up_seconds, "seconds": seconds,
            **fitted.about, **contestant.about,
        }  # fmt: skip
        if options.get("kill"):
            _kill_trials(contestant, float(np.median(seconds)), fitted, int(options["workers"]))
        print("answer " + json.dumps(answer), flush=True)


def phase(name: str) -> None:
    """Say that a phase begins."""
    print(f"phase {name}", flush=True)


def load(folder: Path) -> tuple[Any, np.ndarray]:
    """All rows, in memory: CSR or dense float64, and labels 0 … k−1."""
    n = len(np.load(folder / "y.npy", mmap_mode="r"))
    return rows(folder, 0, n), np.load(folder / "y.npy")


def rows(folder: Path, start: int, stop: int) -> Any:
    """Some of the rows: a pure function of file and range."""
    if (folder / "X.npy").exists():
        return np.array(np.load(folder / "X.npy", mmap_mode="r")[start:stop])
    data, indices, indptr = (np.load(folder / f"X_{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr"))
    d = int(np.load(folder / "X_shape.npy")[1])
    first, last = int(indptr[start]), int(indptr[stop])
    parts = (np.array(data[first:last]), np.array(indices[first:last]), indptr[start : stop + 1] - indptr[start])
    return sparse.csr_array(parts, shape=(stop - start, d))


def ranges(n: int, parts: int) -> list[tuple[int, int]]:
    """First and last row numbers of almost equal parts."""
    cuts = np.linspace(0, n, parts + 1).astype(int).tolist()
    return list(itertools.pairwise(cuts))


def _timed(fit: Callable[[], Fitted]) -> tuple[float, Fitted]:
    start = time.perf_counter()
    fitted = fit()
    return time.perf_counter() - start, fitted


def _kill_trials(contestant: Contestant, undisturbed: float, wanted: Fitted, n_workers: int) -> None:
    """Further fits, during each of which a worker process gets SIGKILL; what comes of each is printed at once."""
    for number, share in enumerate(KILL_AT, start=1):
        _wait_for(contestant, n_workers)
        phase(f"kill {number}")
        trial = {"share": share, **_disturbed(contestant, share * undisturbed, wanted)}
        print("trial " + json.dumps(trial), flush=True)


def _disturbed(contestant: Contestant, delay: float, wanted: Fitted) -> dict[str, Any]:
    victim, told = contestant.workers()[0], {}
    start = time.perf_counter()

    def kill() -> None:
        told["killed_at"] = time.perf_counter() - start
        os.kill(victim, signal.SIGKILL)

    timer = threading.Timer(delay, kill)
    timer.start()
    try:
        fitted = contestant.fit()
    except Exception as error:  # whatever a contestant ends with is the finding
        ended = time.perf_counter() - start
        return {"outcome": f"{type(error).__name__}: {str(error)[:200]}", "seconds": ended, **told}
    finally:
        timer.cancel()
    ended = time.perf_counter() - start
    if "killed_at" not in told:
        return {"outcome": "ended before the kill", "seconds": ended}
    return {
        "outcome": "finished", "seconds": ended, **told, "is_dead": victim not in contestant.workers(),
        "same_bits": np.array_equal(fitted.weights, wanted.weights),
        "difference": float(np.abs(fitted.weights - wanted.weights).max() / np.abs(wanted.weights).max()),
        "about": fitted.about,
    }  # fmt: skip


def _wait_for(contestant: Contestant, n_workers: int) -> None:
    """Wait until lost workers have been replaced, but not for ever."""
    deadline = time.monotonic() + PATIENCE
    while len(contestant.workers()) < n_workers and time.monotonic() < deadline:
        time.sleep(0.2)
