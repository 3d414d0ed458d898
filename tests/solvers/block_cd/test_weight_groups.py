"""Block coordinate descent over rows and groups: optimality from each penalty's own subdifferential, an independent
proximal-gradient twin, screening, invariances, edges."""

from __future__ import annotations

import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import twin
from conftest import random_problem
from objectives import objective_on, text_like
from scipy import sparse
from sklearn.datasets import load_iris

import lineal
from lineal import losses
from lineal.core.jit import kernel
from lineal.errors import OptionError
from lineal.solvers.block_cd import block_cd
from lineal.solvers.block_cd.screening import safe_zeros

LOSSES = ["multiclass_squared_hinge", "squared_hinge", "softmax", "logistic", "label_ranking"]
GROUPED = ["l1/l2", "l1/linf", "sparse_group"]

slow = pytest.mark.slow

#: Every loss and every penalty: each pair is compiled on its own, which takes longer than all that is done with it.
PAIRS = [
    ("multiclass_squared_hinge", "l1/l2"),
    pytest.param("softmax", "l1/l2", marks=slow),
    pytest.param("label_ranking", "l1/l2", marks=slow),
    pytest.param("squared_hinge", "l1/l2", marks=slow),
    pytest.param("logistic", "l1/l2", marks=slow),
    pytest.param("multiclass_squared_hinge", "l1/linf", marks=slow),
    pytest.param("multiclass_squared_hinge", "sparse_group", marks=slow),
]


def rows_of(X):
    """Sparse rows, for which kernels are compiled anyway."""
    return X if sparse.issparse(X) else sparse.csr_array(X)


def dense_problem(seed, n, d, k):
    X, y = random_problem(seed, n, d, k)
    return X.toarray(), y


def labels_for(loss, y, k=3):
    """Label sets for label ranking: the class and, for some rows, its neighbour; none and all occur."""
    if loss != "label_ranking":
        return y
    Y = np.eye(k, dtype=int)[y]
    Y[::4, 1] = 1
    Y[5], Y[11] = 0, 1
    return Y


def distance(name, w, g, strength):
    """How far −g is from strength·∂ω(w), by the definition of each subdifferential."""
    w, g = w.ravel(), g.ravel()
    size = np.linalg.norm(w)
    if name == "l1/l2":
        return max(np.linalg.norm(g) - strength, 0.0) if size == 0 else np.linalg.norm(g + strength * w / size)
    if name == "l1/linf":
        top = np.abs(w).max()
        if top == 0:
            return max(np.abs(g).sum() - strength, 0.0)
        at_top = np.abs(w) >= top * (1 - 1e-6)
        parts = -g * np.sign(w)
        off = np.abs(g[~at_top]).max(initial=0.0)
        return max(off, abs(parts[at_top].sum() - strength), max(-parts[at_top].min(), 0.0))
    ratio = 0.5
    if size == 0:
        soft = np.sign(g) * np.maximum(np.abs(g) - ratio * strength, 0)
        return max(np.linalg.norm(soft) - (1 - ratio) * strength, 0.0)
    rest = g + (1 - ratio) * strength * w / size
    free = w != 0
    return math.hypot(
        np.linalg.norm(rest[free] + ratio * strength * np.sign(w[free])),
        np.linalg.norm(np.maximum(np.abs(rest[~free]) - ratio * strength, 0)),
    )


def prox(name, v, t):
    """Prox of one group, by definition of each norm."""
    flat = v.ravel()
    if name == "sparse_group":
        flat = np.sign(flat) * np.maximum(np.abs(flat) - 0.5 * t, 0)
        t = 0.5 * t
    if name == "l1/linf":
        u = np.sort(np.abs(flat))[::-1]
        if u.sum() <= t:
            return np.zeros_like(v)
        sums = np.cumsum(u) - t
        rho = np.flatnonzero(u > sums / (1 + np.arange(len(u))))[-1]
        top = sums[rho] / (rho + 1)
        return np.clip(flat, -top, top).reshape(v.shape)
    size = np.linalg.norm(flat)
    return (max(1 - t / size, 0.0) * flat if size > 0 else flat).reshape(v.shape)


