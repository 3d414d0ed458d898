"""Scores of rows that a fit has not seen, for what is learnt from them after a fit: probabilities and thresholds.

The rows are cut into folds, and each fold is scored by a fit to the others. A fold is held out by giving its rows the
weight zero: X is neither cut nor copied. These fits start from nothing: the fit to all rows has seen the rows that are
held out, and one that ends early would remember them. Memory: the requested scores, and what a fit needs.

A search for α that was given its folds, because rows of a group or of a time belong together, uses them here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from lineal.core.rng import generator, shuffle
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.errors import DataError
from lineal.linear.folds import Fold, deal
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
    folds : (m,) the fold in which each row was held out. A row that is held out in several folds comes several times.
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


class Folds(Protocol):
    """Which rows each fit does not see, and which it sees."""

    def __len__(self) -> int:
        """Number of folds."""
        ...

    def held(self, fold: int) -> np.ndarray:
        """(n,) bool: rows that are held out."""
        ...

    def others(self, fold: int, weights: np.ndarray) -> np.ndarray:
        """Weights of the rows (n,) for the fit, which need not add up to one."""
        ...


@dataclass(frozen=True)
class Dealt:
    """Folds by their numbers (n,): each is held out from a fit to all others. −1 is never held out."""

    numbers: np.ndarray

    def __len__(self) -> int:
        return int(self.numbers.max()) + 1

    def held(self, fold: int) -> np.ndarray:
        return np.asarray(self.numbers == fold)

    def others(self, fold: int, weights: np.ndarray) -> np.ndarray:
        return np.where(self.numbers == fold, 0.0, weights)


@dataclass(frozen=True)
class Given:
    """Folds as pairs of training rows and held-out rows."""

    pairs: list[Fold]
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)

    def held(self, fold: int) -> np.ndarray:
        chosen = np.zeros(len(self.weights), bool)
        chosen[self.pairs[fold].held] = True
        return chosen & (self.weights > 0.0)

    def others(self, fold: int, weights: np.ndarray) -> np.ndarray:
        return weights * self.pairs[fold].counts(len(weights))


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
    engine: Engine, weights: np.ndarray, folds: Folds, refit: Refit, max_scores: int
) -> HeldOutScores | None:
    """Scores of all rows that are held out, or of a sample of them, of about `max_scores`; None after an interrupt.

    `weights` has one number per row of the engine.
    """
    k, kept = engine.n_columns, _kept(folds, max_scores // engine.n_columns)
    rows = [np.flatnonzero(folds.held(fold) & kept) for fold in range(len(folds))]
    every = np.concatenate(rows)
    order = np.argsort(every, kind="stable")  # from fold after fold to the order of the rows
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    Z, start = np.empty((len(every), k)), 0
    labels: list[Any] = []
    for fold, chosen in enumerate(rows):
        others = folds.others(fold, weights)
        fitted = refit(others / others.sum())
        if fitted.status == "interrupted":
            return None
        states = (engine.cut(folds.held(fold) & kept),)
        answers = engine.gather(_score_chosen, fitted.weights, fitted.intercept, states=states)
        Z[places[start : start + len(chosen)]] = np.concatenate([of_block for of_block, _ in answers])
        labels.extend(of_block for _, of_block in answers)
        start += len(chosen)
    numbers = np.repeat(np.arange(len(rows)), [len(chosen) for chosen in rows])
    every = every[order]
    return HeldOutScores(Z, _stacked(labels)[order], weights[every], numbers[order])


def _kept(folds: Folds, room: int) -> np.ndarray:
    """The rows that are scored where they are held out, (n,) bool: all, or a sample of `room`, but at least 1000."""
    kept = np.logical_or.reduce([folds.held(fold) for fold in range(len(folds))])
    rows, room = np.flatnonzero(kept), max(1000, room)
    if len(rows) > room:
        shuffle(generator(0, stream=1), rows)
        kept[rows[room:]] = False
    return np.asarray(kept)


def _score_chosen(block: Block, chosen: Piece, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Any]:
    """Scores and labels of the chosen rows of a block: for `Engine.gather`."""
    rows = np.flatnonzero(chosen["rows"])
    labels = true_labels(block.targets, len(b))[rows]
    return (scores(block, W, b)[rows] if len(rows) else np.empty((0, len(b)))), labels


def _stacked(parts: list[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
