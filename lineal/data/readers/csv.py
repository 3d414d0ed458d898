"""CSV and TSV files as record batches: delimiter and header found out, types widened until every cell fits."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from lineal.data.options import ReadOptions
from lineal.data.readers.cells import NULLS
from lineal.data.readers.encode import Encoding
from lineal.data.readers.labels import ARROW_TYPES
from lineal.data.source import BYTE_ORDER_MARK, MAX_LINE_BYTES, STDIN, open_bytes
from lineal.errors import DataError, OptionError, ParseError

DELIMITERS = ",;\t|"

#: Bytes that pyarrow parses at a time; larger pieces were not faster.
PIECE_BYTES = 1 << 20

#: What a column becomes when a later cell does not fit.
WIDER = {pa.int64(): pa.float64(), pa.float64(): pa.string(), pa.bool_(): pa.string()}

#: What messages call a cell of each type.
TYPE_WORDS = {pa.int64(): "a whole number", pa.float64(): "a number", pa.bool_(): "true or false", pa.string(): "text"}


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
    #: Columns read as text, whose cells must be of the column's type; a row with another is a malformed line.
    strict: set[str] | None = None
    block: int = PIECE_BYTES
    #: The line of a row of the batch that was yielded last.
    line_of: Callable[[int], int | None] | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            self.header = self.encoding.header
            self.types = {column.name: _cell_type(column.kind) for column in self.encoding.columns}
            if self.encoding.label is not None:
                self.types[self.encoding.label] = ARROW_TYPES.get(str(self.encoding.label_kind), pa.string())
            if self.encoding.weight is not None:
                self.types[self.encoding.weight] = pa.float64()
            if self.strict is None and self.options.max_bad_lines > 0:
                self.strict = {name for name, kind in self.types.items() if kind != pa.string()}


def _cell_type(kind: str) -> Any:
    return {"number": pa.float64(), "boolean": pa.bool_()}.get(kind, pa.string())


class Rewound(io.RawIOBase):
    """A stream whose beginning can be looked at before it is read; without byte order mark and leading blank lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._head = stream, b""
        head = self.look(1 << 16)
        self.is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
        self._head = head.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")

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
        if self.is_utf16:
            raise DataError(f"{path} is UTF-16 text: convert it to UTF-8")
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


@dataclass(frozen=True)
class Records:
    """The records of a file, read once more to find the place of one: only where there is an error to report."""

    file: str
    delimiter: str
    width: int
    has_header: bool

    def find(self, number: int, whole: bool = False) -> tuple[int, str] | None:
        """Line and text of a record, from 1 with the header; with `whole` those with too many or few cells are none.

        None where the file cannot be read again.
        """
        if self.file == STDIN or not os.path.isfile(self.file):
            return None
        limit = csv.field_size_limit(MAX_LINE_BYTES)
        try:
            with open_bytes(self.file) as stream:
                return self._find(stream, number, whole)
        except csv.Error:
            return None
        finally:
            csv.field_size_limit(limit)

    def _find(self, stream: BinaryIO, number: int, whole: bool) -> tuple[int, str] | None:
        texts: list[str] = []

        def lines() -> Iterator[str]:
            for line in io.TextIOWrapper(stream, "latin-1", newline=""):  # a character is a byte
                texts.append(line if texts or reader.line_num else line.removeprefix(BYTE_ORDER_MARK.decode("latin-1")))
                yield texts[-1]

        reader = csv.reader(lines(), delimiter=self.delimiter)
        seen, start = 0, 1
        for cells in reader:
            if cells and (not whole or len(cells) == self.width or (seen == 0 and self.has_header)):
                seen += 1
                if seen == number:
                    return start, "".join(texts)
            texts.clear()
            start = reader.line_num + 1
        return None

    def line_of_row(self, row: int) -> int | None:
        """The line of a row of the table, from 0."""
        found = self.find(row + 1 + self.has_header, whole=True)
        return None if found is None else found[0]

    def bad_cell(self, path: str, found: tuple[int, str] | None, column: int, what: str, expected: str) -> DataError:
        """The error for a cell of a record that was found."""
        if found is None:
            return DataError(f"{path}: found {what}, expected {expected}")
        line, text = found
        mark = re.escape(self.delimiter)
        cell, start = re.compile(rf'(?:"(?:[^"]|"")*")?[^{mark}]*{mark}'), 0
        for _ in range(column):
            match = cell.match(text, start)
            start = start if match is None else match.end()
        ends = list(re.finditer(r"\r\n|\r|\n", text[:start]))
        return ParseError(path, line + len(ends), start - (ends[-1].end() if ends else 0) + 1, what, expected)


