"""From text files to arrays: kernels parse chunks on threads, straight into slices of the final arrays.

The separators of a group of chunks are counted first, for an upper bound of what it holds. Then the chunks are parsed
into one allocation, and moved together if the bound was loose. A plain file is one group whatever its size: its text
is read twice, for counting and for parsing, into buffers that stay small. A compressed file is parsed in several
groups, so that its text is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads
from lineal.data.chunks import Chunk, Position, line_chunks
from lineal.data.label_numbers import join_labels
from lineal.data.options import ReadOptions
from lineal.data.parts import Piece, whole_files
from lineal.data.source import changed, display_name
from lineal.data.text.lines import DOUBLES, SIGNED, UNSIGNED, Found, Rows
from lineal.errors import DataError, OptionError, unknown_value

#: Bytes of text that one kernel call parses at most. Fixed, so that results do not depend on the number of threads.
CHUNK_BYTES = 4 << 20

#: From this many entries on, index arrays are int64 (SciPy needs indptr and indices of one type).
INT32_ENTRIES = 2**31

#: The types of labels, by how a kernel stores them.
LABEL_TYPES = {DOUBLES: np.float64, SIGNED: np.int64, UNSIGNED: np.uint64}


@dataclass(frozen=True)
class Parser:
    """How text of one format is parsed.

    Attributes
    ----------
    kernel : parses a chunk, ``(data, Rows, bad, limits) -> Found``.
    bounds : gives upper bounds (rows, entries, labels) of a chunk.
    extra_dtype : type of the number that a line may carry beside its labels.
    limits : a NamedTuple with the settings of the kernel.
    expected : for each error code of the kernel, what should have been there.
    max_names : number of distinct namespaces that the kernel reports per chunk.
    has_kinds : whether the kernel notes the namespace of every entry.
    """

    kernel: Callable[..., Found]
    bounds: Callable[[np.ndarray], tuple[int, int, int]]
    extra_dtype: type
    limits: Any
    expected: dict[int, str]
    options: ReadOptions
    max_names: int = 0
    has_kinds: bool = False

    def __post_init__(self) -> None:
        if self.options.dtype not in ("float32", "float64"):
            raise unknown_value("dtype", self.options.dtype, ("float32", "float64"))
        if self.options.max_bad_lines < 0:
            raise OptionError(f"max_bad_lines={self.options.max_bad_lines} must not be negative")
        if self.options.block_bytes < 1:
            raise OptionError(f"block_bytes={self.options.block_bytes} must be positive")


@dataclass(frozen=True)
class Facts:
    """What is known about some text beside its arrays. Indices are as written in the file."""

    rows: int
    lowest_index: int
    highest_index: int
    most_labels: int
    bad: int
    unlabelled: int
    first_unlabelled: Position | None
    with_extra: int
    first_without_extra: Position | None
    names: frozenset[str]

    @staticmethod
    def of(chunk: Chunk, found: Found, names: frozenset[str]) -> Facts:
        """The facts of one chunk."""

        def position(offset: int) -> Position | None:
            return None if offset < 0 else Position(chunk, offset)

        return Facts(
            found.rows, found.lowest_index, found.highest_index, found.most_labels, found.bad,
            found.unlabelled, position(found.first_unlabelled), found.with_extra, position(found.first_without_extra),
            names,
        )  # fmt: skip

    def __add__(self, later: Facts) -> Facts:
        return Facts(
            self.rows + later.rows,
            min(self.lowest_index, later.lowest_index),
            max(self.highest_index, later.highest_index),
            max(self.most_labels, later.most_labels),
            self.bad + later.bad,
            self.unlabelled + later.unlabelled,
            self.first_unlabelled or later.first_unlabelled,
            self.with_extra + later.with_extra,
            self.first_without_extra or later.first_without_extra,
            self.names | later.names,
        )


NO_FACTS = Facts(0, 2**62, -1, 0, 0, 0, None, 0, None, frozenset())


@dataclass
class Parsed:
    """The arrays of some text; `row_end` and `label_end` are indptr arrays without their leading 0.

    Labels are float64, or int64 or uint64 if different labels would be the same double.
    """

    values: np.ndarray
    indices: np.ndarray
    row_end: np.ndarray
    labels: np.ndarray
    label_end: np.ndarray
    extras: np.ndarray
    kinds: np.ndarray
    facts: Facts


def parse_all(parser: Parser, paths: list[str]) -> Parsed:
    """Parse all files as one."""
    parts: list[Parsed] = []
    bad = 0
    for group in _groups(whole_files(paths), parser.options.block_bytes, count_files=False):
        parts.append(parse_group(parser, group, bad))
        group.clear()  # frees the text before the next group is read
        bad += parts[-1].facts.bad
    if not any(part.facts.rows for part in parts):
        raise _no_examples(paths, bad)
    return _join(parts)


def parse_blocks(parser: Parser, pieces: Sequence[Piece], chunks: int = 4, needs_rows: bool = True) -> Iterator[Parsed]:
    """Parse the files in blocks of about `block_bytes` of text, each of about `chunks` chunks.

    Each block has at least one row. One more without rows may follow, for malformed lines at the end.
    With `needs_rows`, it is an error if there are no rows at all.
    """
    seen, skipped = NO_FACTS, 0
    for group in _groups(pieces, parser.options.block_bytes, True, chunks):
        block = parse_group(parser, group, seen.bad)
        group.clear()
        seen += block.facts
        skipped += block.facts.bad
        if block.facts.rows:
            block.facts, skipped = replace(block.facts, bad=skipped), 0
            yield block
        del block  # only the caller may still hold it while the next one is made
    if skipped and seen.rows:
        none = parse_group(parser, [Chunk("", np.zeros(0, np.uint8))], 0)
        none.facts = replace(none.facts, bad=skipped)
        yield none
    if not seen.rows and needs_rows:
        raise _no_examples([piece.path for piece in pieces], seen.bad)


def _groups(pieces: Sequence[Piece], group_bytes: int, count_files: bool, chunks: int = 4) -> Iterator[list[Chunk]]:
    """Groups of chunks of about `group_bytes`; with `count_files`, bytes that stay on disk count, too."""
    group: list[Chunk] = []
    size, step = 0, min(CHUNK_BYTES, max(group_bytes // chunks, 1))
    for piece in pieces:
        for chunk in line_chunks(piece.path, step, piece.start, piece.stop):
            group.append(chunk)
            size += chunk.size if count_files or chunk.is_in_memory else 0
            if size > group_bytes - step:  # chunks end with a line, somewhat before `step`
                yield group
                group, size = [], 0
    if group:
        yield group


def _no_examples(paths: list[str], bad: int) -> DataError:
    names = ", ".join(display_name(path) for path in paths[:3]) + (", …" if len(paths) > 3 else "")
    return DataError(f"{names}: no examples" + (f" ({bad} malformed lines were skipped)" if bad else ""))


def parse_group(parser: Parser, chunks: list[Chunk], bad_before: int) -> Parsed:
    """Parse chunks on threads into one set of arrays; raise an error if there are too many malformed lines."""
    jobs = threads.thread_count(parser.options.n_jobs)
    buffers = Buffers(max((chunk.size for chunk in chunks if not chunk.is_in_memory), default=0) + 1)
    bounds = threads.run([partial(_bounds, parser, chunk, buffers) for chunk in chunks], jobs)
    stops = np.cumsum(np.array(bounds, np.int64), axis=0)
    starts = stops - bounds
    rows, entries, labels = (int(total) for total in stops[-1])
    arrays = Rows(
        np.empty(entries, parser.options.dtype),
        np.empty(entries, np.int32 if entries < INT32_ENTRIES else np.int64),
        np.empty(rows, np.int64),
        np.empty(labels, np.float64),
        np.empty(rows, np.int64),
        np.empty(rows, parser.extra_dtype),
        np.zeros((len(chunks), parser.max_names, 3), np.int64),
        np.empty(entries if parser.has_kinds else 0, np.uint8),
    )
    room = parser.options.max_bad_lines - bad_before
    tasks = [
        partial(_parse_chunk, parser, chunk, _slice(arrays, number, start, stop), room, buffers)
        for number, (chunk, start, stop) in enumerate(zip(chunks, starts.tolist(), stops.tolist()))
    ]
    results = threads.run(tasks, jobs)
    for chunk, (found, bad, _) in zip(chunks, results):
        if found.is_full:
            raise changed(chunk.path)
        if len(bad) > room:
            code, offset = bad[room].tolist()
            raise Position(chunk, offset).error(parser.expected[code], parser.options.max_bad_lines)
        room -= len(bad)
    if parser.options.labels and any(found.large_labels for found, _, _ in results):
        wider = parser.limits._replace(exact=parser.limits.exact + 1)
        return parse_group(replace(parser, limits=wider), chunks, bad_before)
    facts = [Facts.of(chunk, found, names) for chunk, (found, _, names) in zip(chunks, results)]
    parsed = _compact(arrays, starts, [found for found, _, _ in results], sum(facts, NO_FACTS))
    parsed.labels = parsed.labels.view(LABEL_TYPES[parser.limits.exact])
    return parsed


class Buffers:
    """Memory for the text of chunks, which threads take and give back."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[np.ndarray] = []

    @contextmanager
    def one(self) -> Iterator[np.ndarray]:
        """A buffer that no other thread has meanwhile."""
        try:
            buffer = self._free.pop()  # threads can share a list
        except IndexError:
            buffer = np.empty(self._size, np.uint8)
        yield buffer
        self._free.append(buffer)


