"""Datasets joined row by row, and a dataset cut into blocks of rows, without copies that are not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from lineal.data.dataset import Dataset, csr_of_parts
from lineal.data.label_numbers import join_labels
from lineal.errors import DataError

#: The fields of a `Dataset` with a value per row, beside X.
BESIDE = ("y", "weights", "query_ids", "kinds")


def join(datasets: list[Dataset], names: list[str]) -> Dataset:
    """All rows of all datasets, which messages call `names`; a single dataset is returned as it is."""
    first = datasets[0]
    if len(datasets) == 1:
        return first
    for name, other in zip(names[1:], datasets[1:]):
        for what, one, two in (
            ("columns", first.X.shape[1], other.X.shape[1]),
            ("feature names", first.feature_names, other.feature_names),
            ("labels", first.class_names, other.class_names),
            ("layout", sparse.issparse(first.X), sparse.issparse(other.X)),
        ):
            if one != two:
                shown = f": {one} and {two}" if what == "columns" else ""
                raise DataError(f"{names[0]} and {name} differ in their {what}{shown}")
        for what in BESIDE:
            if (getattr(first, what) is None) != (getattr(other, what) is None):
                raise DataError(f"{names[0]} and {name} differ: only one of them has {what}")
    stacked = {what: stack([getattr(data, what) for data in datasets]) for what in ("X", *BESIDE) if what != "y"}
    stacked["y"] = _stack_labels([data.y for data in datasets])
    return Dataset(
        stacked["X"], stacked["y"], stacked["weights"], first.feature_names, first.class_names, stacked["query_ids"],
        first.schema, sum(data.bad_lines for data in datasets), stacked["kinds"],
    )  # fmt: skip


def _stack_labels(labels: list[Any]) -> Any:
    """Labels one after the other. NumPy would turn int64 and uint64 into doubles, where large ones may be equal."""
    are_numbers = labels[0] is not None and all(not sparse.issparse(y) and y.dtype.kind in "iuf" for y in labels)
    if not are_numbers or len({y.dtype for y in labels}) == 1:
        return stack(labels)
    return join_labels(labels)


def stack(arrays: list[Any]) -> Any:
    """Arrays or csr_arrays, one below the other, or None for Nones; indices become wider only where they must."""
    if arrays[0] is None or len(arrays) == 1:
        return arrays[0]
    if not sparse.issparse(arrays[0]):
        if len({array.dtype.kind in "US" for array in arrays}) > 1:
            raise DataError("some of the files have text labels and some have numbers")
        return np.concatenate(arrays)
    counts = [int(matrix.indptr[-1]) for matrix in arrays]
    bases = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    wide = bases[-1] >= 2**31 or any(matrix.indices.dtype == np.int64 for matrix in arrays)
    index = np.int64 if wide else np.int32
    starts = [matrix.indptr[:-1].astype(np.int64) + base for matrix, base in zip(arrays, bases)]
    indptr = np.concatenate([*starts, bases[-1:]]).astype(index)
    data = np.concatenate([matrix.data for matrix in arrays])
    indices = np.concatenate([matrix.indices for matrix in arrays]).astype(index, copy=False)
    return csr_of_parts(data, indices, indptr, (len(indptr) - 1, arrays[0].shape[1]))


def rows_of(matrix: Any, start: int, stop: int) -> Any:
    """Some rows of an array or a csr_array (or None), as views: for CSR only the row pointers are new."""
    if matrix is None or not sparse.issparse(matrix):
        return None if matrix is None else matrix[start:stop]
    pointers = matrix.indptr[start : stop + 1]
    first, last = int(pointers[0]), int(pointers[-1])
    shape = (stop - start, matrix.shape[1])
    return csr_of_parts(matrix.data[first:last], matrix.indices[first:last], pointers - pointers[0], shape)


def blocks_of(data: Dataset, block_bytes: int) -> Iterator[Dataset]:
    """Blocks of consecutive rows, as views: each of at most `block_bytes`, but at least one row."""
    n, start = len(data), 0
    while start < n:
        stop = _block_end(data.X, start, block_bytes)
        yield Dataset(
            rows_of(data.X, start, stop), rows_of(data.y, start, stop), rows_of(data.weights, start, stop),
            data.feature_names, data.class_names, rows_of(data.query_ids, start, stop), data.schema,
            data.bad_lines if start == 0 else 0,
            None if data.kinds is None else data.kinds[data.X.indptr[start] : data.X.indptr[stop]],
        )  # fmt: skip
        start = stop


def _block_end(X: Any, start: int, block_bytes: int) -> int:
    if not sparse.issparse(X):
        return min(len(X), start + max(1, block_bytes // max(1, X.shape[1] * X.itemsize)))
    entries = block_bytes // (X.data.itemsize + X.indices.itemsize)
    stop = int(np.searchsorted(X.indptr, int(X.indptr[start]) + entries, side="right")) - 1
    return min(X.shape[0], max(start + 1, stop))
