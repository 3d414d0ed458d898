"""Factorisation of a second-moment matrix: exact with full rank, a pseudo-inverse without."""

from __future__ import annotations

import numpy as np
import pytest

from lineal.errors import DataError
from lineal.least_squares.estimator import LeastSquaresClassifier
from lineal.numerics.factorisation import Factor


def test_factor_of_a_matrix_with_full_rank():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 9)) * np.logspace(0, 6, 9)
    moment, ridges, R = A.T @ A, rng.random(9), rng.normal(size=(9, 3))
    kept = moment.copy()
    factor = Factor(moment, ridges, 0.25)
    assert factor.lower is not None
    assert factor.rank == 9
    np.testing.assert_allclose(factor.solve(R), np.linalg.inv(0.25 * moment + np.diag(ridges)) @ R, rtol=1e-6)
    np.testing.assert_array_equal(moment, kept)
    assert factor.solve(R.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("ridge", [0.0, 1e-30])
def test_factor_without_full_rank_is_a_pseudo_inverse(ridge):
    """For right-hand sides in the range: a solution, and where columns are scaled alike the shortest one."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 6))
    A = np.hstack([A, A[:, :3], np.zeros((40, 1))])
    moment = A.T @ A
    R = A.T @ rng.normal(size=(40, 2))
    factor = Factor(moment, ridge)
    assert factor.lower is None
    assert factor.rank == 7 if ridge == 0.0 else factor.rank >= 6  # an empty column counts as one of its own
    np.testing.assert_allclose(moment @ factor.solve(R), R, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(A @ factor.solve(R), A @ np.linalg.pinv(moment, hermitian=True) @ R, atol=1e-9)
    scales = 1.0 / np.sqrt(np.where(np.diag(moment) > 0, np.diag(moment), 1.0))
    scaled = moment * scales * scales[:, None]
    shortest = scales[:, None] * (np.linalg.pinv(scaled, rcond=1e-12, hermitian=True) @ (scales[:, None] * R))
    np.testing.assert_allclose(factor.solve(R), shortest, atol=1e-9)


def test_factor_of_what_is_nearly_singular():
    """Rounding decides between the two ways: nothing of the answer may come from it."""
    rng = np.random.default_rng(2)
    A = rng.normal(size=(50, 5))
    A = np.hstack([A, A[:, :1] + 1e-5 * rng.normal(size=(50, 1))])
    R = A.T @ rng.normal(size=(50, 2))
    exact, single = Factor(A.T @ A, 0.0), Factor(A.T @ A, 0.0, rounding=1e-7)
    assert exact.lower is not None
    assert single.lower is None
    assert (exact.rank, single.rank) == (6, 5)
    assert np.abs(exact.solve(R)).max() > 1e3
    assert np.abs(single.solve(R)).max() < 10.0
    np.testing.assert_allclose(A.T @ (A @ single.solve(R)), R, atol=1e-2)


def test_factor_refuses_what_overflows():
    with pytest.raises(DataError, match="scale the features"):
        Factor(np.array([[np.inf]]), 0.0)
    with pytest.raises(DataError, match="squares overflow: divide it"):
        LeastSquaresClassifier().fit(1e200 * np.arange(12.0).reshape(6, 2), [0, 1] * 3)
