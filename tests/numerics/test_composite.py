"""A smooth loss plus a penalty, as proximal solvers see it: bounds of its curvature."""

from __future__ import annotations

import numpy as np
import pytest
from objectives import objective_on, telling_rows

from lineal.numerics.composite import Composite


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 8])
def test_constants_bound_the_curvature(d, intercept):
    """Against the eigenvalues of the whole matrix, with features far from the origin."""
    X = telling_rows(7, d=8)[0].toarray()[:, :d] + 30.0
    y = telling_rows(7)[1]
    s = np.random.default_rng(0).random(60)
    composite = Composite(objective_on(X, y, "multiclass_squared_hinge", alpha=1.0, intercept=intercept, weights=s), 1)
    s = s / s.sum()
    centred = X - s @ X if intercept else X
    wanted = 2 * 3 * np.linalg.eigvalsh(centred.T @ (s[:, None] * centred))[-1]
    assert wanted * (1 - 1e-9) <= composite.spectral_curvature() <= wanted * 1.05
    raw = (s @ (X**2)).sum()
    largest = (s @ (X - s @ X) ** 2).max()  # the intercept's unit squared is a power of four near it
    trace = composite.trace_curvature() / (4 * 2)
    assert raw + intercept * largest / 4 <= trace * (1 + 1e-9)
    assert trace <= (raw + intercept * largest) * (1 + 1e-9)
