"""What `minimise` does for every solver: finite answers, float64 where float32 is too coarse, and true messages."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from test_conditioned import objective, rows

from lineal import LinearClassifier
from lineal.dropin import LogisticRegression
from lineal.errors import DataError
from lineal.problem.minimise import AT_INFINITY, minimise
from lineal.problem.monitor import Monitor
from lineal.problem.solver import solver as make_solver
from lineal.solvers import fista
from lineal.solvers.block_cd import block_cd
from lineal.solvers.fobos import fobos
from lineal.solvers.lbfgs import lbfgs
from lineal.solvers.newton import newton


def solver(weights, status="stalled", seen=None):
    """A solver whose iterates are the given vectors, for an objective of one score column."""

    @make_solver(check=lambda loss, penalty: None)
    def solve(objective, budget, start):
        if seen is not None:
            seen.append((objective.engine.dtype, start, budget.max_iter))
        with Monitor(budget) as monitor:
            for iteration, w in enumerate(weights):
                theta = np.append(np.asarray(w, objective.engine.dtype), 0.0)[:, None].astype(objective.engine.dtype)
                W, b = objective.split(theta)
                ended = monitor.record(iteration, objective.value(theta), math.inf, W, b)
                if ended:
                    break
        return monitor.finish(W, b, objective.certificate(theta, budget.tol), ended or status)

    return solve


GOOD, BETTER, BAD = [0.1, -0.1, 0, 0], [0.5, -0.5, 0, 0], [-50.0, 50.0, 0, 0]
BROKEN = [np.nan, 0, 0, 0]


def test_the_answer_is_the_best_finite_iterate():
    X, y = rows()
    found = minimise(solver([GOOD, BETTER, GOOD, BROKEN]), objective(X, y), tol=1e-3)
    np.testing.assert_array_equal(found.weights[:, 0], BETTER)
    assert found.status == "stalled"
    assert "numbers overflowed in float64" in found.message
    assert "centre and scale the features" in found.message
    assert [row["iteration"] for row in found.history] == [0, 1, 2]
    assert found.history[-1]["gap"] == found.certificate.value
    best = np.append(BETTER, 0.0)[:, None]
    assert found.certificate.value == objective(X, y).certificate(best, 1e-3).value


def test_no_finite_iterate_at_all_is_an_error():
    X, y = rows()
    with pytest.raises(DataError, match="scale the features"):
        minimise(solver([BROKEN]), objective(X, y), tol=1e-3)


@pytest.mark.parametrize("alpha", [1e-2, 0.0])
def test_an_answer_worse_than_its_start_is_not_given(alpha):
    X, y = rows()
    problem = objective(X, y, alpha=alpha)
    found = minimise(solver([GOOD, BAD], status="max_iter"), problem, tol=1e-3)
    assert not found.weights.any()
    assert "the start has a lower objective, 0.69092331" in found.message
    assert found.certificate.primal == pytest.approx(0.69092331)
    assert found.certificate.value == problem.certificate(problem.theta_of(None), 1e-3).value
    kept = minimise(solver([BETTER], status="max_iter"), problem, tol=1e-3)
    np.testing.assert_array_equal(kept.weights[:, 0], BETTER)


def test_a_fit_that_stalls_in_float32_goes_on_in_float64():
    X, y = rows()
    X = X.astype(np.float32)
    seen = []
    found = minimise(solver([GOOD, BETTER], seen=seen), objective(X, y), tol=1e-3, max_iter=10)
    assert [dtype for dtype, _, _ in seen] == ["float32", "float64"]
    np.testing.assert_array_equal(seen[1][1].weights[:, 0], np.float32(BETTER))  # from where it came to
    assert [left for _, _, left in seen] == [10, 9]
    np.testing.assert_allclose(found.weights[:, 0], BETTER)


def test_a_fit_that_is_good_enough_stays_in_float32():
    X, y = rows()
    seen = []
    minimise(solver([GOOD], status="max_iter", seen=seen), objective(X.astype(np.float32), y), tol=1e-3)
    minimise(solver([GOOD], seen=seen), objective(X, y), tol=1e-3)
    assert [dtype for dtype, _, _ in seen] == ["float32", "float64"]


def separable():
    X, _ = rows()
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize(("kind", "loss"), [(newton, "logistic"), (lbfgs, "softmax"), (block_cd, "logistic")])
def test_a_minimum_at_infinity_is_named(kind, loss):
    X, y = separable()
    X[:, 0] += np.where(y == 1, 1.0, -1.0)
    found = minimise(kind.solve, objective(X, y, loss, alpha=0.0), tol=1e-3)
    assert AT_INFINITY in found.message
    assert np.isfinite(found.weights).all()


def test_groups_without_a_penalty_can_have_a_minimum_at_infinity():
    X, y = separable()
    X[:, 0] += np.where(y == 1, 1.0, -1.0)
    for group, is_named in ((0, True), (1, False)):
        factors = np.where(np.arange(2) == group, 0.0, 1.0)
        options = {"feature_groups": [[0, 1], [2, 3]], "penalty_factors": factors, "alpha": 1e-2}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            LinearClassifier("softmax", "l1/l2", **options).fit(X, y)
        assert is_named == any("infinity" in str(warning.message) for warning in caught)


def test_the_user_is_told_of_a_minimum_at_infinity():
    X, y = separable()
    X[:, 0] += np.where(y == 1, 1.0, -1.0)
    with pytest.warns(ConvergenceWarning, match="the minimum is at infinity.*use alpha > 0"):
        classifier = LinearClassifier("logistic", alpha=0.0).fit(X, y)
    assert classifier.status_ == "converged"  # its violation met the tolerance, as that of any large weights would
    with pytest.warns(ConvergenceWarning, match="the minimum is at infinity"):
        LogisticRegression(C=np.inf).fit(X, y)


def test_a_minimum_that_is_not_at_infinity_is_not_named():
    X, y = rows()
    for loss, alpha in (("logistic", 0.0), ("logistic", 1e-3), ("squared", 0.0)):
        assert "infinity" not in minimise(newton.solve, objective(X, y, loss, alpha=alpha), tol=1e-3).message
    X, y = separable()
    assert "infinity" not in minimise(newton.solve, objective(X, y, "squared_hinge", alpha=0.0), tol=1e-3).message


@pytest.mark.parametrize("kind", [fista, fobos])
def test_overflow_warns_nobody(kind):
    X, y = rows()
    X = (X * 1e15).astype(np.float32)
    with np.errstate(all="raise"):
        found = minimise(kind.solve, objective(X, y, alpha=1.0, fit_intercept=False), tol=1e-3, max_iter=20)
    assert np.isfinite(found.weights).all()