def twin_minimum(X, Y, loss, penalty, alpha, groups, s, iterations=60_000):
    """min F by plain accelerated proximal gradient steps with restarts, until it no longer falls."""
    X = X.toarray() if sparse.issparse(X) else X
    X = np.hstack([X, np.ones((len(X), 1))])
    d, k = X.shape[1], Y.shape[1]
    L = 2.0 * k * np.linalg.norm((X * s[:, None]).T @ X, 2)
    value = {"l1/l2": lambda w: np.linalg.norm(w), "l1/linf": lambda w: np.abs(w).max()}.get(
        penalty, lambda w: 0.5 * np.abs(w).sum() + 0.5 * np.linalg.norm(w)
    )

    def F(V):
        return float(s @ twin.losses(loss, Y, X @ V)) + alpha * sum(value(V[g]) for g in groups)

    V = P = np.zeros((d, k))
    t, best = 1.0, math.inf
    for step in range(iterations):
        G = X.T @ (s[:, None] * twin.gradients(loss, Y, X @ P))
        N = P - G / L
        for g in groups:
            N[g] = prox(penalty, N[g], alpha / L)
        if np.sum((P - N) * (N - V)) > 0:
            t = 1.0
        t, before = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        P, V = N + (before - 1) / t * (N - V), N
        if step % 2000 == 1999:
            now = F(V)
            if now > best * (1 - 1e-12):
                break
            best = now
    return F(V), V


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
def test_every_group_is_optimal_and_the_minimum_is_that_of_a_plain_twin(loss, penalty):
    X, y = dense_problem(3, n=50, d=8, k=3)
    y = labels_for(loss, y)
    objective = objective_on(rows_of(X), y, loss, penalty)
    found = block_cd.solve(objective, tol=1e-9, max_iter=3000)
    assert found.status == "converged"
    assert found.certificate.kind == "gap"
    assert found.certificate.value <= 1e-9
    Y = np.asarray(y) if np.ndim(y) == 2 else twin.indicator(y, 3)
    s = np.full(len(X), 1 / len(X))
    gradient = X.T @ (s[:, None] * twin.gradients(loss, Y, X @ found.weights + found.intercept))
    alpha = objective.regulariser.alpha
    for w, g in zip(found.weights, gradient):
        assert distance(penalty, w, g, alpha) <= 2e-4 * alpha
    wanted, V = twin_minimum(X, Y, loss, penalty, alpha, [[j] for j in range(8)], s)
    assert found.certificate.primal == pytest.approx(wanted, rel=1e-8)
    others = [j for j in range(8) if j not in (3, 4)]  # those two are equal, so their weights are not unique
    np.testing.assert_array_equal(found.weights[others].any(axis=1), V[others].any(axis=1))


@pytest.mark.parametrize("penalty", ["l1", pytest.param("elastic_net", marks=slow), pytest.param("l2", marks=slow)])
@pytest.mark.parametrize("loss", [pytest.param("multiclass_squared_hinge", marks=slow), "softmax"])
def test_penalties_of_single_weights_with_direct_losses(loss, penalty):
    X, y = dense_problem(4, n=60, d=8, k=3)
    objective = objective_on(rows_of(X), y, loss, penalty, 0.02)
    found = block_cd.solve(objective, tol=1e-8, max_iter=3000)
    assert found.status == "converged"
    _, gradient = objective.loss_and_gradient(objective.theta_of(found))
    violations = objective.regulariser.violation(found.weights, gradient[:8])
    assert violations.max() <= 1e-4 * 0.02
    assert np.abs(gradient[8]).max() <= 1e-6


