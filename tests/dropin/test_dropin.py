"""The drop-in classifiers are scikit-learn's: signatures, answers, attributes, errors and warnings."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal.dropin import LinearSVC, LogisticRegression
from lineal.errors import DataError

PAIRS = [(LinearSVC, svm.LinearSVC), (LogisticRegression, linear_model.LogisticRegression)]
IRIS, SPECIES = load_iris(return_X_y=True)
WINE, SORTS = load_wine(return_X_y=True)
WINE = scale(WINE)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = scale(CANCER)
ROW_WEIGHTS = np.random.default_rng(0).random(600) * 3.0


def both(ours, X, y, sample_weight=None, **parameters):
    """Our class and scikit-learn's with the same parameters, fitted to the same rows, tightly."""
    theirs = dict(PAIRS)[ours]
    tight = {"tol": 1e-10, "max_iter": 100_000, "random_state": 1, **parameters}  # LIBLINEAR fails from some seeds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = theirs(**{**tight, "tol": 1e-12 if tight["tol"] == 1e-10 else tight["tol"]})
        other.fit(X, y, sample_weight=sample_weight)
        return ours(**tight).fit(X, y, sample_weight=sample_weight), other


def same(a, b, X, atol=1e-4):
    for name in ("coef_", "intercept_"):
        mine, other = getattr(a, name), getattr(b, name)
        assert np.shape(mine) == np.shape(other), name
        assert type(mine) is type(other), name
        assert np.asarray(mine).dtype == np.asarray(other).dtype, name
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=atol)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    assert a.n_features_in_ == b.n_features_in_
    assert type(a.n_iter_) is type(b.n_iter_)
    assert np.asarray(a.n_iter_).dtype == np.asarray(b.n_iter_).dtype
    assert np.shape(a.n_iter_) == np.shape(b.n_iter_)
    decided = a.decision_function(X)
    np.testing.assert_allclose(decided, b.decision_function(X), rtol=1e-3, atol=100 * atol)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


# --- signatures and scikit-learn's conventions


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_signatures(ours, theirs):
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert list(inspect.signature(ours.fit).parameters) == list(inspect.signature(theirs.fit).parameters)
    assert issubclass(ours, theirs)
    assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))


# The checks on weights compare scores to seven digits, hence the tolerance.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [
        LinearSVC(tol=1e-12, max_iter=10_000),
        LogisticRegression(tol=1e-9, max_iter=10_000),
        LogisticRegression(solver="liblinear", tol=1e-12, max_iter=10_000),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_tags(ours, theirs):
    a, b = ours().__sklearn_tags__(), theirs().__sklearn_tags__()
    b.array_api_support = a.array_api_support = False
    assert a == b


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
def test_pipelines_searches_clones_and_pickles(ours):
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    names = np.array(["x", "y", "z"])[SPECIES]
    search = GridSearchCV(make_pipeline(StandardScaler(), ours()), {f"{ours.__name__.lower()}__C": [0.1, 1.0]}, cv=3)
    search.fit(frame, names)
    assert search.best_score_ > 0.9
    classifier = clone(ours(C=3.0)).fit(frame, names)
    assert classifier.get_params()["C"] == 3.0
    assert classifier.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict(frame), classifier.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[["b", "a", "c", "d"]])


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
def test_sparsify_and_densify(ours):
    classifier = ours().fit(IRIS, SPECIES)
    before, coef = classifier.predict(IRIS), classifier.coef_.copy()
    assert sparse.issparse(classifier.sparsify().coef_)
    np.testing.assert_array_equal(classifier.predict(IRIS), before)
    np.testing.assert_array_equal(classifier.densify().coef_, coef)


def test_importing_lineal_loads_no_scikit_learn():
    script = "import lineal, sys; lineal.dropin; assert 'sklearn' not in sys.modules; lineal.dropin.LinearSVC"
    subprocess.run([sys.executable, "-c", script], check=True)


# --- LinearSVC


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 1e-4},
        {"C": 100.0},
        {"fit_intercept": False},
        {"intercept_scaling": 10.0},
        {"intercept_scaling": 0.1},
        {"dual": True, "C": 0.01},
        {"class_weight": "balanced"},
        {"loss": "hinge"},
        {"multi_class": "crammer_singer"},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", ["binary", "multi-class"])
