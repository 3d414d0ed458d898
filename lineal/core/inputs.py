"""Checks of all arrays that users pass in; the rest of the package relies on them.

SciPy and compiled kernels follow the indices and pointers of a sparse matrix without checking them, so a matrix that
was put together by hand could make them read foreign memory. NumPy silently drops the mask of a masked array. Both
raise an error here, before any other code uses the values. This module does not import Numba, which predictions do not
need.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lineal.core import threads
from lineal.errors import DataError
from lineal.system import memory
from lineal.system.postponed import postponed

with postponed("numpy.f2py", "numpy.testing"):  # SciPy imports all of NumPy
    from scipy import sparse

#: Largest number of columns: readers, model files and the kernels of online learning number them by int32.
MAX_FEATURES = 2**31 - 1

#: Types of indices and pointers, with the unsigned types in which negative numbers become very large ones.
_UNSIGNED: dict[np.dtype[Any], Any] = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}

#: Types of stored numbers that SciPy and the kernels can handle.
_KEPT = frozenset(map(np.dtype, "?bhilqBHILQfdgFDG"))

#: Exceptions that SciPy and NumPy raise if parts of a sparse matrix have been replaced by other objects.
_DAMAGE = (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError)

#: Identity of the only object that stands for a masked cell.
_MASKED = id(np.ma.masked)

#: Number of indices above which several threads check them.
_LONG = 2**18

#: All integers up to this one are exact in float64.
EXACT = 2**53


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection, or a list of Delayed objects or futures. Dask is not imported for this."""
    if "dask" not in sys.modules:
        return False
    from dask import is_dask_collection

    if not isinstance(X, list | tuple):
        return bool(is_dask_collection(X))
    futures = sys.modules["distributed"].Future if "distributed" in sys.modules else ()
    return bool(X) and all(is_dask_collection(one) or isinstance(one, futures) for one in X)


def checked(values: Any, name: str) -> Any:
    """Return `values` unchanged after a check that nothing is masked and that a sparse matrix is not damaged.

    A sparse matrix that is neither CSR nor CSC is returned as CSR, and a masked array without masked entries as a plain
    array. Messages call the values `name`, for example "X" or "y".
    """
    if type(values) is np.ndarray:
        if values.dtype == object:
            _check_cells(values.flat, name)
        return values
    if sparse.issparse(values):
        return checked_sparse(values, name)
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values, name)
    if isinstance(values, list | tuple):
        for row in values:
            if isinstance(row, list | tuple):
                _check_cells(row, name)
        if any(isinstance(row, np.ma.MaskedArray) for row in values):
            return [_unmasked(row, name) if isinstance(row, np.ma.MaskedArray) else row for row in values]
    return values


class Checked(NamedTuple):
    """A matrix that has been checked and need not be checked again."""

    matrix: Any


def checked_numbers(values: Any, name: str) -> Any:
    """Return `checked` values that are real numbers. NumPy would accept dates and drop imaginary parts."""
    values = checked(values, name)
    if isinstance(values, list | tuple):
        with contextlib.suppress(ValueError):  # rows of different lengths, which a later check refuses
            values = np.asarray(values)
    if isinstance(values, np.ndarray) or sparse.issparse(values):
        kind = values.dtype.kind
        if kind == "O":
            _check_range(values, name)
        if kind == "c":
            raise DataError(f"Complex data not supported: {name} must hold real numbers, found {values.dtype}")
        if kind in "mMV":
            raise DataError(f"{name} must hold real numbers, found {values.dtype}")
        if kind == "f" and values.dtype.itemsize > 8:
            with np.errstate(over="ignore"):  # infinite numbers are refused later
                return values.astype(np.float64)
    return values


def _check_range(cells: np.ndarray, name: str) -> None:
    """Refuse Python integers that are too large for float64. A later check refuses cells that are not numbers."""
    try:
        cells.astype(np.float64)
    except OverflowError:
        raise DataError(f"{name} has an integer that is too large for float64: scale its column") from None
    except (TypeError, ValueError):
        pass


