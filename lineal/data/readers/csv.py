"""CSV and TSV files as record batches: delimiter and header found out, types widened until every cell fits."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from lineal.data.options import ReadOptions
from lineal.data.readers.cells import NULLS
from lineal.data.readers.encode import Encoding
from lineal.data.readers.labels import ARROW_TYPES
from lineal.data.source import BYTE_ORDER_MARK, MAX_LINE_BYTES
from lineal.errors import DataError, OptionError, ParseError

DELIMITERS = ",;\t|"

#: Bytes that pyarrow parses at a time; larger pieces were not faster.
PIECE_BYTES = 1 << 20

#: What a column becomes when a later cell does not fit.
WIDER = {pa.int64(): pa.float64(), pa.float64(): pa.string(), pa.bool_(): pa.string()}


class Widened(Exception):
    """A cell did not fit its column's type, which is now wider: the files must be read again."""


@dataclass
class CsvState:
    """What is known over all files of one read: column types, the header, malformed lines so far."""

    options: ReadOptions
    encoding: Encoding | None = None
    types: dict[str, Any] = field(default_factory=dict)
    header: bool | None = None
    bad_lines: int = 0

    def __post_init__(self) -> None:
        if self.encoding is not None:
            self.header = self.encoding.header
            self.types = {column.name: _cell_type(column.kind) for column in self.encoding.columns}
            if self.encoding.label is not None:
                self.types[self.encoding.label] = ARROW_TYPES.get(str(self.encoding.label_kind), pa.string())
            if self.encoding.weight is not None:
                self.types[self.encoding.weight] = pa.float64()


def _cell_type(kind: str) -> Any:
    return {"number": pa.float64(), "boolean": pa.bool_()}.get(kind, pa.string())


class Rewound(io.RawIOBase):
    """A stream whose beginning can be looked at before it is read; without byte order mark and leading blank lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._head = stream, b""
        self._head = self.look(1 << 16).removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")

    def look(self, size: int) -> bytes:
        """The next `size` bytes, or all there are."""
        while len(self._head) < size and (piece := self._stream.read(size - len(self._head))):
            self._head += piece
        return self._head[:size]

    def first_line(self, path: str) -> bytes:
        """The first line, without its end."""
        size = 1 << 16
        while b"\n" not in (head := self.look(size)) and len(head) == size and size < MAX_LINE_BYTES:
            size *= 8
        if not head.strip():
            raise DataError(f"{path} is empty")
        return head.partition(b"\n")[0].rstrip(b"\r")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._head[: len(buffer)] or self._stream.read(len(buffer)) or b""
        self._head = self._head[len(got) :]
        buffer[: len(got)] = got
        return len(got)


def batches(stream: BinaryIO, path: str, state: CsvState) -> Iterator[Any]:
    """Record batches of one file."""
    source = Rewound(stream)
    line = source.first_line(path)
    delimiter = _delimiter(line, path, state.options)
    try:
        first = next(csv.reader([line.decode("utf-8", "replace")], delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"{path}: the first line is no line of a CSV file: {error}") from None
    cells = [cell.strip() for cell in first]
    names, has_header = _names(cells, path, state)
    present = set(names)
    wanted = names if state.encoding is None else [name for name in state.encoding.wanted() if name in present]
    block = max(PIECE_BYTES, 4 * len(line))
    bad: list[Any] = []

    def on_bad_row(row: Any) -> str:
        bad.append(row)
        return "skip" if state.bad_lines + len(bad) <= state.options.max_bad_lines else "error"

    skips = state.options.max_bad_lines > 0

    def open_csv(data: Any, types: dict[str, Any], on_bad_row: Any) -> Any:
        return arrow_csv.open_csv(
            data,
            # Without threads malformed rows come with their number; it is no slower.
            arrow_csv.ReadOptions(use_threads=False, block_size=block, column_names=names, skip_rows=int(has_header)),
            arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row if skips else None
            ),
            arrow_csv.ConvertOptions(
                column_types=types, null_values=list(NULLS), strings_can_be_null=True, include_columns=wanted
            ),
        )

    try:
        if not state.types:
            found = open_csv(io.BytesIO(source.look(2 * block)), {}, lambda row: "skip").schema
            state.types = {column.name: _start_type(column.type) for column in found}
        yield from open_csv(pa.PythonFile(source, mode="r"), state.types, on_bad_row)
    except pa.ArrowInvalid as error:
        if ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error)):
            raise ParseError(path, int(ragged[1]), 1, f"{ragged[3]} cells", f"{ragged[2]}") from None
        _widen_or_explain(str(error), names, path, state)
    state.bad_lines += len(bad)


def _start_type(inferred: Any) -> Any:
    """The type to try first: columns without values may turn out numbers, dates stay text."""
    if inferred in (pa.int64(), pa.float64(), pa.bool_()):
        return inferred
    return pa.float64() if pa.types.is_null(inferred) else pa.string()


def _delimiter(line: bytes, path: str, options: ReadOptions) -> str:
    if options.delimiter is not None:
        delimiter = options.delimiter.replace("\\t", "\t")
        if len(delimiter) != 1:
            raise OptionError(f"delimiter={options.delimiter!r} must be one character")
        return delimiter
    if options.format == "tsv" or re.search(r"\.tsv(\.\w+)?$", path):
        return "\t"
    bare = re.sub(rb'"[^"]*"', b"", line).decode("utf-8", "replace")
    return max(DELIMITERS, key=bare.count)  # the first of them where none occurs


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _names(cells: list[str], path: str, state: CsvState) -> tuple[list[str], bool]:
    """Column names, and whether the first line holds them."""
    if state.options.header == "auto":
        has_header = _looks_like_header(cells) if state.header is None else state.header
    else:
        has_header = state.options.header == "yes"
    state.header = has_header
    if not has_header:
        names = [f"f{j}" for j in range(len(cells))]
        known = state.encoding.names if state.encoding is not None else []
        if state.encoding is not None and len(names) == len(known) - 1:  # without names, the label is what is not there
            names = [name for name in known if name != state.encoding.label]
        return names, False
    names = [cell or f"f{j}" for j, cell in enumerate(cells)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path}: two columns have the name {twice[0]!r}; if the first line is data, say header='no'")
    return names, True


def _looks_like_header(cells: list[str]) -> bool:
    """No names are: all numbers, any number with a fraction, or a number that occurs twice."""
    numbers = [cell for cell in cells if _is_number(cell)]
    is_data = len(numbers) == len(cells) or len(set(numbers)) < len(numbers) or any("." in number for number in numbers)
    return not is_data


def _widen_or_explain(message: str, names: list[str], path: str, state: CsvState) -> None:
    """Widen the type of the column that the message names, and say so; else raise what a person can act on."""
    found = re.search(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", message, re.DOTALL)
    if found is None:
        raise DataError(f"{path}: {message.splitlines()[0]}") from None
    name, place = names[int(found[1])], f"{path}:{found[2]}" if found[2] else path
    if "UTF8" in message:
        raise DataError(f"{place}: column {name!r} is not UTF-8 text: convert the file's encoding") from None
    value = found[3].partition("invalid value ")[2] or found[3]
    wider = WIDER.get(state.types.get(name))
    if state.encoding is not None or wider is None:
        raise DataError(f"{place}: column {name!r} holds {value}, expected {state.types.get(name)}") from None
    state.types[name] = wider
    raise Widened from None
