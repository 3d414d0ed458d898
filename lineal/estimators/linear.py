"""`LinearClassifier`: any loss and penalty by any solver that can honour them."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from lineal import losses
from lineal.fit import fit
from lineal.model import LINKS, Model
from lineal.options import TrainOptions, describe
from lineal.solution import Solution


def _has_probabilities(estimator: LinearClassifier) -> bool:
    if estimator.loss in LINKS or estimator.probability:
        return True
    raise AttributeError(
        f"loss {estimator.loss!r} gives scores, not probabilities: set probability=True, or use 'logistic' or 'softmax'"
    )


class LinearClassifier(ClassifierMixin, BaseEstimator):
    __doc__ = f"""Linear classifier: a mean loss plus a penalty, minimised to a certified tolerance.

    Takes binary and multi-class labels of any type and, for losses that allow it, (n, k) indicator matrices; dense
    or sparse X in float32 or float64, which is neither copied nor converted.

    Parameters
    ----------
{describe(TrainOptions)}
    warm_start : default False
        Start from the last fit's weights where they fit the data.
    callbacks : default ()
        Functions called with a `Snapshot` each iteration; returning True ends the fit.

    Attributes
    ----------
    classes_ : the labels.
    coef_, intercept_ : (1, d) and (1,) for two classes, else (k, d) and (k,). Always an ndarray; where `model_` keeps
        its weights row-sparse, each look at `coef_` builds one.
    certificate_ : how far the objective can be from its minimum.
    history_ : one dict an iteration: iteration, seconds, objective, gap (running estimate; the last is certified),
        nonzero_rows.
    n_iter_ : number of iterations.
    status_ : how the fit ended.
    model_ : the `lineal.Model`, to save or to predict with.
    """

    def __init__(
        self,
        loss: str = "squared_hinge",
        penalty: str = "l2",
        alpha: float = 1e-4,
        l1_ratio: float | None = None,
        feature_groups: Any = None,
        penalty_factors: Any = None,
        solver: str = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        class_weight: Any = None,
        probability: bool = False,
        threshold: str | None = None,
        fbr: float | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.feature_groups = feature_groups
        self.penalty_factors = penalty_factors
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.threshold = threshold
        self.fbr = fbr
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offsets: Any = None) -> LinearClassifier:
        """Train on X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix.

        `offsets` are base scores, (n,) or (n, k), added to those of the model.
        """
        options = TrainOptions(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(TrainOptions)})
        X, y, sample_weight = self._validated(X, y, sample_weight)
        start = getattr(self, "model_", None) if self.warm_start else None
        model, solution = fit(
            X, y, options, sample_weight=sample_weight, offsets=offsets, start=start, callbacks=self.callbacks
        )
        self._keep(model, solution)
        if solution.status != "converged":
            warnings.warn(solution.message, ConvergenceWarning, stacklevel=2)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels."""
        return self._fitted().classes

    @property
    def coef_(self) -> np.ndarray:
        """Weights, a row a class; one row for two classes. Dense: built anew where `model_` keeps them row-sparse."""
        model = self._fitted()
        W = np.asarray(model.weights)
        return (W[:, 1:] - W[:, :1]).T if model.is_binary and W.shape[1] == 2 else W.T

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one a class; one for two classes."""
        model = self._fitted()
        b = model.intercept
        return b[1:] - b[:1] if model.is_binary and len(b) == 2 else b

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, else (n, k)."""
        model = self._fitted()
        return model.decision_function(self._checked(X))

    def predict(self, X: Any) -> np.ndarray:
        """Labels, or an (n, k) indicator matrix for label sets."""
        model = self._fitted()
        return model.predict(self._checked(X))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes (of each label for label sets), whose largest is that of `predict`."""
        model = self._fitted()
        return model.predict_proba(self._checked(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):  # of a probability that rounds to zero: −∞
            return np.log(self.predict_proba(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `lineal.load` reads."""
        self._fitted().save(path)

    def _validated(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Training data as `lineal.fit` takes them, or scikit-learn's errors."""
        X, y = validate_data(
            self, X, y, accept_sparse=["csr", "csc"], accept_large_sparse=True, dtype=[np.float64, np.float32],
            multi_output=True, order=None,
        )  # fmt: skip
        if np.ndim(y) == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, y, sample_weight

    def _keep(self, model: Model, solution: Solution) -> None:
        """Set the attributes of a fit."""
        names = getattr(self, "feature_names_in_", None)
        self.model_ = dataclasses.replace(model, feature_names=None if names is None else names.tolist())
        self.certificate_, self.history_, self.status_ = solution.certificate, solution.history, solution.status
        self.n_iter_ = max(1, len(solution.history) - 1)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _checked(self, X: Any) -> Any:
        return validate_data(
            self, X, reset=False, accept_sparse=["csr", "csc"], accept_large_sparse=True,
            dtype=[np.float64, np.float32], order=None,
        )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        loss = losses.get(self.loss) if self.loss in losses.names() else None
        tags.classifier_tags.multi_label = loss is not None and loss.takes_label_sets
        tags.target_tags.single_output = True
        return tags
