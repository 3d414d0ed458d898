"""Label ranking by sorting against the sum over all pairs, on random and nasty rows; certificates that hold."""

from __future__ import annotations

import numpy as np
import pytest
import twin
from scipy import sparse
from scipy.optimize import minimize
from test_losses import all_curvatures, all_duals, all_values, gradients

from lineal import losses
from lineal.linear.fit import fit, prepare
from lineal.linear.options import TrainOptions
from lineal.losses import label_ranking
from lineal.problem.targets import LabelSets

LOSS = losses.get("label_ranking")


def targets_of(Y):
    return LabelSets(np.nonzero(Y)[1].astype(np.int32), np.concatenate([[0], np.cumsum(Y.sum(1))]).astype(np.int64))


def pair_curvature(Y, Z, V):
    """Σ over active pairs of 2(v_q − v_r)(e_q − e_r)."""
    flow = 2.0 * (V[:, None, :] - V[:, :, None]) * (twin.pair_gaps(Y, Z) > 0.0)
    return flow.sum(1) - flow.sum(2)


def nasty(kind, k=40, n=24):
    rng = np.random.default_rng(5)
    Y, Z = rng.random((n, k)) < rng.random((n, 1)), rng.normal(size=(n, k))
    Y[0], Y[1], Y[2] = True, False, np.arange(k) == 3  # all labels, none, one
    if kind == "ties":
        Z = rng.integers(-2, 3, (n, k)).astype(float)  # floors equal to each other and to scores
    elif kind == "equal":
        Z[:] = 0.25
    elif kind == "common":
        Z = np.round(Z * 64) / 64 + 2.0**30  # exact in float64, floors too
    elif kind == "apart":
        Z *= 10.0 ** rng.integers(-8, 9, (n, k))
    elif kind == "solved":
        Z = np.where(Y, 10.0, -10.0) + Z
    return Y, Z


@pytest.mark.core
@pytest.mark.parametrize("kind", ["random", "ties", "equal", "common", "apart", "solved"])
def test_all_sums_are_those_over_pairs(kind):
    Y, Z = nasty(kind)
    targets = targets_of(Y)
    values, G = gradients("label_ranking", targets, Z)
    np.testing.assert_allclose(values, twin.losses("label_ranking", Y, Z), rtol=1e-12)
    A = 2.0 * twin.pair_gaps(Y, Z)
    # entry by entry: a small entry beside huge ones is as right as they are
    np.testing.assert_allclose(np.where(Y, -G, G), np.where(Y, A.sum(2), A.sum(1)), rtol=2e-12)
    assert values[0] == values[1] == 0.0
    assert not G[:2].any()
    only, V, HV = np.empty(len(Z)), np.random.default_rng(1).normal(size=Z.shape), np.empty_like(Z)
    all_values(LOSS, targets, Z, only)
    np.testing.assert_allclose(only, values, rtol=1e-13)
    all_curvatures(LOSS, targets, Z, V, HV)
    np.testing.assert_allclose(HV, pair_curvature(Y, Z, V), atol=1e-11)


@pytest.mark.core
@pytest.mark.parametrize("labels", [label_ranking.FEW_LABELS, label_ranking.FEW_LABELS + 1, 60])
def test_both_ways_of_sorting(labels):
    rng = np.random.default_rng(labels)
    Y = np.argsort(rng.random((10, 80)), axis=1) < labels
    Z = rng.normal(size=Y.shape)
    values, G = gradients("label_ranking", targets_of(Y), Z)
    np.testing.assert_allclose(values, twin.losses("label_ranking", Y, Z), rtol=1e-13)
    np.testing.assert_allclose(G, twin.gradients("label_ranking", Y, Z), rtol=1e-11)


def test_float32_scores_are_as_good_as_they_can_be():
    Y, Z = nasty("random")
    Z = Z.astype(np.float32)
    values, G = gradients("label_ranking", targets_of(Y), Z)
    np.testing.assert_allclose(values, twin.losses("label_ranking", Y, Z.astype(float)), rtol=1e-12)
    np.testing.assert_allclose(G, twin.gradients("label_ranking", Y, Z.astype(float)), rtol=1e-6, atol=1e-6)


@pytest.mark.core
def test_gradient_by_finite_differences_of_label_sets():
    Y, Z = nasty("random", k=6)
    targets, step = targets_of(Y), 1e-6
    _, G = gradients("label_ranking", targets, Z)
    for r in range(Z.shape[1]):
        move = step * (np.arange(Z.shape[1]) == r)
        ups, downs = (gradients("label_ranking", targets, Z + sign * move)[0] for sign in (1, -1))
        np.testing.assert_allclose((ups - downs) / (2 * step), G[:, r], atol=2e-5)


