"""What the classifiers share: they hold a model, and predict with it as scikit-learn's classifiers do."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lineal.core.inputs import Checked
from lineal.problem.validation import ScoresChecked, validated, validated_weights


def _has_probabilities(estimator: ModelClassifier) -> bool:
    why = estimator._why_no_probabilities()
    if why is None:
        return True
    raise AttributeError(why)


class ModelClassifier(ScoresChecked, ClassifierMixin, BaseEstimator):
    """Base of the classifiers. `fit` of a subclass ends with `_keep`.

    Attributes
    ----------
    model_ : what predicts.
    certificate_, history_, status_, n_iter_ : how it was found, and how good it is.
    """

    #: Types of X that `fit` takes as they are.
    _dtypes: Any = (np.float64, np.float32)
    _sparse: Any = ("csr", "csc")

    model_: Any

    @property
    def classes_(self) -> np.ndarray:
        """The labels."""
        return self._fitted().classes

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, else (n, k)."""
        model = self._fitted()
        return model.decision_function(Checked(self._checked(X)))

    def predict(self, X: Any) -> np.ndarray:
        """Labels, or an (n, k) indicator matrix for label sets."""
        model = self._fitted()
        return model.predict(Checked(self._checked(X)))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes (of each label for label sets), whose largest is that of `predict`."""
        model = self._fitted()
        return model.predict_proba(Checked(self._checked(X)))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):  # of a probability that rounds to zero: −∞
            return np.log(self.predict_proba(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `lineal.load` reads."""
        self._fitted().save(path)

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> tuple[Any, Any, Any]:
        """Training data as `lineal.linear.fit` takes them, or scikit-learn's errors."""
        X, y = validated(
            self, X, y, accept_sparse=list(self._sparse), accept_large_sparse=True, dtype=self._dtypes,
            multi_output=True, order=None, reset=reset,
        )  # fmt: skip
        if np.ndim(y) == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y, validated_weights(sample_weight, X)

    def _keep(self, model: Any, solution: Any) -> None:
        """Set the attributes of a fit."""
        names = getattr(self, "feature_names_in_", None)
        self.model_ = dataclasses.replace(model, feature_names=None if names is None else names.tolist())
        self.certificate_, self.history_, self.status_ = solution.certificate, solution.history, solution.status
        self.n_iter_ = max(1, len(solution.history) - 1)

    def _warn(self, solution: Any) -> None:
        """Say how a fit ended where the user must know."""
        if solution.needs_warning:
            warnings.warn(solution.message, ConvergenceWarning, stacklevel=3)

    def _options(self, kind: type) -> Any:
        """The options of a dataclass, from the parameters of the same names."""
        return kind(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(kind)})

    def _why_no_probabilities(self) -> str | None:
        """What to say where there are none; None where there are."""
        return None

    def _fitted(self) -> Any:
        model = self.__dict__.get("model_")
        if model is None:
            check_is_fitted(self)
        return model

    def _checked(self, X: Any) -> Any:
        return validated(
            self, X, reset=False, accept_sparse=list(self._sparse), accept_large_sparse=True, dtype=self._dtypes,
            order=None,
        )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = True
        return tags
