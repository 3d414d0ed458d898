"""`LinearClassifier`: scikit-learn's conventions, every kind of label, refusals that say what to do."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lineal
from lineal import losses
from lineal.errors import DataError, OptionError
from lineal.linear.estimator import LinearClassifier
from lineal.linear.model import LINKS
from lineal.linear.options import TrainOptions


# The checks on weights compare scores to seven digits, hence the tolerance and a penalty that allows it.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [LinearClassifier(loss=loss, tol=1e-14, alpha=1e-2) for loss in ("squared_hinge", "logistic", "softmax")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parameters_are_the_training_options():
    parameters = inspect.signature(LinearClassifier.__init__).parameters
    for entry in dataclasses.fields(TrainOptions):
        assert parameters[entry.name].default == entry.default, entry.name
        assert entry.metadata["help"] in LinearClassifier.__doc__
    extra = set(parameters) - {entry.name for entry in dataclasses.fields(TrainOptions)} - {"self"}
    assert extra == {"warm_start", "callbacks"}


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ham", "spam", "eggs"]),
        np.array([-5, 0, 7]),
        np.array([0.5, 1.5, 2.5]),
        np.array(["é", "z", "ß"], object),
    ],
)
def test_labels_of_any_type(labels):
    X, y = load_iris(return_X_y=True)
    classifier = LinearClassifier(alpha=1e-3).fit(X, labels[y] if labels.dtype.kind != "f" else labels.astype(str)[y])
    assert set(classifier.predict(X)) <= set(classifier.classes_)
    assert classifier.score(X, labels[y] if labels.dtype.kind != "f" else labels.astype(str)[y]) > 0.9


@pytest.mark.parametrize("labels", [np.array([False, True]), np.array(["no", "yes"]), np.array([-1, 1])])
@pytest.mark.parametrize("loss", ["squared_hinge", "softmax"])
def test_binary_scores_are_of_the_second_class(labels, loss):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    classifier = LinearClassifier(loss=loss, alpha=1e-2).fit(X, labels[y])
    scores = classifier.decision_function(X)
    assert scores.shape == (len(X),)
    np.testing.assert_array_equal(classifier.predict(X) == labels[1], scores > 0)
    assert classifier.coef_.shape == (1, X.shape[1])
    np.testing.assert_allclose(X @ classifier.coef_[0] + classifier.intercept_[0], scores, atol=1e-10)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
def test_multilabel(kind, loss):
    X, Y = make_multilabel_classification(n_samples=120, n_classes=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = LinearClassifier(loss=loss, alpha=1e-2).fit(X, kind(Y))
    predicted = classifier.predict(X)
    assert predicted.shape == Y.shape
    assert (predicted == Y).mean() > 0.8
    if loss == "logistic":
        probabilities = classifier.predict_proba(X)
        np.testing.assert_array_equal(probabilities > 0.5, predicted.astype(bool))


@pytest.mark.parametrize("loss", ["softmax", "multiclass_squared_hinge"])
def test_multilabel_is_refused_by_name_where_it_has_no_meaning(loss):
    X, Y = make_multilabel_classification(n_samples=30, random_state=0)
    with pytest.raises(OptionError, match=f"'{loss}'.*label_ranking"):
        LinearClassifier(loss=loss).fit(X, Y)


@pytest.mark.slow
def test_label_ranking_scores_rank():
    X, Y = make_multilabel_classification(n_samples=100, n_classes=4, random_state=0, allow_unlabeled=False)
    classifier = LinearClassifier(loss="label_ranking", alpha=1e-2).fit(X, Y)
    scores = classifier.decision_function(X)
    top = scores.argmax(1)
    assert Y[np.arange(100), top].mean() > 0.8
    assert (classifier.predict(X) == Y).mean() > 0.8


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_probabilities(loss):
    X, y = load_iris(return_X_y=True)
    classifier = LinearClassifier(loss=loss, alpha=1e-3).fit(X, y)
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(classifier.classes_[p.argmax(1)], classifier.predict(X))
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(X)), p)


def test_losses_without_a_link_have_no_predict_proba():
    assert not hasattr(LinearClassifier(), "predict_proba")
    assert {name: losses.get(name).link for name in losses.names() if losses.get(name).link} == LINKS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_class_weights():
    X, y = load_iris(return_X_y=True)
    rows = np.concatenate([np.arange(50), np.arange(50, 60), np.arange(100, 150)])
    X, y = X[rows], y[rows]
    balanced = LinearClassifier(class_weight="balanced", tol=1e-13).fit(X, y)
    counts = np.bincount(y)
    by_hand = LinearClassifier(class_weight={c: 110 / (3 * counts[c]) for c in range(3)}, tol=1e-13).fit(X, y)
    by_rows = LinearClassifier(tol=1e-13).fit(X, y, sample_weight=(110 / (3 * counts))[y])
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, atol=1e-5)
    np.testing.assert_allclose(balanced.coef_, by_rows.coef_, atol=1e-5)
    with pytest.raises(OptionError, match="not a class of y"):
        LinearClassifier(class_weight={9: 1.0}).fit(X, y)
    with pytest.raises(DataError, match="class 1 has no weight"):
        LinearClassifier(class_weight={1: 0.0}).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinje"}, "did you mean 'hinge'"),
        ({"penalty": "L2"}, "did you mean 'l2'"),
        ({"solver": "lbgfs"}, "did you mean 'lbfgs'"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"tol": 0}, "tol=0"),
        ({"max_iter": -3}, "max_iter=-3"),
        ({"max_time": 0}, "max_time=0"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"class_weight": "even"}, "class_weight='even'"),
        ({"loss": "hinge", "solver": "lbfgs"}, "lbfgs needs a smooth loss"),
        ({"penalty": "l1/l2", "solver": "lbfgs"}, "lbfgs needs penalty 'l2'"),
    ],
)
def test_bad_options_are_named(options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(OptionError, match=message):
        LinearClassifier(**options).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(-np.ones(150), "≥ 0"), (np.zeros(150), "non-zero"), (np.full(150, np.inf), "infinity|finite")],
)
def test_bad_weights_are_named(weights, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        LinearClassifier().fit(X, y, sample_weight=weights)


def test_one_class_is_refused():
    with pytest.raises(DataError, match="only one class"):
        LinearClassifier().fit(np.eye(3), np.ones(3))


def test_mixed_labels_are_refused():
    with pytest.raises((DataError, ValueError, TypeError)):
        LinearClassifier().fit(np.eye(4), np.array(["a", 1, "b", 2], dtype=object))


def test_feature_names():
    data = load_iris(as_frame=True)
    classifier = LinearClassifier().fit(data.data, data.target)
    assert classifier.feature_names_in_.tolist() == data.feature_names
    assert classifier.model_.feature_names == data.feature_names
    shuffled = data.data[data.feature_names[::-1]]
    np.testing.assert_array_equal(classifier.model_.predict(shuffled), classifier.predict(data.data))
    with pytest.raises(DataError, match="lacks 1 of the model's columns"):
        classifier.model_.predict(data.data.drop(columns=data.feature_names[0]))


def test_an_early_end_warns_with_what_would_help():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .*raise max_iter"):
        classifier = LinearClassifier(loss="softmax", alpha=1e-8, max_iter=2).fit(X, y)
    assert classifier.status_ == "max_iter"
    assert classifier.n_iter_ == 2


def test_warm_start_continues():
    X, y = load_digits(return_X_y=True)
    classifier = LinearClassifier(loss="softmax", warm_start=True).fit(X / 16, y)
    assert classifier.n_iter_ > 3
    assert len(classifier.fit(X / 16, y).history_) == 1
    classifier.fit(X[:, :30] / 16, y)  # another shape starts anew
    assert classifier.coef_.shape == (10, 30)


def test_clone_pickle_search_and_pipeline():
    X, y = load_iris(return_X_y=True)
    classifier = LinearClassifier(loss="softmax").fit(X, y)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    assert clone(classifier).get_params() == classifier.get_params()
    search = GridSearchCV(LinearClassifier(), {"alpha": [1e-4, 1e-2], "loss": ["logistic", "squared_hinge"]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    assert make_pipeline(StandardScaler(), LinearClassifier()).fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_int64_indices_and_integer_input():
    X, y = load_digits(return_X_y=True)
    S = sparse.csr_array(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    wide = LinearClassifier(max_iter=5, tol=1e3).fit(S, y)
    narrow = LinearClassifier(max_iter=5, tol=1e3).fit(X.astype(np.uint8), y)
    np.testing.assert_allclose(wide.coef_, narrow.coef_, atol=1e-8)


def test_nullable_pandas_columns():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0, 1, 0, 1]})
    classifier = LinearClassifier(alpha=1e-2).fit(frame, ["x", "y", "x", "y"])
    assert classifier.predict(frame).tolist() == ["x", "y", "x", "y"]


def test_the_public_names():
    assert lineal.LinearClassifier is LinearClassifier
    with pytest.raises(AttributeError, match="no attribute 'Linear'"):
        lineal.Linear  # noqa: B018
    assert "LinearClassifier" in dir(lineal)


@pytest.mark.slow
def test_groups_and_factors_of_features():
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0)
    options = {"loss": "multiclass_squared_hinge", "penalty": "l1/l2", "alpha": 0.3, "tol": 1e-6}
    together = LinearClassifier(**options, feature_groups=[[0, 1], [2, 3]]).fit(X, y)
    assert together.coef_.any(axis=0).tolist() == [False, False, True, True]
    same = LinearClassifier(**options, feature_groups=np.array([0, 0, 1, 1])).fit(X, y)
    np.testing.assert_allclose(same.coef_, together.coef_)
    free = LinearClassifier(**options, feature_groups=[[0, 1], [2, 3]], penalty_factors=[0.0, 1.0], max_iter=3000)
    assert free.fit(X, y).coef_[:, :2].all()
    assert together.model_.options["feature_groups"] == "given"
    for bad, message in [([[0, 1], [1, 2, 3]], "1"), ([[0, 1]], "2"), ([0, 0, 0], "3")]:
        with pytest.raises(OptionError, match=f"feature_groups.*{message}"):
            LinearClassifier(**options, feature_groups=bad).fit(X, y)
    with pytest.raises(OptionError, match="l2"):
        LinearClassifier(feature_groups=[[0, 1], [2, 3]]).fit(X, y)
    with pytest.raises(OptionError, match="penalty_factors"):
        LinearClassifier(penalty_factors=[1.0, -1.0, 1.0, 1.0]).fit(X, y)
