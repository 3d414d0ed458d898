"""`TableClassifier`: from a table with numbers, categories, dates and text to a model that takes such tables."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lineal.core.scikit import BaseEstimator, ClassifierMixin, NotFittedError, clone
from lineal.data.tables import frames
from lineal.data.tables.cells import type_name
from lineal.data.tables.encode import Encoding
from lineal.data.tables.table_features import TableFeatures
from lineal.errors import DataError, OptionError
from lineal.linear.default_loss import loss_of_table
from lineal.linear.estimator import LinearClassifier
from lineal.linear.model import Model
from lineal.linear.search.estimator import LinearClassifierCV
from lineal.models.estimator import ModelClassifier
from lineal.models.offered import offered_unless


def _why_no_probabilities(classifier: TableClassifier) -> str | None:
    if classifier.__sklearn_is_fitted__():
        return classifier.classifier_._why_no_probabilities()
    return None if classifier.model is None else classifier.model._why_no_probabilities()


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of the rows of a table: `TableFeatures`, then any classifier of lineal.

    Takes tables of pandas, polars and PyArrow with numbers, categories, dates, text and missing cells. The model that
    it saves takes such tables and files, too.

    Parameters
    ----------
    model : a classifier of lineal; None for logistic regression (``LinearClassifier("logistic")``, with more than two
        classes ``"softmax"``), or for ``LinearClassifier()`` if there are columns of text.
    features : a `TableFeatures`; None for one with its defaults.
    output : "array" for NumPy arrays, "frame" for what the library of the table has: a series of labels, or a table
        with a column of probabilities for each class.

    Attributes
    ----------
    features_ : the fitted `TableFeatures`.
    classifier_ : the fitted classifier; its weights are those of standardised numbers.
    model_ : the `lineal.Model`. The weights of a linear one are in the units of the table.
    classes_ : the labels.
    coef_, intercept_ : weights of linear models in the units of the table, with one column per feature of
        `get_feature_names_out`.

    Examples
    --------
    >>> import pandas as pd
    >>> from lineal import TableClassifier
    >>> table = pd.DataFrame({"age": [20, 40, 30, 60], "job": ["cook", "smith", "cook", "smith"]})
    >>> classifier = TableClassifier().fit(table, ["no", "yes", "no", "yes"])
    >>> classifier.predict(pd.DataFrame({"job": ["smith"], "age": [50]})).tolist()
    ['yes']
    """

    def __init__(self, model: Any = None, *, features: TableFeatures | None = None, output: str = "array") -> None:
        self.model = model
        self.features = features
        self.output = output

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> TableClassifier:
        """Train on a table. y are the labels, or the name of their column; so are the weights of the rows.

        `groups` are for `LinearClassifierCV`, which holds rows of a group out together; they can be a column, too.
        """
        if self.output not in ("array", "frame"):
            raise OptionError(f"output={self.output!r} must be 'array' or 'frame'")
        classifier = None if self.model is None else clone(self.model)
        if not isinstance(classifier, ModelClassifier | None):
            raise OptionError(f"model={self.model!r} must be a classifier of lineal, such as LinearClassifier()")
        features = TableFeatures() if self.features is None else clone(self.features)
        if groups is not None and not isinstance(classifier, LinearClassifierCV):
            raise OptionError(
                f"groups are for models that hold rows out, and {type(classifier or LinearClassifier()).__name__} fits "
                "all: use model=LinearClassifierCV(), or leave groups out"
            )
        roles = {"labels": y, "weights": sample_weight, "groups": groups}
        named = {name for name in roles.values() if isinstance(name, str)}
        y, sample_weight, groups = (
            _values(X, one, what) if isinstance(one, str) else one for what, one in roles.items()
        )
        rows = features.fit_transform(frames.without(X, named) if named else X)
        if classifier is None:
            classifier = LinearClassifier(loss=loss_of_table(features.schema_, y))
        optional = {"sample_weight": sample_weight, "groups": groups}
        given = {name: values for name, values in optional.items() if values is not None}
        classifier.fit(rows, y, **given)
        encoding = Encoding.of_schema(features.schema_)
        names = encoding.feature_names()
        model = replace(classifier.model_, schema=features.schema_, feature_names=names)
        self.model_ = model.in_units_of(encoding) if isinstance(model, Model) else model
        self.features_, self.classifier_ = features, classifier
        self.feature_names_in_ = features.feature_names_in_
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels."""
        return self._fitted().classes

    @property
    def coef_(self) -> np.ndarray:
        """Weights in the units of the table, one row per class, or one row for two classes."""
        return self._linear().coef_

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts for `coef_`."""
        return self._linear().intercept_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """A name for each column of `coef_`: a column of the table, with its category, word, or part of a date."""
        self._fitted()
        return self.features_.get_feature_names_out()

    def predict(self, X: Any) -> Any:
        """Labels of the rows of a table, or of a file."""
        return self._returned(X, self._fitted().predict(X))

    def decision_function(self, X: Any) -> Any:
        """Scores: (n,) for two classes, else (n, k)."""
        return self._returned(X, self._fitted().decision_function(X))

    @offered_unless(_why_no_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes."""
        return self._returned(X, self._fitted().predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. y are the labels, or the name of their column; so are the weights of the rows."""
        y = _values(X, y, "labels") if isinstance(y, str) else np.asarray(y)
        if isinstance(sample_weight, str):
            sample_weight = _values(X, sample_weight, "weights")
        return self._fitted().score(X, y, sample_weight)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, with what was learned about the table, to a file that `lineal.load` reads."""
        self._fitted().save(path)

    def _returned(self, X: Any, values: np.ndarray) -> Any:
        if self.output == "array" or not frames.is_table(X):
            return values
        return frames.like(X, values, "prediction", [str(label) for label in self.classes_.tolist()])

    def _fitted(self) -> Any:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this TableClassifier is not fitted yet: call fit with a table and labels first")
        return self.model_

    def _linear(self) -> Model:
        model = self._fitted()
        if not isinstance(model, Model):
            raise AttributeError(f"a {model.kind} model has no coef_")
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _values(X: Any, name: str, what: str) -> np.ndarray:
    """The values of a column of a table; `what` they are, for messages."""
    if name not in frames.names_of(X):
        raise DataError(f"the table has no column {name!r}; it has {', '.join(frames.names_of(X)[:20])}")
    column = frames.arrow_table(X, [name]).column(0)
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise DataError(f"column {name!r} of the table, which should be the {what}, is missing in row {row}")
    if pa.types.is_nested(column.type):
        raise DataError(
            f"column {name!r} of the table, which should be the {what}, holds {type_name(column.type)}: give one value "
            "per row" + ", or label sets as a matrix of 0 and 1 instead of a name" * (what == "labels")
        )
    values = column.to_numpy()
    return values.astype(str) if values.dtype == object else values
