"""Generalized least squares: Theorem 1 (and solvers that break it), closed forms, other solvers, links, endings."""

from __future__ import annotations

import itertools
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_problem
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import lineal
from lineal.design.narrow import wrap_any
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.least_squares.links import Link, LinkObjective
from lineal.linear.estimator import LinearClassifier
from lineal.linear.fit import prepare
from lineal.linear.options import TrainOptions
from lineal.numerics.factorisation import Factor
from lineal.solvers import least_squares

LIPSCHITZ = {"squared": 1.0, "softmax": 0.5, "logistic": 0.25}
DIGITS, NUMBERS = load_digits(return_X_y=True)
IRIS, SPECIES = load_iris(return_X_y=True)


def objective_of(X, y, loss, alpha=0.0, fit_intercept=False, sample_weight=None):
    options = TrainOptions(loss=loss, alpha=alpha, fit_intercept=fit_intercept)
    return prepare(X, y, options, sample_weight=sample_weight).objective


def sigmoid(Z):
    return 1.0 / (1.0 + np.exp(-Z))


SIGMOID = Link(sigmoid, 0.25, lambda Z: np.logaddexp(0.0, Z).sum(axis=1), "my sigmoid")


# --- Theorem 1. A check is a function, so that it can be seen to fail on a broken solver.


def whitened_and_not(seed=0, n=300, d=12, k=3):
    """Rows with Σ̂ = I, the same with cond(Σ̂) = 1e8, and labels that neither can tell apart without errors."""
    rng = np.random.default_rng(seed)
    Z = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    X = Z @ (left * np.logspace(0, -4, d)) @ right
    assert 0.9e8 < np.linalg.cond(X.T @ X / n) < 1.1e8
    y = (Z @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k))).argmax(axis=1)
    return Z, X, y


def plain_run(X, y, loss, iterations=150):
    solution = least_squares.solve(objective_of(X, y, loss), tol=1e-300, max_iter=iterations, method="plain")
    return np.array([row["objective"] for row in solution.history])


def best_of(Z, y, loss):
    """The minimum of the loss, and the squared norm in the metric of Σ̂ of the shortest weights that reach it."""
    solution = least_squares.solve(objective_of(Z, y, loss), tol=1e-9, max_iter=5000)
    assert solution.certificate.value <= 1e-9
    W = solution.weights
    W = W - W.mean(axis=1, keepdims=True) if loss == "softmax" else W
    return solution.certificate.primal, float((W**2).sum())


def check_decreases(loss):
    _, X, y = whitened_and_not()
    values = plain_run(X, y, loss)
    assert all(after <= before * (1 + 1e-11) for before, after in itertools.pairwise(values))


def check_bound(loss):
    Z, X, y = whitened_and_not()
    lowest, size = best_of(Z, y, loss)
    above = plain_run(X, y, loss) - lowest
    t = np.arange(1, len(above))
    assert (above[1:] <= 2.0 * LIPSCHITZ[loss] * size / (t + 4) + 1e-12).all()


def iterations_to(values, level):
    assert values.min() <= level
    return int(np.argmax(values <= level))


def check_conditioning(loss):
    Z, X, y = whitened_and_not()
    lowest, _ = best_of(Z, y, loss)
    level = lowest + 1e-5
    whitened, other = (iterations_to(plain_run(rows, y, loss), level) for rows in (Z, X))
    assert abs(other - whitened) <= 0.1 * whitened
    assert gradient_descent(X, y, loss, 100 * other).min() > level


