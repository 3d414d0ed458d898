"""scikit-learn's checks of X, y and sample weights, after those of `lineal.core.inputs`, for everything with `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.inputs import check_frame, checked_labels, checked_numbers, is_frame, is_lazy
from lineal.core.lazy_frames import refuse_lazy
from lineal.core.scikit import _check_sample_weight, validate_data
from lineal.errors import LinealError, OptionError
from lineal.problem.labels import check_present, has_columns, label_sets

#: What scikit-learn takes for "there is no y to check".
NO_Y = "no_validation"

#: Types of numbers that no estimator converts.
_AS_THEY_ARE = (np.dtype(np.float64), np.dtype(np.float32))


def validated(estimator: Any, X: Any, y: Any = NO_Y, **options: Any) -> Any:
    """scikit-learn's `validate_data`, after checks of what it trusts: sparse structure and masks."""
    if is_lazy(X):
        raise OptionError(
            f"{type(estimator).__name__} needs arrays, and X is a Dask collection: use LinearClassifier, "
            "LinearClassifierCV or LeastSquaresClassifier, or call X.compute() if it fits in memory"
        )
    refuse_lazy(X)
    found = checked_numbers(X, "X")
    y = y if isinstance(y, str) and y == NO_Y else checked_labels(y)
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1:
        check_present(y)  # what scikit-learn does to find NaN fails on pandas' NA
    is_matrix = type(found) is np.ndarray or sparse.issparse(found)
    if is_matrix and found.dtype in _AS_THEY_ARE:  # nothing to convert, no columns to name
        return validate_data(estimator, found, y, **options)
    with np.errstate(over="ignore", invalid="ignore"), explained(X):  # numbers that become infinite are refused as such
        return validate_data(estimator, found, y, **options)


@contextmanager
def explained(X: Any) -> Iterator[None]:
    """Rewrite scikit-learn's errors about a table in terms of its columns and rows."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if is_frame(X) and not isinstance(error, LinealError):
            check_frame(X)
        raise


def validated_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Row weights as float64, or None if none are given."""
    if sample_weight is None:
        return None
    return _check_sample_weight(checked_numbers(sample_weight, "sample_weight"), X, dtype=np.float64)


class ScoresChecked:
    """Base of estimators whose `score` is one of scikit-learn's: it checks what those do not."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier or R² of a regression, as scikit-learn defines them."""
        y = checked_labels(y)
        if has_columns(y):
            y = label_sets(y).astype(np.int64)
        elif isinstance(y, np.ndarray) and y.ndim == 1:
            check_present(y)
        return super().score(X, y, checked_numbers(sample_weight, "sample_weight"))  # type: ignore[misc]
