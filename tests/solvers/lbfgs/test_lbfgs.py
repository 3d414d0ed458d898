"""L-BFGS: certified optimality for every smooth loss, agreement with other solvers, invariances, edges, endings."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import numpy as np
import pytest
import twin
from conftest import random_problem
from objectives import best_objective, build
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from lineal import losses
from lineal.errors import DataError, OptionError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.solvers.lbfgs import lbfgs

SMOOTH = [name for name in losses.names() if losses.get(name).is_smooth]


def train(X, y, sample_weight=None, offsets=None, callbacks=(), start=None, **options):
    return fit(
        X, y, TrainOptions(**{"tol": 1e-8, "solver": "lbfgs", **options}), sample_weight=sample_weight, offsets=offsets,
        callbacks=callbacks, start=start,
    )  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
def test_reaches_the_minimum_of_an_independent_solver(name, alpha):
    objective, facts = build(name, 1, alpha=alpha, offset=True)
    solution = lbfgs.solve(objective, tol=1e-9)
    assert solution.status == "converged"
    assert solution.certificate.kind == "gap"
    assert solution.certificate.value <= 1e-9
    assert solution.certificate.primal == pytest.approx(best_objective(objective, facts), rel=1e-8)
    primal, _, gap = twin.gap(W=solution.weights, b=solution.intercept, polish=True, **facts)
    assert primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert gap <= 1e-9 * (1 + 1e-3)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_objective_never_rises_and_the_history_is_complete(name):
    objective, _ = build(name, 2, alpha=1e-3)
    solution = lbfgs.solve(objective, tol=1e-7)
    values = [row["objective"] for row in solution.history]
    assert all(after <= before * (1 + 1e-14) for before, after in itertools.pairwise(values))
    assert [row["iteration"] for row in solution.history] == list(range(len(values)))
    assert set(solution.history[0]) == {"iteration", "seconds", "objective", "gap", "nonzero_rows", "solver"}
    assert solution.history[-1]["gap"] == solution.certificate.value


def test_agrees_with_scikit_learn_softmax():
    X, y = load_digits(return_X_y=True)
    X, alpha = X / 16, 1e-3
    model, _ = train(X, y, loss="softmax", alpha=alpha, tol=1e-12, max_iter=3000)
    peer = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=10_000, solver="newton-cg").fit(X, y)
    np.testing.assert_allclose(model.weights.T, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


def test_agrees_with_scikit_learn_binary_logistic():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    model, _ = train(X, y, loss="logistic", alpha=1e-2, tol=1e-12)
    peer = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.weights.T, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept, peer.intercept_, atol=1e-5)


def test_agrees_with_ridge_in_closed_form():
    X, y = load_iris(return_X_y=True)
    model, solution = train(X, y, loss="squared", alpha=1e-2, tol=1e-12)
    peer = RidgeClassifier(alpha=1e-2 * len(y)).fit(X, y)
    np.testing.assert_allclose(model.weights.T, peer.coef_, atol=1e-8)
    np.testing.assert_allclose(model.intercept, peer.intercept_, atol=1e-8)
    assert len(solution.history) <= 4  # the Gram metric is the Hessian


@pytest.mark.parametrize("name", SMOOTH)
def test_all_layouts_give_the_same_model(name):
    X, y = random_problem(5, n=80, d=9)
    found = [
        train(kind, y, loss=name, alpha=1e-2)[0].weights
        for kind in (X.toarray(), np.asfortranarray(X.toarray()), X, X.tocsc())
    ]
    for weights in found[1:]:
        np.testing.assert_allclose(weights, found[0], atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_float32_stays_float32_and_is_nearly_as_good(name):
    X, y = random_problem(6, n=100)
    model, solution = train(X.astype(np.float32), y, loss=name, alpha=1e-2, tol=1e-4)
    assert model.weights.dtype == np.float32
    assert solution.status == "converged"
    reference, _ = train(X, y, loss=name, alpha=1e-2, tol=1e-10)
    assert solution.certificate.primal == pytest.approx(reference.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_doubled_rows_are_doubled_weights(name):
    X, y = random_problem(7, n=50)
    weights = np.ones(50)
    weights[10:30] = 2.0
    rows = np.concatenate([np.arange(50), np.arange(10, 30)])
    weighted, _ = train(X, y, sample_weight=weights, loss=name, alpha=1e-2, tol=1e-11)
    doubled, _ = train(X[rows], y[rows], loss=name, alpha=1e-2, tol=1e-11)
    np.testing.assert_allclose(weighted.weights, doubled.weights, atol=1e-5)
    np.testing.assert_allclose(
        X @ weighted.weights + weighted.intercept, X @ doubled.weights + doubled.intercept, atol=1e-4
    )


@pytest.mark.parametrize("name", SMOOTH)
def test_permuting_the_classes_permutes_the_model(name):
    X, y = random_problem(8, n=60, k=4)
    order = np.array([2, 0, 3, 1])
    model, _ = train(X, y, loss=name, alpha=1e-2, tol=1e-11)
    permuted, _ = train(X, order[y], loss=name, alpha=1e-2, tol=1e-11)
    np.testing.assert_allclose(permuted.weights[:, order], model.weights, atol=1e-5)


def test_runs_and_thread_counts_agree_exactly():
    X, y = random_problem(9, n=500, d=40)
    first, _ = train(X, y, loss="softmax", n_jobs=1)
    again, _ = train(X, y, loss="softmax", n_jobs=1)
    threaded, _ = train(X, y, loss="softmax", n_jobs=2)
    np.testing.assert_array_equal(first.weights, again.weights)
    np.testing.assert_array_equal(first.weights, threaded.weights)


@pytest.mark.parametrize("name", SMOOTH)
def test_scaling_a_column_a_millionfold_is_no_obstacle(name):
    X, y = random_problem(10, n=80)
    X = X.toarray()
    X[:, 3] *= 1e6
    X[:, 5] *= 1e-6
    _, solution = train(X, y, loss=name, alpha=1e-4, tol=1e-6, max_iter=3000)
    assert solution.status == "converged"


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
def test_a_column_far_from_zero_is_no_obstacle(name, alpha):
    """Years and the like: the intercept must make up for the mean, and the minimum is that of the centred column."""
    X, y = random_problem(18, n=120)
    X = X.toarray()
    near, _ = train(X, y, loss=name, alpha=alpha, tol=1e-6, max_iter=3000)
    X[:, 5] += 4096.0
    far, solution = train(X, y, loss=name, alpha=alpha, tol=1e-6, max_iter=3000)
    assert solution.status == "converged"
    assert far.certificate.primal == pytest.approx(near.certificate.primal, rel=3e-6)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("shift", [2.0**20, 2.0**30])
def test_rounding_never_makes_a_certificate_optimistic(name, shift):
    """With an intercept, a shift of the columns leaves the minimum as it is: certificates far out must admit it."""
    X, y = random_problem(19, n=40)
    X = np.round(X.toarray() * 64) / 64  # so that the shifted columns are exact
    _, near = train(X, y, loss=name, alpha=1e-7, tol=1e-9, max_iter=5000)
    best = near.certificate.dual
    X[:, [0, 3, 5]] += shift
    _, far = train(X, y, loss=name, alpha=1e-7, tol=1e-9, max_iter=200)
    if far.certificate.kind == "gap":
        assert far.certificate.dual <= near.certificate.primal * (1 + 1e-7)
        assert far.certificate.primal * (1 - far.certificate.value) <= near.certificate.primal * (1 + 1e-7)
    assert far.certificate.primal >= best * (1 - 1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_more_columns_than_rows(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 50)), np.array([0, 1, 2, 0, 1, 2])
    model, solution = train(X, y, loss=name, alpha=1e-2, tol=1e-7)
    assert solution.status == "converged"
    np.testing.assert_array_equal(model.predict(X), y)


def test_no_penalty_ends_with_a_violation_certificate():
    X, y = random_problem(11, n=200, k=2)
    _, solution = train(X, y, loss="logistic", alpha=0.0, tol=1e-6)
    assert solution.certificate.kind == "violation"
    assert solution.status == "converged"


def test_separable_data_without_penalty_stops():
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    _, solution = train(X, y, loss="logistic", alpha=0.0, tol=1e-9, max_iter=200)
    assert solution.status in ("converged", "max_iter", "stalled")
    assert np.isfinite(solution.weights).all()


def test_offsets_shift_the_scores():
    X, y = random_problem(12, n=60, k=3)
    base, _ = train(X, y, loss="softmax", alpha=1e-2, tol=1e-11)
    shift = np.array([3.0, -1.0, 0.5])
    shifted, _ = train(X, y, offsets=np.tile(shift, (60, 1)), loss="softmax", alpha=1e-2, tol=1e-11)
    np.testing.assert_allclose(shifted.weights, base.weights, atol=1e-5)


def test_warm_start_from_the_answer_is_over_at_once():
    X, y = random_problem(13, n=60)
    model, _ = train(X, y, loss="logistic", alpha=1e-2)
    _, again = train(X, y, loss="logistic", alpha=1e-2, start=model)
    assert len(again.history) == 1


def test_a_callback_can_stop_and_sees_read_only_weights():
    X, y = random_problem(14)
    seen = []

    def stop(snapshot):
        seen.append(snapshot)
        with pytest.raises(ValueError, match="read-only"):
            snapshot.weights[0, 0] = 1.0
        return snapshot.iteration == 2

    _, solution = train(X, y, loss="softmax", alpha=1e-6, tol=1e-12, callbacks=[stop])
    assert solution.status == "stopped"
    assert [snapshot.iteration for snapshot in seen] == [0, 1, 2]
    assert "callback" in solution.message


def test_every_callback_sees_every_iteration_and_numpy_booleans_count():
    X, y = random_problem(14)
    seen = []
    _, solution = train(
        X,
        y,
        loss="softmax",
        tol=1e-9,
        callbacks=[lambda s: np.bool_(s.iteration == 1), lambda s: seen.append(s.iteration)],
    )
    assert solution.status == "stopped"
    assert seen == [0, 1]


def test_ctrl_c_in_the_last_certificate_still_returns_the_answer(monkeypatch):
    from lineal.problem.objective import Objective

    X, y = random_problem(15)
    certify = Objective.certificate

    def slow(self, theta, tol=0.0):
        signal.raise_signal(signal.SIGINT)
        return certify(self, theta, tol)

    monkeypatch.setattr(Objective, "certificate", slow)
    _, solution = train(X, y, loss="softmax", alpha=1e-2, tol=1e-4)
    assert solution.status in ("converged", "interrupted")


def test_ctrl_c_returns_the_best_iterate():
    X, y = random_problem(15)

    def interrupt(snapshot):
        if snapshot.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    _, solution = train(X, y, loss="softmax", alpha=1e-6, tol=1e-12, callbacks=[interrupt])
    assert solution.status == "interrupted"
    assert len(solution.history) == 4
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_interrupts_as_usual():
    X, y = random_problem(15)

    def interrupt(snapshot):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(X, y, loss="softmax", callbacks=[interrupt])


def test_max_time_and_max_iter_are_honoured():
    X, y = random_problem(16)
    _, solution = train(X, y, loss="softmax", alpha=1e-7, tol=1e-13, max_time=1e-9)
    assert solution.status == "max_time"
    _, solution = train(X, y, loss="softmax", alpha=1e-7, tol=1e-13, max_iter=2)
    assert solution.status == "max_iter"
    assert "max_iter=2" in solution.message
    assert len(solution.history) == 3


def test_what_it_cannot_honour_is_refused_by_name():
    objective, _ = build("hinge")
    with pytest.raises(OptionError, match=r"smooth loss.*'hinge'.*'squared_hinge'"):
        lbfgs.solve(objective)
    X, y = random_problem(0)
    with pytest.raises(OptionError, match=r"lbfgs needs penalty 'l2', not 'l1'"):
        train(X, y, penalty="l1")


def test_overflowing_data_is_refused():
    X, y = np.full((4, 2), 1e300), np.array([0, 1, 0, 1])
    start = replace(train(np.eye(4, 2), y, loss="squared")[0], weights=np.full((2, 1), 1e300))
    with pytest.raises(DataError, match=r"column 0 of X .* squares overflow: divide it"):
        train(X, y, loss="squared", start=start)


def test_labels_that_no_or_all_rows_have():
    X, _ = random_problem(17, n=40)
    Y = np.zeros((40, 3), dtype=int)
    Y[:20, 0] = 1
    Y[:, 2] = 1
    for name in ("logistic", "squared_hinge"):
        model, solution = train(X, sparse.csr_array(Y), loss=name, alpha=1e-2, tol=1e-5)
        assert solution.status == "converged"
        predicted = model.predict(X)
        assert not predicted[:, 1].any()
        assert predicted[:, 2].all()


def test_ctrl_c_while_compiling_needs_an_answer(monkeypatch):
    """Without an iterate there is nothing to wait for; with one, the first Ctrl-C asks the loop to end."""
    monkeypatch.setattr("lineal.problem.monitor.is_compiling", lambda: True)
    with pytest.raises(KeyboardInterrupt), Monitor(Budget(max_iter=10)):
        signal.raise_signal(signal.SIGINT)
    with Monitor(Budget(max_iter=10)) as monitor:
        monitor.count(0, 1.0)
        signal.raise_signal(signal.SIGINT)
        assert monitor.must_end(0) == "interrupted"
    with Monitor(Budget(max_iter=10)) as outer:
        outer.has_iterate = True
        with Monitor(Budget(max_iter=10)) as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner.must_end(0) == "interrupted"
        assert outer.must_end(0) == "interrupted"
