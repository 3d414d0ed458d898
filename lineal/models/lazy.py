"""Predictions of Dask collections: lazy, one task per partition, wherever the partitions are."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import numpy as np

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
    """What a method of the model gives for one partition."""
    found: np.ndarray = methodcaller(method, block)(model) if block.shape[0] else empty
    return found


def _blocks(X: Any, model: Any) -> tuple[list[Any], list[float], Any]:
    """The partitions of X as Delayed objects, their numbers of rows (NaN if unknown), and the data type of X."""
    if isinstance(X, list | tuple):
        return list(X), [np.nan] * len(X), model.dtype
    if hasattr(X, "to_legacy_dataframe") or (hasattr(X, "partitions") and not hasattr(X, "chunks")):
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


def lazy_accuracy(predicted: Any, y: Any, sample_weight: Any = None) -> Any:
    """Share of the rows whose labels are all right, as a Dask array without dimensions: float() computes it."""
    import dask.array as da

    def as_array(values: Any) -> Any:
        if hasattr(values, "to_dask_array"):
            values = values.to_dask_array()
        return values if isinstance(values, da.Array) else da.from_array(values, chunks=predicted.chunks[0])

    right = predicted == as_array(y)
    if right.ndim == 2:
        right = right.all(axis=1)
    if sample_weight is None:
        return right.mean()
    weights = as_array(sample_weight)
    return (right * weights).sum() / weights.sum()