@pytest.mark.core
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_dual_points_carry_what_the_repair_says(scale):
    """The amounts are added by hand, to the first reference class that a row lacks and from the first that it has."""
    rng = np.random.default_rng(3)
    Y, Z = rng.random((200, 5)) < 0.5, rng.normal(size=(200, 5))
    repair = np.zeros((3, 5))
    repair[0], repair[1], repair[2, :4] = rng.random(5), rng.random(5), [2, 0, 3, 1]
    repair[0, 2] = repair[1, 2] = 0.0
    A = 2.0 * twin.pair_gaps(Y, Z)
    for i, row in enumerate(Y):
        absent, present = ([c for c in (2, 0, 3, 1) if row[c] == has] for has in (False, True))
        for r in range(5):
            if not row[r] and present and (present[0] == 2 or r == 4):
                A[i, present[0], r] += repair[1, r]
            if row[r] and absent and (absent[0] == 2 or r == 4):
                A[i, r, absent[0]] += repair[0, r]
    A *= scale
    U, duals = np.empty_like(Z), np.empty(len(Z))
    all_duals(LOSS, targets_of(Y), Z, repair, scale, U, duals)
    np.testing.assert_allclose(U, A.sum(1) - A.sum(2), atol=1e-12)
    np.testing.assert_allclose(duals, (A - A**2 / 4).sum((1, 2)), rtol=1e-11, atol=1e-11)


def problem(seed=0, n=60, d=5, k=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = X @ rng.normal(size=(d, k)) + rng.normal(size=(n, k)) > 0.3
    Y[0], Y[1] = True, False
    return X, Y


def best(X, Y, alpha):
    """F* by an independent solver, and its θ."""
    d, k = X.shape[1], Y.shape[1]
    s = np.ones(len(X))

    def both(flat):
        theta = flat.reshape(d + 1, k)
        gradient = twin.objective_gradient("label_ranking", Y, X, theta[:d], theta[d], s, alpha)
        value = twin.objective("label_ranking", Y, X, theta[:d], theta[d], s, alpha)
        return value, np.vstack(gradient).ravel()

    found = minimize(
        both,
        np.zeros((d + 1) * k),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10000, "ftol": 1e-16, "gtol": 1e-11, "maxfun": 100000},
    )
    return found.fun, found.x.reshape(d + 1, k)


def together(Y):
    """Label 0, the most even one, is in every row of labels 3 and 4: nothing can be carried from them to it."""
    Y = Y.copy()
    Y[:, 0] |= Y[:, 3] | Y[:, 4]
    return Y


@pytest.mark.parametrize("change", [lambda Y: Y, together], ids=["free", "together"])
@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
def test_fits_reach_the_minimum_and_gaps_bound_the_distance(change, solver):
    X, Y = problem()
    Y = change(Y)
    least, theta = best(X, Y, 0.05)
    model, solution = fit(X, Y, TrainOptions(loss="label_ranking", alpha=0.05, tol=1e-9, solver=solver))
    assert solution.certificate.kind == "gap"
    assert solution.certificate.value <= 1e-9
    assert solution.certificate.primal == pytest.approx(least, rel=1e-8)
    np.testing.assert_allclose(model.weights, theta[:-1], atol=1e-4)
    objective = prepare(X, Y, TrainOptions(loss="label_ranking", alpha=0.05)).objective
    for size in (0.0, 1e-3, 1e-1, 1.0):
        noise = np.random.default_rng(1).normal(size=theta.shape) * size
        certificate = objective.certificate(theta + noise)
        assert certificate.kind == "gap"
        assert certificate.dual <= least * (1 + 1e-12)
        assert certificate.value >= (certificate.primal - least) / certificate.primal - 1e-12


def test_fits_do_not_depend_on_layout_order_of_labels_or_doubled_rows():
    X, Y = problem(1)
    options = TrainOptions(loss="label_ranking", alpha=0.05, tol=1e-9)
    W = fit(X, Y, options)[0].weights
    for other in (sparse.csr_array(X), sparse.csc_array(X)):
        np.testing.assert_allclose(fit(other, Y, options)[0].weights, W, atol=1e-5)
    order = np.array([3, 0, 4, 1, 2])
    np.testing.assert_allclose(fit(X, Y[:, order], options)[0].weights, W[:, order], atol=1e-5)
    weights = np.ones(len(X))
    weights[:20] = 2.0
    doubled = fit(np.vstack([X, X[:20]]), np.vstack([Y, Y[:20]]), options)[0].weights
    np.testing.assert_allclose(fit(X, Y, options, sample_weight=weights)[0].weights, doubled, atol=1e-5)


def test_rows_without_pairs_change_nothing_but_the_mean():
    X, Y = problem(2)
    has_pairs = Y.any(1) & ~Y.all(1)
    weights = has_pairs.astype(float)
    options = TrainOptions(loss="label_ranking", alpha=0.05, tol=1e-9)
    few = fit(X[has_pairs], Y[has_pairs], options)[0]
    np.testing.assert_allclose(fit(X, Y, options, sample_weight=weights)[0].weights, few.weights, atol=1e-5)
