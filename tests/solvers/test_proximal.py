"""FISTA, SpaRSA and FOBOS against a plain NumPy twin: certified optimality for every loss and penalty, edges."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import twin
from conftest import random_problem
from scipy import sparse

from lineal import losses, penalties, solvers
from lineal.core import threads as threads_module
from lineal.core.rng import generator, shuffle
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.linear.search.alphas import largest_alpha
from lineal.numerics.composite import Composite
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import encode
from lineal.solvers import fista, sparsa
from lineal.solvers.dual_cd import dual_cd
from lineal.solvers.fobos import fobos

slow = pytest.mark.slow

PENALTIES = ["l1/l2", "l1/linf", "sparse_group", "l1", "elastic_net", "l2"]
SMOOTH = ["squared_hinge", "logistic", "squared", "softmax", "multiclass_squared_hinge", "label_ranking"]
GROUPS = [[0, 4, 7], [1, 2], [3, 5, 6]]


def problem(
    X, y, loss, penalty="l1/l2", alpha=None, *, intercept=True, weights=None, groups=None, offsets=None, factors=None,
    threads=1,
):  # fmt: skip
    kind = losses.get(loss)
    encoded = encode(y, direct=kind.is_direct)
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, offsets, threads)
    regulariser = Regulariser(penalties.get(penalty), 1.0, X.shape[1], factors=factors, groups=groups)
    objective = Objective(engine, kind, regulariser, intercept)
    if alpha is None:
        alpha = 0.05 if penalty == "l2" else 0.1 * largest_alpha(objective)
    return objective.with_alpha(alpha)


def telling_problem(seed, n=60, d=8, k=3, density=0.6):
    """Labels that the first features tell, with noise; no column twice, so that the answer is unique."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[0], X[:, d - 1] = 0.0, 1.0
    V = np.zeros((d, k))
    V[: d // 2] = rng.normal(size=(d // 2, k))
    y = np.argmax(X @ V + 0.5 * rng.normal(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return sparse.csr_array(X), y


def label_sets(seed, n, k):
    """With a row of all labels and one of none."""
    Y = np.random.default_rng(seed).random((n, k)) < 0.4
    Y[0], Y[1] = True, False
    return Y


@cache
def hard_case(loss, penalty, grouped):
    """An objective with weights, offsets and factors (and groups), and its minimum by the twin."""
    X, y = telling_problem(5)
    rng = np.random.default_rng(1)
    s, o = rng.integers(1, 4, 60).astype(float), 0.3 * rng.normal(size=(60, 3))
    groups = GROUPS if grouped else [[j] for j in range(8)]
    factors = rng.uniform(0.5, 2.0, len(groups))
    Y = label_sets(2, 60, 3) if loss == "label_ranking" else twin.indicator(y, 3)
    objective = problem(
        X, Y if loss == "label_ranking" else y, loss, penalty, weights=s, offsets=o, factors=factors,
        groups=GROUPS if grouped else None,
    )  # fmt: skip
    strengths = objective.regulariser.strengths
    best = twin.proximal_gradient(loss, Y, X.toarray(), s, penalty, strengths, groups, o)
    return objective, best, (Y, X.toarray(), s, o, groups)


CASES = [(loss, penalty, False) for loss in SMOOTH for penalty in PENALTIES]
CASES += [("softmax", penalty, True) for penalty in PENALTIES[:3]] + [("label_ranking", "l1/l2", True)]


@pytest.mark.parametrize(
    ("loss", "penalty", "grouped"),
    [case if case[0] == "softmax" or case[1] == "l1/l2" else pytest.param(*case, marks=slow) for case in CASES],
)
@pytest.mark.parametrize("solver", [fista, sparsa])
def test_gaps_of_1e6_are_met_and_minima_are_those_of_the_twin(solver, loss, penalty, grouped):
    objective, (W, _, value), (Y, X, s, o, groups) = hard_case(loss, penalty, grouped)
    found = solver.solve(objective, tol=1e-6, max_iter=20_000)
    assert (found.status, found.certificate.kind) == ("converged", "gap")
    assert found.certificate.value <= 1e-6
    assert found.certificate.dual <= value * (1 + 1e-9)
    assert value * (1 - 1e-9) <= found.certificate.primal <= value * (1 + 1e-6)
    best = solver.solve(objective, tol=1e-11, max_iter=3000, start=found)  # rounding may forbid a gap this small
    assert best.certificate.primal == pytest.approx(value, rel=1e-8)
    if not (grouped and penalty == "l1/linf"):  # below the largest weight of a group, a constant is free to be b
        np.testing.assert_allclose(best.weights, W, atol=1e-4)
    # Conditions of optimality, from the penalty's own subdifferential.
    G, intercept_gradient = twin.objective_gradient(loss, Y, X, best.weights, best.intercept, s, 0.0, o)
    assert np.abs(intercept_gradient).max() <= 1e-4
    for strength, group in zip(objective.regulariser.strengths, groups):
        assert twin.is_optimal(penalty, best.weights[group], G[group], strength, 1e-4)
        if penalty == "l1/l2":  # the weights of a group are zero together
            assert not best.weights[group].any() or best.weights[group].any(axis=1).all()


def test_the_condition_of_optimality_is_not_empty():
    """The twin's conditions refuse a point that is not optimal."""
    objective, _, (Y, X, s, o, groups) = hard_case("softmax", "l1/linf", False)
    W = np.random.default_rng(0).normal(size=(8, 3))
    G, _ = twin.objective_gradient("softmax", Y, X, W, np.zeros(3), s, 0.0, o)
    for penalty in PENALTIES:
        assert not all(
            twin.is_optimal(penalty, W[group], G[group], strength, 1e-4)
            for strength, group in zip(objective.regulariser.strengths, groups)
        )


@pytest.mark.parametrize("penalty", ["l1/l2", "elastic_net"])
def test_constant_steps_find_the_same_minimum(penalty):
    X, y = telling_problem(6, n=70)
    objective = problem(X, y, "multiclass_squared_hinge", penalty)
    runs = [
        fista.solve(objective, tol=1e-8, max_iter=50_000),
        fista.solve(objective, tol=1e-8, max_iter=50_000, step="constant"),
        fista.solve(objective, tol=1e-8, max_iter=200_000, step="constant", constant="trace"),
    ]
    assert [run.status for run in runs] == ["converged"] * 3
    for run in runs[1:]:
        assert run.certificate.primal == pytest.approx(runs[0].certificate.primal, rel=2e-8)
        np.testing.assert_allclose(run.weights, runs[0].weights, atol=1e-3)
    assert len(runs[1].history) < len(runs[2].history)  # the trace is the looser bound


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 8])
def test_constants_bound_the_curvature(d, intercept):
    """Against the eigenvalues of the whole matrix, with features far from the origin."""
    X = telling_problem(7, d=8)[0].toarray()[:, :d] + 30.0
    y = telling_problem(7)[1]
    s = np.random.default_rng(0).random(60)
    composite = Composite(problem(X, y, "multiclass_squared_hinge", alpha=1.0, intercept=intercept, weights=s), 1)
    s = s / s.sum()
    centred = X - s @ X if intercept else X
    wanted = 2 * 3 * np.linalg.eigvalsh(centred.T @ (s[:, None] * centred))[-1]
    assert wanted * (1 - 1e-9) <= composite.spectral_curvature() <= wanted * 1.05
    raw = (s @ (X**2)).sum()
    largest = (s @ (X - s @ X) ** 2).max()  # the intercept's unit squared is a power of four near it
    trace = composite.trace_curvature() / (4 * 2)
    assert raw + intercept * largest / 4 <= trace * (1 + 1e-9)
    assert trace <= (raw + intercept * largest) * (1 + 1e-9)


@pytest.mark.parametrize("solver", [fista, sparsa, pytest.param(fobos, marks=slow)])
def test_weights_are_repeated_rows_and_layouts_precisions_and_orders_of_classes_agree(solver):
    X, y = telling_problem(9, n=50, d=7)
    tol, near = (1e-2, 2e-2) if solver is fobos else (1e-7, 1e-6)
    counts = np.random.default_rng(0).integers(0, 4, 50)
    counts[:3] = 1
    rows = np.repeat(np.arange(50), counts)
    wanted = solver.solve(problem(X, y, "squared_hinge", alpha=0.02, weights=counts), tol=tol, max_iter=20_000)
    primal = wanted.certificate.primal
    repeated = solver.solve(problem(X[rows], y[rows], "squared_hinge", alpha=0.02), tol=tol, max_iter=20_000)
    assert repeated.certificate.primal == pytest.approx(primal, rel=near)
    order = np.array([2, 0, 1])
    turned = solver.solve(problem(X, order[y], "squared_hinge", alpha=0.02, weights=counts), tol=tol, max_iter=20_000)
    assert turned.certificate.primal == pytest.approx(primal, rel=near)
    if solver is not fobos:
        np.testing.assert_allclose(turned.weights[:, order], wanted.weights, atol=1e-3)
    for other in (X.toarray(), X.tocsc(), np.asfortranarray(X.toarray()), X.astype(np.float32)):
        objective = problem(other, y, "squared_hinge", alpha=0.02, weights=counts, threads=2)
        found = solver.solve(objective, tol=max(tol, 1e-5), max_iter=20_000, n_jobs=2)
        assert found.status == "converged"
        assert found.weights.dtype == other.dtype
        assert found.certificate.primal == pytest.approx(primal, rel=max(near, 2e-5))


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_threads_and_blocks_of_rows_change_nothing(solver):
    X, y = telling_problem(16, n=300, d=9000, density=0.02)
    one, two = (
        solver.solve(problem(X, y, "softmax", threads=threads), tol=0.0, max_iter=20, n_jobs=threads)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.weights, two.weights)
    cut = problem(X, y, "softmax")
    engine = cut.engine
    blocks = LocalEngine(engine.X, engine.targets, engine.weights, engine.n_columns, block_rows=70)
    other = solver.solve(Objective(blocks, cut.loss, cut.regulariser), tol=0.0, max_iter=20)
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-10)


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_unpenalised_features_no_penalty_and_centres(solver):
    X, y = telling_problem(17, n=80, d=6)
    Y, s = twin.indicator(y, 3), np.ones(80)
    factors = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    objective = problem(X, y, "squared", alpha=0.05, factors=factors, intercept=False)
    found = solver.solve(objective, tol=1e-7, max_iter=20_000)
    assert (found.status, found.certificate.kind) == ("converged", "violation")
    groups = [[j] for j in range(6)]
    W, _, value = twin.proximal_gradient(
        "squared", Y, X.toarray(), s, "l1/l2", 0.05 * factors, groups, fit_intercept=False
    )
    assert found.certificate.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(found.weights, W, atol=1e-4)
    free = solver.solve(problem(X, y, "squared", "l2", alpha=0.0, intercept=False), tol=1e-8, max_iter=20_000)
    np.testing.assert_allclose(free.weights, np.linalg.lstsq(X.toarray(), twin.signs(Y))[0], atol=1e-4)
    V = np.random.default_rng(0).normal(size=(6, 3))
    centred = Objective(objective.engine, objective.loss, Regulariser(penalties.get("l2"), 0.5, 6, centre=V), False)
    shifted = twin.signs(Y) - X @ V  # the same problem by W − V
    A = X.toarray().T @ X.toarray() / 80 + 0.5 * np.eye(6)
    wanted = V + np.linalg.solve(A, X.T @ shifted / 80)
    np.testing.assert_allclose(solver.solve(centred, tol=1e-9, max_iter=20_000).weights, wanted, atol=1e-4)


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_more_features_than_rows_and_far_columns(solver):
    X, y = random_problem(18, n=12, d=40, k=3)
    assert solver.solve(problem(X, y, "softmax"), tol=1e-6, max_iter=20_000).status == "converged"
    Z, y = telling_problem(19)
    Z = Z.toarray()
    Z[:, 2] = 2000.0 + Z[:, 2]
    assert solver.solve(problem(Z, y, "logistic", "l1"), tol=1e-5, max_iter=20_000).status == "converged"


