"""Thresholds of label sets as a model applies them; `lineal.linear.thresholds` chooses them."""

from __future__ import annotations

import numpy as np


def label_sets(thresholds: np.ndarray | None, scores: np.ndarray) -> np.ndarray:
    """Labels of these scores, (n, k) bool. Scores and thresholds are compared in float64."""
    if thresholds is None:
        return scores > 0.0
    k = scores.shape[1]
    if len(thresholds) == k:
        return scores > thresholds
    cuts = scores.astype(np.float64, copy=False) @ thresholds[:k] + thresholds[k]
    return scores > cuts[:, None]


def describe(thresholds: np.ndarray | None, k: int) -> str:
    """The thresholds in a few words."""
    if thresholds is None:
        return "zero"
    if len(thresholds) == k + 1:
        return "learned, linear in the scores"
    return f"{thresholds[0]:g} for all labels" if np.all(thresholds == thresholds[0]) else "one threshold per label"


def check(thresholds: np.ndarray, k: int) -> np.ndarray:
    """Return the thresholds; raises a ValueError if they do not fit a model with k labels."""
    if thresholds.shape not in ((k,), (k + 1,)) or not np.isfinite(thresholds).all():
        raise ValueError("the thresholds do not fit the labels")
    return thresholds
