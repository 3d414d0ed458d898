"""The reader of tables with named columns: CSV and TSV, JSON lines, Parquet and Arrow IPC, all as pyarrow batches.

Numbers and booleans become one column each. Text becomes one column per value ("column=value") or is hashed. X is dense
without text columns; with them it is a csr_array if fewer than a quarter of the training file's cells are non-zero. The
`Schema` stores how each column was encoded (see `lineal.data.tables.encode`), so that a later file, with its columns in
any order, gives the same X. Texts that training did not see become zeros, and the returned schema counts them in
``settings["unseen"]``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lineal.data.byte_stream import open_bytes, spooled
from lineal.data.chunks import line_chunks
from lineal.data.dataset import Dataset
from lineal.data.formats import CSV_LIKE, FORMATS, LAYOUT_KEY, is_compressed, named_format
from lineal.data.join import stack
from lineal.data.options import ReadOptions, listed
from lineal.data.own_process import keep_pandas_out
from lineal.data.schema import Schema
from lineal.data.source import STDIN, cannot_read, display_name
from lineal.data.tables import csv, frames, json_lines
from lineal.data.tables.cells import BatchPlace, lacks_columns
from lineal.data.tables.csv import CsvState, Widened
from lineal.data.tables.encode import Encoding, Part
from lineal.data.tables.json_lines import JsonState
from lineal.data.tables.matrices import checked_range
from lineal.data.tables.one_row import row_of_frame, row_of_record
from lineal.data.tables.roles import assign_roles
from lineal.data.tables.survey import Survey
from lineal.data.tables.texts import Batches
from lineal.errors import DataError

#: Number of cells of one batch of a binary table, bounded so that batches of a wide table stay small.
BATCH_CELLS = 1 << 22

#: Number of bytes of JSON lines that are parsed at a time.
JSON_BYTES = 8 << 20


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Read the whole table."""
    return read_first(paths, options, schema, None)[0]


