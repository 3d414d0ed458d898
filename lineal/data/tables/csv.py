"""CSV and TSV files as record batches: delimiter and header found out, types widened until every cell fits."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
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
from lineal.data.source import BYTE_ORDER_MARK, STDIN, open_bytes
from lineal.data.tables import wide
from lineal.data.tables.cells import NULLS, lacks_columns
from lineal.data.tables.csv_text import CsvText
from lineal.data.tables.encode import Encoding
from lineal.data.tables.header import find_header, is_number, long_cells, sample
from lineal.data.tables.labels import ARROW_TYPES
from lineal.data.tables.spelled_labels import values_of
from lineal.data.tables.survey import assign_roles
from lineal.errors import DataError, OptionError, ParseError

DELIMITERS = ",;\t|"

#: Bytes that pyarrow parses at a time; larger pieces were not faster.
PIECE_BYTES = 1 << 20

#: Bytes after the first record that tell whether it holds names.
SAMPLE_BYTES = 1 << 16

#: Text of which much is the same, such as labels: coded while it is parsed.
CODED = pa.dictionary(pa.int32(), pa.string())

#: What a column becomes when a later cell does not fit.
WIDER = {pa.int64(): pa.float64(), pa.float64(): pa.string(), pa.bool_(): pa.string()}

#: What messages call a cell of each type.
TYPE_WORDS = {
    pa.int64(): "a whole number",
    pa.uint64(): "a whole number from 0 up",
    pa.float64(): "a number",
    pa.bool_(): "true or false",
    pa.string(): "text",
}


class Widened(Exception):
    """A cell did not fit its column's type, which is now wider: the files must be read again."""


@dataclass
class CsvState:
    """What is known over all files of one read: column types, the header, malformed lines so far."""

    options: ReadOptions
    encoding: Encoding | None = None
    types: dict[str, Any] = field(default_factory=dict)
    header: bool | None = None
    header_chosen: str = "given"
    label: str | None = None
    bad_lines: int = 0
    #: All columns of the training files, where their numbers are read together; whether that may be tried.
    wide_names: list[str] | None = None
    may_be_wide: bool = True
    #: Columns read as text, whose cells must be of the column's type; a row with another is a malformed line.
    strict: set[str] | None = None
    #: The line of a row of the batch that was yielded last.
    line_of: Callable[[int], int | None] | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            self.label = self.encoding.label
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
        try:
            with long_cells(), open_bytes(self.file) as stream:
                return self._find(stream, number, whole)
        except csv.Error:
            return None

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
    text = CsvText(stream, path)
    try:
        text.first.decode()
    except UnicodeDecodeError:
        raise DataError(f"{path}: its first line is not UTF-8 text: convert the file's encoding") from None
    delimiter = _delimiter(text.first, path, state.options)
    with long_cells():
        first = sample(text.first, delimiter, is_whole=True)
        if len(first) != 1:
            raise DataError(f"{path}: the first line is no line of a CSV file")
        names, has_header = _names(first[0], path, state, partial(_rows_below, text, delimiter))
    if state.encoding is None and state.label is None:
        state.label = assign_roles(names, state.options).label
    parser: Any = _Parser(names, delimiter, Records(file, delimiter, len(names), has_header), path, state)
    if (block := _block(names, path, state)) is not None:
        parser = _WideParser(parser, block)
    pieces = text.pieces(delimiter, has_header, max(PIECE_BYTES, 4 * len(text.first)))
    with closing(ahead(pieces)) as ready:  # type: ignore[type-var]
        for piece in ready:
            if piece and not piece.isspace():
                yield parser.parse(piece)