def checked_labels(y: Any) -> Any:
    """Return `checked` labels. Lists become arrays, unless that would change some of the labels.

    NumPy converts a list of strings and numbers to strings, and integers beyond 64 bits next to others to rounded
    floating-point numbers. Two labels could become one.
    """
    if "pyarrow" in sys.modules and isinstance(y, sys.modules["pyarrow"].Array):
        y = y.to_numpy(zero_copy_only=False)
    y = checked(y.to_numpy() if hasattr(y, "to_numpy") else y, "y")  # scikit-learn would round pandas' Int64 to doubles
    if isinstance(y, np.ndarray) and y.dtype.kind == "V":
        raise DataError(f"y has records of type {y.dtype}: give one label per row")
    if not isinstance(y, list | tuple):
        return y
    try:
        values = np.asarray(y)
    except ValueError:
        raise DataError("y is neither a vector of labels nor a matrix: its rows have different lengths") from None
    if values.ndim != 1:
        return values
    if values.dtype.kind == "U":
        if not all(isinstance(label, str) for label in y):
            kinds = sorted({type(label).__name__ for label in y})
            raise DataError(f"y mixes labels of types {', '.join(kinds)}: convert them to one type")
        if bad := next((label for label in y if label.endswith("\0")), None):
            raise DataError(f"y has the label {bad!r}, which ends with a zero byte that NumPy drops: remove the byte")
    if values.dtype.kind == "f":
        for row, label in enumerate(y):
            if isinstance(label, int | np.integer) and abs(int(label)) > EXACT:
                raise DataError(
                    f"y[{row}] is {label}, which would be rounded, because the labels do not fit into one type of "
                    "64-bit integers: use strings"
                )
    return values


def _unmasked(values: np.ma.MaskedArray, name: str) -> np.ndarray:
    mask = np.ma.getmaskarray(values)
    if values.dtype.names is None and mask.any():
        where = np.argwhere(mask)[0].tolist()
        raise DataError(
            f"{name} has {int(mask.sum())} masked entries{f', the first at {where}' if where else ''}: fill them, or "
            "remove their rows"
        )
    return np.asarray(values.data)


def _check_cells(cells: Iterable[Any], name: str) -> None:
    """Refuse cells that are `np.ma.masked`, which NumPy converts to NaN among numbers and to "--" among strings."""
    if _MASKED in map(id, cells):
        raise DataError(f"{name} has a masked cell (np.ma.masked): fill it, or remove its row")


def checked_sparse(X: Any, name: str) -> Any:
    """Return a sparse matrix as CSR or CSC, after a check that all indices and pointers are within bounds."""
    shape = X.shape
    if len(shape) != 2:
        raise DataError(f"{name} must have two dimensions, found {len(shape)}")
    n, d = shape
    if d > MAX_FEATURES:
        raise DataError(f"{name} has {d} columns, and at most {MAX_FEATURES} are possible: hash them to fewer")
    try:
        if X.format == "csr":
            return _check_compressed(X, n, d, name)
        if X.format == "csc":
            return _check_compressed(X, d, n, name)
        found = _as_csr(X, name)
    except DataError:
        raise
    except _DAMAGE as error:
        _refuse(name, f"{type(error).__name__} {error}")
    return _check_compressed(found, n, d, name)


def _check_compressed(X: Any, n: int, width: int, name: str) -> Any:
    """Return a checked CSR matrix of n rows and `width` columns, or CSC with both swapped, without unused entries."""
    indices, indptr, data = X.indices, X.indptr, X.data
    is_plain = type(indices) is type(indptr) is type(data) is np.ndarray and data.dtype in _KEPT
    if not is_plain or indices.dtype not in _UNSIGNED or indptr.dtype not in _UNSIGNED:
        indices, indptr, data = _plain(indices, name), _plain(indptr, name), _plain(data, name)
        X = _of_parts(X, data, indices, indptr)
        if indices.dtype not in _UNSIGNED or indptr.dtype not in _UNSIGNED:
            _refuse(name, f"its indices are of type {indices.dtype} and {indptr.dtype}, not int32 or int64")
    if indices.ndim != 1 or indptr.shape != (n + 1,) or data.shape != indices.shape:
        _refuse(name, "its parts have the wrong lengths")
    last = indptr.item(-1)
    if not 0 <= last <= len(indices) or indptr.item(0) != 0 or (n > 1 and (indptr[1:] < indptr[:-1]).any()):
        _refuse(name, "a pointer is out of range: they must ascend from 0 to the number of entries")
    if last < len(indices):
        indices = indices[:last]
        X = _of_parts(X, data[:last], indices, indptr)
    _check_indices(indices, width, name)
    return X


def _check_indices(indices: np.ndarray, bound: int, name: str) -> None:
    """Refuse indices out of range, in one pass: as unsigned numbers, negative ones are too large as well."""
    if len(indices):
        unsigned = indices.view(_UNSIGNED[indices.dtype])
        if len(indices) > _LONG:
            pieces = threads.ranges(len(indices), threads.available_cores())
            largest = max(threads.run([partial(_largest, unsigned[slice(*piece)]) for piece in pieces], len(pieces)))
        else:
            largest = _largest(unsigned)
        if largest >= bound:
            _refuse(name, f"an index is out of range: negative, or not below {bound}")


def _largest(values: np.ndarray) -> int:
    """Largest of some numbers; for short arrays several times as fast as NumPy's maximum."""
    return values.item(values.argmax())


