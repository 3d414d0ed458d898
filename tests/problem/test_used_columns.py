"""Sparse rows most of whose columns are empty: solvers see only the others, and nobody else sees a difference."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_problem
from objectives import objective_on
from scipy import sparse

from lineal import LinearClassifier
from lineal.problem import used_columns
from lineal.problem.used_columns import narrowed

D = used_columns.MANY


def wide_and_narrow(layout="csr", k=3, dtype=np.float64, seed=0):
    """Rows with D columns, of which six have entries, and these columns alone."""
    X, y = random_problem(seed, n=90, d=7, k=k)
    at = np.array([3, 4, 1000, 1001, 9999, D - 2, D - 1])
    rows = X.tocoo()
    wide = sparse.coo_array((rows.data, (rows.row, at[rows.col])), shape=(90, D))
    return wide.asformat(layout).astype(dtype), X.asformat(layout).astype(dtype), at, y


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize(
    ("solver", "loss", "penalty"),
    [
        ("auto", "squared_hinge", "l2"), ("dual_cd", "hinge", "l2"), ("lbfgs", "softmax", "l2"),
        ("newton", "logistic", "l2"), ("block_cd", "squared_hinge", "l1"), ("sparsa", "logistic", "l1/l2"),
    ],
)  # fmt: skip
def test_the_same_model_as_without_the_empty_columns(layout, solver, loss, penalty):
    wide, narrow, at, y = wide_and_narrow(layout)
    seen = []
    models = [
        LinearClassifier(loss, penalty, alpha=1e-2, solver=solver, tol=1e-8, callbacks=[seen.append]).fit(X, y)
        for X in (narrow, wide)
    ]
    few, many = models
    assert many.certificate_.value <= 1e-8
    assert many.certificate_.primal == pytest.approx(few.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(many.coef_[:, at], few.coef_, atol=1e-4)
    empty = np.setdiff1d(np.arange(D), at)
    assert not many.coef_[:, empty].any()
    assert seen[-1].weights.shape == (D, 3)
    np.testing.assert_array_equal(seen[-1].weights[at].astype(bool), many.coef_.T[at].astype(bool))


def test_rows_are_neither_changed_nor_copied():
    wide, _, at, y = wide_and_narrow()
    before = wide.copy()
    objective = objective_on(wide, y, "logistic", "l2", alpha=0.1)
    inside = narrowed(objective).inside
    assert inside.engine.shape == (90, 6)  # one of the seven is empty
    assert np.shares_memory(inside.engine.X.layout.data, wide.data)
    np.testing.assert_array_equal(narrowed(objective).used, np.delete(at, 1))
    assert narrowed(objective).inside.engine.X is inside.engine.X  # made once
    assert (wide != before).nnz == 0


def test_part_of_a_larger_matrix():
    """The entries of a range of rows do not begin at the first stored entry."""
    wide, narrow, at, y = wide_and_narrow()
    objective = objective_on(wide, y, "logistic", "l2", alpha=0.1)
    from lineal.problem.used_columns import _copy

    used, X = _copy(objective.engine.X.rows(40, 90))
    part = narrow.toarray()[40:]
    dense = sparse.csr_array((X.layout.data, X.layout.indices, X.layout.indptr), shape=X.shape).toarray()
    np.testing.assert_array_equal(dense, part[:, np.isin(at, used)])


def test_warm_starts():
    wide, _, _, y = wide_and_narrow()
    model = LinearClassifier("softmax", solver="lbfgs", alpha=1e-3, tol=1e-8, warm_start=True).fit(wide, y)
    first = model.n_iter_
    assert model.fit(wide, y).n_iter_ < first / 2


def test_penalty_factors_belong_to_their_columns():
    wide, narrow, at, y = wide_and_narrow(k=2)
    factors = np.ones(D)
    factors[at] = [1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.1]
    options = {"loss": "logistic", "alpha": 1e-2, "tol": 1e-9}
    many = LinearClassifier(**options, penalty_factors=factors).fit(wide, y)
    few = LinearClassifier(**options, penalty_factors=factors[at]).fit(narrow, y)
    np.testing.assert_allclose(many.coef_[:, at], few.coef_, atol=1e-4)


def test_what_keeps_all_its_columns():
    wide, narrow, _, y = wide_and_narrow()
    assert narrowed(objective_on(narrow, y, "logistic", "l2", alpha=0.1)) is None  # few columns
    assert narrowed(objective_on(narrow.toarray(), y, "logistic", "l2", alpha=0.1)) is None
    groups = [list(range(D // 2)), list(range(D // 2, D))]
    assert narrowed(objective_on(wide, y, "softmax", "l1/l2", alpha=0.1, groups=groups)) is None
    full = sparse.csr_array(np.random.default_rng(0).normal(size=(6, D)))
    assert narrowed(objective_on(full, np.arange(6) % 3, "logistic", "l2", alpha=0.1)) is None
    nothing = sparse.csr_array((9, D))
    assert narrowed(objective_on(nothing, np.arange(9) % 3, "logistic", "l2", alpha=0.1)) is None
