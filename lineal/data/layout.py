"""The binary layout: an Arrow IPC file that opens without reading it.

One uncompressed record batch. Sparse rows are two list columns, `indices` and `values`; dense rows are one column
`values` of fixed-size lists. Beside them `label` (int32, int64, uint64, float64; uint8 for booleans; dictionary-coded text;
lists of int32 codes where a row has several), `weight` and `qid`, each where the data has them. The schema's metadata
holds, under the key "lineal", a JSON object: version, shape, names, and the `Schema` of the file that was converted, so
that a model trained on the `.arrow` predicts from the original format. Other Arrow readers open the file as a table.

**Safety.** Compiled kernels trust row offsets and column indices: one out of range would read foreign memory. So
`open_layout` always checks them, whatever the size of the file: not through the map, whose touched pages would count
as resident memory, but by plain reads of those two sections into one small buffer (about a third of a sparse float64
file, none of a dense one). A checksum would read more and prove less: whoever alters a file can recompute it.
``trusted=True`` skips the check.
Values are not looked at: they were finite when they were written, and a NaN cannot harm more than the result.
Text labels are the one thing that is read at once, as an array of strings.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lineal.data.dataset import Dataset, Schema, csr_of_parts
from lineal.data.join import blocks_of, join
from lineal.data.options import ReadOptions
from lineal.data.readers.table import LAYOUT_KEY
from lineal.data.spool import drop_pages
from lineal.errors import DataError

VERSION = 1
KEY = LAYOUT_KEY

#: Bytes of a dataset that are written at a time.
BLOCK_BYTES = 64 << 20

#: Elements checked at a time.
CHECK_STEP = 1 << 18

#: What a file with arbitrary contents can cause: nested JSON may be too deep for Python's parser, numbers too large.
DAMAGE = (
    pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError, RecursionError,
    MemoryError,
)  # fmt: skip

Reader = Callable[[int, int], np.ndarray]


def is_layout(path: str) -> bool:
    """Whether an Arrow file was written by `write_layout` or `convert` (other ones are ordinary tables)."""
    try:
        with pa.memory_map(path) as source:
            return KEY in (pa.ipc.open_file(source).schema.metadata or {})
    except (pa.ArrowException, OSError):
        return False


def open_layout(path: str | os.PathLike[str], trusted: bool = False) -> Dataset:
    """Map a converted file: X is read-only and zero-copy, numeric labels too. See this module on `trusted`."""
    return _open(os.fspath(path), trusted)[0]


def _open(path: str, trusted: bool, by_blocks: bool = False) -> tuple[Dataset, mmap.mmap]:
    """The mapped dataset and its map; with `by_blocks` the caller checks the rows himself, as he comes to them."""
    try:
        with open(path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(pages)))
        about = _metadata(reader.schema.metadata or {}, path)
        if reader.num_record_batches != 1:
            raise DataError(f"{path} is damaged: {reader.num_record_batches} record batches instead of one")
        batch = reader.get_batch(0)
        batch.validate()
        opened = _Opened(path, batch, about, pages)
        data = opened.dataset()
        if not trusted:
            opened.check_contents(not by_blocks)
    except DataError as error:
        if str(error).startswith("the stored schema"):
            raise DataError(f"{path} is damaged: {error}") from None
        raise
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise DataError(f"cannot read {path}: {reason}") from error
    except DAMAGE as error:
        raise DataError(f"{path} is damaged: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
    return data, pages


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Converted files, one below the other; a single one stays on disk."""
    datasets = [open_layout(path, options.trusted) for path in paths]
    for path, data in zip(paths, datasets):
        _agree(data, schema, path)
    return join(datasets, paths)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """The same in blocks of rows, views of the maps; a block's pages are let go when the next is asked for."""
    for path in paths:
        data, pages = _open(path, options.trusted)
        _agree(data, schema, path)
        for block in blocks_of(data, options.block_bytes):
            yield block
            drop_pages(pages)


def stream_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """As `read_blocks`, but a block is checked when it is made, so that the first one does not wait for the others.

    That its indices ascend is not looked at: whoever learns from a stream does not depend on it.
    """
    for path in paths:
        data, pages = _open(path, options.trusted, by_blocks=True)
        _agree(data, schema, path)
        for block in blocks_of(data, options.block_bytes):
            if not options.trusted:
                validate_full(block, path)
            yield block
            drop_pages(pages)


def _agree(data: Dataset, schema: Schema | None, path: str) -> None:
    """Refuse a file whose columns were made otherwise than those a model knows."""
    if schema is None:
        return
    if not schema.takes(data.X.shape[1]):
        raise DataError(f"{path} has {data.X.shape[1]} columns, expected {schema.width}")
    both_tables = data.schema is not None and data.schema.format == schema.format == "table"
    if both_tables and data.schema.settings.get("columns") != schema.settings.get("columns"):  # type: ignore[union-attr]
        raise DataError(f"{path} encodes its table otherwise than the model: convert it again with the model's schema")


