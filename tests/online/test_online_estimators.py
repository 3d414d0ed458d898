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
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.errors import DataError
from lineal.online.options import OnlineOptions

ORDER = "rows are learned from one after the other, so that their order and number count"


@pytest.mark.filterwarnings("ignore:the rows are not in random order")  # some checks have sorted rows
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


def test_files_are_learned_as_a_stream(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] > 0, 2, 1)
    paths = []
    for number, rows in enumerate(np.array_split(np.arange(300), 2)):
        paths.append(tmp_path / f"part-{number}.arrow")
        write_layout(Dataset(X[rows], y[rows]), paths[-1])
    wanted = OnlineClassifier().partial_fit(X, y, classes=[1, 2])
    for name in (tmp_path, paths, str(tmp_path / "*.arrow")):
        found = OnlineClassifier().fit(name)
        assert found.classes_.tolist() == [1, 2]
        np.testing.assert_array_equal(found.decision_function(X), wanted.decision_function(X))
        assert found.n_features_in_ == 5
    numbers = OnlineRegressor().fit(paths)
    np.testing.assert_array_equal(numbers.predict(X), OnlineRegressor().fit(X, y).predict(X))
    with pytest.raises(DataError, match="X names a file, so y and sample_weight must be None"):
        OnlineClassifier().fit(paths, y)
