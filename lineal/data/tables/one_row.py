"""One row of a table in memory, encoded cell by cell: Arrow and narwhals take longer per column than a cell needs.

Cells of the common Python types are encoded here, with the same results as in `Encoding.encode`. Any other cell goes
that way, column by column, and so does all that is an error.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lineal.data.tables import dates, frames
from lineal.data.tables.cells import BatchPlace
from lineal.data.tables.columns import Column
from lineal.data.tables.matrices import beside, csr_of_slots

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding

#: The place of the row, for messages.
PLACE = BatchPlace(frames.SOURCE, 0)

#: Integers below this are 64-bit integers in Arrow.
INTEGERS = 1 << 63

EPOCH = datetime.datetime(1970, 1, 1)
SECOND, SECONDS_PER_DAY = datetime.timedelta(seconds=1), 86_400


class Row(NamedTuple):
    """One row.

    cells : values by the name of their column.
    column : the column of a name as Arrow has it, of length 1.
    has_nan : whether NaN is a number of its own and not a missing cell, as in polars and Arrow.
    has_floats : whether the text of a whole float is that of the integer; that of a category of pandas is not.
    """

    cells: dict[str, Any]
    column: Callable[[str], Any]
    has_nan: bool
    has_floats: bool


class Missing:
    """A cell that is missing."""


def row_of_record(record: dict[str, Any]) -> Row:
    """The row that a dict is."""
    return Row(record, lambda name: frames.column_of([record[name]], name), False, True)


def row_of_frame(frame: Any) -> Row | None:
    """The row of a table of pandas, polars or PyArrow that has one; None for others, and for names that occur twice."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    values: Any
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        if len(frame) != 1:
            return None
        names, values, has_nan = frame.columns.tolist(), frame.to_numpy(dtype=object)[0], False
    elif polars is not None and isinstance(frame, polars.DataFrame):
        if len(frame) != 1:
            return None
        names, values, has_nan = frame.columns, frame.row(0), True
    elif isinstance(frame, pa.Table | pa.RecordBatch) and frame.num_rows == 1:
        try:
            names, values, has_nan = frame.schema.names, [column[0].as_py() for column in frame.columns], True
        except (ValueError, pa.ArrowException):  # nanoseconds, for example, which Python's times do not have
            return None
    else:
        return None
    cells = dict(zip(names, values))
    if len(cells) < len(names) or not all(type(name) is str for name in names):
        return None
    has_floats = has_nan and not isinstance(frame, pa.Table | pa.RecordBatch)  # a dictionary could have floats
    return Row(cells, lambda name: frames.one_cell(frame, name), has_nan, has_floats)


