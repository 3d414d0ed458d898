"""Newton's method with Hessians of samples: an independent solver, proven bounds, invariances, edges."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import twin
from objectives import best_objective, build
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from lineal import LinearClassifier, losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem import dense_pass, row_sums, steps
from lineal.problem.certificate import primal_and_dual
from lineal.problem.objective import Objective
from lineal.problem.targets import OneLabel
from lineal.solvers.newton import newton, newton_dual, row_sample, sample_size, sampled, sampled_hessian

SMOOTH = [name for name in losses.names() if losses.get(name).is_smooth]


@pytest.fixture(autouse=True)
def small_problems_count(monkeypatch):
    """Rows and columns of the tests are few; fused passes are used for them, too."""
    monkeypatch.setattr(sample_size, "MIN_WORK", 1)
    monkeypatch.setattr(sample_size, "MIN_ROWS", 0)
    monkeypatch.setattr(sample_size, "MANY_COLUMNS", 1)
    monkeypatch.setattr(dense_pass, "WORTH_A_PASS", 1)


@pytest.fixture
def samples(monkeypatch):
    """Hessians of samples, also of few rows."""
    monkeypatch.setattr(sample_size, "FEW_PRODUCTS", 0.0)
    monkeypatch.setattr(sample_size, "SAMPLE_SHARE", 1.0)
    monkeypatch.setattr(sample_size, "SAMPLE_ROWS", 8.0)


def table(n=3000, d=6, k=3, seed=0, rare=True):
    """Correlated numbers, a rare indicator, a constant column, a column far from zero, and k unequal classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.5 * rng.standard_normal((d, d)))
    if rare:
        X[:, 0] = rng.random(n) < 0.01
        X[:, 1] = 3.0
        X[:, 2] += 50.0
    y = (X[:, 3:] @ rng.standard_normal((d - 3, k)) + rng.gumbel(size=(n, k)) + np.arange(k)).argmax(axis=1)
    y[:k] = np.arange(k)
    return X, y


def fitted(X, y, sample_weight=None, **options):
    options = {"loss": "softmax", "solver": "newton", "alpha": 1.0 / len(y), "tol": 1e-8, "n_jobs": 1, **options}
    return LinearClassifier(**options).fit(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in ("softmax", "logistic") else [pytest.mark.slow]) for one in SMOOTH]
)
def test_reaches_the_minimum_of_an_independent_solver(name, samples):
    objective, facts = build(name, 3, n=200, alpha=1e-2, offset=True)
    objective = replace(objective, engine=replace(objective.engine, X=wrap(np.ascontiguousarray(facts["X"]))))
    assert sample_size.is_worthwhile(objective)
    solution = newton.solve(objective, tol=1e-9, max_iter=200)
    assert solution.status == "converged"
    assert solution.certificate.primal == pytest.approx(best_objective(objective, facts), rel=1e-8)
    primal, _, gap = twin.gap(W=solution.weights, b=solution.intercept, polish=True, **facts)
    assert primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert gap <= 1e-6  # that of the gradient, which Newton's dual point can be far below


def test_agrees_with_scikit_learn(samples):
    X, y = table(rare=False)
    ours = fitted(X, y, tol=1e-12)
    peer = LogisticRegression(tol=1e-10, max_iter=10_000, solver="newton-cg").fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared_hinge"])
def test_samples_of_rows_and_all_rows_end_at_the_same_minimum(loss, monkeypatch):
    X, y = table()
    exact = fitted(X, y, loss=loss)
    monkeypatch.setattr(sample_size, "FEW_PRODUCTS", 0.0)
    monkeypatch.setattr(sample_size, "SAMPLE_SHARE", 1.0)
    drawn = fitted(X, y, loss=loss)
    assert exact.status_ == drawn.status_ == "converged"
    assert drawn.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(drawn.decision_function(X), exact.decision_function(X), atol=2e-3)


def test_the_objective_never_rises(samples):
    model = fitted(*table(seed=1))
    values = [row["objective"] for row in model.history_]
    assert all(after <= before * (1.0 + 1e-14) for before, after in itertools.pairwise(values))


