"""Data and problems. α is 1/n (C = 1) everywhere, and all data are float64."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks import datasets
from benchmarks.liblinear import problems
from benchmarks.liblinear.problems import Rows, spread

#: kddcup99 with two labels: normal connections and attacks.
ATTACKS = "kddcup99 attacks"

#: Rows of a data set with --quick.
QUICK_ROWS = 500


class Task(NamedTuple):
    """Which loss on which data."""

    data: str
    loss: str

    def __str__(self) -> str:
        return f"{self.data}, {self.loss}"


SPARK_TASKS = (
    Task("20newsgroups", "softmax"), Task("kddcup99", "softmax"), Task("wiki_toxicity", "logistic"),
    Task(ATTACKS, "logistic"), Task("wiki_toxicity", "hinge"), Task(ATTACKS, "hinge"),
)  # fmt: skip

DASK_ML_TASKS = (Task("wiki_toxicity", "logistic"), Task(ATTACKS, "logistic"))


class Table(NamedTuple):
    """One table of the result: its name in the file, its title, and its rows."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[list[object]]


@dataclass(frozen=True)
class Plan(problems.Plan):
    """How much is run: on which data, how often, how long, and with whose interpreter."""

    peers_python: str | None = None
    limit: float | None = None
    n_workers: int = 2
    kdd_rows: int = 100_000
    file_gb: float = 4.0
    rows: int = 10_000_000
    scratch: str | None = None
    timed_fits: int | None = None

    @property
    def repeats(self) -> int:
        """Number of timed fits per contestant."""
        return self.timed_fits or super().repeats

    @property
    def max_time(self) -> float:
        """Seconds of one contestant at most, with its start, warm-up and all repetitions."""
        return self.limit or (300.0 if self.is_quick else 3600.0)

    def of(self, tasks: Iterable[Task]) -> list[Task]:
        """Those tasks that match."""
        return self.selected(tasks)

    def load(self, name: str, part: str = "train") -> Rows:
        """A data set, from memory if it was loaded before."""
        if not name.startswith("kddcup99"):
            return _few(super().load(name, part)) if self.is_quick else super().load(name, part)
        key = (name, self.kdd_rows, self.is_quick)
        if key not in _KDD:
            X, y = datasets.kddcup(self.folder, self.kdd_rows, is_binary=name == ATTACKS)
            kept = spread(len(y), QUICK_ROWS) if self.is_quick else np.arange(len(y))
            _KDD[key] = Rows(name, X[kept], np.unique(y[kept], return_inverse=True)[1])
        return _KDD[key]


def _few(rows: Rows) -> Rows:
    """Some rows, and the columns that they need."""
    kept = spread(len(rows.y), QUICK_ROWS)
    X = rows.X[kept]
    return Rows(rows.name, X[:, np.unique(X.nonzero()[1])], np.unique(rows.y[kept], return_inverse=True)[1])


_KDD: dict[tuple[str, int, bool], Rows] = {}
