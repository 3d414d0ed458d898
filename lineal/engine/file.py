"""Engine for converted files that can be larger than memory.

Every pass reads the files block by block into memory that is used again. Each thread reads a block of sparse rows and
runs the step on it, while the others do the same with other blocks; for dense rows, whose products share all threads,
another thread reads a block ahead. Nothing is mapped: the pages of the files are the system's to keep or to drop, and a
file that another process changes ends in an error. Targets and row state stay in memory up to the budget, and go to a
temporary file beyond it.

The sizes of blocks and shards depend on the files, the number of score columns and the budget that was given. They do
not depend on the number of threads or on what the process takes at the moment: other blocks would give sums with other
bits, and the same fit in another process would not give the same model.

Memory: three blocks of X, a few arrays of the scores of one block, 12 bytes per row for targets and weights where the
budget allows, and row state up to the rest. One half of what blocks leave is for the parameters of the solver. The
budget is for the whole process, without pages of files.
"""

from __future__ import annotations

import bisect
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lineal.core import threads as pool
from lineal.data.ahead import ahead
from lineal.data.binary.checks import check_sparse
from lineal.data.binary.file import Room
from lineal.data.binary.layout import explained
from lineal.data.source import changed
from lineal.design import Design
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.engine.base import Block
from lineal.engine.converted import ConvertedFiles
from lineal.engine.file_sizes import planned_bytes, too_small
from lineal.engine.local import SCORE_BYTES, rows_per_block
from lineal.engine.scratch import Scratch, ScratchCache
from lineal.engine.source import Encode, Labelled, RawRows
from lineal.engine.state import States, commit
from lineal.engine.streamed import Span, Streamed
from lineal.engine.tree import Summands, TreeSum
from lineal.errors import DataError
from lineal.system import memory

if TYPE_CHECKING:
    from lineal.engine.file_shards import FileShards

T = TypeVar("T")

#: Most bytes of X that are read at once.
BLOCK_BYTES = 32 << 20

#: A sum over all rows has smaller blocks: so many of them, at most and at least, have the room of three largest ones.
#: Threads work on them side by side, and what is read stays in the CPU cache until it is used.
MOST_AT_ONCE, LEAST_AT_ONCE = 12, 4

#: A block has at least so many times the bytes of a gradient, because each block adds one to the sum.
GRADIENTS_PER_BLOCK = 8

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