def _bounds(parser: Parser, chunk: Chunk, buffers: Buffers) -> tuple[int, int, int]:
    with buffers.one() as buffer:
        return parser.bounds(chunk.load(buffer))


def _slice(arrays: Rows, number: int, start: list[int], stop: list[int]) -> Rows:
    row, entry, label = (slice(first, last) for first, last in zip(start, stop))
    return Rows(
        arrays.values[entry], arrays.indices[entry], arrays.row_end[row],
        arrays.labels[label], arrays.label_end[row], arrays.extras[row], arrays.names[number], arrays.kinds[entry],
    )  # fmt: skip


def _parse_chunk(
    parser: Parser, chunk: Chunk, rows: Rows, room: int, buffers: Buffers
) -> tuple[Found, np.ndarray, frozenset[str]]:
    """Parse one chunk into `rows`: what the kernel found, the malformed lines, the names of the namespaces."""
    bad = np.empty((min(room, rows.row_end.size) + 1, 2), np.int64)
    with buffers.one() as buffer:
        data = chunk.load(buffer)
        found = Found(*parser.kernel(data, rows, bad, parser.limits))
        spans = rows.names[rows.names[:, 1] > rows.names[:, 0]][:, :2].tolist()
        texts = (data[start:stop].tobytes().decode("utf-8", "backslashreplace") for start, stop in spans)
        return found, bad[: found.bad], frozenset(texts)


