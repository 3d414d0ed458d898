"""Thresholds that turn scores into label sets.

    zero        z_r > 0
    global      z_r > t, one t for all labels: the one of the best micro F1 of held-out scores
    per_label   z_r > t_r: of the best F1 of label r in the held-out scores of a fold, and their mean over the folds
    learned     z_r > c'z + c₀: a threshold per row, from its scores, fitted to the best cuts of the training rows

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

from dataclasses import dataclass

import numpy as np

from lineal.engine.base import Block, Engine
from lineal.errors import DataError
from lineal.linear.held_out import HeldOutScores
from lineal.problem.row_sums import scores
from lineal.problem.solution import Solution
from lineal.problem.targets import indicator

#: The rules that need scores of rows that the fit has not seen.
HELD_OUT = ("global", "per_label")

#: Held-out scores that are kept; of more rows a sample is taken.
MAX_SCORES = 1 << 23

#: Scores of training rows that are sorted at a time.
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
    """Name of the rule; None means learned for a loss that only orders labels, and zero for others."""
    if threshold is not None:
        return threshold
    return "learned" if is_multilabel and loss in RANKING else "zero"


def of_held_out(kind: str, held: HeldOutScores, fbr: float) -> np.ndarray:
    """Thresholds (k,) from held-out scores: the same for all labels if `kind` is global, else one per label."""
    Z, weights = held.Z, held.weights
    if kind == "global":
        cut, _ = best_cut(Z.ravel(), held.labels.toarray().ravel(), np.repeat(weights, Z.shape[1]))
        return np.full(Z.shape[1], cut)
    parts = [np.flatnonzero(held.folds == fold) for fold in np.unique(held.folds)]
    return np.array(
        [
            np.mean([_trusted_cut(Z[part, r], has_label[part], weights[part], fbr) for part in parts])
            for r, has_label in enumerate(held.label_columns())
        ]
    )


def best_cut(scores: np.ndarray, has_label: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Threshold with the best F1, and this F1; the highest one if several are equally good."""
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
    """Middle of an interval; less than `high` even if there is no number between."""
    middle = low + 0.5 * (high - low)
    return middle if middle < high else low


def _trusted_cut(scores: np.ndarray, has_label: np.ndarray, weights: np.ndarray, fbr: float) -> float:
    cut, f1 = best_cut(scores, has_label, weights)
    return cut if f1 >= fbr else float(scores.max())


# --- from training scores


def row_cuts(Z: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Best cut of each row: the middle of the interval with the fewest labels below and non-labels above.

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


@dataclass(frozen=True)
class CutMoments:
    """Weighted moments of scores z and of the best cuts c of their rows, about their means.

    Moments of several parts are added up with `+`, which combines means by their difference: large scores that all
    rows have in common cancel nothing.

    Attributes
    ----------
    weight : Σ s.
    means : (k,) mean scores.
    cut_mean : mean cut.
    gram : (k, k) Σ s(z − z̄)(z − z̄)'.
    products : (k,) Σ s(z − z̄)(c − c̄).
    """

    weight: float
    means: np.ndarray
    cut_mean: float
    gram: np.ndarray
    products: np.ndarray

    @staticmethod
    def of(Z: np.ndarray, truth: np.ndarray, weights: np.ndarray, is_ranking: bool = False) -> CutMoments:
        """Moments of rows with these scores (m, k), label sets (m, k) and weights (m,).

        A ranking loss sees differences of scores only: what their mean does from row to row is left over by the
        solver, and nothing to learn from. It is taken off.
        """
        weight, k = float(weights.sum()), Z.shape[1]
        if weight == 0.0:
            return CutMoments(0.0, np.zeros(k), 0.0, np.zeros((k, k)), np.zeros(k))
        Z = Z.astype(np.float64, copy=False)
        if is_ranking:
            Z = Z - Z.mean(axis=1, keepdims=True)
        cuts = row_cuts(Z, truth)
        means, cut_mean = weights @ Z / weight, float(weights @ cuts) / weight
        centred = (Z - means) * weights[:, None]
        return CutMoments(weight, means, cut_mean, centred.T @ (Z - means), centred.T @ (cuts - cut_mean))

    def __add__(self, other: CutMoments) -> CutMoments:
        if self.weight == 0.0 or other.weight == 0.0:
            return other if self.weight == 0.0 else self
        weight = self.weight + other.weight
        share = other.weight / weight
        apart, cut_apart = other.means - self.means, other.cut_mean - self.cut_mean
        gram, products = self.gram + other.gram, self.products + other.products
        gram += self.weight * share * np.outer(apart, apart)
        products += self.weight * share * cut_apart * apart
        return CutMoments(weight, self.means + share * apart, self.cut_mean + share * cut_apart, gram, products)


@dataclass(frozen=True)
class _TrainingCuts:
    """`CutMoments` of a block of training rows."""

    is_ranking: bool

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[CutMoments]:
        Z, k = scores(block, W, b), len(b)
        rows = max(1, CHUNK_SCORES // k)
        total = CutMoments.of(Z[:0], np.zeros((0, k), bool), np.zeros(0))
        for start in range(0, block.n, rows):
            stop = min(start + rows, block.n)
            truth = indicator(block.targets.rows(start, stop), k).toarray()
            total = total + CutMoments.of(Z[start:stop], truth, block.weights[start:stop], self.is_ranking)
        return (total,)


def of_training(engine: Engine, solution: Solution, is_ranking: bool) -> np.ndarray:
    """Coefficients c and c₀ of the threshold c'z + c₀, (k + 1,), from the scores of the training rows."""
    (moments,) = engine.sum(_TrainingCuts(is_ranking), solution.weights, solution.intercept)
    return learned(moments, is_ranking)


def learned(moments: CutMoments, is_ranking: bool = False) -> np.ndarray:
    """Coefficients c and c₀ of the threshold c'z + c₀, (k + 1,), by least squares with almost the smallest ‖c‖.

    With a ranking loss the threshold is that of the scores less their mean, plus the mean.
    """
    total, means, gram, k = moments.weight, moments.means, moments.gram.copy(), len(moments.means)
    if total == 0.0:
        raise DataError("threshold='learned' needs rows with weight")
    noise = np.finfo(np.float64).eps * (1.0 + np.abs(means).max())  # of equal scores, which differ by rounding
    gram[np.diag_indices(k)] += RIDGE * np.trace(gram) / k + total * noise * noise
    c = np.linalg.solve(gram, moments.products)
    first = moments.cut_mean - c @ means
    return np.append(c + (1.0 - c.sum()) / k if is_ranking else c, first)
