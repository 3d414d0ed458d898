"""Consensus ADMM against other solvers, single steps, and rows in other places."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
from file_rows import cut_into, limit_scratch, problem_in, write_files
from objectives import label_sets, objective_on, telling_rows
from served_rows import ServedRows

from lineal import LinearClassifier
from lineal.errors import DataError, OptionError
from lineal.linear.options import TrainOptions
from lineal.problem.checkpoint import EVERY_VARIABLE, Checkpoint
from lineal.problem.minimise import minimise
from lineal.solvers import admm as package
from lineal.solvers import dual_cd, fista, get, shard_fit
from lineal.solvers.admm.consensus import Begin, Iterate, Kept

admm = package.solve

#: Loss, penalty: all losses with l2, and each sparse penalty with a smooth loss and one with kinks.
CASES = [
    ("squared_hinge", "l2"), ("softmax", "l2"), ("hinge", "l2"), ("crammer_singer", "l2"), ("logistic", "l1"),
    ("hinge", "l1"), ("softmax", "l1/l2"), ("squared_hinge", "elastic_net"), ("crammer_singer", "l1/linf"),
    ("label_ranking", "sparse_group"), ("multiclass_squared_hinge", "l2"), ("squared", "l1/linf"),
]  # fmt: skip
QUICK = CASES[:2] + CASES[4:6]


def problem(loss, penalty, seed=10, **options):
    X, y = telling_rows(seed, n=80)
    Y = label_sets(2, 80, 3) if loss == "label_ranking" else y
    rng = np.random.default_rng(0)
    s = rng.integers(0, 3, 80).astype(float)
    s[:3] = 1.0
    given = {"alpha": 0.1 if penalty == "l2" else 0.03, "weights": s, "offsets": 0.3 * rng.normal(size=(80, 3))}
    return objective_on(X, Y, loss, penalty, **{**given, **options})


@pytest.mark.parametrize(
    ("loss", "penalty"), [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
def test_the_fixed_point_is_the_certified_optimum(loss, penalty):
    objective = problem(loss, penalty)
    has_kinks = not objective.loss.is_smooth
    tol = 1e-6 if not has_kinks else 1e-3 if penalty == "l2" else 1e-2
    found = admm(objective, tol=tol, max_iter=500)
    assert (found.status, found.certificate.kind) == ("converged", "gap")
    assert found.certificate.value <= tol
    assert found.certificate.primal == pytest.approx(objective.value(objective.theta_of(found)), rel=1e-12)
    if not has_kinks:
        best = fista.solve(objective, tol=1e-11, max_iter=20_000)
        if penalty == "l2":  # strongly convex: the gap bounds the distance
            far = np.linalg.norm(found.weights - best.weights)
            assert far <= np.sqrt(2 * tol * best.certificate.primal / 0.1)
        assert found.certificate.primal <= best.certificate.primal * (1 + 2 * tol)
        assert found.certificate.dual <= best.certificate.primal * (1 + 1e-12)
    elif penalty == "l2":
        best = dual_cd.solve(objective, tol=1e-6, max_iter=20_000).certificate.primal
        assert best * (1 - 1e-6) <= found.certificate.primal <= best * (1 + 2 * tol)


def test_one_iteration_by_hand():
    """θ_j of every shard minimises its own loss plus ρ/2‖θ − z + u_j‖², and z is the prox of their mean."""
    objective = problem("logistic", "l1")
    rho, gamma = 0.3, 1.5
    shards = objective.engine.shards(3, 0)
    step = Iterate(objective.loss, 1.0, gamma)
    z = np.random.default_rng(3).normal(size=objective.shape)
    state = shards.state(Begin(objective.loss, 1.0), z, rho, np.zeros_like(z))
    before = [piece["sum"].copy() - z for piece in shards.gather(_piece, states=(state,))]
    mean, *_ = shards.sum(step, z, rho, rho, 1e-13, None, states=(state.to(z, rho, None),))
    total = np.zeros_like(z)
    for block, u, piece in zip(shards.blocks(), before, shards.gather(_piece, states=(state,))):
        share, theta = block.weights.sum(), piece["theta"]
        own = objective_on_block(objective, block)
        _, gradient = own.loss_and_gradient(theta)
        np.testing.assert_allclose(gradient + rho * (theta - z + u), 0.0, atol=1e-6)
        np.testing.assert_allclose(piece["sum"], u + gamma * theta + (1 - gamma) * z, atol=1e-12)
        total += share * piece["sum"]
    np.testing.assert_allclose(mean, total, atol=1e-12)


def _piece(block, piece):
    return {name: array.copy() for name, array in piece.items()}


def objective_on_block(objective, block):
    from lineal.engine.local import LocalEngine

    engine = LocalEngine(block.X, block.targets, block.weights / block.weights.sum(), 3, block.offsets)
    return replace(objective, engine=engine)


def test_multipliers_at_the_start():
    """A start that is optimal stays where it is; with u_j = (∇F − ∇f_j)/ρ the gradient of all rows is followed."""
    objective = problem("squared_hinge", "l2")
    best = fista.solve(objective, tol=1e-12, max_iter=20_000)
    warm = admm(objective, start=best, tol=1e-30, max_iter=3)
    assert max(row["gap"] for row in warm.history if row["gap"] is not None) < 1e-6
    np.testing.assert_allclose(warm.weights, best.weights, atol=1e-5)
    cold = admm(objective, tol=1e-30, max_iter=3)
    assert abs(cold.weights - best.weights).max() > 1e-3


@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_number_of_shards_and_threads(count):
    objective = problem("squared_hinge", "l2")
    found = admm(objective, tol=1e-6, shards=count, max_iter=500)
    assert found.status == "converged"
    again = admm(objective.with_threads(2), tol=1e-6, shards=count, max_iter=500, n_jobs=2)
    np.testing.assert_array_equal(found.weights, again.weights)
    best = fista.solve(objective, tol=1e-10, max_iter=20_000)
    assert found.certificate.primal <= best.certificate.primal * (1 + 1e-6)


@pytest.mark.parametrize("name", ["admm", "averaging"])
def test_threads_of_a_shard_do_not_change_coordinate_updates(name):
    """Groups of columns with threads of their own would: `dual_cd` of a shard works on one thread."""
    objective = problem("hinge", "l2")
    for count in (1, 2):
        found = get(name)(objective.with_threads(1), tol=1e-3, shards=count, max_iter=20, n_jobs=1)
        again = get(name)(objective.with_threads(8), tol=1e-3, shards=count, max_iter=20, n_jobs=8)
        np.testing.assert_array_equal(found.weights, again.weights)


def test_rows_elsewhere_some_of_which_are_lost():
    for loss, penalty, tol in (("squared_hinge", "l2", 1e-5), ("hinge", "l1", 1e-2)):
        objective = problem(loss, penalty)
        wanted = admm(objective, tol=tol, max_iter=500, shards=1)
        for forgets in (0.0, 0.05) if objective.loss.is_smooth else (0.0,):
            engine = ServedRows(objective.engine, (30, 0, 17, 33), forgets=forgets)
            found = admm(replace(objective, engine=engine), tol=tol, max_iter=500)
            assert found.status == "converged"
            assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2 * tol)


def test_without_an_intercept_and_with_float32():
    X, y = telling_rows(4, n=90)
    for dtype in (np.float32, np.float64):
        objective = objective_on(X.astype(dtype), y, "squared_hinge", "l2", intercept=False)
        found = admm(objective, tol=1e-4, max_iter=500)
        assert found.status == "converged"
        assert not found.intercept.any()
        assert found.weights.dtype == dtype


def test_columns_far_from_zero():
    X, y = telling_rows(4, n=90)
    far = X.toarray() + np.array([1e6] + [0.0] * 7)
    wanted = minimise(get("dual_cd"), objective_on(X, y, "hinge", "l2", alpha=0.05), tol=1e-4)
    found = minimise(admm, objective_on(far, y, "hinge", "l2", alpha=0.05), tol=1e-3, max_iter=2000)
    assert found.status == "converged"
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-3)


def test_a_shard_with_one_class_and_a_shard_without_weight():
    X, y = telling_rows(5, n=60)
    order = np.argsort(y, kind="stable")
    objective = objective_on(X[order], y[order], "softmax", "l2", weights=np.arange(60) >= 15)
    engine = ServedRows(objective.engine, (15, 10, 35))
    found = admm(replace(objective, engine=engine), tol=1e-6, max_iter=2000)
    assert found.status == "converged"
    best = fista.solve(objective, tol=1e-10, max_iter=20_000)
    assert found.certificate.primal == pytest.approx(best.certificate.primal, rel=2e-6)


def test_options_that_are_refused():
    objective = problem("logistic", "l2")
    for name, value in (("rho", 0.0), ("rho", -1.0), ("rho", np.nan), ("relaxation", 2.0), ("relaxation", 0.5)):
        with pytest.raises(OptionError, match=f"{name}={value}"):
            admm(objective, **{name: value})
    for count in (0, 81):
        with pytest.raises(OptionError, match=f"shards={count}"):
            admm(objective, shards=count)


def test_from_the_estimator():
    X, y = telling_rows(6, n=90)
    options = {"loss": "hinge", "penalty": "l1", "alpha": 0.02, "tol": 1e-3, "solver": "admm", "max_iter": 2000}
    model = LinearClassifier(**options, solver_options={"shards": 2}).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.value <= 1e-3
    assert len(model.history_) == model.n_iter_ + 1


def test_rows_in_files(tmp_path, monkeypatch):
    X, y = telling_rows(6, n=120)
    paths = write_files(tmp_path, X, y, parts=2)
    cut_into(monkeypatch, X, 6)
    options = {"loss": "squared_hinge", "alpha": 0.02, "tol": 1e-4}
    found = LinearClassifier(**options, solver="admm", solver_options={"shards": 5}, engine="file").fit(paths)
    wanted = LinearClassifier(**options).fit(X, y)
    assert found.status_ == "converged"
    assert found.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=2e-4)
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=0.05)


def solved_in_files(paths, room, loss):
    """ADMM on files, of whose row state so many bytes may stay in memory."""
    problem = problem_in(paths, TrainOptions(loss=loss, alpha=0.02))
    scratch = limit_scratch(problem, room)
    return minimise(admm, problem.objective, tol=1e-2, shards=5, max_iter=8), scratch


@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_what_shards_keep_goes_to_a_file_or_is_an_error(tmp_path, monkeypatch, loss):
    """It cannot be computed again, so a full disk must not go unnoticed."""
    X, y = telling_rows(6, n=120)
    paths = write_files(tmp_path, X, y)
    wanted, _ = solved_in_files(paths, 1 << 30, loss)
    found, scratch = solved_in_files(paths, 0, loss)
    assert scratch.file_bytes > 0
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.certificate == wanted.certificate

    def full(number, data, start):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what can be computed again is, with a warning
        with pytest.raises(DataError, match=r"no room for what shards keep.*No space left.*raise memory_budget"):
            solved_in_files(paths, 0, loss)


# --- checkpoints


def solved_from(path, objective, **keywords):
    return minimise(admm, objective, tol=1e-5, checkpoint=Checkpoint(path), **{"max_iter": 500, **keywords})


def test_pieces_can_get_lost_after_a_fit_has_continued(tmp_path):
    path, objective = tmp_path / "c", problem("squared_hinge", "l2")
    sizes = (30, 0, 17, 33)
    short = solved_from(path, replace(objective, engine=ServedRows(objective.engine, sizes)), max_iter=3)
    assert short.status == "max_iter"
    found = solved_from(path, replace(objective, engine=ServedRows(objective.engine, sizes, forgets=0.05)))
    assert found.status == "converged"


def test_what_shards_keep_is_gathered_only_for_checkpoints_that_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv(EVERY_VARIABLE, "1000")
    path, objective = tmp_path / "c", problem("squared_hinge", "l2")
    wanted = minimise(admm, objective, tol=1e-5, max_iter=500, shards=4)
    gathered, call = [], Kept.__call__

    def noted(self, block, piece):
        gathered.append(block.first)
        return call(self, block, piece)

    monkeypatch.setattr(Kept, "__call__", noted)
    for max_iter in (1, 3):
        solved_from(path, objective, max_iter=max_iter, shards=4)
    assert len(gathered) == 3 * 4  # before the first iteration, and at the end of either fit
    found = solved_from(path, objective, shards=4)
    assert len(gathered) == 3 * 4
    assert len(found.history) > 6
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.certificate == wanted.certificate


class Clock:
    """A clock that tests move."""

    now = 0.0

    def monotonic(self):
        return self.now

    perf_counter = monotonic


def test_an_iteration_that_time_cuts_short_is_not_in_the_checkpoint(tmp_path, monkeypatch):
    """Nobody can undo what shards have done; so the state before is written first if time is short."""
    monkeypatch.setenv(EVERY_VARIABLE, "1000")
    path, objective = tmp_path / "c", problem("squared_hinge", "l2")
    wanted = minimise(admm, objective, tol=1e-5, max_iter=500, shards=4)
    fit, clock = shard_fit.fit, Clock()

    def in_a_second(objective, start, budget):
        clock.now += min(1.0, budget.max_time)
        found = fit(objective, start, replace(budget, max_time=None))
        return found if budget.max_time >= 1.0 else replace(found, weights=0.5 * found.weights, status="max_time")

    with monkeypatch.context() as patch:
        patch.setattr("lineal.problem.monitor.time", clock)
        patch.setattr("lineal.engine.time_limit.time", clock)
        patch.setattr(shard_fit, "fit", in_a_second)
        short = solved_from(path, objective, max_time=10.0, shards=4)
    assert (short.status, short.history[-1]["iteration"]) == ("max_time", 2)
    assert Checkpoint(path)._found["saved"].iteration == 2
    found = solved_from(path, objective, shards=4)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.certificate == wanted.certificate


def test_ctrl_c_within_the_fit_of_a_shard(monkeypatch):
    """It ends that fit, the others and the whole, which returns the best so far."""
    calls, fit = [], shard_fit.fit

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 10:
            signal.raise_signal(signal.SIGINT)
        return fit(*arguments)

    monkeypatch.setattr(shard_fit, "fit", interrupted)
    objective = problem("squared_hinge", "l2")
    found = admm(objective, tol=1e-12, shards=4, n_jobs=1)
    assert (found.status, len(calls)) == ("interrupted", 12)
    assert found.history[-1]["iteration"] == 3
    assert found.certificate.value < 1.0


def test_a_time_limit_ends_the_fit_with_the_best_so_far():
    found = admm(problem("squared_hinge", "l2"), tol=1e-14, max_time=1e-9)
    assert found.status == "max_time"
    assert np.isfinite(found.certificate.value)


def test_a_dual_point_of_shards_starts_no_other_solver():
    objective = problem("hinge", "l2")
    found = admm(objective, tol=1e-2, max_iter=300)
    assert found.dual_point is not None
    further = dual_cd.solve(objective, start=found, tol=1e-4)
    assert further.status == "converged"
