"""Base of the classifiers, which hold a model and predict with it like scikit-learn's classifiers."""

from __future__ import annotations

import dataclasses
import os
import warnings
from operator import methodcaller
from typing import Any

import numpy as np

from lineal.core.inputs import Checked, is_lazy
from lineal.core.scikit import (
    BaseEstimator,
    ClassifierMixin,
    ConvergenceWarning,
    check_classification_targets,
    check_is_fitted,
    column_or_1d,
)
from lineal.data.source import is_path
from lineal.errors import DataError
from lineal.models.evaluation import accuracy_on
from lineal.models.lazy import lazily, lazy_accuracy, lazy_labels
from lineal.models.offered import offered_unless
from lineal.problem.validation import ScoresChecked, validated, validated_weights


def _why_no_probabilities(estimator: ModelClassifier) -> str | None:
    return estimator._why_no_probabilities()


def column_names(estimator: BaseEstimator) -> list[str] | None:
    """Names of the columns that an estimator was fitted on; None if X had no names."""
    names = vars(estimator).get("feature_names_in_")
    return None if names is None else names.tolist()


class ModelClassifier(ScoresChecked, ClassifierMixin, BaseEstimator):
    """Base of the classifiers. `fit` of a subclass ends with `_keep`.

    Attributes
    ----------
    model_ : the trained model.
    certificate_, history_, status_, n_iter_ : how good it is, and how training went.
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
        return self._on(X, "decision_function")

    def predict(self, X: Any) -> np.ndarray:
        """Labels, or an (n, k) indicator matrix for label sets."""
        return self._on(X, "predict")

    @offered_unless(_why_no_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, or of each label for label sets. The largest is that of the predicted class."""
        return self._on(X, "predict_proba")

    def _on(self, X: Any, method: str) -> Any:
        """Result of a method of the model: lazy for Dask collections, and in bounded memory for files."""
        model = self._fitted()
        if is_lazy(X):
            return lazily(model, method, X)
        given = X if is_path(X) else Checked(self._checked(X))
        return methodcaller(method, given)(model)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Accuracy; for label sets, the share of rows whose labels are all right. Lazy for Dask collections.

        y is left out for a bag or a list of delayed pairs (X, y), and for files, which have the labels.
        """
        if is_lazy(X):
            return lazy_accuracy(self.predict(X), lazy_labels(X) if y is None else y, sample_weight)
        if is_path(X):
            if y is not None or sample_weight is not None:
                raise DataError("X names files, which have the labels: leave out y and sample_weight")
            return accuracy_on(self._fitted(), X)
        return super().score(X, y, sample_weight)

    @offered_unless(_why_no_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):  # of a probability that rounds to zero: −∞
            return np.log(self.predict_proba(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `lineal.load` reads."""
        self._fitted().save(path)

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> tuple[Any, Any, Any]:
        """Training data after scikit-learn's checks."""
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
        self.model_ = dataclasses.replace(model, feature_names=column_names(self))
        self.certificate_, self.history_, self.status_ = solution.certificate, solution.history, solution.status
        self.n_iter_ = max(1, len(solution.history) - 1)

    def _keep_from(self, rows: Any, model: Any, solution: Any) -> None:
        """Set the attributes of a fit to rows of files or of a cluster, which know the names of their columns."""
        names = rows.feature_names
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = model.n_features
        self._keep(model, solution)
        self.model_ = dataclasses.replace(self.model_, schema=rows.schema)

    def _warn(self, solution: Any) -> None:
        """Warn of a fit that did not converge."""
        if solution.needs_warning:
            warnings.warn(solution.message, ConvergenceWarning, stacklevel=3)

    def _options(self, kind: type) -> Any:
        """The options of a dataclass, from the parameters of the same names."""
        return kind(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(kind)})

    def _why_no_probabilities(self) -> str | None:
        """Reason why `predict_proba` does not exist; None if it exists."""
        return None

    def _model_or_none(self) -> Any:
        """The trained model; None before the first fit."""
        return vars(self).get("model_")

    def _fitted(self) -> Any:
        model = self._model_or_none()
        if model is None:
            check_is_fitted(self)
        return model

    def _checked(self, X: Any) -> Any:
        return validated(
            self, X, reset=False, accept_sparse=list(self._sparse), accept_large_sparse=True, dtype=self._dtypes,
            order=None,
        )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = True
        return tags
