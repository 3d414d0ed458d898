"""`lineal.dropin.SGDClassifier` beside scikit-learn's: minima, descent step by step, every parameter, refusals."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal.dropin import SGDClassifier, losses
from lineal.errors import DataError, OptionError

CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = scale(CANCER)
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
WEIGHTS = np.random.default_rng(0).random(600) * 3.0

LOSS = {
    "hinge": lambda m: np.maximum(0.0, 1.0 - m),
    "squared_hinge": lambda m: np.maximum(0.0, 1.0 - m) ** 2,
    "log_loss": lambda m: np.logaddexp(0.0, -m),
    "squared_error": lambda m: 0.5 * (1.0 - m) ** 2,
}


def objective(model, X, y, sample_weight=None, factors=None):
    """What scikit-learn's documentation says that is minimised, summed over the classes."""
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    scores = X @ model.coef_.T + model.intercept_
    own = model.classes_[-scores.shape[1] :]
    T = np.where(np.asarray(y)[:, None] == own, 1.0, -1.0)
    share = {"l2": 0.0, "l1": 1.0, "elasticnet": model.l1_ratio}[model.penalty]
    norms = 0.5 * (1.0 - share) * (model.coef_**2).sum() + share * np.abs(model.coef_).sum()
    c = np.ones_like(T) if factors is None else np.where(T > 0.0, factors, 1.0)
    return float((s[:, None] * c * LOSS[model.loss](T * scores)).sum() / len(y) + model.alpha * norms)


def fitted(cls, X, y, sample_weight=None, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cls(**{"random_state": 0, **given}).fit(X, y, sample_weight=sample_weight)


def test_signature_and_tags():
    theirs = linear_model.SGDClassifier
    assert inspect.signature(SGDClassifier) == inspect.signature(theirs)
    for name in ("fit", "partial_fit"):
        ours, other = (inspect.signature(getattr(cls, name)).parameters for cls in (SGDClassifier, theirs))
        assert list(ours) == list(other)
    assert issubclass(SGDClassifier, theirs)
    assert SGDClassifier().__sklearn_tags__() == theirs().__sklearn_tags__()


NOT_ONE = "the mean is over all rows, whatever their weights, as scikit-learn has it"
TIES = "at the minimum of the hinge loss a row can have the score -1 for all classes; rounding decides"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [SGDClassifier(), SGDClassifier(loss="log_loss"), SGDClassifier(penalty="l1")],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": NOT_ONE,
        "check_sample_weight_equivalence_on_sparse_data": NOT_ONE,
        **({"check_methods_subset_invariance": TIES} if (estimator.loss, estimator.penalty) == ("hinge", "l2") else {}),
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        ("hinge", "l2"),
        ("log_loss", "l2"),
        ("log_loss", "l1"),
        ("log_loss", "elasticnet"),
        ("squared_hinge", "l2"),
        ("squared_error", "l2"),
    ],
)
@pytest.mark.parametrize("data", ["two", "three"])
def test_the_minimum_is_not_above_what_descent_finds(loss, penalty, data):
    X, y = (CANCER, BENIGN) if data == "two" else (IRIS, SPECIES)
    given = {"loss": loss, "penalty": penalty, "alpha": 1e-2}
    mine = fitted(SGDClassifier, X, y, tol=1e-6, max_iter=10_000, **given)
    if loss.startswith("squared"):  # its default steps end at 1e13 and more there
        given |= {"learning_rate": "adaptive", "eta0": 1e-3}
    theirs = fitted(linear_model.SGDClassifier, X, y, tol=1e-7, max_iter=3000, **given)
    ours, other = objective(mine, X, y), objective(theirs, X, y)
    assert mine.certificate_.kind == "gap"
    assert mine.certificate_.value <= 1e-6
    assert ours <= other * (1.0 + 1e-6)
    assert other <= 1.1 * ours  # the same objective: descent comes near
    assert mine.certificate_.primal == pytest.approx(ours, rel=1e-6)
    assert mine.score(X, y) >= theirs.score(X, y) - 0.02


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("data", ["two", "three"])
def test_class_weights_weigh_as_in_scikit_learn(data, weighted):
    X, y = (CANCER, BENIGN) if data == "two" else (IRIS, SPECIES)
    given = {"loss": "log_loss", "alpha": 1e-2, "class_weight": {0: 4.0, 1: 0.5}}
    s = WEIGHTS[: len(y)] if weighted else None
    mine = fitted(SGDClassifier, X, y, s, tol=1e-8, **given)
    slow = {"learning_rate": "constant", "eta0": 3e-3, "tol": None, "max_iter": 2000, "average": 1000 * len(y)}
    theirs = fitted(linear_model.SGDClassifier, X, y, s, **slow, **given)
    np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=0.03 * np.abs(mine.coef_).max())
    if data == "three":
        factors = np.array([4.0, 0.5, 1.0])
        assert objective(mine, X, y, s, factors) <= objective(theirs, X, y, s, factors) * (1.0 + 1e-6)
    balanced = fitted(SGDClassifier, X, y, class_weight="balanced", loss="log_loss", alpha=1e-2)
    assert balanced.score(X, y) > 0.9


