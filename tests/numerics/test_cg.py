"""Conjugate gradients for several systems at once: every column is solved, steps end at the border of the region."""

from __future__ import annotations

import numpy as np
import pytest

from lineal.numerics.cg import System, truncated_cg
from lineal.numerics.vectors import column_dots


def test_conjugate_gradients_solve_every_column_and_respect_the_border():
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(4, 9, 9))
    H = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(9)
    g = rng.normal(size=(9, 4))

    def system(columns):
        return System(
            lambda V: np.stack([H[c] @ V[:, i] for i, c in enumerate(columns)], axis=1),
            lambda R: R,
            lambda keep: system(columns[keep]),
        )

    forcing = np.array([1e-1, 1e-9, 1e-3, 1e-9])
    free = truncated_cg(system(np.arange(4)), g, column_dots, forcing, np.full(4, np.inf))
    for r in range(4):
        residual = H[r] @ free.direction[:, r] + g[:, r]
        assert np.linalg.norm(residual) <= forcing[r] * np.linalg.norm(g[:, r]) * (1 + 1e-6)
        model = g[:, r] @ free.direction[:, r] + 0.5 * free.direction[:, r] @ H[r] @ free.direction[:, r]
        assert free.model_change[r] == pytest.approx(model)
    bound = truncated_cg(system(np.arange(4)), g, column_dots, forcing, np.array([np.inf, 0.1, np.inf, 0.2]))
    assert bound.on_boundary.tolist() == [False, True, False, True]
    np.testing.assert_allclose(np.linalg.norm(bound.direction[:, [1, 3]], axis=0), [0.1, 0.2])
    np.testing.assert_allclose(np.linalg.norm(bound.direction, axis=0), bound.norm)
