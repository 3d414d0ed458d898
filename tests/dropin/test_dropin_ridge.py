"""The drop-in ridge classifier is scikit-learn's: signature, answers, attributes, refusals."""

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
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal.dropin import RidgeClassifier, ridge
from lineal.errors import OptionError

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, SORTS = load_wine(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = scale(CANCER)
WEIGHTS = np.random.default_rng(0).random(600) * 3.0


def both(X, y, sample_weight=None, **parameters):
    tight = {"tol": 1e-12, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = linear_model.RidgeClassifier(**tight).fit(X.copy(), y, sample_weight=sample_weight)
    return RidgeClassifier(**tight).fit(X, y, sample_weight=sample_weight), theirs


def same(mine, theirs, X, rtol=1e-6, atol=1e-6):
    for name in ("coef_", "intercept_"):
        ours, other = getattr(mine, name), getattr(theirs, name)
        assert type(ours) is type(other), name
        assert np.shape(ours) == np.shape(other), name
        assert np.asarray(ours).dtype == np.asarray(other).dtype, name
        np.testing.assert_allclose(ours, other, rtol=rtol, atol=atol * max(1.0, np.abs(other).max()))
    assert mine.solver_ == theirs.solver_
    assert type(mine.n_iter_) is type(theirs.n_iter_)
    assert np.shape(mine.n_iter_) == np.shape(theirs.n_iter_)
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), rtol=1e-4, atol=100 * atol)
    np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))


