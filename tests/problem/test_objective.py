"""The objective and its certificate against the NumPy twin, over random problems; the engine in unequal blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import twin
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import best_objective, build
from scipy import optimize, sparse
from served_rows import ServedRows

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import DataError
from lineal.penalties.regulariser import Regulariser
from lineal.problem.certificate import primal_and_bound
from lineal.problem.objective import check_finite
from lineal.problem.targets import LabelSets

pytestmark = pytest.mark.core

NAMES = losses.names()
SMOOTH = [name for name in NAMES if losses.get(name).is_smooth]


def random_theta(objective, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=objective.shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_value_and_gradient_agree_with_the_twin(name, k, fit_intercept):
    objective, facts = build(name, k=k, fit_intercept=fit_intercept, offset=True)
    theta = random_theta(objective)
    W, b = objective.split(theta)
    value, gradient = objective.value_and_gradient(theta)
    assert value == pytest.approx(twin.objective(W=W, b=b, **facts), rel=1e-12)
    assert objective.value(theta) == pytest.approx(value, rel=1e-13)
    by_W, by_b = twin.objective_gradient(W=W, b=b, **facts)
    np.testing.assert_allclose(gradient[: len(W)], by_W, atol=1e-12)
    if fit_intercept:
        np.testing.assert_allclose(gradient[-1], by_b, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 0.1, 1.0, 10.0]), offset=st.booleans())
@settings(max_examples=15, deadline=None)
def test_certificates_agree_with_the_twin_and_are_never_optimistic(name, seed, scale, offset):
    objective, facts = build(name, seed, k=2 + seed % 3, alpha=10.0 ** (-(seed % 5)), offset=offset)
    theta = random_theta(objective, seed, scale)
    W, b = objective.split(theta)
    certificate = objective.certificate(theta)
    primal, dual, _ = twin.gap(W=W, b=b, **facts)
    assert certificate.primal == pytest.approx(primal, rel=1e-11)
    if certificate.kind == "violation":  # no dual point: some label cannot be balanced
        assert name == "label_ranking"
        return
    found = primal_and_bound(objective, W, b)[1].value
    assert found == pytest.approx(dual, rel=1e-9, abs=1e-9 * abs(primal))
    assert certificate.dual >= found
    # weak duality against many other models, among them better ones
    for other in range(8):
        candidate = random_theta(objective, other, 0.3 * other) if other else objective.start()
        assert certificate.dual <= objective.value(candidate) * (1 + 1e-10)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("seed", [0, 1])
def test_dual_values_stay_below_the_true_minimum(name, seed):
    objective, facts = build(name, seed, alpha=0.02)
    minimum = best_objective(objective, facts)
    for scale in (0.0, 0.2, 1.0, 5.0):
        certificate = objective.certificate(random_theta(objective, seed, scale))
        assert certificate.dual <= minimum * (1 + 1e-9)
        assert certificate.primal >= minimum * (1 - 1e-9)
        assert certificate.primal * (1 - certificate.value) <= minimum * (1 + 1e-9)


@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_dual_values_of_non_smooth_losses_stay_below_the_true_minimum(name):
    """The minimum of the quadratic programme, by SLSQP on slack variables."""
    objective, facts = build(name, 3, n=12, k=3, alpha=0.1)
    Y, X, s = facts["Y"], facts["X"], facts["s"] / facts["s"].sum()
    n, d, k = 12, X.shape[1], Y.shape[1]
    T = twin.signs(Y)
    slack = (n, k) if name == "hinge" else (n, 1)

    def parts(x):
        return x[: d * k].reshape(d, k), x[d * k : d * k + k], x[d * k + k :].reshape(slack)

    def fun(x):
        W, _, xi = parts(x)
        return s @ xi.sum(1) + 0.05 * (W**2).sum()

    def room(x):
        W, b, xi = parts(x)
        Z = X @ W + b
        if name == "hinge":
            return np.concatenate([(xi - 1 + T * Z).ravel(), xi.ravel()])
        return (xi - (1.0 - Y + Z - Z[Y][:, None])).ravel()

    start = np.concatenate([np.zeros(d * k + k), np.full(slack[0] * slack[1], 2.0)])
    found = optimize.minimize(
        fun, start, constraints={"type": "ineq", "fun": room}, options={"maxiter": 500, "ftol": 1e-12}
    )
    assert found.success
    for scale in (0.0, 0.3, 1.0):
        assert objective.certificate(random_theta(objective, 0, scale)).dual <= found.fun * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(40,), (7, 20, 13), (1, 2, 3, 4, 5, 6, 19)])
def test_any_engine_gives_the_same_sums(name, sizes):
    objective, _ = build(name, offset=True)
    other = replace(objective, engine=ServedRows(objective.engine, sizes))
    theta = random_theta(objective)
    assert other.value(theta) == pytest.approx(objective.value(theta), rel=1e-13)
    np.testing.assert_allclose(
        other.value_and_gradient(theta)[1], objective.value_and_gradient(theta)[1], rtol=1e-11, atol=1e-14
    )
    assert other.certificate(theta).value == pytest.approx(objective.certificate(theta).value, rel=1e-9)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing_at_all(threads, monkeypatch):
    monkeypatch.setattr("lineal.design.products.WORTH_A_THREAD", 1)
    monkeypatch.setattr("lineal.design.products.WORTH_A_SPLIT", 1)
    monkeypatch.setattr("lineal.problem.row_sums.RANGE_ROWS", 7)
    objective, _ = build("softmax")
    threaded = replace(objective, engine=replace(objective.engine, threads=threads))
    theta = random_theta(objective)
    assert objective.value_and_gradient(theta)[0] == threaded.value_and_gradient(theta)[0]
    np.testing.assert_array_equal(objective.value_and_gradient(theta)[1], threaded.value_and_gradient(theta)[1])
    assert objective.certificate(theta) == threaded.certificate(theta)


@pytest.mark.parametrize(
    "name", [name if name == "softmax" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_doubled_rows_are_doubled_weights(name):
    objective, facts = build(name, weighted=False)
    engine = objective.engine
    weights = np.ones(40)
    weights[:15] = 2.0
    weighted = replace(objective, engine=replace(engine, weights=weights / weights.sum()))
    rows = np.concatenate([np.arange(40), np.arange(15)])
    Y = sparse.csr_array(facts["Y"][rows])
    targets = LabelSets(Y.indices.astype(np.int32), Y.indptr.astype(np.int64))
    doubled_engine = LocalEngine(
        wrap(sparse.csr_array(facts["X"][rows])), targets, np.full(55, 1 / 55), engine.n_columns
    )
    doubled = replace(objective, engine=doubled_engine)
    theta = random_theta(objective)
    assert weighted.value(theta) == pytest.approx(doubled.value(theta), rel=1e-12)
    assert weighted.certificate(theta).value == pytest.approx(doubled.certificate(theta).value, rel=1e-9)


@pytest.mark.parametrize("name", ["l1", "elastic_net", "l1/l2", "l1/linf", "sparse_group"])
@pytest.mark.parametrize("loss", ["logistic", "multiclass_squared_hinge"])
def test_other_penalties_have_certificates_too(name, loss):
    """Weak duality holds at any point, and at W = 0 with the best intercept and a huge α the gap closes."""
    objective, facts = build(loss, alpha=0.01)
    d = facts["X"].shape[1]
    for alpha in (0.01, 1.0):
        tried = replace(objective, regulariser=Regulariser(penalties.get(name), alpha, d))
        certificate = tried.certificate(random_theta(objective, 1, 0.2))
        assert certificate.kind == "gap"
        for other in range(10):
            assert certificate.dual <= tried.value(random_theta(objective, other, 0.1 * other)) * (1 + 1e-10)
    heavy = replace(objective, regulariser=Regulariser(penalties.get(name), 100.0, d))
    if loss == "logistic":
        assert heavy.certificate(heavy.start()).value == pytest.approx(0.0, abs=1e-9)


def test_without_penalty_the_certificate_is_a_violation():
    objective, _ = build("softmax", alpha=0.0)
    certificate = objective.certificate(objective.start())
    assert certificate.kind == "violation"
    assert certificate.value == pytest.approx(1.0)
    assert certificate.dual is None


def test_float32_data_is_certified_in_float64():
    objective, facts = build("squared_hinge", dtype=np.float32)
    theta = random_theta(objective).astype(np.float32)
    W, b = (part.astype(np.float64) for part in objective.split(theta))
    _, _, gap = twin.gap(W=W, b=b, **facts)
    assert objective.certificate(theta, tol=1e9).value == pytest.approx(gap, rel=1e-12)


def test_overflow_is_reported():
    objective, _ = build("squared_hinge")
    with np.errstate(over="ignore", invalid="ignore"):
        value = objective.value(random_theta(objective, 0, 1e200))
    with pytest.raises(DataError, match="scale the features"):
        check_finite(value, "the objective")
