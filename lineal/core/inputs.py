"""The one place where arrays from outside are checked: nothing behind it trusts a part that it has not looked at.

SciPy and compiled kernels follow the indices and pointers of a sparse matrix without checking them, so that a
matrix put together by hand can read foreign memory. NumPy drops the mask of a masked array without a word. Both are
refused here, before anything else touches the values. NumPy and SciPy only: models predict without Numba.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from lineal.core import threads
from lineal.errors import DataError
from lineal.system import memory

#: Columns are numbered by int32 in the readers, in model files and in the kernels of online learning.
MAX_FEATURES = 2**31 - 1

#: The types of indices and pointers, each with the unsigned type in which a negative number is a very large one.
_UNSIGNED: dict[np.dtype[Any], Any] = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}

#: Types of stored numbers that SciPy and the kernels know.
_KEPT = frozenset(map(np.dtype, "?bhilqBHILQfdgFDG"))

#: What SciPy and NumPy raise where parts of a sparse matrix have been replaced by something else.
_DAMAGE = (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError)

#: What tells a masked cell: there is one such object only.
_MASKED = id(np.ma.masked)

#: Indices beyond this number are checked by several threads.
_LONG = 2**18

#: Whole numbers up to this are the same in float64.
EXACT = 2**53


def checked(values: Any, name: str) -> Any:
    """`values` as they are, after a check that they can be trusted: no masked entries, no damaged sparse matrix.

    A sparse matrix that is neither CSR nor CSC comes back as CSR, a masked array without masked entries as its data.
    `name` is what messages call it, for example "X" or "y".
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
    """A matrix that was checked, for whoever would check it again."""

    matrix: Any


def checked_numbers(values: Any, name: str) -> Any:
    """`checked`, for what must be real numbers: NumPy would take dates for some, and drop imaginary parts."""
    values = checked(values, name)
    if isinstance(values, list | tuple):
        with contextlib.suppress(ValueError):  # rows of different lengths, which others refuse
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
            with np.errstate(over="ignore"):  # what becomes infinite is refused as such
                return values.astype(np.float64)
    return values


def _check_range(cells: np.ndarray, name: str) -> None:
    """Refuse whole numbers of Python that no double holds; what is no number is for others to refuse."""
    try:
        cells.astype(np.float64)
    except OverflowError:
        raise DataError(f"{name} has a whole number that is too large for a double: scale its column") from None
    except (TypeError, ValueError):
        pass


def checked_labels(y: Any) -> Any:
    """Labels after the checks of `checked`; lists become arrays, unless that would change some of the labels.

    NumPy turns a list of texts and numbers into texts, and whole numbers beyond 64 bits next to others into rounded
    floating-point numbers: two labels could become one.
    """
    y = checked(y.to_numpy() if hasattr(y, "to_numpy") else y, "y")  # scikit-learn would round pandas' Int64 to doubles
    if isinstance(y, np.ndarray) and y.dtype.kind == "V":
        raise DataError(f"y holds records, of type {y.dtype}: give one label per row")
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
            raise DataError(f"y holds {bad!r}, which ends with a zero byte that NumPy drops: remove the byte")
    if values.dtype.kind == "f":
        for row, label in enumerate(y):
            if isinstance(label, int | np.integer) and abs(int(label)) > EXACT:
                raise DataError(
                    f"y[{row}] is {label}, which is not the same number next to labels that do not fit 64-bit integers "
                    "of one sign: use texts"
                )
    return values


def _unmasked(values: np.ma.MaskedArray, name: str) -> np.ndarray:
    mask = np.ma.getmaskarray(values)
    if values.dtype.names is None and mask.any():
        where = np.argwhere(mask)[0].tolist()
        raise DataError(
            f"{name} has {int(mask.sum())} masked entries{f', the first at {where}' if where else ''}: fill them, or "
            "leave their rows out"
        )
    return np.asarray(values.data)


def _check_cells(cells: Iterable[Any], name: str) -> None:
    """Refuse cells that are `np.ma.masked`: NumPy would make NaN of them in numbers, and "--" in texts."""
    if _MASKED in map(id, cells):
        raise DataError(f"{name} has a masked cell (np.ma.masked): fill it, or leave its row out")


