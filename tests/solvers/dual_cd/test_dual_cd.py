"""Dual coordinate descent: certified optimality, agreement with other solvers, intercepts, invariances, edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import twin
from conftest import random_problem
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import DataError, OptionError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import encode
from lineal.report import plot_history
from lineal.solvers.dual_cd import ascent as dual_ascent
from lineal.solvers.dual_cd import dual_cd
from lineal.solvers.lbfgs import lbfgs

DUAL = [name for name in losses.names() if getattr(losses.get(name), "dual_curvature", None) is not None]
SMOOTH = [name for name in DUAL if losses.get(name).is_smooth]


def problem(X, y, loss, alpha, fit_intercept=True, weights=None, offsets=None, factors=None, centre=None, threads=1):
    kind = losses.get(loss)
    encoded = encode(y, direct=kind.is_direct)
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, offsets, threads)
    regulariser = Regulariser(penalties.get("l2"), alpha, X.shape[1], factors=factors, centre=centre)
    return Objective(engine, kind, regulariser, fit_intercept)


def theta_of(objective, solution):
    return objective.theta_of(solution).astype(np.float64)


def iris():
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


def test_the_losses_with_dual_steps_are_these():
    assert DUAL == ["crammer_singer", "hinge", "logistic", "softmax", "squared_hinge"]


@pytest.mark.parametrize("name", DUAL)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-2])
def test_the_gap_is_met_and_true(name, fit_intercept, alpha):
    X, y = random_problem(3, n=80, d=7, k=4)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, 80)
    objective = problem(X, y, name, alpha, fit_intercept, weights)
    solution = dual_cd.solve(objective, tol=1e-6, max_iter=20_000)
    assert solution.status == "converged"
    certificate = solution.certificate
    assert certificate.kind == "gap"
    assert certificate.value <= 1e-6
    Y = twin.indicator(y, 4)
    value = twin.objective(name, Y, X, solution.weights, solution.intercept, weights, alpha)
    assert value == pytest.approx(certificate.primal, rel=1e-12)
    if name in SMOOTH:  # the lower bound is one: nothing goes below it, and the minimum is just above
        best = lbfgs.solve(objective, tol=1e-12, max_iter=5000).certificate
        assert certificate.dual <= best.primal * (1 + 1e-12)
        assert best.dual <= certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_agrees_with_a_primal_solver(name):
    X, y = iris()
    objective = problem(X, y, name, 1e-2)
    found = dual_cd.solve(objective, tol=1e-11, max_iter=20_000)
    wanted = lbfgs.solve(objective, tol=1e-12, max_iter=20_000)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)
    np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-4)
    np.testing.assert_allclose(found.intercept, wanted.intercept, atol=1e-4)


@pytest.mark.parametrize(("name", "theirs"), [("hinge", "hinge"), ("squared_hinge", "squared_hinge")])
def test_agrees_with_liblinear_without_intercept(name, theirs):
    X, y = iris()
    n = len(y)
    peer = LinearSVC(loss=theirs, C=0.1, fit_intercept=False, tol=1e-10, max_iter=1_000_000, dual=True).fit(X, y)
    objective = problem(X, y, name, 1 / (0.1 * n), False)
    found = dual_cd.solve(objective, tol=1e-9, max_iter=50_000)
    assert found.certificate.primal == pytest.approx(objective.value(np.ascontiguousarray(peer.coef_.T)), rel=1e-8)
    np.testing.assert_allclose(found.weights, peer.coef_.T, atol=1e-4)


def test_crammer_singer_agrees_with_liblinear():
    X, y = iris()
    n = len(y)
    peer = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(X, y)
    objective = problem(X, y, "crammer_singer", 1 / (0.1 * n), False)
    found = dual_cd.solve(objective, tol=1e-9, max_iter=50_000)
    assert found.certificate.primal <= objective.value(np.ascontiguousarray(peer.coef_.T)) * (1 + 1e-8)
    assert found.certificate.primal == pytest.approx(objective.value(np.ascontiguousarray(peer.coef_.T)), rel=1e-6)


def many_classes(seed=0, n=240, d=25, k=40):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = rng.normal(size=(k, d))[y] + rng.normal(size=(n, d))
    return np.where(rng.random((n, d)) < 0.5, X, 0.0), y


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_crammer_singer_with_many_classes_visits_few_and_is_right(fit_intercept, monkeypatch):
    X, y = many_classes()
    objective = problem(X, y, "crammer_singer", 1e-2, fit_intercept)
    passes = []
    original = dual_ascent.kept_pass
    monkeypatch.setattr(dual_ascent, "kept_pass", lambda *inputs: passes.append(1) or original(*inputs))
    found = dual_cd.solve(objective, tol=1e-7, max_iter=50_000)
    assert found.status == "converged"
    assert len(passes) > len(found.history)
    monkeypatch.setattr(dual_ascent, "KEPT_PASSES", 0)
    plain = dual_cd.solve(objective, tol=1e-7, max_iter=50_000)
    assert found.certificate.dual <= plain.certificate.primal
    np.testing.assert_allclose(found.weights, plain.weights, atol=1e-3)
    sparse_rows = problem(sparse.csr_array(X), y, "crammer_singer", 1e-2, fit_intercept)
    again = dual_cd.solve(sparse_rows, tol=1e-7, max_iter=50_000)
    np.testing.assert_allclose(again.weights, plain.weights, atol=1e-3)


def test_crammer_singer_with_many_classes_agrees_with_liblinear():
    X, y = many_classes(1)
    peer = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(X, y)
    objective = problem(X, y, "crammer_singer", 1 / (0.1 * len(y)), False)
    found = dual_cd.solve(objective, tol=1e-8, max_iter=50_000)
    theirs = objective.value(np.ascontiguousarray(peer.coef_.T))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(found.weights, peer.coef_.T, atol=1e-3)


def test_the_history_has_the_objective_where_the_gap_was_checked():
    X, y = iris()
    found = dual_cd.solve(problem(X, y, "squared_hinge", 1e-3), tol=1e-10, max_iter=20_000)
    checked = [row for row in found.history if row["objective"] is not None]
    assert 1 < len(checked) < len(found.history)
    assert all(row["objective"] * (1 - row["gap"]) <= found.certificate.primal * (1 + 1e-12) for row in checked)


@pytest.mark.parametrize("solver", ["logistic", "softmax"])
def test_agrees_with_scikit_learn_logistic_regression(solver):
    X, y = iris()
    y = y if solver == "softmax" else (y > 1).astype(int)
    n = len(y)
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    found = dual_cd.solve(problem(X, y, solver, 1 / n), tol=1e-11, max_iter=20_000)
    np.testing.assert_allclose(found.weights.T, peer.coef_, atol=1e-4)


def test_the_free_intercept_of_the_hinge_is_that_of_libsvm():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0) + 3.0  # features that could do the intercept's work
    n = len(y)
    peer = SVC(kernel="linear", C=0.05, tol=1e-8).fit(X, y)
    objective = problem(X, y, "hinge", 1 / (0.05 * n))
    found = dual_cd.solve(objective, tol=1e-6, max_iter=50_000)
    assert found.status == "converged"
    theirs = objective.value(np.vstack([peer.coef_.T, peer.intercept_[None, :]]))
    assert found.certificate.primal == pytest.approx(theirs, rel=2e-6)
    np.testing.assert_allclose(found.intercept, peer.intercept_, atol=2e-2)


@pytest.mark.parametrize("name", DUAL)
def test_large_means_do_not_slow_the_intercept(name):
    X, y = iris()
    near = dual_cd.solve(problem(X, y, name, 1e-2), tol=1e-4, max_iter=5000)
    far = dual_cd.solve(problem(X + 20.0, y, name, 1e-2), tol=1e-4, max_iter=5000)
    assert far.status == "converged"
    assert far.certificate.primal == pytest.approx(near.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("name", ["hinge", "softmax"])
def test_duplicated_rows_are_weights(name):
    X, y = random_problem(5, n=50, k=3)
    counts = np.random.default_rng(1).integers(0, 4, 50)
    counts[:6] = 1
    doubled = sparse.csr_array(sparse.vstack([X[[i]] for i in range(50) for _ in range(counts[i])]))
    one = dual_cd.solve(problem(X, y, name, 0.05, weights=counts), tol=1e-7, max_iter=20_000)
    other = dual_cd.solve(problem(doubled, np.repeat(y, counts), name, 0.05), tol=1e-7, max_iter=20_000)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=3e-7)
    np.testing.assert_allclose(one.weights, other.weights, atol=2e-3)


@pytest.mark.parametrize("name", ["squared_hinge", pytest.param("crammer_singer", marks=pytest.mark.slow)])
def test_layouts_precisions_and_threads_agree(name):
    X, y = random_problem(7, n=90, d=9, k=5)
    dense = X.toarray()
    wanted = dual_cd.solve(problem(X, y, name, 0.02), tol=1e-6, max_iter=20_000).certificate.primal
    for other in (X.tocsc(), dense, np.asfortranarray(dense), X.astype(np.float32), dense.astype(np.float32)):
        tol = 1e-6 if other.dtype == np.float64 else 1e-4
        for threads in (1, 2):
            objective = problem(other, y, name, 0.02, threads=threads)
            found = dual_cd.solve(objective, tol=tol, max_iter=20_000, n_jobs=threads)
            assert found.status == "converged"
            assert found.weights.dtype == other.dtype
            assert found.certificate.primal == pytest.approx(wanted, rel=2 * tol)


def test_threads_share_the_columns_and_change_nothing_else():
    X, y = random_problem(8, n=60, d=9, k=5)
    objective = problem(X, y, "squared_hinge", 0.02)
    runs = [dual_cd.solve(objective, tol=1e-5, n_jobs=jobs, shrinking=False) for jobs in (1, 2, 3)]
    for run in runs[1:]:
        np.testing.assert_allclose(run.weights, runs[0].weights, rtol=1e-12, atol=1e-12)


def test_the_seed_decides():
    X, y = random_problem(9, n=60, k=3)
    objective = problem(X, y, "logistic", 0.01)
    one, same, other = (dual_cd.solve(objective, tol=1e-3, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.weights, same.weights)
    assert not np.array_equal(one.weights, other.weights)


def test_classes_may_come_in_any_order():
    X, y = random_problem(11, n=60, k=4)
    order = np.array([2, 0, 3, 1])
    one = dual_cd.solve(problem(X, y, "squared_hinge", 0.05), tol=1e-8, max_iter=5000)
    other = dual_cd.solve(problem(X, order[y], "squared_hinge", 0.05), tol=1e-8, max_iter=5000)
    np.testing.assert_allclose(other.weights[:, order], one.weights, atol=1e-4)


def test_label_sets():
    X, _ = random_problem(12, n=70, k=3)
    Y = (np.random.default_rng(2).random((70, 4)) < 0.3).astype(int)
    objective = problem(X, Y, "squared_hinge", 0.05)
    found = dual_cd.solve(objective, tol=1e-8, max_iter=5000)
    wanted = lbfgs.solve(objective, tol=1e-10)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-7)


@pytest.mark.parametrize("name", ["hinge", "logistic", "softmax"])
def test_offsets_centre_and_factors(name):
    X, y = random_problem(13, n=60, d=7, k=3)
    rng = np.random.default_rng(3)
    offsets, centre, factors = rng.normal(size=(60, 3)), rng.normal(size=(7, 3)), rng.uniform(0.5, 2.0, 7)
    objective = problem(X, y, name, 0.05, offsets=offsets, centre=centre, factors=factors)
    found = dual_cd.solve(objective, tol=1e-6, max_iter=20_000)
    assert found.status == "converged"
    # The same by hand: features over √f, weights and centre times √f, the centre's scores as offsets.
    root = np.sqrt(factors)
    plain = problem(sparse.csr_array(X / root), y, name, 0.05, offsets=offsets + X @ centre)
    wanted = dual_cd.solve(plain, tol=1e-7, max_iter=20_000)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-6)
    np.testing.assert_allclose(found.weights, wanted.weights / root[:, None] + centre, atol=1e-2)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "crammer_singer"])
def test_shrinking_leaves_rows_out_and_brings_them_back(name):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    objective = problem(X, y, name, 1e-2)
    ascent = dual_ascent.Ascent(objective, None, 1, 0, True)
    for _ in range(20):
        ascent.run_pass()
    assert any(not active.all() for active in ascent.holder.rows.active)
    assert ascent.reactivate()
    assert all(active.all() for active in ascent.holder.rows.active)
    one = dual_cd.solve(objective, tol=1e-4, max_iter=5000)
    other = dual_cd.solve(objective, tol=1e-4, max_iter=5000, shrinking=False)
    assert one.status == other.status == "converged"
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("name", DUAL)
def test_starts_from_dual_variables(name):
    X, y = iris()
    objective = problem(X, y, name, 1e-2)
    first = dual_cd.solve(objective, tol=1e-5, max_iter=20_000)
    again = dual_cd.solve(objective, tol=1.1e-5, start=first)
    assert len(again.history) <= 2
    assert again.status == "converged"
    near = dual_cd.solve(objective.with_alpha(0.9e-2), tol=1e-5, start=first, max_iter=20_000)
    assert near.status == "converged"


@pytest.mark.parametrize("name", SMOOTH)
def test_starts_from_weights(name):
    X, y = iris()
    objective = problem(X, y, name, 1e-2)
    best = lbfgs.solve(objective, tol=1e-10)
    found = dual_cd.solve(objective, tol=1e-6, start=theta_of(objective, best))
    assert len(found.history) <= 4


def test_the_rate_is_linear():
    X, y = iris()
    objective = problem(X, y, "squared_hinge", 0.1)
    best = lbfgs.solve(objective, tol=1e-13, max_iter=5000).certificate.primal
    seen = []
    dual_cd.solve(objective, tol=1e-12, callbacks=[lambda snapshot: seen.append(snapshot.objective / best - 1.0)])
    rates = [after / before for before, after in zip(seen[2:-5:5], seen[7::5]) if after > 1e-12]
    assert len(rates) >= 2
    assert max(rates) < 0.7  # over five passes; a sublinear method's rates approach one


def test_history_has_the_objective_for_those_who_look():
    X, y = iris()
    objective = problem(X, y, "logistic", 1e-2)
    unseen = dual_cd.solve(objective, tol=1e-4)
    assert unseen.history[0]["objective"] is None
    assert unseen.history[-1]["objective"] == unseen.certificate.primal
    seen = []
    dual_cd.solve(objective, tol=1e-4, callbacks=[seen.append])
    assert seen[3].objective == pytest.approx(objective.value(np.vstack([seen[3].weights, seen[3].intercept[None]])))


def test_endings():
    X, y = load_digits(return_X_y=True)
    objective = problem(X, y, "hinge", 1e-6)
    assert dual_cd.solve(objective, tol=1e-9, max_iter=3).status == "max_iter"
    assert dual_cd.solve(objective, tol=1e-9, max_time=1e-3).status == "max_time"
    assert dual_cd.solve(objective, tol=1e-9, callbacks=[lambda snapshot: True]).status == "stopped"


def test_refusals():
    X, y = random_problem(14, k=3)
    with pytest.raises(OptionError, match="dual_cd needs penalty 'l2', not 'l1'"):
        dual_cd.check(losses.get("hinge"), penalties.get("l1"))
    with pytest.raises(OptionError, match="label_ranking"):
        dual_cd.check(losses.get("label_ranking"), penalties.get("l2"))
    with pytest.raises(OptionError, match="alpha and all factors > 0"):
        dual_cd.solve(problem(X, y, "hinge", 0.0))
    with pytest.raises(OptionError, match="object holds them elsewhere: use solver='admm'"):
        dual_cd.solve(replace(problem(X, y, "hinge", 0.1), engine=object()))
    with pytest.raises(OptionError, match="object holds them elsewhere: use solver='lbfgs' or 'newton'"):
        dual_cd.solve(replace(problem(X, y, "logistic", 0.1), engine=object()))
    with pytest.raises(OptionError, match="inner_passes=2 is for rows in files"):
        dual_cd.solve(problem(X, y, "hinge", 0.1), inner_passes=2)
    with pytest.raises(OptionError, match=r"inner_passes=2.5 is not a positive whole number"):
        dual_cd.solve(problem(X, y, "hinge", 0.1), inner_passes=2.5)
    with pytest.raises(DataError, match="scale the features"):
        dual_cd.solve(problem((X * 1e30).astype(np.float32), y, "hinge", 0.1))


@pytest.mark.parametrize("name", DUAL)
def test_edges(name):
    rng = np.random.default_rng(4)
    cases = {
        "empty rows and columns": (np.zeros((6, 3)), np.array([0, 1, 2, 0, 1, 2])),
        "one row per class": (rng.normal(size=(3, 2)), np.arange(3)),
        "more columns than rows": (rng.normal(size=(6, 40)), np.array([0, 1, 2, 0, 1, 2])),
        "no columns": (np.zeros((4, 0)), np.array([0, 1, 2, 1])),
        "huge values": (1e6 * rng.normal(size=(20, 3)), np.arange(20) % 3),
        "tiny values": (1e-9 * rng.normal(size=(20, 3)), np.arange(20) % 3),
        "sorted labels": (rng.normal(size=(90, 3)), np.repeat(np.arange(3), 30)),
        "binary": (rng.normal(size=(20, 3)), np.arange(20) % 2),
    }
    for what, (X, y) in cases.items():
        for fit_intercept in (False, True):
            found = dual_cd.solve(problem(X, y, name, 0.1, fit_intercept), tol=1e-3, max_iter=2000)
            assert np.isfinite(found.weights).all(), what
            assert found.status in ("converged", "max_iter"), what
            if what != "huge values":
                assert found.status == "converged", (what, fit_intercept, found.message)


@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
@pytest.mark.parametrize("alpha", [1.0, 10.0])
def test_an_intercept_alone_is_found_where_all_variables_sit_at_their_bounds(name, alpha):
    for seed in range(190, 210):
        X, y = np.random.default_rng(seed).standard_normal((50, 4)), np.arange(50) % 2
        found = dual_cd.solve(problem(X, y, name, alpha), tol=1e-3)
        assert found.status == "converged", (seed, found.message)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_entries_stored_in_parts_are_added_up(kind):
    X, y = random_problem(15, n=30, d=5, k=3)
    parts = sparse.coo_array(
        (np.r_[0.25 * X.tocoo().data, 0.75 * X.tocoo().data], (np.tile(X.tocoo().row, 2), np.tile(X.tocoo().col, 2))),
        X.shape,
    )
    order = np.lexsort((parts.col, parts.row)) if kind is sparse.csr_array else np.lexsort((parts.row, parts.col))
    majors, minors = (parts.row, parts.col) if kind is sparse.csr_array else (parts.col, parts.row)
    starts = np.searchsorted(majors[order], np.arange((X.shape[0] if kind is sparse.csr_array else X.shape[1]) + 1))
    repeated = kind((parts.data[order], minors[order], starts), shape=X.shape)
    assert repeated.nnz == 2 * X.nnz
    one = dual_cd.solve(problem(X, y, "squared_hinge", 0.05), tol=1e-7, max_iter=5000)
    other = dual_cd.solve(problem(repeated, y, "squared_hinge", 0.05), tol=1e-7, max_iter=5000)
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-6)
    assert repeated.nnz == 2 * X.nnz  # the user's own matrix is left as it was


@pytest.mark.parametrize("alpha", [0.03, 1e-4])
def test_softmax_far_from_its_start_converges(alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), np.arange(60) % 16
    far = {"centre": 3.0 * rng.normal(size=(30, 16))}, {"offsets": 30.0 * rng.normal(size=(60, 16))}
    for more in far:
        objective = problem(X, y, "softmax", alpha, False, **more)
        found = dual_cd.solve(objective, tol=1e-4, max_iter=500)
        assert found.status == "converged"
        wanted = lbfgs.solve(objective, tol=1e-6, max_iter=5000)
        assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("name", ["crammer_singer", "softmax"])
def test_dual_points_outside_of_the_simplex_are_brought_back(name):
    X, y = np.zeros((4, 1)), np.array([0, 1, 2, 0])
    offsets = np.tile([0.0, 1e4, 0.0], (4, 1))
    objective = problem(X, y, name, 1.0, False, offsets=offsets)
    beyond = np.zeros((4, 3))
    beyond[:, 1], beyond[np.arange(4), y] = 1 + 9e-7, -1 - 9e-7
    beyond[1] = 0.0
    certificate = objective.certificate(np.zeros((1, 3)), 0.0, beyond)
    assert certificate.dual <= certificate.primal


def test_rows_without_weight_do_not_spoil_a_start_from_another_loss():
    X, y = iris()
    weights = np.ones(len(y))
    weights[::3] = 0.0
    start = dual_cd.solve(problem(X, y, "squared_hinge", 0.01, weights=weights), tol=1e-6, max_iter=5000)
    objective = problem(X, y, "hinge", 0.01, weights=weights)
    assert dual_cd.solve(objective, tol=1e-3, max_iter=5000, start=start).status == "converged"


def test_a_start_of_another_shape_is_refused():
    X, y = iris()
    objective = problem(X, y, "hinge", 0.01)
    with pytest.raises(DataError, match="does not fit"):
        dual_cd.solve(objective, start=np.zeros((4, 2)))


@pytest.mark.parametrize("solver", ["dual_cd", "fobos"])
def test_histories_have_no_nan(solver, tmp_path):
    """A number that was not computed is None, which JSON has a word for."""
    X, y = random_problem(0)
    options = TrainOptions(solver=solver, alpha=0.1, max_iter=20, tol=1e-9)
    history = fit(X, y, options)[1].history
    assert not any(isinstance(value, float) and np.isnan(value) for row in history for value in row.values())
    assert None in [row["objective"] for row in history]
    assert np.isfinite(history[-1]["objective"])
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    plot_history(history, tmp_path / "fit.png")
