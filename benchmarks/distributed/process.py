"""A contestant in a process of its own, whose memory and that of its children is watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np
import psutil
from scipy import sparse

#: Seconds between two looks at the memory.
INTERVAL = 0.1

#: Characters of an error that are kept.
LONGEST = 160

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Outcome:
    """What a contestant said, its weights by name, and the most memory that its processes had in each phase."""

    answer: dict[str, Any] | None = None
    error: str | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    peak_gb: dict[str, float] = field(default_factory=dict)
    is_late: bool = False
    trials: list[dict[str, Any]] = field(default_factory=list)

    @property
    def phase(self) -> str:
        """The last phase that began."""
        return list(self.peak_gb)[-1]


class Shared:
    """Rows in a temporary folder, in the forms that contestants read; each form is written when it is first needed."""

    def __init__(self, X: Any, y: np.ndarray) -> None:
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.X, self.y = X, y
        if isinstance(X, np.ndarray):
            np.save(self.folder / "X.npy", np.ascontiguousarray(X, np.float64))
        else:
            X = sparse.csr_array(X, dtype=np.float64)
            for name in ("data", "indices", "indptr"):  # files that a worker can map, to load some of the rows
                np.save(self.folder / f"X_{name}.npy", getattr(X, name))
            np.save(self.folder / "X_shape.npy", np.array(X.shape))
        np.save(self.folder / "y.npy", y)

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()

    def for_spark(self) -> None:
        """Write what Spark reads without Python: svmlight text, or a Parquet file of vectors if X is dense."""
        if isinstance(self.X, np.ndarray):
            import pyarrow as pa
            import pyarrow.parquet as pq

            path, d = self.folder / "rows.parquet", self.X.shape[1]
            if not path.exists():
                vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.X.reshape(-1)), d)
                lists = vectors.cast(pa.list_(pa.float64()))
                pq.write_table(pa.table({"label": self.y.astype(np.float64), "vector": lists}), path)
        elif not (path := self.folder / "rows.svm").exists():
            from sklearn.datasets import dump_svmlight_file

            dump_svmlight_file(self.X, self.y, str(path), zero_based=False)

    def run(self, script: str, limit: float, python: str | None = None, **options: Any) -> Outcome:
        """Run a script of this folder on the rows."""
        if script == "spark_script":
            self.for_spark()
        for path in self.folder.glob("found*.npy"):
            path.unlink()
        outcome = run(script, [str(self.folder), json.dumps(options)], limit, python)
        outcome.arrays = {path.stem: np.load(path) for path in self.folder.glob("found*.npy")}
        return outcome


def run(script: str, arguments: list[str], max_time: float, python: str | None = None) -> Outcome:
    """Run a script of this folder until it has answered; an error or too long a run is an outcome, too."""
    command = [python or sys.executable, "-m", f"benchmarks.distributed.{script}", *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    outcome = Outcome(peak_gb={"start": 0.0})
    with TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
        )
        try:
            with _listening(child, outcome):
                child.wait(max_time)
        except subprocess.TimeoutExpired:
            outcome.is_late = True
            outcome.error = f"no answer in {max_time:.0f} s, in phase {outcome.phase!r}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # whatever of its workers is left
            child.wait()
        if outcome.answer is None and outcome.error is None:
            errors.seek(0)
            lines = [line for line in errors.read().splitlines() if line.strip()]
            outcome.error = lines[-1].strip()[:LONGEST] if lines else f"ended with code {child.returncode}"
    return outcome


@contextlib.contextmanager
def _listening(child: subprocess.Popen[str], outcome: Outcome) -> Iterator[None]:
    """While the child runs: note its phases, its answer and its memory."""

    def listen() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            kind, _, text = line.strip().partition(" ")
            if kind == "phase":
                outcome.peak_gb.setdefault(text, 0.0)
            elif kind == "trial":
                outcome.trials.append(json.loads(text))
            elif kind == "answer":
                outcome.answer = json.loads(text)

    def watch() -> None:
        while not over.wait(INTERVAL):
            found = resident_gb(child.pid)
            outcome.peak_gb[outcome.phase] = max(outcome.peak_gb[outcome.phase], found)

    over = threading.Event()
    threads = [threading.Thread(target=listen, daemon=True), threading.Thread(target=watch, daemon=True)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        threads[1].join()
        if child.poll() is not None:
            threads[0].join(timeout=10.0)


def resident_gb(pid: int) -> float:
    """Resident memory of a process and everything below it; pages that they share count for each of them."""
    total = 0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total / 1e9
