"""Calibrated least squares: projections, Theorem 2 (and solvers that break it), a NumPy twin, replay, endings."""

from __future__ import annotations

import itertools
import pickle
import signal
from typing import NamedTuple

import numpy as np
import pytest
from conftest import random_problem
from edited_models import rewrite
from scipy import optimize, sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_multilabel_classification

import lineal
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.numerics import label_residuals
from lineal.numerics.basis import functions
from lineal.numerics.projections import PROJECTIONS, onto_cube, onto_simplex
from lineal.solvers import calibrated

IRIS, SPECIES = load_iris(return_X_y=True)
POLYNOMIAL = functions("polynomial")
IDENTITY = functions(["y"])


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(float)


def even(n):
    return np.full(n, 1.0 / n)


class Values(NamedTuple):
    """Targets that are no labels: any numbers."""

    Y: np.ndarray

    def rows(self, start, stop):
        return Values(self.Y[start:stop])


@pytest.fixture(autouse=True)
def _values(monkeypatch):
    """Targets of `rows` are taken as they are."""
    whole = label_residuals.zeros_and_ones

    def zeros_and_ones(targets, n, k, dtype):
        return targets.Y.astype(dtype) if isinstance(targets, Values) else whole(targets, n, k, dtype)

    monkeypatch.setattr(label_residuals, "zeros_and_ones", zeros_and_ones)


def rows(X, Y, s):
    return LocalEngine(wrap(X), Values(Y), s, Y.shape[1])


# --- projections


def bisected(V):
    """The projection onto the simplex by bisection on the shift of every row."""
    high = V.max(axis=1, keepdims=True)
    low = high - 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        is_low = np.maximum(V - middle, 0.0).sum(axis=1, keepdims=True) > 1.0
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.maximum(V - high, 0.0)


def test_the_projection_onto_the_simplex_is_that_of_quadratic_programming():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(12, 5)) * np.logspace(-2, 1, 12)[:, None]
    for v, found in zip(V, onto_simplex(V)):
        program = optimize.minimize(
            lambda p, v: 0.5 * ((p - v) ** 2).sum(), np.full(5, 0.2), (v,), jac=lambda p, v: p - v, method="SLSQP",
            bounds=[(0, None)] * 5, constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0}, options={"ftol": 1e-14},
        )  # fmt: skip
        np.testing.assert_allclose(found, program.x, atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_the_projection_onto_the_simplex_is_that_of_bisection(k):
    rng = np.random.default_rng(k)
    V = np.concatenate(
        [
            rng.normal(size=(50, k)),
            rng.integers(-2, 3, size=(50, k)).astype(float),  # ties
            1e6 * rng.normal(size=(20, k)),
            np.full((1, k), 7.0),
            np.zeros((1, k)),
            onto_simplex(rng.random((10, k))),
        ]
    )
    P = onto_simplex(V)
    np.testing.assert_allclose(P, bisected(V), atol=1e-9)
    np.testing.assert_allclose(onto_simplex(P), P, atol=1e-15)
    assert (P >= 0.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e3, 1e9, 1e20, 1e30])
def test_huge_values_still_add_up_to_one(size, dtype):
    V = np.array([[size, 0.0, -size], [size, size, -size], [-size, -size, -size]], dtype)
    P = onto_simplex(V)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-6)


def test_the_projection_onto_the_cube():
    np.testing.assert_array_equal(
        onto_cube(np.array([[-3.0, 0.0, 0.25], [1.0, 9.0, 0.5]])), [[0, 0, 0.25], [1, 1, 0.5]]
    )


# --- Theorem 2. A check is a function, so that it can be seen to fail on a broken solver.


