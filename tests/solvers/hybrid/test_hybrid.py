"""The hybrid: its online passes by a plain twin, and its answers by L-BFGS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives import label_sets, objective_on, telling_rows
from served_rows import ServedRows

from lineal.core.rng import generator, shuffle
from lineal.errors import OptionError
from lineal.problem.budget import Budget
from lineal.problem.checkpoint import Checkpoint
from lineal.problem.minimise import minimise
from lineal.problem.monitor import Monitor
from lineal.solvers import get, lbfgs
from lineal.solvers.hybrid import hybrid as module
from lineal.solvers.hybrid.hybrid import Online

hybrid = get("hybrid")
slow = pytest.mark.slow


def problem(loss="softmax", **options):
    X, y = telling_rows(10, n=80)
    Y = label_sets(2, 80, 3) if loss == "label_ranking" else y
    rng = np.random.default_rng(0)
    given = {"alpha": 0.01, "weights": rng.random(80), "offsets": 0.3 * rng.normal(size=(80, 3))}
    return objective_on(X, Y, loss, "l2", **{**given, **options})


@pytest.mark.parametrize(
    "loss",
    [
        "softmax",
        "squared_hinge",
        *(pytest.param(name, marks=slow) for name in ("logistic", "squared", "label_ranking")),
    ],
)
def test_answers_are_those_of_lbfgs(loss):
    objective = problem(loss)
    found = hybrid(objective, tol=1e-8)
    assert (found.status, found.certificate.kind) == ("converged", "gap")
    best = lbfgs.solve(objective, tol=1e-10)
    np.testing.assert_allclose(found.weights, best.weights, atol=1e-3)
    assert found.certificate.primal == pytest.approx(best.certificate.primal, rel=1e-7)


def softmax_gradient(z, y):
    p = np.exp(z - z.max())
    p /= p.sum()
    p[y] -= 1.0
    return p


@pytest.mark.parametrize("dense", [False, True])
def test_a_pass_by_hand(dense):
    X, y = telling_rows(3, n=20)
    A = X.toarray()
    rng = np.random.default_rng(5)
    s = rng.integers(0, 3, 20).astype(float)
    o = rng.normal(size=(20, 3))
    objective = objective_on(A if dense else X, y, "softmax", "l2", weights=s, offsets=o)
    (block,) = objective.engine.shards(1).blocks()
    inverses = module._inverses(objective.engine, np.float64)
    stored = np.where(A != 0, A, np.nan)
    sizes = np.sqrt(np.nanmean(stored**2, axis=0))
    np.testing.assert_allclose(inverses, 1 / np.sqrt(sizes * np.sqrt(np.nanmean(stored**2))), rtol=1e-12)
    theta, G, rate = rng.normal(size=(9, 3)), rng.random((9, 3)), 0.1
    weighted, total, count, diverged = Online(objective.loss, True, 7)(block, theta, G, inverses, rate, 2)
    order = np.flatnonzero(s > 0)
    shuffle(generator(7, 5), order)
    W, squares = theta.copy(), G.copy()
    unit = np.append(inverses, 1.0)
    for i in order:
        x = np.append(A[i], 1.0)
        g = softmax_gradient(x @ W + o[i], y[i]) * s[i] / s[order].mean()
        change = np.outer(x * unit, g)
        squares += change**2
        W -= rate * unit[:, None] * change / np.sqrt(squares + 1e-20)
    np.testing.assert_allclose(total, squares, rtol=1e-10)
    np.testing.assert_allclose(weighted / total, W, rtol=1e-9)
    assert (count, diverged) == (1, 0)


def test_the_average_is_weighted_by_what_shards_have_seen():
    """A feature that only one shard has keeps that shard's weight."""
    X, y = telling_rows(3, n=40)
    A = X.toarray()
    A[:20, 0], A[20:, 1] = 0.0, 0.0
    objective = objective_on(A, y, "softmax", "l2")
    engine = ServedRows(objective.engine, (20, 0, 20))
    objective = replace(objective, engine=engine)
    step = Online(objective.loss, True, 0)
    theta = np.zeros(objective.shape)
    inverses = module._inverses(engine, np.float64)
    parts = engine.gather(step, theta, theta, inverses, 0.1, 0)
    weighted, total, count, diverged = engine.sum(step, theta, theta, inverses, 0.1, 0)
    assert (count, diverged) == (2, 0)
    np.testing.assert_allclose(weighted[0] / total[0], parts[2][0][0] / parts[2][1][0])
    np.testing.assert_allclose(weighted[1] / total[1], parts[0][0][1] / parts[0][1][1])


