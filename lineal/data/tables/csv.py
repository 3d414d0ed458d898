"""CSV and TSV files as record batches. The types of columns become wider until every cell fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from lineal.data.ahead import ahead
from lineal.data.options import ReadOptions
from lineal.data.source import BYTE_ORDER_MARK
from lineal.data.tables import wide
from lineal.data.tables.cells import lacks_columns
from lineal.data.tables.csv_names import column_names, find_delimiter, rows_below
from lineal.data.tables.csv_text import CsvText, Records
from lineal.data.tables.encode import Encoding
from lineal.data.tables.header import long_cells, sample
from lineal.data.tables.labels import ARROW_TYPES
from lineal.data.tables.roles import assign_roles
from lineal.data.tables.spelled_labels import values_of
from lineal.errors import DataError, ParseError

#: Number of bytes that pyarrow parses at a time; larger pieces were not faster.
PIECE_BYTES = 1 << 20

#: Text with few distinct values, such as labels, is dictionary-coded while it is parsed.
CODED = pa.dictionary(pa.int32(), pa.string())

#: The type that a column gets when a later cell does not fit.
WIDER = {pa.int64(): pa.float64(), pa.float64(): pa.string(), pa.bool_(): pa.string()}

#: What messages call a cell of each type.
TYPE_NAMES = {
    pa.int64(): "an integer",
    pa.uint64(): "an integer of at least 0",
    pa.float64(): "a number",
    pa.bool_(): "true or false",
    pa.string(): "text",
}


class Widened(Exception):
    """A cell did not fit the type of its column, which is now wider: the files must be read again."""


@dataclass
class CsvState:
    """What is known about all files of one read: column types, the header, the number of malformed lines so far."""

    options: ReadOptions
    encoding: Encoding | None = None
    types: dict[str, Any] = field(default_factory=dict)
    header: bool | None = None
    header_chosen: str = "given"
    #: The delimiter of the first file if it was detected.
    delimiter: str | None = None
    label: str | None = None
    bad_lines: int = 0
    #: All columns of the training files if their numbers are read together, and whether that may be tried.
    wide_names: list[str] | None = None
    may_be_wide: bool = True
    #: Columns that are read as text and then cast: a row with a cell of another type is a malformed line.
    strict: set[str] | None = None
    #: Finds the line of a row of the batch that was yielded last.
    line_of: Callable[[int], int | None] | None = None
    #: The kinds of columns that the options give.
    chosen: dict[str, str] = field(default_factory=dict)
    #: Texts that mean a missing cell.
    nulls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nulls = self.options.nulls
        if self.encoding is not None:
            self.label = self.encoding.label
            if self.options.na is None and self.encoding.na:
                self.nulls = self.encoding.na
            columns = [column for column in self.encoding.columns if column.kind != "numbers"]
            self.types = {column.name: _cell_type(column.kind) for column in columns}
            if self.encoding.label is not None:
                self.types[self.encoding.label] = ARROW_TYPES.get(str(self.encoding.label_kind), pa.string())
            if self.encoding.weight is not None:
                self.types[self.encoding.weight] = pa.float64()
            if self.strict is None and self.options.max_bad_lines > 0:
                self.strict = {name for name, kind in self.types.items() if kind != pa.string()}


def _cell_type(kind: str) -> Any:
    return {"number": pa.float64(), "boolean": pa.bool_()}.get(kind, pa.string())


def batches(stream: BinaryIO, file: str, path: str, state: CsvState) -> Iterator[Any]:
    """Record batches of one file, which messages call `path`."""
    text = CsvText(stream, path)
    try:
        text.first.decode()
    except UnicodeDecodeError:
        raise DataError(f"{path}: its first line is not UTF-8 text: convert the file's encoding") from None
    delimiter = find_delimiter(text.first, path, state)
    with long_cells():
        first = sample(text.first, delimiter, is_whole=True)
        if len(first) != 1:
            raise DataError(f"{path}: the first line is not a line of a CSV file")
        names, has_header = column_names(first[0], path, state, partial(rows_below, text, delimiter))
    if state.encoding is None:
        roles = assign_roles(names, state.options)
        state.label, state.chosen = roles.label, roles.kinds
    parser: Any = _Parser(names, delimiter, Records(file, delimiter, len(names), has_header), path, state)
    if (together := _columns_together(names, path, state)) is not None:
        parser = _WideParser(parser, together)
    pieces = text.pieces(delimiter, has_header, max(PIECE_BYTES, 4 * len(text.first)))
    with closing(ahead(pieces)) as ready:  # type: ignore[type-var]
        for piece in ready:
            if piece and not piece.isspace():
                yield parser.parse(piece)


class _Parser:
    """Turns the pieces of one file into record batches, in order."""

    def __init__(self, names: list[str], delimiter: str, records: Records, path: str, state: CsvState) -> None:
        self.names, self.delimiter, self.records, self.path, self.state = names, delimiter, records, path, state
        present = set(names)
        wanted = names if state.encoding is None else state.encoding.wanted(state.options.labels)
        self.wanted = [name for name in wanted if name in present]
        self.has_label = state.label in present
        self.before = self.rows = 0  # records of earlier pieces, and those among them with the right number of cells

    def parse(self, piece: bytes) -> Any:
        """The rows of a piece."""
        state = self.state
        skips = state.options.max_bad_lines > 0
        bad: list[Any] = []

        def on_bad_row(row: Any) -> str:
            bad.append(row)
            return "skip" if state.bad_lines + len(bad) <= state.options.max_bad_lines else "error"

        try:
            if not state.types:
                found = self._read(piece, {}, _skip if skips else None).schema
                state.types = {column.name: _start_type(column.type) for column in found}
                state.types |= {name: _cell_type(kind) for name, kind in state.chosen.items() if name in state.types}
                if self.has_label:  # as numbers, labels that are written differently could become equal
                    state.types[str(state.label)] = pa.string()
            strict = set(state.strict or ()) | {name for name, kind in state.chosen.items() if kind == "number"}
            if self.has_label and state.types.get(str(state.label)) != pa.string():
                strict.add(str(state.label))
            types = state.types | dict.fromkeys(strict, pa.string())
            if self.has_label and str(state.label) not in strict:
                types[str(state.label)] = CODED
            batch = self._read(piece, types, on_bad_row if skips else None)
        except pa.ArrowInvalid as error:
            self._explain(str(error))
        state.bad_lines += len(bad)
        first, kept, rows = self.rows, batch, None
        self.before += len(batch) + len(bad)
        self.rows += len(batch)
        if strict:
            kept, rows = _only_typed(batch, strict, first, self.records, self.names, self.path, state)
        state.line_of = partial(_line_of, self.records, first, rows)
        return kept

    def _read(self, piece: bytes, types: dict[str, Any], on_bad_row: Any) -> Any:
        if piece.startswith(BYTE_ORDER_MARK):  # in the middle of a file it is text, but pyarrow would drop it
            piece = b"\n" + piece
        table = arrow_csv.read_csv(
            pa.BufferReader(piece),
            # Without threads malformed rows come with their number; it is no slower.
            arrow_csv.ReadOptions(use_threads=False, block_size=len(piece) + 1, column_names=self.names),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row
            ),
            arrow_csv.ConvertOptions(
                column_types=types, null_values=self.state.nulls, strings_can_be_null=True, include_columns=self.wanted
            ),
        )  # fmt: skip
        found = table.combine_chunks().to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _explain(self, message: str) -> NoReturn:
        """Raise an error for a message of pyarrow that a person can act on."""
        number = self.before + self.records.has_header
        if ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            number += int(ragged[1])
            at = self.records.find(number)
            line_number = number if at is None else at[0]
            raise ParseError(self.path, line_number, 1, f"{ragged[3]} cells", f"{ragged[2]}") from None
        _widen_or_explain(message, self.names, self.path, self.state, self.records, number)


def _columns_together(names: list[str], path: str, state: CsvState) -> list[str] | None:
    """The columns of numbers that are parsed together; None if each column is parsed on its own."""
    options = state.options
    if state.encoding is not None:
        together = state.encoding.together
        present = set(names)
        if together is not None and (absent := [name for name in together.values if name not in present]):
            raise lacks_columns(path, absent, options.header == "auto")
        return None if together is None else together.values
    is_simple = options.scale == "none" and options.weight is None and not options.max_bad_lines
    chosen = options.text or options.categorical or options.numeric
    if not is_simple or chosen or not state.may_be_wide or len(names) < wide.MIN_COLUMNS:
        return None
    if state.wide_names not in (None, names):
        state.wide_names, state.may_be_wide = None, False
        raise Widened
    state.wide_names = names
    roles = assign_roles(names, options)
    return [name for name in names if name != roles.label and name not in roles.ignored]


class _WideParser:
    """Turns pieces into record batches whose numbers are one column; odd pieces go through the usual parser."""

    def __init__(self, usual: _Parser, together: list[str]) -> None:
        self.usual, self.together = usual, together
        self.slow: _Parser | None = None
        state, places = usual.state, {name: place for place, name in enumerate(usual.names)}
        self.columns = np.array([places[name] for name in together], np.int64)
        is_wanted = usual.has_label and (state.encoding is None or state.options.labels)
        self.label = (str(state.label), places[str(state.label)]) if is_wanted else None

    def parse(self, piece: bytes) -> Any:
        """The rows of a piece."""
        usual, state = self.usual, self.usual.state
        batch = None
        if not state.options.max_bad_lines:
            batch = wide.parse_numbers(piece, usual.delimiter, len(usual.names), self.columns, self.label, state.nulls)
        if batch is not None:
            state.line_of = partial(_line_of, usual.records, usual.rows, None)
            usual.before += len(batch)
            usual.rows += len(batch)
            return batch
        if state.encoding is None:
            state.wide_names, state.may_be_wide = None, False
            raise Widened
        return self._one_by_one(piece, state.encoding)

    def _one_by_one(self, piece: bytes, encoding: Encoding) -> Any:
        """Parse the rows of a piece with every column on its own."""
        usual, state = self.usual, self.usual.state
        if self.slow is None:
            known = CsvState(state.options, encoding.single)
            self.slow = _Parser(usual.names, usual.delimiter, usual.records, usual.path, known)
        slow = self.slow
        slow.before, slow.rows, slow.state.bad_lines = usual.before, usual.rows, state.bad_lines
        batch = slow.parse(piece)
        usual.before, usual.rows, state.bad_lines = slow.before, slow.rows, slow.state.bad_lines
        state.line_of = slow.state.line_of
        return wide.gathered(batch, self.together, None if self.label is None else self.label[0])


def _skip(row: Any) -> str:
    return "skip"


def _line_of(records: Records, first: int, rows: np.ndarray | None, index: int) -> int | None:
    return records.line_of_row(first + (index if rows is None else int(rows[index])))


def _only_typed(
    batch: Any, strict: set[str], first: int, records: Records, names: list[str], path: str, state: CsvState
) -> tuple[Any, np.ndarray | None]:
    """The rows in which all strict columns can be cast to their type, with these columns cast, and the row numbers."""
    present = [name for name in batch.schema.names if name in strict]
    cells = {name: _trimmed(batch.column(name), state.nulls) for name in present}
    bad: dict[int, str] = {}
    for name in reversed(present):
        find = _label_misfits if name == state.label else _misfits
        bad |= dict.fromkeys(find(cells[name], state.types[name]), name)
    rows = None
    if bad:
        allowed = state.options.max_bad_lines - state.bad_lines
        if len(bad) > allowed:
            row = sorted(bad)[max(allowed, 0)]
            name = bad[row]
            at = records.find(first + row + 1 + records.has_header, whole=True)
            what, expected = f"{cells[name][row].as_py()!r} in column {name!r}", TYPE_NAMES[state.types[name]]
            raise records.bad_cell(path, at, names.index(name), what, f"{expected}, as in the other rows")
        state.bad_lines += len(bad)
        rows = np.setdiff1d(np.arange(len(batch)), list(bad))
        batch = batch.take(pa.array(rows))
        cells = {name: column.take(pa.array(rows)) for name, column in cells.items()}
    for name, column in cells.items():
        typed = column if name == state.label else column.cast(state.types[name])
        batch = batch.set_column(batch.schema.get_field_index(name), name, typed)
    return batch, rows


def _trimmed(cells: Any, nulls: list[str]) -> Any:
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, value_set=pa.array(nulls)), None, cells)


def _label_misfits(cells: Any, kind: Any) -> list[int]:
    """Rows that have a label, which is not a value of the type however it is written."""
    coded = cells.dictionary_encode()
    name = next(name for name, known in ARROW_TYPES.items() if known == kind)
    _, bad = values_of(coded.dictionary, name)
    codes = coded.indices.fill_null(len(bad)).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(bad, False)[codes]).tolist()


def _misfits(cells: Any, kind: Any, first: int = 0) -> list[int]:
    """Rows whose text is not a value of the type. There are few, so they are found by halving."""
    try:
        cells.cast(kind)
        return []
    except pa.ArrowInvalid:
        if len(cells) == 1:
            return [first]
    half = len(cells) // 2
    return _misfits(cells[:half], kind, first) + _misfits(cells[half:], kind, first + half)


def _start_type(inferred: Any) -> Any:
    """The type to try first: a column without values may turn out to be numbers, dates stay text."""
    if inferred in (pa.int64(), pa.float64(), pa.bool_()):
        return inferred
    return pa.float64() if pa.types.is_null(inferred) else pa.string()


def _widen_or_explain(
    message: str, names: list[str], path: str, state: CsvState, records: Records, before: int
) -> NoReturn:
    """Widen the type of the column that the message names and raise `Widened`, or raise an error that explains it."""
    found = re.search(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", message, re.DOTALL)
    if found is None:
        raise DataError(f"{path}: {message.splitlines()[0]}") from None
    name = names[int(found[1])]
    if "UTF8" in message:
        at = records.find(before + int(found[2])) if found[2] else None
        place = path if at is None else f"{path}:{at[0]}"
        raise DataError(f"{place}: column {name!r} is not UTF-8 text: convert the file's encoding") from None
    value = found[3].partition("invalid value ")[2] or found[3]
    wider = WIDER.get(state.types.get(name))
    if state.encoding is not None or wider is None:
        at = records.find(before + int(found[2])) if found[2] else None
        expected = TYPE_NAMES.get(state.types.get(name), "another type")
        raise records.bad_cell(path, at, int(found[1]), f"{value} in column {name!r}", expected) from None
    state.types[name] = wider
    raise Widened from None