def test_linear_svc(data, parameters):
    X, y = (CANCER, BENIGN) if data == "binary" else (WINE, np.array(["a", "b", "c"])[SORTS])
    same(*both(LinearSVC, X, y, **parameters), X)


def test_linear_svc_with_zeros():
    X = CANCER[:, [1, 4, 8, 9, 11, 14]]  # features that are not alike: LIBLINEAR does not converge on all of them
    same(*both(LinearSVC, X, BENIGN, penalty="l1", C=0.1), X)
    mine, theirs = both(LinearSVC, CANCER, BENIGN, penalty="l1", C=0.1, fit_intercept=False)

    def objective(w):
        margins = np.where(BENIGN == 1, 1.0, -1.0) * (CANCER @ w)
        return np.abs(w).sum() + 0.1 * (np.maximum(1.0 - margins, 0.0) ** 2).sum()

    assert objective(mine.coef_[0]) <= objective(theirs.coef_[0]) * (1 + 1e-9)
    assert 0 < np.count_nonzero(mine.coef_) < mine.coef_.size


@pytest.mark.parametrize("data", ["binary", "multi-class"])
@pytest.mark.parametrize("class_weight", [{0: 5.0, 1: 0.5}, {0: 3.0, 1: 3.0, 2: 3.0}, "balanced"])
def test_linear_svc_weighs_the_positive_side_only(data, class_weight):
    """LIBLINEAR's meaning of class weights: with several classes, only rows of the class itself are weighted."""
    X, y = (CANCER, BENIGN) if data == "binary" else (WINE[:160], SORTS[:160])
    if data == "binary" and isinstance(class_weight, dict):
        class_weight = {label: class_weight[label] for label in (0, 1)}
    mine, theirs = both(LinearSVC, X, y, ROW_WEIGHTS[: len(X)], class_weight=class_weight)
    same(mine, theirs, X)
    plain = LinearSVC(tol=1e-8, max_iter=10_000).fit(X, y, ROW_WEIGHTS[: len(X)])
    assert np.abs(plain.coef_ - mine.coef_).max() > 1e-3


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, np.asfortranarray])
def test_linear_svc_layouts(kind):
    dense = LinearSVC(tol=1e-8).fit(WINE, SORTS)
    other = LinearSVC(tol=1e-8).fit(kind(WINE), SORTS)
    np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-5)
    assert other.coef_.flags.f_contiguous == svm.LinearSVC().fit(WINE, SORTS).coef_.flags.f_contiguous


def test_linear_svc_of_float32_answers_in_float64():
    mine, theirs = both(LinearSVC, WINE.astype(np.float32), SORTS)
    same(mine, theirs, WINE)


def test_sample_weights_are_repeated_rows():
    counts = np.arange(len(WINE)) % 3
    repeated = LinearSVC(tol=1e-10).fit(np.repeat(WINE, counts, axis=0), np.repeat(SORTS, counts))
    weighted = LinearSVC(tol=1e-10).fit(WINE, SORTS, counts)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "hinge", "dual": False},
        {"loss": "hinge", "penalty": "l1"},
        {"penalty": "l1", "dual": True},
        {"C": 0.0},
        {"C": -1.0},
        {"tol": 0.0},
        {"loss": "log"},
        {"penalty": None},
        {"dual": "yes"},
        {"intercept_scaling": 0},
        {"multi_class": "one"},
        {"max_iter": -1},
        {"class_weight": "other"},
        {"class_weight": {7: 1.0}},
    ],
    ids=str,
)
def test_linear_svc_refuses_what_scikit_learn_refuses(parameters):
    with pytest.raises(ValueError) as theirs:
        svm.LinearSVC(**parameters).fit(IRIS, SPECIES)
    with pytest.raises(ValueError) as ours:
        LinearSVC(**parameters).fit(IRIS, SPECIES)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