@pytest.mark.parametrize("solver", [fista, sparsa])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_units_of_the_features_do_not_matter(solver, scale):
    """W/scale at α·scale is the same model, though the curvature of W changes beside that of the intercept."""
    objective, (W, _, value), _ = hard_case("softmax", "l1/l2", False)
    engine, regulariser = objective.engine, objective.regulariser
    scaled = LocalEngine(wrap(scale * telling_problem(5)[0]), engine.targets, engine.weights, 3, engine.offsets)
    found = solver.solve(
        Objective(scaled, objective.loss, regulariser.with_alpha(scale * regulariser.alpha)), tol=1e-8, max_iter=20_000
    )
    assert found.status == "converged"
    assert found.certificate.primal == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(scale * found.weights, W, atol=1e-3)


# Passes are compiled by loss and penalty: each of one kind is here with one of the other, and hinge with what dual_cd
# takes too.
FOBOS_CASES = [(loss, "l1/l2") for loss in ["hinge", "crammer_singer", *SMOOTH]]
FOBOS_CASES += [("softmax", penalty) for penalty in PENALTIES[1:]] + [("hinge", "l2")]


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [case if case == ("softmax", "l1/l2") else pytest.param(*case, marks=slow) for case in FOBOS_CASES],
)
def test_fobos_reaches_a_gap_of_1e2(loss, penalty):
    X, y = telling_problem(10, n=80)
    Y = label_sets(2, 80, 3) if loss == "label_ranking" else y
    rng = np.random.default_rng(0)
    s, o = rng.integers(0, 3, 80).astype(float), 0.3 * rng.normal(size=(80, 3))
    s[:3] = 1.0
    objective = problem(X, Y, loss, penalty, alpha=0.1 if penalty == "l2" else 0.03, weights=s, offsets=o)
    found = fobos.solve(objective, tol=1e-2, max_iter=20_000)
    assert (found.status, found.certificate.kind) == ("converged", "gap")
    assert found.certificate.value <= 1e-2
    assert found.weights.any()
    assert found.certificate.primal == pytest.approx(objective.value(objective.theta_of(found)), rel=1e-12)
    if losses.get(loss).is_smooth:
        best = fista.solve(objective, tol=1e-8, max_iter=20_000).certificate.primal
    elif penalty == "l2":
        best = dual_cd.solve(objective, tol=1e-6, max_iter=20_000).certificate.primal
    else:
        return
    assert found.certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= found.certificate.primal <= best * 1.0102