def checked_sparse(X: Any, name: str) -> Any:
    """A sparse matrix whose indices and pointers are all within bounds, as CSR or CSC."""
    shape = X.shape
    if len(shape) != 2:
        raise DataError(f"{name} must have two dimensions, found {len(shape)}")
    n, d = shape
    if d > MAX_FEATURES:
        raise DataError(f"{name} has {d} columns: at most {MAX_FEATURES} are possible; hash them to fewer")
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
    """A CSR matrix of n rows and `width` columns, or CSC the other way round, without spare room at its end."""
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
    """One pass: as unsigned numbers, negative ones are too large like any other."""
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
    """The largest of some numbers; on short arrays several times as fast as NumPy's maximum."""
    return values.item(values.argmax())


def _as_csr(X: Any, name: str) -> Any:
    """A matrix of any other format as CSR, of which SciPy sees only parts that it can follow."""
    n, d = X.shape
    if not memory.has_room(8 * n):
        raise DataError(f"{name} has {n} rows: as CSR it does not fit into memory")
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
            _refuse(name, "its diagonals are outside of it, or there twice")
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
    """A BSR matrix, which is a CSR matrix of blocks."""
    n, d = X.shape
    if X.data.ndim != 3 or min(X.data.shape[1:]) < 1 or n % X.data.shape[1] or d % X.data.shape[2]:
        _refuse(name, "its blocks do not fit its shape")
    grid = n // X.data.shape[1], d // X.data.shape[2]
    blocks = _of_parts(sparse.csr_array((0, 0)), np.empty(len(X.data), bool), X.indices, X.indptr)
    blocks = _check_compressed(blocks, grid[0], grid[1], name)
    return _of_parts(X, _plain(X.data[: len(blocks.data)], name), blocks.indices, X.indptr)


def _plain(part: Any, name: str) -> np.ndarray:
    """An array that a sparse matrix is made of, without a mask, of a type that SciPy and the kernels know."""
    if isinstance(part, np.ma.MaskedArray):
        part = _unmasked(part, name)
    if not isinstance(part, np.ndarray):
        _refuse(name, "its parts are not NumPy arrays")
    found = np.asarray(part)
    if found.dtype.kind not in "biufc":
        raise DataError(f"{name} must hold real numbers, found {found.dtype}")
    return found.astype(np.float32 if found.dtype == np.float16 else found.dtype.newbyteorder("="), copy=False)


def _of_parts(like: Any, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> Any:
    """A matrix of the same class and shape over other arrays, without a copy or a look at them."""
    made = type(like)((0, 0), dtype=data.dtype)
    made._shape = like.shape
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def _refuse(name: str, what: str) -> NoReturn:
    raise DataError(f"{name} is a damaged sparse matrix: {what}")


def is_frame(X: Any) -> bool:
    """Whether this is a table with named columns, of pandas, polars or the like."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NaT or pandas' NA, which differ from themselves or cannot say."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def check_frame(frame: Any) -> None:
    """A DataError names the first column of a table that is not made of finite numbers, and the row."""
    counts = Counter(frame.columns)
    for name, count in counts.items():
        if count > 1:
            raise DataError(f"the table has the column {name!r} {count} times: rename them")
        values = np.asarray(frame[name].to_numpy())
        if values.dtype.kind in "biu":
            continue
        for row, value in enumerate(values.tolist() if values.dtype.kind in "fO" else values):
            try:
                is_finite = math.isfinite(value)
            except (TypeError, ValueError):
                is_finite = False
                if is_missing(value):
                    raise DataError(f"column {name!r} of the table lacks the value of row {row}: fill it") from None
                raise DataError(
                    f"column {name!r} of the table is not made of numbers: row {row} has {value!r}"
                ) from None
            except OverflowError:
                is_finite = False
            if not is_finite:
                raise DataError(f"column {name!r} of the table has {value!r} in row {row}: finite numbers are needed")