def test_bounds_of_newton_duals_hold_and_are_tight(monkeypatch):
    """The dual value is below the minimum at every iterate, and gains orders of magnitude near it."""
    X, y = table(seed=2)
    found = []
    original = sampled._Run._newton_certificate

    def spied(run):
        certificate = original(run)
        found.append((certificate, run.gap.estimate(run.value, run.gradient)))
        return certificate

    monkeypatch.setattr(sampled._Run, "_newton_certificate", spied)
    monkeypatch.setattr(sampled, "CLOSE", math.inf)
    monkeypatch.setattr(sampled, "NEARLY", 1e6)
    model = fitted(X, y, tol=1e-6)
    best = fitted(X, y, tol=1e-13).certificate_.primal
    assert found
    for certificate, _ in found:
        assert certificate.dual <= best * (1.0 + 1e-13)
    certificate, of_gradient = found[-1]
    assert model.certificate_.value <= 1e-6
    assert certificate.value < 0.5 * of_gradient


@pytest.mark.parametrize("name", ["softmax", "logistic", "squared_hinge", "squared", "multiclass_squared_hinge"])
def test_newton_duals_are_feasible_for_any_direction(name):
    rng = np.random.default_rng(4)
    X, y = table(n=300, seed=4)
    loss, k, d = losses.get(name), 3, X.shape[1]
    if not newton_dual.serves(loss):
        pytest.skip("certificates take no dual points of this loss")
    engine = LocalEngine(wrap(X), OneLabel(y), np.full(300, 1.0 / 300), k)
    for size in (0.0, 0.1, 3.0, 100.0):
        arguments = [rng.standard_normal(shape) * scale for scale, shape in
                     ((0.1, (d, k)), (1.0, k), (0.1 * size, (d, k)), (size, k))]  # fmt: skip
        (piece,) = engine.gather(newton_dual.NewtonDuals(loss), *arguments)
        work = np.empty(k)
        for i, row in enumerate(piece["rows"]):
            assert math.isfinite(loss.row_dual_repair(np.array([y[i]]), row, loss.identity_repair(k), 1.0, work, row))


def test_doubled_rows_are_doubled_weights(samples):
    X, y = table(seed=5)
    weights = np.ones(len(y))
    weights[100:900] = 2.0
    rows = np.concatenate([np.arange(len(y)), np.arange(100, 900)])
    weighted = fitted(X, y, sample_weight=weights, alpha=1e-3, tol=1e-11)
    doubled = fitted(X[rows], y[rows], alpha=1e-3, tol=1e-11)
    np.testing.assert_allclose(weighted.coef_, doubled.coef_, atol=1e-4)


def test_rows_without_weight_do_not_count(samples):
    X, y = table(seed=6)
    weights = np.ones(len(y))
    weights[2000:] = 0.0
    some = fitted(X, y, sample_weight=weights, alpha=1e-3, tol=1e-11)
    only = fitted(X[:2000], y[:2000], alpha=1e-3, tol=1e-11)
    np.testing.assert_allclose(some.coef_, only.coef_, atol=1e-4)


def test_names_of_classes_do_not_matter(samples):
    X, y = table(seed=7)
    order = np.array([2, 0, 1])
    ours, renamed = fitted(X, y, tol=1e-11), fitted(X, order[y], tol=1e-11)
    np.testing.assert_allclose(renamed.coef_[order], ours.coef_, atol=1e-4)


def test_float32_is_nearly_as_good(samples):
    X, y = table(seed=8)
    narrow, wide = fitted(X.astype(np.float32), y, tol=1e-4), fitted(X, y, tol=1e-10)
    assert narrow.coef_.dtype == np.float32
    assert narrow.status_ == "converged"
    assert narrow.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=2e-4)


def test_threads_do_not_change_a_bit(samples, monkeypatch):
    monkeypatch.setattr(dense_pass, "RANGE_ROWS", 504)
    monkeypatch.setattr(row_sample, "RANGE_ROWS", 512)
    monkeypatch.setattr(sampled_hessian, "TASK_ROWS", 64)
    X, y = table(seed=9)
    one, two = fitted(X, y, n_jobs=1), fitted(X, y, n_jobs=2)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_blocks_change_only_rounding(samples):
    X, y = table(n=1400, seed=10)
    found = []
    for rows in (1400, 200):
        engine = LocalEngine(wrap(X), OneLabel(y), np.full(1400, 1.0 / 1400), 3, block_rows=rows)
        found.append(newton.solve(_objective(engine, "softmax", 1e-3), tol=1e-10))
    assert found[0].certificate.primal == pytest.approx(found[1].certificate.primal, rel=1e-9)
    np.testing.assert_allclose(found[0].weights, found[1].weights, atol=1e-4)


