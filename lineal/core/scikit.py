"""The names of scikit-learn that several families use, imported in a third of the time.

Importing any part of scikit-learn imports `scipy.stats` and, where it is installed, pandas. Both together take longer
than the rest, and scikit-learn uses them in functions that lineal's estimators do not call.
"""

from __future__ import annotations

from lineal.system.postponed import postponed

with postponed("scipy.stats", "pandas"):
    from sklearn import get_config
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
    from sklearn.exceptions import ConvergenceWarning, NotFittedError
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        _check_feature_names_in,
        _check_sample_weight,
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "ConvergenceWarning",
    "NotFittedError",
    "RegressorMixin",
    "TransformerMixin",
    "_check_feature_names_in",
    "_check_sample_weight",
    "check_array",
    "check_classification_targets",
    "check_consistent_length",
    "check_is_fitted",
    "check_random_state",
    "clone",
    "column_or_1d",
    "get_config",
    "type_of_target",
    "validate_data",
]
