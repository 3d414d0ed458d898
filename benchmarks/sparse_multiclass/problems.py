"""Data and strengths of the penalty."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.liblinear import problems
from benchmarks.liblinear.problems import Rows

LIGHTNING_SETS = ("20newsgroups", "MNIST", "reuters")

STRONG, MEDIUM, WEAK = 1e-3, 1e-4, 1e-5


class Table(NamedTuple):
    """One table of the result: its name in the file, its title, and its rows."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Plan(problems.Plan):
    """How much is run: on which data, how long, and with whose interpreters."""

    lightning: str | None = None
    adelie: str | None = None
    limit: float | None = None
    n_splits: int = 3
    n_rows: int | None = None

    @property
    def max_time(self) -> float:
        """Seconds of one fit of lineal at most."""
        return self.limit or super().max_time

    @property
    def seconds(self) -> float:
        """Of one run of the figures at most."""
        return self.limit or (10.0 if self.is_quick else 60.0)

    def small(self, names: Iterable[str]) -> list[str]:
        """Those sets, or with --quick two small ones; of them the ones that match."""
        return self.selected(["banking77", "MNIST"] if self.is_quick else names)

    def lightning_sets(self) -> list[str]:
        return self.small(LIGHTNING_SETS)

    def figure_sets(self) -> list[str]:
        return self.small(("MNIST", "20newsgroups", "reuters", "clinc150"))

    def text_sets(self) -> list[str]:
        """Where most rows of W are zero."""
        return self.selected(["banking77"] if self.is_quick else ["20newsgroups", "reuters", "clinc150"])

    def weak_sets(self) -> list[str]:
        return self.selected(["banking77"] if self.is_quick else ["20newsgroups"])

    def in_float64(self, name: str) -> Rows:
        """A set in float64; with `n_rows` that many of its rows at most, at random, and said so in its name."""
        rows = self.load(name)
        X, y = rows.as_type(np.float64), rows.y
        if self.n_rows is None or self.n_rows >= len(y):
            return Rows(name, X, y)
        some = np.sort(np.random.default_rng(0).permutation(len(y))[: self.n_rows])
        return Rows(f"{name}, {self.n_rows} rows", X[some], y[some])


def splits(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to train on and of a fifth of every class to test on, in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    ranks = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = order[y[order] == label]
        ranks[members] = np.arange(len(members)) * 5 // max(len(members), 5)
    return order[ranks[order] < 4], order[ranks[order] == 4]


def part_of(rows: Rows, numbers: np.ndarray) -> Rows:
    """Some rows of a data set; every class must be among them."""
    return Rows(rows.name, rows.X[numbers], rows.y[numbers])
