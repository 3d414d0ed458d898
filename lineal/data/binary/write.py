"""Writes the binary layout (see `lineal.data.binary.layout`) from blocks of rows, in bounded memory and atomically."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from lineal.data.binary.checks import check_sparse
from lineal.data.binary.file import VERSION
from lineal.data.binary.spool import Spool
from lineal.data.dataset import Dataset, check_finite
from lineal.data.formats import FORMATS, LAYOUT_KEY
from lineal.errors import DataError, OptionError
from lineal.system.files import folder_beside, put_in_place, target_of

#: Number of bytes that are handed to the operating system at a time.
WRITE_STEP = 8 << 20


def write(blocks: Iterator[Dataset], destination: str | os.PathLike[str]) -> None:
    """Write blocks of rows to one file: collect them in temporary files beside it, then put it in place."""
    path = os.path.abspath(os.fspath(destination))
    if not path.endswith(FORMATS["arrow"].extensions):
        raise OptionError(f"destination={os.fspath(destination)!r} must end with .arrow: the result is an Arrow file")
    if os.path.isdir(path):
        raise DataError(f"cannot write {path}: it is a directory")
    try:
        with folder_beside(path) as folder:
            with contextlib.closing(Collector(folder)) as collector:
                for block in blocks:
                    collector.add(block)
                finished = os.path.join(folder, "finished")
                collector.write(finished)
            put_in_place(finished, target_of(path))
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


class Collector:
    """Collects blocks of rows in spools, and writes them as one record batch."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.spools: dict[str, Spool] = {}
        self.ends = {"X": 0, "y": 0}
        self.first: Dataset | None = None
        self.last: Dataset | None = None
        self.rows = self.columns = self.bad_lines = 0
        self.texts: dict[str, int] = {}
        self.label_kind: str | None = None

    def spool(self, name: str) -> Spool:
        """The spool of that name."""
        if name not in self.spools:
            self.spools[name] = Spool(self.folder, name)
        return self.spools[name]

    def add(self, block: Dataset) -> None:
        """Add some rows, after the checks that every file gets when it is read."""
        self._check(block)
        check_sparse(block)
        check_finite(block.X, block.feature_names, self.rows)
        if sparse.issparse(block.X):
            self._add_csr("X", block.X, "values")
        else:
            self.spool("values").append(np.ascontiguousarray(block.X).reshape(-1))
        if block.y is not None:
            self._add_labels(block.y)
        if block.weights is not None:
            self.spool("weight").append(np.asarray(block.weights, dtype=np.float64))
        if block.query_ids is not None:
            self.spool("qid").append(np.asarray(block.query_ids, dtype=np.int64))
        self.rows += len(block)
        self.columns = max(self.columns, block.X.shape[1])
        self.bad_lines += block.bad_lines
        self.last = block

    def _check(self, block: Dataset) -> None:
        if block.X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise DataError(f"X has type {block.X.dtype}: only float32 and float64 can be written")
        if self.first is None:
            self.first = block
        first = self.first
        same = (
            sparse.issparse(block.X) == sparse.issparse(first.X)
            and (sparse.issparse(block.X) or block.X.shape[1] == first.X.shape[1])
            and block.class_names == first.class_names
            and all((getattr(block, k) is None) == (getattr(first, k) is None) for k in ("y", "weights", "query_ids"))
        )
        if not same:
            raise DataError(f"rows from {self.rows} on differ in kind from those before: labels, weights or columns")

    def _add_csr(self, name: str, matrix: Any, values: str | None) -> None:
        if not matrix.has_sorted_indices or not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        start, stop = int(matrix.indptr[0]), int(matrix.indptr[-1])
        self.spool(f"{name}_indices").append(matrix.indices[start:stop])
        if values is not None:
            self.spool(values).append(matrix.data[start:stop])
        offsets = self.spool(f"{name}_offsets")
        if offsets.size == 0:
            offsets.append(np.zeros(1, dtype=np.int64))
        offsets.append(matrix.indptr[1:].astype(np.int64) - start + self.ends[name])
        self.ends[name] += stop - start

    def _add_labels(self, y: Any) -> None:
        if y.ndim == 2:
            y = sparse.csr_array(y, dtype=bool)
            y.eliminate_zeros()
            y.indices = y.indices.astype(np.int32, copy=False)
            return self._add_csr("y", y, None)
        y = np.asarray(y)
        kind = {"i": "number", "u": "number", "f": "number", "b": "boolean", "U": "text", "O": "text"}.get(y.dtype.kind)
        if kind is None or self.label_kind not in (None, kind):
            raise DataError(f"labels from row {self.rows} on have type {y.dtype}, those before are {self.label_kind}")
        self.label_kind = kind
        if kind == "text":
            texts, codes = np.unique(y.astype(np.str_), return_inverse=True)
            known = [self.texts.setdefault(text, len(self.texts)) for text in texts.tolist()]
            y = np.array(known, dtype=np.int32)[codes]
        elif kind == "boolean":
            y = y.astype(np.uint8)
        elif y.dtype.kind == "f":
            y = y.astype(np.float64)
        elif y.dtype != np.uint64:
            y = y.astype(np.int32 if np.can_cast(y.dtype, np.int32) else np.int64)
        spool = self.spool("label")
        before = y.dtype if spool.dtype is None else spool.dtype
        if y.dtype.kind in "iu" and before.kind in "iu" and np.promote_types(before, y.dtype).kind == "f":
            raise DataError(f"labels from row {self.rows} on are {y.dtype}, those before {before}: use one type")
        spool.append(y)

    def write(self, path: str) -> None:
        """Write the record batch, from the mapped spools."""
        if self.rows == 0 or self.first is None or self.last is None:
            raise DataError("there are no rows to write")
        columns: dict[str, Any] = {}
        if sparse.issparse(self.first.X):
            offsets, wide = self._offsets("X")
            columns["indices"] = _lists(offsets, self._vector("X_indices"), wide, self.rows)
            columns["values"] = _lists(offsets, self._vector("values"), wide, self.rows)
        else:
            columns["values"] = pa.FixedSizeListArray.from_arrays(self._vector("values"), self.columns)
        if "y_offsets" in self.spools:
            offsets, wide = self._offsets("y")
            columns["label"] = _lists(offsets, self._vector("y_indices"), wide, self.rows)
        elif self.label_kind == "text":
            columns["label"] = pa.DictionaryArray.from_arrays(self._vector("label"), pa.array(list(self.texts)))
        for name in ("label", "weight", "qid"):
            if name in self.spools and name not in columns:
                columns[name] = self._vector(name)
        schema = pa.schema(
            [pa.field(name, column.type, nullable=False) for name, column in columns.items()],
            metadata={LAYOUT_KEY: json.dumps(self._about()).encode()},
        )
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
        with open(path, "wb", buffering=0) as file:
            sink = pa.PythonFile(_Sink(file, list(self.spools.values())), mode="w")
            with pa.ipc.new_file(sink, schema) as writer:
                writer.write_batch(batch)
            os.fsync(file.fileno())

    def _about(self) -> dict[str, Any]:
        last = self.last
        assert last is not None
        return {
            "version": VERSION,
            "n_rows": self.rows,
            "n_features": self.columns,
            "feature_names": last.feature_names,
            "class_names": last.class_names,
            "schema": None if last.schema is None else last.schema.to_json(),
            "bad_lines": self.bad_lines,
        }

    def _offsets(self, name: str) -> tuple[Any, bool]:
        """Row offsets and whether they are int64: as wide as the indices, unless there are too many entries."""
        wide = self.ends[name] >= 2**31 or self.spools[f"{name}_indices"].dtype == np.int64
        self.spools[f"{name}_offsets"].convert_to(np.int64 if wide else np.int32)
        return pa.py_buffer(self.spools[f"{name}_offsets"].mapped()), wide

    def _vector(self, name: str) -> Any:
        values = self.spools[name].mapped()
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])

    def close(self) -> None:
        """Close the spools."""
        for spool in self.spools.values():
            spool.close()


def _lists(offsets: Any, flat: Any, wide: bool, rows: int) -> Any:
    kind = (pa.large_list if wide else pa.list_)(pa.field("item", flat.type, nullable=False))
    return pa.Array.from_buffers(kind, rows, [None, offsets], children=[flat])


class _Sink:
    """A file for pyarrow that writes in steps and frees the pages of the spools after each: memory stays bounded."""

    closed = False

    def __init__(self, file: Any, spools: list[Spool]) -> None:
        self.file, self.spools = file, spools

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), WRITE_STEP):
            part = view[start : start + WRITE_STEP]
            while len(part):
                part = part[self.file.write(part) :]
            if len(view) > WRITE_STEP:
                for spool in self.spools:
                    spool.release()
        return len(view)

    def tell(self) -> int:
        return self.file.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
