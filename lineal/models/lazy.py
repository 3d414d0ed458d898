"""Predictions of Dask collections: lazy, one task per partition, wherever the partitions are."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import numpy as np

from lineal.core.inputs import is_lazy
from lineal.errors import DataError


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
    """The labels of a list of delayed pairs (X, y)."""
    from dask import delayed

    if not isinstance(X, list | tuple):
        raise DataError("y is missing: it can be left out only for a list of delayed pairs (X, y)")
    return [delayed(_labels_of)(block) for block in X]


def _labels_of(block: Any) -> np.ndarray:
    if not isinstance(block, tuple):
        raise DataError("y is missing: it can be left out only for a list of delayed pairs (X, y)")
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
    """Share of the rows whose labels are all right, as a Dask array without dimensions: float() computes it."""
    import dask.array as da

    def as_array(values: Any) -> Any:
        if is_lazy(values) and not isinstance(values, da.Array):
            values = values.to_dask_array() if hasattr(values, "to_dask_array") else _array_of(values)
        if not isinstance(values, da.Array):
            return da.from_array(np.asarray(values), chunks=predicted.chunks[0])
        if np.isnan(predicted.chunks[0]).any() and len(values.chunks[0]) == len(predicted.chunks[0]):
            chunks = predicted.chunks[0], *values.chunks[1:]  # of unknown sizes, as Dask wants them on both sides
            return da.Array(values.dask, values.name, chunks, meta=values._meta)
        return values

    right = predicted == as_array(y)
    if right.ndim == 2:
        right = right.all(axis=1)
    if sample_weight is None:
        return right.mean()
    weights = as_array(sample_weight)
    return (right * weights).sum() / weights.sum()
