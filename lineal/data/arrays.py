"""NumPy files: `.npy` (features only) and `.npz` (X, optional y, weights and names). Nothing is unpickled.

A `.npy` file is read piece by piece; a large one is mapped (see `lineal.data.source.is_mapped`).

An `.npz` file holds `X` as a dense matrix or as the CSR parts `X_data, X_indices, X_indptr, X_shape`, or it was written
by `scipy.sparse.save_npz`. It may also hold `y` (1-D, or an n × k indicator matrix, dense or as CSR parts), `weights`,
`feature_names` and `class_names`; for a 1-D `y` of integers, the latter are the names that these number. Floating-point
X keeps its precision, integers become `dtype`.
"""

from __future__ import annotations

import io
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from lineal.data.byte_stream import open_bytes
from lineal.data.dataset import Dataset
from lineal.data.formats import FORMATS, is_compressed
from lineal.data.join import blocks_of, join
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.source import STDIN, PlainFile, cannot_read, display_name, is_mapped
from lineal.errors import DataError

PARTS = ("data", "indices", "indptr", "shape")

NPY_MAGIC = FORMATS["npy"].magic or b""

#: Number of cells that are converted at a time, so that a file of integers is never held twice.
STEP_CELLS = 1 << 22

#: What NumPy, zipfile and zlib raise on damaged files. The header of a NumPy file is Python source, and fails as such.
DAMAGE = (
    ValueError, OSError, EOFError, KeyError, TypeError, OverflowError, MemoryError, NotImplementedError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Read the arrays of all files, one below the other."""
    datasets = [_read_one(path, options) for path in paths]
    for path, data in zip(paths, datasets):
        _check_width(data.X.shape[1], schema, path)
    return join(datasets, paths)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read the same rows in blocks."""
    for path in paths:
        file = _npy(path)
        if file is None:
            yield from blocks_of(read([path], options, schema), options.block_bytes)
            continue
        _check_width(file.shape[1], schema, path)
        step = max(1, options.block_bytes // max(1, file.shape[1] * np.dtype(options.dtype).itemsize))
        for start in range(0, file.shape[0], step):
            rows = file.rows(start, min(start + step, file.shape[0]), options.dtype)
            yield _checked(rows, None, {}, display_name(path))


def _check_width(width: int, schema: Schema | None, path: str) -> None:
    if schema is not None and not schema.takes(width):
        raise DataError(f"{display_name(path)} has {width} columns, expected {schema.width}")


class _Npy:
    """The matrix of an `.npy` file, which stays on disk until its rows are requested."""

    def __init__(self, path: str) -> None:
        self._file = PlainFile(path)
        self.view = np.load(path, mmap_mode="r", allow_pickle=False)  # reads the header only
        _check_matrix(self.view, "X", path)
        self.shape, self._dtype = self.view.shape, self.view.dtype
        self._start: int = self.view.offset
        self._is_by_column = not self.view.flags.c_contiguous

    def rows(self, start: int, stop: int, dtype: str) -> np.ndarray:
        """Some rows as floating-point numbers: in their own precision, or in `dtype` if they are integers."""
        kept = self._dtype in (np.dtype(np.float32), np.dtype(np.float64))
        out = np.empty(
            (stop - start, self.shape[1]), self._dtype if kept else dtype, "F" if self._is_by_column else "C"
        )
        target = out.T if self._is_by_column else out
        step = max(1, STEP_CELLS // max(1, target.shape[1]))
        for first in range(0, len(target), step):
            part = target[first : first + step]
            part[...] = self._read(first, start, part.shape)
        out.flags.writeable = False
        return out

    def _read(self, first: int, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """Rows from start + first on; of a file in column order, columns from `first` on, each from row `start` on."""
        values = np.empty(shape, self._dtype)
        size, (n, d) = self._dtype.itemsize, self.shape
        if not self._is_by_column:
            self._file.read_into(values.reshape(-1).view(np.uint8), self._start + size * d * (start + first))
        for column in range(shape[0] if self._is_by_column else 0):
            place = self._start + size * ((first + column) * n + start)
            self._file.read_into(values[column].view(np.uint8), place)
        return values


def _must_be_streamed(path: str) -> bool:
    """Whether a file can only be read from its beginning to its end."""
    return path == STDIN or is_compressed(path) or not os.path.isfile(path)


def _npy(path: str) -> _Npy | None:
    """An uncompressed `.npy` file; None for all other files."""
    if _must_be_streamed(path):
        return None
    with _explained(path):
        head = PlainFile(path)
        _check_beginning(head.bytes_at(0, min(8, head.size)), path)
        return _Npy(path) if head.bytes_at(0, 2) == NPY_MAGIC[:2] else None


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """A context whose errors name the file and what is wrong with it."""
    try:
        yield
    except DataError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise cannot_read(name, error) from error
        raise DataError(f"{name} is not a readable NumPy file: {_reason(error)}") from error


def _read_one(path: str, options: ReadOptions) -> Dataset:
    name = display_name(path)
    file = _npy(path)
    if file is not None:
        with _explained(name):
            if is_mapped(path, options.mapped):
                X = _floats(file.view, "X", name, options.dtype)
            else:
                X = file.rows(0, file.shape[0], options.dtype)
        return _checked(X, None, {}, name)
    with _explained(name):
        if _must_be_streamed(path):
            with open_bytes(path) as stream:
                content = stream.read()
            _check_beginning(content, name)
            loaded = np.load(io.BytesIO(content), allow_pickle=False)
        else:
            loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return _checked(_numeric(loaded, "X", name, options.dtype), None, {}, name)
        with loaded:
            X, y, extras = _of_archive(loaded, name, options.dtype)
    return _checked(X, y, extras, name)


def _check_beginning(head: bytes, name: str) -> None:
    """Refuse other files here, because NumPy would report them as pickles."""
    if not head.startswith((NPY_MAGIC, b"PK")):
        what = "it is empty" if not head else "it does not begin like one"
        raise DataError(f"{name} is not a readable NumPy file: {what}")


def _reason(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    objects = ("allow_pickle", "Object arrays", "Python objects")
    return "it holds Python objects" if any(sign in text for sign in objects) else text


def _of_archive(archive: Any, name: str, dtype: str) -> tuple[Any, Any, dict[str, Any]]:
    if {*PARTS[:3], "shape", "format"} <= set(archive.files):  # scipy.sparse.save_npz
        kind = archive["format"].item()
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        if kind not in ("csr", "csc"):
            raise DataError(f"{name} is a sparse matrix in {kind!r} format: save it as CSR (X.tocsr())")
        return _of_parts(archive, "", kind, name, dtype), None, {}
    X = _matrix(archive, "X", name, dtype)
    if X is None:
        held = ", ".join(archive.files[:8]) or "nothing"
        raise DataError(f"{name} has no array 'X'; it holds {held}")
    y = next((found for key in ("y", "Y") if (found := _matrix(archive, key, name, None)) is not None), None)
    names = ("weights", "feature_names", "class_names")
    return X, y, {key: archive[key] for key in names if key in archive.files}


def _matrix(archive: Any, key: str, name: str, dtype: str | None) -> Any:
    """The matrix `key`, stored as an array or as CSR parts; None if the file does not have it."""
    if key in archive.files:
        return archive[key] if dtype is None else _numeric(archive[key], key, name, dtype)
    if all(f"{key}_{part}" in archive.files for part in PARTS):
        return _of_parts(archive, f"{key}_", "csr", name, dtype)
    return None


def _of_parts(archive: Any, prefix: str, kind: str, name: str, dtype: str | None) -> Any:
    data, indices, indptr, shape = (archive[prefix + part] for part in PARTS)
    for part, values in (("indices", indices), ("indptr", indptr)):
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise DataError(f"{name}: {prefix}{part} must be a vector of integers, not {values.dtype} {values.shape}")
    if shape.dtype.kind not in "iu" or shape.shape != (2,) or data.ndim != 1:
        raise DataError(f"{name}: {prefix}shape must be two integers, {prefix}data a vector")
    make = sparse.csc_array if kind == "csc" else sparse.csr_array
    if dtype is not None:
        data = _floats(data, prefix + "data", name, dtype)
    try:
        matrix = make((data, indices, indptr), shape=tuple(map(int, shape)))
        matrix.check_format(full_check=True)  # kernels trust indices: one out of range would read other memory
    except ValueError as error:
        raise DataError(f"{name}: {prefix}indices, {prefix}indptr and {prefix}shape disagree: {error}") from error
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    return matrix


def _numeric(values: np.ndarray, key: str, name: str, dtype: str) -> np.ndarray:
    _check_matrix(values, key, name)
    return _floats(values, key, name, dtype)


def _check_matrix(values: np.ndarray, key: str, name: str) -> None:
    if values.ndim != 2:
        raise DataError(f"{name}: {key} must have two dimensions (rows, columns), not shape {values.shape}")
    _check_numeric(values, key, name)


def _check_numeric(values: np.ndarray, key: str, name: str) -> None:
    if values.dtype.kind not in "biuf":
        raise DataError(f"{name}: {key} must be numeric, not {values.dtype}")


def _floats(values: np.ndarray, key: str, name: str, dtype: str) -> np.ndarray:
    """float32 and float64 as they are; other numbers are converted to `dtype`, some rows at a time."""
    if values.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return values
    _check_numeric(values, key, name)
    out = np.empty(values.shape, dtype=dtype)
    step = max(1, STEP_CELLS // max(1, int(np.prod(values.shape[1:]))))
    for start in range(0, len(values), step):
        out[start : start + step] = values[start : start + step]
    return out


def _checked(X: Any, y: Any, extras: dict[str, Any], name: str) -> Dataset:
    n, d = X.shape
    if n == 0 or d == 0:
        raise DataError(f"{name}: X is empty, with shape {X.shape}")
    feature_names = _names(extras.get("feature_names"), d, "feature_names", "columns", name)
    class_names = extras.get("class_names")
    if y is not None:
        if y.shape[0] != n:
            raise DataError(f"{name}: X has {n} rows, but y has {y.shape[0]}")
        if y.ndim == 2 and y.shape[1] == 1 and not sparse.issparse(y):
            y = y[:, 0]
        if y.ndim == 2:
            y, class_names = _indicators(y, name), _names(class_names, y.shape[1], "class_names", "columns of y", name)
            class_names = class_names or list(range(y.shape[1]))
        else:
            y, class_names = _named(y, class_names, name), None
    weights = extras.get("weights")
    if weights is not None:
        if weights.shape != (n,) or weights.dtype.kind not in "biuf":
            raise DataError(f"{name}: weights must be {n} numbers, not {weights.dtype} {weights.shape}")
        weights = weights.astype(np.float64)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError(f"{name}: weights must be finite numbers, at least 0")
    names = class_names if y is not None and y.ndim == 2 else None
    return Dataset(X, y, weights, feature_names, names, schema=Schema("array", d))


def _names(values: Any, count: int, key: str, what: str, name: str) -> list[str] | None:
    if values is None:
        return None
    if values.shape != (count,):
        raise DataError(f"{name}: {key} has shape {values.shape}, but there are {count} {what}")
    return [str(value) for value in values.tolist()]


def _indicators(y: Any, name: str) -> Any:
    """An (n, k) matrix of zeros and ones as a boolean csr_array."""
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise DataError(f"{name}: a two-dimensional y must hold only 0 and 1 (one column per label)")
    y = sparse.csr_array(y, dtype=bool)
    y.eliminate_zeros()
    return y


def _named(y: np.ndarray, class_names: Any, name: str) -> np.ndarray:
    """1-D labels; integers that number `class_names` become these names."""
    if y.ndim != 1 or y.dtype.kind not in "biufU":
        raise DataError(f"{name}: y must be a vector of numbers or text, not {y.dtype} with shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int((~np.isfinite(y)).argmax())
        raise DataError(f"{name}: row {row} (counted from 0): the label is not a finite number")
    if class_names is None or y.dtype.kind not in "iu":
        return y
    if class_names.ndim != 1 or y.min() < 0 or y.max() >= len(class_names):
        raise DataError(f"{name}: y holds {y.min()} to {y.max()}, but there are {class_names.size} class_names")
    return class_names[y]