def gradient_descent(X, y, loss, iterations):
    """Losses of plain gradient descent with the longest safe step."""
    objective = objective_of(X, y, loss)
    step = 1.0 / (LIPSCHITZ[loss] * np.linalg.eigvalsh(X.T @ X / len(X))[-1])
    Y = y[:, None] == np.arange(objective.shape[1])
    W, values = np.zeros(objective.shape), []
    for t in range(iterations):
        P = X @ W
        if loss == "softmax":
            P = np.exp(P - P.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
        elif loss == "logistic":
            P = sigmoid(P)
        else:
            P = 0.5 * (P + 1.0)  # z − t for t of ±1 is twice this less Y
        W -= step * (1.0 if loss != "squared" else 2.0) * X.T @ (P - Y) / len(X)
        if t % 50 == 0 or t == iterations - 1:
            values.append(objective.value(W))
    return np.array(values)


CHECKS = [check_decreases, check_bound, check_conditioning]


@pytest.mark.parametrize("loss", LIPSCHITZ)
@pytest.mark.parametrize("check", CHECKS)
def test_theorem_1(check, loss):
    check(loss)


def _without_the_matrix(factor, monkeypatch):
    monkeypatch.setattr(Factor, "solve", lambda self, R: R)


def _with_a_quarter_of_the_constant(factor, monkeypatch):
    monkeypatch.setattr(
        least_squares, "_majorant", lambda centred: least_squares._Matrix(centred).factor(LIPSCHITZ["logistic"] / 4)
    )


def _without_what_is_off_the_diagonal(factor, monkeypatch):
    whole = Factor.__init__
    monkeypatch.setattr(
        Factor, "__init__", lambda self, moment, *more: whole(self, np.diag(np.diag(moment)), *more)
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("breakage", "failing"),
    [
        (_without_the_matrix, [check_bound, check_conditioning]),
        (_with_a_quarter_of_the_constant, [check_decreases]),
        (_without_what_is_off_the_diagonal, [check_conditioning]),
    ],
)
def test_theorem_1_fails_on_a_broken_solver(breakage, failing, monkeypatch):
    Z, _, y = whitened_and_not()
    known = best_of(Z, y, "logistic")
    monkeypatch.setitem(globals(), "best_of", lambda *given: known)  # the minimum stays what it is
    breakage(Factor, monkeypatch)
    for check in failing:
        with pytest.raises(AssertionError):
            check("logistic")


def test_constants_are_those_of_the_paper():
    for loss, bound in LIPSCHITZ.items():
        assert objective_of(IRIS, SPECIES, loss).loss.lipschitz(3) == bound


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
    assert design.layout.values is X
    assert design.dtype == np.float32
    assert wrap_any(X.astype(np.int64)).dtype == np.float64
    assert wrap_any(X.astype(np.float32)).layout.values.dtype == np.float32
    with pytest.raises(DataError, match="complex"):
        wrap_any(X.astype(complex))


# --- links of a user's own


@pytest.mark.parametrize("method", [False, True, "quasi_newton"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_sigmoid_of_ones_own_is_the_logistic_loss(method, fit_intercept):
    y = (SPECIES == 2).astype(int)
    options = {"accelerated": method, "alpha": 1e-2, "tol": 1e-8, "max_iter": 20_000, "fit_intercept": fit_intercept}
    own = LeastSquaresClassifier(SIGMOID, **options).fit(IRIS, y)
    known = LeastSquaresClassifier("sigmoid", **{**options, "tol": 1e-11}).fit(IRIS, y)
    np.testing.assert_allclose(own.coef_, known.coef_, atol=1e-4)
    assert own.certificate_.primal == pytest.approx(known.certificate_.primal, rel=1e-8)
    assert own.certificate_.kind == ("violation" if fit_intercept else "gap")
    assert own.status_ == "converged"
    without = LeastSquaresClassifier(replace(SIGMOID, potential=None), **options).fit(IRIS, y)
    assert without.certificate_.kind == "violation"
    assert without.history_[-1]["objective"] is None
    np.testing.assert_allclose(without.coef_, known.coef_, atol=1e-4)
    np.testing.assert_array_equal(own.predict(IRIS), known.predict(IRIS))
    assert not hasattr(own, "predict_proba")


def test_a_softmax_of_ones_own_and_label_sets():
    def mean(Z):
        E = np.exp(Z - Z.max(axis=1, keepdims=True))
        return E / E.sum(axis=1, keepdims=True)

    link = Link(mean, 0.5, lambda Z: np.logaddexp.reduce(Z, axis=1), "my softmax")
    own = LeastSquaresClassifier(link, alpha=1e-2, tol=1e-8).fit(IRIS, SPECIES)
    known = LeastSquaresClassifier("softmax", alpha=1e-2, tol=1e-11).fit(IRIS, SPECIES)
    np.testing.assert_allclose(own.coef_, known.coef_, atol=1e-4)
    X, Y = make_multilabel_classification(n_samples=80, n_classes=3, random_state=0)
    own = LeastSquaresClassifier(SIGMOID, alpha=1e-2, tol=1e-8).fit(X, Y)
    np.testing.assert_array_equal(own.predict(X), LeastSquaresClassifier(alpha=1e-2, tol=1e-8).fit(X, Y).predict(X))


def test_the_gap_of_a_link_is_a_bound():
    y = (SPECIES == 2).astype(int)
    objective = LinkObjective.of(objective_of(IRIS, y, "squared", alpha=1e-3), SIGMOID)
    lowest = least_squares.solve(objective, tol=1e-12, max_iter=5000).certificate.primal
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0, 10.0):
        certificate = objective.certificate(scale * rng.normal(size=objective.shape))
        assert certificate.kind == "gap"
        assert certificate.dual <= lowest * (1 + 1e-12) <= certificate.primal * (1 + 1e-9)


def test_objectives_below_zero_have_estimates():
    """Φ(z) − y'z of the identity is negative near its minimum: the history still has gaps, and the fit ends."""
    link = Link(lambda Z: Z, 1.0, lambda Z: 0.5 * (Z * Z).sum(axis=1), "mine")
    model = LeastSquaresClassifier(link, None, True, 1e-2, 1e-8, fit_intercept=False, max_iter=5000).fit(IRIS, SPECIES)
    assert model.certificate_.primal < 0.0
    assert model.status_ == "converged"
    assert all(row["gap"] > 0.0 for row in model.history_)


@pytest.mark.parametrize(
    ("mean", "message"),
    [
        (lambda Z: Z[:, :1], r"mean of mine has shape \(\d+, 1\)"),
        (lambda Z: np.full_like(Z, np.nan), "mean of mine has NaN"),
    ],
)
def test_what_a_link_may_not_give(mean, message):
    with pytest.raises(DataError, match=message):
        LeastSquaresClassifier(Link(mean, 1.0, name="mine")).fit(IRIS, SPECIES)
    potential = Link(sigmoid, 0.25, lambda Z: Z, "mine")
    with pytest.raises(DataError, match="potential of mine has shape"):
        LeastSquaresClassifier(potential).fit(IRIS, SPECIES)


def test_links_that_are_none():
    for bad in (
        {"mean": 3, "lipschitz": 1.0},
        {"mean": sigmoid, "lipschitz": 0.0},
        {"mean": sigmoid, "lipschitz": "a"},
        {"mean": sigmoid, "lipschitz": None},
        {"mean": sigmoid, "lipschitz": 0.25, "name": "logistic"},  # a file would take it for that
    ):
        with pytest.raises(OptionError):
            Link(**bad)
    with pytest.raises(OptionError, match="at zero, the border between labels"):
        LeastSquaresClassifier(Link(lambda Z: Z, 1.0)).fit(IRIS, SPECIES > 0)
    with pytest.raises(OptionError, match="did you mean 'softmax'"):
        LeastSquaresClassifier("softmx").fit(IRIS, SPECIES)
    with pytest.raises(OptionError, match=r"neither a name .* nor a lineal.Link"):
        LeastSquaresClassifier(sigmoid).fit(IRIS, SPECIES)


def test_links_are_not_saved(tmp_path):
    model = LeastSquaresClassifier(SIGMOID).fit(IRIS, SPECIES)
    with pytest.raises(ModelFileError, match="my sigmoid"):
        model.save(tmp_path / "model")
    named = LeastSquaresClassifier("softmax").fit(IRIS, SPECIES)
    named.save(tmp_path / "model")
    np.testing.assert_array_equal(lineal.load(tmp_path / "model").predict(IRIS), named.predict(IRIS))


# --- endings


@pytest.mark.parametrize("method", ["plain", "accelerated", "quasi_newton"])
def test_callbacks_limits_and_interrupts(method):
    objective = objective_of(IRIS, SPECIES, "softmax", alpha=1e-5, fit_intercept=True)
    seen = []
    stopped = least_squares.solve(
        objective, tol=1e-14, callbacks=[lambda s: seen.append(s) or s.iteration == 3], method=method
    )
    assert stopped.status == "stopped"
    assert [s.iteration for s in seen] == [0, 1, 2, 3]
    assert [row["iteration"] for row in stopped.history] == [0, 1, 2, 3]
    np.testing.assert_array_equal(seen[-1].weights, stopped.weights)
    assert stopped.history[-1]["gap"] == stopped.certificate.value
    late = least_squares.solve(objective, tol=1e-14, max_time=1e-9, method=method)
    assert late.status == "max_time"
    few = least_squares.solve(objective, tol=1e-14, max_iter=2, method=method)
    assert few.status == "max_iter"
    assert "max_iter=2" in few.message
    before = signal.getsignal(signal.SIGINT)
    ended = least_squares.solve(
        objective, tol=1e-14, callbacks=[lambda s: s.iteration == 2 and signal.raise_signal(signal.SIGINT)],
        method=method,
    )  # fmt: skip
    assert ended.status == "interrupted"
    assert len(ended.history) == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_a_start_is_taken():
    objective = objective_of(IRIS, SPECIES, "softmax", alpha=1e-3, fit_intercept=True)
    for method in ("plain", "accelerated", "quasi_newton"):
        first = least_squares.solve(objective, tol=1e-6, method=method, max_iter=5000)
        again = least_squares.solve(objective, tol=1e-6, method=method, start=first)
        assert len(again.history) == 1
        assert again.certificate.value <= 1e-6
    with pytest.raises(OptionError, match="method='newtn'"):
        least_squares.solve(objective, method="newtn")


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
        ({"accelerated": True, "calibration": "polynomial"}, "accelerated has no meaning"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_named(options, message):
    with pytest.raises(OptionError, match=message):
        LeastSquaresClassifier(**options).fit(IRIS, SPECIES)


def test_losses_and_penalties_that_it_refuses():
    with pytest.raises(OptionError, match="least_squares"):
        LinearClassifier(loss="hinge", solver="least_squares").fit(IRIS, SPECIES)
    with pytest.raises(OptionError, match="least_squares"):
        LinearClassifier(loss="softmax", penalty="l1", solver="least_squares").fit(IRIS, SPECIES)
    by_name = LinearClassifier(loss="softmax", alpha=1e-2, solver="least_squares", tol=1e-8).fit(IRIS, SPECIES)
    np.testing.assert_allclose(
        by_name.coef_, LeastSquaresClassifier(alpha=1e-2, tol=1e-8).fit(IRIS, SPECIES).coef_, atol=1e-9
    )


def test_offsets_factors_and_a_centre():
    """What the objective allows beyond the estimator: against another solver of the same objective."""
    from lineal.penalties import get
    from lineal.penalties.regulariser import Regulariser
    from lineal.solvers.lbfgs import lbfgs

    rng = np.random.default_rng(0)
    problem = prepare(IRIS, SPECIES, TrainOptions(loss="softmax"), offsets=rng.normal(size=(150, 3)))
    for regulariser in (
        Regulariser(get("l2"), 1e-2, 4, factors=np.array([0.0, 1.0, 2.0, 5.0])),
        Regulariser(get("l2"), 1e-2, 4, centre=rng.normal(size=(4, 3))),
    ):
        objective = replace(problem.objective, regulariser=regulariser)
        expected = lbfgs.solve(objective, tol=1e-10, max_iter=5000)
        for method in ("plain", "accelerated", "quasi_newton"):
            found = least_squares.solve(objective, tol=1e-7, max_iter=20_000, method=method)
            assert found.status == "converged"
            assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)


# --- the factorisation


def test_factor_of_a_matrix_with_full_rank():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 9)) * np.logspace(0, 6, 9)
    moment, ridges, R = A.T @ A, rng.random(9), rng.normal(size=(9, 3))
    kept = moment.copy()
    factor = Factor(moment, ridges, 0.25)
    assert factor.lower is not None
    assert factor.rank == 9
    np.testing.assert_allclose(factor.solve(R), np.linalg.inv(0.25 * moment + np.diag(ridges)) @ R, rtol=1e-6)
    np.testing.assert_array_equal(moment, kept)
    assert factor.solve(R.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("ridge", [0.0, 1e-30])
def test_factor_without_full_rank_is_a_pseudo_inverse(ridge):
    """For right-hand sides in the range: a solution, and where columns are scaled alike the shortest one."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 6))
    A = np.hstack([A, A[:, :3], np.zeros((40, 1))])
    moment = A.T @ A
    R = A.T @ rng.normal(size=(40, 2))
    factor = Factor(moment, ridge)
    assert factor.lower is None
    assert factor.rank == 7 if ridge == 0.0 else factor.rank >= 6  # an empty column counts as one of its own
    np.testing.assert_allclose(moment @ factor.solve(R), R, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(A @ factor.solve(R), A @ np.linalg.pinv(moment, hermitian=True) @ R, atol=1e-9)
    scales = 1.0 / np.sqrt(np.where(np.diag(moment) > 0, np.diag(moment), 1.0))
    scaled = moment * scales * scales[:, None]
    shortest = scales[:, None] * (np.linalg.pinv(scaled, rcond=1e-12, hermitian=True) @ (scales[:, None] * R))
    np.testing.assert_allclose(factor.solve(R), shortest, atol=1e-9)


def test_factor_of_what_is_nearly_singular():
    """Rounding decides between the two ways: nothing of the answer may come from it."""
    rng = np.random.default_rng(2)
    A = rng.normal(size=(50, 5))
    A = np.hstack([A, A[:, :1] + 1e-5 * rng.normal(size=(50, 1))])
    R = A.T @ rng.normal(size=(50, 2))
    exact, single = Factor(A.T @ A, 0.0), Factor(A.T @ A, 0.0, rounding=1e-7)
    assert exact.lower is not None
    assert single.lower is None
    assert (exact.rank, single.rank) == (6, 5)
    assert np.abs(exact.solve(R)).max() > 1e3
    assert np.abs(single.solve(R)).max() < 10.0
    np.testing.assert_allclose(A.T @ (A @ single.solve(R)), R, atol=1e-2)


def test_factor_refuses_what_overflows():
    with pytest.raises(DataError, match="scale the features"):
        Factor(np.array([[np.inf]]), 0.0)
    with pytest.raises(DataError, match="squares overflow: divide it"):
        LeastSquaresClassifier().fit(IRIS * 1e200, SPECIES)


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