@pytest.mark.parametrize("seed", [0, 1])
def test_newton_steps_are_taken_where_the_loss_is_flat(seed):
    """More weights than rows can tell apart, and a weak l1: directions are long, and weights in the way are near."""
    rng = np.random.default_rng(seed)
    X, y = 100.0 * rng.normal(size=(13, 7)), rng.integers(0, 3, 13)
    X[:, 3], y[:3] = 500.0, np.arange(3)
    found = block_cd.solve(objective_on(rows_of(X), y, "softmax", "l1", fraction=1e-3), tol=1e-5, max_iter=100)
    assert found.status == "converged"


@pytest.mark.parametrize(
    "penalty", ["l1/l2", pytest.param("l1/linf", marks=slow), pytest.param("sparse_group", marks=slow)]
)
def test_features_of_a_group_are_zero_together(penalty):
    X, y = dense_problem(5, n=80, d=9, k=3)
    groups = [[0, 4, 8], [1, 2], [3, 5, 6, 7]]
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", penalty, groups=groups, fraction=0.6)
    found = block_cd.solve(objective, tol=1e-9, max_iter=3000)
    assert found.status == "converged"
    s, Y = np.full(len(X), 1 / len(X)), twin.indicator(y, 3)
    wanted, V = twin_minimum(X, Y, "multiclass_squared_hinge", penalty, objective.regulariser.alpha, groups, s)
    assert found.certificate.primal == pytest.approx(wanted, rel=1e-8)
    is_used = [bool(found.weights[group].any()) for group in groups]
    assert is_used == [bool(V[group].any()) for group in groups]
    assert 0 < sum(is_used) < 3


@slow
def test_a_nonzero_group_may_have_features_that_are_zero():
    X, y = dense_problem(5, n=80, d=9, k=3)
    X[:, 4] = X[:, 1] = 0.0  # the first and the second of their groups
    groups = [[0, 4, 8], [1, 2], [3, 5, 6, 7]]
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", "sparse_group", groups=groups, fraction=0.2)
    found = block_cd.solve(objective, tol=1e-9, max_iter=3000)
    assert found.status == "converged"
    assert not found.weights[[1, 4]].any()
    s, Y = np.full(len(X), 1 / len(X)), twin.indicator(y, 3)
    alpha = objective.regulariser.alpha
    wanted, _ = twin_minimum(X, Y, "multiclass_squared_hinge", "sparse_group", alpha, groups, s)
    assert found.certificate.primal == pytest.approx(wanted, rel=1e-8)


def test_groups_must_be_a_partition():
    X, y = dense_problem(5, n=30, d=4, k=3)
    for groups, message in [([[0, 1], [1, 2, 3]], "1"), ([[0, 1], [2]], "3")]:
        with pytest.raises(OptionError, match=message):
            objective_on(rows_of(X), y, "softmax", groups=groups, alpha=0.1)


@slow
@pytest.mark.parametrize("loss", ["multiclass_squared_hinge", "softmax"])
def test_layouts_threads_precisions_and_weights_agree(loss):
    X, y = text_like(6)
    wanted = block_cd.solve(objective_on(rows_of(X), y, loss), tol=1e-8, max_iter=3000)
    alpha = objective_on(rows_of(X), y, loss).regulariser.alpha
    counts = np.random.default_rng(0).integers(1, 4, X.shape[0])
    rows = np.repeat(np.arange(X.shape[0]), counts)
    for other, threads in [(X.tocsc(), 1), (X.toarray(), 2), (np.asfortranarray(X.toarray()), 1), (X, 2)]:
        found = block_cd.solve(objective_on(other, y, loss, alpha=alpha), tol=1e-8, max_iter=3000, n_jobs=threads)
        np.testing.assert_allclose(found.weights, wanted.weights, atol=2e-3 * np.abs(wanted.weights).max())
        assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-8)
    narrow = block_cd.solve(objective_on(X.astype(np.float32), y, loss, alpha=alpha), tol=1e-4)
    assert narrow.status == "converged"
    assert narrow.weights.dtype == np.float32
    assert narrow.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-4)
    weighted = block_cd.solve(objective_on(rows_of(X), y, loss, alpha=alpha, weights=counts), tol=1e-8, max_iter=3000)
    repeated = block_cd.solve(objective_on(X[rows], y[rows], loss, alpha=alpha), tol=1e-8, max_iter=3000)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=2e-8)