def _metadata(metadata: dict[bytes, bytes], path: str) -> dict[str, Any]:
    if KEY not in metadata:
        raise DataError(f"{path} is an ordinary Arrow table, not a converted file: read it with lineal.read")
    about = json.loads(metadata[KEY])
    if not isinstance(about, dict) or not isinstance(about.get("version"), int):
        raise DataError(f"{path} is damaged: its description has no version")
    if about["version"] > VERSION:
        raise DataError(
            f"{path} has layout version {about['version']}, newer than this lineal's {VERSION}: update lineal"
        )
    return about


class _Opened:
    """A record batch of the layout with its description; everything cheap is checked on the way."""

    def __init__(self, path: str, batch: Any, about: dict[str, Any], pages: mmap.mmap) -> None:
        self.path, self.batch, self.about = path, batch, about
        self.n, self.d = int(about["n_rows"]), int(about["n_features"])
        self.base = pa.py_buffer(pages).address
        self.size = len(pages)
        self.twins: list[tuple[np.ndarray, np.ndarray]] = []  # offsets that must be the same
        self.sections: list[tuple[np.ndarray, np.ndarray, int]] = []  # offsets, indices and their bound: to be checked
        if self.n != batch.num_rows or self.n < 1 or self.d < 1:
            raise DataError(f"{path} is damaged: {batch.num_rows} rows instead of {self.n}")

    def dataset(self) -> Dataset:
        """Views of the map."""
        about = self.about
        names = self.batch.schema.names
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
        X = self._sparse() if "indices" in names else self._dense()
        return Dataset(
            X,
            self._label(class_names) if "label" in names else None,
            self._vector("weight", "double") if "weight" in names else None,
            feature_names,
            class_names,
            self._vector("qid", "int64") if "qid" in names else None,
            schema,
            int(about.get("bad_lines", 0)),
        )

    def _view(self, array: Any, dtype: Any) -> np.ndarray:
        """A plain column's memory."""
        if array.null_count or array.offset:
            raise DataError(f"{self.path} is damaged: missing values")
        values = array.buffers()[-1]
        if len(array) == 0:
            return np.empty(0, dtype=dtype)
        if not self.base <= values.address <= self.base + self.size - values.size:
            raise DataError(f"{self.path} is damaged: compressed")
        return np.frombuffer(values, dtype=dtype, count=len(array))

    def _vector(self, name: str, expected: str) -> np.ndarray:
        array = self.batch.column(name)
        if str(array.type) != expected:
            raise DataError(f"{self.path} is damaged: column {name!r} has type {array.type}, expected {expected}")
        return self._view(array, array.type.to_pandas_dtype())

    def _lists(self, name: str, allowed: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and flat values of a list column."""
        array = self.batch.column(name)
        kind = array.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or str(kind.value_type) not in allowed:
            raise DataError(f"{self.path} is damaged: column {name!r} has type {kind}")
        if array.null_count or array.offset:
            raise DataError(f"{self.path} is damaged: missing values")
        offsets = self._view(array.offsets, np.int64 if pa.types.is_large_list(kind) else np.int32)
        flat = self._view(array.values, kind.value_type.to_pandas_dtype())
        if len(offsets) != self.n + 1 or offsets[0] != 0 or offsets[-1] != len(flat):
            raise DataError(f"{self.path} is damaged: the offsets of {name!r} do not match its {len(flat)} entries")
        return offsets, flat

    def _sparse(self) -> Any:
        offsets, indices = self._lists("indices", ("int32", "int64"))
        twin, values = self._lists("values", ("float", "double"))
        if len(values) != len(indices):
            raise DataError(f"{self.path} is damaged: {len(indices)} indices, but {len(values)} values")
        self.twins.append((offsets, twin))
        self.sections.append((offsets, indices, self.d))
        return csr_of_parts(values, indices, offsets, (self.n, self.d))

    def _dense(self) -> np.ndarray:
        array = self.batch.column("values")
        kind = array.type
        if not pa.types.is_fixed_size_list(kind) or str(kind.value_type) not in ("float", "double"):
            raise DataError(f"{self.path} is damaged: column 'values' has type {kind}")
        if kind.list_size != self.d or array.null_count or array.offset or len(array.values) != self.n * self.d:
            raise DataError(f"{self.path} is damaged: rows of {kind.list_size} values instead of {self.d}")
        return self._view(array.values, kind.value_type.to_pandas_dtype()).reshape(self.n, self.d)

    def _label(self, class_names: list[Any] | None) -> Any:
        array = self.batch.column("label")
        kind = str(array.type)
        if class_names is not None:
            offsets, codes = self._lists("label", ("int32",))
            self.sections.append((offsets, codes, len(class_names)))
            return csr_of_parts(np.ones(len(codes), dtype=bool), codes, offsets, (self.n, len(class_names)))
        if kind in ("int32", "int64", "uint64", "double"):
            return self._vector("label", kind)
        if kind == "uint8":
            return self._vector("label", kind) != 0
        if kind != "dictionary<values=string, indices=int32, ordered=0>":
            raise DataError(f"{self.path} is damaged: column 'label' has type {kind}")
        array.validate(full=True)
        return np.array(array.dictionary.to_pylist(), dtype=np.str_)[self._view(array.indices, np.int32)]

    def check_contents(self, rows: bool) -> None:
        """Read offsets and indices from the file, past the map, and check each of them; without `rows`, only that
        the offsets of indices and values are the same."""
        with open(self.path, "rb", buffering=0) as file:
            for offsets, indices, bound in self.sections if rows else ():
                check_rows(self._reader(file, offsets), len(offsets), self._reader(file, indices), len(indices), bound,
                           self.path)  # fmt: skip
            for one, other in self.twins:
                self._check_same(self._reader(file, one), self._reader(file, other), len(one))

    def _check_same(self, one: Reader, other: Reader, count: int) -> None:
        for start in range(0, count, CHECK_STEP):
            stop = min(start + CHECK_STEP, count)
            if not np.array_equal(one(start, stop), other(start, stop)):
                raise DataError(f"{self.path} is damaged: indices and values have other row offsets near row {start}")

    def _reader(self, file: Any, view: np.ndarray) -> Reader:
        start = view.__array_interface__["data"][0] - self.base
        buffer = np.empty(CHECK_STEP + 1, dtype=view.dtype)

        def read_part(first: int, last: int) -> np.ndarray:
            part = buffer[: last - first]
            file.seek(start + first * view.itemsize)
            if file.readinto(part.data) != part.nbytes:
                raise DataError(f"{self.path} is damaged: it ends too early")
            return part

        return read_part


def check_rows(
    offsets: Reader, n_offsets: int, indices: Reader, n_indices: int, bound: int, name: str, ascending: bool = True
) -> None:
    """Row offsets must not decrease; indices must lie in [0, bound) and, in a row, ascend strictly.

    Both come in pieces, from `Reader`s. Only where a row begins may an index be no larger than the one before it.
    """
    for start in range(0, n_offsets - 1, CHECK_STEP):
        rows = offsets(start, min(start + CHECK_STEP + 1, n_offsets))
        if (rows[1:] < rows[:-1]).any() or rows[0] < 0 or rows[-1] > n_indices:
            raise DataError(f"{name} is damaged: its row offsets are out of order near row {start}")
        first, last = int(rows[0]), int(rows[-1])
        for entry in range(first, last, CHECK_STEP):
            before = max(entry - 1, first)
            part = indices(before, min(entry + CHECK_STEP, last))
            low, high = int(part.min()), int(part.max())
            if low < 0 or high >= bound:
                wrong = low if low < 0 else high
                raise DataError(f"{name} is damaged: index {wrong} is out of range for {bound} columns")
            if not ascending:
                continue
            falls = before + 1 + np.flatnonzero(part[1:] <= part[:-1])
            row = np.searchsorted(rows, falls)
            if (rows[row] != falls).any():
                wrong = start + int(row[(rows[row] != falls).argmax()]) - 1
                raise DataError(f"{name} is damaged: the indices of row {wrong} do not ascend")


def validate_full(data: Dataset, name: str = "the dataset") -> None:
    """Check every row offset and column index of a dataset in memory (or mapped), by blocks; rows may be unsorted."""
    for matrix in (data.X, data.y):
        if hasattr(matrix, "indptr"):
            pointers, indices = matrix.indptr, matrix.indices
            if len(pointers) != matrix.shape[0] + 1 or pointers[0] != 0 or pointers[-1] > len(indices):
                raise DataError(f"{name} is damaged: its row offsets do not match its entries")
            check_rows(
                _slices(pointers), len(pointers), _slices(indices), int(pointers[-1]), matrix.shape[1], name, False
            )


def _slices(values: np.ndarray) -> Reader:
    return lambda first, last: values[first:last]


def write_layout(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset; the file appears whole or not at all."""
    from lineal.data.convert import write

    write(blocks_of(dataset, BLOCK_BYTES), path)


def convert(source: str | os.PathLike[str], destination: str | os.PathLike[str], **options: Any) -> str:
    """Convert any readable file, in bounded memory; `options` are those of `lineal.read`.

    Returns the destination's path, for ``lineal.read(lineal.convert("big.svm", "big.arrow"))``.
    """
    from lineal.data.convert import write
    from lineal.data.read import read_blocks

    write(read_blocks(source, **options), destination)
    return os.fspath(destination)
