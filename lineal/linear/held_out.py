"""Scores of rows, for what is learnt from them after a fit: probabilities and thresholds.

Scores of rows that a fit has not seen: the rows are cut into folds, and each fold is scored by a fit to the others. A
fold is held out by giving its rows the weight zero: X is neither cut nor copied. These fits start from nothing: the fit
to all rows has seen the rows that are held out, and one that ends early would remember them. Memory: the scores that
are asked for, and what a fit needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.errors import DataError
from lineal.linear.folds import deal
from lineal.problem.objective import Objective
from lineal.problem.row_sums import scores
from lineal.problem.solution import Solution
from lineal.problem.targets import Encoded, indicator

#: Folds, where every class has as many rows.
FOLDS = 5

#: Fits the objective.
Refit = Callable[[Objective], Solution]


class HeldOutScores(NamedTuple):
    """Scores Z (m, k) of these rows, their weights, and the fold in which each was held out."""

    Z: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    folds: np.ndarray


def fold_numbers(encoded: Encoded, weights: np.ndarray, seed: int, what: str) -> np.ndarray:
    """The fold of every row, −1 for rows without weight; the same share of every class in every fold.

    `what` needs them, for messages.
    """
    rows = np.flatnonzero(weights > 0.0)
    folds = min(FOLDS, len(rows))
    if not encoded.is_multilabel:
        counts = np.bincount(encoded.class_numbers[rows], minlength=len(encoded.classes))
        folds = min(folds, int(counts.min()))
        if folds < 2:
            label = encoded.classes[np.argmin(counts)].tolist()
            raise DataError(
                f"{what} needs two rows of every class, to fit on one and measure on the other: class {label!r} has "
                f"{counts.min()}"
            )
    elif folds < 2:
        raise DataError(f"{what} needs at least two rows, to fit on one and measure on the other")
    return deal(encoded, rows, folds, seed)


def held_out_scores(objective: Objective, folds: np.ndarray, refit: Refit, max_scores: int) -> HeldOutScores | None:
    """About `max_scores` of them at most, by a sample of the rows; None where a fit was interrupted.

    The engine must be a `LocalEngine`, whose weights can be replaced.
    """
    engine: Any = objective.engine
    n_folds, room = int(folds.max()) + 1, max(1000, max_scores // engine.n_columns)
    kept = np.flatnonzero(folds >= 0)
    if len(kept) > room:
        shuffle(generator(0, stream=1), kept)
        kept = np.sort(kept[:room])
    Z = np.empty((len(kept), engine.n_columns))
    for fold in range(n_folds):
        weights = np.where(folds == fold, 0.0, engine.weights)
        part = dataclasses.replace(engine, weights=weights / weights.sum())
        fitted = refit(dataclasses.replace(objective, engine=part))
        if fitted.status == "interrupted":
            return None
        for block in part.blocks():
            start = block.first
            first, last = np.searchsorted(kept, (start, start + block.X.shape[0]))
            here = np.arange(first, last)[folds[kept[first:last]] == fold]
            if len(here):
                Z[here] = scores(block, fitted.weights, fitted.intercept)[kept[here] - start]
    return HeldOutScores(Z, kept, engine.weights[kept], folds[kept])


def training_scores(
    objective: Objective, encoded: Encoded, solution: Solution, max_scores: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of all rows, some at a time: scores (m, k), label sets (m, k) and weights (m,)."""
    engine: Any = objective.engine
    truth, step = indicator(encoded), max(1, max_scores // engine.n_columns)
    for block in engine.blocks():
        Z = scores(block, solution.weights, solution.intercept)
        for start in range(0, len(Z), step):
            stop = min(start + step, len(Z))
            sets = truth[block.first + start : block.first + stop].toarray()
            yield Z[start:stop], sets, block.weights[start:stop]
