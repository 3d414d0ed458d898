"""Products with the Hessian from scores kept per row."""

from __future__ import annotations

import numpy as np
import pytest
from objectives import build

from lineal import losses
from lineal.numerics.centred import Centred
from lineal.numerics.score_rows import ScoreRows

pytestmark = pytest.mark.core

NAMES = losses.names()
SMOOTH = [name for name in NAMES if losses.get(name).is_smooth]


def random_theta(objective, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=objective.shape)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hessian_products_are_differences_of_gradients(name, fit_intercept):
    objective, _ = build(name, fit_intercept=fit_intercept)
    rows, step = ScoreRows(Centred(objective)), 1e-6
    theta, v = random_theta(objective), random_theta(objective, seed=9)
    up, down = (rows.centred.loss_and_gradient(theta + sign * step * v)[1] for sign in (1, -1))
    rows.start(theta)
    np.testing.assert_allclose(rows.product(v), (up - down) / (2 * step), atol=2e-5)