@pytest.mark.parametrize("load", [load_digits, load_wine, "made"])
def test_accuracy_on_new_rows(load):
    X, y = make_classification(600, 30, n_informative=10, random_state=0) if load == "made" else load(return_X_y=True)
    parts = train_test_split(X, y, random_state=0, stratify=y)
    for loss in ("hinge", "log_loss"):
        mine, theirs = (
            make_pipeline(StandardScaler(), cls(loss, random_state=0, alpha=1e-2)).fit(parts[0], parts[2])
            for cls in (SGDClassifier, linear_model.SGDClassifier)
        )
        assert mine.score(parts[1], parts[3]) >= theirs.score(parts[1], parts[3]) - 0.02


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", losses.NAMES)
def test_updates_are_those_of_scikit_learn(loss, kind):
    """To the last digits but few, block by block; rates, penalties and weights change with the loss."""
    number = losses.NAMES.index(loss)
    penalty = ["l2", "elasticnet", "l1", None][number % 4]
    rates = ["constant", "optimal", "invscaling", "adaptive"]
    if loss.startswith("squared"):
        rates.remove("optimal")  # too long for these: rounding grows to digits that count
    pairs = [(rates[(number + shift) % len(rates)], penalty) for shift in range(2)]
    if loss == "hinge":
        pairs += [("pa1", "l2"), ("pa2", None)]
    for X, y in ((CANCER, BENIGN), (IRIS, SPECIES)):
        for rate, name in pairs:
            given = {
                "loss": loss, "penalty": name, "learning_rate": rate, "alpha": 0.03, "shuffle": False, "eta0": 0.003,
                "power_t": 0.3, "class_weight": {0: 2.0, 1: 0.5}, "fit_intercept": number != 3,
            }  # fmt: skip
            mine, theirs = SGDClassifier(**given), linear_model.SGDClassifier(**given)
            for part in np.array_split(np.arange(len(y)), 3):
                for model in (mine, theirs):
                    model.partial_fit(kind(X[part]), y[part], np.unique(y), WEIGHTS[part])
            assert mine.t_ == theirs.t_
            assert mine.n_iter_ == theirs.n_iter_ == 1
            size = max(1.0, np.abs(theirs.coef_).max())
            np.testing.assert_allclose(mine.coef_, theirs.coef_, rtol=0.0, atol=1e-8 * size)
            np.testing.assert_allclose(mine.intercept_, theirs.intercept_, rtol=0.0, atol=1e-8 * size)
            assert mine.coef_.dtype == theirs.coef_.dtype


@pytest.mark.parametrize("name", losses.NAMES)
def test_derivatives_are_those_of_the_values(name):
    loss = losses.get(name, 0.1)
    for t in (-1.0, 1.0):
        for z in np.linspace(-3.03, 3.02, 40):
            step = 1e-6
            rise = loss.value(t, z + step) - loss.value(t, z - step)
            assert loss.derivative(t, z) == pytest.approx(rise / (2.0 * step), abs=1e-4)