def batches(stream: BinaryIO, file: str, path: str, state: CsvState) -> Iterator[Any]:
    """Record batches of one file, which messages call `path`."""
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
    wanted = names if state.encoding is None else state.encoding.wanted(state.options.labels)
    wanted = [name for name in wanted if name in present]
    block = max(state.block, 4 * len(line))
    records = Records(file, delimiter, len(names), has_header)
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
        types = state.types | {name: pa.string() for name in state.strict or ()}
        row = 0
        for batch in open_csv(pa.PythonFile(source, mode="r"), types, on_bad_row):
            kept, rows = (
                _only_typed(batch, row, records, names, path, state, len(bad)) if state.strict else (batch, None)
            )
            state.line_of = partial(_line_of, records, row, rows)
            row += len(batch)
            yield kept
    except pa.ArrowInvalid as error:
        message = str(error)
        if "straddl" in message:
            _enlarge(block, path, state)
        if ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            at = records.find(int(ragged[1]))
            line_number = int(ragged[1]) if at is None else at[0]
            raise ParseError(path, line_number, 1, f"{ragged[3]} cells", f"{ragged[2]}") from None
        _widen_or_explain(message, names, path, state, records)
    state.bad_lines += len(bad)


def _line_of(records: Records, first: int, rows: np.ndarray | None, index: int) -> int | None:
    return records.line_of_row(first + (index if rows is None else int(rows[index])))


def _enlarge(block: int, path: str, state: CsvState) -> None:
    """A record is longer than a block: read again in larger ones."""
    if block >= MAX_LINE_BYTES:
        raise DataError(f"{path}: a row has more than {block} bytes: is a closing quote missing?") from None
    state.block = 8 * block
    raise Widened(f"{path}: a row has more than {block} bytes, too many to read in blocks: read the file whole")


def _only_typed(
    batch: Any, first: int, records: Records, names: list[str], path: str, state: CsvState, ragged: int
) -> tuple[Any, np.ndarray | None]:
    """The rows whose strict columns hold what they should, with those columns cast, and their numbers in the batch."""
    present = [name for name in batch.schema.names if name in (state.strict or ())]
    cells = {name: _trimmed(batch.column(name)) for name in present}
    bad: dict[int, str] = {}
    for name in reversed(present):
        bad |= dict.fromkeys(_misfits(cells[name], state.types[name]), name)
    rows = None
    if bad:
        allowed = state.options.max_bad_lines - state.bad_lines - ragged
        if len(bad) > allowed:
            row = sorted(bad)[max(allowed, 0)]
            name = bad[row]
            at = records.find(first + row + 1 + records.has_header, whole=True)
            what, expected = f"{cells[name][row].as_py()!r} in column {name!r}", TYPE_WORDS[state.types[name]]
            raise records.bad_cell(path, at, names.index(name), what, f"{expected}, as in the other rows")
        state.bad_lines += len(bad)
        rows = np.setdiff1d(np.arange(len(batch)), list(bad))
        batch = batch.take(pa.array(rows))
        cells = {name: column.take(pa.array(rows)) for name, column in cells.items()}
    for name, column in cells.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column.cast(state.types[name]))
    return batch, rows


def _trimmed(cells: Any) -> Any:
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, value_set=pa.array(NULLS)), None, cells)


def _misfits(cells: Any, kind: Any, first: int = 0) -> list[int]:
    """Rows whose text is no value of the type: by halves, as there are few."""
    try:
        cells.cast(kind)
        return []
    except pa.ArrowInvalid:
        if len(cells) == 1:
            return [first]
    half = len(cells) // 2
    return _misfits(cells[:half], kind, first) + _misfits(cells[half:], kind, first + half)


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
        if state.encoding is not None:  # without names, the label is what is not there, or the label and the weight
            for absent in ({state.encoding.label}, {state.encoding.label, state.encoding.weight}):
                if len(present := [name for name in known if name not in absent]) == len(names) < len(known):
                    return present, False
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


def _widen_or_explain(message: str, names: list[str], path: str, state: CsvState, records: Records) -> None:
    """Widen the type of the column that the message names, and say so; else raise what a person can act on."""
    found = re.search(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", message, re.DOTALL)
    if found is None:
        raise DataError(f"{path}: {message.splitlines()[0]}") from None
    name = names[int(found[1])]
    if "UTF8" in message:
        at = records.find(int(found[2])) if found[2] else None
        place = path if at is None else f"{path}:{at[0]}"
        raise DataError(f"{place}: column {name!r} is not UTF-8 text: convert the file's encoding") from None
    value = found[3].partition("invalid value ")[2] or found[3]
    wider = WIDER.get(state.types.get(name))
    if state.encoding is not None or wider is None:
        at = records.find(int(found[2])) if found[2] else None
        expected = TYPE_WORDS.get(state.types.get(name), "another type")
        raise records.bad_cell(path, at, int(found[1]), f"{value} in column {name!r}", expected) from None
    state.types[name] = wider
    raise Widened from None
