"""The rows of one of several learners: some rows of arrays, a part of files, or partitions of a Dask collection.

Each learner gets consecutive rows, and all get about as many. Nothing is copied: arrays are shared, files are read by
the learner that needs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lineal.data.options import ReadOptions
from lineal.data.parts import Part, runs_of
from lineal.data.schema import Schema
from lineal.data.source import changed, size_and_time
from lineal.data.stream import count_rows, stream
from lineal.design.matrix import summed
from lineal.engine.source import RawRows
from lineal.errors import DataError
from lineal.online.fit import array_blocks
from lineal.online.shuffled import Shuffle, check_rows, through_buffer
from lineal.online.trainer import SETS, Block
from lineal.problem.labels import check_present, label_sets


@dataclass
class ArrayRows:
    """Rows start … stop − 1 of arrays; in random order, as many of the rows `drawn`, or of the same ones."""

    X: Any
    y: Any
    weights: Any
    column_kinds: Any
    start: int
    stop: int
    bad_lines: int = 0
    drawn: np.ndarray | None = None

    def count(self) -> int | None:
        """Number of rows."""
        return self.stop - self.start

    def blocks(self) -> Iterator[Block]:
        """The rows, in order."""
        return array_blocks(self.X, self.y, self.weights, self.column_kinds, self.start, self.stop)

    def shuffled(self, how: Shuffle) -> Iterator[Block]:
        """The rows in random order. Memory: 8 or 16 bytes per row, and a block."""
        rows = how.permutation(self.stop - self.start)
        if self.drawn is None:
            self.check(how.kind)
            rows += self.start
        else:
            rows = self.drawn[rows]
        return array_blocks(self.X, self.y, self.weights, self.column_kinds, order=rows)

    def check(self, kind: str) -> None:
        """Refuse rows that a learner would refuse, by their numbers in the arrays."""
        first = self.start
        for block in self.blocks():
            check_rows(block, first, kind)
            first += len(block)


def array_rows(
    X: Any, y: Any, weights: Any, column_kinds: Any, n_learners: int, how: Shuffle | None = None
) -> list[ArrayRows]:
    """The rows of every learner: consecutive ones, or drawn at random, the same ones in every pass."""
    n = X.shape[0]
    if n < n_learners:
        raise DataError(f"learners={n_learners} are more than the {n} rows: use at most {n}")
    X = summed(X) if sparse.issparse(X) else X
    bounds = [n * number // n_learners for number in range(n_learners + 1)]
    order = None
    if how is not None:
        ArrayRows(X, y, weights, column_kinds, 0, n).check(how.kind)
        order = how.permutation(n)
    return [
        ArrayRows(X, y, weights, column_kinds, start, stop, drawn=None if order is None else order[start:stop])
        for start, stop in itertools.pairwise(bounds)
    ]


@dataclass
class FileRows:
    """A part of files, read as a stream.

    states : sizes of the files and times of their last changes: all learners must see the same files in all passes.
    has_epochs : whether epochs of the learner depend on the number of rows, so that lines are worth counting.
    The others are those of `lineal.data.stream.stream`.
    """

    path: list[str]
    states: list[tuple[int, int]]
    reading: ReadOptions
    schema: Schema | None
    namespaces: list[str]
    merge: bool
    class_names: list[Any] | None
    part: Part
    has_epochs: bool
    bad_lines: int = 0
    start: None = None

    def count(self) -> int | None:
        """Number of rows, if it is needed and can be found without parsing them."""
        if not self.has_epochs or self.schema is None:
            return None
        return count_rows(self.path, self.reading.format, self.schema, self.part)

    def blocks(self) -> Iterator[Block]:
        """The rows, in order."""
        self.bad_lines = 0
        for path, state in zip(self.path, self.states, strict=True):
            if size_and_time(path) != state:
                raise changed(path)
        blocks = stream(
            self.path, self.reading, self.schema, namespaces=self.namespaces, merge=self.merge,
            class_names=self.class_names, part=self.part,
        )  # fmt: skip
        with closing(blocks):  # type: ignore[type-var]
            for data in blocks:
                self.bad_lines += data.bad_lines
                yield Block(data.X, data.y, data.weights, data.kinds)

    def shuffled(self, how: Shuffle) -> Iterator[Block]:
        """The rows in random order, through a buffer."""
        return through_buffer(self.blocks(), how)


@dataclass
class PartitionRows:
    """Partitions of a Dask collection; they arrive on the worker that has this learner."""

    kind: str
    column_kinds: Any
    parts: tuple[RawRows, ...] = ()
    bad_lines: int = 0
    start: None = None

    def count(self) -> int | None:
        """Number of rows."""
        return sum(part.X.shape[0] for part in self.parts)

    def blocks(self) -> Iterator[Block]:
        """The rows, in order."""
        if any(part.offsets is not None for part in self.parts):
            raise DataError(
                "the blocks are tuples (X, y, weights, offsets), and online learners have no offsets: leave them out"
            )
        for part in self.parts:
            check_present(part.y)
            y = label_sets(part.y) if self.kind == SETS else np.asarray(part.y)
            yield from array_blocks(part.X, y, part.weights, self.column_kinds)

    def shuffled(self, how: Shuffle) -> Iterator[Block]:
        """The rows in random order, through a buffer."""
        return through_buffer(self.blocks(), how)


def partitions_of(sizes: Sequence[int], n_learners: int) -> list[range]:
    """Which partitions every learner has; `sizes` are their numbers of rows."""
    if len(sizes) < n_learners:
        raise DataError(
            f"learners={n_learners} are more than the {len(sizes)} partitions: cut X into more of them (rechunk, "
            "repartition), or use fewer learners"
        )
    return runs_of(sizes, n_learners)