class RowEncoder:
    """Encodes single rows as an `Encoding` does.

    Parameters
    ----------
    encoding : one with a `Column` for each column of the table (`Encoding.single`).
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        needed = encoding.needed()
        self._objects = frames.roots_of(needed) - set(needed)
        self._columns = [
            (column, first, {value: place for place, value in enumerate(column.values)})
            for column, first in zip(encoding.columns, encoding.offsets)
        ]

    def encode(self, row: Row) -> Any:
        """X of the row; None if it lacks columns, or if some could be fields of objects."""
        if not self._objects.isdisjoint(row.cells):
            return None
        slots = _Slots(self.encoding)
        words: list[Any] = []
        for column, first, places in self._columns:
            if column.name not in row.cells:
                return None
            cell = _plain(row.cells[column.name], row.has_nan)
            if type(cell) is dict:
                return None
            if column.kind == "text":
                continue
            if cell is Missing and self.encoding.missing == "error":
                is_put = False
            elif column.kind == "category":
                is_put = slots.put_category(column, first, places, cell, row.has_floats)
            elif column.kind == "date":
                is_put = slots.put_date(column, first, cell)
            else:
                is_put = slots.put_number(column, first, cell)
            if not is_put:
                slots.put_pieces(self.encoding.pieces_of(column, first, row.column(column.name), PLACE, {}))
        for column, terms in self.encoding.texts:
            cell = row.cells[column.name]
            cells = pa.array([cell], pa.large_string()) if _is_text(cell) else row.column(column.name)
            words.append(terms.rows_of(cells, column.name, PLACE))
        return slots.matrix(words)


class _Slots:
    """Columns of X and their values, for one row."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.where: list[int] = []
        self.values: list[float] = []
        self.keys: list[str] = []
        self.key_slots: list[int] = []

    def put(self, where: int, value: float) -> None:
        self.where.append(where)
        self.values.append(value)

    def put_pieces(self, pieces: Any) -> None:
        """Put what `Encoding.pieces_of` makes of one row."""
        for where, values in pieces:
            self.put(int(where[0]) if isinstance(where, np.ndarray) else where, float(values[0]))

    def put_number(self, column: Column, first: int, cell: Any) -> bool:
        """Put a number or a boolean; returns False for cells of other types."""
        if cell is Missing:
            number = column.fill
        elif type(cell) is float:
            number = column.fill if cell != cell else cell
        elif type(cell) is bool or (type(cell) is int and -INTEGERS <= cell < INTEGERS):
            number = float(cell)
        else:
            return False
        is_gap = cell is Missing or cell != cell
        if math.isinf(number) or (is_gap and self.encoding.missing == "error"):
            return False
        self.put(first, (number - column.shift) / column.scale if column.is_scaled else number)
        if column.indicator:
            self.put(first + 1, float(is_gap))
        return True

    def put_category(self, column: Column, first: int, places: dict[str, int], cell: Any, has_floats: bool) -> bool:
        """Put a category; returns False for cells of other types."""
        encoding = self.encoding
        text = None if cell is Missing else _text_of(cell, has_floats)
        if text is None and cell is not Missing:
            return False
        is_missing = text is None or text in encoding.nulls
        if is_missing and encoding.missing == "error":
            return False
        if encoding.hashes:
            self.key_slots.append(len(self.where))
            self.keys.append(f"{column.name} is missing" if is_missing else f"{column.name}={text}")
            self.put(0, float(column.indicator if is_missing else True))
        elif column.width:
            rest = len(column.values)
            if is_missing:
                self.put(first + rest + column.other if column.indicator else first, float(column.indicator))
            elif text in places:
                self.put(first + places[text], 1.0)
            else:
                self.put(first + rest if column.other else first, float(column.other))
        return True

    def put_date(self, column: Column, first: int, cell: Any) -> bool:
        """Put a date or a time without a zone; returns False for cells of other types."""
        seconds = 0 if cell is Missing else _seconds_of(cell)
        if seconds is None:
            return False
        self.put_pieces(dates.pieces_of(np.array([seconds]), np.array([cell is Missing]), column, first))
        return True

    def matrix(self, words: list[Any]) -> Any:
        """The row of X, beside those of texts."""
        encoding = self.encoding
        if self.keys:
            from lineal.data.tables.hashing import hash_strings

            hashed = encoding.offsets[-1] + hash_strings(pa.array(self.keys, pa.large_string()), encoding.bits)
            for slot, where in zip(self.key_slots, hashed.tolist()):
                self.where[slot] = where if self.values[slot] else 0
        where = np.array([self.where], np.int32)
        with np.errstate(over="ignore"):  # float32 infinities are found, and named, by the check of the scores
            values = np.array([self.values], np.float64).astype(encoding.dtype)
        if not encoding.sparse:
            X = np.zeros((1, encoding.n_features), encoding.dtype)
            X[0, where[0]] = values[0]
            return X
        X = csr_of_slots(where, values, encoding.n_features, merge=encoding.hashes)
        return beside([X, *words], encoding.n_features) if words else X


def _plain(cell: Any, has_nan: bool) -> Any:
    """A cell as Python has it, or `Missing`."""
    if isinstance(cell, np.generic) and cell.dtype.kind in "biufU":
        cell = cell.item()
    if cell is None or (type(cell) is float and cell != cell and not has_nan):
        return Missing
    pandas = sys.modules.get("pandas")
    return Missing if pandas is not None and (cell is pandas.NA or cell is pandas.NaT) else cell


def _is_text(cell: Any) -> bool:
    return type(cell) is str and (cell.isascii() or _is_unicode(cell))


def _text_of(cell: Any, has_floats: bool) -> str | None:
    """The text of a category; None for cells of other types."""
    kind = type(cell)
    if kind is str:
        return cell.strip() if _is_text(cell) else None
    if kind is bool:
        return "true" if cell else "false"
    if kind is int:
        return str(cell) if -INTEGERS <= cell < INTEGERS else None
    if kind is float and has_floats and abs(cell) < 1e15 and cell == int(cell):
        return str(int(cell))
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seconds_of(cell: Any) -> int | None:
    """Seconds since 1970 of a date, or of a time without a zone and parts of seconds; None for other cells."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and type(cell) is pandas.Timestamp:
        if cell.nanosecond or cell.tzinfo is not None:
            return None
        cell = cell.to_pydatetime(warn=False)
    if type(cell) is str and cell.isascii() and len(cell) == 10 and cell[4] == cell[7] == "-":
        try:
            cell = datetime.date.fromisoformat(cell)
        except ValueError:
            return None
    if type(cell) is datetime.datetime:
        return None if cell.tzinfo is not None or cell.microsecond else (cell - EPOCH) // SECOND
    return (cell - EPOCH.date()).days * SECONDS_PER_DAY if type(cell) is datetime.date else None