def test_permuted_classes_permute_the_model():
    X, y = text_like(7, k=4)
    order = np.array([2, 0, 3, 1])
    plain = block_cd.solve(objective_on(rows_of(X), y, "multiclass_squared_hinge"), tol=1e-9, max_iter=3000)
    turned = block_cd.solve(objective_on(X, order[y], "multiclass_squared_hinge"), tol=1e-9, max_iter=3000)
    np.testing.assert_allclose(turned.weights[:, order], plain.weights, atol=1e-3 * np.abs(plain.weights).max())


def test_offsets_are_base_scores():
    X, y = dense_problem(8, n=60, d=6, k=3)
    W0 = np.random.default_rng(1).normal(size=(6, 3))
    objective = objective_on(rows_of(X), y, "softmax", alpha=0.01, offsets=X @ W0)
    found = block_cd.solve(objective, tol=1e-8, max_iter=3000)
    assert found.status == "converged"
    s, Y = np.full(60, 1 / 60), twin.indicator(y, 3)
    Z = X @ (found.weights + W0) + found.intercept
    value = s @ twin.losses("softmax", Y, Z) + 0.01 * np.linalg.norm(found.weights, axis=1).sum()
    assert found.certificate.primal == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
def test_the_largest_alpha_gives_nothing_but_the_best_intercept_at_once(loss, penalty):
    X, y = dense_problem(9, n=60, d=6, k=3)
    y = labels_for(loss, y)
    objective = objective_on(rows_of(X), y, loss, penalty, fraction=1.0 + 1e-9)
    found = block_cd.solve(objective, tol=1e-9)
    assert found.status == "converged"
    assert not found.weights.any()
    assert found.certificate.value <= 1e-9
    assert len(found.history) == 1
    below = block_cd.solve(objective.with_alpha(0.99 * objective.regulariser.alpha), tol=1e-9, max_iter=3000)
    assert below.weights.any()


def test_screened_groups_are_zero_in_a_tight_solution():
    X, y = text_like(10, n=200, d=400)
    for loss, penalty in [("multiclass_squared_hinge", "l1/l2"), ("softmax", "l1")]:
        objective = objective_on(rows_of(X), y, loss, penalty, fraction=0.3)
        exact = block_cd.solve(objective, tol=1e-10, max_iter=5000)
        is_nonzero = exact.weights.any(axis=1)
        counts = []
        for tol in (1e-1, 1e-2, 1e-4, 1e-7):
            rough = block_cd.solve(objective, tol=tol, max_iter=5000)
            zeros = safe_zeros(objective, objective.theta_of(rough))
            assert not (zeros & is_nonzero).any()
            counts.append(int(zeros.sum()))
        assert counts[-1] > 0.5 * (~is_nonzero).sum()
        assert counts == sorted(counts)


def test_screening_says_nothing_where_it_cannot():
    X, y = dense_problem(11, n=40, d=5, k=3)
    for penalty in ("l2", "elastic_net"):
        objective = objective_on(rows_of(X), y, "softmax", penalty, 0.1)
        assert not safe_zeros(objective, objective.start()).any()
    free = objective_on(rows_of(X), y, "softmax", "l1/l2", 0.1, factors=[0, 1, 1, 1, 1])
    assert not safe_zeros(free, free.start()).any()


def test_free_features_are_certified_by_a_violation():
    X, y = dense_problem(12, n=80, d=6, k=3)
    objective = objective_on(rows_of(X), y, "softmax", alpha=0.02, factors=[0, 1, 1, 2, 1, 1])
    found = block_cd.solve(objective, tol=1e-5, max_iter=5000)
    assert found.status == "converged"
    assert found.certificate.kind == "violation"
    assert found.weights[0].any()


