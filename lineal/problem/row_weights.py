"""Weights of the rows: sample weights times class weights, scaled to add up to one."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.inputs import checked_numbers
from lineal.errors import DataError, OptionError
from lineal.problem.targets import Encoded


def row_weights(sample_weight: Any, class_weight: Any, encoded: Encoded, n: int) -> np.ndarray:
    """Weights of the rows, class weights included, scaled to add up to one."""
    weights = checked_weights(sample_weight, n)
    weights = weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)  # their sum must not overflow
    if not encoded.is_multilabel:
        numbers, k = encoded.class_numbers, len(encoded.classes)
        if encoded.n_rows != n:
            raise DataError(f"y has {encoded.n_rows} labels, X has {n} rows")
        weights = weights * class_factors(class_weight, encoded.classes, np.bincount(numbers, weights, k))[numbers]
        check_class_sums(encoded.classes, np.bincount(numbers, weights, minlength=k))
    else:
        if encoded.n_rows != n:
            raise DataError(f"y has {encoded.n_rows} rows, X has {n}")
        if class_weight is not None:
            raise OptionError("class_weight has no meaning for label sets: use sample_weight")
    return weights / checked_total(float(weights.sum()))


def checked_weights(sample_weight: Any, n: int, first_row: int = 0) -> np.ndarray:
    """Sample weights of n rows in float64, all ones for None; refuses negative and infinite ones.

    `first_row` is the number of the first row among all rows, for messages.
    """
    weights = (
        np.ones(n) if sample_weight is None else np.asarray(checked_numbers(sample_weight, "sample_weight"), np.float64)
    )
    if weights.shape != (n,):
        raise DataError(f"sample_weight has shape {weights.shape}, X has {n} rows")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        row = first_row + int(bad[0])
        raise DataError(f"sample_weight of row {row} is {weights[bad[0]]}: weights must be finite and ≥ 0")
    return weights


def check_class_sums(classes: np.ndarray, sums: np.ndarray) -> None:
    """Refuse a class whose rows have no weight; `sums` has the sum of the weights per class."""
    empty = np.flatnonzero(sums <= 0.0)
    if empty.size:
        label = classes[empty[:1]].tolist()[0]
        raise DataError(f"class {label!r} has no weight: remove its rows or give it some")


def checked_total(total: float) -> float:
    """The sum of all weights, which must be positive."""
    if not (total > 0.0 and np.isfinite(total)):
        raise DataError(f"the weights add up to {total}: some must be positive")
    return total


def class_factors(class_weight: Any, classes: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """One factor per class, from the sum of the weights per class.

    These are the numbers of scikit-learn's `compute_class_weight`, without importing scikit-learn.
    """
    # That function counts weighted rows only from scikit-learn 1.7 on, divides by zero for classes without weight, and
    # lets negative factors and NaN pass.
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return sums.sum() / (len(classes) * np.maximum(sums, np.finfo(np.float64).tiny))
    if not isinstance(class_weight, dict):
        raise OptionError(f"class_weight={class_weight!r} is neither None, 'balanced' nor a dict of class weights")
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise OptionError(f"class_weight names {unknown[0]!r}, which is not a class of y: {known[:10]}")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise OptionError("class_weight has a weight that is negative or not finite")
    return factors