def test_fobos_draws_by_its_seed_and_takes_a_rate():
    X, y = telling_problem(11)
    objective = problem(X, y, "softmax")
    one, again, other = (fobos.solve(objective, tol=0.0, max_iter=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.weights, again.weights)
    assert not np.array_equal(one.weights, other.weights)
    slow = fobos.solve(objective, tol=0.0, max_iter=5, rate=1e-3)
    assert slow.certificate.primal > one.certificate.primal
    for rate in (0.0, -1.0, math.inf, math.nan, "fast"):
        with pytest.raises(OptionError, match="rate"):
            fobos.solve(objective, rate=rate)


def test_fobos_tries_its_rates_on_as_many_threads_as_it_may_use(monkeypatch):
    objective, seen = problem(*telling_problem(11), "softmax"), []

    def run(tasks, threads):
        seen.append((len(tasks), threads))
        return threads_module.run(tasks, threads)

    monkeypatch.setattr(fobos, "pool", SimpleNamespace(run=run))
    one, two = (fobos.solve(objective, tol=0.0, max_iter=5, n_jobs=threads) for threads in (1, 2))
    assert seen == [(8, 1), (8, 2)]
    np.testing.assert_array_equal(one.weights, two.weights)


@pytest.mark.parametrize("schedule", ["bounded", "plain"])
@pytest.mark.parametrize("penalty", ["l1/l2", *(pytest.param(penalty, marks=slow) for penalty in PENALTIES[1:])])
def test_fobos_pays_late_what_steps_one_by_one_would_have_taken(penalty, schedule):
    """Same as a pass that applies the penalty to all features at every row; no row has one of them, one row another."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.2)
    X[:, 5] = 0.0
    y = np.argmax(X[:, :3] + 0.1 * rng.normal(size=(40, 3)), axis=1)
    y[:3] = np.arange(3)
    alpha, rate, factors = 0.3, 0.5, np.array([1.0, 0.5, 2.0, 1.0, 0.0, 1.5])
    objective = problem(sparse.csr_array(X), y, "softmax", penalty, alpha=alpha, factors=factors, intercept=False)
    start = rng.normal(size=(6, 3))
    found = fobos.solve(objective, tol=0.0, max_iter=1, rate=rate, start=start, seed=4, schedule=schedule)
    order = np.arange(40)
    shuffle(generator(4), order)
    # Steps are η₀/√(first + t): ½ bounds the curvature of softmax.
    first = (rate * 0.5 * np.sum(X**2) / 40) ** 2 if schedule == "bounded" else 0.0
    W, Y = start.copy(), twin.indicator(y, 3)
    for t, i in enumerate(order, start=1):
        length = rate / math.sqrt(first + t)
        W -= length * X[i][:, None] * twin.gradients("softmax", Y[i : i + 1], X[i : i + 1] @ W)
        W = np.array([twin.prox(penalty, w, length * alpha * f) for w, f in zip(W, factors)])
    near = 1e-10 if penalties.get(penalty).is_additive else 0.02
    assert not np.allclose(W, start, atol=0.1)
    np.testing.assert_allclose(found.weights, W, atol=near, rtol=near)


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_a_large_alpha_gives_no_weights_at_once(solver):
    X, y = telling_problem(12)
    objective = problem(X, y, "softmax")
    found = solver.solve(objective.with_alpha(10.5 * objective.regulariser.alpha), tol=1e-6)
    assert not found.weights.any()
    assert len(found.history) == 1
    assert found.certificate.value <= 1e-6


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_callbacks_end_a_fit_limits_are_kept_and_a_start_is_used(solver):
    X, y = telling_problem(13)
    objective = problem(X, y, "softmax")
    seen = []
    found = solver.solve(
        objective, tol=0.0, callbacks=[lambda snapshot: seen.append(snapshot.objective) or len(seen) == 4]
    )
    assert found.status == "stopped"
    assert len(seen) == 4 == len(found.history)
    assert all(math.isfinite(value) for value in seen)
    assert found.certificate.primal == pytest.approx(min(seen), rel=1e-9)
    assert solver.solve(objective, tol=0.0, max_iter=3).status == "max_iter"
    assert solver.solve(objective, tol=0.0, max_time=0.0).status == "max_time"
    best = fista.solve(objective, tol=1e-8, max_iter=20_000)
    assert len(solver.solve(objective, tol=1e-6, start=best).history) == 1


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_what_float32_cannot_reach_ends_as_stalled(solver):
    X, y = telling_problem(14)
    found = solver.solve(problem(X.astype(np.float32), y, "softmax"), tol=1e-14, max_iter=100_000)
    assert found.status == "stalled"
    assert found.certificate.value < 1e-4


class Elsewhere:
    """An engine whose rows are not to be had, but for their sums."""

    def __init__(self, engine):
        self.engine = engine

    def __getattr__(self, name):
        if name in ("X", "blocks", "targets", "weights", "offsets"):
            raise AttributeError(name)
        return getattr(self.engine, name)


def test_fobos_refuses_rows_held_elsewhere_and_says_what_runs_there():
    objective = problem(*telling_problem(13), "softmax", alpha=0.1)
    far = replace(objective, engine=Elsewhere(objective.engine))
    with pytest.raises(OptionError, match="Elsewhere holds them elsewhere: use solver='sparsa' or 'fista'"):
        fobos.solve(far)


def test_auto_takes_a_solver_that_runs_where_the_rows_are():
    X, y = telling_problem(13)
    for loss, penalty, names in (
        ("softmax", "l1/l2", ("sparsa", "fista")),
        ("logistic", "l1", ("sparsa", "fista")),
        ("logistic", "l2", ("lbfgs", "newton")),
    ):
        objective = problem(X, y, loss, penalty, alpha=0.1)
        far = replace(objective, engine=Elsewhere(objective.engine))
        found = solvers.pick("auto", far, 1e-3)
        assert found.name in names
        assert found(far, tol=1e-3, max_iter=5000).status == "converged"


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
    with pytest.raises(OptionError, match="schedule='slow'"):
        fobos.solve(objective, schedule="slow")
    with pytest.raises(OptionError, match="groups"):
        fobos.solve(problem(X, y, "softmax", alpha=0.1, groups=[[0, 1], [2, 3, 4]]))


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_odd_columns_and_rows(solver):
    """An empty, a constant and a repeated column; empty rows; a class with one row."""
    X, y = random_problem(15, n=50, d=6, k=3)
    y = np.concatenate([np.where(y == 2, 1, y), [2]])
    X = sparse.csr_array(np.vstack([X.toarray(), np.zeros((1, 6))]))
    found = solver.solve(problem(X, y, "multiclass_squared_hinge"), tol=1e-2, max_iter=5000)
    assert found.status == "converged"
    assert not found.weights[1].any()


def test_auto_takes_proximal_solvers_only_where_nothing_else_can():
    X, y = random_problem(20, n=40, d=5, k=3)
    for penalty in PENALTIES:
        for loss in [*SMOOTH, "hinge", "crammer_singer"]:
            name = solvers.pick("auto", problem(X, y, loss, penalty, alpha=0.1), 1e-3).name
            if losses.get(loss).is_smooth:
                assert name not in ("fobos", "sparsa")
            else:
                assert name == ("dual_cd" if penalty == "l2" else "fobos")
