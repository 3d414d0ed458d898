"""Documents as UTF-8 bytes and offsets, from lists, arrays, and columns of tables, a few megabytes at a time.

The strings of an Arrow column are used as they are. Other documents are copied, chunk by chunk.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from lineal.errors import DataError, OptionError

#: Bytes of a chunk, roughly, and documents of the first one.
CHUNK, FIRST_COUNT = 1 << 22, 1 << 10

DECODE_ERRORS = ("strict", "ignore", "replace")


class Documents:
    """Document i is data[offsets[i]:offsets[i + 1]], in UTF-8: bytes, and offsets of type int64.

    Kernels see the arrays as read-only, whatever they are: so they are compiled once.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data.view(), offsets.view()
        self.data.flags.writeable = self.offsets.flags.writeable = False

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Chunks(NamedTuple):
    """Documents that come one chunk after the other, for example from a file."""

    parts: Iterable[Documents]


@runtime_checkable
class _HasArrow(Protocol):
    """A column that gives its Arrow data, as those of pandas, polars and PyArrow do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream of the Arrow C data interface."""


@runtime_checkable
class _HasShape(Protocol):
    """An array or a table."""

    shape: tuple[int, ...]


def chunks_of(X: Any, decode_error: str = "strict") -> Iterator[Documents]:
    """The documents X, in chunks; an error names the first row that is not a text."""
    if isinstance(X, Documents):
        yield X
        return
    if isinstance(X, Chunks):
        yield from X.parts
        return
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise DataError(
            f"X is {_shown(X)}: expected the documents, a list or a column of strings (for one document, [text])"
        )
    if isinstance(X, _HasShape) and len(X.shape) != 1:
        X = _only_column(X)
    if isinstance(X, pa.Array | pa.ChunkedArray):
        column: Any = X
    elif isinstance(X, _HasArrow) and not isinstance(X, np.ndarray) and (found := _as_arrow(X)) is not None:
        column = found
    else:
        yield from _from_objects(X.tolist() if isinstance(X, np.ndarray) else X, decode_error)
        return
    first = 0
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(part):
            yield _of_arrow(part, first, decode_error)
        first += len(part)


def _only_column(X: Any) -> Any:
    """The column of a table or an array that has one."""
    if len(X.shape) != 2 or X.shape[1] != 1:
        raise DataError(
            f"X has the shape {tuple(X.shape)}: expected the documents, one text per row. Of a table, give the column "
            "of the texts, for example table['text']"
        )
    if isinstance(X, np.ndarray):
        return X[:, 0]
    try:
        return pa.table(X).column(0)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise DataError(f"the column of X is not a column of texts: {error}") from None


def _as_arrow(X: Any) -> Any:
    """An Arrow column of strings; None for columns of Python objects, which can hold anything."""
    try:
        column = pa.chunked_array(X)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None
    return None if pa.types.is_null(column.type) and len(X) else column


def _from_objects(X: Iterable[Any], decode_error: str) -> Iterator[Documents]:
    rows, first, count = iter(X), 0, FIRST_COUNT
    while part := list(itertools.islice(rows, count)):
        documents = _of_list(part, first, decode_error)
        yield documents
        first += len(part)
        size = int(documents.offsets[-1] - documents.offsets[0])
        count = int(np.clip(CHUNK * len(part) // max(size, 1), 64, 1 << 20))


def _of_list(part: list[Any], first: int, decode_error: str) -> Documents:
    if isinstance(part[0], bytes):
        column = _binary(part)
    else:
        column = None
        try:
            column = pa.array(part, pa.large_string())
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError, OverflowError):
            column = _binary(part)
    if column is None:
        return _by_row(part, first, decode_error)
    return _of_arrow(column, first, decode_error)


def _binary(part: list[Any]) -> Any:
    try:
        return pa.array(part, pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError, OverflowError):
        return None


def _of_arrow(column: Any, first: int, decode_error: str) -> Documents:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        raise DataError(f"row {row} has no text (it is missing): fill it, for example with '', or drop the row")
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not is_text and not is_bytes:
        raise DataError(f"the documents are of type {kind}, not texts: give a column of strings")
    if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.large_string() if is_text else pa.large_binary())
    if is_bytes:
        try:
            column.cast(pa.large_string())  # checks the bytes
        except pa.ArrowInvalid:
            return _by_row(column.to_pylist(), first, decode_error)
    _, offsets, data = column.buffers()
    bounds: np.ndarray = np.zeros(1, np.int64)
    if offsets is not None and len(column):
        bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    text: np.ndarray = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Documents(text, bounds)


def _by_row(part: list[Any], first: int, decode_error: str) -> Documents:
    """Documents that need a look at each: strings with halves of surrogate pairs, bytes that are not UTF-8."""
    found = []
    for place, document in enumerate(part):
        if isinstance(document, str):
            found.append(document.encode("utf-8", "surrogatepass"))
        elif isinstance(document, bytes):
            found.append(_decoded(document, first + place, decode_error))
        elif document is None or document != document:
            raise DataError(
                f"row {first + place} has no text (it is {document!r}): fill it, for example with '', or drop the row"
            )
        else:
            raise DataError(f"row {first + place} is {_shown(document)}, not a text: write it as a string")
    offsets: np.ndarray = np.zeros(len(found) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, found), np.int64, len(found)), out=offsets[1:])
    return Documents(np.frombuffer(b"".join(found), np.uint8), offsets)


def _decoded(document: bytes, row: int, decode_error: str) -> bytes:
    try:
        return document.decode("utf-8", decode_error).encode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"row {row} is not UTF-8: {error.reason} at byte {error.start}; decode it as what it is, or set "
            "decode_error='replace' or 'ignore'"
        ) from None


def check_decode_error(value: Any) -> None:
    """Refuse a value that is not a way to handle bytes that are not UTF-8."""
    if value not in DECODE_ERRORS:
        raise OptionError(f"decode_error={value!r} must be one of {', '.join(map(repr, DECODE_ERRORS))}")


def _shown(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 60 else text[:60] + "…"