def test_early_stops_warn(ours):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        classifier = ours(max_iter=1, tol=1e-8).fit(CANCER, BENIGN)
    assert np.max(classifier.n_iter_) == 1
    with pytest.warns(ConvergenceWarning):
        nothing = ours(max_iter=0).fit(CANCER, BENIGN)
    assert not nothing.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours().fit(CANCER, BENIGN)


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
@pytest.mark.parametrize("weights", [np.zeros(150), np.full(150, -1.0), np.full(150, np.nan), np.ones(3)])
def test_weights_that_mean_nothing_are_refused(ours, weights):
    with pytest.raises(ValueError, match="weight"):
        ours().fit(IRIS, SPECIES, weights)


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
def test_defaults_are_at_least_as_accurate_as_scikit_learns(ours):
    """Compared by the objective, whose minimum comes from a tight fit."""
    mine, theirs = both(ours, WINE, SORTS)
    loose = (ours().fit(WINE, SORTS), dict(PAIRS)[ours](random_state=0).fit(WINE, SORTS))

    def distance(a):
        return np.abs(a.coef_ - theirs.coef_).max()

    assert distance(loose[0]) <= max(distance(loose[1]), 1e-3)
    assert loose[0].certificate_.value <= 1e-4
    assert mine.certificate_.value <= 1e-8


# --- LogisticRegression


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 1e-3},
        {"C": 100.0},
        {"fit_intercept": False},
        {"class_weight": "balanced"},
        {"class_weight": {0: 5.0, 1: 0.5}},
        {"solver": "newton-cholesky", "C": 0.3},
        {"solver": "newton-cg"},
        {"solver": "sag", "tol": 1e-7},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", ["binary", "multi-class"])
def test_logistic_regression(data, parameters):
    X, y = (CANCER, BENIGN) if data == "binary" else (WINE, SORTS)
    mine, theirs = both(
        LogisticRegression, X, y, None if "solver" in parameters else ROW_WEIGHTS[: len(X)], **parameters
    )
    same(mine, theirs, X, atol=3e-4)
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.exp(mine.predict_log_proba(X)), mine.predict_proba(X))
    if data == "multi-class":
        np.testing.assert_allclose(mine.coef_.sum(0), 0.0, atol=1e-9)
        np.testing.assert_allclose(mine.intercept_.sum(), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"dual": True},
        {"fit_intercept": False},
        {"intercept_scaling": 7.0, "C": 0.1},
        {"class_weight": {0: 3.0}},
        {"l1_ratio": 1.0, "C": 0.1},
    ],
    ids=str,
)
def test_logistic_regression_with_a_penalised_bias(parameters):
    mine, theirs = both(LogisticRegression, CANCER, BENIGN, solver="liblinear", random_state=0, **parameters)
    same(mine, theirs, CANCER, atol=3e-4)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_logistic_regression_with_zeros(l1_ratio):
    mine, theirs = both(LogisticRegression, CANCER, BENIGN, solver="saga", C=0.1, l1_ratio=l1_ratio, tol=1e-8)
    same(mine, theirs, CANCER, atol=1e-3)
    assert 0 < np.count_nonzero(mine.coef_) < mine.coef_.size


@pytest.mark.slow
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_several_classes_with_zeros(l1_ratio):
    parameters = {"solver": "saga", "C": 0.3, "l1_ratio": l1_ratio, "tol": 1e-7, "max_iter": 20_000}
    mine, theirs = both(LogisticRegression, IRIS - IRIS.mean(axis=0), SPECIES, **parameters)
    same(mine, theirs, IRIS - IRIS.mean(axis=0), atol=3e-3)
    assert 0 < np.count_nonzero(mine.coef_) < mine.coef_.size


