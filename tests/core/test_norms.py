"""The Euclidean norm in NumPy agrees with exact sums, also where squares overflow or vanish."""

import math

import numpy as np
import pytest

from lineal.core.norms import norm_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (1000, 2)])
def test_agrees_with_an_exact_sum(dtype, shape):
    array = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    exact = math.sqrt(math.fsum(float(value) ** 2 for value in array.ravel()))
    assert norm_of(array) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-160, 1e160, 1e300])
def test_extreme_values_neither_overflow_nor_vanish(size):
    assert norm_of(np.array([[3.0 * size, 4.0 * size]])) == pytest.approx(5.0 * size, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_special_values(value):
    np.testing.assert_equal(norm_of(np.array([value, 0.0])), value)


def test_does_not_overflow_in_float32():
    assert norm_of(np.full(4, 1e30, np.float32)) == pytest.approx(2e30, rel=1e-6)
