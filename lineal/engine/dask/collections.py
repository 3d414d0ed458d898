"""Sources of rows from Dask collections: arrays, tables, bags and lists of delayed blocks.

Every partition of a collection becomes one partition of rows. It is computed once and kept on the cluster with its
history, so that Dask computes it again if its worker is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from distributed import Client, Future
from scipy import sparse

from lineal.core.inputs import checked, checked_labels
from lineal.engine.dask.holder import usable
from lineal.engine.dask.plan import planned
from lineal.engine.dask.shares import named
from lineal.engine.dask.source import DaskSource
from lineal.engine.source import RawRows
from lineal.errors import DataError

#: What the parts of a partition are called in messages, in the order of `RawRows`.
PARTS = ("X", "y", "sample_weight", "offsets")


def is_distributed(X: Any) -> bool:
    """Whether X is a Dask collection, or a list of delayed blocks or futures."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(one, Delayed | Future) for one in X)
    return is_dask_collection(X)


def source_of(client: Client, X: Any, y: Any = None, sample_weight: Any = None, offsets: Any = None) -> DaskSource:
    """Source of the rows of a collection.

    X is a Dask array in chunks of rows, a Dask table with columns of numbers, a bag or a list of delayed blocks, each
    an array or a SciPy matrix. Without y, a block is a tuple (X, y) or (X, y, sample_weight). The others have the
    partitions of X; those of arrays are changed where needed.
    """
    names = None
    if _is_frame(X):
        names, X = _frame_names(X), _frame_parts(X)
    elif _is_array(X):
        X = _in_chunks_of_rows(X)
        y, sample_weight, offsets = (_like_rows_of(X, part, name) for part, name in zip(
            (y, sample_weight, offsets), PARTS[1:], strict=True))  # fmt: skip
    columns = _names_of_columns(y)
    given = [_parts(part, name) for part, name in zip((X, y, sample_weight, offsets), PARTS, strict=True)]
    for part, name in zip((X, y, sample_weight, offsets), PARTS, strict=True):
        _check_client(client, part, name)
    count = len(given[0] or ())
    for name, parts in zip(PARTS, given, strict=True):
        if parts is not None and len(parts) != count:
            raise DataError(f"X has {count} partitions and {name} has {len(parts)}: they must be cut alike")
    labels = [f"partition {number}" for number in range(count)]
    rows = [
        delayed(_rows, pure=False)(name, *(None if parts is None else parts[number] for parts in given))
        for number, name in enumerate(labels)
    ]
    return DaskSource(client, persisted(client, rows), labels, feature_names=names, class_names=columns)


def persisted(client: Client, rows: Sequence[Delayed], sizes: Sequence[float] | None = None) -> list[Future]:
    """Futures of partitions, consecutive ones on the same worker if they can be placed freely."""
    workers = sorted(client.nthreads())
    if not workers:
        return list(client.compute(list(rows)))
    owners = planned([1.0] * len(rows) if sizes is None else sizes, workers, [()] * len(rows), [None] * len(rows))
    futures: dict[int, Future] = {}
    for worker in dict.fromkeys(owners):
        mine = [number for number, owner in enumerate(owners) if owner == worker]
        made = client.compute([rows[number] for number in mine], workers=[worker], allow_other_workers=True)
        futures.update(zip(mine, made, strict=True))
    return [futures[number] for number in range(len(rows))]


def _rows(name: str, X: Any, y: Any, weights: Any, offsets: Any) -> RawRows:
    """Task: the rows of a partition, checked for what would stop everything after it."""
    with named(name):
        if isinstance(X, RawRows):
            return X
        if y is None and isinstance(X, list) and X and all(map(_is_pair, X)):  # a partition of a bag of pairs
            X = _joined_pairs(X)
        if y is None and isinstance(X, tuple | list) and 2 <= len(X) <= 4 and not isinstance(X[0], int | float):
            X, y, weights, offsets = (*X, None, None)[:4]
        if isinstance(X, list):  # a partition of a bag is a list of its items
            X = _stacked(X)
        X = usable(checked(_plain(X), "X"))
        rows = RawRows(X, _vector(_plain(_joined(y))), _plain(_joined(weights)), _plain(_joined(offsets)))
        for part, what in zip(rows[1:4], PARTS[1:], strict=True):
            if part is not None and part.shape[0] != X.shape[0]:
                raise DataError(f"X has {X.shape[0]} rows and {what} has {part.shape[0]}")
        return rows


def _is_pair(item: Any) -> bool:
    """Whether an item of a bag has rows and their labels, and possibly weights and offsets."""
    return isinstance(item, tuple) and 2 <= len(item) <= 4 and (sparse.issparse(item[0]) or np.ndim(item[0]) == 2)


def _joined_pairs(items: list[Any]) -> tuple[Any, ...]:
    """The parts of all items of one partition of a bag."""
    if len({len(item) for item in items}) > 1:
        raise DataError("has pairs (X, y) and longer tuples: give weights with all blocks or with none")
    parts = [list(map(_plain, part)) for part in zip(*items, strict=True)]
    return tuple(None if part[0] is None else _stacked(part) for part in parts)


def _plain(part: Any) -> Any:
    """Tables and lists as arrays."""
    if part is None or sparse.issparse(part) or isinstance(part, np.ndarray):
        return part
    return part.to_numpy() if hasattr(part, "to_numpy") else np.asarray(part)


def _vector(labels: Any) -> Any:
    """Labels that come as one column, as from a table of one column, are no label sets."""
    is_column = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1
    return labels[:, 0] if is_column else labels


