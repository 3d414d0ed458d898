"""Thresholds as a model applies them. `lineal.linear.thresholds` and `lineal.linear.decisions` choose them.

    label sets     z_r > t_r with (k,) thresholds, or z_r > c'z + c₀ with (k + 1,) coefficients
    two classes    the second one where z > t, with one threshold
    more classes   the class with the largest z_r − t_r, with (k,) thresholds

Without thresholds, all of them are zero. Scores and thresholds are compared in float64.
"""

from __future__ import annotations

import numpy as np


def label_sets(thresholds: np.ndarray | None, scores: np.ndarray) -> np.ndarray:
    """Labels of these scores, (n, k) bool."""
    if thresholds is None:
        return scores > 0.0
    k = scores.shape[1]
    if len(thresholds) == k:
        return scores > thresholds
    cuts = scores.astype(np.float64, copy=False) @ thresholds[:k] + thresholds[k]
    return scores > cuts[:, None]


def class_numbers(thresholds: np.ndarray | None, scores: np.ndarray) -> np.ndarray:
    """Numbers of the predicted classes: of (n,) scores of the second of two classes, or of (n, k) scores."""
    if scores.ndim == 1:
        return (scores > (0.0 if thresholds is None else thresholds)).astype(np.intp)
    return np.argmax(scores if thresholds is None else scores - thresholds, axis=1)


def describe(thresholds: np.ndarray | None, k: int) -> str:
    """The thresholds of label sets in a few words."""
    if thresholds is None:
        return "zero"
    if len(thresholds) == k + 1:
        return "learned, linear in the scores"
    return f"{thresholds[0]:g} for all labels" if np.all(thresholds == thresholds[0]) else "one threshold per label"


def describe_decision(thresholds: np.ndarray | None, classes: list[object]) -> str:
    """How scores become one label, in a few words."""
    if len(classes) == 2:
        return f"{classes[1]} where its score is above {0.0 if thresholds is None else thresholds[0]:g}"
    return "largest score" if thresholds is None else "largest score less the threshold of its class"


def check(thresholds: np.ndarray, k: int, is_multilabel: bool) -> np.ndarray:
    """Return the thresholds; raises a ValueError if they do not fit a model with k labels or classes."""
    shapes = ((k,), (k + 1,)) if is_multilabel else ((1,),) if k == 2 else ((k,),)
    if thresholds.shape not in shapes or not np.isfinite(thresholds).all():
        raise ValueError(f"the thresholds do not fit the {'labels' if is_multilabel else 'classes'}")
    return thresholds