def _compact(arrays: Rows, starts: np.ndarray, founds: list[Found], facts: Facts) -> Parsed:
    """Move the parsed chunks together, in place, and count row ends from the start of the group."""
    row = entry = label = 0
    for (row_start, entry_start, label_start), found in zip(starts.tolist(), founds):
        _move(arrays.values, entry_start, entry, found.entries)
        _move(arrays.indices, entry_start, entry, found.entries)
        if arrays.kinds.size:
            _move(arrays.kinds, entry_start, entry, found.entries)
        _move(arrays.labels, label_start, label, found.labels)
        for per_row in (arrays.row_end, arrays.label_end, arrays.extras):
            _move(per_row, row_start, row, found.rows)
        arrays.row_end[row : row + found.rows] += entry
        arrays.label_end[row : row + found.rows] += label
        row, entry, label = row + found.rows, entry + found.entries, label + found.labels
    return Parsed(
        arrays.values[:entry], arrays.indices[:entry], arrays.row_end[:row],
        arrays.labels[:label], arrays.label_end[:row], arrays.extras[:row], arrays.kinds[:entry], facts,
    )  # fmt: skip


def _move(array: np.ndarray, source: int, target: int, length: int) -> None:
    if source != target:
        array[target : target + length] = array[source : source + length]


def _join(parts: list[Parsed]) -> Parsed:
    """Join parsed text field by field, so that at most one field is in memory twice."""
    if len(parts) == 1:
        return parts[0]
    entries, labels = 0, 0
    for part in parts:
        part.row_end += entries
        part.label_end += labels
        entries, labels = entries + part.values.size, labels + part.labels.size
    index_type = np.int32 if entries < INT32_ENTRIES else np.int64
    joined: dict[str, np.ndarray] = {}
    joined["labels"] = join_labels([part.labels for part in parts])
    for name in ("values", "indices", "row_end", "label_end", "extras", "kinds"):
        dtype = index_type if name == "indices" else None
        joined[name] = np.concatenate([getattr(part, name) for part in parts], dtype=dtype)
        for part in parts:
            setattr(part, name, None)
    return Parsed(**joined, facts=sum((part.facts for part in parts), NO_FACTS))
