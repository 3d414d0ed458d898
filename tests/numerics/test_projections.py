"""Projections onto the simplex and the cube."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from lineal.numerics.projections import onto_cube, onto_simplex


def bisected(V):
    """The projection onto the simplex by bisection on the shift of every row."""
    high = V.max(axis=1, keepdims=True)
    low = high - 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        is_low = np.maximum(V - middle, 0.0).sum(axis=1, keepdims=True) > 1.0
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.maximum(V - high, 0.0)


def test_the_projection_onto_the_simplex_is_that_of_quadratic_programming():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(12, 5)) * np.logspace(-2, 1, 12)[:, None]
    for v, found in zip(V, onto_simplex(V)):
        program = optimize.minimize(
            lambda p, v: 0.5 * ((p - v) ** 2).sum(), np.full(5, 0.2), (v,), jac=lambda p, v: p - v, method="SLSQP",
            bounds=[(0, None)] * 5, constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0}, options={"ftol": 1e-14},
        )  # fmt: skip
        np.testing.assert_allclose(found, program.x, atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_the_projection_onto_the_simplex_is_that_of_bisection(k):
    rng = np.random.default_rng(k)
    V = np.concatenate(
        [
            rng.normal(size=(50, k)),
            rng.integers(-2, 3, size=(50, k)).astype(float),  # ties
            1e6 * rng.normal(size=(20, k)),
            np.full((1, k), 7.0),
            np.zeros((1, k)),
            onto_simplex(rng.random((10, k))),
        ]
    )
    P = onto_simplex(V)
    np.testing.assert_allclose(P, bisected(V), atol=1e-9)
    np.testing.assert_allclose(onto_simplex(P), P, atol=1e-15)
    assert (P >= 0.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e3, 1e9, 1e20, 1e30])
def test_huge_values_still_add_up_to_one(size, dtype):
    V = np.array([[size, 0.0, -size], [size, size, -size], [-size, -size, -size]], dtype)
    P = onto_simplex(V)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-6)


def test_the_projection_onto_the_cube():
    np.testing.assert_array_equal(
        onto_cube(np.array([[-3.0, 0.0, 0.25], [1.0, 9.0, 0.5]])), [[0, 0, 0.25], [1, 1, 0.5]]
    )