@pytest.mark.parametrize(
    "given",
    [
        {"loss": "modified_huber"},
        {"loss": "hinge", "penalty": "l1"},
        {"loss": "hinge", "penalty": None},
        {"loss": "huber", "epsilon": 0.5, "learning_rate": "adaptive", "eta0": 0.1},
        {"loss": "perceptron", "learning_rate": "constant", "eta0": 1.0, "penalty": None},
        {"loss": "hinge", "learning_rate": "pa1", "penalty": None},
        {"loss": "log_loss", "early_stopping": True, "validation_fraction": 0.2},
        {"loss": "log_loss", "class_weight": {1: 0.0}},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", ["two", "three"])
def test_what_no_solver_minimises_descends(given, data):
    X, y = (CANCER, BENIGN) if data == "two" else (IRIS, SPECIES)
    mine = fitted(SGDClassifier, X, y, alpha=1e-3, **given)
    theirs = fitted(linear_model.SGDClassifier, X, y, alpha=1e-3, **given)
    assert mine.certificate_.kind == "none"
    assert 1 <= mine.n_iter_ <= 1000
    assert mine.t_ == 1.0 + mine.n_iter_ * len(y)
    assert mine.score(X, y) >= theirs.score(X, y) - (0.1 if given["loss"] == "perceptron" else 0.06)
    again = fitted(SGDClassifier, X, y, alpha=1e-3, **given)
    np.testing.assert_array_equal(again.coef_, mine.coef_)


def test_the_first_pass_of_fit_is_that_of_scikit_learn():
    given = {"loss": "modified_huber", "shuffle": False, "max_iter": 3, "tol": None, "alpha": 0.01}
    mine, theirs = (cls(**given).fit(CANCER, BENIGN) for cls in (SGDClassifier, linear_model.SGDClassifier))
    np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=1e-8)
    assert mine.n_iter_ == theirs.n_iter_ == 3


@pytest.mark.parametrize("data", ["two", "three"])
@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
def test_probabilities(loss, data):
    X, y = (CANCER, BENIGN) if data == "two" else (IRIS, SPECIES)
    mine = fitted(SGDClassifier, X, y, loss=loss, alpha=1e-2)
    p = mine.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (mine.classes_[p.argmax(axis=1)] == mine.predict(X)).mean() > 0.95
    assert not hasattr(SGDClassifier(), "predict_proba")


def test_fit_goes_on_by_partial_fit_and_warm_start():
    mine = fitted(SGDClassifier, CANCER, BENIGN, alpha=1e-2, warm_start=True)
    before = mine.coef_.copy()
    mine.partial_fit(CANCER[:50], BENIGN[:50])
    assert 0.0 < np.abs(mine.coef_ - before).max() < 0.5 * np.abs(before).max()  # steps are short by now
    assert mine.fit(CANCER, BENIGN).n_iter_ <= fitted(SGDClassifier, CANCER, BENIGN, alpha=1e-2).n_iter_
    given = fitted(SGDClassifier, IRIS, SPECIES, alpha=1e-2, loss="log_loss")
    again = SGDClassifier("log_loss", alpha=1e-2).fit(IRIS, SPECIES, given.coef_, given.intercept_)
    np.testing.assert_allclose(again.coef_, given.coef_, atol=0.05)
    for coef, intercept in ((np.zeros((2, 4)), None), (None, np.zeros(2))):
        with pytest.raises(ValueError, match="does not match"):
            SGDClassifier().fit(IRIS, SPECIES, coef, intercept)


def test_layouts_precisions_and_labels():
    names = np.array(["x", "yes", "z"])[SPECIES]
    dense = fitted(SGDClassifier, IRIS, names, loss="log_loss", alpha=1e-2, tol=1e-8)
    rows = fitted(SGDClassifier, sparse.csr_array(IRIS), names, loss="log_loss", alpha=1e-2, tol=1e-8)
    np.testing.assert_allclose(rows.coef_, dense.coef_, atol=1e-3)
    short = fitted(SGDClassifier, IRIS.astype(np.float32), names, loss="log_loss", alpha=1e-2)
    assert short.coef_.dtype == short.intercept_.dtype == np.float32
    assert set(short.predict(IRIS.astype(np.float32))) == set(names)
    sparsified = clone(dense).fit(IRIS, names).sparsify()
    sparsified.partial_fit(IRIS, names)
    assert sparsified.score(IRIS, names) > 0.8


def test_parameters_that_only_name_a_way_change_no_minimum():
    plain = fitted(SGDClassifier, CANCER, BENIGN, alpha=1e-2, loss="log_loss", tol=1e-8)
    for given in ({"shuffle": False}, {"learning_rate": "constant", "eta0": 3.0}, {"average": True}, {"power_t": 0.1}):
        other = fitted(SGDClassifier, CANCER, BENIGN, alpha=1e-2, loss="log_loss", tol=1e-8, **given)
        np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-6)
    loose = fitted(SGDClassifier, CANCER, BENIGN, alpha=1e-4, loss="log_loss", tol=1e-1)
    assert plain.certificate_.value < loose.certificate_.value <= 1e-2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SGDClassifier("log_loss", max_iter=1, tol=None).fit(CANCER, BENIGN)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        SGDClassifier("log_loss", max_iter=1, alpha=1e-6).fit(CANCER, BENIGN)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        SGDClassifier("modified_huber", max_iter=2).fit(CANCER, BENIGN)
    with pytest.warns(FutureWarning, match="power_t"):
        SGDClassifier(power_t=-1.0).fit(CANCER, BENIGN)


