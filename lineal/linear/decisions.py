"""Thresholds of decisions where rows have one label each: chosen for what the decisions are worth, on held-out rows.

    two classes     the second one is predicted where z > t
    more classes    the class with the largest z_r − t_r; thresholds have mean zero

What is best for accuracy is not best for a rare class, or where one kind of error costs more than another. A rule says
what counts:

    f1         two classes: F1 of the second one; more: the mean F1 of the classes (macro F1)
    balanced   the mean share of the rows of a class that are predicted so (balanced accuracy)
    costs      the mean cost C[true][predicted], the smaller the better

The search starts at zero. A line search moves the threshold of one class: as it falls, rows go over to this class in
the order of their scores, so that one sort shows the value of every threshold (`line_values.py`). The best interval is
taken, in its middle; of equally good ones the nearest. For two classes this is the exact optimum. For more it is done
for one class after the other, the rarest first, until nothing improves: coordinate ascent, which never falls.

Memory: 2·m·k held-out scores, CHUNK_SCORES of them once more, and about twenty vectors of m numbers. Time: O(m·k log m)
per sweep over the classes.
"""

from __future__ import annotations

import numpy as np

from lineal.linear.held_out import HeldOutScores
from lineal.linear.line_values import Gain, Line, MeanF1, Value
from lineal.linear.options import COSTS, DECISIONS
from lineal.linear.thresholds import CHUNK_SCORES, MARGIN, between

#: The rules for one label per row.
RULES = (*DECISIONS, COSTS)

#: Largest number of sweeps over the classes.
SWEEPS = 10

#: Improvements, and differences between equally good thresholds, that are rounding errors.
ROUNDING = 1e-12


def value_of(rule: str, costs: np.ndarray | None, totals: np.ndarray) -> Value:
    """What decisions are worth by a rule, for classes of these total weights."""
    k = len(totals)
    if rule == "f1":
        counted = totals > 0.0
        if k == 2:
            counted[0] = False
        return MeanF1(counted)
    if rule == "balanced":
        return Gain(np.diag(1.0 / (k * np.where(totals > 0.0, totals, np.inf))))
    assert costs is not None
    return Gain(-costs / max(float(np.abs(costs).max()), np.finfo(np.float64).tiny))


def of_held_out(rule: str, costs: np.ndarray | None, held: HeldOutScores) -> np.ndarray:
    """Thresholds from held-out scores: (1,) for two classes, also if they have two columns of scores, else (k,)."""
    Z, k = held.Z, max(held.Z.shape[1], 2)
    weights = held.weights / held.weights.sum()
    totals = np.bincount(held.labels, weights, k)
    value = value_of(rule, costs, totals)
    if k == 2:
        z = Z[:, 0] if Z.shape[1] == 1 else Z[:, 1] - Z[:, 0]
        return np.array([best_cut(value, z, held.labels, weights)])
    return best_offsets(value, Z, held.labels, weights)


def best_cut(value: Value, z: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    """Threshold of the scores of the second of two classes that has the best value; zero if none is better."""
    now = value.of(truth, (z > 0.0).astype(np.intp), weights)
    found = _line_search(value, z, Line(truth, weights, np.zeros(len(z), np.intp), 1), 0.0, now)
    return 0.0 if found is None else found


def best_offsets(value: Value, Z: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Thresholds (k,) that no change of a single one improves, or those after `SWEEPS`; never worse than zero."""
    m, k = Z.shape
    each, t, A = np.arange(m), np.zeros(k), Z.copy()
    first, second = _two_best(A)
    start = now = value.of(truth, first, weights)
    totals = np.bincount(truth, weights, k)
    order = [r for r in np.lexsort((Z.mean(axis=0), totals)).tolist() if totals[r] > 0.0]
    for _ in range(SWEEPS):
        before = now
        for r in order:
            rest = np.where(first == r, second, first)
            found = _line_search(value, Z[:, r] - A[each, rest], Line(truth, weights, rest, r), t[r], now)
            if found is None:
                continue
            t[r], A[:, r] = found, Z[:, r] - found
            changed = np.flatnonzero((first == r) | (second == r) | (A[:, r] >= A[each, second]))
            first[changed], second[changed] = _two_best(A[changed])
            now = value.of(truth, first, weights)
        if now <= before + ROUNDING:
            break
    t -= t.mean()
    np.subtract(Z, t, out=A)
    return t if value.of(truth, A.argmax(axis=1), weights) > start else np.zeros(k)


def _line_search(value: Value, leads: np.ndarray, line: Line, at: float, now: float) -> float | None:
    """Threshold t of the best value if the rows with `leads` above t go over; None if it is not better than now.

    Of equally good ones it is the nearest to `at`.
    """
    order = np.argsort(-leads, kind="stable")
    edges = leads[order]
    values = value.along(Line(line.truth[order], line.weights[order], line.rest[order], line.to))
    values[1:-1][edges[:-1] == edges[1:]] = -np.inf  # rows with the same lead go over together
    best = float(values.max())
    if not best > now + ROUNDING:
        return None
    good = np.flatnonzero(values >= best - ROUNDING)
    lows, highs = np.append(edges, -np.inf)[good], np.append(np.inf, edges)[good]
    nearest = int(np.argmin(np.maximum(lows - at, 0.0) + np.maximum(at - highs, 0.0)))
    low, high = float(lows[nearest]), float(highs[nearest])
    beyond = max(MARGIN, float(edges[0] - edges[-1]))
    if high == np.inf:
        return low + beyond
    return high - beyond if low == -np.inf else between(low, high)


def _two_best(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes with the largest and the second largest score of each row; of equal ones the first."""
    m, k = A.shape
    first, second = np.empty(m, np.intp), np.empty(m, np.intp)
    rows = max(1, CHUNK_SCORES // k)
    for start in range(0, m, rows):
        part = A[start : start + rows].copy()
        best = part.argmax(axis=1)
        part[np.arange(len(part)), best] = -np.inf
        first[start : start + rows], second[start : start + rows] = best, part.argmax(axis=1)
    return first, second
