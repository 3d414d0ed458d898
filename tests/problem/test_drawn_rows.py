"""Rows that are drawn to be held out: their number, their classes, and what is left to learn from."""

from __future__ import annotations

import numpy as np
import pytest

from lineal.errors import DataError
from lineal.problem.drawn_rows import drawn, training_and_held_out
from lineal.problem.targets import encode
from lineal.system.validation import share


def drawn_of(y, fraction, seed=0, weights=None):
    y = np.asarray(y)
    return drawn(fraction, np.ones(len(y)) if weights is None else weights, encode(y, direct=False), seed)


def test_every_class_gives_its_share():
    y = np.repeat([0, 1, 2, 3], [400, 200, 100, 50])
    held = drawn_of(y, 0.1)
    assert len(held) == 75
    np.testing.assert_allclose(np.bincount(y[held]), [40, 20, 10, 5], atol=1)
    assert (np.diff(held) > 0).all()


def test_no_class_is_held_out_as_a_whole():
    y = np.concatenate([np.zeros(40, int), np.arange(1, 41)])  # forty classes of one row
    for seed in range(5):
        held = drawn_of(y, 0.5, seed)
        assert set(np.delete(y, held)) == set(range(41))
        assert set(y[held]) <= {0}
    with pytest.raises(DataError, match="only rows of their classes"):
        drawn_of(np.arange(10), 0.3)


def test_rows_without_weight_are_not_drawn_and_seeds_matter():
    y = np.arange(200) % 2
    weights = (np.arange(200) % 4 < 2).astype(float)
    held = drawn_of(y, 0.2, weights=weights)
    assert len(held) == 20
    assert (weights[held] > 0.0).all()
    np.testing.assert_array_equal(held, drawn_of(y, 0.2, weights=weights))
    assert not np.array_equal(held, drawn_of(y, 0.2, 1, weights))


def test_label_sets_are_drawn_without_regard_to_labels():
    Y = np.random.default_rng(0).integers(0, 2, (50, 3))
    assert len(drawn(0.2, np.ones(50), encode(Y, direct=False), 0)) == 10


def test_weights_add_up_to_one():
    training, held_out = training_and_held_out(np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 3]))
    np.testing.assert_allclose(training, [0.25, 0.0, 0.75, 0.0])
    np.testing.assert_allclose(held_out, [0.0, 1 / 3, 0.0, 2 / 3])


def test_shares():
    assert share(None, 1000) == share(0, 1000) == share("auto", 99) == 0.0
    assert share("auto", 100) == 0.1
    assert share("auto", 1_000_000) == 0.01
    assert share(0.3, 10) == 0.3
