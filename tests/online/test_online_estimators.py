"""`OnlineClassifier` and `OnlineRegressor` keep scikit-learn's conventions."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal import OnlineClassifier, OnlineRegressor
from lineal.online.options import OnlineOptions

ORDER = "rows are learned from one after the other, so that their order and number count"


@parametrize_with_checks(
    [OnlineClassifier(), OnlineRegressor()],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ORDER,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", [OnlineClassifier, OnlineRegressor])
def test_parameters_are_the_options(cls):
    parameters = inspect.signature(cls).parameters
    for entry in dataclasses.fields(OnlineOptions):
        assert parameters[entry.name].default == entry.default, entry.name
        assert entry.metadata["help"] in cls.__doc__
    assert set(parameters) - {entry.name for entry in dataclasses.fields(OnlineOptions)} == {"namespaces"}


def test_clones_pickles_searches_and_pipelines():
    X, y = load_breast_cancer(return_X_y=True)
    classifier = OnlineClassifier(rate=1.0).fit(X[:400], y[:400])
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    for one in (classifier, again):  # what was pickled goes on as the original does
        one.partial_fit(X[400:], y[400:])
    np.testing.assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    assert clone(classifier).get_params() == classifier.get_params()
    assert not hasattr(clone(classifier), "model_")
    search = GridSearchCV(OnlineClassifier(), {"rate": [0.1, 1.0], "loss": ["logistic", "hinge"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.85
    F, z = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    assert make_pipeline(StandardScaler(), OnlineClassifier()).fit(F[order], z[order]).score(F, z) > 0.8
