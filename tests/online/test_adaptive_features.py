"""`AdaptivePolynomial`: values are products, sparse is dense, names, what it is for, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal import LinearClassifier, features
from lineal.errors import DataError, OptionError
from lineal.features import AdaptivePolynomial


def products(n=3000, d=12, seed=0, density=1.0):
    """Labels by the sign of a product of two columns, of which no linear model knows anything."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    return X, np.where(X[:, 1] * X[:, 4] > 0.0, "yes", "no")


def by_hand(X, monomials):
    return np.stack([np.prod(X[:, list(monomial)], axis=1) for monomial in monomials], axis=1)


@pytest.mark.slow
@parametrize_with_checks(
    [AdaptivePolynomial()],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows are learned from one after the other: order counts"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("include_linear", [True, False])
def test_values_are_products(dtype, include_linear):
    X, y = products(600, density=0.6)
    X = X.astype(dtype)
    made = AdaptivePolynomial(include_linear=include_linear).fit(X, y)
    assert max(map(len, made.monomials_)) > 2
    assert (min(map(len, made.monomials_)) == 1) is include_linear
    F = made.transform(X)
    assert F.dtype == dtype
    expected = by_hand(X.astype(np.float64), made.monomials_)
    np.testing.assert_allclose(F, expected, rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-12)
    G = made.transform(sparse.csr_array(X))
    assert G.format == "csr"
    assert G.has_sorted_indices
    assert G.dtype == dtype
    assert G.nnz == np.count_nonzero(F)
    np.testing.assert_array_equal(G.toarray(), F)
    assert isinstance(made.transform(sparse.csr_matrix(X)), sparse.csr_matrix)


def test_sparse_rows_choose_what_dense_rows_choose():
    X, y = products(600, density=0.3)
    dense, rows = AdaptivePolynomial().fit(X, y), AdaptivePolynomial().fit(sparse.csr_array(X), y)
    assert dense.monomials_ == rows.monomials_
    np.testing.assert_array_equal(dense.weights_, rows.weights_)


def test_sparse_rows_that_are_odd():
    X, y = products(400, density=0.3)
    made = AdaptivePolynomial().fit(X, y)
    odd = sparse.csr_array((np.array([2.0, 1.0, 3.0, 0.0]), np.array([4, 1, 4, 5]), np.array([0, 3, 3, 4])), (3, 12))
    np.testing.assert_allclose(made.transform(odd).toarray(), by_hand(odd.toarray(), made.monomials_))
    assert made.transform(sparse.csr_array((5, 12))).nnz == 0


def test_the_heaviest_come_first_and_may_be_few():
    X, y = products()
    made = AdaptivePolynomial(n_monomials=5, include_linear=False).fit(X, y)
    assert len(made.monomials_) == 5
    assert made.monomials_[0] == (1, 4)
    assert made.weights_.shape == (5, 1)
    assert made.monomials_ == AdaptivePolynomial(include_linear=False).fit(X, y).monomials_[:5]
    none = AdaptivePolynomial(n_monomials=0).fit(X, y)
    np.testing.assert_array_equal(none.transform(X), X)


def test_names():
    X, y = products(600)
    made = AdaptivePolynomial().fit(pd.DataFrame(X, columns=list("abcdefghijkl")), y)
    names = made.get_feature_names_out()
    assert names[:12].tolist() == list("abcdefghijkl")
    assert "b*e" in names
    powers = [name for name in names if "^" in name]
    assert powers
    for name, monomial in zip(names, made.monomials_):
        assert name == made.model_.name_of(monomial)
    plain = AdaptivePolynomial().fit(X, y)
    assert "x1*x4" in plain.get_feature_names_out()
    frame = plain.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == plain.get_feature_names_out().tolist()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_it_picks_and_a_solver_fits(kind):
    X, y = products()
    X_new, y_new = products(seed=1)
    linear = LinearClassifier(loss="squared_hinge").fit(kind(X), y)
    pipeline = make_pipeline(AdaptivePolynomial(n_monomials=30), LinearClassifier(loss="squared_hinge"))
    pipeline.fit(kind(X), y)
    assert linear.score(kind(X_new), y_new) < 0.6
    assert pipeline.score(kind(X_new), y_new) > 0.9
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(kind(X_new)), pipeline.predict(kind(X_new)))
    clone(pipeline).fit(kind(X), y)


def test_numbers_label_sets_classes_and_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    z = X[:, 0] * X[:, 3] + 0.1 * rng.normal(size=2000)
    made = AdaptivePolynomial(n_monomials=3).fit(X, z)
    assert (0, 3) in made.monomials_
    assert LinearRegression().fit(made.transform(X), z).score(made.transform(X), z) > 0.9
    Y = np.stack([z > 0.0, X[:, 1] > 0.0, X[:, 2] * X[:, 5] > 0.0], axis=1).astype(int)
    for sets in (Y, sparse.csr_matrix(Y)):
        assert {(0, 3), (2, 5)} <= set(AdaptivePolynomial(n_monomials=8).fit(X, sets).monomials_)
    three = AdaptivePolynomial(n_monomials=4).fit(X, np.digitize(z, [-0.5, 0.5]).astype(str))
    assert (0, 3) in three.monomials_
    assert three.weights_.shape == (6 + 4, 3)
    half = np.where(np.arange(2000) < 1000, 1.0, 0.0)  # rows of weight zero are not learned from
    other = AdaptivePolynomial(n_monomials=1, include_linear=False).fit(X, np.where(half, z, X[:, 1] * X[:, 2]), half)
    assert other.monomials_ == [(0, 3)]


def test_sorted_rows_are_shuffled():
    X, y = products()
    order = np.argsort(y, kind="stable")
    assert AdaptivePolynomial(n_monomials=1, include_linear=False).fit(X[order], y[order]).monomials_ == [(1, 4)]
    one, two = (AdaptivePolynomial(random_state=0).fit(X, y).monomials_ for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"heuristic": "other"}, "heuristic"),
        ({"growth": -1.0}, "growth"),
        ({"epochs": 0}, "epochs"),
        ({"loss": "other"}, "loss"),
        ({"rate": -1.0}, "rate"),
        ({"bits": 3}, "bits"),
        ({"n_monomials": -1}, "n_monomials"),
        ({"n_monomials": 2.5}, "n_monomials"),
        ({"include_linear": 1}, "include_linear"),
        ({"shuffle": "no"}, "shuffle"),
    ],
    ids=str,
)
def test_options_that_cannot_be_honoured_are_refused_by_name(given, words):
    with pytest.raises(OptionError, match=words):
        AdaptivePolynomial(**given).fit(*products(20))


def test_bad_input():
    X, y = products(50)
    with pytest.raises(ValueError, match="requires y"):
        AdaptivePolynomial().fit(X, None)
    with pytest.raises(DataError, match="one class"):
        AdaptivePolynomial().fit(X, np.ones(50, int))
    with pytest.raises(DataError, match="indicator matrix"):
        AdaptivePolynomial().fit(X, X[:, :2])
    with pytest.raises(DataError, match="nothing to transform"):
        AdaptivePolynomial(include_linear=False, epochs=1).fit(X, y)
    made = AdaptivePolynomial().fit(X, y)
    with pytest.raises(DataError, match="scale the columns"):
        made.transform(1e300 * X)
    assert "AdaptivePolynomial" in dir(features)
