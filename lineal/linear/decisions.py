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

What is best for few rows of a class can be bad for others. Therefore only a share of the thresholds is taken: 0, ¼, ½,
¾ or 1, whichever is best when the thresholds that all other folds choose are tried on each fold. Where the other folds
of one have rows of fewer than two classes, as with a single split, the held-out rows are dealt to parts, with the same
share of every class, that take the place of the folds. With enough rows the share is 1. If nothing can be gained it is
0, and the model predicts as without thresholds.

Memory: 3·m·k held-out scores, and about twenty vectors of m numbers. Time: O(m·k log m)
per sweep over the classes, for all rows and without each fold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lineal.linear.held_out import HeldOutScores
from lineal.linear.line_values import Gain, Line, MeanF1, Value, two_best
from lineal.linear.options import COSTS, DECISIONS
from lineal.linear.thresholds import MARGIN, MAX_SCORES, between
from lineal.models.thresholds import class_numbers

#: The rules for one label per row.
RULES = (*DECISIONS, COSTS)

#: Largest number of sweeps over the classes.
SWEEPS = 10

#: Shares of the thresholds that are tried.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Parts that held-out rows are dealt to where folds cannot choose a share.
PARTS = 5

#: Smallest gain of a sweep for which another one follows.
WORTH_A_SWEEP = 1e-4

#: Held-out rows that are used, for two classes and for more: of more rows a sample is taken.
MAX_ROWS = 1 << 20, 1 << 17

#: Improvements, and differences between equally good thresholds, that are rounding errors.
ROUNDING = 1e-12


#: Whether the time for a search is over.
IsOver = Callable[[], bool]


def never() -> bool:
    """There is time for the whole search."""
    return False


def value_of(rule: str, costs: np.ndarray | None, totals: np.ndarray) -> Value:
    """What decisions are worth by a rule, for classes of these total weights."""
    k = len(totals)
    if rule == "f1":
        counted = totals > 0.0
        return MeanF1(counted if k > 2 else np.array([False, True]))
    if rule == "balanced":
        return Gain(np.diag(1.0 / (k * np.where(totals > 0.0, totals, np.inf))))
    assert costs is not None
    costs = costs - costs.min(axis=1, keepdims=True)  # what all decisions about a row cost chooses none of them
    return Gain(-costs / max(float(np.abs(costs).max()), np.finfo(np.float64).tiny))


def room_for(n_columns: int) -> int:
    """Largest number of held-out scores."""
    return min(MAX_SCORES, n_columns * MAX_ROWS[n_columns > 2])


def of_held_out(rule: str, costs: np.ndarray | None, held: HeldOutScores, is_over: IsOver = never) -> np.ndarray:
    """Thresholds from held-out scores: (1,) for two classes, also if they have two columns of scores, else (k,).

    When the time `is_over`, the search ends with what it has.
    """
    Z, k, truth = held.Z, max(held.Z.shape[1], 2), held.labels.astype(np.intp, copy=False)
    if k == 2:
        Z = Z[:, 0] if Z.shape[1] == 1 else Z[:, 1] - Z[:, 0]
    weights = held.weights / held.weights.sum()

    def best(rows: np.ndarray | slice) -> np.ndarray:
        shares = weights[rows] / weights[rows].sum()
        value = value_of(rule, costs, np.bincount(truth[rows], shares, k))
        if k == 2:
            return best_cut(value, Z[rows], truth[rows], shares)
        return best_offsets(value, Z[rows], truth[rows], shares, is_over)

    t = best(slice(None))
    if not t.any():
        return t
    value = value_of(rule, costs, np.bincount(truth, weights, k))
    guesses = np.zeros((len(SHARES), len(truth)), np.int32)
    folds = _parts(held.folds, truth, weights)
    for fold in np.unique(folds):
        is_held = folds == fold
        others = best(~is_held)
        for guess, share in zip(guesses, SHARES):
            guess[is_held] = class_numbers(share * others, Z[is_held])
    values = np.array([value.of(truth, guess, weights) for guess in guesses])
    t *= SHARES[int(np.argmax(values >= values.max() - ROUNDING))]
    is_better = value.of(truth, class_numbers(t, Z), weights) > value.of(truth, class_numbers(None, Z), weights)
    return t if is_better else np.zeros_like(t)


def _parts(folds: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The fold of each row; parts in their place if the rows outside of some fold have fewer than two classes."""
    k = int(truth.max()) + 1
    sums = [np.bincount(truth[folds == fold], weights[folds == fold], k) for fold in np.unique(folds)]
    outside = np.sum(sums, axis=0) - sums
    if (np.count_nonzero(outside > ROUNDING, axis=1) > 1).all():
        return folds
    parts: np.ndarray = np.empty(len(truth), np.intp)
    parts[np.argsort(truth, kind="stable")] = np.arange(len(truth)) % PARTS
    return parts


def best_cut(value: Value, z: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Threshold (1,) of the scores of the second of two classes that has the best value; zero if none is better."""
    now = value.of(truth, (z > 0.0).astype(np.intp), weights)
    found = _line_search(value, z, Line(_falling(z), truth, np.zeros(len(z), np.intp), weights, 1), 0.0, now)
    return np.array([0.0 if found is None else found[0]])


def best_offsets(
    value: Value, Z: np.ndarray, truth: np.ndarray, weights: np.ndarray, is_over: IsOver = never
) -> np.ndarray:
    """Thresholds (k,) that changes of single ones do not improve any more, or those after `SWEEPS` sweeps."""
    m, k = Z.shape
    each, t, A = np.arange(m), np.zeros(k), Z.copy()
    first, second = np.empty(m, np.intp), np.empty(m, np.intp)
    two_best(A, each, first, second)
    start = now = value.of(truth, first, weights)
    totals = np.bincount(truth, weights, k)
    order = [r for r in np.lexsort((Z.mean(axis=0), totals)).tolist() if totals[r] > 0.0]
    for _ in range(SWEEPS):
        before = now
        for r in order:
            rest = np.where(first == r, second, first)
            leads = Z[:, r] - A[each, rest]
            found = _line_search(value, leads, Line(_falling(leads), truth, rest, weights, r), t[r], now)
            if found is None:
                continue
            (t[r], now), A[:, r] = found, Z[:, r] - found[0]
            changed = np.flatnonzero((first == r) | (second == r) | (A[:, r] >= A[each, second]))
            two_best(A, changed, first, second)
            if is_over():
                break
        if is_over() or now <= before + WORTH_A_SWEEP:
            break
    t -= t.mean()
    np.subtract(Z, t, out=A)
    return t if value.of(truth, A.argmax(axis=1), weights) > start else np.zeros(k)


def _line_search(value: Value, leads: np.ndarray, line: Line, at: float, now: float) -> tuple[float, float] | None:
    """Threshold t of the best value if the rows with `leads` above t go over, and this value; None if now is as good.

    Of equally good ones it is the nearest to `at`.
    """
    edges, values = leads[line.order], value.along(line)
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
        return low + beyond, best
    return (high - beyond if low == -np.inf else between(low, high)), best


def _falling(leads: np.ndarray) -> np.ndarray:
    """Numbers of the rows from the largest lead to the smallest, equal ones in any order."""
    return np.argsort(-leads)
