"""Generalized least squares: Theorem 1 (and solvers that break it), endings, what the solver refuses."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from lineal.errors import OptionError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.least_squares.links import Link
from lineal.linear.estimator import LinearClassifier
from lineal.linear.fit import prepare
from lineal.linear.options import TrainOptions
from lineal.numerics.factorisation import Factor
from lineal.solvers import least_squares

LIPSCHITZ = {"squared": 1.0, "softmax": 0.5, "logistic": 0.25}
DIGITS, NUMBERS = load_digits(return_X_y=True)
IRIS, SPECIES = load_iris(return_X_y=True)


def objective_of(X, y, loss, alpha=0.0, fit_intercept=False, sample_weight=None):
    options = TrainOptions(loss=loss, alpha=alpha, fit_intercept=fit_intercept)
    return prepare(X, y, options, sample_weight=sample_weight).objective


def sigmoid(Z):
    return 1.0 / (1.0 + np.exp(-Z))


SIGMOID = Link(sigmoid, 0.25, lambda Z: np.logaddexp(0.0, Z).sum(axis=1), "my sigmoid")


# --- Theorem 1. A check is a function, so that it can be seen to fail on a broken solver.


def whitened_and_not(seed=0, n=300, d=12, k=3):
    """Rows with Σ̂ = I, the same with cond(Σ̂) = 1e8, and labels that neither can tell apart without errors."""
    rng = np.random.default_rng(seed)
    Z = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    X = Z @ (left * np.logspace(0, -4, d)) @ right
    assert 0.9e8 < np.linalg.cond(X.T @ X / n) < 1.1e8
    y = (Z @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k))).argmax(axis=1)
    return Z, X, y


def plain_run(X, y, loss, iterations=150):
    solution = least_squares.solve(objective_of(X, y, loss), tol=1e-300, max_iter=iterations, method="plain")
    return np.array([row["objective"] for row in solution.history])


def best_of(Z, y, loss):
    """The minimum of the loss, and the squared norm in the metric of Σ̂ of the shortest weights that reach it."""
    solution = least_squares.solve(objective_of(Z, y, loss), tol=1e-9, max_iter=5000)
    assert solution.certificate.value <= 1e-9
    W = solution.weights
    W = W - W.mean(axis=1, keepdims=True) if loss == "softmax" else W
    return solution.certificate.primal, float((W**2).sum())


def check_decreases(loss):
    _, X, y = whitened_and_not()
    values = plain_run(X, y, loss)
    assert all(after <= before * (1 + 1e-11) for before, after in itertools.pairwise(values))


def check_bound(loss):
    Z, X, y = whitened_and_not()
    lowest, size = best_of(Z, y, loss)
    above = plain_run(X, y, loss) - lowest
    t = np.arange(1, len(above))
    assert (above[1:] <= 2.0 * LIPSCHITZ[loss] * size / (t + 4) + 1e-12).all()


def iterations_to(values, level):
    assert values.min() <= level
    return int(np.argmax(values <= level))


def check_conditioning(loss):
    Z, X, y = whitened_and_not()
    lowest, _ = best_of(Z, y, loss)
    level = lowest + 1e-5
    whitened, other = (iterations_to(plain_run(rows, y, loss), level) for rows in (Z, X))
    assert abs(other - whitened) <= 0.1 * whitened
    assert gradient_descent(X, y, loss, 100 * other).min() > level


def gradient_descent(X, y, loss, iterations):
    """Losses of plain gradient descent with the longest safe step."""
    objective = objective_of(X, y, loss)
    step = 1.0 / (LIPSCHITZ[loss] * np.linalg.eigvalsh(X.T @ X / len(X))[-1])
    Y = y[:, None] == np.arange(objective.shape[1])
    W, values = np.zeros(objective.shape), []
    for t in range(iterations):
        P = X @ W
        if loss == "softmax":
            P = np.exp(P - P.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
        elif loss == "logistic":
            P = sigmoid(P)
        else:
            P = 0.5 * (P + 1.0)  # z − t for t of ±1 is twice this less Y
        W -= step * (1.0 if loss != "squared" else 2.0) * X.T @ (P - Y) / len(X)
        if t % 50 == 0 or t == iterations - 1:
            values.append(objective.value(W))
    return np.array(values)


CHECKS = [check_decreases, check_bound, check_conditioning]


@pytest.mark.parametrize("loss", LIPSCHITZ)
@pytest.mark.parametrize("check", CHECKS)
def test_theorem_1(check, loss):
    check(loss)


def _without_the_matrix(factor, monkeypatch):
    monkeypatch.setattr(Factor, "solve", lambda self, R: R)


def _with_a_quarter_of_the_constant(factor, monkeypatch):
    monkeypatch.setattr(
        least_squares, "_majorant", lambda centred: least_squares._Matrix(centred).factor(LIPSCHITZ["logistic"] / 4)
    )


def _without_what_is_off_the_diagonal(factor, monkeypatch):
    whole = Factor.__init__
    monkeypatch.setattr(
        Factor, "__init__", lambda self, moment, *more: whole(self, np.diag(np.diag(moment)), *more)
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("breakage", "failing"),
    [
        (_without_the_matrix, [check_bound, check_conditioning]),
        (_with_a_quarter_of_the_constant, [check_decreases]),
        (_without_what_is_off_the_diagonal, [check_conditioning]),
    ],
)
def test_theorem_1_fails_on_a_broken_solver(breakage, failing, monkeypatch):
    Z, _, y = whitened_and_not()
    known = best_of(Z, y, "logistic")
    monkeypatch.setitem(globals(), "best_of", lambda *given: known)  # the minimum stays what it is
    breakage(Factor, monkeypatch)
    for check in failing:
        with pytest.raises(AssertionError):
            check("logistic")


def test_constants_are_those_of_the_paper():
    for loss, bound in LIPSCHITZ.items():
        assert objective_of(IRIS, SPECIES, loss).loss.lipschitz(3) == bound


# --- endings


@pytest.mark.parametrize("method", ["plain", "accelerated", "quasi_newton"])
def test_callbacks_limits_and_interrupts(method):
    objective = objective_of(IRIS, SPECIES, "softmax", alpha=1e-5, fit_intercept=True)
    seen = []
    stopped = least_squares.solve(
        objective, tol=1e-14, callbacks=[lambda s: seen.append(s) or s.iteration == 3], method=method
    )
    assert stopped.status == "stopped"
    assert [s.iteration for s in seen] == [0, 1, 2, 3]
    assert [row["iteration"] for row in stopped.history] == [0, 1, 2, 3]
    np.testing.assert_array_equal(seen[-1].weights, stopped.weights)
    assert stopped.history[-1]["gap"] == stopped.certificate.value
    late = least_squares.solve(objective, tol=1e-14, max_time=1e-9, method=method)
    assert late.status == "max_time"
    few = least_squares.solve(objective, tol=1e-14, max_iter=2, method=method)
    assert few.status == "max_iter"
    assert "max_iter=2" in few.message
    before = signal.getsignal(signal.SIGINT)
    ended = least_squares.solve(
        objective, tol=1e-14, callbacks=[lambda s: s.iteration == 2 and signal.raise_signal(signal.SIGINT)],
        method=method,
    )  # fmt: skip
    assert ended.status == "interrupted"
    assert len(ended.history) == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_a_start_is_taken():
    objective = objective_of(IRIS, SPECIES, "softmax", alpha=1e-3, fit_intercept=True)
    for method in ("plain", "accelerated", "quasi_newton"):
        first = least_squares.solve(objective, tol=1e-6, method=method, max_iter=5000)
        again = least_squares.solve(objective, tol=1e-6, method=method, start=first)
        assert len(again.history) == 1
        assert again.certificate.value <= 1e-6
    with pytest.raises(OptionError, match="method='newtn'"):
        least_squares.solve(objective, method="newtn")


def test_losses_and_penalties_that_it_refuses():
    with pytest.raises(OptionError, match="least_squares"):
        LinearClassifier(loss="hinge", solver="least_squares").fit(IRIS, SPECIES)
    with pytest.raises(OptionError, match="least_squares"):
        LinearClassifier(loss="softmax", penalty="l1", solver="least_squares").fit(IRIS, SPECIES)
    by_name = LinearClassifier(loss="softmax", alpha=1e-2, solver="least_squares", tol=1e-8).fit(IRIS, SPECIES)
    np.testing.assert_allclose(
        by_name.coef_, LeastSquaresClassifier(alpha=1e-2, tol=1e-8).fit(IRIS, SPECIES).coef_, atol=1e-9
    )


def test_offsets_factors_and_a_centre():
    """What the objective allows beyond the estimator: against another solver of the same objective."""
    from lineal.penalties import get
    from lineal.penalties.regulariser import Regulariser
    from lineal.solvers.lbfgs import lbfgs

    rng = np.random.default_rng(0)
    problem = prepare(IRIS, SPECIES, TrainOptions(loss="softmax"), offsets=rng.normal(size=(150, 3)))
    for regulariser in (
        Regulariser(get("l2"), 1e-2, 4, factors=np.array([0.0, 1.0, 2.0, 5.0])),
        Regulariser(get("l2"), 1e-2, 4, centre=rng.normal(size=(4, 3))),
    ):
        objective = replace(problem.objective, regulariser=regulariser)
        expected = lbfgs.solve(objective, tol=1e-10, max_iter=5000)
        for method in ("plain", "accelerated", "quasi_newton"):
            found = least_squares.solve(objective, tol=1e-7, max_iter=20_000, method=method)
            assert found.status == "converged"
            assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)
