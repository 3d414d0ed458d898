"""FISTA, SpaRSA and FOBOS: certified optimality for every loss and penalty, agreement with each other, edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import random_problem
from scipy import sparse

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.objective import Objective
from lineal.penalties.regulariser import Regulariser
from lineal.search.alphas import largest_alpha
from lineal.solvers import block_cd, fista, fobos, sparsa
from lineal.targets import encode

PENALTIES = ["l1/l2", "l1/linf", "sparse_group", "l1", "elastic_net", "l2"]
SMOOTH = ["squared_hinge", "logistic", "softmax", "multiclass_squared_hinge"]


def problem(X, y, loss, penalty="l1/l2", alpha=None, fit_intercept=True, weights=None, groups=None, offsets=None):
    kind = losses.get(loss)
    encoded = encode(y, direct=kind.is_direct)
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, offsets)
    regulariser = Regulariser(penalties.get(penalty), 1.0, X.shape[1], groups=groups)
    objective = Objective(engine, kind, regulariser, fit_intercept)
    return objective.with_alpha(0.1 * largest_alpha(objective) if alpha is None else alpha)


def distinct_problem(seed, n, d, k):
    """Without the repeated column, whose weights could be shared in many ways."""
    X, y = random_problem(seed, n, d, k)
    return X[:, [j for j in range(d) if j != 4]], y


def violations(objective, solution):
    theta = objective.theta_of(solution).astype(np.float64)
    _, gradient = objective.loss_and_gradient(theta)
    d = objective.engine.shape[1]
    W = np.ascontiguousarray(theta[:d])
    return objective.regulariser.violation(W, np.ascontiguousarray(gradient[:d])), gradient[d:]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("solver", [fista, sparsa])
def test_gaps_of_1e6_are_met_and_conditions_of_optimality_hold(solver, loss, penalty):
    X, y = random_problem(5, n=60, d=8, k=3)
    alpha = 0.05 if penalty == "l2" else None
    objective = problem(X, y, loss, penalty, alpha)
    found = solver.solve(objective, tol=1e-6, max_iter=20_000)
    assert found.status == "converged"
    assert found.certificate.kind == "gap"
    assert found.certificate.value <= 1e-6
    assert found.certificate.primal == pytest.approx(objective.value(objective.theta_of(found)), rel=1e-12)
    blocks, intercept = violations(objective, found)
    scale = violations(objective, fista.solve(objective, max_iter=0, tol=0.0))[0].max()
    assert blocks.max() <= 5e-3 * scale
    assert np.abs(intercept).max(initial=0.0) <= 5e-3


@pytest.mark.parametrize("penalty", ["l1/l2", "elastic_net"])
def test_line_search_constants_and_sparsa_find_the_same_minimum(penalty):
    X, y = distinct_problem(6, n=70, d=9, k=4)
    objective = problem(X, y, "multiclass_squared_hinge", penalty)
    runs = [
        fista.solve(objective, tol=1e-9, max_iter=50_000),
        fista.solve(objective, tol=1e-9, max_iter=50_000, step="constant"),
        fista.solve(objective, tol=1e-8, max_iter=200_000, step="constant", constant="trace"),
        sparsa.solve(objective, tol=1e-9, max_iter=50_000),
    ]
    assert [run.status for run in runs] == ["converged"] * 4
    for run in runs[1:]:
        assert run.certificate.primal == pytest.approx(runs[0].certificate.primal, rel=2e-8)
        np.testing.assert_allclose(run.weights, runs[0].weights, atol=1e-4)
    assert len(runs[1].history) < len(runs[2].history)  # the trace is the looser bound


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_agrees_with_coordinate_descent_on_l1(loss):
    X, y = distinct_problem(7, n=80, d=10, k=3)
    objective = problem(X, y, loss, "l1")
    wanted = block_cd.solve(objective, tol=1e-10, max_iter=5000)
    for solver in (fista, sparsa):
        found = solver.solve(objective, tol=1e-9, max_iter=50_000)
        assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-8)
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-4)


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_groups_given_by_the_user_live_and_die_together(solver):
    X, y = random_problem(8, n=90, d=9, k=3)
    groups = [[0, 4, 8], [1, 2], [3, 5, 6, 7]]
    objective = problem(X, y, "softmax", "l1/l2", groups=groups)
    objective = objective.with_alpha(6.0 * objective.regulariser.alpha)
    found = solver.solve(objective, tol=1e-8, max_iter=20_000)
    assert found.status == "converged"
    live = [bool(found.weights[group].any()) for group in groups]
    assert all(
        bool(found.weights[feature].any()) == is_live for group, is_live in zip(groups, live) for feature in group
    )
    assert 0 < sum(live) < 3


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_weights_are_repeated_rows_and_layouts_and_precisions_agree(solver):
    X, y = random_problem(9, n=50, d=7, k=3)
    tol, near = (1e-2, 3e-2) if solver is fobos else (1e-7, 1e-6)
    counts = np.random.default_rng(0).integers(1, 4, 50)
    rows = np.repeat(np.arange(50), counts)
    weighted = problem(X, y, "squared_hinge", alpha=0.02, weights=counts)
    wanted = solver.solve(weighted, tol=tol, max_iter=20_000).certificate.primal
    repeated = problem(X[rows], y[rows], "squared_hinge", alpha=0.02)
    assert solver.solve(repeated, tol=tol, max_iter=20_000).certificate.primal == pytest.approx(wanted, rel=near)
    for other in (X.toarray(), X.tocsc(), np.asfortranarray(X.toarray()), X.astype(np.float32)):
        objective = problem(other, y, "squared_hinge", alpha=0.02, weights=counts)
        found = solver.solve(objective, tol=max(tol, 1e-5), max_iter=20_000)
        assert found.status == "converged"
        assert found.weights.dtype == other.dtype
        assert found.certificate.primal == pytest.approx(wanted, rel=max(near, 2e-5))


@pytest.mark.parametrize("loss", ["hinge", "crammer_singer", "softmax", "multiclass_squared_hinge"])
@pytest.mark.parametrize("penalty", ["l1/l2", "l2"])
def test_fobos_reaches_a_gap_of_1e2(loss, penalty):
    X, y = random_problem(10, n=80, d=8, k=3)
    objective = problem(X, y, loss, penalty, alpha=0.02 if penalty == "l1/l2" else 0.1)
    found = fobos.solve(objective, tol=1e-2, max_iter=5000)
    # Gradients of losses with kinks are poor dual points: what is certain there is the objective.
    if losses.get(loss).is_smooth:
        assert found.status == "converged"
        assert found.certificate.value <= 1e-2
    else:
        from lineal.solvers import dual_cd

        if penalty == "l2":
            best = dual_cd.solve(objective, tol=1e-4, max_iter=20_000).certificate.primal
            assert found.certificate.primal <= best * 1.01


def test_fobos_draws_by_its_seed_and_takes_a_rate():
    X, y = random_problem(11, n=60, d=8, k=3)
    objective = problem(X, y, "softmax")
    one, again, other = (fobos.solve(objective, tol=0.0, max_iter=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.weights, again.weights)
    assert not np.array_equal(one.weights, other.weights)
    slow = fobos.solve(objective, tol=0.0, max_iter=5, rate=1e-3)
    assert slow.certificate.primal > one.certificate.primal
    for rate in (0.0, -1.0, math.inf, math.nan, "fast"):
        with pytest.raises(OptionError, match="rate"):
            fobos.solve(objective, rate=rate)


def test_fobos_pays_rare_features_what_is_due_to_them():
    """A feature that no row has any more must die of its penalty, exactly as if it had been pulled at every step."""
    rng = np.random.default_rng(3)
    X = np.hstack([rng.normal(size=(40, 3)), np.zeros((40, 1))])
    y = (X[:, 0] > 0).astype(int)
    objective = problem(X, y, "logistic", "l1/l2", alpha=0.05, fit_intercept=False)
    start = np.zeros((4, 1))
    start[3] = 0.5
    rate = 0.1
    found = fobos.solve(objective, tol=0.0, max_iter=1, rate=rate, start=start)
    lengths = rate / np.sqrt(np.arange(1, 41))
    assert found.weights[3, 0] == pytest.approx(max(0.5 - 0.05 * lengths.sum(), 0.0), rel=1e-9)


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_a_large_alpha_gives_no_weights_at_once(solver):
    X, y = random_problem(12, n=60, d=8, k=3)
    objective = problem(X, y, "softmax")
    found = solver.solve(objective.with_alpha(10.5 * objective.regulariser.alpha), tol=1e-6)
    assert not found.weights.any()
    assert len(found.history) == 1
    assert found.certificate.value <= 1e-6


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_callbacks_end_a_fit_and_limits_are_kept(solver):
    X, y = random_problem(13, n=60, d=8, k=3)
    objective = problem(X, y, "softmax")
    seen = []
    found = solver.solve(
        objective, tol=0.0, callbacks=[lambda snapshot: seen.append(snapshot.objective) or len(seen) == 4]
    )
    assert found.status == "stopped"
    assert len(seen) == 4 == len(found.history)
    assert all(math.isfinite(value) for value in seen)
    assert solver.solve(objective, tol=0.0, max_iter=3).status == "max_iter"
    assert solver.solve(objective, tol=0.0, max_time=0.0).status == "max_time"


def test_bad_choices_are_named():
    X, y = random_problem(14, n=40, d=5, k=3)
    objective = problem(X, y, "softmax")
    with pytest.raises(OptionError, match="step"):
        fista.solve(objective, step="fixed")
    with pytest.raises(OptionError, match="constant"):
        fista.solve(objective, step="constant", constant="none")
    with pytest.raises(OptionError, match="no meaning"):
        fista.solve(objective, constant="trace")
    for solver in (fista, sparsa):
        with pytest.raises(OptionError, match="smooth"):
            solver.solve(problem(X, y, "hinge", alpha=0.1))
    with pytest.raises(OptionError, match="groups"):
        fobos.solve(problem(X, y, "softmax", alpha=0.1, groups=[[0, 1], [2, 3, 4]]))


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_odd_columns_and_rows(solver):
    X, y = random_problem(15, n=50, d=6, k=3)
    X = sparse.csr_array(np.hstack([X.toarray(), np.zeros((50, 1)), np.ones((50, 1)), X.toarray()[:, :1]]))
    X = sparse.csr_array(np.vstack([X.toarray(), np.zeros((2, 9))]))
    y = np.concatenate([y, [0, 1]])
    found = solver.solve(problem(X, y, "multiclass_squared_hinge"), tol=1e-2, max_iter=5000)
    assert found.status == "converged"
    assert not found.weights[6].any()
    assert not found.weights[7].any()  # the intercept does its work
