"""`LeastSquaresClassifier`: closed forms, other solvers, invariances, number types, options, scikit-learn's checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import random_problem
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal.design.matrix import wrap_any
from lineal.errors import DataError, OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.linear.estimator import LinearClassifier

LIPSCHITZ = {"squared": 1.0, "softmax": 0.5, "logistic": 0.25}
DIGITS, NUMBERS = load_digits(return_X_y=True)
IRIS, SPECIES = load_iris(return_X_y=True)


# --- the identity link is ridge regression


def ridge(X, y, alpha, sample_weight=None, fit_intercept=True):
    """Weights and intercept by the normal equations in plain NumPy, for targets of ±1."""
    X = np.asarray(X, np.float64)
    T = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    T = T[:, 1:] if T.shape[1] == 2 else T
    s = np.ones(len(X)) if sample_weight is None else sample_weight
    s = s / s.sum()
    mean = s @ X if fit_intercept else np.zeros(X.shape[1])
    level = s @ T if fit_intercept else np.zeros(T.shape[1])
    A = (X - mean).T @ (s[:, None] * (X - mean)) + alpha * np.eye(X.shape[1])
    W = np.linalg.pinv(A, hermitian=True) @ ((X - mean).T @ (s[:, None] * (T - level)))
    return W, level - mean @ W


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
def test_identity_is_ridge_in_closed_form(alpha, weighted, fit_intercept):
    rng = np.random.default_rng(0)
    s = rng.random(len(IRIS)) + 0.1 if weighted else None
    for y in (SPECIES, (SPECIES > 0).astype(int)):
        model = LeastSquaresClassifier("identity", None, False, alpha, fit_intercept=fit_intercept, tol=1e-9)
        model.fit(IRIS, y, s)
        W, b = ridge(IRIS, y, alpha, s, fit_intercept)
        np.testing.assert_allclose(model.coef_.T, W, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, b, rtol=1e-10, atol=1e-10)
        assert model.n_iter_ == 1
        assert model.certificate_.value <= 1e-9


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_more_features_than_rows(alpha):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 80)), np.arange(30) % 3
    model = LeastSquaresClassifier("identity", alpha=alpha, tol=1e-6).fit(X, y)
    W, b = ridge(X, y, alpha)
    np.testing.assert_allclose(model.decision_function(X), X @ W + b, atol=1e-8)
    if alpha > 0.0:
        np.testing.assert_allclose(model.coef_.T, W, atol=1e-9)
    assert model.status_ == "converged"


@pytest.mark.parametrize("method", [False, True, "quasi_newton"])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_duplicate_constant_and_empty_columns_without_a_ridge(link, method):
    """Predictions are those of the columns that count."""
    X = np.hstack([IRIS, IRIS[:, :2], np.full((150, 1), 7.0), np.zeros((150, 1)), IRIS[:, :1] + IRIS[:, 1:2]])
    y = SPECIES.copy()
    y[::7] = (y[::7] + 1) % 3  # errors: a finite minimum
    options = {"link": link, "accelerated": method, "alpha": 0.0, "tol": 1e-7, "max_iter": 20_000}
    wide, narrow = (LeastSquaresClassifier(**options).fit(rows, y) for rows in (X, IRIS))
    assert wide.status_ == "converged"
    np.testing.assert_allclose(wide.decision_function(X), narrow.decision_function(IRIS), atol=1e-3)
    assert wide.certificate_.primal == pytest.approx(narrow.certificate_.primal, rel=1e-9)


def test_large_means_and_scales():
    X = IRIS * [1e6, 1e-6, 1.0, 1.0] + [1e8, 0.0, 2000.0, -5.0]
    model = LeastSquaresClassifier("identity", alpha=0.0, tol=1e-6).fit(X, SPECIES)
    expected = LeastSquaresClassifier("identity", alpha=0.0, tol=1e-6).fit(IRIS, SPECIES)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(IRIS), atol=1e-5)


@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_float32_stays_float32_and_is_nearly_the_same(link):
    single = LeastSquaresClassifier(link, alpha=1e-3).fit(IRIS.astype(np.float32), SPECIES)
    double = LeastSquaresClassifier(link, alpha=1e-3).fit(IRIS, SPECIES)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.certificate_.primal == pytest.approx(double.certificate_.primal, rel=2e-3)
    assert (single.predict(IRIS) == double.predict(IRIS)).mean() > 0.98


# --- against other solvers


@pytest.mark.parametrize("method", [False, True, "quasi_newton"])
@pytest.mark.parametrize(("link", "loss"), [("identity", "squared"), ("softmax", "softmax"), ("sigmoid", "logistic")])
def test_all_methods_agree_with_another_solver(link, loss, method):
    s = np.random.default_rng(0).random(150) + 0.2
    model = LeastSquaresClassifier(link, None, method, 1e-2, tol=1e-10, max_iter=20_000).fit(IRIS, SPECIES, s)
    other = LinearClassifier(loss, alpha=1e-2, solver="newton" if loss == "logistic" else "lbfgs", tol=1e-11)
    other.fit(IRIS, SPECIES, s)
    assert model.status_ == "converged"
    assert model.certificate_.value <= 1e-10
    assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    if link != "identity":
        np.testing.assert_allclose(model.predict_proba(IRIS), other.predict_proba(IRIS), atol=1e-4)


@pytest.mark.parametrize("link", ["identity", "softmax", "sigmoid"])
def test_two_classes_have_one_column(link):
    y = np.array(["no", "yes"])[(SPECIES == 2).astype(int)]
    model = LeastSquaresClassifier(link, alpha=1e-3, tol=1e-10).fit(IRIS, y)
    loss = "squared" if link == "identity" else "logistic"
    other = LinearClassifier(loss, alpha=1e-3, tol=1e-10).fit(IRIS, y)
    assert model.coef_.shape == (1, 4)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.predict(IRIS) == "yes", model.decision_function(IRIS) > 0)


def test_on_ill_conditioned_rows_the_matrix_is_worth_its_price():
    """Digits with pixels that are always zero, no scaling, a small ridge: tens of iterations, certified."""
    model = LeastSquaresClassifier(alpha=1e-4, tol=1e-3).fit(DIGITS, NUMBERS)
    assert model.status_ == "converged"
    assert model.certificate_.kind == "gap"
    assert model.n_iter_ < 200
    assert model.score(DIGITS, NUMBERS) > 0.99


# --- invariances


@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_doubled_rows_are_doubled_weights(link):
    X, y = random_problem(3, n=60)
    X = X.toarray()
    rows = np.concatenate([np.arange(60), np.arange(20, 40)])
    weights = np.ones(60)
    weights[20:40] = 2.0
    fitted = LeastSquaresClassifier(link, alpha=1e-2, tol=1e-11)
    weighted = fitted.fit(X, y, weights).decision_function(X)
    np.testing.assert_allclose(fitted.fit(X[rows], y[rows]).decision_function(X), weighted, atol=1e-5)


@pytest.mark.parametrize("link", ["identity", "softmax", "sigmoid"])
def test_names_of_classes_do_not_matter(link):
    fitted = LeastSquaresClassifier(link, alpha=1e-2, tol=1e-11)
    order = np.array([2, 0, 1])
    first = fitted.fit(IRIS, SPECIES).coef_
    np.testing.assert_allclose(fitted.fit(IRIS, order[SPECIES]).coef_[order], first, atol=1e-5)


@pytest.mark.parametrize("link", ["identity", "softmax"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_all_layouts_give_the_same_model(link, fit_intercept):
    X, y = random_problem(5, n=80, d=9)
    fitted = LeastSquaresClassifier(link, alpha=1e-2, tol=1e-11, fit_intercept=fit_intercept)
    dense = fitted.fit(X.toarray(), y).coef_
    for other in (np.asfortranarray(X.toarray()), X, X.tocsc()):
        np.testing.assert_allclose(fitted.fit(other, y).coef_, dense, atol=1e-6)


def test_threads_and_repeats():
    fits = [LeastSquaresClassifier(alpha=1e-3, n_jobs=jobs).fit(DIGITS[:400], NUMBERS[:400]) for jobs in (1, 1, 2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_allclose(fits[0].coef_, fits[2].coef_, atol=1e-3)


def test_label_sets():
    X, Y = make_multilabel_classification(n_samples=150, n_classes=4, random_state=0)
    model = LeastSquaresClassifier(alpha=1e-2, tol=1e-9).fit(X, Y)
    other = LinearClassifier("logistic", alpha=1e-2, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-4)
    assert (LeastSquaresClassifier("identity", alpha=1e-2).fit(X, Y).predict(X) == Y).mean() > 0.8


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.int32, np.int64, bool])
@pytest.mark.parametrize("options", [{"link": "identity"}, {"calibration": "polynomial", "max_iter": 5}], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_of_any_type(dtype, options):
    X, y = DIGITS[:300].astype(dtype), NUMBERS[:300]
    working = np.float32 if np.dtype(dtype).itemsize <= 2 else np.float64
    model = LeastSquaresClassifier(alpha=1e-3, **options).fit(X, y)
    expected = LeastSquaresClassifier(alpha=1e-3, **options).fit(X.astype(working), y)
    assert model.model_.dtype == working
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X.astype(working)), atol=1e-4)
    np.testing.assert_array_equal(
        LeastSquaresClassifier(alpha=1e-3, **options).fit(sparse.csr_array(X.astype(np.int32)), y).classes_,
        np.arange(10),
    )


def test_numbers_of_any_type_are_not_copied():
    X = np.ones((4, 3), np.uint8)
    design = wrap_any(X)
    assert np.shares_memory(design.layout.values, X)
    assert design.dtype == np.float32
    assert wrap_any(X.astype(np.int64)).dtype == np.float64
    assert wrap_any(X.astype(np.float32)).layout.values.dtype == np.float32
    with pytest.raises(DataError, match="complex"):
        wrap_any(X.astype(complex))


def test_an_early_end_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        LeastSquaresClassifier(alpha=1e-6, tol=1e-9, max_iter=1).fit(IRIS, SPECIES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresClassifier(alpha=1e-3).fit(IRIS, SPECIES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"accelerated": "yes"}, "accelerated='yes'"),
        ({"accelerated": 1}, "accelerated=1"),
        ({"max_iter": -1}, "max_iter=-1"),
        ({"fit_intercept": "no"}, "fit_intercept='no'"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"class_weight": "some"}, "class_weight='some'"),
        ({"link": "softmax", "calibration": "polynomial"}, "calibration learns the link"),
        ({"tol": 1e-3, "calibration": "polynomial"}, "leave out tol"),
        ({"accelerated": True, "calibration": "polynomial"}, "accelerated does not apply"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_named(options, message):
    with pytest.raises(OptionError, match=message):
        LeastSquaresClassifier(**options).fit(IRIS, SPECIES)


# --- scikit-learn. Its checks compare scores to seven digits, hence the tolerance.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LeastSquaresClassifier(link="identity", alpha=1e-2, tol=1e-12),
        LeastSquaresClassifier(link="softmax", alpha=1e-2, tol=1e-12),
        LeastSquaresClassifier(calibration="polynomial", alpha=1e-2),
    ],
    expected_failed_checks=lambda estimator: (
        {
            "check_classifiers_multilabel_output_format_predict_proba": "projections onto the cube may be zero or one",
            "check_sample_weight_equivalence_on_dense_data": "six digits on rows that are fitted without an error",
            "check_sample_weight_equivalence_on_sparse_data": "six digits on rows that are fitted without an error",
        }
        if estimator.calibration is not None
        else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_sample_of_the_rows_makes_the_matrix_and_the_same_model():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((13_000, 6)).astype(np.float32) * np.float32([1, 1, 30, 1e-2, 1, 1]) + np.float32(2.0)
    X[:, 5] = 0.0
    X[7, 5] = 3.0  # hardly ever in a sample
    y = np.argmax(X[:, :3] @ rng.standard_normal((3, 4)) + rng.gumbel(size=(13_000, 4)), axis=1)
    fits = [
        LeastSquaresClassifier("softmax", accelerated="quasi_newton", alpha=1e-4, tol=1e-7).fit(X, y) for _ in range(2)
    ]
    plain = LinearClassifier("softmax", alpha=1e-4, tol=1e-7).fit(X.astype(np.float64), y)
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    for fitted in fits:
        assert fitted.status_ == "converged"
        assert len(fitted.history_) < 150
        np.testing.assert_allclose(fitted.decision_function(X), plain.decision_function(X), atol=0.02)


@pytest.mark.parametrize("accelerated", ["quasi_newton", True, False])
@pytest.mark.parametrize(
    ("link", "dtype"), [("identity", np.float32), ("softmax", np.float32), ("softmax", np.float64)]
)
def test_without_a_penalty_the_scale_of_the_features_does_not_matter(link, dtype, accelerated):
    """The intercept's gradient has no unit: violations count it in that of the features."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 20))
    y = np.where(rng.random(300) < 0.1, rng.integers(0, 3, 300), X[:, :3].argmax(axis=1))
    counts = []
    for scale in (1.0, 1e-10, 1e10):
        fitted = LeastSquaresClassifier(link, alpha=0.0, accelerated=accelerated).fit((X * scale).astype(dtype), y)
        assert fitted.status_ == "converged"
        counts.append(fitted.n_iter_)
    assert max(counts) <= 1.2 * min(counts) + 1


