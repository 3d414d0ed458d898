"""Labels and their numbers."""

import numpy as np
import pytest

from lineal.problem.targets import encode


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [-1, 4], [2.0, 3.0, 7.0]])
def test_class_numbers_are_positions_of_labels(labels, direct):
    y = np.array([labels[-1], labels[0], *labels, labels[-1]])
    encoded = encode(y, direct=direct)
    assert np.array_equal(encoded.classes[encoded.class_numbers], y)


def test_label_sets_have_no_class_numbers():
    with pytest.raises(TypeError, match="label sets"):
        _ = encode(np.eye(3, dtype=int), direct=False).class_numbers