@pytest.mark.parametrize(
    "given",
    [
        {"loss": "other"},
        {"penalty": "l3"},
        {"alpha": -1.0},
        {"alpha": 0.0},
        {"l1_ratio": 2.0},
        {"penalty": "elasticnet", "l1_ratio": None},
        {"learning_rate": "pa1", "loss": "log_loss"},
        {"learning_rate": "other"},
        {"eta0": 0.0},
        {"max_iter": 0},
        {"tol": -1.0},
        {"validation_fraction": 1.0},
        {"class_weight": "other"},
    ],
    ids=str,
)
def test_what_scikit_learn_refuses_is_refused(given):
    with pytest.raises((ValueError, TypeError)) as theirs:
        linear_model.SGDClassifier(**given).fit(IRIS, SPECIES)
    with pytest.raises(type(theirs.value)):
        SGDClassifier(**given).fit(IRIS, SPECIES)


def test_what_cannot_be_honoured():
    for fit in (lambda model: model.fit(IRIS, SPECIES), lambda model: model.partial_fit(IRIS, SPECIES, [0, 1, 2])):
        with pytest.raises(OptionError, match="average=True is not supported"):
            fit(SGDClassifier("modified_huber", average=True))
    with pytest.raises(ValueError, match="early_stopping"):
        SGDClassifier(early_stopping=True).partial_fit(IRIS, SPECIES, [0, 1, 2])
    with pytest.raises(ValueError, match="balanced"):
        SGDClassifier(class_weight="balanced").partial_fit(IRIS, SPECIES, [0, 1, 2])
    with pytest.raises(DataError, match="not among the classes"):
        SGDClassifier().partial_fit(IRIS, SPECIES, [0, 1])
    with pytest.raises(ValueError, match="overflow"):
        SGDClassifier("squared_error", learning_rate="constant", eta0=1e300).partial_fit(1e3 * IRIS, SPECIES, [0, 1, 2])


def test_pipelines_searches_clones_and_pickles():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    search = GridSearchCV(SGDClassifier(), {"alpha": [1e-3, 1e-2], "loss": ["hinge", "log_loss"]}, cv=3)
    assert search.fit(frame, SPECIES).best_score_ > 0.9
    model = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(model.predict(frame), search.predict(frame))
    assert model.feature_names_in_.tolist() == list("abcd")