class _Parser:
    """Turns pieces of one file into record batches, in order."""

    def __init__(self, names: list[str], delimiter: str, records: Records, path: str, state: CsvState) -> None:
        self.names, self.delimiter, self.records, self.path, self.state = names, delimiter, records, path, state
        present = set(names)
        wanted = names if state.encoding is None else state.encoding.wanted(state.options.labels)
        self.wanted = [name for name in wanted if name in present]
        self.has_label = state.label in present
        self.before = self.rows = 0  # records of the pieces before, and those of them that have the right length

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
                if self.has_label:  # as numbers, labels that are written differently could be the same
                    state.types[str(state.label)] = pa.string()
            strict = set(state.strict or ())
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
                column_types=types, null_values=list(NULLS), strings_can_be_null=True, include_columns=self.wanted
            ),
        )  # fmt: skip
        found = table.combine_chunks().to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _explain(self, message: str) -> NoReturn:
        """Raise an error that a person can act on."""
        number = self.before + self.records.has_header
        if ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            number += int(ragged[1])
            at = self.records.find(number)
            line_number = number if at is None else at[0]
            raise ParseError(self.path, line_number, 1, f"{ragged[3]} cells", f"{ragged[2]}") from None
        _widen_or_explain(message, self.names, self.path, self.state, self.records, number)


def _block(names: list[str], path: str, state: CsvState) -> list[str] | None:
    """The columns of numbers that are read together; None where each is read on its own."""
    options = state.options
    if state.encoding is not None:
        block = state.encoding.block
        present = set(names)
        if block is not None and (absent := [name for name in block.values if name not in present]):
            raise lacks_columns(path, absent, options.header == "auto")
        return None if block is None else block.values
    is_simple = options.missing == "error" and options.weight is None and not options.max_bad_lines
    if not is_simple or not state.may_be_wide or len(names) < wide.MIN_COLUMNS:
        return None
    if state.wide_names not in (None, names):
        state.wide_names, state.may_be_wide = None, False
        raise Widened
    state.wide_names = names
    roles = assign_roles(names, options)
    return [name for name in names if name != roles.label and name not in roles.dropped]


class _WideParser:
    """Turns pieces into record batches whose numbers are one column, by way of the usual parser where it must be."""

    def __init__(self, usual: _Parser, block: list[str]) -> None:
        self.usual, self.block = usual, block
        self.slow: _Parser | None = None
        state, places = usual.state, {name: place for place, name in enumerate(usual.names)}
        self.columns = np.array([places[name] for name in block], np.int64)
        is_wanted = usual.has_label and (state.encoding is None or state.options.labels)
        self.label = (str(state.label), places[str(state.label)]) if is_wanted else None

    def parse(self, piece: bytes) -> Any:
        """The rows of a piece."""
        usual, state = self.usual, self.usual.state
        batch = None
        if not state.options.max_bad_lines:
            batch = wide.parse_block(piece, usual.delimiter, len(usual.names), self.columns, self.label)
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
        """The same with every column on its own."""
        usual, state = self.usual, self.usual.state
        if self.slow is None:
            known = CsvState(state.options, encoding.expanded())
            self.slow = _Parser(usual.names, usual.delimiter, usual.records, usual.path, known)
        slow = self.slow
        slow.before, slow.rows, slow.state.bad_lines = usual.before, usual.rows, state.bad_lines
        batch = slow.parse(piece)
        usual.before, usual.rows, state.bad_lines = slow.before, slow.rows, slow.state.bad_lines
        state.line_of = slow.state.line_of
        return wide.block_of(batch, self.block, None if self.label is None else self.label[0])


def _skip(row: Any) -> str:
    return "skip"


def _line_of(records: Records, first: int, rows: np.ndarray | None, index: int) -> int | None:
    return records.line_of_row(first + (index if rows is None else int(rows[index])))


def _only_typed(
    batch: Any, strict: set[str], first: int, records: Records, names: list[str], path: str, state: CsvState
) -> tuple[Any, np.ndarray | None]:
    """The rows whose strict columns hold what they should, with those columns cast, and their numbers in the batch."""
    present = [name for name in batch.schema.names if name in strict]
    cells = {name: _trimmed(batch.column(name)) for name in present}
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
            what, expected = f"{cells[name][row].as_py()!r} in column {name!r}", TYPE_WORDS[state.types[name]]
            raise records.bad_cell(path, at, names.index(name), what, f"{expected}, as in the other rows")
        state.bad_lines += len(bad)
        rows = np.setdiff1d(np.arange(len(batch)), list(bad))
        batch = batch.take(pa.array(rows))
        cells = {name: column.take(pa.array(rows)) for name, column in cells.items()}
    for name, column in cells.items():
        typed = column if name == state.label else column.cast(state.types[name])
        batch = batch.set_column(batch.schema.get_field_index(name), name, typed)
    return batch, rows


