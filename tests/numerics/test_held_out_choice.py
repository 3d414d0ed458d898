"""The best of several fits on held-out rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lineal.numerics.held_out_choice import best_of, effective_rows


def test_the_least_error_is_best_where_errors_are_told_apart():
    assert best_of([0.5, 0.2, 0.1, 0.3], [0.1, 0.2, 0.9, 0.3], 10**6) == 2


def test_errors_within_the_noise_are_judged_by_their_loss():
    assert best_of([0.5, 0.31, 0.30, 0.32], [0.9, 0.6, 0.7, 0.4], 100) == 3  # half a standard error is 0.023
    assert best_of([0.5, 0.31, 0.30, 0.33], [0.9, 0.6, 0.7, 0.4], 100) == 1
    assert best_of([0.0, 0.0, 0.1], [0.3, 0.2, 0.1], 50) == 1
    assert best_of([0.2, 0.1], [math.nan, math.nan], 10) in (0, 1)


def test_rows_of_unequal_weights_count_less():
    assert effective_rows(np.full(20, 0.05)) == pytest.approx(20)
    assert effective_rows(np.array([1.0, 0.0, 0.0])) == 1.0
