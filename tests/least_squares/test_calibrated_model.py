"""`LeastSquaresClassifier(calibration=...)`: errors that decrease, probabilities, replay, model files, refusals."""

from __future__ import annotations

import itertools
import pickle
import signal

import numpy as np
import pytest
from conftest import random_problem
from edited_models import rewrite
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_multilabel_classification

import lineal
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.numerics.basis import functions

IRIS, SPECIES = load_iris(return_X_y=True)
POLYNOMIAL = functions("polynomial")


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(float)


def blobs(seed=0, n=250, d=5, k=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


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
