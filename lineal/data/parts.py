"""Files cut into parts, so that several readers can share them: each reads its own part, and nobody reads all.

The files are taken as laid end to end, and cut into consecutive parts of about equal size. Plain svmlight and VW text
is cut at the beginning of a line, converted files are cut between two rows. All other files stay whole: compressed ones
can only be read from their beginning, and a cell of a table may have line ends in it. Where a part begins depends on
the files and on the number of parts alone, so any process can find it without being told.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

from lineal.data.chunks import line_start
from lineal.data.source import STDIN, PlainFile, cannot_read, compression_of, display_name
from lineal.errors import DataError

#: Formats of text that can be cut at any line.
CUT_AT_LINES = ("svmlight", "vw")


class Part(NamedTuple):
    """Part `number` (from 0) of `n_parts` parts."""

    number: int
    n_parts: int


class Piece(NamedTuple):
    """Bytes of a text file, or rows of a converted one, from `start` to `stop`; a `stop` of None is the end."""

    path: str
    start: int = 0
    stop: int | None = None


def whole_files(paths: Sequence[str]) -> list[Piece]:
    """All of some files."""
    return [Piece(path) for path in paths]


def pieces_of(paths: Sequence[str], kind: str, part: Part) -> list[Piece]:
    """What belongs to a part of the files of a format ("layout" for converted files); may be nothing."""
    files = _files(paths, kind)
    if files is None:
        return [Piece(paths[number]) for number in runs_of([_size(path) for path in paths], part.n_parts)[part.number]]
    starts = [0, *itertools.accumulate(files)]
    begin, end = (_cut(paths, kind, starts, Part(number, part.n_parts)) for number in (part.number, part.number + 1))
    pieces = [
        Piece(path, max(begin - first, 0), min(end, last) - first)
        for path, (first, last) in zip(paths, itertools.pairwise(starts), strict=True)
    ]
    return [piece for piece in pieces if piece.start < (piece.stop or 0)]


def check_cut(paths: Sequence[str], kind: str, count: int) -> None:
    """Refuse files that cannot be cut into so many parts, each with something in it."""
    unreadable = [path for path in paths if path == STDIN or not os.path.isfile(path)]
    if unreadable:
        raise DataError(
            f"{display_name(unreadable[0])} can be read once, from its beginning to its end, so that {count} learners "
            "cannot share it: write it to a file first, or use one learner"
        )
    files = _files(paths, kind)
    if files is None and len(paths) < count:
        raise DataError(
            f"{count} learners need {count} files of this format, which is not cut, and there are {len(paths)}: "
            "convert them (lineal convert), or use fewer learners"
        )
    if files is not None and not all(pieces_of(paths, kind, Part(number, count)) for number in range(count)):
        what = "rows" if kind == "layout" else "lines"
        raise DataError(f"{paths[0]} has too few {what} for {count} learners: use fewer of them")


def runs_of(sizes: Sequence[float], count: int) -> list[range]:
    """Runs of consecutive things, one per part, of about equal total size; none is empty if there are enough things."""
    totals, n = [0.0, *itertools.accumulate(sizes)], len(sizes)
    bounds = [0]
    for number in range(1, count):
        wanted = totals[-1] * number / count
        nearest = min(range(n + 1), key=lambda bound: abs(totals[bound] - wanted))
        bounds.append(min(max(nearest, bounds[-1] + 1), max(n - count + number, bounds[-1])))
    return [range(first, last) for first, last in itertools.pairwise([*bounds, n])]


def _files(paths: Sequence[str], kind: str) -> list[int] | None:
    """Bytes (or rows, of converted files) of every file; None where the files stay whole."""
    if kind == "layout":
        from lineal.data.binary.file import LayoutFile
        from lineal.data.binary.layout import explained

        counts = []
        for path in paths:
            with explained(path):
                counts.append(LayoutFile(path, mapped=False).n)
        return counts
    if kind not in CUT_AT_LINES:
        return None
    files = [PlainFile(path) for path in paths]
    if any(compression_of(file.bytes_at(0, min(4, file.size))) is not None for file in files):
        return None
    return [file.size for file in files]


def _cut(paths: Sequence[str], kind: str, starts: Sequence[int], part: Part) -> int:
    """Where a part begins: a byte (or row) of all files laid end to end."""
    wanted = starts[-1] * part.number // part.n_parts
    if kind == "layout":
        return wanted
    for path, (first, last) in zip(paths, itertools.pairwise(starts), strict=True):
        if first <= wanted < last:
            return first + line_start(PlainFile(path), wanted - first)
    return starts[-1]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise cannot_read(path, error) from error
