"""Areas under the curves of a ranking, as scikit-learn defines them, without importing it.

Rows of equal scores share a place: the curves have one point for each different score.
"""

from __future__ import annotations

import numpy as np


def areas(truth: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Area under the ROC curve, and average precision.

    Parameters
    ----------
    truth : (n,) whether each row belongs to the class; some do and some do not.
    scores : (n,) higher for rows that are more likely to.
    weights : (n,), positive, or None if all rows count equally.

    Memory: some arrays of n numbers. Time: one sort.
    """
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], truth[order].astype(np.float64)
    misses = 1.0 - hits
    if weights is not None:
        hits, misses = hits * weights[order], misses * weights[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)  # the last row of each score
    above, false = np.cumsum(hits)[ends], np.cumsum(misses)[ends]
    gained = np.diff(above, prepend=0.0)
    # Among rows of equal scores, half of the pairs count: a trapezium of the curve.
    ordered_pairs = float(((false[-1] - false + 0.5 * np.diff(false, prepend=0.0)) * gained).sum())
    precision = above / (above + false)
    return ordered_pairs / float(above[-1] * false[-1]), float((precision * gained).sum() / above[-1])
