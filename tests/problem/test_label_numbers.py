"""Labels become the classes and numbers that NumPy gives, also without compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

from lineal.problem.targets import encode

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    "labels",
    [[3, 1, 1, -2], [1.0, -1.0, 1.0], [0.5, 1.0], [2.5, 2.5, 3.5], [10**12, 5], ["b", "a", "b"], [True, False]],
)
def test_classes_are_those_of_numpy(labels):
    y = np.array(labels)
    encoded = encode(y, direct=True)
    classes, numbers = np.unique(y, return_inverse=True)
    assert encoded.classes.dtype == classes.dtype
    np.testing.assert_array_equal(encoded.classes, classes)
    np.testing.assert_array_equal(encoded.targets.columns, numbers)


def test_classes_of_narrow_integers():
    y = np.array([-128, 127, 3, 3], np.int8)
    encoded = encode(y, direct=True)
    np.testing.assert_array_equal(encoded.classes, [-128, 3, 127])
    np.testing.assert_array_equal(encoded.targets.columns, [0, 2, 1, 1])