def test_without_a_penalty():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X @ [1.0, -1.0, 0.5, 0.0] + rng.logistic(size=300) > 0).astype(int)
    mine, theirs = both(LogisticRegression, X, y, C=np.inf)
    same(mine, theirs, X)
    with pytest.warns(FutureWarning, match="'penalty' was deprecated"):
        old = LogisticRegression(penalty=None, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(old.coef_, mine.coef_, atol=1e-6)
    three = (y + (X[:, 0] + rng.logistic(size=300) > 1)).astype(int)
    same(*both(LogisticRegression, X, three, C=np.inf), X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_float32_stays_float32(kind):
    X = kind(WINE.astype(np.float32))
    mine, theirs = both(LogisticRegression, X, SORTS, tol=1e-5)
    assert mine.coef_.dtype == mine.intercept_.dtype == np.float32
    same(mine, theirs, X, atol=1e-2)


def test_warm_start():
    classifier = LogisticRegression(warm_start=True, tol=1e-6).fit(WINE, SORTS)
    first = classifier.n_iter_[0]
    assert classifier.fit(WINE, SORTS).n_iter_[0] <= max(1, first // 3)
    with pytest.raises(ValueError, match="Initialization coef is of shape"):
        classifier.fit(WINE, BENIGN[: len(WINE)])


@pytest.mark.parametrize(
    ("parameters", "y"),
    [
        ({"solver": "lbfgs", "l1_ratio": 1.0}, SPECIES),
        ({"solver": "newton-cg", "l1_ratio": 0.5}, SPECIES),
        ({"solver": "liblinear", "l1_ratio": 0.5}, SPECIES > 0),
        ({"solver": "lbfgs", "dual": True}, SPECIES),
        ({"solver": "liblinear", "C": np.inf}, SPECIES > 0),
        ({"solver": "adam"}, SPECIES),
        ({"C": 0.0}, SPECIES),
        ({"l1_ratio": 2.0}, SPECIES),
        ({"tol": -1.0}, SPECIES),
        ({"penalty": "l3"}, SPECIES),
        ({"penalty": "elasticnet", "solver": "saga", "l1_ratio": None}, SPECIES),
        ({"class_weight": {9: 1.0}}, SPECIES),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_logistic_regression_refuses_what_scikit_learn_refuses(parameters, y):
    with pytest.raises(ValueError) as theirs:
        linear_model.LogisticRegression(**parameters).fit(IRIS, y)
    with pytest.raises(ValueError) as ours:
        LogisticRegression(**parameters).fit(IRIS, y)
    assert str(ours.value) == str(theirs.value)


def test_liblinear_takes_two_classes():
    with pytest.raises(ValueError, match="'liblinear' solver does not support multiclass classification"):
        LogisticRegression(solver="liblinear").fit(IRIS, SPECIES)
    assert OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(IRIS, SPECIES).score(IRIS, SPECIES) > 0.9


@pytest.mark.parametrize(
    "parameters",
    [
        {"penalty": "l2"},
        {"penalty": None},
        {"penalty": None, "C": 2.0},
        {"penalty": "l2", "l1_ratio": 0.5},
        {"l1_ratio": None},
        {"n_jobs": 2},
    ],
    ids=str,
)
def test_the_same_warnings(parameters):
    def caught(cls):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            cls(**parameters, max_iter=10_000).fit(WINE, SORTS)
        kept = [warning for warning in found if warning.category is not ConvergenceWarning]
        assert all(warning.filename == __file__ for warning in kept) or cls is not LogisticRegression
        return [(warning.category, str(warning.message)[:20]) for warning in kept]

    assert caught(LogisticRegression) == caught(linear_model.LogisticRegression)


def test_a_class_without_weight_is_named():
    with pytest.raises(DataError, match="class 2 has no weight"):
        LogisticRegression().fit(IRIS, SPECIES, (SPECIES < 2).astype(float))


def test_a_class_without_weight_and_a_penalised_bias():
    """The minimum exists, and says what there is to say: every row is of the other class."""
    X, y = IRIS[:100], SPECIES[:100]
    fitted = LogisticRegression(solver="liblinear", C=2.0, tol=1e-8).fit(X, y, (y == 0).astype(float))
    assert (fitted.predict(X[:50]) == 0).all()
    rows, theta = np.column_stack([X[:50], np.ones(50)]), np.append(fitted.coef_[0], fitted.intercept_)
    gradient = theta + 2.0 * rows.T @ (1.0 / (1.0 + np.exp(-rows @ theta)))
    assert np.abs(gradient).max() <= 1e-3 * np.abs(theta).max()


def test_a_seed_repeats_a_fit():
    fits = [LinearSVC(random_state=3).fit(WINE, SORTS).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("ours", [LinearSVC, LogisticRegression])
def test_one_class_is_refused(ours):
    with pytest.raises(ValueError, match="class"):
        ours().fit(IRIS, np.zeros(150))