def _objective(engine, name, alpha):
    return Objective(engine, losses.get(name), Regulariser(penalties.get("l2"), alpha, engine.shape[1]), True)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("rank", [2, 6])
def test_features_without_full_rank(loss, rank, samples):
    X, y = table(seed=11, rare=False)
    X = np.hstack([X[:, :rank], X[:, :rank], np.zeros((len(y), 1)), np.ones((len(y), 1))])
    model = fitted(X, y, loss=loss, tol=1e-9)
    assert model.status_ == "converged"
    np.testing.assert_allclose(model.coef_[:, :rank], model.coef_[:, rank : 2 * rank], atol=1e-3)
    np.testing.assert_allclose(model.coef_[:, 2 * rank :], 0.0, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_without_intercept_and_without_penalty(alpha, samples):
    X, y = table(seed=12, rare=False)
    model = fitted(X, y, alpha=alpha, fit_intercept=False, tol=1e-7)
    assert model.status_ == "converged"
    assert model.certificate_.kind == ("gap" if alpha else "violation")


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e4, 1e20])
def test_scales_of_features(scale, samples):
    X, y = table(seed=13, rare=False)
    reference = fitted(X, y, alpha=1e-3, tol=1e-9)
    model = fitted(X * scale, y, alpha=1e-3 * scale**2, tol=1e-9)
    np.testing.assert_allclose(model.coef_ * scale, reference.coef_, atol=1e-4)


def test_few_rows_and_separable_classes(samples):
    rng = np.random.default_rng(14)
    X = rng.standard_normal((30, 60))
    y = np.arange(30) % 3
    model = fitted(X, y, alpha=1e-3, tol=1e-8)
    assert model.status_ == "converged"
    assert (model.predict(X) == y).all()


def test_damping_saves_what_newton_steps_would_spoil():
    """Almost separable classes, where undamped Newton steps from zero diverge without shorter steps."""
    rng = np.random.default_rng(15)
    X = rng.standard_normal((2000, 4)) * [100.0, 1.0, 0.01, 1.0]
    y = (X[:, 0] + 100.0 * X[:, 2] + 0.1 * rng.standard_normal(2000) > 0).astype(int) + (X[:, 1] > 2.5)
    model = fitted(X, y, alpha=1e-7, tol=1e-4, max_iter=100)
    assert model.status_ == "converged"


def test_rare_classes_take_few_products(samples, monkeypatch):
    """The preconditioner is close to the Hessian of a class of three rows, too."""
    products, product = [], sampled._Run._product
    monkeypatch.setattr(sampled._Run, "_product", lambda run, V: products.append(1) or product(run, V))
    rng = np.random.default_rng(17)
    X = rng.standard_normal((20000, 8))
    y = (2.0 * X @ rng.standard_normal((8, 3)) + rng.gumbel(size=(20000, 3))).argmax(axis=1)
    for label in range(3, 8):
        y[3 * label : 3 * label + 3] = label
        X[3 * label : 3 * label + 3] += 2.0 * rng.standard_normal(8)
    model = fitted((X - X.mean(axis=0)) / X.std(axis=0), y, alpha=1e-6, tol=1e-6)
    assert model.certificate_.value <= 1e-6
    assert len(products) <= 40  # one damping for all columns: 89


def test_a_good_start_is_not_damped_away(samples):
    X, y = table(seed=18)
    model = fitted(X, y, tol=1e-5)
    again = clone(model).set_params(warm_start=True, tol=1e-9)
    again.model_ = model.model_
    assert again.fit(X, y).n_iter_ <= 4


def test_a_fit_continues_from_a_checkpoint(tmp_path, samples):
    X, y = table(seed=16)
    whole = fitted(X, y)
    stopped = fitted(X, y, max_iter=3, checkpoint=tmp_path / "fit")
    assert stopped.status_ == "max_iter"
    np.testing.assert_array_equal(fitted(X, y, checkpoint=tmp_path / "fit").coef_, whole.coef_)