def test_the_identity_link_takes_one_step_however_many_rows():
    """A sample of the rows would do for a metric, but the whole matrix is the Hessian."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((13_000, 6)) @ rng.standard_normal((6, 6))
    y = np.argmax(X[:, :3] + rng.gumbel(size=(13_000, 3)), axis=1)
    fitted = LeastSquaresClassifier("identity", alpha=1e-4, tol=1e-10).fit(X, y)
    assert fitted.status_ == "converged"
    assert len(fitted.history_) == 2


@pytest.mark.parametrize("accelerated", ["quasi_newton", True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_constant_columns_keep_zero_weights_under_a_weak_penalty(dtype, accelerated):
    """Their gradient is rounding, which α⁻¹ would turn into weights."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 60), np.full(60, 70), rng.integers(0, 20, 60)]).astype(dtype)
    fit = LeastSquaresClassifier(alpha=1e-8, tol=1e-4, accelerated=accelerated).fit(X, rng.integers(0, 4, 60))
    assert fit.status_ == "converged"
    assert not fit.coef_[:, 1].any()


def test_few_features_far_from_zero_without_intercept_in_float32():
    """Σ̂ in float32 would lose all but their means; the certificate's own rounding remains."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(44, 3)).astype(np.float32) + np.float32([0, 1600, 4400])
    y = rng.integers(0, 2, 44)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow, wide = (
            LeastSquaresClassifier(fit_intercept=False).fit(X.astype(dtype), y) for dtype in (np.float32, np.float64)
        )
    assert narrow.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=1e-4)


def test_numbers_wider_than_float64_are_converted():
    X, y = load_iris(return_X_y=True)
    wide, usual = (LeastSquaresClassifier().fit(X.astype(dtype), y) for dtype in (np.longdouble, np.float64))
    np.testing.assert_array_equal(wide.coef_, usual.coef_)
