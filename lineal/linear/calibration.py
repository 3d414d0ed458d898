"""Probabilities for losses that have none of their own: one positive slope per decision, fitted on held-out scores.

A margin loss says which class a row is of, not how surely. The surety is learnt from rows that a fit has not seen:
the rows are cut into folds, each fold is scored by a fit to the others, and a slope a > 0 turns scores z into

    two classes      P(second) = σ(a·z)
    more classes     P = softmax(a·z), one a for all classes (the temperature 1/a)
    label sets       P(label r) = σ(a_r·z_r)

by minimising the log loss of the held-out scores, with the smoothed targets of Platt (1999): a row of a class with N
rows counts as (N + 1)/(N + 2) of its class, so that a stays finite also where the scores separate the classes.

Platt's sigmoid has an offset too, σ(a·z + c). It is left out on purpose: its probabilities pass ½ at z = −c/a, while
`predict` changes its mind at z = 0, so that the likelier class would not always be the predicted one. A map through
(0, ½) that rises keeps them together, and so does one slope shared by the columns of a softmax. The intercept of the
model, which is not penalised, already does most of the offset's work.

Memory: MAX_SCORES scores (see `held_out.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineal.errors import OptionError
from lineal.problem.targets import Encoded

#: Held-out scores that are kept. A slope is one number: a sample of the rows tells it well enough.
MAX_SCORES = 1 << 22

#: Smallest slope, for scores of mean square one: probabilities of scores that are worth nothing.
LEAST_SLOPE = 1e-6


def is_needed(loss: Any, encoded: Encoded) -> bool:
    """Whether scores of this loss must be calibrated to be probabilities; refuses those that cannot be."""
    if loss.link is not None:
        return False
    if encoded.is_multilabel and loss.is_direct:
        raise OptionError(
            f"probability=True: {loss.name} orders the labels of a row, and its scores have no probabilities; "
            "use loss 'logistic', or another one-vs-rest loss with probability=True"
        )
    return True


def slopes_of(Z: np.ndarray, encoded: Encoded, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Slopes that fit the scores Z (m, k) of these rows best."""
    if not encoded.is_multilabel:
        Z = np.column_stack([np.zeros(len(Z)), Z]) if encoded.n_columns == 1 else Z
        return np.array([_slope(Z, encoded.class_numbers[rows], weights)])
    slopes = np.empty(encoded.n_columns)
    starts, columns = encoded.targets.starts, encoded.targets.columns
    rows_of_labels = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    for column in range(encoded.n_columns):
        has_label = np.isin(rows, rows_of_labels[columns == column]).astype(np.intp)
        slopes[column] = _slope(np.column_stack([np.zeros(len(Z)), Z[:, column]]), has_label, weights)
    return slopes


def _slope(Z: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """argmin over a > 0 of the log loss of softmax(a·Z) with smoothed targets: convex in a, so a root of its slope."""
    m, k = Z.shape
    weights = weights / weights.sum()
    Z = Z - Z.max(axis=1, keepdims=True)
    deviations = Z - Z.mean(axis=1, keepdims=True)
    size = float(np.sqrt(weights @ np.einsum("ir,ir->i", deviations, deviations) / k))
    if size == 0.0:
        return 1.0  # equal scores: equal probabilities whatever the slope
    Z /= size
    rest = 1.0 / (m * np.bincount(labels, weights, minlength=k) + 2.0)[labels]  # of a row, to the other classes
    own = Z[np.arange(m), labels]
    target = float(weights @ ((1.0 - rest) * own + rest / (k - 1) * (Z.sum(axis=1) - own)))

    def derivatives(a: float) -> tuple[float, float]:
        P = np.exp(a * Z)
        P /= P.sum(axis=1, keepdims=True)
        means = np.einsum("ir,ir->i", P, Z)
        spread = np.einsum("ir,ir,ir->i", P, Z, Z) - means * means
        return float(weights @ means) - target, float(weights @ spread)

    return _rising_root(derivatives, LEAST_SLOPE) / size


def _rising_root(derivatives: Callable[[float], tuple[float, float]], least: float) -> float:
    """Root of a rising function at or above `least`, by Newton steps kept inside a bracket."""
    low, high = least, 1.0
    if derivatives(low)[0] >= 0.0:
        return low
    while derivatives(high)[0] < 0.0 and high < 1e12:
        low, high = high, 4.0 * high
    a = 0.5 * (low + high)
    for _ in range(100):
        value, slope = derivatives(a)
        low, high = (a, high) if value < 0.0 else (low, a)
        nearer = a - value / slope if slope > 0.0 else low
        if not low < nearer < high:
            nearer = 0.5 * (low + high)
        if abs(nearer - a) <= 1e-12 * nearer:
            break
        a = nearer
    return a
