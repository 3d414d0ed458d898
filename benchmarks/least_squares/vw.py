"""VW by its command line, ``python -m vowpalwabbit``: one against all, logistic loss, from a cache of its own.

The rows are written as text and turned into VW's cache before the clock starts; a run reads the cache once a pass.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.least_squares.problems import Sets

#: Rows that are turned into text at a time.
CHUNK = 1000

COMMAND = (sys.executable, "-m", "vowpalwabbit", "--quiet")


class Cache:
    """Training rows as a cache, test rows as text, in a folder that is gone afterwards."""

    def __init__(self, sets: Sets, folder: Path) -> None:
        self.sets, self.folder = sets, folder
        folder.mkdir()
        # A weight for every class and column of the data, hashed into a table that is at least twice as large.
        self.bits = max(18, int(np.ceil(np.log2(sets.n_classes * (sets.X.shape[1] + 1)))) + 1)
        write(folder / "train.txt", sets.X, sets.y)
        write(folder / "test.txt", sets.X_test, sets.y_test)
        self._call(*self._shape, "-d", "train.txt", "--cache_file", "train.cache", "--noop")
        (folder / "train.txt").unlink()

    @property
    def _shape(self) -> tuple[str, ...]:
        return ("--oaa", str(self.sets.n_classes), "-b", str(self.bits))

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *error: Any) -> None:
        shutil.rmtree(self.folder)

    def run(self, passes: int, limit: float) -> dict[str, float] | None:
        """Seconds (those of starting the process included) and error (%); None if it takes too long."""
        start = time.perf_counter()
        try:
            self._call(
                *self._shape, "--loss_function", "logistic", "--cache_file", "train.cache", "--passes", str(passes),
                "--holdout_off", "-f", "model", limit=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        seconds = time.perf_counter() - start
        self._call("-t", "-i", "model", "-d", "test.txt", "-p", "predicted")
        predicted = np.loadtxt(self.folder / "predicted")
        return {"seconds": seconds, "error": self.sets.error(predicted - 1.0)}

    def _call(self, *options: str, limit: float | None = None) -> None:
        subprocess.run(
            [*COMMAND, *options], cwd=self.folder, check=True, timeout=limit, stdout=subprocess.DEVNULL
        )  # fmt: skip


def write(path: Path, X: Any, y: np.ndarray) -> None:
    """Rows in VW's format; labels count from one. Dense numbers get four decimals, relative to the largest."""
    unit = 1.0 if sparse.issparse(X) else _unit(X)
    with path.open("wb") as file:
        for at in range(0, X.shape[0], CHUNK):
            part, labels = X[at : at + CHUNK], y[at : at + CHUNK] + 1
            file.write(_sparse_lines(part, labels) if sparse.issparse(part) else _dense_lines(part, labels, unit))


def _sparse_lines(X: Any, labels: np.ndarray) -> bytes:
    lines = []
    for i, label in enumerate(labels.tolist()):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[entries].tolist(), X.data[entries].tolist())
        lines.append(f"{label} | {' '.join(f'{j}:{value:.5g}' for j, value in pairs)}\n")
    return "".join(lines).encode()


def _unit(X: np.ndarray) -> float:
    """The largest magnitude of some rows, to which numbers are relative."""
    return float(np.abs(X[:: max(1, len(X) // 4096)]).max()) or 1.0


def _dense_lines(X: np.ndarray, labels: np.ndarray, unit: float) -> bytes:
    """Features without names, numbered by VW: " :±d.dddd" each, made as bytes of an array."""
    ticks = np.rint(np.clip(np.asarray(X, np.float64) / unit, -9.0, 9.0) * 10_000).astype(np.int64)
    cells = np.empty((*ticks.shape, 9), np.uint8)
    cells[:, :, 0], cells[:, :, 1], cells[:, :, 4] = ord(" "), ord(":"), ord(".")
    cells[:, :, 2] = np.where(ticks < 0, ord("-"), ord("0"))
    ticks = np.abs(ticks)
    for place in (8, 7, 6, 5, 3):
        ticks, digits = np.divmod(ticks, 10)
        cells[:, :, place] = digits + ord("0")
    return b"".join(b"%d |%b\n" % (label, row.tobytes()) for label, row in zip(labels.tolist(), cells))