class FileSource(ConvertedFiles):
    """Converted files as a source of rows (see `lineal.engine.source.Source`).

    `memory_budget` is the number of bytes that this process may use; None means half of what is available. `left` is
    how many of them a fit can use, and `planned` the number that sizes of blocks are made for (`file_sizes.py`).
    """

    is_finite = True  # it was checked when the files were written

    def __init__(self, paths: Sequence[str], memory_budget: int | None = None) -> None:
        super().__init__(paths)
        self.left = _left(memory_budget)
        self.planned = planned_bytes(memory_budget, self.left)

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

    def block_bytes(self, planned: int | None = None) -> int:
        """Largest number of bytes of X in a block."""
        planned = self.planned if planned is None else planned
        row = 0 if self.files[0].is_sparse else self.files[0].d * self.files[0].values.dtype.itemsize
        return max(row, LEAST_BLOCK, min(BLOCK_BYTES, planned // BLOCKS_PER_BUDGET))

    def engine(self, encode: Encode, n_columns: int, threads: int) -> FileEngine:
        """The rows with their targets, for solvers."""
        needed = self.block_memory(n_columns)
        if needed > self.left:
            parameters = 2 * LEAST_ARRAYS * 8 * self.files[0].d * n_columns
            raise too_small(
                "blocks of rows", lambda planned: self.block_memory(n_columns, planned) + parameters, self.left
            )
        load, spans, at_once = self._blocks(n_columns)
        room = (self.left - needed) // 2
        labels = LABEL_BYTES * self.n_rows if self.keeps_labels else 0
        cache = ScratchCache(Scratch(room - labels))
        return FileEngine(self, encode, spans, n_columns, threads, cache, room, load, at_once)

    def _blocks(self, n_columns: int) -> tuple[Load, tuple[Span, ...], int]:
        """The largest load, the blocks of sums, and how many of these have room for threads of their own at once."""
        file, largest = self.files[0], self.block_bytes()
        most = rows_per_block(file.d, file.values.dtype.itemsize, not file.is_sparse, n_columns)
        rows = max(1, min(most, self.score_bytes(n_columns) // (8 * n_columns)))
        size = max(3 * largest // MOST_AT_ONCE, GRADIENTS_PER_BLOCK * 8 * file.d * n_columns)
        size = max(1, min(size, 3 * largest // LEAST_AT_ONCE))
        spans = tuple(self.spans(size, max(1, rows // LEAST_AT_ONCE) if file.is_sparse else rows))
        # All blocks at once have the room of three of the largest, and of the scores of one.
        at_once = max(1, min(3 * largest // size, rows // max((span.n for span in spans), default=1)))
        return Load(largest, rows), spans, at_once

    def score_bytes(self, n_columns: int, planned: int | None = None) -> int:
        """Largest number of bytes of an array of the scores of a block."""
        planned = self.planned if planned is None else planned
        return max(8 * n_columns, min(SCORE_BYTES, planned // SCORES_PER_BUDGET))

    def block_memory(self, n_columns: int, planned: int | None = None) -> int:
        """Number of bytes for blocks of rows and their scores."""
        return 3 * self.block_bytes(planned) + SCORE_ARRAYS * self.score_bytes(n_columns, planned)

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


class Load(NamedTuple):
    """Most bytes of X, and most rows, that are in memory at once for a method that visits rows in random order."""

    nbytes: int
    rows: int


@dataclass(frozen=True, eq=False)
class FileEngine(Streamed):
    """Engine whose rows are read from files for every pass.

    Attributes
    ----------
    source : the files.
    encode : turns labels into targets.
    spans : the rows of each block.
    cache : row state.
    parameter_bytes : number of bytes that a solver may use for its parameters.
    load : how much `visit` reads at once.
    at_once : number of blocks that there is room for at once, where threads have blocks of their own.
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
    load: Load
    at_once: int
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

    def shards(self, count: int | None = None, seed: int = 0) -> FileShards:
        """The same rows in shards of runs from random places, as few as the memory budget allows by default."""
        from lineal.engine.file_shards import FileShards

        return FileShards.of(self, count, seed)

    def runs(self, per_block: int) -> list[Span]:
        """All rows in order, cut into runs, of which at least `per_block` fit into a block if its rows are small."""
        size, most = self.load.nbytes // per_block, max(1, self.load.rows // per_block)
        runs = []
        for span in self.spans:
            start = span.start
            while start < span.stop:
                with explained(self.source.paths[span.file]):
                    end = self.source.files[span.file].block_end(start, size)
                stop = min(end, start + most, span.stop)
                runs.append(Span(span.file, start, stop, span.first + start - span.start))
                start = stop
        return runs

    def loads(self, runs: Iterable[Span]) -> list[list[Span]]:
        """Runs in the given order, put together into as few loads as the memory of one block allows."""
        loads: list[list[Span]] = []
        left_bytes = left_rows = 0
        for run in runs:
            size = self.source.span_bytes(run)
            if size > left_bytes or run.n > left_rows:
                loads.append([])
                left_bytes, left_rows = self.load
            loads[-1].append(run)
            left_bytes, left_rows = left_bytes - size, left_rows - run.n
        return loads

    def visit(self, loads: Iterable[Sequence[Span]], prepare: Callable[[Block], T]) -> Iterator[T]:
        """What `prepare` makes of the block of each load, on the thread that reads ahead; valid until the next one."""
        return ahead(map(prepare, self._read(loads)), depth=1)

    def blocks(self, at_least: int = 1) -> Iterator[Block]:
        """All blocks in order; each one is valid until the next one is requested."""
        spans = self.spans if at_least <= 1 else self._larger(at_least)
        return ahead(self._read([span] for span in spans), depth=1)

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Sum of step(block, *pieces of the states, *arguments) over all blocks (see `TreeSum`)."""
        if not self._is_side_by_side or rows > 1:
            return super().sum(step, *arguments, states=states, rows=rows)
        tree, lock = TreeSum(), threading.Lock()

        def take(number: int, summands: Summands) -> None:
            with lock:
                tree.add(number, summands)

        self._run_side_by_side(step, arguments, states, take)
        return tree.total(len(self.spans))

    def _results(self, step: Any, arguments: tuple[Any, ...], states: States) -> Iterator[Any]:
        if not self._is_side_by_side:
            yield from super()._results(step, arguments, states)
            return
        results: dict[int, Any] = {}
        self._run_side_by_side(step, arguments, states, results.__setitem__)
        yield from (results[number] for number in range(len(self.spans)))

    @property
    def _is_side_by_side(self) -> bool:
        """Whether threads run steps on blocks of their own, instead of sharing the work on one block."""
        return self.threads > 1 and not self.is_dense

    def _run_side_by_side(
        self, step: Any, arguments: tuple[Any, ...], states: States, take: Callable[[int, Any], None]
    ) -> None:
        """Run a step on all blocks; `take` is called with the number of a block and the result, in any order."""
        uses = [entry.use() for entry in states]
        threads = min(self.threads, self.at_once)
        numbers = iter(range(len(self.spans)))  # its next() is atomic: every block is taken once

        def work() -> None:
            room = Room()
            for number in numbers:
                if number + threads < len(self.spans):
                    self.source.will_need(self.spans[number + threads])
                block = self._block([self.spans[number]], room, threads=1)
                block_uses = [use.for_rows(block.first, block.n) for use in uses]
                take(number, self.cache.run(step, number, block, block_uses, arguments))

        pool.run([work] * threads, threads)
        commit(states)

    def _larger(self, at_least: int) -> tuple[Span, ...]:
        """Blocks of at least that many rows, as far as the budget allows and files are long enough."""
        bytes_per_row = self.source.nbytes / max(self.shape[0], 1)
        rows = min(at_least, int(self.source.planned / BLOCKS_PER_BUDGET / max(bytes_per_row, 1.0)))
        if all(span.n >= rows for span in self.spans):
            return self.spans
        joined: list[Span] = []
        for span in self.spans:
            if joined and joined[-1].file == span.file and joined[-1].n < rows:
                joined[-1] = joined[-1]._replace(stop=span.stop)
            else:
                joined.append(span)
        return tuple(joined)

    def _read(self, loads: Iterable[Sequence[Span]]) -> Iterator[Block]:
        # One block is in use, one waits and one is being read: its memory was that of the block before those.
        rooms = [Room() for _ in range(3)]
        for number, load in enumerate(loads):
            yield self._block(load, rooms[number % len(rooms)], self.threads)

    def _block(self, load: Sequence[Span], room: Room, threads: int) -> Block:
        """The rows of some runs; the features are in `room`."""
        parts = [self._labelled(run) for run in load]
        X = self._design(load, room)  # also checks that the files are still the same
        if self.change is not None:
            X = self.change(X)
        first, *others = parts
        targets, weights, offsets = first
        if others:
            targets = targets.joined([part.targets for part in others])
            weights = np.concatenate([part.weights for part in parts])
            offsets = None if offsets is None else np.concatenate([part.offsets for part in parts])
        return Block(X, targets, weights, offsets, threads, load[0].first)

    def _design(self, load: Sequence[Span], room: Room) -> Design:
        """Features of some rows; indices were checked by the survey, and are compared with the width again."""
        X, d = self.source.matrix(load, room), self.shape[1]
        if self.is_dense:
            return Design(Dense(X), X.shape, X.dtype)
        unsigned = X.indices.view(np.uint32 if X.indices.itemsize == 4 else np.uint64)
        if unsigned.max(initial=0) >= d or (X.indptr[1:] < X.indptr[:-1]).any():
            raise changed(self.source.paths[load[0].file])
        return Design(CSR(X.data, X.indices, X.indptr, d), X.shape, X.dtype)

    def _labelled(self, run: Span) -> Labelled:
        """Targets and weights of some rows."""
        labelled = self._known_labels(run) or self._encoded(run)
        if self.weights is not None:
            return labelled._replace(weights=self.weights[run.first : run.first + run.n])
        return labelled

    def _known_labels(self, run: Span) -> Labelled | None:
        """Targets and weights that are kept, of the block that has the rows."""
        span = self.spans[bisect.bisect_right(self._firsts, run.first) - 1]
        known = self.labels.get(span)
        if known is None or run == span:
            return known
        start, stop = run.first - span.first, run.first - span.first + run.n
        if stop > span.n:
            return None
        offsets = None if known.offsets is None else known.offsets[start:stop]
        return Labelled(known.targets.rows(start, stop), known.weights[start:stop], offsets)

    def _encoded(self, run: Span) -> Labelled:
        """Targets and weights, from the labels in the file; kept for whole blocks if there is room."""
        path, data = self.source.paths[run.file], self.source.labels(run)
        check_sparse(data, path)
        try:
            labelled = self.encode(RawRows(None, data.y, data.weights, None, run.first))
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        if self.source.keeps_labels and run in self._own_spans:
            self.labels[run] = labelled
        return labelled

    @functools.cached_property
    def _firsts(self) -> list[int]:
        return [span.first for span in self.spans]

    @functools.cached_property
    def _own_spans(self) -> frozenset[Span]:
        return frozenset(self.spans)
