"""Calibrated least squares: Theorem 2 (and solvers that break it), a NumPy twin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_iris

from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.numerics import label_residuals
from lineal.numerics.basis import functions
from lineal.numerics.projections import PROJECTIONS
from lineal.solvers import calibrated

IRIS, SPECIES = load_iris(return_X_y=True)
POLYNOMIAL = functions("polynomial")
IDENTITY = functions(["y"])


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(float)


def even(n):
    return np.full(n, 1.0 / n)


class Values(NamedTuple):
    """Targets that are no labels: any numbers."""

    Y: np.ndarray

    def rows(self, start, stop):
        return Values(self.Y[start:stop])


@pytest.fixture(autouse=True)
def _values(monkeypatch):
    """Targets of `rows` are taken as they are."""
    whole = label_residuals.zeros_and_ones

    def zeros_and_ones(targets, n, k, dtype):
        return targets.Y.astype(dtype) if isinstance(targets, Values) else whole(targets, n, k, dtype)

    monkeypatch.setattr(label_residuals, "zeros_and_ones", zeros_and_ones)


def rows(X, Y, s):
    return LocalEngine(wrap(X), Values(Y), s, Y.shape[1])


def bisected(V):
    """The projection onto the simplex by bisection on the shift of every row."""
    high = V.max(axis=1, keepdims=True)
    low = high - 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        is_low = np.maximum(V - middle, 0.0).sum(axis=1, keepdims=True) > 1.0
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.maximum(V - high, 0.0)


# --- Theorem 2. A check is a function, so that it can be seen to fail on a broken solver.


def affine(seed=0, n=200, d=4, k=3):
    """Rows far from zero, y = 1/k + Mz within the simplex, and κ of M on directions that leave sums as they are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    basis = np.linalg.qr(np.hstack([np.ones((k, 1)), rng.normal(size=(k, k - 1))]))[0][:, 1:]
    M = basis * np.linspace(1.0, 1.5, k - 1) @ basis.T
    Y = X @ rng.normal(size=(d, k)) @ M
    Y = 1.0 / k + 0.9 / (k * np.abs(Y).max()) * Y
    assert (Y > 0.0).all()
    np.testing.assert_allclose(Y.sum(axis=1), 1.0)
    return X, Y, 1.5


def check_theorem_2():
    X, Y, condition = affine()
    constant = 22 * Y.shape[1] * condition**2
    found = calibrated.solve(
        rows(X, Y, even(len(X))), alpha=0.0, basis=IDENTITY, onto="simplex", fit_intercept=False,
        max_iter=10 * int(constant), min_gain=0.0,
    )  # fmt: skip
    errors = np.array([row["objective"] for row in found.history])
    t = np.arange(1, len(errors))
    assert (errors[1:] <= constant / t).all()
    # An end before max_iter: the error stays what it is. The bound is far below what a constant prediction leaves.
    steps = 2_000 * constant
    assert constant / steps < 0.1 * ((Y - Y.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert errors[-1] <= constant / steps


def test_theorem_2():
    check_theorem_2()


def _without_projection(monkeypatch):
    monkeypatch.setitem(PROJECTIONS, "simplex", lambda V: V)


def _without_calibration(monkeypatch):
    monkeypatch.setattr(calibrated, "best_map", lambda squares, products, dtype: np.eye(len(squares)))
    _without_projection(monkeypatch)


def _with_the_residual_turned_around(monkeypatch):
    """Calibration turns it back: without, nothing does."""
    solve = calibrated.Ridge.solve
    monkeypatch.setattr(calibrated.Ridge, "solve", lambda self, *sums: tuple(-part for part in solve(self, *sums)))
    check_theorem_2()
    monkeypatch.setattr(calibrated, "best_map", lambda squares, products, dtype: np.eye(len(squares)))


@pytest.mark.parametrize(
    "breakage", [_without_projection, _without_calibration, _with_the_residual_turned_around]
)  # fmt: skip
def test_theorem_2_fails_on_a_broken_solver(breakage, monkeypatch):
    breakage(monkeypatch)
    with pytest.raises(AssertionError):
        check_theorem_2()


# --- the algorithm


def twin(X, Y, s, alpha, basis, onto, iterations, fit_intercept=True):
    """Algorithm 2 with whole matrices: predictions after every iteration, and the maps."""
    project = {"simplex": bisected, "cube": lambda V: np.clip(V, 0.0, 1.0)}[onto]
    root, P, errors, maps = np.sqrt(s)[:, None], np.zeros_like(Y), [], []
    mean = s @ X if fit_intercept else np.zeros(X.shape[1])
    A = np.vstack([root * (X - mean), np.sqrt(alpha) * np.eye(X.shape[1])])
    for _ in range(iterations):
        R = Y - P
        level = s @ R if fit_intercept else np.zeros(Y.shape[1])
        W = np.linalg.lstsq(A, np.vstack([root * (R - level), np.zeros((X.shape[1], Y.shape[1]))]), rcond=None)[0]
        tilde = P + (X - mean) @ W + level
        U = np.hstack([function(tilde) for function in basis])
        V = np.linalg.lstsq(root * U, root * Y, rcond=None)[0]
        P = project(U @ V)
        maps.append(V)
        errors.append(s @ ((Y - P) ** 2).sum(axis=1))
    return P, errors, maps


def blobs(seed=0, n=250, d=5, k=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


def check_against_the_twin(k=3, onto="simplex", fit_intercept=True, basis=POLYNOMIAL, iterations=4, alpha=1e-3):
    X, y = blobs(k=max(k, 2))
    Y = one_hot(y) if k > 1 else one_hot(y)[:, 1:]
    s = np.random.default_rng(1).random(len(X)) + 0.2
    s /= s.sum()
    options = {"alpha": alpha, "basis": basis, "onto": onto, "fit_intercept": fit_intercept}
    found = calibrated.solve(rows(X, Y, s), max_iter=iterations, min_gain=0.0, **options)
    P, errors, maps = twin(X, Y, s, alpha, basis, onto, iterations, fit_intercept)
    assert len(found.weights) == iterations
    np.testing.assert_allclose([row["objective"] for row in found.history[1:]], errors, atol=1e-8)
    np.testing.assert_allclose(found.maps, maps, atol=1e-6)
    XW = np.stack([X @ W for W in found.weights], axis=1)
    np.testing.assert_allclose(calibrated.replay(XW, found.intercepts, found.maps, basis, onto), P, atol=1e-8)
    return found


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("k", "onto"), [(3, "simplex"), (5, "simplex"), (1, "cube"), (3, "cube")])
def test_against_a_plain_twin(k, onto, fit_intercept):
    check_against_the_twin(k, onto, fit_intercept)


def test_chunks_do_not_matter(monkeypatch):
    monkeypatch.setattr(calibrated, "CHUNK_ENTRIES", 64)
    check_against_the_twin()


def test_functions_of_ones_own():
    check_against_the_twin(basis=(lambda P: P, np.tanh, lambda P: np.maximum(P - 0.3, 0.0)))


def test_maps_couple_the_classes(monkeypatch):
    """The map is whole: the check fails with one that is diagonal in the classes."""
    found = check_against_the_twin()
    off = ~np.tile(np.eye(3, dtype=bool), (3, 1))
    assert np.abs(found.maps[:, off]).max() > 1e-2
    whole = calibrated.best_map
    monkeypatch.setattr(calibrated, "best_map", lambda *sums: np.where(off, 0.0, whole(*sums)))
    with pytest.raises(AssertionError):
        check_against_the_twin()
