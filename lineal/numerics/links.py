"""From scores to probabilities: sigmoid and softmax in NumPy, for models and for solvers without kernels."""

from __future__ import annotations

from typing import Any

import numpy as np


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Sigmoid 1/(1 + e⁻ᶻ) without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def softmax(z: np.ndarray) -> np.ndarray:
    """Softmax exp(z_r) / Σ_q exp(z_q) of each row without overflow."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e


def probabilities(link: str, scores: np.ndarray, is_multiclass: bool, slopes: Any = 1.0) -> np.ndarray:
    """P(second class) for (n,) scores of two classes, P(label) for label sets, else (n, k) that add up to one.

    `link` is "logistic" (a sigmoid per column, normalised over classes) or "softmax". The likeliest class is that of
    the largest score, also where probabilities round to the same number.
    """
    wide = scores.astype(np.float64)
    if not is_multiclass:
        positive = sigmoid(slopes * wide)
        # A score too small to move ½ in this precision still decides.
        return np.where((wide > 0.0) & (positive <= 0.5), np.nextafter(0.5, 1.0), positive)
    if link == "logistic":
        P = np.maximum(sigmoid(wide), np.finfo(np.float64).tiny)  # a row that all classes refuse
        P /= P.sum(axis=1, keepdims=True)
    else:
        P = softmax(slopes * (wide - wide.max(axis=1, keepdims=True)))
    return with_largest(P, np.argmax(wide, axis=1))


def with_largest(P: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Change P so that the class `best` of each row is its first maximum, even if probabilities are rounded."""
    rows = np.flatnonzero(np.argmax(P, axis=1) != best)
    P[rows, best[rows]] = np.nextafter(P[rows].max(axis=1), np.inf)
    return P
