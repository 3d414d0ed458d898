"""Probabilities for losses without built-in ones: one positive factor per decision, fitted to held-out scores.

A margin loss says which class a row belongs to, not how likely that is. How likely is learnt from rows that a fit has
not seen: the rows are cut into folds, each fold is scored by a fit to the others, and a slope a > 0 turns scores z into

    two classes      P(second) = σ(a·z)
    more classes     P = softmax(a·z), one a for all classes (the temperature 1/a)
    label sets       P(label r) = σ(a_r·z_r)

by minimising the log loss of the held-out scores, with the smoothed targets of Platt (1999): a row of a class with N
rows counts as (N + 1)/(N + 2) of its class, so that a stays finite also where the scores separate the classes.

Platt's sigmoid has an offset too, σ(a·z + c). It is left out on purpose: its probabilities pass ½ at z = −c/a, while
`predict` changes at z = 0, so that the likelier class would not always be the predicted one. An increasing map through
(0, ½) keeps them together, and so does one slope for all columns of a softmax. The intercept of the model, which is not
penalised, already does most of the offset's work.

Memory: MAX_SCORES scores (see `held_out.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineal.errors import OptionError
from lineal.linear.held_out import HeldOutScores
from lineal.problem.targets import Encoded

#: Held-out scores that are kept. A slope is one number: a sample of the rows determines it well enough.
MAX_SCORES = 1 << 22

#: Smallest slope, for scores of mean square one: that of scores which say nothing about the classes.
LEAST_SLOPE = 1e-6


def is_needed(loss: Any, encoded: Encoded) -> bool:
    """Whether probabilities need calibration for this loss; raises an error if calibration is not possible."""
    if loss.link is not None:
        return False
    if encoded.is_multilabel and loss.is_direct:
        raise OptionError(
            f"probability=True: {loss.name} orders the labels of a row, and its scores have no probabilities; "
            "use loss 'logistic', or another one-vs-rest loss with probability=True"
        )
    return True


def slopes_of(held: HeldOutScores) -> np.ndarray:
    """Factors that fit held-out scores best: one, or one per label for label sets."""
    Z, zeros = held.Z, np.zeros(len(held.Z))
    if not held.has_label_sets:
        Z = np.column_stack([zeros, Z]) if Z.shape[1] == 1 else Z
        return np.array([_slope(Z, held.labels, held.weights)])
    return np.array(
        [
            _slope(np.column_stack([zeros, Z[:, r]]), has_label.astype(np.intp), held.weights)
            for r, has_label in enumerate(held.label_columns())
        ]
    )


def _slope(Z: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Factor a > 0 that minimises the log loss of softmax(a·Z) with smoothed targets, which is convex in a."""
    m, k = Z.shape
    weights = weights / weights.sum()
    Z = Z - Z.max(axis=1, keepdims=True)
    deviations = Z - Z.mean(axis=1, keepdims=True)
    size = float(np.sqrt(weights @ np.einsum("ir,ir->i", deviations, deviations) / k))
    if size == 0.0:
        return 1.0  # equal scores: equal probabilities whatever the slope
    Z /= size
    rest = 1.0 / (m * np.bincount(labels, weights, minlength=k) + 2.0)[labels]  # what a row gives to other classes
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
    """Root of an increasing function, at least `least`, by Newton steps within a bracket."""
    low, high = least, 1.0
    if derivatives(low)[0] >= 0.0:
        return low
    while derivatives(high)[0] < 0.0 and high < 1e12:
        low, high = high, 4.0 * high
    a = 0.5 * (low + high)
    for _ in range(100):
        value, derivative = derivatives(a)
        low, high = (a, high) if value < 0.0 else (low, a)
        nearer = a - value / derivative if derivative > 0.0 else low
        if not low < nearer < high:
            nearer = 0.5 * (low + high)
        if abs(nearer - a) <= 1e-12 * nearer:
            break
        a = nearer
    return a
