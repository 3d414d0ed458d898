"""Link functions of a user's own: the same answers as the built-in ones, their certificates, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_multilabel_classification

import lineal
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.least_squares.links import Link, LinkObjective
from lineal.linear.fit import prepare
from lineal.linear.options import TrainOptions
from lineal.solvers import least_squares

IRIS, SPECIES = load_iris(return_X_y=True)


def objective_of(X, y, loss, alpha=0.0, fit_intercept=False, sample_weight=None):
    options = TrainOptions(loss=loss, alpha=alpha, fit_intercept=fit_intercept)
    return prepare(X, y, options, sample_weight=sample_weight).objective


def sigmoid(Z):
    return 1.0 / (1.0 + np.exp(-Z))


SIGMOID = Link(sigmoid, 0.25, lambda Z: np.logaddexp(0.0, Z).sum(axis=1), "my sigmoid")


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
