"""Data and problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import datasets

#: Relative distances from the least objective that the clock stops at.
TARGETS = (1e-3, 1e-4)

TEXT = ("20newsgroups", "reuters", "clinc150", "banking77")


class Rows(NamedTuple):
    """A data set: X in float64 and labels 0 … k−1; two labels are one column of scores, positive for label 1."""

    name: str
    X: Any
    y: np.ndarray

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def as_type(self, dtype: Any) -> Any:
        """X in this precision."""
        return self.X if self.X.dtype == dtype else self.X.astype(dtype)


class Task(NamedTuple):
    """Which objective on which data."""

    data: str
    loss: str
    penalty: str = "l2"

    def __str__(self) -> str:
        words = self.loss.replace("_", " ")
        return words if self.penalty == "l2" else f"{self.penalty} {words}"


TASKS = (
    *(Task(data, "squared_hinge") for data in TEXT),
    *(Task("wiki_toxicity", loss) for loss in ("squared_hinge", "hinge", "logistic")),
    *(Task(data, loss) for data in ("a9a", "w8a") for loss in ("squared_hinge", "hinge", "logistic")),
    *(Task(data, loss) for loss in ("logistic", "crammer_singer") for data in TEXT),
    *(Task(data, loss, "l1") for loss in ("logistic", "squared_hinge") for data in ("wiki_toxicity", "20newsgroups")),
)


SOFTMAX_SETS = ("20newsgroups", "clinc150", "MNIST", "kddcup99")


@dataclass(frozen=True)
class Plan:
    """How much is run: on which data, how often, how long."""

    folder: Path
    is_quick: bool = False
    is_slow: bool = False
    match: str = ""

    @property
    def repeats(self) -> int:
        return 1 if self.is_quick else 3

    @property
    def max_time(self) -> float:
        """Seconds of one fit of lineal at most."""
        return 5.0 if self.is_quick else 120.0

    def selected(self, names: Iterable[Any], label: Callable[[Any], str] = str) -> list[Any]:
        """Names whose label contains the text of `--match`."""
        return [name for name in names if self.match in label(name)]

    def tasks(self) -> list[Task]:
        """Rows of the table of ratios."""
        if not self.is_quick:
            found = TASKS
        else:
            few = [Task("a9a", loss) for loss in ("squared_hinge", "hinge", "logistic")]
            many = [Task("banking77", loss) for loss in ("squared_hinge", "logistic", "crammer_singer")]
            sparse = [Task("a9a", "logistic", "l1"), Task("banking77", "squared_hinge", "l1")]
            found = (*few, *many, *sparse)
        return self.selected(found, lambda task: f"{task.data} {task}")

    def softmax_sets(self) -> list[str]:
        return self.selected(["banking77", "MNIST"] if self.is_quick else SOFTMAX_SETS)

    def all_sets(self) -> list[str]:
        return self.selected(["a9a", "banking77"] if self.is_quick else LOADERS)

    def curve_sets(self) -> list[str]:
        documents = ["banking77"] if self.is_quick else ["20newsgroups", "reuters", "wiki_toxicity"]
        return self.selected([*documents, "a9a"])

    def accuracy_sets(self) -> list[str]:
        return ["a9a", "banking77"] if self.is_quick else ["a9a", "20newsgroups"]

    def cost_sets(self) -> list[str]:
        return self.selected(["a9a"] if self.is_quick else ["wiki_toxicity", "a9a"])

    def load(self, name: str, part: str = "train") -> Rows:
        """A data set, from memory if it was loaded before."""
        key = (self.folder, self.is_quick, name, part)
        if key not in _LOADED:
            X, y = LOADERS[name](self.folder, part)
            y = np.unique(y, return_inverse=True)[1]
            _LOADED[key] = _cut(Rows(name, X, y)) if self.is_quick else Rows(name, X, y)
        return _LOADED[key]


def spread(n: int, few: int) -> np.ndarray:
    """Numbers of a few of n rows, evenly spaced: some files are sorted by class."""
    return np.unique(np.linspace(0, n - 1, min(n, few)).astype(np.int64))


def _cut(rows: Rows) -> Rows:
    kept = np.flatnonzero(rows.y < 10)
    kept = kept[spread(len(kept), 2000)]
    return Rows(rows.name, rows.X[kept], np.unique(rows.y[kept], return_inverse=True)[1])


def _pixels(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.mnist(folder, "train" if part == "train" else "t10k")
    return (X / 255.0).astype(np.float32), y


_LOADED: dict[tuple[Path, bool, str, str], Rows] = {}

LOADERS: dict[str, Callable[[Path, str], tuple[Any, np.ndarray]]] = {
    "20newsgroups": datasets.newsgroups,
    "reuters": datasets.reuters,
    "clinc150": lambda folder, part: datasets.intents(folder, "clinc150", part),
    "banking77": lambda folder, part: datasets.intents(folder, "banking77", part),
    "wiki_toxicity": datasets.toxicity,
    "a9a": lambda folder, part: datasets.svmlight(folder, "a9a", part),
    "w8a": lambda folder, part: datasets.svmlight(folder, "w8a", part),
    "MNIST": _pixels,
    "kddcup99": lambda folder, part: datasets.kddcup(folder),
}
