"""Scores of rows that a fit has not seen, for what is learnt from them after a fit: probabilities and thresholds.

The rows are cut into folds, and each fold is scored by a fit to the others. A fold is held out by giving its rows the
weight zero: X is neither cut nor copied. These fits start from nothing: the fit to all rows has seen the rows that are
held out, and one that ends early would remember them. Memory: the requested scores, and what a fit needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.rng import generator, shuffle
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.errors import DataError
from lineal.linear.folds import deal
from lineal.problem.row_sums import scores
from lineal.problem.solution import Solution
from lineal.problem.targets import Encoded, true_labels

#: Folds, where every class has as many rows.
FOLDS = 5

#: Fits the rows with these weights, which add up to one.
Refit = Callable[[np.ndarray], Solution]


class HeldOutScores(NamedTuple):
    """Scores of some rows by fits that have not seen them.

    Attributes
    ----------
    Z : (m, k) scores.
    labels : (m,) class numbers, or label sets as a sparse boolean (m, k) matrix.
    weights : (m,) weights of the rows.
    folds : (m,) the fold in which each row was held out.
    """

    Z: np.ndarray
    labels: Any
    weights: np.ndarray
    folds: np.ndarray

    @property
    def has_label_sets(self) -> bool:
        """Whether rows have any number of labels, and not one each."""
        return sparse.issparse(self.labels)

    def label_columns(self) -> Iterator[np.ndarray]:
        """For each label in turn, which rows have it."""
        columns = self.labels.tocsc()
        for r in range(columns.shape[1]):
            has_label = np.zeros(columns.shape[0], bool)
            has_label[columns.indices[columns.indptr[r] : columns.indptr[r + 1]]] = True
            yield has_label


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


def held_out_scores(
    engine: Engine, weights: np.ndarray, folds: np.ndarray, refit: Refit, max_scores: int
) -> HeldOutScores | None:
    """Scores of all rows with a fold, or of a sample of them, of about `max_scores`; None if a fit was interrupted.

    `weights` and `folds` have one number per row of the engine.
    """
    k = engine.n_columns
    n_folds, room = int(folds.max()) + 1, max(1000, max_scores // k)
    kept = np.flatnonzero(folds >= 0)
    if len(kept) > room:
        shuffle(generator(0, stream=1), kept)
        kept = np.sort(kept[:room])
    scored = np.full(len(folds), -1, folds.dtype)
    scored[kept] = folds[kept]
    Z, places = np.empty((len(kept), k)), []
    labels: list[Any] = []
    for fold in range(n_folds):
        others = np.where(folds == fold, 0.0, weights)
        fitted = refit(others / others.sum())
        if fitted.status == "interrupted":
            return None
        chosen = engine.cut(scored == fold)
        answers = engine.gather(_score_chosen, fitted.weights, fitted.intercept, states=(chosen,))
        places.append(np.flatnonzero(folds[kept] == fold))
        Z[places[-1]] = np.concatenate([scores_of_block for scores_of_block, _ in answers])
        labels.extend(labels_of_block for _, labels_of_block in answers)
    order = np.argsort(np.concatenate(places))  # from fold after fold to the order of the rows
    return HeldOutScores(Z, _stacked(labels)[order], weights[kept], folds[kept])


def _score_chosen(block: Block, chosen: Piece, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Any]:
    """Scores and labels of the chosen rows of a block: for `Engine.gather`."""
    rows = np.flatnonzero(chosen["rows"])
    labels = true_labels(block.targets, len(b))[rows]
    return (scores(block, W, b)[rows] if len(rows) else np.empty((0, len(b)))), labels


def _stacked(parts: list[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
