"""Truncated Newton: certified optimality, agreement with other solvers, rates, invariances, edges, endings."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_problem
from objectives import best_objective, build, objective_on
from scipy import sparse
from served_rows import ServedRows
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression

from lineal import losses, penalties
from lineal.errors import OptionError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.numerics import score_rows
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.solvers.lbfgs import lbfgs
from lineal.solvers.newton import newton, small_hessian

SMOOTH = [name for name in losses.names() if losses.get(name).is_smooth]
SEPARATE = [name for name in SMOOTH if not losses.get(name).is_direct]
WAYS = ["line_search", "trust_region"]


def train(X, y, sample_weight=None, offsets=None, callbacks=(), start=None, **options):
    return fit(
        X, y, TrainOptions(**{"tol": 1e-9, "solver": "newton", **options}), sample_weight=sample_weight,
        offsets=offsets, callbacks=callbacks, start=start,
    )  # fmt: skip


@pytest.fixture
def without_small_hessians(monkeypatch):
    monkeypatch.setattr(newton, "is_worthwhile", lambda rows: False)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("alpha", [1.0, 1e-4])
def test_reaches_the_minimum_of_an_independent_solver(name, alpha, way):
    objective, facts = build(name, 1, alpha=alpha, offset=True)
    solution = newton.solve(objective, tol=1e-9, globalisation=way)
    assert solution.status == "converged"
    assert solution.certificate.value <= 1e-9
    assert solution.certificate.primal == pytest.approx(best_objective(objective, facts), rel=1e-8)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", SEPARATE)
def test_products_with_the_hessian_lead_where_its_factors_lead(name, fit_intercept, way, without_small_hessians):
    objective, _ = build(name, 2, n=80, alpha=1e-3, fit_intercept=fit_intercept)
    found = newton.solve(objective, tol=1e-11, globalisation=way)
    peer = lbfgs.solve(objective, tol=1e-11)
    assert found.status == "converged"
    np.testing.assert_allclose(found.weights, peer.weights, atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_rows_that_are_not_kept_lead_to_the_same_answer(name, monkeypatch):
    objective, _ = build(name, 3, alpha=1e-2, offset=True)
    kept = newton.solve(objective, tol=1e-10)
    monkeypatch.setattr(score_rows, "KEPT_BYTES", 0)
    passed = newton.solve(objective, tol=1e-10)
    blocks = Objective(ServedRows(objective.engine, (1, 25, 14)), objective.loss, objective.regulariser)
    elsewhere = newton.solve(blocks, tol=1e-10)
    for other in (passed, elsewhere):
        assert other.status == "converged"
        np.testing.assert_allclose(other.weights, kept.weights, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_centre_and_factors_with_zeros(name):
    objective, _ = build(name, 4, alpha=0.1)
    d, k = objective.engine.shape[1], objective.engine.n_columns
    factors = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 0.5, 3.0])
    centre = np.random.default_rng(0).normal(size=(d, k))
    for given in ({"centre": centre}, {"factors": factors}, {"centre": centre, "factors": factors}):
        changed = replace(objective, regulariser=Regulariser(penalties.get("l2"), 0.1, d, **given))
        found, peer = newton.solve(changed, tol=1e-8), lbfgs.solve(changed, tol=1e-8)
        assert found.status == "converged"
        assert found.certificate.primal == pytest.approx(peer.certificate.primal, rel=1e-8)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("small", [True, False])
def test_ends_with_superlinear_steps(name, small, monkeypatch):
    if not small:
        monkeypatch.setattr(newton, "is_worthwhile", lambda rows: False)
    objective, _ = build(name, 5, n=200, alpha=1e-3)
    norms = []

    def watch(snapshot):
        theta = np.vstack([snapshot.weights, snapshot.intercept])
        norms.append(np.linalg.norm(objective.value_and_gradient(theta)[1]))

    newton.solve(objective, tol=1e-16, max_iter=12, callbacks=[watch])
    steps = [(before, after) for before, after in itertools.pairwise(norms) if 1e-7 < before < 2e-2]
    assert len(steps) >= 3
    assert all(after <= 10.0 * before**1.5 for before, after in steps)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_objective_never_rises_and_the_history_is_complete(name):
    objective, _ = build(name, 2, alpha=1e-3)
    solution = newton.solve(objective, tol=1e-7)
    values = [row["objective"] for row in solution.history]
    assert all(after <= before * (1 + 1e-13) for before, after in itertools.pairwise(values))
    assert [row["iteration"] for row in solution.history] == list(range(len(values)))
    assert solution.history[-1]["gap"] == solution.certificate.value
    assert values[-1] == pytest.approx(solution.certificate.primal, rel=1e-12)


def test_agrees_with_scikit_learn_softmax():
    X, y = load_digits(return_X_y=True)
    X, alpha = X / 16, 1e-3
    model, solution = train(X, y, loss="softmax", alpha=alpha, tol=1e-11)
    peer = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=10_000, solver="newton-cg").fit(X, y)
    assert solution.status == "converged"
    np.testing.assert_allclose(model.weights.T, peer.coef_, atol=1e-4)


def test_agrees_with_scikit_learn_binary_logistic():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    model, _ = train(X, y, loss="logistic", alpha=1e-2, tol=1e-12)
    peer = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.weights.T, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept, peer.intercept_, atol=1e-5)


@pytest.mark.parametrize(("name", "number"), [("squared_hinge", 2), ("logistic", 0)])
def test_agrees_with_liblinear(name, number):
    pytest.importorskip("liblinear")
    from liblinear.liblinearutil import parameter, problem
    from liblinear.liblinearutil import train as peer_train

    X, y = random_problem(21, n=300, d=12, k=2)
    model, _ = train(X, y, loss=name, alpha=1 / 300, fit_intercept=False, tol=1e-12)
    peer = peer_train(problem(np.where(y == 1, 1.0, -1.0), X.toarray()), parameter(f"-s {number} -e 1e-10 -c 1 -q"))
    sign = 1.0 if peer.get_labels()[0] == 1 else -1.0
    np.testing.assert_allclose(model.weights[:, 0], [sign * peer.w[j] for j in range(12)], atol=1e-4)


@pytest.mark.parametrize("name", ["squared_hinge", "softmax"])
@pytest.mark.parametrize("k", [2, 4])
def test_all_layouts_give_the_same_model(name, k):
    X, y = random_problem(5, n=80, d=9, k=k)
    kinds = (X.toarray(), np.asfortranarray(X.toarray()), X, X.tocsc())
    found = [train(kind, y, loss=name, alpha=1e-2, tol=1e-11)[0] for kind in kinds]
    for model in found[1:]:
        np.testing.assert_allclose(model.weights, found[0].weights, atol=1e-5)
        np.testing.assert_allclose(model.intercept, found[0].intercept, atol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "multiclass_squared_hinge"])
@pytest.mark.parametrize("small", [True, False])
def test_float32_stays_float32_and_is_nearly_as_good(name, small, monkeypatch):
    if not small:
        monkeypatch.setattr(newton, "is_worthwhile", lambda rows: False)
    X, y = random_problem(6, n=100)
    model, solution = train(X.astype(np.float32), y, loss=name, alpha=1e-2, tol=1e-5)
    assert model.weights.dtype == np.float32
    assert solution.status == "converged"
    reference, _ = train(X, y, loss=name, alpha=1e-2, tol=1e-10)
    assert solution.certificate.primal == pytest.approx(reference.certificate.primal, rel=2e-5)
    _, beyond = train(X.astype(np.float32), y, loss=name, alpha=1e-2, tol=1e-15, max_iter=100)
    assert beyond.status == "stalled"


@pytest.mark.parametrize("name", SMOOTH)
def test_doubled_rows_are_doubled_weights_and_classes_permute(name):
    X, y = random_problem(7, n=60, k=4)
    weights = np.ones(60)
    weights[10:30] = 2.0
    rows = np.concatenate([np.arange(60), np.arange(10, 30)])
    order = np.array([2, 0, 3, 1])
    weighted, _ = train(X, y, sample_weight=weights, loss=name, alpha=1e-2, tol=1e-13)
    doubled, _ = train(X[rows], y[rows], loss=name, alpha=1e-2, tol=1e-13)
    permuted, _ = train(X, order[y], sample_weight=weights, loss=name, alpha=1e-2, tol=1e-13)
    np.testing.assert_allclose(weighted.weights, doubled.weights, atol=1e-5)
    np.testing.assert_allclose(permuted.weights[:, order], weighted.weights, atol=1e-5)


@pytest.mark.parametrize("name", ["squared_hinge", "softmax"])
def test_runs_repeat_and_thread_counts_agree(name):
    X, y = random_problem(9, n=9000, d=40)
    first, again, threaded = (train(X, y, loss=name, tol=1e-6, n_jobs=jobs)[0] for jobs in (1, 1, 2))
    np.testing.assert_array_equal(first.weights, again.weights)
    np.testing.assert_allclose(first.weights, threaded.weights, atol=1e-8)


def test_two_threads_share_the_rows_of_one_column(monkeypatch):
    X, y = random_problem(9, n=12_000, d=40, k=2)
    for small in (True, False):
        monkeypatch.setattr(newton, "is_worthwhile", small_hessian.is_worthwhile if small else lambda rows: False)
        one, two = (train(X, y, loss="squared_hinge", tol=1e-9, n_jobs=jobs)[0] for jobs in (1, 2))
        np.testing.assert_allclose(one.weights, two.weights, atol=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_scales_and_means_far_from_one_are_no_obstacle(name):
    X, y = random_problem(10, n=80)
    X = X.toarray()
    X[:, 3] *= 1e5
    X[:, 5] *= 1e-5
    X[:, 6] += 4096.0
    _, solution = train(X, y, loss=name, alpha=1e-4, tol=1e-6)
    assert solution.status == "converged"
    _, sparse_solution = train(sparse.csr_array(X), y, loss=name, alpha=1e-4, tol=1e-6)
    assert sparse_solution.status == "converged"


@pytest.mark.parametrize("name", SMOOTH)
def test_more_columns_than_rows_and_one_row_a_class(name):
    X, y = np.random.default_rng(0).normal(size=(3, 50)), np.array([0, 1, 2])
    _, solution = train(X, y, loss=name, alpha=1e-2, tol=1e-7)
    assert solution.status == "converged"


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared_hinge"])
def test_no_penalty_ends_with_a_violation_certificate(name):
    X, y = random_problem(11, n=200, k=2)
    _, solution = train(X, y, loss=name, alpha=0.0, tol=1e-6)
    assert solution.certificate.kind == "violation"
    assert solution.status == "converged"


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_separable_data_without_penalty_stops(name):
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    _, solution = train(X, y, loss=name, alpha=0.0, tol=1e-30, max_iter=100)
    assert solution.status in ("converged", "max_iter", "stalled")
    assert np.isfinite(solution.weights).all()


def test_columns_that_are_done_leave_and_keep_their_answer():
    X, y = random_problem(22, n=300, d=12, k=2)
    Y = np.stack([y, np.zeros_like(y), np.ones_like(y), X.toarray()[:, 0] > 0.3], axis=1)
    _, solution = train(X, sparse.csr_array(Y), loss="logistic", alpha=1e-4, tol=1e-8)
    assert solution.status == "converged"
    alone, _ = train(X, y, loss="logistic", alpha=1e-4, tol=1e-10)
    np.testing.assert_allclose(solution.weights[:, 0], alone.weights[:, 0], atol=1e-2)


def test_warm_start_from_the_answer_is_over_at_once():
    X, y = random_problem(13, n=60)
    model, _ = train(X, y, loss="logistic", alpha=1e-2)
    _, again = train(X, y, loss="logistic", alpha=1e-2, start=model)
    assert len(again.history) == 1
    objective, _ = build("softmax", 1)
    first = newton.solve(objective, tol=1e-9)
    assert len(newton.solve(objective, tol=1e-8, start=first).history) == 1


def test_callbacks_limits_and_ctrl_c_end_a_run():
    X, y = random_problem(15)
    hard = {"loss": "softmax", "alpha": 1e-6, "tol": 1e-13}
    _, solution = train(X, y, callbacks=[lambda snapshot: snapshot.iteration == 2], **hard)
    assert (solution.status, len(solution.history)) == ("stopped", 3)
    _, solution = train(X, y, max_iter=2, **hard)
    assert (solution.status, len(solution.history)) == ("max_iter", 3)
    _, solution = train(X, y, max_time=1e-9, **hard)
    assert solution.status == "max_time"

    def interrupt(snapshot):
        if snapshot.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    _, solution = train(X, y, callbacks=[interrupt], **hard)
    assert (solution.status, len(solution.history)) == ("interrupted", 2)


def test_what_it_cannot_honour_is_refused_by_name():
    objective, _ = build("hinge")
    with pytest.raises(OptionError, match=r"smooth loss.*'hinge'.*'squared_hinge'"):
        newton.solve(objective)
    objective, _ = build("logistic")
    with pytest.raises(OptionError, match=r"'dogleg'.*'line_search', 'trust_region'"):
        newton.solve(objective, globalisation="dogleg")
    X, y = random_problem(0)
    with pytest.raises(OptionError, match=r"newton needs penalty 'l2'"):
        train(X, y, penalty="l1")


@pytest.mark.parametrize("seed", range(6))
def test_columns_that_were_left_too_early_come_back(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 10))
    y = np.argmax(X @ rng.standard_normal((10, 4)) * 0.3 + rng.standard_normal((200, 4)) + [0, 0, 1, 2], 1)
    model, solution = fit(X + 3.0, y, TrainOptions(loss="logistic", alpha=0.1, solver="newton"))
    assert solution.status == "converged"
    assert model.certificate.value <= 1e-3


def test_barely_penalised_direct_hinge_does_not_stall():
    X, y = np.random.default_rng(0).standard_normal((100, 30)), np.arange(100) % 5
    objective = objective_on(X, y, "multiclass_squared_hinge", "l2", 3e-5, intercept=False)
    assert newton.solve(objective, tol=1e-3).status == "converged"


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_an_intercept_without_curvature_does_not_run_away(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 4
    objective = objective_on(X, y, name, "l2", 1.0, centre=300.0 * rng.normal(size=(5, 4)))
    assert newton.solve(objective, tol=1e-4).status == "converged"