def _as_csr(X: Any, name: str) -> Any:
    """Convert a matrix of any other format to CSR; its parts are checked before SciPy uses them."""
    n, d = X.shape
    if not memory.has_room(8 * n):
        raise DataError(f"{name} has {n} rows, and does not fit into memory as a CSR matrix: use fewer rows")
    if X.format == "lil":
        lengths = [len(row) for row in X.rows]
        if len(lengths) != n or lengths != [len(row) for row in X.data]:
            _refuse(name, "its parts have the wrong lengths")
        columns: np.ndarray = np.fromiter(chain.from_iterable(X.rows), np.int64, sum(lengths))
        _check_indices(columns, d, name)
    elif X.format == "bsr":
        X = _checked_blocks(X, name)
    elif X.format == "dia":
        offsets = X.offsets
        if X.data.ndim != 2 or offsets.shape != (len(X.data),) or offsets.dtype not in _UNSIGNED:
            _refuse(name, "its parts have the wrong lengths or types")
        if len(offsets) and (offsets.min() < -n or offsets.max() > d or len(np.unique(offsets)) < len(offsets)):
            _refuse(name, "a diagonal is outside of the matrix or repeated")
        X = type(X)((_plain(X.data, name), offsets), X.shape)
    else:
        X = X.tocoo()
        data = _plain(X.data, name)
        for indices, bound in zip(X.coords, (n, d), strict=True):
            if indices.dtype not in _UNSIGNED or indices.shape != data.shape or data.ndim != 1:
                _refuse(name, "its parts have the wrong lengths or types")
            _check_indices(indices, bound, name)
        X = type(X)((data, X.coords), X.shape)
    return X.tocsr()


def _checked_blocks(X: Any, name: str) -> Any:
    """Return a checked BSR matrix, which is a CSR matrix of small dense matrices."""
    n, d = X.shape
    if X.data.ndim != 3 or min(X.data.shape[1:]) < 1 or n % X.data.shape[1] or d % X.data.shape[2]:
        _refuse(name, "its dense blocks do not fit its shape")
    grid = n // X.data.shape[1], d // X.data.shape[2]
    blocks = _of_parts(sparse.csr_array((0, 0)), np.empty(len(X.data), bool), X.indices, X.indptr)
    blocks = _check_compressed(blocks, grid[0], grid[1], name)
    return _of_parts(X, _plain(X.data[: len(blocks.data)], name), blocks.indices, X.indptr)


def _plain(part: Any, name: str) -> np.ndarray:
    """Return a part of a sparse matrix as an array without a mask, of a type that SciPy and the kernels can handle."""
    if isinstance(part, np.ma.MaskedArray):
        part = _unmasked(part, name)
    if not isinstance(part, np.ndarray):
        _refuse(name, "its parts are not NumPy arrays")
    found = np.asarray(part)
    if found.dtype.kind not in "biufc":
        raise DataError(f"{name} must hold real numbers, found {found.dtype}")
    return found.astype(np.float32 if found.dtype == np.float16 else found.dtype.newbyteorder("="), copy=False)


def _of_parts(like: Any, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> Any:
    """Matrix of the same class and shape with other arrays, which are neither copied nor checked."""
    made = type(like)((0, 0), dtype=data.dtype)
    made._shape = like.shape
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def _refuse(name: str, what: str) -> NoReturn:
    raise DataError(f"{name} is a damaged sparse matrix: {what}")


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns, for example from pandas, polars or PyArrow."""
    return hasattr(X, "columns") and (hasattr(X, "to_numpy") or hasattr(X, "__arrow_c_stream__"))


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, or one that does not equal itself (NaN, NaT) or cannot be compared (NA)."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def check_frame(frame: Any) -> None:
    """Raise a DataError that names the first cell of a table that is not a finite number."""
    counts = Counter(frame.columns)
    for name, count in counts.items():
        if count > 1:
            raise DataError(f"the table has {count} columns called {name!r}: rename them")
        values = np.asarray(frame[name].to_numpy())
        if values.dtype.kind in "biu":
            continue
        for row, value in enumerate(values.tolist() if values.dtype.kind in "fO" else values):
            try:
                is_finite = math.isfinite(value)
            except (TypeError, ValueError):
                is_finite = False
                if is_missing(value):
                    raise DataError(
                        f"column {name!r} of the table has a missing value in row {row}: fill it, or remove the row"
                    ) from None
                raise DataError(f"column {name!r} of the table is not numeric: row {row} has {value!r}") from None
            except OverflowError:
                is_finite = False
            if not is_finite:
                raise DataError(
                    f"column {name!r} of the table has {value!r} in row {row}, which is not a finite number"
                )
