"""From scores to label sets: which scores are high enough.

    zero        z_r > 0
    global      z_r > t, one t for all labels: the one of the best micro F1 of held-out scores
    per_label   z_r > t_r: of the best F1 of label r in the held-out scores of a fold, and their mean over the folds
    learned     z_r > c'z + c₀: a threshold of every row by its scores, fitted to the best cuts of the training rows

`per_label` is SCut with FBR.1 of Yang, "A study on thresholding strategies for text categorization" (SIGIR 2001),
cross-validated as in Fan & Lin, "A study on threshold selection for multi-label classification" (2007): where even the
best F1 is below `fbr`, too few rows have the label for its cut to be trusted, and the label's highest held-out score
is taken instead. `learned` is the set size predictor of Elisseeff & Weston, "A kernel method for multi-labelled
classification" (NIPS 2001): the best cut of a row has the fewest labels below and non-labels above it, the middle of
the interval of such cuts, and c minimises the weighted squares of what c'z + c₀ misses.

A model keeps them as one vector: None for zero, (k,) cuts, or (k + 1,) c and c₀. Memory: MAX_SCORES held-out scores and
four times as much for sorting them; k² sums for `learned`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.linear.held_out import HeldOutScores
    from lineal.problem.targets import Encoded

#: Those that need scores of rows that the fit has not seen.
HELD_OUT = ("global", "per_label")

#: Held-out scores that are kept; of more rows a sample is taken.
MAX_SCORES = 1 << 23

#: Scores that are sorted at a time where rows are.
CHUNK_SCORES = 1 << 20

#: How far beyond the highest score the cut of a row without labels is, and beyond the lowest that of one with all:
#: the margin that losses ask for.
MARGIN = 1.0

#: Share of the mean variance of the scores that is added to it in every direction, for a learned threshold: directions
#: in which scores do not vary get no part of it, and no factorisation that finds them is needed.
RIDGE = 1e-8


#: Losses that only order the labels of a row.
RANKING = ("label_ranking",)


def chosen(threshold: str | None, loss: str, is_multilabel: bool) -> str:
    """The way that None stands for: learned for a loss that only orders labels, zero for others."""
    if threshold is not None:
        return threshold
    return "learned" if is_multilabel and loss in RANKING else "zero"


def of_held_out(kind: str, held: HeldOutScores, encoded: Encoded, fbr: float) -> np.ndarray:
    """(k,) cuts by held-out scores: one for all labels where `kind` is global, else one a label."""
    from lineal.problem.targets import indicator

    Z, weights, folds = held.Z, held.weights, held.folds
    truth = indicator(encoded, held.rows)
    if kind == "global":
        cut, _ = best_cut(Z.ravel(), truth.toarray().ravel(), np.repeat(weights, Z.shape[1]))
        return np.full(Z.shape[1], cut)
    columns = truth.tocsc()
    parts = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    cuts = np.empty(Z.shape[1])
    for r in range(Z.shape[1]):
        has_label = np.zeros(len(Z), bool)
        has_label[columns.indices[columns.indptr[r] : columns.indptr[r + 1]]] = True
        cuts[r] = np.mean([_trusted_cut(Z[part, r], has_label[part], weights[part], fbr) for part in parts])
    return cuts


def best_cut(scores: np.ndarray, has_label: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The cut of the best F1 and that F1; of equally good ones the highest cut."""
    order = np.argsort(-scores, kind="stable")
    scores, weights = scores[order], weights[order]
    hits = np.cumsum(np.where(has_label[order], weights, 0.0))
    # With the first j + 1 scores above the cut; not inside of a run of equal scores.
    f1 = 2.0 * hits / (np.cumsum(weights) + hits[-1])
    f1[:-1][scores[:-1] == scores[1:]] = -1.0
    j = int(np.argmax(f1))
    if not f1[j] > 0.0:
        return float(scores[0]), 0.0
    below = scores[j + 1] if j + 1 < len(scores) else np.nextafter(scores[j], -np.inf)
    return between(float(below), float(scores[j])), float(f1[j])


def between(low: float, high: float) -> float:
    """The middle, but below `high` also where there is no number between."""
    middle = low + 0.5 * (high - low)
    return middle if middle < high else low


def _trusted_cut(scores: np.ndarray, has_label: np.ndarray, weights: np.ndarray, fbr: float) -> float:
    cut, f1 = best_cut(scores, has_label, weights)
    return cut if f1 >= fbr else float(scores.max())


# --- from training scores


def row_cuts(Z: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The best cut of every row: the middle of the interval with the fewest labels below and non-labels above.

    Of several such intervals the widest, and of those the highest.
    """
    n, k = Z.shape
    order = np.argsort(-Z, axis=1, kind="stable")
    Z, hits = np.take_along_axis(Z, order, 1), np.cumsum(np.take_along_axis(truth, order, 1), axis=1)
    edges = np.empty((n, k + 2))  # interval j, with j scores above it, is from edge j + 1 to edge j
    edges[:, 1:-1] = Z
    edges[:, 0], edges[:, -1] = Z[:, 0] + 2.0 * MARGIN, Z[:, -1] - 2.0 * MARGIN
    widths = edges[:, :-1] - edges[:, 1:]
    errors = np.arange(k + 1.0) - 2.0 * np.concatenate([np.zeros((n, 1)), hits], axis=1)
    errors[widths <= 0.0] = np.inf
    widths[errors > errors.min(axis=1, keepdims=True)] = -1.0
    best = np.argmax(widths, axis=1)
    each = np.arange(n)
    return 0.5 * (edges[each, best] + edges[each, best + 1])


def learned(parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], k: int, is_ranking: bool = False) -> np.ndarray:
    """(k + 1,) c and c₀ of the threshold c'z + c₀, from parts: scores (m, k), label sets (m, k), weights (m,).

    Least squares, of smallest ‖c‖ (but for RIDGE) where scores depend on each other. A ranking loss sees differences
    of scores only: what their mean does from row to row is left over by the solver, and nothing to learn from. The
    threshold is then that of the scores less their mean, plus the mean.
    """
    total, cut_mean, means = 0.0, 0.0, np.zeros(k)
    gram, products = np.zeros((k, k)), np.zeros(k)
    for Z, truth, weights in parts:
        weight = float(weights.sum())
        if weight == 0.0:
            continue
        Z = Z.astype(np.float64, copy=False)
        if is_ranking:
            Z = Z - Z.mean(axis=1, keepdims=True)
        cuts = row_cuts(Z, truth)
        # Moments around means, and means around each other: large common scores cancel nothing.
        here, cut_here = weights @ Z / weight, float(weights @ cuts) / weight
        centred = (Z - here) * weights[:, None]
        gram += centred.T @ (Z - here)
        products += centred.T @ (cuts - cut_here)
        move, cut_move, share = here - means, cut_here - cut_mean, weight / (total + weight)
        gram += total * share * np.outer(move, move)
        products += total * share * cut_move * move
        total, means, cut_mean = total + weight, means + share * move, cut_mean + share * cut_move
    if total == 0.0:
        raise DataError("threshold='learned' needs rows with weight")
    noise = np.finfo(np.float64).eps * (1.0 + np.abs(means).max())  # of equal scores, which differ by rounding
    gram[np.diag_indices(k)] += RIDGE * np.trace(gram) / k + total * noise * noise
    c = np.linalg.solve(gram, products)
    first = cut_mean - c @ means
    return np.append(c + (1.0 - c.sum()) / k if is_ranking else c, first)
