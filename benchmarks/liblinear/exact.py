"""The objective in float64 by NumPy and SciPy: the judge of all contestants, and none of their code.

F(W, b) = (1/n) Σ_i ℓ(y_i, W'x_i + b) + α Ω(W)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

#: Rows whose scores are held at a time.
CHUNK_ROWS = 4096


def objective(
    X: Any, y: np.ndarray, W: np.ndarray, loss: str, penalty: str, alpha: float, b: np.ndarray | float = 0.0
) -> float:
    """F(W, b) for weights (d, k)."""
    W = np.asarray(W, np.float64)
    total = 0.0
    for first in range(0, X.shape[0], CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        Z = X[rows].astype(np.float64) @ W + b
        total += float(_LOSSES[loss](Z, y[rows]).sum())
    size = np.abs(W).sum() if penalty == "l1" else 0.5 * (W * W).sum()
    return total / X.shape[0] + alpha * float(size)


def accuracy(X: Any, y: np.ndarray, W: np.ndarray, b: np.ndarray | float = 0.0) -> float:
    """Share of the rows whose label has the highest score."""
    Z = X @ np.asarray(W, np.float64) + b
    predicted = Z[:, 0] > 0.0 if Z.shape[1] == 1 else Z.argmax(axis=1)
    return float((predicted == y).mean())


def _margins(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    if Z.shape[1] == 1:
        return Z * np.where(y == 1, 1.0, -1.0)[:, None]
    margins = -Z
    own = np.arange(len(y)), y
    margins[own] = Z[own]
    return margins


def _crammer_singer(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    own = np.arange(len(y)), y
    raised = Z + 1.0
    raised[own] = Z[own]
    return raised.max(axis=1) - Z[own]


_LOSSES = {
    "hinge": lambda Z, y: np.maximum(1.0 - _margins(Z, y), 0.0),
    "squared_hinge": lambda Z, y: np.maximum(1.0 - _margins(Z, y), 0.0) ** 2,
    "logistic": lambda Z, y: np.logaddexp(0.0, -_margins(Z, y)),
    "crammer_singer": _crammer_singer,
    "softmax": lambda Z, y: logsumexp(Z, axis=1) - Z[np.arange(len(y)), y],
}
