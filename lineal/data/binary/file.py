"""`LayoutFile`: an open file in the binary layout, with its description and its columns, which are read on demand.

The metadata of an Arrow file says where every column is. It is copied to an empty file of the same size, whose holes
take neither memory nor disk space, and pyarrow reads it there. Mapping the file itself would be simpler, but if another
process cut the file, the system would kill this process.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lineal.data.binary import checks
from lineal.data.dataset import Dataset, csr_of_parts
from lineal.data.formats import ARROW_MAGIC, LAYOUT_KEY
from lineal.data.schema import Schema
from lineal.data.source import PlainFile
from lineal.errors import DataError

VERSION = 1

#: Errors that a damaged file can cause: for example, its JSON may be nested too deeply, or its numbers be too large.
DAMAGE = (
    pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError, RecursionError,
    struct.error,
)  # fmt: skip


class Vector:
    """The numbers of one column: read from the file in parts or as a whole, or mapped."""

    def __init__(self, file: PlainFile, start: int, dtype: Any, count: int, view: np.ndarray | None) -> None:
        self._file, self._start, self.dtype, self._count = file, start, np.dtype(dtype), count
        self._view = view
        self._loaded: np.ndarray | None = None

    def __len__(self) -> int:
        return self._count

    def part(self, first: int, last: int, room: Buffer | None = None) -> np.ndarray:
        """Some of the numbers, read from the file and not from the map, whose pages would then count as used memory.

        With `room`, they are written there, over what was read into it before.
        """
        if self._loaded is not None:
            return self._loaded[first:last]
        count = max(last - first, 0)
        values = np.empty(count, self.dtype) if room is None else room.take(count, self.dtype)
        self.read_into(values, first)
        values.flags.writeable = False
        return values

    def read_into(self, out: np.ndarray, first: int) -> None:
        """Fill an array of the same type with the numbers from `first` on."""
        self._file.read_into(out.view(np.uint8), self._start + first * self.dtype.itemsize)

    def will_need(self, first: int, last: int) -> None:
        """Ask the system to read some of the numbers soon."""
        start, size = self._start, self.dtype.itemsize
        self._file.will_need(start + first * size, start + last * size)

    def whole(self) -> np.ndarray:
        """All numbers, read-only."""
        if self._view is not None:
            return self._view
        if self._loaded is None:
            self._loaded = self.part(0, self._count)
        return self._loaded


class Buffer:
    """Memory for some numbers, which is used again for the next ones."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def take(self, count: int, dtype: np.dtype[Any]) -> np.ndarray:
        """Memory for `count` numbers; it grows if it is too small."""
        size = count * dtype.itemsize
        if self._bytes.size < size:
            self._bytes = np.empty(0, np.uint8)  # the old memory is free before the new one is taken
            self._bytes = np.empty(size + size // 8, np.uint8)
        return self._bytes[:size].view(dtype)


class Room:
    """Memory for the features of one block, of any file, which is used again for the next block."""

    def __init__(self) -> None:
        self.values, self.indices = Buffer(), Buffer()


def _skeleton(file: PlainFile) -> mmap.mmap:
    """A map as long as an Arrow file, with the metadata in its places and holes for the columns."""
    size, path = file.size, file.path
    ends = len(ARROW_MAGIC) + 4
    if (
        size < 2 * ends
        or file.bytes_at(0, len(ARROW_MAGIC)) != ARROW_MAGIC
        or file.bytes_at(size - len(ARROW_MAGIC), size) != ARROW_MAGIC
    ):
        raise DataError(f"{path} is cut or damaged: an Arrow file begins and ends with {ARROW_MAGIC.decode()}")
    (length,) = struct.unpack("<i", file.bytes_at(size - ends, size - len(ARROW_MAGIC)))
    footer = size - ends - length
    if not 8 <= footer <= size - ends:
        raise DataError(f"{path} is damaged: its footer has {length} bytes")
    with _file_of_holes(path, size) as copy:
        _copy(file, footer, size, copy)
        pages = mmap.mmap(copy.fileno(), size, access=mmap.ACCESS_READ)
        schema = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(pages))).schema
        _copy(file, 0, min(_columns_start(file, schema, footer), footer), copy)
    return pages


@contextmanager
def _file_of_holes(path: str, size: int) -> Iterator[Any]:
    """A file without a name and without contents, as long as the one at `path`."""
    with _explained(path):
        copy = _nameless()
    with copy:
        with _explained(path):
            copy.truncate(size)
        yield copy