@slow
def test_two_classes_agree_with_the_binary_formulation_after_rescaling():
    """W = [w/2·(−1, 1)] has ‖W_j‖ = |w_j|/√2 and the margin z₁ − z₀ = w'x: α becomes √2·α'."""
    X, y = dense_problem(13, n=80, d=7, k=2)
    alpha = 0.03
    binary = block_cd.solve(objective_on(rows_of(X), y, "squared_hinge", "l1", alpha), tol=1e-9, max_iter=3000)
    direct = block_cd.solve(
        objective_on(rows_of(X), y, "multiclass_squared_hinge", "l1/l2", math.sqrt(2.0) * alpha),
        tol=1e-9,
        max_iter=3000,
    )
    assert direct.certificate.primal == pytest.approx(binary.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(direct.weights[:, 1] - direct.weights[:, 0], binary.weights[:, 0], atol=1e-4)


@slow
def test_label_ranking_with_one_label_is_the_multiclass_squared_hinge():
    X, y = dense_problem(14, n=60, d=7, k=4)
    one = objective_on(rows_of(X), y, "multiclass_squared_hinge", alpha=0.02)
    sets = objective_on(X, np.eye(4, dtype=int)[y], "label_ranking", alpha=0.02)
    theta = np.random.default_rng(0).normal(size=one.shape)
    assert sets.value(theta) == pytest.approx(one.value(theta), rel=1e-12)
    first, second = (block_cd.solve(objective, tol=1e-9, max_iter=3000) for objective in (one, sets))
    np.testing.assert_allclose(first.weights, second.weights, atol=1e-5)


@pytest.mark.parametrize("loss", ["multiclass_squared_hinge", pytest.param("logistic", marks=slow)])
def test_odd_columns_and_rows(loss):
    """An empty column, a constant one, two the same, one of huge scale; an empty row; classes with one row."""
    X, y = dense_problem(15, n=60, d=8, k=3)
    X[:, 2], X[:, 3], X[:, 5] = 0.0, 1.0, X[:, 4]
    X[:, 6] *= 1e4
    X[7] = 0.0
    y = y.copy()
    y[y == 2], y[0] = 1, 2
    objective = objective_on(rows_of(X), y, loss, fraction=0.2)
    found = block_cd.solve(objective, tol=1e-6, max_iter=5000)
    assert found.status == "converged"
    assert not found.weights[2].any()
    assert not found.weights[3].any()


@pytest.mark.parametrize("options", [{}, {"method": "cyclic"}], ids=["working_sets", "cyclic"])
def test_a_start_with_weights_on_an_empty_column_is_no_trap(options):
    X, y = dense_problem(15, n=60, d=8, k=3)
    X[:, 2] = 0.0
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.2)
    found = block_cd.solve(objective, tol=1e-6, max_iter=5000, start=np.ones(objective.shape), **options)
    assert found.status == "converged"
    assert not found.weights[2].any()


def test_more_features_than_rows_and_one_row_a_class():
    rng = np.random.default_rng(16)
    X, y = rng.normal(size=(4, 30)), np.arange(4)
    found = block_cd.solve(objective_on(rows_of(X), y, "softmax"), tol=1e-7, max_iter=3000)
    assert found.status == "converged"


def test_a_warm_start_is_kept_and_is_over_sooner():
    X, y = text_like(17)
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.05)
    first = block_cd.solve(objective, tol=1e-6, max_iter=3000)
    again = block_cd.solve(objective, tol=1e-6, start=first)
    assert len(again.history) <= 3
    nearer = block_cd.solve(objective.with_alpha(0.9 * objective.regulariser.alpha), tol=1e-6, start=first)
    assert len(nearer.history) < len(first.history)


def test_the_history_ends_below_where_it_began_and_endings_are_told():
    X, y = text_like(18)
    objective = objective_on(rows_of(X), y, "multiclass_squared_hinge", fraction=0.01)
    assert block_cd.solve(objective, tol=1e-12, max_iter=2).status == "max_iter"
    assert block_cd.solve(objective, tol=1e-12, max_time=0.0).status == "max_time"
    seen = []
    stopped = block_cd.solve(objective, callbacks=[lambda now: seen.append(now.objective) or len(seen) == 3])
    assert stopped.status == "stopped"
    assert seen == sorted(seen, reverse=True)

    def interrupt(now):
        if now.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    ended = block_cd.solve(objective, tol=1e-12, callbacks=[interrupt])
    assert ended.status == "interrupted"
    assert math.isfinite(ended.certificate.primal)