def wide(n=60, d=700, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 0.3, rng.integers(0, 3, n)


def text(n=700, d=900, seed=0):
    """Sparse rows that are iterated on: more than FEW of both."""
    rng = np.random.default_rng(seed)
    return sparse.random(n, d, 0.02, "csr", random_state=seed), rng.integers(0, 4, n)


def test_signature_and_tags():
    theirs = linear_model.RidgeClassifier
    assert inspect.signature(RidgeClassifier) == inspect.signature(theirs)
    assert list(inspect.signature(RidgeClassifier.fit).parameters) == list(inspect.signature(theirs.fit).parameters)
    assert issubclass(RidgeClassifier, theirs)
    a, b = RidgeClassifier().__sklearn_tags__(), theirs().__sklearn_tags__()
    b.array_api_support = a.array_api_support = False
    assert a == b


@parametrize_with_checks(
    [RidgeClassifier(), RidgeClassifier(solver="lsqr")],
    expected_failed_checks=lambda estimator: (
        {"check_non_transformer_estimators_n_iter": "n_iter_ is None for exact answers, as scikit-learn has it"}
        if estimator.solver == "auto"
        else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"alpha": 1e-6},
        {"alpha": 0.0},
        {"alpha": 1e3},
        {"fit_intercept": False},
        {"class_weight": "balanced"},
        {"class_weight": {0: 5.0, 1: 0.5}},
        {"copy_X": False},
        {"solver": "svd"},
        {"solver": "cholesky"},
        {"solver": "lsqr"},
        {"solver": "sparse_cg"},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", ["binary", "classes", "wide"])
@pytest.mark.parametrize("weighted", [True, False])
def test_dense_rows(data, parameters, weighted):
    X, y = {"binary": (CANCER, BENIGN), "classes": (IRIS, SPECIES), "wide": wide()}[data]
    if data == "wide" and parameters.get("alpha") == 0.0:
        pytest.skip("many weights are best, and scikit-learn's are longer than need be")
    if data == "wide" and parameters.get("alpha") == 1e-6:
        parameters = {**parameters, "solver": "svd"}  # theirs solves a singular system otherwise
    if parameters.get("solver") in ("lsqr", "sparse_cg"):
        parameters = {**parameters, "max_iter": 100_000}
    s = WEIGHTS[: len(X)] if weighted else None
    mine, theirs = both(X, y, s, **parameters)
    same(mine, theirs, X)
    assert mine.certificate_.value <= 1e-9
    assert mine.certificate_.kind == ("violation" if parameters.get("alpha") == 0.0 else "gap")


@pytest.mark.parametrize("solver", ["sag", "saga"])
def test_solvers_that_draw(solver):
    X = scale(IRIS)
    mine, theirs = both(X, SPECIES, solver=solver, tol=1e-9, max_iter=100_000, random_state=0)
    same(mine, theirs, X)
    assert mine.n_iter_.dtype == theirs.n_iter_.dtype


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("data", ["few columns", "few rows", "text"])
def test_sparse_rows(data, kind, fit_intercept):
    X, y = text() if data == "text" else text(700, 900)
    X = {"few columns": X[:, :60], "few rows": X[:80], "text": X}[data]
    y = y[: X.shape[0]]
    solver = "auto" if kind is sparse.csr_array else "sparse_cg"
    X = X.tocoo()
    X = kind((X.data, (X.row, X.col)), shape=X.shape)
    s = WEIGHTS[: X.shape[0]] if X.shape[0] <= 600 else np.tile(WEIGHTS, 2)[: X.shape[0]]
    mine, theirs = both(X, y, s, fit_intercept=fit_intercept, alpha=0.3, solver=solver)
    same(mine, theirs, X)
    dense = RidgeClassifier(0.3, fit_intercept=fit_intercept).fit(X.toarray(), y, s)
    np.testing.assert_allclose(mine.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(mine.intercept_, dense.intercept_, atol=1e-8)


@pytest.mark.parametrize("solver", ["lsqr", "sag", "sparse_cg"])
def test_sparse_rows_and_solvers(solver):
    X, y = text(200, 300)
    mine, theirs = both(X, y, solver=solver, max_iter=100_000)
    same(mine, theirs, X)
    with pytest.warns(UserWarning, match="sag"):
        loose = linear_model.RidgeClassifier(solver="sag", tol=1e-3).fit(X, y)
    assert RidgeClassifier(solver="sag", tol=1e-3).fit(X, y).solver_ == loose.solver_ == "sag"


def test_iterations_end():
    X, y = text()
    assert min(X.shape) > ridge.FEW
    loose, tight = (RidgeClassifier(tol=tol, alpha=1e-2).fit(X, y) for tol in (1e-2, 1e-10))
    assert tight.certificate_.value < 1e-9 < loose.certificate_.value
    with pytest.warns(ConvergenceWarning, match="max_iter=2 ") as caught:
        RidgeClassifier(max_iter=2, tol=1e-10).fit(X, y)
    assert caught[0].filename == __file__
    counted = RidgeClassifier(solver="lsqr", tol=1e-6).fit(X, y)
    assert counted.n_iter_.shape == (4,)
    assert (counted.n_iter_ > 1).all()


def test_float32_stays_float32():
    for X, y in ((CANCER, BENIGN), wide(), text()):
        X = X.astype(np.float32)
        mine, theirs = both(X, y, tol=1e-5)
        assert mine.coef_.dtype == mine.intercept_.dtype == np.float32
        same(mine, theirs, X, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [int, np.uint8, bool])
def test_whole_numbers(dtype):
    X = (IRIS * 10).astype(dtype)
    same(*both(X, SPECIES), X)


def test_label_sets():
    X, Y = make_multilabel_classification(n_samples=120, n_classes=4, random_state=0)
    for rows in (X, sparse.csr_array(X)):
        mine, theirs = both(rows, Y, WEIGHTS[:120])
        same(mine, theirs, rows)
        assert mine.predict(rows).shape == Y.shape


def test_an_alpha_for_every_class():
    for X, y in ((IRIS, SPECIES), wide()):
        same(*both(X, y, alpha=[0.1, 10.0, 0.1]), X)
    X, y = text()
    same(*both(X, y, alpha=[0.1, 10.0, 0.1, 3.0]), X)
    with pytest.raises(ValueError, match="2 entries for 3 targets"):
        RidgeClassifier(alpha=[1.0, 2.0]).fit(IRIS, SPECIES)


def test_the_shortest_of_many_best_weights():
    X, y = wide()
    mine = RidgeClassifier(alpha=0.0).fit(X, y)
    nearly = RidgeClassifier(alpha=1e-9).fit(X, y)
    np.testing.assert_allclose(mine.coef_, nearly.coef_, atol=1e-8)
    np.testing.assert_allclose(mine.decision_function(X), np.where(y[:, None] == np.arange(3), 1.0, -1.0), atol=1e-8)


def test_columns_that_are_alike_without_a_ridge():
    """Any of the best weights will do: they predict the same."""
    X = np.hstack([IRIS, IRIS, np.ones((150, 1)), np.zeros((150, 1))])
    mine = RidgeClassifier(alpha=0.0).fit(X, SPECIES)
    theirs = RidgeClassifier(alpha=0.0).fit(IRIS, SPECIES)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(IRIS), atol=1e-8)
    assert np.abs(mine.coef_).max() < 1e3


@pytest.mark.parametrize("shift", [1e6, 1e8])
def test_columns_far_from_zero(shift):
    """Years, identifiers and prices vary little for their size; that is no reason to take them for constants."""
    mine, theirs = both(IRIS + shift, SPECIES)
    np.testing.assert_allclose(mine.coef_, theirs.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mine.predict(IRIS + shift), theirs.predict(IRIS + shift))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [1.0, 0.1, 1e5])
def test_constant_columns_have_no_weight(constant, kind):
    X = np.tile(np.hstack([IRIS, np.full((150, 1), constant)]).astype(np.float32), (40, 1))  # so that sums round
    y = np.tile(SPECIES, 40)
    mine, without = (RidgeClassifier(alpha=1e-6).fit(kind(rows), y) for rows in (X, X[:, :4]))
    assert not mine.coef_[:, 4].any()
    np.testing.assert_allclose(mine.decision_function(X), without.decision_function(X[:, :4]), atol=1e-3)


def test_weights_are_repeated_rows():
    counts = np.arange(150) % 3
    repeated = RidgeClassifier().fit(np.repeat(IRIS, counts, axis=0), np.repeat(SPECIES, counts))
    np.testing.assert_allclose(RidgeClassifier().fit(IRIS, SPECIES, counts).coef_, repeated.coef_, atol=1e-10)


def test_rows_are_not_changed():
    for X, y in ((CANCER, BENIGN), wide()):
        kept = X.copy()
        RidgeClassifier(copy_X=False).fit(X, y, WEIGHTS[: len(X)])
        np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize(
    ("X", "parameters"),
    [
        (IRIS, {"alpha": -1.0}),
        (IRIS, {"tol": -1.0}),
        (IRIS, {"solver": "newton"}),
        (IRIS, {"solver": "lbfgs"}),
        (IRIS, {"max_iter": 0}),
        (IRIS, {"class_weight": "other"}),
        (IRIS, {"alpha": [1.0, 2.0]}),
        (sparse.csr_array(IRIS), {"solver": "svd"}),
        (sparse.csr_array(IRIS), {"solver": "cholesky"}),
        (sparse.csr_array(IRIS), {"solver": "saga"}),
        (sparse.csr_array(IRIS), {"solver": "svd", "fit_intercept": False}),
        (np.where(IRIS[0, 0] == IRIS, np.nan, IRIS), {}),
    ],
    ids=str,
)
def test_what_scikit_learn_refuses_is_refused(X, parameters):
    with pytest.raises((ValueError, TypeError)) as theirs:
        linear_model.RidgeClassifier(**parameters).fit(X, SPECIES)
    with pytest.raises(type(theirs.value)):
        RidgeClassifier(**parameters).fit(X, SPECIES)


def test_what_cannot_be_honoured():
    with pytest.raises(OptionError, match="positive=True"):
        RidgeClassifier(positive=True).fit(IRIS, SPECIES)
    for weights in (np.zeros(150), np.full(150, -1.0)):
        with pytest.raises(ValueError, match="weight"):
            RidgeClassifier().fit(IRIS, SPECIES, weights)


def test_pipelines_searches_clones_and_pickles():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    names = np.array(["x", "y", "z"])[SPECIES]
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier())
    search = GridSearchCV(pipeline, {"ridgeclassifier__alpha": [0.1, 1.0]}, cv=3).fit(frame, names)
    assert search.best_score_ > 0.7
    fitted = clone(RidgeClassifier(alpha=3.0)).fit(frame, names)
    assert fitted.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(frame), fitted.predict(frame))
