"""Engine for converted files that can be larger than memory.

Every pass reads the files block by block, a block ahead on another thread, into memory that is used again. Nothing is
mapped: the pages of the files are the system's to keep or to drop, and a file that another process changes ends in an
error. Targets and row state stay in memory up to the budget, and go to a temporary file beyond it.

Memory: three blocks of X, a few arrays of the scores of one block, 12 bytes per row for targets and weights where the
budget allows, and row state up to the rest. One half of what blocks leave is for the parameters of the solver. The
budget is for the whole process, without pages of files.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lineal.data.ahead import ahead
from lineal.data.binary.checks import check_sparse
from lineal.data.binary.file import LayoutFile, Room
from lineal.data.binary.layout import explained
from lineal.data.dataset import Dataset
from lineal.data.source import Unchanged
from lineal.design import Design
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.engine.base import Block
from lineal.engine.in_process import InProcess
from lineal.engine.local import SCORE_BYTES, rows_per_block
from lineal.engine.scratch import Scratch, ScratchCache
from lineal.engine.source import Encode, Labelled, RawRows
from lineal.errors import DataError
from lineal.system import memory

T = TypeVar("T")

#: Bytes of X in a block, if the budget allows: large enough that reading is efficient.
BLOCK_BYTES = 32 << 20

#: Part of the budget that one block of X may take; there are three of them.
BLOCKS_PER_BUDGET = 16

#: Part of the budget that the scores of a block may take; a step has at most so many arrays of that size.
SCORES_PER_BUDGET, SCORE_ARRAYS = 32, 8

#: Smallest number of bytes of X in a block that is worth reading.
LEAST_BLOCK = 1 << 20

#: Least number of arrays of parameters, in float64, with which a solver works.
LEAST_ARRAYS = 8

#: Bytes per row of targets and weights, for one label per row.
LABEL_BYTES = 12


class Span(NamedTuple):
    """Consecutive rows of one file; `first` is the number of the first one among all rows."""

    file: int
    start: int
    stop: int
    first: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.stop - self.start


class FileSource:
    """Converted files as a source of rows (see `lineal.engine.source.Source`).

    `memory_budget` is the number of bytes that this process may use; None means half of what is available.
    """

    is_finite = True  # it was checked when the files were written

    def __init__(self, paths: Sequence[str], memory_budget: int | None = None) -> None:
        self.paths = list(paths)
        if not self.paths:
            raise DataError("there are no files to train on")
        self.left = _left(memory_budget)
        self.files, self.watches = [], []
        for path in self.paths:
            self.watches.append(Unchanged([path]))
            with explained(path):
                self.files.append(LayoutFile(path, mapped=False))
        first = self.files[0]
        for file in self.files[1:]:
            for what in ("d", "is_sparse", "feature_names", "class_names"):
                if getattr(file, what) != getattr(first, what):
                    shown = {"d": "number of columns", "is_sparse": "layout (sparse or dense)"}.get(what, what)
                    values = f" ({file.d} and {first.d})" if what == "d" else ""
                    raise DataError(f"{file.path} and {first.path} differ in their {shown}{values}: convert them alike")
            if (file.weight is None) != (first.weight is None) or (file.label is None) != (first.label is None):
                raise DataError(f"only one of {file.path} and {first.path} has labels or weights: convert them alike")

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X, if they have any."""
        return self.files[0].feature_names

    @property
    def class_names(self) -> list[Any] | None:
        """Names of the columns of an indicator matrix, if they have any."""
        return self.files[0].class_names

    @property
    def schema(self) -> Any:
        """How columns were made."""
        return self.files[0].schema

    @property
    def nbytes(self) -> int:
        """Number of bytes of X in all files."""
        return sum(_entry_bytes(file) for file in self.files)

    def survey(self, step: Callable[[RawRows], T]) -> list[tuple[str, T]]:
        """Results of a step on every block; checks row offsets and column indices, which kernels trust."""
        return list(ahead(self._surveyed(step), depth=1))

    def _surveyed(self, step: Callable[[RawRows], T]) -> Iterator[tuple[str, T]]:
        room = Room()
        for span in self.spans(self.block_bytes()):
            path, data = self.paths[span.file], self.read(span, room)
            check_sparse(data, path, ascending=True)
            with explained(path):
                self.files[span.file].check_twins(span.start, span.stop + 1)
            try:
                yield path, step(RawRows(data.X, data.y, data.weights, None, span.first))
            except DataError as error:
                raise DataError(f"{path}: {error}") from None

    def block_bytes(self, left: int | None = None) -> int:
        """Number of bytes of X in a block, where so many bytes are left for the fit."""
        left = self.left if left is None else left
        row = 0 if self.files[0].is_sparse else self.files[0].d * self.files[0].values.dtype.itemsize
        return max(row, LEAST_BLOCK, min(BLOCK_BYTES, left // BLOCKS_PER_BUDGET))

    def spans(self, block_bytes: int, most_rows: int = 1 << 62) -> Iterator[Span]:
        """Blocks of at most that many bytes of X and rows, but at least one row."""
        first = 0
        for number, file in enumerate(self.files):
            start = 0
            while start < file.n:
                with explained(file.path):
                    stop = min(file.block_end(start, block_bytes), start + most_rows)
                yield Span(number, start, stop, first)
                first, start = first + stop - start, stop

    def read(self, span: Span, room: Room) -> Dataset:
        """Features and labels of some rows; the features are in `room`."""
        return replace(self.labels(span), X=self.matrix(span, room))

    def matrix(self, span: Span, room: Room) -> Any:
        """Features of some rows, read into `room`; an error if the file has changed since it was opened."""
        with explained(self.paths[span.file]):
            X = self.files[span.file].matrix(span.start, span.stop, room)
        self.watches[span.file].check()
        return X

    def labels(self, span: Span) -> Dataset:
        """Labels and weights of some rows."""
        with explained(self.paths[span.file]):
            return self.files[span.file].labels(span.start, span.stop)

    def engine(self, encode: Encode, n_columns: int, threads: int) -> FileEngine:
        """The rows with their targets, for solvers."""
        file, needed = self.files[0], self.block_memory(n_columns)
        if needed > self.left:
            own = memory.own_memory() or 0
            least = next(left for left in itertools.count(LEAST_BLOCK, LEAST_BLOCK) if self._is_enough(left, n_columns))
            raise DataError(
                f"memory_budget is too small: blocks of rows need {memory.size(least)}, and "
                f"{memory.size(max(self.left, 0))} are left besides the {memory.size(own)} that this process takes "
                f"without them; use at least {-(-(least + own) // 10**6)}MB"
            )
        most = rows_per_block(file.d, file.values.dtype.itemsize, not file.is_sparse, n_columns)
        spans = tuple(self.spans(self.block_bytes(), max(1, min(most, self.score_bytes(n_columns) // (8 * n_columns)))))
        room = (self.left - needed) // 2
        labels = LABEL_BYTES * self.n_rows if self.keeps_labels else 0
        return FileEngine(self, encode, spans, n_columns, threads, ScratchCache(Scratch(room - labels)), room)

    def _is_enough(self, left: int, n_columns: int) -> bool:
        """Whether blocks, and the least that a solver needs for parameters, fit into so many bytes."""
        needed = self.block_memory(n_columns, left)
        return needed + 2 * LEAST_ARRAYS * 8 * self.files[0].d * n_columns <= left

    def score_bytes(self, n_columns: int, left: int | None = None) -> int:
        """Largest number of bytes of an array of the scores of a block."""
        left = self.left if left is None else left
        return max(8 * n_columns, min(SCORE_BYTES, left // SCORES_PER_BUDGET))

    def block_memory(self, n_columns: int, left: int | None = None) -> int:
        """Number of bytes for blocks of rows and their scores, of those that are left."""
        return 3 * self.block_bytes(left) + SCORE_ARRAYS * self.score_bytes(n_columns, left)

    @property
    def n_rows(self) -> int:
        """Number of rows of all files."""
        return sum(file.n for file in self.files)

    @property
    def keeps_labels(self) -> bool:
        """Whether targets and weights fit in the budget; otherwise labels are read and encoded for every pass."""
        return 4 * LABEL_BYTES * self.n_rows <= self.left


def _left(memory_budget: int | None) -> int:
    """Number of bytes that a fit can use."""
    if memory_budget is None:
        available = memory.available_memory()
        return 1 << 62 if available is None else available // 2
    return memory_budget - (memory.own_memory() or 0)


def _entry_bytes(file: LayoutFile) -> int:
    size = len(file.values) * file.values.dtype.itemsize
    if file.indices is not None and file.offsets is not None:
        size += len(file.indices) * file.indices.dtype.itemsize + len(file.offsets) * file.offsets.dtype.itemsize
    return size


@dataclass(frozen=True, eq=False)
class FileEngine(InProcess):
    """Engine whose rows are read from files for every pass.

    Attributes
    ----------
    source : the files.
    encode : turns labels into targets.
    spans : the rows of each block.
    cache : row state.
    parameter_bytes : number of bytes that a solver may use for its parameters.
    weights : (n,) weights that replace those of the files, or None.
    change : function that changes the features of every block, or None.
    labels : targets and weights by block, where they are kept.
    """

    source: FileSource
    encode: Encode
    spans: tuple[Span, ...]
    n_columns: int
    threads: int
    cache: ScratchCache
    parameter_bytes: int
    weights: np.ndarray | None = None
    change: Callable[[Design], Design] | None = None
    labels: dict[Span, Labelled] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X."""
        return self.source.n_rows, self.source.files[0].d

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of X."""
        return self.source.files[0].values.dtype

    @property
    def is_dense(self) -> bool:
        """Whether X is stored with its zeros."""
        return not self.source.files[0].is_sparse

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        return sum(len(file.values) for file in self.source.files)

    @property
    def room(self) -> int:
        """Number of bytes that a solver may use besides rows."""
        return self.parameter_bytes

    @property
    def largest_block(self) -> int:
        """No rows: the state of a block is part of what blocks take, and further state can go to a temporary file."""
        return 0

    def with_threads(self, threads: int) -> FileEngine:
        """An engine with the same rows and this many threads per block."""
        return self if threads == self.threads else replace(self, threads=threads)

    def with_weights(self, weights: np.ndarray) -> FileEngine:
        """An engine with the same rows and other weights, (n,), which add up to one."""
        return replace(self, weights=weights)

    def with_features(self, change: Callable[[Design], Design]) -> FileEngine:
        """An engine with the same rows in other coordinates: every block is changed when it has been read."""
        return replace(self, change=change)

    def blocks(self, at_least: int = 1) -> Iterator[Block]:
        """All blocks in order; each one is valid until the next one is requested."""
        spans = self.spans if at_least <= 1 else self._larger(at_least)
        return ahead(self._read(spans), depth=1)

    def _larger(self, at_least: int) -> tuple[Span, ...]:
        """Blocks of at least that many rows, as far as the budget allows and files are long enough."""
        bytes_per_row = self.source.nbytes / max(self.shape[0], 1)
        rows = min(at_least, int(self.source.left / BLOCKS_PER_BUDGET / max(bytes_per_row, 1.0)))
        if all(span.n >= rows for span in self.spans):
            return self.spans
        joined: list[Span] = []
        for span in self.spans:
            if joined and joined[-1].file == span.file and joined[-1].n < rows:
                joined[-1] = joined[-1]._replace(stop=span.stop)
            else:
                joined.append(span)
        return tuple(joined)

    def _read(self, spans: Sequence[Span]) -> Iterator[Block]:
        # One block is in use, one waits and one is being read: its memory was that of the block before those.
        rooms = [Room() for _ in range(3)]
        for number, span in enumerate(spans):
            labelled = self._labelled(span)
            X = self._design(span, rooms[number % len(rooms)])  # also checks that the file is still the same
            if self.change is not None:
                X = self.change(X)
            weights = labelled.weights if self.weights is None else self.weights[span.first : span.first + span.n]
            yield Block(X, labelled.targets, weights, labelled.offsets, self.threads, span.first)

    def _design(self, span: Span, room: Room) -> Design:
        """Features of some rows; indices were checked by the survey, and are compared with the width again."""
        X, d = self.source.matrix(span, room), self.shape[1]
        if self.is_dense:
            return Design(Dense(X), X.shape, X.dtype)
        unsigned = X.indices.view(np.uint32 if X.indices.itemsize == 4 else np.uint64)
        if unsigned.max(initial=0) >= d or (X.indptr[1:] < X.indptr[:-1]).any():
            raise DataError(f"{self.source.paths[span.file]} changed while it was read")
        return Design(CSR(X.data, X.indices, X.indptr, d), X.shape, X.dtype)

    def _labelled(self, span: Span) -> Labelled:
        """Targets and weights of some rows."""
        if span in self.labels:
            return self.labels[span]
        path, data = self.source.paths[span.file], self.source.labels(span)
        check_sparse(data, path)
        try:
            labelled = self.encode(RawRows(None, data.y, data.weights, None, span.first))
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        if self.source.keeps_labels and span in self._own_spans:
            self.labels[span] = labelled
        return labelled

    @functools.cached_property
    def _own_spans(self) -> frozenset[Span]:
        return frozenset(self.spans)
