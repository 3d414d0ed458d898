"""Vowpal Wabbit 9.11: the same rows in the same order, one pass of squared loss, rates of the same grid.

Its options: `--interactions ::` (and `:::`) for products of two (and three), `--stage_poly` with equal batches of a
sixth of the rows. Seconds are those of the processor, less those of a run without rows. A table of 2^bits weights is
shared by the classes in VW; it gets as many for each class as lineal.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apple import ours
from benchmarks.apple.problems import Problem

COMMAND = (sys.executable, "-m", "vowpalwabbit", "--no_stdin")
PAIRS = ("--interactions", "::")
TRIPLES = (*PAIRS, "--interactions", ":::")


def methods(n: int) -> dict[str, tuple[str, ...]]:
    """Options by name, for n rows."""
    batch = n // 6 + 1  # five expansions, none at the very end
    return {
        "lin": (), "quad": PAIRS, "cubic": TRIPLES,
        "apple(1)": ("--stage_poly", "--batch_sz", str(batch), "--batch_sz_no_doubling"),
    }  # fmt: skip


class Room:
    """A folder with the rows as text, gone afterwards."""

    def __init__(self, problem: Problem, folder: Path) -> None:
        self.problem, self.folder = problem, folder
        folder.mkdir(parents=True)
        write(folder / "train.vw", problem.X, self._labels(problem.y))
        write(folder / "test.vw", problem.X_test, self._labels(problem.y_test))
        (folder / "nothing.vw").write_text("")
        self.start_up = min(self._call("-d", "nothing.vw")[0] for _ in range(3))

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *error: Any) -> None:
        shutil.rmtree(self.folder)

    def _labels(self, y: np.ndarray) -> np.ndarray:
        if self.problem.is_regression:
            return y
        return y + 1 if self.problem.k > 1 else 2 * y - 1

    def best_of(self, method: str, is_quick: bool) -> dict[str, Any] | None:
        """The run whose rate had the least progressive error."""
        k, n = self.problem.k, len(self.problem.y)
        if not ours.can_do(method, self.problem):
            return None
        bits = ours.bits_of(method, k) + math.ceil(math.log2(k))
        options = [*methods(n)[method], "-b", str(bits)]
        if k > 1:
            options += ["--oaa", str(k)]
        elif not self.problem.is_regression:
            options += ["--binary"]
        found: dict[str, Any] | None = None
        tried: dict[str, float] = {}
        for rate in ours.QUICK_RATES if is_quick else ours.RATES:
            seconds, said = self._call("-d", "train.vw", "-l", str(rate), *options)
            progressive = _number("average loss", said) * (1.0 if self.problem.is_regression else 100.0)
            tried[f"{rate:g}"] = progressive
            if found is None or progressive < found["progressive"]:
                found = {
                    "progressive": progressive, "seconds": max(seconds - self.start_up, 1e-3), "rate": rate,
                    "features": _number("total feature number", said) / n,
                }  # fmt: skip
        assert found is not None
        self._call("-d", "train.vw", "-l", str(found["rate"]), *options, "-f", "model")
        self._call("-d", "test.vw", "-t", "-i", "model", "-p", "said")
        return {**found, "error": self.problem.error(self._decided()), "tried": tried}

    def _decided(self) -> np.ndarray:
        said = np.loadtxt(self.folder / "said", ndmin=1)
        if self.problem.is_regression:
            return said
        return said - 1 if self.problem.k > 1 else (said > 0.0).astype(np.int64)

    def _call(self, *options: str) -> tuple[float, str]:
        """Seconds of the processor, and what was said on the way."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen([*COMMAND, *options], cwd=self.folder, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        said = (self.folder / "log").read_text()
        if process.returncode != 0:
            raise RuntimeError(f"vowpalwabbit {' '.join(options)} ended with {process.returncode}: {said[-500:]}")
        return usage.ru_utime + usage.ru_stime, said


def write(path: Path, X: Any, labels: np.ndarray) -> None:
    """Rows in VW's format: columns are names, a value of 1 is left out."""
    with path.open("w") as file:
        for i, label in enumerate(labels.tolist()):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[entries].tolist(), X.data[entries].tolist())
            words = " ".join(str(j) if value == 1.0 else f"{j}:{value:.7g}" for j, value in pairs)
            file.write(f"{label} | {words}\n")


def _number(name: str, said: str) -> float:
    match = re.search(rf"{name} = ([-+.\deE]+|nan)", said)
    if match is None:
        raise RuntimeError(f"vowpalwabbit did not say its {name}")
    return float(match[1])