def _nameless() -> Any:
    """A file without a name: in memory, where the system has such files, so that it does not depend on any disk."""
    if sys.platform == "linux":
        with suppress(OSError):
            return open(os.memfd_create("lineal"), "w+b", buffering=0)
    return tempfile.TemporaryFile(prefix="lineal-", buffering=0)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """A context whose errors say that it is a temporary file that failed, and not the one at `path`."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"opening {path} needs a temporary file ({error.strerror or error}): free some space, or set TMPDIR to a "
            "folder that can be written"
        ) from error


def _columns_start(file: PlainFile, schema: Any, footer: int) -> int:
    """The position where the columns begin: after the schema, the texts of labels and the list of columns."""
    at, texts = 8, sum(pa.types.is_dictionary(column.type) for column in schema)
    for number in range(texts + 2):
        if at + 8 > footer:
            raise DataError(f"{file.path} is damaged: its metadata ends too early")
        mark, length = struct.unpack("<Ii", file.bytes_at(at, at + 8))
        stop = at + 8 + length
        if mark != 0xFFFFFFFF or not at + 8 <= stop <= footer:
            raise DataError(f"{file.path} is damaged: its metadata is not where it should be")
        if 0 < number <= texts:
            with pa.OSFile(file.path) as source:
                source.seek(at)
                pa.ipc.read_message(source)
                stop = source.tell()
        at = stop
    return at


def _copy(file: PlainFile, start: int, stop: int, target: Any) -> None:
    target.seek(start)
    for first in range(start, stop, checks.CHECK_STEP):
        data = memoryview(file.bytes_at(first, min(first + checks.CHECK_STEP, stop)))
        with _explained(file.path):
            while data:
                data = data[target.write(data) :]


def description(metadata: dict[bytes, bytes], path: str) -> dict[str, Any]:
    """The description of a converted file from its metadata, or an error that says why it cannot be used."""
    if LAYOUT_KEY not in metadata:
        raise DataError(f"{path} is an ordinary Arrow table, not a converted file: read it with lineal.read")
    about = json.loads(metadata[LAYOUT_KEY])
    if not isinstance(about, dict) or not isinstance(about.get("version"), int):
        raise DataError(f"{path} is damaged: its description has no version")
    if about["version"] > VERSION:
        raise DataError(
            f"{path} has layout version {about['version']}, newer than this lineal's {VERSION}: update lineal"
        )
    return about


class LayoutFile:
    """The record batch of a file with its description. Opening it checks everything that is cheap to check."""

    def __init__(self, path: str, mapped: bool) -> None:
        self.path, self.file, self.is_mapped = path, PlainFile(path), mapped
        if mapped and self.file.size:
            with open(path, "rb") as file:
                pages = mmap.mmap(file.fileno(), self.file.size, access=mmap.ACCESS_READ)
        else:
            pages = _skeleton(self.file)
        self.pages = pages
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(pages)))
        self.about = description(reader.schema.metadata or {}, path)
        if reader.num_record_batches != 1:
            raise DataError(f"{path} is damaged: {reader.num_record_batches} record batches instead of one")
        self.batch = reader.get_batch(0)
        self.batch.validate()
        self.n, self.d = int(self.about["n_rows"]), int(self.about["n_features"])
        self.base = pa.py_buffer(pages).address
        if self.n != self.batch.num_rows or self.n < 1 or self.d < 1:
            raise DataError(f"{path} is damaged: {self.batch.num_rows} rows instead of {self.n}")
        self._describe()
        self._find_columns()

    def _describe(self) -> None:
        about = self.about
        feature_names, class_names = about.get("feature_names"), about.get("class_names")
        if feature_names is not None:
            if not isinstance(feature_names, list) or not all(isinstance(name, str) for name in feature_names):
                raise DataError(f"{self.path} is damaged: its feature_names are no list of texts")
            if len(feature_names) != self.d:
                raise DataError(f"{self.path} is damaged: {len(feature_names)} names for {self.d} columns")
        if class_names is not None and not isinstance(class_names, list):
            raise DataError(f"{self.path} is damaged: its class_names are no list")
        schema = None if about.get("schema") is None else Schema.from_json(about["schema"])
        if schema is not None and schema.width != self.d:
            raise DataError(f"{self.path} is damaged: its schema has {schema.width} columns instead of {self.d}")
        self.feature_names, self.class_names, self.schema = feature_names, class_names, schema

    def _find_columns(self) -> None:
        names = self.batch.schema.names
        self.is_sparse = "indices" in names
        self.offsets: Vector | None = None
        self.twin: Vector | None = None
        self.indices: Vector | None = None
        self.label_offsets: Vector | None = None
        self.texts: np.ndarray | None = None
        if self.is_sparse:
            self.offsets, self.indices = self._lists("indices", ("int32", "int64"))
            self.twin, self.values = self._lists("values", ("float", "double"))
            if len(self.values) != len(self.indices):
                raise DataError(f"{self.path} is damaged: {len(self.indices)} indices, but {len(self.values)} values")
        else:
            self.values = self._dense()
        self.label = self._label() if "label" in names else None
        self.weight = self._vector("weight", "double") if "weight" in names else None
        self.query = self._vector("qid", "int64") if "qid" in names else None

    def _view(self, array: Any, dtype: Any) -> Vector:
        """A plain column as a vector."""
        if array.null_count or array.offset:
            raise DataError(f"{self.path} is damaged: missing values")
        values, dtype = array.buffers()[-1], np.dtype(dtype)
        if len(array) == 0:
            return Vector(self.file, 0, dtype, 0, np.empty(0, dtype))
        start = values.address - self.base
        if not 0 <= start <= self.file.size - values.size or len(array) * dtype.itemsize > values.size:
            raise DataError(f"{self.path} is damaged: compressed")
        view = np.frombuffer(values, dtype=dtype, count=len(array)) if self.is_mapped else None
        return Vector(self.file, start, dtype, len(array), view)

    def _vector(self, name: str, expected: str) -> Vector:
        array = self.batch.column(name)
        if str(array.type) != expected:
            raise DataError(f"{self.path} is damaged: column {name!r} has type {array.type}, expected {expected}")
        return self._view(array, array.type.to_pandas_dtype())

    def _lists(self, name: str, allowed: tuple[str, ...]) -> tuple[Vector, Vector]:
        """The offsets and the flat values of a list column."""
        array = self.batch.column(name)
        kind = array.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or str(kind.value_type) not in allowed:
            raise DataError(f"{self.path} is damaged: column {name!r} has type {kind}")
        if array.null_count or array.offset:
            raise DataError(f"{self.path} is damaged: missing values")
        offsets = self._view(array.offsets, np.int64 if pa.types.is_large_list(kind) else np.int32)
        flat = self._view(array.values, kind.value_type.to_pandas_dtype())
        if len(offsets) != self.n + 1 or offsets.part(0, 1)[0] != 0 or offsets.part(self.n, self.n + 1)[0] != len(flat):
            raise DataError(f"{self.path} is damaged: the offsets of {name!r} do not match its {len(flat)} entries")
        return offsets, flat

    def _dense(self) -> Vector:
        array = self.batch.column("values")
        kind = array.type
        if not pa.types.is_fixed_size_list(kind) or str(kind.value_type) not in ("float", "double"):
            raise DataError(f"{self.path} is damaged: column 'values' has type {kind}")
        if kind.list_size != self.d or array.null_count or array.offset or len(array.values) != self.n * self.d:
            raise DataError(f"{self.path} is damaged: rows of {kind.list_size} values instead of {self.d}")
        return self._view(array.values, kind.value_type.to_pandas_dtype())

    def _label(self) -> Vector:
        array = self.batch.column("label")
        kind = str(array.type)
        if self.class_names is not None:
            self.label_offsets, codes = self._lists("label", ("int32",))
            return codes
        if kind in ("int32", "int64", "uint64", "double", "uint8"):
            return self._vector("label", kind)
        if kind != "dictionary<values=string, indices=int32, ordered=0>":
            raise DataError(f"{self.path} is damaged: column 'label' has type {kind}")
        array.dictionary.validate(full=True)
        self.texts = np.array(array.dictionary.to_pylist(), dtype=np.str_)
        return self._view(array.indices, np.int32)

    def dataset(self) -> Dataset:
        """All rows, as views of the map or as arrays in memory."""
        values, shape = self.values.whole(), (self.n, self.d)
        if self.offsets is None or self.indices is None:
            X = values.reshape(shape)
        else:
            X = csr_of_parts(values, self.indices.whole(), self.offsets.whole(), shape)
        label_offsets = None if self.label_offsets is None else self.label_offsets.whole()
        whole = [None if vector is None else vector.whole() for vector in (self.label, self.weight, self.query)]
        return self._dataset(self.n, X, label_offsets, whole, int(self.about.get("bad_lines", 0)))

    def rows(self, start: int, stop: int) -> Dataset:
        """Some rows, read into new memory."""
        return replace(self.labels(start, stop), X=self.matrix(start, stop))

    def matrix(self, start: int, stop: int, room: Room | None = None) -> Any:
        """The features of some rows, read into new memory or into `room`."""
        for_values, for_indices = (None, None) if room is None else (room.values, room.indices)
        if self.offsets is None or self.indices is None:
            return self.values.part(start * self.d, stop * self.d, for_values).reshape(stop - start, self.d)
        offsets, entries = _shifted(self.offsets, start, stop, len(self.values), self.path)
        values, indices = self.values.part(*entries, for_values), self.indices.part(*entries, for_indices)
        return csr_of_parts(values, indices, offsets, (stop - start, self.d))

    def entries(self, start: int, stop: int) -> tuple[np.ndarray | None, int, int]:
        """Offsets of some sparse rows, counted from 0 (None for dense rows), and the span of their entries."""
        if self.offsets is None or self.indices is None:
            return None, start * self.d, stop * self.d
        offsets, (first, last) = _shifted(self.offsets, start, stop, len(self.values), self.path)
        return offsets, first, last

    def will_need(self, start: int, stop: int) -> None:
        """Ask the system to read the features of some rows soon."""
        if self.offsets is None or self.indices is None:
            self.values.will_need(start * self.d, stop * self.d)
            return
        first, last = (int(self.offsets.part(row, row + 1)[0]) for row in (start, stop))
        self.values.will_need(first, last)
        self.indices.will_need(first, last)

    def labels(self, start: int, stop: int) -> Dataset:
        """Labels, weights and query ids of some rows, without their features: X is None."""
        label_offsets, label_entries = None, (start, stop)
        if self.label_offsets is not None and self.label is not None:
            label_offsets, label_entries = _shifted(self.label_offsets, start, stop, len(self.label), self.path)
        spans = zip((self.label, self.weight, self.query), (label_entries, (start, stop), (start, stop)))
        parts = [None if vector is None else vector.part(*span) for vector, span in spans]
        bad_lines = 0 if start else int(self.about.get("bad_lines", 0))
        return self._dataset(stop - start, None, label_offsets, parts, bad_lines)

    def _dataset(self, n: int, X: Any, label_offsets: Any, columns: list[Any], bad_lines: int) -> Dataset:
        label, weights, queries = columns
        if label_offsets is not None:
            shape = (n, len(self.class_names or []))
            label = csr_of_parts(np.ones(len(label), dtype=bool), label, label_offsets, shape)
        elif self.texts is not None:
            if len(label) and not 0 <= int(label.min()) <= int(label.max()) < len(self.texts):
                raise DataError(f"{self.path} is damaged: a label is none of its {len(self.texts)} texts")
            label = self.texts[label]
        elif label is not None and label.dtype == np.uint8:
            label = label != 0
        return Dataset(X, label, weights, self.feature_names, self.class_names, queries, self.schema, bad_lines)

    def block_end(self, start: int, block_bytes: int) -> int:
        """The end of the block of rows that begins at `start`: at most `block_bytes`, but at least one row."""
        if self.offsets is None or self.indices is None:
            return min(self.n, start + max(1, block_bytes // max(1, self.d * self.values.dtype.itemsize)))
        size = self.values.dtype.itemsize + self.indices.dtype.itemsize
        stop = min(self.n, start + max(1, block_bytes // 4))  # empty rows take memory, too
        first, end = int(self.offsets.part(start, start + 1)[0]), start
        while end < stop:
            last = min(end + checks.CHECK_STEP, stop)
            ends = self.offsets.part(end + 1, last + 1)
            fits = int(np.searchsorted(ends, first + block_bytes // size, side="right"))
            end += fits
            if fits < len(ends):
                break
        return max(end, start + 1)

    def check_contents(self) -> None:
        """Check every row offset and column index, and that the offsets of indices and values are the same."""
        sections = [(self.offsets, self.indices, self.d), (self.label_offsets, self.label, len(self.class_names or []))]
        for offsets, indices, bound in sections:
            if offsets is not None and indices is not None:
                checks.check_rows(offsets.part, len(offsets), indices.part, len(indices), bound, self.path)
        for start in range(0, self.n + 1, checks.CHECK_STEP):
            self.check_twins(start, min(start + checks.CHECK_STEP, self.n + 1))

    def check_twins(self, start: int, stop: int) -> None:
        """Check that the offsets of indices and of values are the same."""
        if self.offsets is None or self.twin is None:
            return
        if not np.array_equal(self.offsets.part(start, stop), self.twin.part(start, stop)):
            raise DataError(f"{self.path} is damaged: indices and values have different row offsets near row {start}")


def _shifted(offsets: Vector, start: int, stop: int, count: int, path: str) -> tuple[np.ndarray, tuple[int, int]]:
    """The offsets of some rows, counted from 0, and the span of their entries."""
    found = offsets.part(start, stop + 1)
    first, last = int(found[0]), int(found[-1])
    if not 0 <= first <= last <= count:
        raise DataError(f"{path} is damaged: its row offsets are out of order near row {start}")
    return found - found[0], (first, last)
