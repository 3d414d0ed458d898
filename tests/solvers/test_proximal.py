"""FISTA, SpaRSA and FOBOS against a plain NumPy twin: certified optimality for every loss and penalty, edges."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import twin
from conftest import random_problem
from objectives import label_sets, objective_on, telling_rows
from scipy import sparse

from lineal import losses, penalties, solvers
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.solvers import fista, sparsa
from lineal.solvers.fobos import fobos

slow = pytest.mark.slow

PENALTIES = ["l1/l2", "l1/linf", "sparse_group", "l1", "elastic_net", "l2"]
SMOOTH = ["squared_hinge", "logistic", "squared", "softmax", "multiclass_squared_hinge", "label_ranking"]
GROUPS = [[0, 4, 7], [1, 2], [3, 5, 6]]


@cache
def hard_case(loss, penalty, grouped):
    """An objective with weights, offsets and factors (and groups), and its minimum by the twin."""
    X, y = telling_rows(5)
    rng = np.random.default_rng(1)
    s, o = rng.integers(1, 4, 60).astype(float), 0.3 * rng.normal(size=(60, 3))
    groups = GROUPS if grouped else [[j] for j in range(8)]
    factors = rng.uniform(0.5, 2.0, len(groups))
    Y = label_sets(2, 60, 3) if loss == "label_ranking" else twin.indicator(y, 3)
    objective = objective_on(
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
    X, y = telling_rows(6, n=70)
    objective = objective_on(X, y, "multiclass_squared_hinge", penalty)
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


@pytest.mark.parametrize("solver", [fista, sparsa, pytest.param(fobos, marks=slow)])
def test_weights_are_repeated_rows_and_layouts_precisions_and_orders_of_classes_agree(solver):
    X, y = telling_rows(9, n=50, d=7)
    tol, near = (1e-2, 2e-2) if solver is fobos else (1e-7, 1e-6)
    counts = np.random.default_rng(0).integers(0, 4, 50)
    counts[:3] = 1
    rows = np.repeat(np.arange(50), counts)
    wanted = solver.solve(objective_on(X, y, "squared_hinge", alpha=0.02, weights=counts), tol=tol, max_iter=20_000)
    primal = wanted.certificate.primal
    repeated = solver.solve(objective_on(X[rows], y[rows], "squared_hinge", alpha=0.02), tol=tol, max_iter=20_000)
    assert repeated.certificate.primal == pytest.approx(primal, rel=near)
    order = np.array([2, 0, 1])
    turned = solver.solve(
        objective_on(X, order[y], "squared_hinge", alpha=0.02, weights=counts), tol=tol, max_iter=20_000
    )
    assert turned.certificate.primal == pytest.approx(primal, rel=near)
    if solver is not fobos:
        np.testing.assert_allclose(turned.weights[:, order], wanted.weights, atol=1e-3)
    for other in (X.toarray(), X.tocsc(), np.asfortranarray(X.toarray()), X.astype(np.float32)):
        objective = objective_on(other, y, "squared_hinge", alpha=0.02, weights=counts, threads=2)
        found = solver.solve(objective, tol=max(tol, 1e-5), max_iter=20_000, n_jobs=2)
        assert found.status == "converged"
        assert found.weights.dtype == other.dtype
        assert found.certificate.primal == pytest.approx(primal, rel=max(near, 2e-5))


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_threads_and_blocks_of_rows_change_nothing(solver):
    X, y = telling_rows(16, n=300, d=9000, density=0.02)
    one, two = (
        solver.solve(objective_on(X, y, "softmax", threads=threads), tol=0.0, max_iter=20, n_jobs=threads)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.weights, two.weights)
    cut = objective_on(X, y, "softmax")
    engine = cut.engine
    blocks = LocalEngine(engine.X, engine.targets, engine.weights, engine.n_columns, block_rows=70)
    other = solver.solve(Objective(blocks, cut.loss, cut.regulariser), tol=0.0, max_iter=20)
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-10)


@pytest.mark.parametrize("solver", [fista, sparsa])
def test_unpenalised_features_no_penalty_and_centres(solver):
    X, y = telling_rows(17, n=80, d=6)
    Y, s = twin.indicator(y, 3), np.ones(80)
    factors = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    objective = objective_on(X, y, "squared", alpha=0.05, factors=factors, intercept=False)
    found = solver.solve(objective, tol=1e-7, max_iter=20_000)
    assert (found.status, found.certificate.kind) == ("converged", "violation")
    groups = [[j] for j in range(6)]
    W, _, value = twin.proximal_gradient(
        "squared", Y, X.toarray(), s, "l1/l2", 0.05 * factors, groups, fit_intercept=False
    )
    assert found.certificate.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(found.weights, W, atol=1e-4)
    free = solver.solve(objective_on(X, y, "squared", "l2", alpha=0.0, intercept=False), tol=1e-8, max_iter=20_000)
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
    assert solver.solve(objective_on(X, y, "softmax"), tol=1e-6, max_iter=20_000).status == "converged"
    Z, y = telling_rows(19)
    Z = Z.toarray()
    Z[:, 2] = 2000.0 + Z[:, 2]
    assert solver.solve(objective_on(Z, y, "logistic", "l1"), tol=1e-5, max_iter=20_000).status == "converged"


@pytest.mark.parametrize("solver", [fista, sparsa])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_units_of_the_features_do_not_matter(solver, scale):
    """W/scale at α·scale is the same model, though the curvature of W changes beside that of the intercept."""
    objective, (W, _, value), _ = hard_case("softmax", "l1/l2", False)
    engine, regulariser = objective.engine, objective.regulariser
    scaled = LocalEngine(wrap(scale * telling_rows(5)[0]), engine.targets, engine.weights, 3, engine.offsets)
    found = solver.solve(
        Objective(scaled, objective.loss, regulariser.with_alpha(scale * regulariser.alpha)), tol=1e-8, max_iter=20_000
    )
    assert found.status == "converged"
    assert found.certificate.primal == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(scale * found.weights, W, atol=1e-3)


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_a_large_alpha_gives_no_weights_at_once(solver):
    X, y = telling_rows(12)
    objective = objective_on(X, y, "softmax")
    found = solver.solve(objective.with_alpha(10.5 * objective.regulariser.alpha), tol=1e-6)
    assert not found.weights.any()
    assert len(found.history) == 1
    assert found.certificate.value <= 1e-6


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_callbacks_end_a_fit_limits_are_kept_and_a_start_is_used(solver):
    X, y = telling_rows(13)
    objective = objective_on(X, y, "softmax")
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
    X, y = telling_rows(14)
    found = solver.solve(objective_on(X.astype(np.float32), y, "softmax"), tol=1e-14, max_iter=100_000)
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


def test_auto_takes_a_solver_that_runs_where_the_rows_are():
    X, y = telling_rows(13)
    for loss, penalty, names in (
        ("softmax", "l1/l2", ("sparsa", "fista")),
        ("logistic", "l1", ("sparsa", "fista")),
        ("logistic", "l2", ("lbfgs", "newton")),
    ):
        objective = objective_on(X, y, loss, penalty, alpha=0.1)
        far = replace(objective, engine=Elsewhere(objective.engine))
        found = solvers.pick("auto", far, 1e-3)
        assert found.name in names
        assert found(far, tol=1e-3, max_iter=5000).status == "converged"


def test_bad_choices_are_named():
    X, y = random_problem(14, n=40, d=5, k=3)
    objective = objective_on(X, y, "softmax")
    with pytest.raises(OptionError, match="step"):
        fista.solve(objective, step="fixed")
    with pytest.raises(OptionError, match="constant"):
        fista.solve(objective, step="constant", constant="none")
    with pytest.raises(OptionError, match="no effect"):
        fista.solve(objective, constant="trace")
    for solver in (fista, sparsa):
        with pytest.raises(OptionError, match="smooth"):
            solver.solve(objective_on(X, y, "hinge", alpha=0.1))
    with pytest.raises(OptionError, match="schedule='slow'"):
        fobos.solve(objective, schedule="slow")
    with pytest.raises(OptionError, match="groups"):
        fobos.solve(objective_on(X, y, "softmax", alpha=0.1, groups=[[0, 1], [2, 3, 4]]))


@pytest.mark.parametrize("solver", [fista, sparsa, fobos])
def test_odd_columns_and_rows(solver):
    """An empty, a constant and a repeated column; empty rows; a class with one row."""
    X, y = random_problem(15, n=50, d=6, k=3)
    y = np.concatenate([np.where(y == 2, 1, y), [2]])
    X = sparse.csr_array(np.vstack([X.toarray(), np.zeros((1, 6))]))
    found = solver.solve(objective_on(X, y, "multiclass_squared_hinge"), tol=1e-2, max_iter=5000)
    assert found.status == "converged"
    assert not found.weights[1].any()


def test_auto_takes_proximal_solvers_only_where_nothing_else_can():
    X, y = random_problem(20, n=40, d=5, k=3)
    for penalty in PENALTIES:
        for loss in [*SMOOTH, "hinge", "crammer_singer"]:
            name = solvers.pick("auto", objective_on(X, y, loss, penalty, alpha=0.1), 1e-3).name
            if losses.get(loss).is_smooth:
                assert name not in ("fobos", "sparsa")
            else:
                assert name == ("dual_cd" if penalty == "l2" else "multipliers")
