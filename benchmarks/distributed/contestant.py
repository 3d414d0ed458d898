"""What the scripts of the contestants share: load, warm up, fit with the clock on, kill a worker, answer.

    python -m benchmarks.distributed.NAME_script FOLDER JSON

FOLDER has the rows (`process.Shared`). A script prints "phase load", "phase fit" and "phase kill" when these begin, and
"answer JSON" at the end; weights and intercepts are written to FOLDER. No contestant needs the packages of another.
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

#: Share of the seconds of an undisturbed fit after which a worker is killed.
KILL_AT = 0.4


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
        _save(folder, "found", fitted)
        answer = {
            "load_seconds": load_seconds, "warm_up_seconds": warm_up_seconds, "seconds": seconds,
            **fitted.about, **contestant.about,
        }  # fmt: skip
        if options.get("kill"):
            phase("kill")
            answer["kill"] = _disturbed(folder, contestant, float(np.median(seconds)))
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


def _save(folder: Path, name: str, fitted: Fitted) -> None:
    np.save(folder / f"{name}_weights.npy", np.asarray(fitted.weights, np.float64))
    np.save(folder / f"{name}_intercept.npy", np.asarray(fitted.intercept, np.float64))


def _disturbed(folder: Path, contestant: Contestant, undisturbed: float) -> dict[str, Any]:
    """One more fit, during which a worker process gets SIGKILL."""
    victims, told = contestant.workers(), {}
    if not victims:
        return {"outcome": "no worker process to kill"}
    start = time.perf_counter()

    def kill() -> None:
        told["killed_at"] = time.perf_counter() - start
        os.kill(victims[0], signal.SIGKILL)

    timer = threading.Timer(KILL_AT * undisturbed, kill)
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
        return {"outcome": "the fit ended before the kill", "seconds": ended}
    _save(folder, "found_killed", fitted)
    return {"outcome": "finished", "seconds": ended, **told, **{f"killed_{k}": v for k, v in fitted.about.items()}}
