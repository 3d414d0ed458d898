"""Predictions of Dask collections: lazy, one task per partition, wherever the partitions are."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import numpy as np

from lineal.core.inputs import is_lazy
from lineal.errors import DataError

#: What is wrong with a score without labels.
MISSING = "y is missing: it can be left out only for a bag or a list of delayed pairs (X, y)"


def lazily(model: Any, method: str, X: Any) -> Any:
    """A Dask array with what a method of the model gives for every partition of X; nothing is computed yet.

    `method` is "predict", "decision_function" or "predict_proba".
    """
    import dask.array as da
    from dask import delayed

    blocks, lengths, dtype = _blocks(X, model)
    sample = methodcaller(method, np.zeros((1, model.n_features), dtype))(model)
    sent = delayed(model)
    parts = []
    for block, length in zip(blocks, lengths):
        part = delayed(_of_block, pure=True)(sent, block, method, sample[:0])
        parts.append(da.from_delayed(part, (length, *sample.shape[1:]), meta=sample[:0]))
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)


def _of_block(model: Any, block: Any, method: str, empty: np.ndarray) -> np.ndarray:
    """What a method of the model gives for one partition: a matrix, a tuple (X, y, …), or a list of a bag's blocks."""
    if isinstance(block, list):
        return np.concatenate([empty, *(_of_block(model, one, method, empty) for one in block)])
    if isinstance(block, tuple):
        block = block[0]
    found: np.ndarray = methodcaller(method, block)(model) if block.shape[0] else empty
    return found


def _blocks(X: Any, model: Any) -> tuple[list[Any], list[float], Any]:
    """The partitions of X as Delayed objects, their numbers of rows (NaN if unknown), and the data type of X."""
    if isinstance(X, list | tuple):
        return list(X), [np.nan] * len(X), model.dtype
    if not hasattr(X, "chunks") and hasattr(X, "to_delayed"):  # a table or a bag
        found = list(X.to_delayed())
        return found, [np.nan] * len(found), model.dtype
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions, found {X.ndim}")
    if X.shape[1] != model.n_features:
        raise DataError(f"X has {X.shape[1]} features, the model knows {model.n_features}")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, found {X.dtype}")
    X = X.rechunk({1: -1})
    return X.to_delayed().ravel().tolist(), list(X.chunks[0]), model.dtype


def lazy_labels(X: Any) -> Any:
    """The labels of a bag or a list of delayed pairs (X, y)."""
    from dask import delayed

    if hasattr(X, "chunks") or hasattr(X, "columns"):
        raise DataError(MISSING)
    blocks = X if isinstance(X, list | tuple) else X.to_delayed()
    return [delayed(_labels_of)(block) for block in blocks]


def _labels_of(block: Any) -> np.ndarray:
    if isinstance(block, list) and block:  # a partition of a bag
        return np.concatenate([_labels_of(one) for one in block])
    if not isinstance(block, tuple):
        raise DataError(MISSING)
    return np.asarray(block[1])


def _array_of(parts: Any) -> Any:
    """Delayed vectors, or a bag of them, as a Dask array with chunks of unknown sizes."""
    import dask.array as da
    from dask import delayed

    parts = parts if isinstance(parts, list | tuple) else parts.to_delayed()
    arrays = [da.from_delayed(delayed(_vector)(part), (np.nan,), meta=np.empty(0)) for part in parts]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _vector(part: Any) -> np.ndarray:
    """The labels or weights of one partition; those of a bag are a list of blocks."""
    is_bag = isinstance(part, list) and bool(part) and np.ndim(part[0]) > 0
    return np.concatenate(part) if is_bag else np.asarray(part)


def lazy_accuracy(predicted: Any, y: Any, sample_weight: Any = None) -> Any:
    """Share of the rows whose labels are all right, as a Dask array without dimensions: float() computes it.

    Labels and weights whose partitions cannot be matched with those of the predictions, since some sizes are unknown,
    are joined in one task: n numbers for each of them. As many partitions, all of unknown sizes, are taken to match.
    """
    given = [value for value in (y, sample_weight) if value is not None]
    sides = [predicted, *(_as_array(value, predicted.chunks[0]) for value in given)]
    if any(np.isnan(side.chunks[0]).any() for side in sides):
        if len({len(side.chunks[0]) for side in sides}) > 1 or not all(
            np.isnan(side.chunks[0]).all() for side in sides
        ):
            sides = [_in_one_chunk(side) for side in sides]
        unknown = (np.nan,) * len(sides[0].chunks[0])  # Dask wants the same object on all sides
        sides = [_with_chunks(side, unknown) for side in sides]
    right = _blockwise(_right, *sides[:2])
    if sample_weight is None:
        return right.mean()
    return _blockwise(_weighted, right, sides[2]).sum() / sides[2].sum()


def _as_array(values: Any, chunks: tuple[float, ...]) -> Any:
    """Labels or weights as a Dask array; what is in this process is cut into `chunks` of rows."""
    import dask.array as da

    if is_lazy(values) and not isinstance(values, da.Array):
        values = values.to_dask_array() if hasattr(values, "to_dask_array") else _array_of(values)
    if isinstance(values, da.Array):
        return values if values.ndim == 1 else values.rechunk({1: -1})
    values = np.asarray(values)
    return da.from_array(values, chunks=(-1 if np.isnan(chunks).any() else chunks, *values.shape[1:]))


def _in_one_chunk(array: Any) -> Any:
    """The same rows in one chunk, whatever the sizes of the chunks are."""
    import dask.array as da
    from dask import delayed

    joined = delayed(np.concatenate)(array.to_delayed().ravel().tolist())
    return da.from_delayed(joined, (np.nan, *array.shape[1:]), meta=array._meta)


def _with_chunks(array: Any, chunks: tuple[float, ...]) -> Any:
    import dask.array as da

    return da.Array(array.dask, array.name, (chunks, *array.chunks[1:]), meta=array._meta)


def _blockwise(function: Any, left: Any, right: Any) -> Any:
    """A vector from two arrays with the same chunks of rows."""
    import dask.array as da

    indices = ("ij"[: left.ndim], "ij"[: right.ndim])
    return da.blockwise(function, "i", left, indices[0], right, indices[1], concatenate=True, meta=np.empty(0))


def _right(predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether all labels of a row are right."""
    _check_lengths(predicted, labels)
    right = np.asarray(predicted == labels)
    return np.asarray(right.all(axis=1)) if right.ndim == 2 else right


def _weighted(right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    _check_lengths(right, weights)
    return right * weights


def _check_lengths(predicted: np.ndarray, given: np.ndarray) -> None:
    if len(predicted) != len(given):
        raise DataError(
            f"a partition has {len(predicted)} rows of X and {len(given)} labels or weights: cut X, y and "
            "sample_weight alike"
        )
