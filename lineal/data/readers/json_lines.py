"""JSON lines as record batches."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from lineal.data.source import NEWLINE, Chunk
from lineal.errors import DataError, ParseError


def parse(chunk: Chunk, path: str, allowed: int) -> tuple[Any, int]:
    """The objects of a chunk, one a line, as a record batch, and how many malformed lines were skipped.

    The batch is None where there is nothing but blank lines. More malformed lines than `allowed` are an error.
    """
    view = chunk.data.data
    skipped = 0
    while True:
        try:
            batch = _read(view)
            _one_a_line(batch, view, chunk, path)
            return batch, skipped
        except pa.ArrowInvalid as error:
            message = str(error)
        found = re.search(r"(.*) in row (\d+)$", message, re.DOTALL)
        if changed := re.search(r"Column\(/([^)/]+)[^)]*\) (changed from .*) in row", message):
            raise DataError(f"{path}: column {changed[1]!r} {changed[2]}: give all its values one type")
        if found is None:
            raise DataError(f"{path}: {message.splitlines()[0]}")
        line, start, stop = _line_of(view, int(found[2]))
        if skipped >= allowed:
            what = found[1].removeprefix("JSON parse error: ").rstrip(".")
            raise ParseError(path, chunk.first_line + line + skipped, 1, f"no JSON object ({what})", "one a line")
        skipped += 1
        view = memoryview(bytes(view[:start]) + bytes(view[stop:]))


def _one_a_line(batch: Any, view: memoryview, chunk: Chunk, path: str) -> None:
    """pyarrow takes objects that span lines, and several on one; cut elsewhere, the same file would fail."""
    if batch is not None and len(batch) != (lines := len(_lines(view)[2])):
        place = f"{path}: from line {chunk.first_line} on"
        raise DataError(f"{place}, {len(batch)} objects on {lines} lines: put one a line")


def _read(view: memoryview) -> Any:
    if not view.tobytes().strip():
        return None
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(view) + 1)
    table = arrow_json.read_json(pa.BufferReader(view), options)
    dates = [column.with_type(pa.string()) for column in table.schema if pa.types.is_temporal(column.type)]
    if dates:  # text that looks like dates: whether all of a piece does must not change its type
        table = arrow_json.read_json(
            pa.BufferReader(view), options, arrow_json.ParseOptions(explicit_schema=pa.schema(dates))
        )
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else None


def _lines(view: memoryview) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and end of every line, and the numbers of those that are not blank."""
    data = np.frombuffer(view, np.uint8)
    ends = np.flatnonzero(data == NEWLINE) + 1
    starts = np.append(0, ends[:-1])
    return starts, ends, np.flatnonzero(np.maximum.reduceat(data > ord(" "), starts))


def _line_of(view: memoryview, row: int) -> tuple[int, int, int]:
    """Number (from 0), start and end of the line with the given row; blank lines are no rows.

    Where a line goes on after its object, pyarrow means the row that it expected next: so a good line is not the one.
    """
    starts, ends, rows = _lines(view)
    row = min(row, len(rows) - 1)
    line = int(rows[row])
    with contextlib.suppress(ValueError):
        json.loads(bytes(view[starts[line] : ends[line]]))
        line = int(rows[max(row - 1, 0)])
    return line, int(starts[line]), int(ends[line])
