"""FOBOS against a plain NumPy twin, other solvers and single steps."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import twin
from objectives import label_sets, objective_on, telling_rows
from scipy import sparse

from lineal import losses, penalties
from lineal.core import threads as threads_module
from lineal.core.rng import generator, shuffle
from lineal.errors import OptionError
from lineal.solvers import fista
from lineal.solvers.dual_cd import dual_cd
from lineal.solvers.fobos import fobos

slow = pytest.mark.slow

PENALTIES = ["l1/l2", "l1/linf", "sparse_group", "l1", "elastic_net", "l2"]
SMOOTH = ["squared_hinge", "logistic", "squared", "softmax", "multiclass_squared_hinge", "label_ranking"]


# Passes are compiled by loss and penalty: each of one kind is here with one of the other, and hinge with what dual_cd
# takes too.
FOBOS_CASES = [(loss, "l1/l2") for loss in ["hinge", "crammer_singer", *SMOOTH]]
FOBOS_CASES += [("softmax", penalty) for penalty in PENALTIES[1:]] + [("hinge", "l2")]


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [case if case == ("softmax", "l1/l2") else pytest.param(*case, marks=slow) for case in FOBOS_CASES],
)
def test_fobos_reaches_a_gap_of_1e2(loss, penalty):
    X, y = telling_rows(10, n=80)
    Y = label_sets(2, 80, 3) if loss == "label_ranking" else y
    rng = np.random.default_rng(0)
    s, o = rng.integers(0, 3, 80).astype(float), 0.3 * rng.normal(size=(80, 3))
    s[:3] = 1.0
    objective = objective_on(X, Y, loss, penalty, alpha=0.1 if penalty == "l2" else 0.03, weights=s, offsets=o)
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
    X, y = telling_rows(11)
    objective = objective_on(X, y, "softmax")
    one, again, other = (fobos.solve(objective, tol=0.0, max_iter=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.weights, again.weights)
    assert not np.array_equal(one.weights, other.weights)
    slow = fobos.solve(objective, tol=0.0, max_iter=5, rate=1e-3)
    assert slow.certificate.primal > one.certificate.primal
    for rate in (0.0, -1.0, math.inf, math.nan, "fast"):
        with pytest.raises(OptionError, match="rate"):
            fobos.solve(objective, rate=rate)


def test_fobos_tries_its_rates_on_as_many_threads_as_it_may_use(monkeypatch):
    objective, seen = objective_on(*telling_rows(11), "softmax"), []

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
    objective = objective_on(sparse.csr_array(X), y, "softmax", penalty, alpha=alpha, factors=factors, intercept=False)
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


class Elsewhere:
    """An engine whose rows are not to be had, but for their sums."""

    def __init__(self, engine):
        self.engine = engine

    def __getattr__(self, name):
        if name in ("X", "blocks", "targets", "weights", "offsets"):
            raise AttributeError(name)
        return getattr(self.engine, name)


def test_fobos_refuses_rows_held_elsewhere_and_says_what_runs_there():
    objective = objective_on(*telling_rows(13), "softmax", alpha=0.1)
    far = replace(objective, engine=Elsewhere(objective.engine))
    with pytest.raises(OptionError, match="Elsewhere holds them elsewhere: use solver='sparsa' or 'fista'"):
        fobos.solve(far)
