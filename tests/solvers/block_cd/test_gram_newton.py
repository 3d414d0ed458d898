"""Proximal Newton steps by a small Hessian: certified optima, the same without it, its model, edges."""

from __future__ import annotations

import numpy as np
import pytest
from objectives import objective_on
from scipy import sparse

from lineal import penalties
from lineal.penalties.groups import parse_groups
from lineal.solvers.block_cd import block_cd, gram_newton, weight_groups
from lineal.solvers.block_cd.gram_newton import GramNewton, QuadraticModel, minimise

slow = pytest.mark.slow

GROUPS = [[0, 4, 8], [1, 2], [3, 5, 6, 7], [9], [10, 11]]


def two_classes(seed, n=150, d=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[:, 1] += 40.0  # tied to the intercept
    return sparse.csr_array(X), (X[:, 0] + X[:, 4] - X[:, 9] + rng.normal(size=n) > 0.0).astype(int)


@pytest.fixture
def steps(monkeypatch):
    """Numbers of features of the working sets that were improved by their Hessian."""
    seen = []

    def counting(objective, features, *rest):
        seen.append(len(features))
        return GramNewton(objective, features, *rest)

    monkeypatch.setattr(weight_groups, "GramNewton", counting)
    return seen


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        ("logistic", "l1/l2"),
        pytest.param("squared_hinge", "l1/l2", marks=slow),
        pytest.param("logistic", "l1/linf", marks=slow),
        pytest.param("logistic", "sparse_group", marks=slow),
    ],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_groups_are_optimal_with_and_without_the_hessian(loss, penalty, intercept, steps, monkeypatch):
    X, y = two_classes(1)
    weights = np.random.default_rng(2).integers(1, 4, len(y))
    objective = objective_on(X, y, loss, penalty, fraction=0.15, weights=weights, groups=GROUPS, intercept=intercept)
    found = block_cd.solve(objective, tol=1e-10, max_iter=200)
    assert found.status == "converged"
    assert found.certificate.value <= 1e-10
    assert steps
    is_used = [bool(found.weights[group].any()) for group in GROUPS]
    assert 0 < sum(is_used) < len(GROUPS)
    monkeypatch.setattr(weight_groups, "is_worthwhile", lambda *given: False)
    plain = block_cd.solve(objective, tol=1e-8, max_iter=3000)
    assert found.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-8)
    np.testing.assert_allclose(found.weights, plain.weights, atol=1e-3)


@slow
def test_layouts_precisions_and_threads_agree(steps):
    X, y = two_classes(3)
    wanted = block_cd.solve(objective_on(X, y, "logistic", fraction=0.1, groups=GROUPS), tol=1e-9)
    for other, threads in [(X.tocsc(), 1), (X, 2), (X.toarray(), 2)]:
        found = block_cd.solve(
            objective_on(other, y, "logistic", fraction=0.1, groups=GROUPS), tol=1e-9, n_jobs=threads
        )
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-4)
    narrow = block_cd.solve(objective_on(X.astype(np.float32), y, "logistic", fraction=0.1, groups=GROUPS), tol=1e-4)
    assert narrow.status == "converged"
    assert narrow.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-4)
    assert steps


def test_more_features_than_rows_and_columns_without_anything(steps):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(14, 40))
    X[:, 5:8], X[:, 8], X[:, 9] = 0.0, 7.0, X[:, 10]
    groups = np.repeat(np.arange(10), 4)
    objective = objective_on(sparse.csr_array(X), rng.integers(0, 2, 14), "logistic", fraction=1e-3, groups=groups)
    found = block_cd.solve(objective, tol=1e-7, max_iter=500)
    assert found.status == "converged"
    assert steps


def test_the_model_is_minimised():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(30, 12))
    H, start, w = A.T @ A / 30, rng.normal(size=12), np.zeros(12)
    model = QuadraticModel(H, start.copy(), w)
    first = minimise(penalties.get("l1/l2"), parse_groups(GROUPS, 12), np.full(5, 0.4), model, 1e-9, 1000)
    gradient = model.gradient
    np.testing.assert_allclose(gradient, start + H @ w, atol=1e-12)
    assert first >= np.linalg.norm(start[GROUPS[0]]) - 0.4
    for group in GROUPS:
        if w[group].any():
            np.testing.assert_allclose(gradient[group], -0.4 * w[group] / np.linalg.norm(w[group]), atol=1e-7)
        else:
            assert np.linalg.norm(gradient[group]) <= 0.4 + 1e-7


@pytest.mark.parametrize(
    ("features", "entries", "is_worth_it"),
    [(10, 500, True), (0, 0, False), (2000, 500, False), (900, 150 * 100, False), (100, 150 * 100, True)],
)
def test_what_is_worth_a_matrix(features, entries, is_worth_it):
    X, y = two_classes(6)  # 150 rows
    assert gram_newton.is_worthwhile(objective_on(X, y, "logistic", alpha=0.1), features, entries) == is_worth_it
