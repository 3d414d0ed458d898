"""`LinearClassifierCV`: scikit-learn's conventions, any folds and scorers, attributes that agree with each other."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import lineal
from lineal.errors import DataError, OptionError
from lineal.linear.options import TrainOptions
from lineal.linear.search.estimator import LinearClassifierCV
from lineal.linear.search.options import PathOptions

# Paths of two alphas are enough for these tests, and their best one is always at an edge.
pytestmark = pytest.mark.filterwarnings("ignore:the best .* is at the (smallest|largest) alpha of the path")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LinearClassifierCV(loss="logistic", alphas=[1.0, 1e-2], cv=2, tol=1e-14)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parameters_are_the_options():
    parameters = inspect.signature(LinearClassifierCV.__init__).parameters
    for entry in (*dataclasses.fields(TrainOptions), *dataclasses.fields(PathOptions)):
        if entry.name not in ("alpha", "checkpoint", "folds", "scoring"):
            assert parameters[entry.name].default == entry.default, entry.name
            assert entry.metadata["help"] in LinearClassifierCV.__doc__
    known = {entry.name for kind in (TrainOptions, PathOptions) for entry in dataclasses.fields(kind)}
    assert set(parameters) - known == {"self", "cv", "keep_path", "callbacks"}


def test_attributes():
    X, y = load_iris(return_X_y=True)
    classifier = LinearClassifierCV(loss="softmax", n_alphas=5, cv=3, keep_path=True).fit(X, y)
    assert classifier.cv_scores_.shape == (5, 3)
    assert classifier.alpha_ == classifier.alphas_[classifier.chosen_index_]
    np.testing.assert_allclose(classifier.cv_mean_, classifier.cv_scores_.mean(axis=1))
    assert classifier.cv_mean_[classifier.best_index_] == classifier.cv_mean_.max()
    assert classifier.coef_path_.shape == (5, 3, 4)
    np.testing.assert_array_equal(classifier.coef_path_[classifier.chosen_index_], classifier.coef_)
    np.testing.assert_array_equal(classifier.intercept_path_[classifier.chosen_index_], classifier.intercept_)
    assert classifier.certificates_[classifier.chosen_index_] == classifier.certificate_
    assert classifier.n_nonzero_.shape == (5,)
    assert classifier.score(X, y) > 0.9
    assert lineal.LinearClassifierCV is LinearClassifierCV
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    assert clone(classifier).get_params() == classifier.get_params()
    unkept = LinearClassifierCV(loss="softmax", alphas=[0.1], cv=3).fit(X, y)
    with pytest.raises(AttributeError, match="keep_path=True"):
        unkept.coef_path_  # noqa: B018


def test_one_standard_error_takes_a_stronger_penalty():
    X, y = load_iris(return_X_y=True)
    best, simple = (
        LinearClassifierCV(loss="softmax", n_alphas=8, cv=3, select=select).fit(X, y)
        for select in ("best", "one_standard_error")
    )
    assert simple.alpha_ >= best.alpha_
    assert simple.cv_mean_[simple.chosen_index_] >= best.cv_mean_.max() - best.cv_se_[best.best_index_]


def test_folds_of_the_user():
    X, y = load_iris(return_X_y=True)
    settings = {"loss": "softmax", "alphas": [0.1, 0.01]}
    splitter = KFold(3, shuffle=True, random_state=0)
    first = LinearClassifierCV(cv=splitter, **settings).fit(X, y)
    second = LinearClassifierCV(cv=list(splitter.split(X)), **settings).fit(X, y)
    np.testing.assert_array_equal(first.cv_scores_, second.cv_scores_)
    groups = np.arange(150) % 7
    held = LinearClassifierCV(cv=GroupKFold(3), **settings).fit(X, y, groups=groups)
    assert held.cv_scores_.shape == (2, 3)
    assert LinearClassifierCV(cv=3, **settings).fit(X, y, groups=groups).cv_scores_.shape == (2, 3)
    with pytest.raises(DataError, match="class 0 has no rows in the training part of fold 0"):
        LinearClassifierCV(cv=KFold(3), **settings).fit(X, y)


def test_scorers_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    settings = {"loss": "softmax", "alphas": [0.1, 0.01], "cv": 3}
    ours = LinearClassifierCV(scoring="log_loss", **settings).fit(X, y)
    theirs = LinearClassifierCV(scoring="neg_log_loss", **settings).fit(X, y)
    np.testing.assert_allclose(theirs.cv_scores_, -ours.cv_scores_, rtol=1e-6)
    assert theirs.alpha_ == ours.alpha_
    made = LinearClassifierCV(scoring=make_scorer(matthews_corrcoef), **settings).fit(X, y)
    assert made.cv_mean_.max() > 0.9
    with pytest.raises(OptionError, match="scoring='acc'"):
        LinearClassifierCV(scoring="acc", **settings).fit(X, y)
    with pytest.raises(OptionError, match="needs probabilities"):
        LinearClassifierCV(scoring="log_loss").fit(X, y)


@pytest.mark.parametrize("scoring", [None, "micro_f1", "hamming_loss", "precision_at_1", "label_ranking_loss"])
def test_label_sets(scoring):
    X, Y = make_multilabel_classification(n_samples=80, n_classes=4, random_state=0)
    settings = {"loss": "logistic", "alphas": [10.0, 0.01], "cv": 3, "scoring": scoring}
    classifier = LinearClassifierCV(**settings).fit(X, Y)
    assert classifier.predict(X).shape == Y.shape
    again = LinearClassifierCV(**settings).fit(X, sparse.csr_array(Y))
    np.testing.assert_allclose(again.cv_scores_, classifier.cv_scores_)


def test_an_early_end_warns():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"ended early \(max_time\)"):
        classifier = LinearClassifierCV(max_time=1e-9).fit(X, y)
    assert classifier.status_ == "max_time"
    with pytest.warns(ConvergenceWarning, match="fits missed tol"):
        LinearClassifierCV(loss="softmax", alphas=[1e-4], max_iter=2, cv=3).fit(X, y)


@pytest.mark.parametrize("cv", [1, 0, -1, True, False])
def test_numbers_of_folds_that_are_refused(cv):
    X, y = load_iris(return_X_y=True)
    for groups in (None, np.arange(len(y))):
        with pytest.raises(OptionError, match=f"cv={cv} must be a number of folds from 2 on, a splitter"):
            LinearClassifierCV(cv=cv).fit(X, y, groups=groups)


@pytest.mark.parametrize("scoring", [["roc_auc"], ("accuracy", "f1"), {"a": "roc_auc"}, 3])
def test_one_measure_chooses(scoring):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(OptionError, match="is not one measure: α is chosen by one, so give one of accuracy"):
        LinearClassifierCV(cv=3, scoring=scoring).fit(X, y)