def affine(seed=0, n=200, d=4, k=3):
    """Rows far from zero, y = 1/k + Mz within the simplex, and κ of M on directions that leave sums as they are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    basis = np.linalg.qr(np.hstack([np.ones((k, 1)), rng.normal(size=(k, k - 1))]))[0][:, 1:]
    M = basis * np.linspace(1.0, 1.5, k - 1) @ basis.T
    Y = X @ rng.normal(size=(d, k)) @ M
    Y = 1.0 / k + 0.9 / (k * np.abs(Y).max()) * Y
    assert (Y > 0.0).all()
    np.testing.assert_allclose(Y.sum(axis=1), 1.0)
    return X, Y, 1.5


def check_theorem_2():
    X, Y, condition = affine()
    constant = 22 * Y.shape[1] * condition**2
    found = calibrated.solve(
        rows(X, Y, even(len(X))), alpha=0.0, basis=IDENTITY, onto="simplex", fit_intercept=False,
        max_iter=10 * int(constant), min_gain=0.0,
    )  # fmt: skip
    errors = np.array([row["objective"] for row in found.history])
    t = np.arange(1, len(errors))
    assert (errors[1:] <= constant / t).all()
    # An end before max_iter: the error stays what it is. The bound is far below what a constant prediction leaves.
    steps = 2_000 * constant
    assert constant / steps < 0.1 * ((Y - Y.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert errors[-1] <= constant / steps


def test_theorem_2():
    check_theorem_2()


def _without_projection(monkeypatch):
    monkeypatch.setitem(PROJECTIONS, "simplex", lambda V: V)


def _without_calibration(monkeypatch):
    monkeypatch.setattr(calibrated, "best_map", lambda squares, products, dtype: np.eye(len(squares)))
    _without_projection(monkeypatch)


def _with_the_residual_turned_around(monkeypatch):
    """Calibration turns it back: without, nothing does."""
    solve = calibrated.Ridge.solve
    monkeypatch.setattr(calibrated.Ridge, "solve", lambda self, *sums: tuple(-part for part in solve(self, *sums)))
    check_theorem_2()
    monkeypatch.setattr(calibrated, "best_map", lambda squares, products, dtype: np.eye(len(squares)))


@pytest.mark.parametrize(
    "breakage", [_without_projection, _without_calibration, _with_the_residual_turned_around]
)  # fmt: skip
def test_theorem_2_fails_on_a_broken_solver(breakage, monkeypatch):
    breakage(monkeypatch)
    with pytest.raises(AssertionError):
        check_theorem_2()


# --- the algorithm


def twin(X, Y, s, alpha, basis, onto, iterations, fit_intercept=True):
    """Algorithm 2 with whole matrices: predictions after every iteration, and the maps."""
    project = {"simplex": bisected, "cube": lambda V: np.clip(V, 0.0, 1.0)}[onto]
    root, P, errors, maps = np.sqrt(s)[:, None], np.zeros_like(Y), [], []
    mean = s @ X if fit_intercept else np.zeros(X.shape[1])
    A = np.vstack([root * (X - mean), np.sqrt(alpha) * np.eye(X.shape[1])])
    for _ in range(iterations):
        R = Y - P
        level = s @ R if fit_intercept else np.zeros(Y.shape[1])
        W = np.linalg.lstsq(A, np.vstack([root * (R - level), np.zeros((X.shape[1], Y.shape[1]))]), rcond=None)[0]
        tilde = P + (X - mean) @ W + level
        U = np.hstack([function(tilde) for function in basis])
        V = np.linalg.lstsq(root * U, root * Y, rcond=None)[0]
        P = project(U @ V)
        maps.append(V)
        errors.append(s @ ((Y - P) ** 2).sum(axis=1))
    return P, errors, maps


def blobs(seed=0, n=250, d=5, k=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


def check_against_the_twin(k=3, onto="simplex", fit_intercept=True, basis=POLYNOMIAL, iterations=4, alpha=1e-3):
    X, y = blobs(k=max(k, 2))
    Y = one_hot(y) if k > 1 else one_hot(y)[:, 1:]
    s = np.random.default_rng(1).random(len(X)) + 0.2
    s /= s.sum()
    options = {"alpha": alpha, "basis": basis, "onto": onto, "fit_intercept": fit_intercept}
    found = calibrated.solve(rows(X, Y, s), max_iter=iterations, min_gain=0.0, **options)
    P, errors, maps = twin(X, Y, s, alpha, basis, onto, iterations, fit_intercept)
    assert len(found.weights) == iterations
    np.testing.assert_allclose([row["objective"] for row in found.history[1:]], errors, atol=1e-8)
    np.testing.assert_allclose(found.maps, maps, atol=1e-6)
    XW = np.stack([X @ W for W in found.weights], axis=1)
    np.testing.assert_allclose(calibrated.replay(XW, found.intercepts, found.maps, basis, onto), P, atol=1e-8)
    return found


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("k", "onto"), [(3, "simplex"), (5, "simplex"), (1, "cube"), (3, "cube")])
def test_against_a_plain_twin(k, onto, fit_intercept):
    check_against_the_twin(k, onto, fit_intercept)


def test_chunks_do_not_matter(monkeypatch):
    monkeypatch.setattr(calibrated, "CHUNK_ENTRIES", 64)
    check_against_the_twin()


def test_functions_of_ones_own():
    check_against_the_twin(basis=(lambda P: P, np.tanh, lambda P: np.maximum(P - 0.3, 0.0)))


def test_maps_couple_the_classes(monkeypatch):
    """The map is whole: the check fails with one that is diagonal in the classes."""
    found = check_against_the_twin()
    off = ~np.tile(np.eye(3, dtype=bool), (3, 1))
    assert np.abs(found.maps[:, off]).max() > 1e-2
    whole = calibrated.best_map
    monkeypatch.setattr(calibrated, "best_map", lambda *sums: np.where(off, 0.0, whole(*sums)))
    with pytest.raises(AssertionError):
        check_against_the_twin()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("data", ["iris", "digits", "binary"])
def test_the_error_decreases_at_every_iteration(data):
    X, y = {"iris": load_iris, "digits": load_digits, "binary": load_breast_cancer}[data](return_X_y=True)
    model = LeastSquaresClassifier(calibration="polynomial").fit(X, y)
    errors = [row["objective"] for row in model.history_]
    assert all(after < before for before, after in itertools.pairwise(errors))
    assert model.score(X, y) > LeastSquaresClassifier("identity").fit(X, y).score(X, y) - 0.01
    truth = one_hot(y) if data != "binary" else one_hot(y)[:, 1:]
    P = model.predict_proba(X) if data != "binary" else model.predict_proba(X)[:, 1:]
    assert ((P - truth) ** 2).sum(axis=1).mean() == pytest.approx(errors[-1], rel=1e-6)


# --- the model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["classes", "two classes", "label sets"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_labels_and_replay(kind, dtype, tmp_path):
    X, Y = make_multilabel_classification(n_samples=120, n_classes=3, random_state=0)
    y = {"classes": np.array(["a", "b", "c"])[SPECIES], "two classes": SPECIES > 0, "label sets": Y}[kind]
    X = (X if kind == "label sets" else IRIS).astype(dtype)
    model = LeastSquaresClassifier(calibration="polynomial", alpha=1e-3).fit(X, y)
    P, labels = model.predict_proba(X), model.predict(X)
    assert (P >= 0.0).all()
    assert (P <= 1.0).all()
    if kind == "label sets":
        np.testing.assert_array_equal(P > 0.5, labels.astype(bool))
    else:
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], labels)
    assert model.model_.onto == ("simplex" if kind == "classes" else "cube")
    assert model.certificate_.kind == "none"
    with pytest.raises(AttributeError, match="replays its iterations"):
        _ = model.coef_
    model.save(tmp_path / "model")
    for other in (lineal.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(X), P)
        np.testing.assert_array_equal(other.predict(X), labels)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_layouts_and_doubled_rows(fit_intercept):
    X, y = blobs(n=120)
    X[np.abs(X) < 0.5] = 0.0
    options = {"calibration": "polynomial", "alpha": 1e-2, "max_iter": 4, "fit_intercept": fit_intercept}

    def scores(rows, labels, weights=None):
        with pytest.warns(Warning, match="max_iter=4"):
            return LeastSquaresClassifier(**options).fit(rows, labels, weights).decision_function(X)

    expected = scores(X, y)
    for kind in (np.asfortranarray, sparse.csr_array, sparse.csc_array):
        np.testing.assert_allclose(scores(kind(X), y), expected, atol=1e-7)
    rows = np.concatenate([np.arange(120), np.arange(40)])
    weights = np.ones(120)
    weights[:40] = 2.0
    np.testing.assert_allclose(scores(X[rows], y[rows]), scores(X, y, weights), atol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_names_of_classes_do_not_matter():
    X, y = blobs(n=150)
    order = np.array([2, 0, 1])
    model = LeastSquaresClassifier(calibration="polynomial", alpha=1e-2)
    first = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.fit(X, order[y]).predict_proba(X)[:, order], first, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_odd_columns_and_more_features_than_rows(alpha):
    X, y = random_problem(0, n=40, d=60)
    model = LeastSquaresClassifier(calibration="polynomial", alpha=alpha).fit(X.toarray(), y)
    assert model.status_ == "converged"
    assert model.score(X.toarray(), y) > 0.95  # one row is empty
    assert np.abs(model.model_.weights).max() < 1e3  # of a constant column too
    wide = np.hstack([IRIS, IRIS, np.ones((150, 2))])
    both = [LeastSquaresClassifier(calibration="polynomial", alpha=0.0).fit(rows, SPECIES) for rows in (IRIS, wide)]
    np.testing.assert_allclose(both[0].predict_proba(IRIS), both[1].predict_proba(wide), atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_far_from_zero_count_and_constant_ones_do_not():
    far, near = (
        LeastSquaresClassifier(calibration="polynomial", alpha=1e-3, max_iter=5).fit(rows, SPECIES).predict_proba(rows)
        for rows in (IRIS + 1e7, IRIS)
    )
    np.testing.assert_allclose(far, near, atol=1e-4)
    X = np.hstack([IRIS, np.full((150, 1), 1e5)]).astype(np.float32)
    model = LeastSquaresClassifier(calibration="polynomial", max_iter=5).fit(X, SPECIES)
    assert not model.model_.weights[:, 4].any()


def test_a_fit_without_errors_ends():
    """Nothing is left to calibrate: rounding must not be what the last maps are made of."""
    X, y = np.repeat(np.eye(3), 5, axis=0), np.repeat([0, 1, 2], 5)
    model = LeastSquaresClassifier(calibration="polynomial", alpha=0.0).fit(X, y)
    assert model.n_iter_ <= 3
    np.testing.assert_allclose(model.predict_proba(X), one_hot(y), atol=1e-6)
    assert np.abs(model.model_.maps).max() < 1e3


def test_without_an_iteration_it_predicts_the_means():
    with pytest.warns(Warning, match="max_iter=0"):
        model = LeastSquaresClassifier(calibration="polynomial", max_iter=0).fit(
            IRIS, np.minimum(SPECIES, 1) + 2 * (SPECIES > 2)
        )
    np.testing.assert_allclose(model.predict_proba(IRIS)[:, 1], 2 / 3, atol=1e-12)


def test_callbacks_limits_and_interrupts():
    X, y = load_digits(return_X_y=True)

    def run(**options):
        with pytest.warns(Warning, match="stopped|interrupted"):
            return LeastSquaresClassifier(calibration="polynomial", **options).fit(X[:300], y[:300])

    full = LeastSquaresClassifier(calibration="polynomial").fit(X[:300], y[:300])
    stopped = run(callbacks=[lambda s: s.iteration == 2])
    assert (stopped.status_, len(stopped.model_.weights)) == ("stopped", 2)
    np.testing.assert_array_equal(stopped.model_.weights, full.model_.weights[:2])
    assert run(max_time=1e-9).status_ == "max_time"
    ended = run(callbacks=[lambda s: s.iteration == 2 and signal.raise_signal(signal.SIGINT)])
    assert (ended.status_, len(ended.model_.weights)) == ("interrupted", 2)
    assert run(max_iter=2).status_ == "max_iter"


# --- bad input


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ("cubic", "calibration='cubic'"),
        ([], "neither None, 'polynomial' nor a list"),
        (["y^4"], "calibration='y\\^4'"),
        ([3], "neither a name"),
        (3, "neither None"),
    ],
)
def test_bases_that_are_none(calibration, message):
    with pytest.raises(OptionError, match=message):
        LeastSquaresClassifier(calibration=calibration).fit(IRIS, SPECIES)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_rows_whose_squares_overflow():
    with pytest.raises(DataError, match="squares of the features overflow"):
        LeastSquaresClassifier(calibration="polynomial").fit(IRIS * 1e160, SPECIES)


def too_few(P):
    return P[:, :1]


def not_a_number(P):
    return P * np.nan


@pytest.mark.parametrize(("function", "message"), [(too_few, "too_few gives values of shape"), (not_a_number, "NaN")])
def test_what_a_function_may_not_give(function, message):
    with pytest.raises(DataError, match=message):
        LeastSquaresClassifier(calibration=["y", function]).fit(IRIS, SPECIES)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_functions_of_ones_own_are_not_saved(tmp_path):
    model = LeastSquaresClassifier(calibration=["y", np.tanh]).fit(IRIS, SPECIES)
    assert model.score(IRIS, SPECIES) > 0.8
    with pytest.raises(ModelFileError, match=r"other than y, y\^2, y\^3 cannot be stored"):
        model.save(tmp_path / "model")
    LeastSquaresClassifier(calibration=["y", "y^2"]).fit(IRIS, SPECIES).save(tmp_path / "model")
    assert len(lineal.load(tmp_path / "model").basis) == 2


def _set(**entries):
    return lambda values, tensors: values["own"].update(entries)


def _tensor(name, change):
    return lambda values, tensors: tensors.update({name: np.ascontiguousarray(change(tensors[name]))})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:invalid value")
@pytest.mark.parametrize(
    "change",
    [
        _set(basis=["y"]),
        _set(basis=["y", "os.system", "y^3"]),
        _set(onto="cube"),
        _set(onto="ball"),
        _tensor("maps", lambda V: V[:, :-1]),
        _tensor("maps", lambda V: V * np.nan),
        _tensor("weights", lambda W: W[0]),
        _tensor("weights", lambda W: W[:0]),
        _tensor("weights", lambda W: W.astype(np.float32)),
        _tensor("intercepts", lambda b: b[:-1]),
        lambda values, tensors: tensors.pop("maps"),
        lambda values, tensors: values.update(kind="other"),
        lambda values, tensors: values.update(classes=[0, 1]),
        lambda values, tensors: values.update(classes=[0, 1, 1]),
        lambda values, tensors: values.pop("own"),
    ],
)
def test_damaged_files_are_refused(change, tmp_path):
    LeastSquaresClassifier(calibration="polynomial").fit(IRIS, SPECIES).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="is damaged"):
        lineal.load(rewrite(tmp_path / "model", out=tmp_path / "other", change=change))
