"""CSV files with very many columns of numbers, whose cells are parsed together, as one long column.

Every column costs pyarrow and Python some microseconds and kilobytes. In a file with a million columns and a few rows
that is more than the cells cost. So the numbers of such a file are one column of lists in its record batches, named
`NUMBERS`. Pieces with anything else (quotes, missing cells, text, rows of other lengths) are left to the usual parser.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from lineal.data.source import BYTE_ORDER_MARK

#: Files with fewer columns are always parsed column by column.
MIN_COLUMNS = 10_000

#: The name of the column that holds the numbers of each row. Model files store it.
NUMBERS = "\0numbers"

#: A delimiter that does not occur: pyarrow needs one.
NO_DELIMITER = "\x1f"


def parse_numbers(
    piece: bytes, delimiter: str, width: int, columns: np.ndarray, label: tuple[str, int] | None, nulls: list[str]
) -> Any:
    """The rows of a piece as a record batch with `NUMBERS`, and the label as text; None if the piece has anything else.

    `columns` are the positions of the numbers among the `width` cells of each row; `label` is a name and a position.
    """
    text = piece.strip(b"\r\n").replace(b"\r\n", b"\n")
    if b'"' in text or b"\r" in text or NO_DELIMITER.encode() in text or text.startswith(BYTE_ORDER_MARK):
        return None
    n = text.count(b"\n") + 1
    if not _is_regular(text, delimiter, n, width):
        return None
    try:
        cells = _cells(text.replace(delimiter.encode(), b"\n") + b"\n", nulls)
        values = _numbers(_picked(cells, n, width, columns))
    except pa.ArrowInvalid:
        return None
    if values.null_count:
        return None
    batch = {NUMBERS: pa.FixedSizeListArray.from_arrays(values, len(columns))}
    if label is not None:
        batch[label[0]] = _picked(cells, n, width, np.array([label[1]]))
    return pa.RecordBatch.from_pydict(batch)


def _is_regular(text: bytes, delimiter: str, n: int, width: int) -> bool:
    """Whether each of the n rows has `width` cells."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((data == ord(delimiter)) | (data == ord("\n")))
    return ends.size == n * width - 1 and bool((data[ends[width - 1 :: width]] == ord("\n")).all())


def _cells(lines: bytes, nulls: list[str]) -> Any:
    table = arrow_csv.read_csv(
        pa.BufferReader(lines),
        arrow_csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=["cell"]),
        arrow_csv.ParseOptions(delimiter=NO_DELIMITER, quote_char=False, ignore_empty_lines=False),
        arrow_csv.ConvertOptions(column_types={"cell": pa.large_string()}, null_values=nulls, strings_can_be_null=True),
    )
    return table.column(0).combine_chunks()


def _picked(cells: Any, n: int, width: int, columns: np.ndarray) -> Any:
    places = np.arange(n, dtype=np.int64)[:, None] * width + columns
    return cells.take(pa.array(places.reshape(-1)))


def _numbers(cells: Any) -> Any:
    try:
        return cells.cast(pa.float64())
    except pa.ArrowInvalid:
        return pc.utf8_trim_whitespace(cells).cast(pa.float64())


def matrix_of(cells: Any) -> np.ndarray:
    """The numbers of a column `NUMBERS` as a (rows, columns) matrix."""
    return cells.flatten().to_numpy(zero_copy_only=False).reshape(len(cells), cells.type.list_size)


def gathered(batch: Any, names: list[str], label: str | None) -> Any:
    """The rows of a batch with `NUMBERS` instead of the columns of these names, which are numbers."""
    columns = [batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
    values = pa.array(np.column_stack(columns).reshape(-1))
    parts = {NUMBERS: pa.FixedSizeListArray.from_arrays(values, len(names))}
    if label is not None and label in batch.schema.names:
        parts[label] = batch.column(label)
    return pa.RecordBatch.from_pydict(parts)
