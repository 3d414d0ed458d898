"""The algorithms of the paper on block coordinate descent: the same minima, its stopping rules, threads, shrinking."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import random_problem
from objectives import objective_on, text_like
from scipy import sparse

from lineal.core import threads as threads_module
from lineal.solvers.block_cd import block_cd
from lineal.solvers.block_cd.paper import sweeps

slow = pytest.mark.slow


def rows_of(X):
    """Sparse rows, for which kernels are compiled anyway."""
    return X if sparse.issparse(X) else sparse.csr_array(X)


def dense_problem(seed, n, d, k):
    X, y = random_problem(seed, n, d, k)
    return X.toarray(), y


PAPERS: list[dict] = [
    {"method": "cyclic"},
    {"method": "cyclic", "shrinking": True},
    {"method": "cyclic", "step": "constant"},
    {"method": "random"},
    {"method": "random", "constant": "paper"},
    {"method": "random", "step": "line_search"},
    {"method": "parallel"},
]


@pytest.mark.parametrize("options", PAPERS, ids=lambda options: "-".join(map(str, options.values())))
def test_the_papers_methods_find_the_same_minimum(options):
    X, y = text_like(20, n=120, d=60, k=4)
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.2)
    wanted = block_cd.solve(objective, tol=1e-9, max_iter=3000)
    found = block_cd.solve(objective, tol=1e-6, max_iter=20_000, n_jobs=2, **options)
    assert found.status == "converged"
    assert found.certificate.value <= 1e-6
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-6)
    again = block_cd.solve(objective, tol=1e-6, max_iter=20_000, n_jobs=1, **options)
    np.testing.assert_array_equal(again.weights, found.weights)  # by the seed, whatever the threads


@slow
@pytest.mark.parametrize("method", ["cyclic", "parallel"])
def test_the_papers_methods_with_groups_and_dense_columns(method):
    X, y = dense_problem(21, n=60, d=9, k=3)
    objective = objective_on(X, y, "multiclass_squared_hinge", groups=[[0, 4, 8], [1, 2], [3, 5, 6, 7]], fraction=0.4)
    wanted = block_cd.solve(objective, tol=1e-9, max_iter=3000)
    found = block_cd.solve(objective, tol=1e-6, max_iter=50_000, method=method)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-6)


@pytest.mark.parametrize("rule", ["sum", "max"])
def test_the_papers_rules_end_by_violations(rule):
    X, y = text_like(22, n=150, d=100, k=4)
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.1, intercept=False)
    found = block_cd.solve(objective, tol=1e-3, max_iter=5000, method="cyclic", rule=rule)
    assert found.status == "converged"
    assert found.history[-2]["gap"] >= 1e-3 or len(found.history) == 2  # it ends with the first sweep that is below
    _, gradient = objective.loss_and_gradient(objective.theta_of(found))
    _, first = objective.loss_and_gradient(objective.start())
    measure = np.sum if rule == "sum" else np.max
    left = measure(objective.regulariser.violation(found.weights, gradient))
    start = measure(objective.regulariser.violation(np.zeros_like(found.weights), first))
    assert left <= 3e-3 * start


@pytest.mark.parametrize("rule", ["sum", "max"])
def test_the_papers_rules_end_soon_with_shrinking_and_with_empty_columns(rule):
    X, y = text_like(22, n=150, d=100, k=4)
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array((150, 3))]))
    objective = objective_on(X, y, "multiclass_squared_hinge", fraction=0.5)
    plain = block_cd.solve(objective, tol=1e-3, max_iter=5000, method="cyclic", rule=rule)
    shrunk = block_cd.solve(objective, tol=1e-3, max_iter=5000, method="cyclic", rule=rule, shrinking=True)
    assert shrunk.status == "converged"
    assert len(shrunk.history) <= 2 * len(plain.history)


@pytest.mark.parametrize("rule", ["sum", "max"])
def test_the_papers_rules_see_that_nothing_is_left_to_do(rule):
    X, _ = dense_problem(9, n=60, d=6, k=3)
    objective = objective_on(rows_of(X), np.arange(60) % 3, "multiclass_squared_hinge", fraction=1.0 + 1e-9)
    found = block_cd.solve(objective, tol=1e-3, method="cyclic", rule=rule)  # classes as large: no intercept, either
    assert (found.status, len(found.history)) == ("converged", 2)


@pytest.mark.parametrize("method", ["random", "parallel"])
def test_the_papers_rules_see_groups_that_were_not_drawn(method):
    """One column that tells the class among many that never move: most sweeps do not draw it."""
    y = np.arange(60) % 3
    X = 1e-3 * np.random.default_rng(27).normal(size=(60, 12))
    X[:, 5] = y - 1.0
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.5)
    for seed in range(4):
        found = block_cd.solve(objective, tol=1e-2, max_iter=2000, method=method, rule="max", seed=seed)
        assert found.status == "converged"
        assert found.certificate.value <= 0.05


def test_groups_at_once_do_not_count_empty_ones():
    """Dense columns beside many empty ones: all of them meet in every row."""
    rng = np.random.default_rng(26)
    X, y = np.abs(rng.normal(size=(60, 20))) + 1.0, rng.integers(0, 3, 60)
    X = sparse.csr_array(sparse.hstack([sparse.csr_array(X), sparse.csr_array((60, 400))]))
    objective = objective_on(X, y, "multiclass_squared_hinge", fraction=0.05)
    found = block_cd.solve(objective, tol=0.0, max_iter=60, method="parallel")
    values = [row["objective"] for row in found.history]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("n", "parts"), [(60, 1), (30_000, 2)])
def test_parallel_visits_use_threads_where_the_work_is_worth_it(n, parts, monkeypatch):
    """Rows with most of their entries allow two groups at once: what counts is their work, not their number."""
    X, y = dense_problem(27, n=n, d=6, k=4)
    objective, seen = objective_on(rows_of(X), y, "softmax", alpha=0.05), set()

    def run(tasks, threads):
        tasks = list(tasks)
        seen.add((len(tasks), threads))
        return threads_module.run(tasks, threads)

    monkeypatch.setattr(sweeps, "pool", SimpleNamespace(run=run, ranges=threads_module.ranges))
    found = [block_cd.solve(objective, tol=0.0, max_iter=5, method="parallel", n_jobs=jobs) for jobs in (1, 2)]
    assert seen >= {(parts, 1), (parts, 2)}
    assert max(count for count, _ in seen) == parts
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    assert found[0].history[-1]["gap"] == found[1].history[-1]["gap"]


def test_shrinking_skips_groups_and_changes_no_solution():
    X, y = text_like(23, n=150, d=200, k=4)
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.5)
    whole = block_cd.solve(objective, tol=1e-7, max_iter=5000, method="cyclic")
    shrunk = block_cd.solve(objective, tol=1e-7, max_iter=5000, method="cyclic", shrinking=True)
    np.testing.assert_allclose(shrunk.weights, whole.weights, atol=1e-4)
