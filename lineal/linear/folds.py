"""Rows dealt to folds, for scores and for calibration.

Folds make no copies: a fold's training set is all rows, with weight zero for those held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.errors import DataError
from lineal.problem.targets import Encoded


@dataclass(frozen=True)
class Fold:
    """Numbers of the rows to train on and of the rows held out. A row that is named twice in `train` counts twice."""

    train: np.ndarray
    held: np.ndarray

    def counts(self, n: int) -> np.ndarray:
        """How often each of n rows is in the training part, as float64."""
        return np.bincount(self.train, minlength=n).astype(np.float64)


def deal(encoded: Encoded, rows: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """The fold of each of these rows, drawn with a seed; −1 for the rows that are not named.

    Rows sorted by class are dealt out in turn, which goes on from class to class: every class is spread evenly over
    the folds, and so is the whole. Label sets are only shuffled.
    """
    order = np.array(rows)
    shuffle(generator(seed), order)
    if not encoded.is_multilabel:
        order = order[np.argsort(encoded.class_numbers[order], kind="stable")]
    numbers = np.full(encoded.n_rows, -1)
    numbers[order] = np.arange(len(order)) % n_folds
    return numbers


def stratified(encoded: Encoded, n: int, n_folds: int, seed: int) -> list[Fold]:
    """`n_folds` parts, drawn with a seed, with about the same share of every class; label sets are only shuffled.

    The only row of a class is never held out, so that every class can always be learnt.
    """
    if n < n_folds:
        raise DataError(f"{n} rows cannot make {n_folds} folds: use fewer")
    rows = np.arange(n)
    part = deal(encoded, rows, n_folds, seed)
    if not encoded.is_multilabel:
        classes = encoded.class_numbers
        part[np.bincount(classes)[classes] == 1] = -1
    folds = [Fold(rows[part != number], rows[part == number]) for number in range(n_folds)]
    return check(folds, encoded, n)


def check(folds: list[Fold], encoded: Encoded, n: int) -> list[Fold]:
    """The folds, or an error that names the first that cannot be used."""
    if not folds:
        raise DataError("there are no folds: give at least one pair of training rows and held-out rows")
    for number, fold in enumerate(folds):
        for what, rows in (("training part", fold.train), ("held-out part", fold.held)):
            if len(rows) == 0:
                raise DataError(f"the {what} of fold {number} has no rows: use fewer folds")
            if rows.min() < 0 or rows.max() >= n:
                bad = int(rows.min() if rows.min() < 0 else rows.max())
                raise DataError(f"the {what} of fold {number} names row {bad}, and X has {n} rows")
        if encoded.is_multilabel:
            continue
        found = np.bincount(encoded.class_numbers[fold.train], minlength=len(encoded.classes))
        if not found.all():
            label = encoded.classes[np.flatnonzero(found == 0)[:1]].tolist()[0]
            raise DataError(
                f"class {label!r} has no rows in the training part of fold {number}: use fewer folds, stratify them, "
                "or begin splits by time with more rows"
            )
    return folds


def from_pairs(pairs: Any, encoded: Encoded, n: int) -> list[Fold]:
    """Folds from pairs of row numbers or masks: (training, held out)."""

    def numbers(rows: Any) -> np.ndarray:
        rows = np.asarray(rows)
        if rows.dtype == bool:
            if rows.shape != (n,):
                raise DataError(f"a mask of a fold has shape {rows.shape}, and X has {n} rows")
            return np.flatnonzero(rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise DataError("folds must be pairs of vectors of row numbers, or of masks")
        return rows.astype(np.intp)

    try:
        folds = [Fold(numbers(train), numbers(held)) for train, held in pairs]
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"folds must be pairs (training rows, held-out rows): {error}") from None
    return check(folds, encoded, n)
