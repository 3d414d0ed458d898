"""Models whose weights are kept by row, and the same models with dense weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lineal.core.row_sparse import RowSparse
from lineal.linear.model import Model


def weights_of(d: int, k: int, rows, dtype=np.float64) -> RowSparse:
    values = np.random.default_rng(d + k).normal(size=(len(rows), k)).astype(dtype)
    return RowSparse(np.asarray(rows, dtype=np.int64), values, (d, k))


def rows_of(n: int, d: int, seed: int = 0, density: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < density)


def model_of(weights, names: bool = False, **more) -> Model:
    d, k = weights.shape
    classes = np.arange(max(k, 2))
    known = [f"feature {j}" for j in range(d)] if names else None
    return Model(weights, np.linspace(-0.1, 0.1, k), classes, "softmax", feature_names=known, **more)


def twin(model: Model) -> Model:
    return replace(model, weights=np.asarray(model.weights))