def read_first(
    paths: list[str], options: ReadOptions, schema: Schema | None, most_bytes: int | None
) -> tuple[Dataset, bool]:
    """The first rows of the table, in batches of at least `most_bytes` together, and whether there are more rows."""
    with spooled(paths) as files:
        table = TableFiles(files, paths, options, schema)
        batches = table.load(most_bytes)
        encoding = table.known
        total = sum(len(batch) for batch, _ in batches)
        if total == 0:
            raise DataError(f"{display_name(paths[0])} has no rows")
        X = None if encoding.sparse else np.empty((total, encoding.n_features), dtype=encoding.dtype)
        parts, row = [], 0
        batches.reverse()
        while batches:  # each batch is freed once it is encoded
            batch, place = batches.pop()
            part = encoding.encode(batch, place)
            if X is not None:
                X[row : row + len(batch)], part.X = part.X, None
            row += len(batch)
            parts.append(part)
    return _dataset(encoding, parts, X, table.bad_lines), table.is_cut


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read the table in blocks of rows. Without a schema, a first pass finds the texts and means."""
    with spooled(paths) if schema is None else contextlib.nullcontext(paths) as files:
        table = TableFiles(files, paths, options, schema)
        if table.encoding is None:
            table.survey()
        pending: list[Part] = []
        held = bad_before = 0
        for batch, place in table.stream():
            if held >= options.block_bytes:  # not earlier, so that the last block counts the malformed lines at the end
                yield _dataset(table.known, pending, None, table.bad_lines - bad_before)
                pending, held, bad_before = [], 0, table.bad_lines
            pending.append(table.known.encode(batch, place))
            held += batch.nbytes
        if pending:
            yield _dataset(table.known, pending, None, table.bad_lines - bad_before)


def encode_frame(frame: Any, schema: Schema) -> Any:
    """X of a table in memory, encoded as the training table was; its labels are ignored."""
    encoding = Encoding.of_schema(schema).single
    row = row_of_frame(frame)
    if row is not None and (X := encoding.of_one_row.encode(row)) is not None:
        return checked_range(X, encoding)
    wanted = frames.roots_of(encoding.needed())
    return _encoded(frames.arrow_table(frame, [name for name in frames.names_of(frame) if name in wanted]), encoding)


def encode_records(records: list[dict[str, Any]], schema: Schema) -> Any:
    """X of rows that are dicts, encoded as the training table was; what a row with some columns lacks is missing."""
    encoding = Encoding.of_schema(schema).single
    if len(records) == 1 and (X := encoding.of_one_row.encode(row_of_record(records[0]))) is not None:
        return checked_range(X, encoding)
    wanted = frames.roots_of(encoding.needed())
    for row, record in enumerate(records if wanted else ()):
        if wanted.isdisjoint(record):
            source = frames.SOURCE if len(records) == 1 else f"record {row}"
            raise lacks_columns(source, encoding.needed(), False)
    names = {name for record in records for name in record} & wanted
    columns = {name: frames.column_of([record.get(name) for record in records], name) for name in names}
    return _encoded(pa.table(columns), encoding)


def _encoded(table: Any, encoding: Encoding) -> Any:
    table, needed = frames.flattened(table, has_empty=True), encoding.needed()
    for name in frames.fields_of_nulls(table, needed):
        table = table.append_column(name, pa.nulls(table.num_rows))
    present = set(table.schema.names)
    if absent := [name for name in needed if name not in present]:
        raise lacks_columns(frames.SOURCE, absent, False)
    parts = [encoding.encode(batch, place).X for batch, place in frames.batches_of(table.select(needed))]
    return checked_range(parts[0] if len(parts) == 1 else stack(parts), encoding)


class TableFiles:
    """The files of one read as record batches with their places, and the encoding once it is known."""

    def __init__(self, files: list[str], names: list[str], options: ReadOptions, schema: Schema | None) -> None:
        keep_pandas_out()
        self.files, self.names, self.options = files, [display_name(name) for name in names], options
        if schema is not None and schema.format != "table":
            what = f"{schema.format!r} data, which has no named columns"
            raise DataError(f"{self.names[0]} is a table, but the model was trained on {what}")
        self.encoding = None if schema is None else replace(Encoding.of_schema(schema), dtype=options.dtype)
        if self.encoding is not None and self._kind(self.names[0]) not in CSV_LIKE:
            self.encoding = self.encoding.single
        self.csv = CsvState(options, self.encoding)
        self.json = JsonState()
        self.bad_lines = 0
        self.is_cut = False

    @property
    def known(self) -> Encoding:
        """The encoding, which must be known by now."""
        assert self.encoding is not None
        return self.encoding

    def load(self, most_bytes: int | None = None) -> list[tuple[Any, BatchPlace]]:
        """All batches, or the first ones (see `read_first`); the encoding is made from them if it is not given."""
        while True:
            try:
                found = list(self.stream()) if most_bytes is None else self._first(most_bytes)
                if self.encoding is not None:
                    return found
                survey = self.new_survey()
                for batch, place in found:
                    survey.update(batch, place)
                self.settle(survey, found.copy)
                return [(self._complete(batch), place) for batch, place in found]
            except Widened:
                found = []

    def _first(self, most_bytes: int) -> list[tuple[Any, BatchPlace]]:
        found: list[tuple[Any, BatchPlace]] = []
        held = 0
        with contextlib.closing(self.stream()) as batches:  # type: ignore[type-var]
            for batch, place in batches:
                self.is_cut = held >= most_bytes
                if self.is_cut:
                    break
                found.append((batch, place))
                held += batch.nbytes
        return found

    def survey(self) -> None:
        """Make the encoding in a pass over the files."""
        while True:
            survey = self.new_survey()
            try:
                for batch, place in self.stream():
                    survey.update(batch, place)
                return self.settle(survey, self.stream)
            except Widened:
                continue

    def new_survey(self) -> Survey:
        """A survey that has seen no rows."""
        is_csv = self._kind(self.names[0]) in CSV_LIKE
        return Survey(self.options, is_csv, lambda: self.csv.wide_names)

    def settle(self, survey: Survey, batches: Batches) -> None:
        """Take the encoding from the survey; if text in a column of numbers is a mistake, the files are read again."""
        if survey.rows == 0:
            guessed = "; its first line was taken for names: if it is data, say header='no'"
            raise DataError(f"{self.names[0]} has no rows" + guessed * (self.csv.header_chosen == "guessed"))
        known = self.csv.strict or set()
        mistyped = {name: kind for name, kind in survey.mistyped().items() if name not in known}
        if mistyped and self._kind(self.names[0]) in CSV_LIKE:
            self.csv.strict = known | set(mistyped)
            self.csv.types |= mistyped
            raise Widened
        encoding = survey.encoding(self.csv.header, self.csv.header_chosen, self.csv.delimiter)
        if any(column.kind == "text" for column in encoding.columns):
            from lineal.data.tables.texts import learned

            encoding = learned(encoding, batches, survey.rows, self.options)
        self.encoding = encoding
        self.csv = CsvState(self.options, self.encoding, strict=self.csv.strict or set())

    def stream(self) -> Iterator[tuple[Any, BatchPlace]]:
        """The batches of all files, each with every column that the encoding needs."""
        self.bad_lines = self.csv.bad_lines = 0
        self.json = self._json_state()
        seen: set[str] = set()
        labelled: bool | None = None
        has_rows = False
        for file, source in zip(self.files, self.names):
            row, self.csv.line_of = 0, None
            for found in self._batches(file, source):
                batch = frames.flat_batch(found, has_empty=self.encoding is not None)
                names = set(batch.schema.names)
                if self.encoding is not None and self._kind(source) not in CSV_LIKE:
                    names |= set(frames.fields_of_nulls(batch, self.encoding.needed()))
                if row == 0 and self._kind(source) != "jsonl":
                    self._check_columns(names, source, seen)
                seen |= names
                if self.encoding is not None:
                    if self.options.labels and labelled not in (None, self.encoding.label in names):
                        raise DataError(f"{source}: from row {row} on, the label is missing or new: give all rows one")
                    labelled = self.encoding.label in names
                    batch = self._complete(batch)
                if len(batch):
                    yield batch, BatchPlace(source, row, self.csv.line_of)
                row += len(batch)
            has_rows = has_rows or row > 0
        if self.encoding is not None and has_rows:
            self._check_columns(seen, self.names[0], seen)

    def _json_state(self) -> JsonState:
        if self.encoding is None:
            ignored = {*listed(self.options.ignore), str(self.options.id)}
            if not self.options.labels:
                ignored |= {str(self.options.label), str(self.options.weight)}
            return JsonState(ignored.__contains__, label_of=self._label_among)
        wanted = frames.roots_of(self.encoding.wanted(self.options.labels))
        numbers = frozenset(column.name for column in self.encoding.columns if column.kind in ("number", "boolean"))
        label = self.encoding.label
        return JsonState(lambda name: name not in wanted, numbers, lambda names: label)

    def _label_among(self, names: list[str]) -> str | None:
        """The label column among these; None for a field of an object."""
        try:
            return assign_roles(names, replace(self.options, text=None, categorical=None, numeric=None)).label
        except DataError:
            return None  # or there is no such column, which the survey says

    def _check_columns(self, names: set[str], source: str, seen: set[str]) -> None:
        """Refuse a file that lacks columns of the training table, or a training file unlike the first one."""
        if self.encoding is None:
            if seen and seen != names:
                odd = ", ".join(sorted(seen ^ names))
                raise DataError(f"{source} has other columns than {self.names[0]}: {odd}")
            return
        absent = [name for name in self.encoding.needed() if name not in names]
        if absent:
            raise lacks_columns(source, absent, self._kind(source) in CSV_LIKE and self.options.header == "auto")

    def _complete(self, batch: Any) -> Any:
        """Add null columns for fields that a piece of JSON lines lacks; leave out labels that are not wanted."""
        present = set(batch.schema.names)
        if not self.options.labels:
            batch = batch.select([name for name in self.known.needed() if name in present])
        for name in self.known.needed():
            if name not in present:
                batch = batch.append_column(name, pa.nulls(len(batch)))
        return batch

    def _kind(self, path: str) -> str:
        """The format of a file: csv if neither the options nor its name tell."""
        if self.options.format != "auto":
            return self.options.format
        kind = named_format(path)
        return kind if kind is not None and FORMATS[kind].reader == __name__ else "csv"

    def _batches(self, file: str, source: str) -> Iterator[Any]:
        kind = self._kind(source)
        try:
            if kind == "jsonl":
                for chunk in line_chunks(file, min(JSON_BYTES, self.options.block_bytes)):
                    batch, bad = json_lines.parse(chunk, source, self.options.max_bad_lines - self.bad_lines, self.json)
                    self.bad_lines += bad
                    if batch is not None:
                        yield batch
            elif kind in ("parquet", "arrow"):
                columns = None if self.encoding is None else self.encoding.wanted(self.options.labels)
                yield from _binary(_seekable(file), source, kind, columns)
            else:
                with open_bytes(file) as stream:
                    yield from csv.batches(stream, file, source, self.csv)
                self.bad_lines = self.csv.bad_lines
        except MemoryError:
            raise  # pyarrow's MemoryError is also an ArrowException
        except OSError as error:
            raise cannot_read(source, error) from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{source}: {str(error).splitlines()[0]}") from error


def _seekable(path: str) -> Any:
    if path == STDIN or is_compressed(path):
        with open_bytes(path) as stream:
            return pa.BufferReader(stream.read())
    return pa.OSFile(path)  # never mapped: another process could cut the file


def _binary(data: Any, source: str, kind: str, wanted: list[str] | None) -> Iterator[Any]:
    """The batches of a Parquet or Arrow file, read and decoded piece by piece."""
    if kind == "parquet":
        import pyarrow.parquet as parquet

        file = parquet.ParquetFile(data)
        present = set(file.schema_arrow.names)
        _refuse_repeated(file.schema_arrow.names, source)
        columns = wanted
        if wanted is not None:
            columns = [name for name in wanted if not present.isdisjoint(frames.roots_of([name]))]
            columns += sorted(frames.nulls_of(file.schema_arrow) & frames.roots_of(wanted) - set(wanted))
        yield from file.iter_batches(max(1024, BATCH_CELLS // max(1, len(columns or present))), columns=columns)
        return
    try:
        file = pa.ipc.open_file(data)
        batches = (file.get_batch(i) for i in range(file.num_record_batches))
    except pa.ArrowInvalid:
        data.seek(0)
        file = batches = pa.ipc.open_stream(data)
    if LAYOUT_KEY in (file.schema.metadata or {}):
        raise DataError(f"{source} is a converted file: decompress it, and name it instead of a pipe")
    _refuse_repeated(file.schema.names, source)
    for batch in batches:
        batch.validate(full=True)  # offsets and dictionary codes of a damaged file could point outside of its arrays
        step = max(1024, BATCH_CELLS // max(1, batch.num_columns))
        yield from (batch.slice(start, step) for start in range(0, len(batch), step))


def _refuse_repeated(names: list[str], source: str) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{source}: two columns have the name {twice[0]!r}")


def _dataset(encoding: Encoding, parts: list[Part], X: Any, bad_lines: int) -> Dataset:
    """The dataset of some encoded parts; `X` is given if it is joined already."""
    if X is None:
        X = stack([part.X for part in parts])
    y = stack([part.y for part in parts]) if all(part.y is not None for part in parts) else None
    weights = stack([part.weights for part in parts])
    schema = encoding.schema()
    unseen: dict[str, int] = {}
    for part in parts:
        for name, count in part.unseen.items():
            unseen[name] = unseen.get(name, 0) + count
    if unseen:
        schema.settings["unseen"] = unseen
    return Dataset(X, y, weights, encoding.feature_names(), encoding.class_names, None, schema, bad_lines)