# --- the fused pass


QUICK = [("softmax", "f4", "f4"), ("softmax", "f8", "f8"), ("logistic", "f8", "f8")]
ALL = [(name, *kinds) for name in SMOOTH for kinds in (("f4", "f4"), ("f8", "f8"), ("f4", "f8"))]


@pytest.mark.parametrize(
    ("name", "given", "wanted"), [pytest.param(*one, marks=[] if one in QUICK else [pytest.mark.slow]) for one in ALL]
)
@pytest.mark.parametrize("k", [1, 3, 20])
def test_a_fused_pass_is_the_same_as_separate_products(name, given, wanted, k, monkeypatch):
    loss = losses.get(name)
    if k == 1 and loss.is_direct:
        pytest.skip("this loss has at least two columns")
    rng = np.random.default_rng(17)
    n, d = 1111, 7
    X, W, b = rng.standard_normal((n, d)).astype(given), rng.standard_normal((d, k)).astype(wanted), rng.random(k)
    y = rng.integers(-1 if k == 1 else 0, k, n)
    weights, offsets = rng.random(n) / n, rng.standard_normal((n, k)).astype(wanted)
    engine = LocalEngine(wrap(X), OneLabel(y), weights, k, offsets=offsets)
    (block,) = engine.blocks()
    step = steps.LossGradient(loss, True)
    value, gradient = step(block, W, b.astype(wanted))
    Z = row_sums.scores(block, W, b.astype(wanted))
    product = dense_pass.product(loss, block, W, b, Z)
    monkeypatch.setattr(dense_pass, "WORTH_A_PASS", math.inf)
    expected_value, expected = step(block, W, b.astype(wanted))
    tolerance = 1e-5 if wanted == "f4" else 1e-12
    assert value == pytest.approx(expected_value, rel=tolerance)
    np.testing.assert_allclose(gradient, expected, atol=tolerance * np.abs(expected).max())
    R = (X @ W + b).astype(wanted)
    row_sums.curvatures(loss, block, Z, R)
    expected = np.vstack([X.T @ R, R.sum(axis=0)])
    np.testing.assert_allclose(product, expected, atol=10 * tolerance * max(np.abs(expected).max(), 1e-12))


def test_probabilities_of_rows_do_not_depend_on_blocks():
    whole = row_sample._uniform(3, 0, 1000)
    parts = [row_sample._uniform(3, first, 250) for first in range(0, 1000, 250)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert 0.45 < whole.mean() < 0.55
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 0.1
    assert abs(np.corrcoef(whole, row_sample._uniform(4, 0, 1000))[0, 1]) < 0.1


@pytest.mark.parametrize("is_direct", [True, False])
def test_hessians_of_samples_are_weighted_products(is_direct):
    rng = np.random.default_rng(18)
    m, size, k = 50, 4, 3
    columns = k * (k + 1) // 2 if is_direct else k
    X, C = rng.standard_normal((m, size)), rng.random((m, columns))
    drawn = [row_sample.Drawn(X[:20], C[:20], np.zeros((2, k))), row_sample.Drawn(X[20:], C[20:], np.zeros((2, k)))]
    H = sampled_hessian.of_sample(drawn, k, is_direct, 2)
    pairs = list(zip(*np.triu_indices(k))) if is_direct else [(r, r) for r in range(k)]
    for p, (r, q) in enumerate(pairs):
        expected = X.T @ (X * C[:, p, None])
        found = H.reshape(k, size, k, size)[r, :, q] if is_direct else H[r]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_certificate_takes_row_state():
    X, y = table(n=200, seed=19)
    engine = LocalEngine(wrap(X), OneLabel(y), np.full(200, 1.0 / 200), 3)
    objective = _objective(engine, "softmax", 0.1)
    W, b = np.zeros((X.shape[1], 3)), np.zeros(3)
    state = engine.state(newton_dual.NewtonDuals(objective.loss), W, b, W, b)
    primal, dual = primal_and_dual(objective, state, W, b)
    assert dual <= newton.solve(objective, tol=1e-10).certificate.primal <= primal