def _stacked(blocks: list[Any]) -> Any:
    """The blocks of one partition of a bag as one matrix."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        raise DataError("has no blocks, so that its number of columns is not known: give it an empty matrix")
    return sparse.vstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.concatenate(blocks)


def _joined(part: Any) -> Any:
    """Labels or weights of one partition of a bag as one array."""
    if isinstance(part, list) and part and hasattr(part[0], "shape") and len(np.shape(part[0])) > 0:
        return _stacked(part)
    return part


def _is_array(X: Any) -> bool:
    return is_dask_collection(X) and hasattr(X, "chunks") and hasattr(X, "rechunk")


def _is_frame(X: Any) -> bool:
    return is_dask_collection(X) and hasattr(X, "npartitions") and hasattr(X, "columns")


def _parts(collection: Any, name: str) -> list[Any] | None:
    """Delayed partitions of a collection."""
    if collection is None:
        return None
    if isinstance(collection, list | tuple):
        if not all(isinstance(one, Delayed | Future) for one in collection):
            raise DataError(f"{name} is a list of other things than delayed blocks: give one per partition of X")
        return list(collection)
    if not is_dask_collection(collection):
        raise DataError(f"X is a Dask collection, but {name} is {type(collection).__name__}: give a collection, too")
    if not hasattr(collection, "to_delayed"):
        raise DataError(f"{name} is {type(collection).__name__}, whose partitions are not known")
    return list(np.asarray(collection.to_delayed(), object).reshape(-1))


def _check_client(client: Client, collection: Any, name: str) -> None:
    """Refuse futures of another cluster."""
    if not isinstance(collection, list | tuple):
        return
    own = client.scheduler.address if client.scheduler else None
    for one in collection:
        theirs = one.client.scheduler if isinstance(one, Future) else None
        if theirs is not None and theirs.address != own:
            raise DataError(
                f"{name} has futures of the cluster at {theirs.address}, and the active client is that of {own}: fit "
                "inside of `with client.as_current():`"
            )


def _in_chunks_of_rows(X: Any) -> Any:
    """A Dask array whose chunks have all columns."""
    if X.ndim != 2:
        raise DataError(f"X has {X.ndim} dimensions instead of 2")
    if X.dtype == object:
        raise DataError("X is a Dask array of type object: convert it with X.astype(np.float64)")
    if len(X.chunks[1]) == 1:
        return X
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        raise DataError(
            "X is in chunks along its columns, of unknown sizes: use X.compute_chunk_sizes().rechunk({1: -1})"
        )
    return X.rechunk({1: -1})


def _like_rows_of(X: Any, part: Any, name: str) -> Any:
    """Labels or weights in the chunks of the rows of X; those in this process are cut likewise."""
    if part is None or _is_cut(part):
        return part
    if not is_dask_collection(part):
        part = checked_labels(part) if name == "y" else np.asarray(checked(part, name))
    chunks = X.chunks[0]
    is_known = not any(np.isnan(size) for size in chunks)
    if isinstance(part, np.ndarray):
        if not is_known:
            raise DataError(
                f"{name} is in this process, and the chunks of X have unknown sizes: X.compute_chunk_sizes()"
            )
        from dask import array

        _check_rows(sum(chunks), len(part), name)
        return array.from_array(part, chunks=(chunks, *part.shape[1:]))
    if not _is_array(part):
        return part.to_dask_array() if hasattr(part, "to_dask_array") else part
    rest = dict.fromkeys(range(1, part.ndim), -1)
    own = part.chunks[0]
    if is_known and not any(np.isnan(size) for size in own):
        _check_rows(sum(chunks), sum(own), name)
        return part if own == chunks and all(len(sizes) == 1 for sizes in part.chunks[1:]) else part.rechunk(
            {0: chunks, **rest}
        )  # fmt: skip
    return part.rechunk(rest) if any(len(sizes) > 1 for sizes in part.chunks[1:]) else part


def _is_cut(part: Any) -> bool:
    """Whether this is a list of delayed blocks, or meant as one."""
    return isinstance(part, list | tuple) and any(isinstance(one, Delayed | Future) for one in part)


def _check_rows(wanted: int, found: int, name: str) -> None:
    if wanted != found:
        raise DataError(f"X has {wanted} rows and {name} has {found}")


def _frame_names(X: Any) -> list[str]:
    for column, kind in X.dtypes.items():
        if getattr(kind, "kind", "O") not in "biuf":
            raise DataError(f"column {column!r} of the table is of type {kind}: only numbers can be used")
    return [str(column) for column in X.columns]


def _frame_parts(X: Any) -> list[Any]:
    """Partitions of a table as matrices of one data type for all columns: float32 if none needs more."""
    kinds = [np.dtype(getattr(kind, "numpy_dtype", kind)) for kind in X.dtypes]
    dtype = np.float32 if all(kind in (np.dtype(np.float32), np.dtype(np.float16)) for kind in kinds) else np.float64
    return [delayed(_matrix, pure=False)(part, dtype) for part in X.to_delayed()]


def _matrix(frame: Any, dtype: Any) -> np.ndarray:
    """Task: a table as a matrix; missing values become NaN, which a survey refuses."""
    found: np.ndarray = frame.to_numpy(dtype=dtype, na_value=np.nan)
    return found


def _names_of_columns(y: Any) -> list[Any] | None:
    """Names of the columns of an indicator matrix that is a table."""
    return [str(column) for column in y.columns] if _is_frame(y) and y.ndim == 2 else None