def test_passes_start_lbfgs_close_to_the_minimum():
    X, y = telling_rows(1, n=3000, d=8)
    objective = objective_on(X, y, "softmax", "l2", alpha=1e-4)
    first = hybrid(objective, tol=1e-6).history[0]["objective"]
    start = objective.value(objective.start())
    best = lbfgs.solve(objective, tol=1e-6).certificate.primal
    assert first - best < 0.1 * (start - best)


def test_a_bad_rate_does_no_harm():
    objective = problem()
    found = hybrid(objective, tol=1e-6, rate=1e6)
    assert found.status == "converged"
    assert found.history[0]["objective"] <= objective.value(objective.start()) * (1 + 1e-12)


@pytest.mark.parametrize("lost", [1, 4])
def test_passes_that_diverge_are_named_once_with_a_smaller_rate(monkeypatch, lost):
    """Shards whose numbers overflow are left out of the average, in some or in all of the shards."""
    objective, run, passes = problem(), Online.run, []

    def overflowing(self, block, order, theta, squares, inverses, rate):
        passes.append(block.first)
        if passes.count(block.first) == 1 and len(passes) <= lost:
            theta[0] = np.nan
        return run(self, block, order, theta, squares, inverses, rate)

    monkeypatch.setattr(Online, "run", overflowing)
    with pytest.warns(UserWarning, match="diverged") as told:
        found = hybrid(objective, tol=1e-6, rate=0.5, passes=3, n_jobs=1)
    assert len(passes) == 3 * 4
    (warning,) = told
    assert f"diverged in {lost} of 4 shards with rate=0.5" in str(warning.message)
    assert "rate=0.05" in str(warning.message)
    assert found.status == "converged"


def test_a_rate_that_overflows_is_named():
    with pytest.warns(UserWarning, match=r"diverged in 4 of 4 shards with rate=1e\+308"):
        found = hybrid(problem(), tol=1e-6, rate=1e308)
    assert found.status == "converged"


def test_passes_that_time_cuts_short_are_done_again_after_a_checkpoint(tmp_path, monkeypatch):
    objective, must_end = problem(), Monitor.must_end
    wanted = minimise(hybrid, objective, tol=1e-8, passes=3)
    calls = []

    def late(self, iteration):
        calls.append(iteration)
        return "max_time" if len(calls) > 1 else must_end(self, iteration)

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "must_end", late)
        short = minimise(hybrid, objective, tol=1e-8, passes=3, checkpoint=Checkpoint(tmp_path / "c"))
    assert short.status == "max_time"
    found = minimise(hybrid, objective, tol=1e-8, passes=3, checkpoint=Checkpoint(tmp_path / "c"))
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.certificate == wanted.certificate


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_another_unit_of_all_features_changes_nothing(dtype):
    X, y = telling_rows(1, n=300)
    scores = []
    for unit in (1.0, 2.0**-30):
        scaled = (unit * X.toarray()).astype(dtype)
        objective = objective_on(scaled, y, "softmax", "l2", alpha=0.0)
        with Monitor(Budget()) as monitor:
            options = module.HybridOptions(shards=2, rate=0.1)
            theta, _ = module._learned(objective, Budget(), options, objective.start(), monitor)
        assert theta[:-1].any()
        scores.append(scaled @ theta[:-1])
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5)


def test_rows_elsewhere_and_threads():
    objective = problem()
    wanted = hybrid(replace(objective, engine=ServedRows(objective.engine, (30, 0, 50))), tol=1e-9)
    forgetful = ServedRows(objective.engine, (30, 0, 50), forgets=0.3)
    found = hybrid(replace(objective, engine=forgetful), tol=1e-9)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    one, two = (hybrid(objective.with_threads(n), tol=1e-6, n_jobs=n, seed=1) for n in (1, 2))
    np.testing.assert_array_equal(one.weights, two.weights)


def test_options_that_are_refused():
    objective = problem()
    for options, text in (({"rate": 0.0}, "rate=0.0"), ({"passes": 0}, "passes=0"), ({"shards": 81}, "shards=81")):
        with pytest.raises(OptionError, match=text):
            hybrid(objective, **options)
    with pytest.raises(OptionError, match="hinge"):
        hybrid(problem("hinge"))