def _trimmed(cells: Any) -> Any:
    cells = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(cells, value_set=pa.array(NULLS)), None, cells)


def _label_misfits(cells: Any, kind: Any) -> list[int]:
    """Rows whose label is there, but is no value of the type in any of the ways to write one."""
    coded = cells.dictionary_encode()
    name = next(name for name, known in ARROW_TYPES.items() if known == kind)
    _, bad = values_of(coded.dictionary, name)
    codes = coded.indices.fill_null(len(bad)).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(bad, False)[codes]).tolist()


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
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise OptionError(
                f"delimiter={options.delimiter!r} must be one character, of ASCII, and neither a quote nor a newline"
            )
        return delimiter
    if options.format == "tsv" or re.search(r"\.tsv(\.\w+)?$", path):
        return "\t"
    bare = re.sub(rb'"[^"]*"', b"", line).decode("utf-8", "replace")
    return max(DELIMITERS, key=bare.count)  # the first of them where none occurs


def _rows_below(text: CsvText, delimiter: str) -> list[list[str]]:
    """Some records after the first one."""
    size = text.length + max(SAMPLE_BYTES, 2 * text.length)
    head = text.look(size)
    return sample(head[text.length :], delimiter, is_whole=len(head) < size)


def _names(
    cells: list[str], path: str, state: CsvState, rows_below: Callable[[], list[list[str]]]
) -> tuple[list[str], bool]:
    """Column names, and whether the first line holds them."""
    if state.encoding is not None:
        return _known_names(cells, path, state, state.encoding)
    if state.options.header != "auto":
        state.header = state.options.header == "yes"
    elif state.header is None:
        found = find_header(cells, rows_below())
        state.header, state.header_chosen = found.is_there, "certain" if found.is_certain else "guessed"
    return (_distinct(cells, path), True) if state.header else ([f"f{j}" for j in range(len(cells))], False)


def _distinct(cells: list[str], path: str) -> list[str]:
    names = [cell or f"f{j}" for j, cell in enumerate(cells)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path}: two columns have the name {twice[0]!r}; if the first line is data, say header='no'")
    return names


def _known_names(cells: list[str], path: str, state: CsvState, encoding: Encoding) -> tuple[list[str], bool]:
    """The same for a file that is read as a training file was.

    A first line with all names that are needed is a header. Without names, columns are told by their position, and a
    line is passed over if it has text wherever the training file had numbers, and no text that the file had there.
    """
    header = state.options.header
    known = encoding.features()
    names_are_there = known.keys() <= set(cells)
    if header != "no" and (names_are_there or encoding.header is not False):
        return _distinct(cells, path), True
    names = _by_position(len(cells), encoding)
    pairs = [(known[name], cell) for name, cell in zip(names, cells) if name in known and cell not in NULLS]
    numbers = [cell for column, cell in pairs if column.kind == "number"]
    is_data = any(map(is_number, numbers)) or any(cell in column.values for column, cell in pairs)
    return names, header == "yes" or (header == "auto" and bool(numbers) and not is_data)


def _by_position(count: int, encoding: Encoding) -> list[str]:
    """Names of so many columns without a header: those of training, where the label and the weight may be absent."""
    known = encoding.names
    for absent in ((), (encoding.label,), (encoding.label, encoding.weight)):
        present = [name for name in known if name not in absent]
        if len(present) == count:
            return present
    return [f"f{j}" for j in range(count)]


def _widen_or_explain(
    message: str, names: list[str], path: str, state: CsvState, records: Records, before: int
) -> NoReturn:
    """Widen the type of the column that the message names, and say so; else raise what a person can act on."""
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
        expected = TYPE_WORDS.get(state.types.get(name), "another type")
        raise records.bad_cell(path, at, int(found[1]), f"{value} in column {name!r}", expected) from None
    state.types[name] = wider
    raise Widened from None
