"""Coordinate descent over features: certified optimality, agreement with independent solvers, invariances, edges."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import numpy as np
import pytest
import twin
from conftest import random_problem
from scipy import optimize, sparse
from served_rows import ServedRows
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from lineal import losses, penalties
from lineal.design import wrap
from lineal.design.orders import by_columns
from lineal.engine.local import LocalEngine
from lineal.errors import DataError, OptionError
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import encode
from lineal.solvers.block_cd import block_cd
from lineal.solvers.lbfgs import lbfgs

LOSSES = ["logistic", "squared_hinge", "squared"]
PENALTIES = [("l1", {}), ("elastic_net", {"l1_ratio": 0.5}), ("l2", {})]


def problem(X, y, loss, penalty="l1", alpha=1e-2, *, s=None, o=None, intercept=True, threads=1, ratio=None, **options):
    """An objective for labels or an indicator matrix y."""
    design = wrap(X)
    n, d = design.shape
    s = np.ones(n) if s is None else s
    encoded = encode(y, direct=False)
    parameters = {} if ratio is None else {"l1_ratio": ratio}
    engine = LocalEngine(design, encoded.targets, s / s.sum(), encoded.n_columns, o, threads)
    regulariser = Regulariser(penalties.get(penalty, **parameters), alpha, d, **options)
    return Objective(engine, losses.get(loss), regulariser, intercept)


def text_like(seed, n=300, d=400, k=4):
    """Sparse rows with frequent and rare columns."""
    rng = np.random.default_rng(seed)
    frequency = 0.5 / (1 + np.arange(d)) ** 0.7
    X = np.abs(rng.normal(size=(n, d))) * (rng.random((n, d)) < frequency)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    y = np.argmax(X @ rng.normal(size=(d, k)) + 0.05 * rng.normal(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return sparse.csr_array(X), y


def slow_minimum(X, Y, loss, l1, l2, s, o, intercept):
    """min F by a bound-constrained quasi-Newton method over w = p − q with p, q ≥ 0, column by column."""
    X = X.toarray() if sparse.issparse(X) else X
    d, total = X.shape[1], 0.0
    for r in range(Y.shape[1]):
        y, base = Y[:, [r]], o[:, [r]]

        def value(x, y=y, base=base):
            p, q, b = x[:d], x[d : 2 * d], x[2 * d :]
            w = p - q
            Z = (X @ w + (b[0] if intercept else 0.0))[:, None] + base
            U = s[:, None] * twin.gradients(loss, y, Z)
            g = X.T @ U[:, 0] + l2 * w
            f = s @ twin.losses(loss, y, Z) + l1 @ (p + q) + 0.5 * (l2 * w) @ w
            return f, np.concatenate([g + l1, -g + l1, [U.sum()] if intercept else []])

        bounds = [(0, None)] * (2 * d) + [(None, None)] * intercept
        x = np.zeros(2 * d + intercept)
        for _ in range(3):
            found = optimize.minimize(
                value, x, jac=True, method="L-BFGS-B", bounds=bounds,
                options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30},
            )  # fmt: skip
            x = found.x
        total += found.fun
    return total


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("penalty", "parameters"), PENALTIES)
@pytest.mark.parametrize("intercept", [True, False])
def test_reaches_the_minimum_of_a_slow_twin(loss, penalty, parameters, intercept):
    X, y = random_problem(1, n=60, d=9)
    rng = np.random.default_rng(2)
    s, o = rng.random(60) + 0.1, rng.normal(size=(60, 3))
    factors = rng.random(9) + 0.5
    objective = problem(
        X, y, loss, penalty, 0.03, s=s, o=o, intercept=intercept, factors=factors, ratio=parameters.get("l1_ratio")
    )
    solution = block_cd.solve(objective, tol=1e-9)
    assert solution.status == "converged", solution.message
    assert solution.certificate.kind == "gap"
    share = {"l1": 1.0, "l2": 0.0}.get(penalty, 0.5)
    l1, l2 = 0.03 * factors * share, 0.03 * factors * (1 - share)
    best = slow_minimum(X, twin.indicator(y, 3), loss, l1, l2, s / s.sum(), o, intercept)
    assert solution.certificate.primal == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_never_rises_and_the_history_is_complete(loss):
    X, y = text_like(3)
    solution = block_cd.solve(problem(X, y, loss, alpha=1e-3), tol=1e-7)
    assert solution.status == "converged"
    values = [row["objective"] for row in solution.history]
    assert all(after <= before * (1 + 1e-13) for before, after in itertools.pairwise(values))
    assert [row["iteration"] for row in solution.history] == list(range(len(values)))
    assert values[-1] == pytest.approx(solution.certificate.primal, rel=1e-10)
    assert solution.history[-1]["gap"] == solution.certificate.value


def test_agrees_with_scikit_learn_on_l1_logistic():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    solution = block_cd.solve(problem(X, y, "logistic", alpha=1e-2), tol=1e-10)
    peer = LogisticRegression(C=1 / (1e-2 * len(y)), l1_ratio=1.0, solver="saga", tol=1e-9, max_iter=100_000)
    peer.fit(X, y)
    np.testing.assert_allclose(solution.weights.T, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(solution.intercept, peer.intercept_, atol=1e-4)
    np.testing.assert_array_equal(solution.weights.T != 0, np.abs(peer.coef_) > 1e-6)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_agrees_with_scikit_learn_on_the_squared_hinge(penalty):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    n = len(y)
    solution = block_cd.solve(problem(X, y, "squared_hinge", penalty, 1e-2, intercept=False), tol=1e-10)
    C = 1 / (1e-2 * n)
    peer = LinearSVC(C=C, penalty=penalty, dual=False, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(solution.weights.T, peer.coef_, atol=1e-4)
    loss = twin.losses("squared_hinge", (y == 1)[:, None], X @ peer.coef_.T).mean()
    size = np.abs(peer.coef_).sum() if penalty == "l1" else 0.5 * (peer.coef_**2).sum()
    assert solution.certificate.primal == pytest.approx(loss + 1e-2 * size, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_l2_agrees_with_lbfgs_also_around_a_centre(loss):
    X, y = random_problem(4, n=80, d=9)
    centre = np.random.default_rng(0).normal(size=(9, 3))
    for options in ({}, {"centre": centre}):
        objective = problem(X, y, loss, "l2", 1e-2, **options)
        found, other = block_cd.solve(objective, tol=1e-11), lbfgs.solve(objective, tol=1e-11)
        assert found.status == "converged"
        assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-9)
        np.testing.assert_allclose(found.weights, other.weights, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_alpha_gives_exactly_zero_and_the_best_intercept(loss):
    X, y = text_like(5)
    s, o = np.random.default_rng(0).random(300), np.random.default_rng(1).normal(size=(300, 4))
    for weights, offsets in ((None, None), (s, o)):
        objective = problem(X, y, loss, alpha=1.0, s=weights, o=offsets)
        empty = block_cd.solve(objective, tol=1e-10)
        assert empty.status == "converged"
        assert not empty.weights.any()
        _, gradient = objective.loss_and_gradient(np.vstack([empty.weights, empty.intercept[None]]))
        np.testing.assert_allclose(gradient[-1], 0.0, atol=1e-9)
        critical = objective.regulariser.critical_alpha(gradient[:-1])
        above = replace(objective, regulariser=objective.regulariser.with_alpha(critical * 1.001))
        below = replace(objective, regulariser=objective.regulariser.with_alpha(critical * 0.99))
        assert not block_cd.solve(above, tol=1e-8).weights.any()
        assert block_cd.solve(below, tol=1e-8).weights.any()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_zeros_are_exact_and_every_column_is_optimal(loss):
    X, y = text_like(6)
    objective = problem(X, y, loss, alpha=2e-3)
    solution = block_cd.solve(objective, tol=1e-9)
    assert 0.001 < np.mean(solution.weights != 0) < 0.5
    theta = np.vstack([solution.weights, solution.intercept[None]])
    _, gradient = objective.loss_and_gradient(theta)
    assert objective.regulariser.violation(solution.weights, gradient[:-1]).max() < 1e-4 * 2e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_all_layouts_and_threads_give_the_same_model(loss):
    X, y = text_like(7, n=120, d=60)
    kinds = [X, X.tocsc(), X.toarray(), np.asfortranarray(X.toarray())]
    found = [block_cd.solve(problem(kind, y, loss, alpha=2e-3), tol=1e-10).weights for kind in kinds]
    for weights in found[1:]:
        np.testing.assert_allclose(weights, found[0], atol=1e-5)
    threaded = block_cd.solve(problem(X, y, loss, alpha=2e-3, threads=2), tol=1e-10, n_jobs=2, seed=5).weights
    np.testing.assert_array_equal(threaded, found[0])


@pytest.mark.parametrize("loss", [LOSSES[0], *(pytest.param(loss, marks=pytest.mark.slow) for loss in LOSSES[1:])])
def test_float32_stays_float32_and_is_nearly_as_good(loss):
    X, y = text_like(8)
    solution = block_cd.solve(problem(X.astype(np.float32), y, loss, alpha=1e-3), tol=1e-4)
    assert solution.weights.dtype == np.float32
    assert solution.status == "converged", solution.message
    exact = block_cd.solve(problem(X, y, loss, alpha=1e-3), tol=1e-9)
    assert solution.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_doubled_rows_are_doubled_weights(loss):
    X, y = text_like(9, n=100, d=50)
    s = np.ones(100)
    s[10:30] = 2.0
    rows = np.concatenate([np.arange(100), np.arange(10, 30)])
    weighted = block_cd.solve(problem(X, y, loss, alpha=2e-3, s=s), tol=1e-11)
    doubled = block_cd.solve(problem(X[rows], y[rows], loss, alpha=2e-3), tol=1e-11)
    np.testing.assert_allclose(weighted.weights, doubled.weights, atol=1e-5)


def test_permuting_the_classes_permutes_the_model():
    X, y = text_like(10)
    order = np.array([2, 0, 3, 1])
    base = block_cd.solve(problem(X, y, "logistic", alpha=2e-3), tol=1e-10)
    permuted = block_cd.solve(problem(X, order[y], "logistic", alpha=2e-3), tol=1e-10)
    np.testing.assert_allclose(permuted.weights[:, order], base.weights, atol=1e-6)


def test_label_sets_are_separate_problems():
    X, _ = text_like(11)
    rng = np.random.default_rng(0)
    Y = (X @ rng.normal(size=(400, 3)) > 0.3).astype(int)
    Y[:, 1] = rng.random(300) < 0.2
    for column in range(3):
        Y[:2, column] = (0, 1)
    many = block_cd.solve(problem(X, sparse.csr_array(Y), "logistic", alpha=2e-3), tol=1e-10)
    for column in range(3):
        one = block_cd.solve(problem(X, Y[:, column], "logistic", alpha=2e-3), tol=1e-10)
        np.testing.assert_allclose(many.weights[:, [column]], one.weights, atol=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_labels_that_no_or_all_rows_have(loss):
    X, _ = random_problem(17, n=40)
    Y = np.zeros((40, 3), dtype=int)
    Y[:20, 0] = 1
    Y[:, 2] = 1
    solution = block_cd.solve(problem(X, sparse.csr_array(Y), loss, alpha=1e-2), tol=1e-5)
    assert solution.status == "converged", solution.message


def test_a_warm_start_from_the_answer_is_over_at_once():
    objective = problem(*text_like(12), "logistic", alpha=2e-3)
    first = block_cd.solve(objective, tol=1e-6)
    again = block_cd.solve(objective, tol=1e-6, start=first)
    assert len(again.history) == 1
    np.testing.assert_array_equal(again.weights, first.weights)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_warm_path_needs_fewer_iterations_than_cold_starts(loss):
    X, y = text_like(13)
    base = problem(X, y, loss)
    _, gradient = base.loss_and_gradient(base.start())
    top = base.regulariser.critical_alpha(gradient[:-1])
    warm = cold = 0
    last = None
    for alpha in top * np.geomspace(1.0, 0.02, 15):
        objective = replace(base, regulariser=base.regulariser.with_alpha(alpha))
        last = block_cd.solve(objective, tol=1e-5, start=last)
        fresh = block_cd.solve(objective, tol=1e-5)
        assert last.status == fresh.status == "converged"
        assert last.certificate.primal == pytest.approx(fresh.certificate.primal, rel=1e-5)
        warm, cold = warm + len(last.history), cold + len(fresh.history)
    assert warm < cold


@pytest.mark.parametrize("loss", LOSSES)
def test_free_features_and_no_penalty_end_with_a_violation(loss):
    X, y = random_problem(14, n=200, k=2)
    factors = np.array([0.0, 1, 1, 0, 1, 1, 1])
    free = block_cd.solve(problem(X, y, loss, alpha=0.02, factors=factors), tol=1e-6)
    assert (free.status, free.certificate.kind) == ("converged", "violation")
    assert free.weights[0, 0] != 0
    none = problem(X, y, loss, "l2", 0.0)
    found, other = block_cd.solve(none, tol=1e-7), lbfgs.solve(none, tol=1e-8)
    assert found.status == "converged", found.message
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-8)


@pytest.mark.slow
def test_separable_data_without_penalty_stops():
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    solution = block_cd.solve(problem(X, y, "logistic", alpha=0.0), tol=1e-9, max_iter=200)
    assert np.isfinite(solution.weights).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_columns_of_all_scales_and_far_from_zero(loss):
    X, y = random_problem(15, n=120)
    X = X.toarray()
    near = block_cd.solve(problem(X, y, loss, "l1", 1e-4), tol=1e-7)
    X[:, 5] += 4096.0
    far = block_cd.solve(problem(X, y, loss, "l1", 1e-4), tol=1e-6)
    assert far.status == "converged", far.message
    assert far.certificate.primal == pytest.approx(near.certificate.primal, rel=3e-6)
    X[:, 3] *= 1e6
    X[:, 6] *= 1e-6
    scaled = block_cd.solve(problem(X, y, loss, "l1", 1e-4), tol=1e-6)
    assert scaled.status == "converged", scaled.message


@pytest.mark.parametrize("loss", LOSSES)
def test_more_columns_than_rows_and_one_row_a_class(loss):
    X = np.random.default_rng(0).normal(size=(4, 50))
    solution = block_cd.solve(problem(X, np.arange(4), loss, alpha=1e-2), tol=1e-7)
    assert solution.status == "converged", solution.message
    np.testing.assert_array_equal(np.argmax(X @ solution.weights + solution.intercept, axis=1), np.arange(4))


def test_weights_on_empty_and_constant_columns_go_to_zero():
    X, y = random_problem(16)
    start = np.ones((8, 3))
    solution = block_cd.solve(problem(X, y, "logistic", alpha=1e-2), tol=1e-8, start=start)
    assert solution.status == "converged", solution.message
    assert not solution.weights[1:3].any()


def test_endings():
    objective = problem(*text_like(18), "logistic", alpha=1e-3)
    assert block_cd.solve(objective, tol=1e-13, max_time=1e-9).status == "max_time"
    short = block_cd.solve(objective, tol=1e-13, max_iter=2)
    assert (short.status, len(short.history)) == ("max_iter", 3)
    stopped = block_cd.solve(objective, tol=1e-13, callbacks=[lambda snapshot: snapshot.iteration == 1])
    assert (stopped.status, len(stopped.history)) == ("stopped", 2)

    def interrupt(snapshot):
        if snapshot.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    assert block_cd.solve(objective, tol=1e-13, callbacks=[interrupt]).status == "interrupted"
    assert block_cd.solve(objective, tol=1e-15, max_iter=300).status in ("stalled", "converged")


def test_what_it_cannot_honour_is_refused_by_name():
    X, y = random_problem(0)
    with pytest.raises(OptionError, match=r"'hinge'.*'squared_hinge'"):
        block_cd.solve(problem(X, y, "hinge"))
    objective = problem(X, y, "logistic")
    elsewhere = replace(objective, engine=ServedRows(objective.engine, (60,)))
    with pytest.raises(OptionError, match="ServedRows holds them elsewhere: use solver='sparsa' or 'fista'"):
        block_cd.solve(elsewhere)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_overflowing_data_is_refused():
    objective = problem(np.full((4, 2), 1e300), np.array([0, 1, 0, 1]), "squared")
    with pytest.raises(DataError, match="scale the features"):
        block_cd.solve(objective, start=np.full((3, 1), 1e300))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_columns_of_a_matrix_of_rows(threads):
    X, _ = text_like(19, n=200, d=20)
    for matrix in (X, sparse.csr_array((3, 4))):
        layout = by_columns(wrap(matrix), threads).layout
        other = matrix.tocsc()
        np.testing.assert_array_equal(layout.indptr, other.indptr)
        np.testing.assert_array_equal(layout.indices, other.indices)
        np.testing.assert_array_equal(layout.data, other.data)
