"""The objective in float64 by NumPy and SciPy: the judge of all contestants, and none of their code.

F(W) = (1/n) Σ_i ℓ(y_i, W'x_i) + α Σ_g ‖W_g‖, where blocks are the rows of W or runs of them
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.liblinear import exact
from benchmarks.liblinear.exact import CHUNK_ROWS, accuracy

__all__ = ["accuracy", "live_rows", "objective"]


def objective(X: Any, y: np.ndarray, W: np.ndarray, loss: str, alpha: float, starts: np.ndarray | None = None) -> float:
    """F(W); `starts` has the first row of every run of rows that is a block, and by default every row is one."""
    W = np.asarray(W, np.float64)
    if loss == "multiclass_squared_hinge":
        value = _multiclass_squared_hinge(X, y, W)
    else:
        value = exact.objective(X, y, W, loss, "l2", 0.0)
    squares = (W * W).sum(axis=1)
    if starts is not None:
        squares = np.add.reduceat(squares, starts)
    return value + alpha * float(np.sqrt(squares).sum())


def live_rows(W: np.ndarray) -> float:
    """Share of the rows that are not zero."""
    return float(np.any(W != 0.0, axis=1).mean())


def _multiclass_squared_hinge(X: Any, y: np.ndarray, W: np.ndarray) -> float:
    total = 0.0
    for first in range(0, X.shape[0], CHUNK_ROWS):
        chunk = slice(first, first + CHUNK_ROWS)
        Z = X[chunk].astype(np.float64) @ W
        own = np.arange(len(Z)), y[chunk]
        short = 1.0 + Z - Z[own][:, None]
        short[own] = 0.0
        total += float((np.maximum(short, 0.0) ** 2).sum())
    return total / X.shape[0]