def test_a_centre_is_refused_for_groups():
    X, y = dense_problem(19, n=30, d=4, k=3)
    with pytest.raises(OptionError, match="centre"):
        block_cd.solve(objective_on(rows_of(X), y, "softmax", "l2", 0.1, centre=np.ones((4, 3))))


@pytest.mark.parametrize("penalty", ["l1", "l1/l2"])
def test_columns_come_in_one_block_whatever_the_rows_of_a_block(penalty):
    X, y = dense_problem(28, n=60, d=5, k=3)
    whole = objective_on(sparse.csc_array(X), y, "softmax", penalty, alpha=0.02)
    cut = replace(whole, engine=replace(whole.engine, block_rows=7))
    one, other = (block_cd.solve(objective, tol=1e-6) for objective in (whole, cut))
    assert other.status == "converged"
    np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "newton"}, "method"),
        ({"shrinking": True}, "cyclic"),
        ({"rule": "sum"}, "cyclic"),
        ({"method": "cyclic", "step": "long"}, "step"),
        ({"method": "cyclic", "constant": "paper"}, "line_search"),
        ({"method": "parallel", "step": "line_search"}, "parallel"),
        ({"method": "parallel", "shrinking": True}, "shrinking"),
        ({"method": "random", "rule": "mean"}, "rule"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options, message):
    X, y = dense_problem(24, n=30, d=4, k=3)
    with pytest.raises(OptionError, match=message):
        block_cd.solve(objective_on(rows_of(X), y, "softmax", alpha=0.1), **options)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_and_diagonals_of_a_row_are_those_of_the_loss(loss):
    """`gradient_at` is the gradient, `add_diagonal` the diagonal of what `row_curvature` multiplies by."""
    kind, rng = losses.get(loss), np.random.default_rng(25)
    for labels in ([2], [0, 3]) if loss in ("squared_hinge", "logistic", "label_ranking") else ([2], [0]):
        labels, Z = np.array(labels, np.int32), 2.0 * rng.normal(size=15)
        wanted, found, diagonal, work, column = np.empty(5), np.zeros(15), np.ones(5), np.empty(5), np.empty(5)
        _see(kind, labels, Z, wanted, found, diagonal)
        np.testing.assert_allclose(found[5:10], 0.5 * wanted, rtol=1e-12, atol=1e-14)
        assert not found[:5].any()
        assert not found[10:].any()
        for r in range(5):
            kind.row_curvature(labels, Z[5:10], np.eye(5)[r], work, column)
            assert diagonal[r] - 1.0 == pytest.approx(0.5 * column[r], rel=1e-12, abs=1e-14)


@kernel
def _see(loss, labels, Z, wanted, found, diagonal):
    """Of the middle row of three, with weight ½."""
    k = np.uintp(5)
    loss.row_gradient(labels, Z[5:10], np.empty(5), wanted)
    loss.gradient_at(labels, Z, k, k, 0.5, found)
    loss.add_diagonal(labels, Z, k, k, 0.5, diagonal)


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_the_unit_of_the_features_does_not_matter(dtype):
    """Gradients by features have their unit and the intercept's has none: neither may pass for the other."""
    X, y = load_iris(return_X_y=True)
    found = [
        lineal.LinearClassifier(loss="multiclass_squared_hinge", penalty="l1/l2", alpha=1e-2 * unit).fit(
            (X * unit).astype(dtype), y
        )
        for unit in (1.0, 1e-12, 1e8)
    ]
    assert [one.status_ for one in found] == ["converged"] * 3
    assert max(one.n_iter_ for one in found) <= found[0].n_iter_ + 5
    for one in found[1:]:
        assert one.certificate_.primal == pytest.approx(found[0].certificate_.primal, rel=2e-3)
