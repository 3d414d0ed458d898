"""Euclidean projections of rows: onto the probability simplex, onto the cube [0, 1]ᵏ."""

from __future__ import annotations

import numpy as np


def onto_simplex(V: np.ndarray) -> np.ndarray:
    """Nearest point of the probability simplex for each row.

    It is max(v − τ, 0): the τ that makes it add up to one is found among the partial means of the sorted entries
    (Held, Wolfe & Crowder 1974). O(k log k) per row; memory: four arrays like V in float64.
    """
    # Counted from the largest entry, to which one would be lost by rounding where it is huge; nothing more than one
    # below it stays positive.
    below = np.maximum(V.astype(np.float64) - V.max(axis=1, keepdims=True), -1.0)
    descending = -np.sort(-below, axis=1)
    excess = np.cumsum(descending, axis=1)
    excess -= 1.0
    excess /= np.arange(1, V.shape[1] + 1)
    kept = np.count_nonzero(descending > excess, axis=1)  # entries that stay positive: a prefix
    tau = np.take_along_axis(excess, kept[:, None] - 1, axis=1)
    return np.maximum(below - tau, 0.0).astype(V.dtype)


def onto_cube(V: np.ndarray) -> np.ndarray:
    """Clip entries to [0, 1]."""
    return np.clip(V, 0.0, 1.0)


#: By the name that model files have for them.
PROJECTIONS = {"simplex": onto_simplex, "cube": onto_cube}
