"""Matrices from encoded columns: sparse rows from slots, parts beside each other, and what float32 cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lineal.data.dataset import csr_of_parts
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding


def csr_of_slots(where: np.ndarray, values: np.ndarray, n_features: int, merge: bool) -> Any:
    """A csr_array without zeros, from rows that all have the same number of (column, value) pairs."""
    kept = values != 0
    indptr = np.zeros(len(where) + 1, dtype=np.int32)
    np.cumsum(np.count_nonzero(kept, axis=1), out=indptr[1:])
    X = csr_of_parts(values[kept], where[kept], indptr, (len(where), n_features))
    if merge:  # hashed columns are not in order, and may collide
        X.has_sorted_indices = X.has_canonical_format = False
        X.sum_duplicates()
    return X


def beside(parts: list[Any], n_features: int) -> Any:
    """A csr_array with the columns of all parts beside each other; the first part has room for all of them."""
    first, *rest = parts
    lengths = sum(np.diff(part.indptr).astype(np.int64) for part in parts)
    indptr = np.append(0, np.cumsum(lengths))
    index = np.int32 if max(n_features, indptr[-1]) < 2**31 else np.int64
    indices, data = np.empty(indptr[-1], index), np.empty(indptr[-1], first.dtype)
    start, shift = indptr[:-1].copy(), n_features - sum(part.shape[1] for part in rest)
    for part, offset in zip(parts, [0, *(shift + np.cumsum([0, *(part.shape[1] for part in rest[:-1])]))]):
        counts = np.diff(part.indptr)
        places = np.repeat(start - part.indptr[:-1], counts) + np.arange(len(part.indices))
        indices[places], data[places] = part.indices + offset, part.data
        start += counts
    return csr_of_parts(data, indices, indptr.astype(index), (first.shape[0], n_features))


def checked_range(X: Any, encoding: Encoding) -> Any:
    """X of a table in memory, unless numbers became infinite in float32; the error names the column and the row."""
    if encoding.dtype != "float32":
        return X
    values = X if isinstance(X, np.ndarray) else X.data
    if not values.size or (np.isfinite(values.max()) and np.isfinite(values.min())):
        return X
    bad = int(np.flatnonzero(np.isinf(values.reshape(-1)))[0])
    if isinstance(X, np.ndarray):
        row, at = divmod(bad, X.shape[1])
    else:
        row, at = int(np.searchsorted(X.indptr, bad, side="right")) - 1, int(X.indices[bad])
    owner = encoding.columns[int(np.searchsorted(encoding.offsets, at, side="right")) - 1]
    raise DataError(
        f"the table: row {row} (counted from 0), column {owner.name!r} has a number that is too large for float32: "
        "scale the column, or use dtype='float64'"
    )
