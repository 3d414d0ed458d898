"""Rows that are drawn to be held out."""

from __future__ import annotations

import numpy as np

from lineal.core import rng
from lineal.errors import DataError
from lineal.problem.targets import Encoded


def drawn(fraction: float, weights: np.ndarray, encoded: Encoded, seed: int) -> np.ndarray:
    """Indices of rows to hold out, ascending: a fraction of the rows with a weight above zero.

    Of every class about the same share is held out, but never all rows; label sets are only shuffled.
    """
    order = np.flatnonzero(weights > 0.0)
    rng.shuffle(rng.generator(seed, -7), order)
    n, count = len(order), round(fraction * len(order))
    if not 0 < count < n:
        raise DataError(f"validation_fraction={fraction:g} of {n} rows leaves none to train or to measure on")
    if encoded.is_multilabel:
        return np.sort(order[:count])
    classes = encoded.class_numbers
    order = order[np.argsort(classes[order], kind="stable")]
    is_held = np.zeros(n, bool)
    is_held[((np.arange(count) + 0.5) * (n / count)).astype(np.intp)] = True  # evenly spread over the classes
    numbers = classes[order]
    trains = np.bincount(numbers[~is_held], minlength=len(encoded.classes)) > 0
    firsts = np.unique(numbers, return_index=True)[1]
    is_held[firsts[~trains[numbers[firsts]]]] = False  # a class keeps a row to learn from
    if not is_held.any():
        raise DataError(
            f"validation_fraction={fraction:g} of {n} rows would hold out the only rows of their classes: hold out "
            "none with validation_fraction=None"
        )
    return np.sort(order[is_held])


def training_and_held_out(weights: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the rows without those that are held out, and of these alone; each adds up to one."""
    training, held_out = weights.copy(), np.zeros_like(weights)
    held_out[held] = weights[held] / weights[held].sum()
    training[held] = 0.0
    return training / training.sum(), held_out
