"""Labels and their numbers: of the whole, and the same however it is cut into parts."""

import datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lineal.errors import DataError
from lineal.problem.labels import LabelPart, merged
from lineal.problem.targets import encode, targets_of


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [-1, 4], [2.0, 3.0, 7.0]])
def test_class_numbers_are_positions_of_labels(labels, direct):
    y = np.array([labels[-1], labels[0], *labels, labels[-1]])
    encoded = encode(y, direct=direct)
    assert np.array_equal(encoded.classes[encoded.class_numbers], y)
    assert encoded.n_rows == len(y)


def test_label_sets_have_no_class_numbers():
    with pytest.raises(TypeError, match="label sets"):
        _ = encode(np.eye(3, dtype=int), direct=False).class_numbers


# --- part by part


def cut(y, cuts):
    """Parts of y between these places, some of them empty."""
    bounds = [0, *sorted(cuts), y.shape[0] if hasattr(y, "shape") else len(y)]
    return [(start, y[start:stop]) for start, stop in pairwise(bounds)]


def by_parts(y, cuts, direct):
    """What `encode` gives, by parts whose labels nobody sees together."""
    parts = [LabelPart.of(some, first) for first, some in cut(y, cuts)]
    columns = merged(part.summary for part in parts).columns(direct=direct)
    return columns, [targets_of(part, columns) for part in parts]


def assert_same(y, cuts, direct=False):
    whole = encode(y, direct=direct)
    columns, targets = by_parts(y, cuts, direct)
    assert columns.classes.dtype == whole.classes.dtype
    assert [type(label) for label in columns.classes.tolist()] == [type(label) for label in whole.classes.tolist()]
    np.testing.assert_array_equal(columns.classes, whole.classes)
    assert columns[1:] == (whole.n_columns, whole.is_multilabel)
    found = np.concatenate([part.columns for part in targets])
    assert found.dtype == whole.targets.columns.dtype == np.int32
    np.testing.assert_array_equal(found, whole.targets.columns)
    if whole.is_multilabel:
        lengths = np.concatenate([np.diff(part.starts) for part in targets])
        np.testing.assert_array_equal(lengths, np.diff(whole.targets.starts))


whole_numbers = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
exact_numbers = st.integers(-5, 5) | st.sampled_from([0.5, -2.5, 1e300, 3.0]) | st.booleans()
dates = st.dates(datetime.date(2000, 1, 1), datetime.date(2000, 1, 9))
kinds_of_lists = [
    st.text("abc", max_size=3), whole_numbers, exact_numbers, st.booleans(), st.integers(2**63, 2**63 + 3) |
    st.integers(0, 3), st.integers(2**64, 2**64 + 2) | st.integers(-2, 2), dates,
]  # fmt: skip
lists = st.one_of([st.lists(kind, min_size=2, max_size=12) for kind in kinds_of_lists])
kinds_of_arrays = [
    np.int8, np.uint8, np.int64, np.float32, np.float64, np.bool_, np.str_, np.bytes_, object, "datetime64[D]"
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(lists, st.lists(st.integers(0, 12), max_size=4), st.booleans())
def test_lists_of_labels_may_be_cut_anywhere(y, cuts, direct):
    cuts = [min(place, len(y)) for place in cuts]
    try:
        encode(y, direct=direct)
    except DataError:
        with pytest.raises(DataError):
            by_parts(y, cuts, direct)
    else:
        assert_same(y, cuts, direct)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(kinds_of_arrays), st.integers(0, 2**20), st.lists(st.integers(0, 15), max_size=4), st.booleans())
def test_arrays_of_labels_may_be_cut_anywhere(kind, seed, cuts, direct):
    y = np.random.default_rng(seed).integers(0, 5, 15)
    y[:2] = 0, 1
    y = y.astype(np.int64).astype(kind) if kind is not object else np.array([f"label {label}" for label in y], object)
    assert_same(y, cuts, direct)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([np.asarray, sparse.csr_array, lambda Y: Y.astype(bool), lambda Y: Y.astype(np.float32)]),
    st.integers(0, 2**20),
    st.lists(st.integers(0, 9), max_size=4),
    st.integers(1, 4),
)
def test_indicator_matrices_may_be_cut_anywhere(kind, seed, cuts, k):
    assert_same(kind(np.random.default_rng(seed).integers(0, 2, (9, k))), cuts)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "b", 1, 2], "mixes labels of types int, str"),
        ([True, False, "a", "b"], "mixes labels of types bool, str"),
        (np.array(["a", "b", 1, 2], object), "mixes labels of types int, str"),
        ([1, 2**60, 0.5, 1.5], "would be rounded, because the labels do not fit"),
        ([1, -1, 2**63, 2**63 + 1], "would be rounded, because the labels do not fit"),
        ([1.0, 2.0, 1.0, np.nan], "missing or infinite label at row 3"),
        (np.array(["a", "b", "a", None], object), "missing or infinite label at row 3"),
        ([5, 5, 5, 5], "only one class"),
        (np.array([[0, 1], [1, 1], [0, 0], [0, 2]]), "row 3 has another number"),
        ([], "y is empty"),
    ],
)
def test_parts_are_refused_where_the_whole_is(y, message):
    with pytest.raises(DataError, match=message):
        encode(y, direct=False)
    with pytest.raises(DataError, match=message):
        by_parts(y, [min(2, len(y))], direct=False)


def test_parts_of_different_shape_are_refused():
    one, two, sets = LabelPart.of([1, 2]), LabelPart.of(np.eye(2)), LabelPart.of(np.eye(3))
    with pytest.raises(DataError, match="one label per row, others are indicator matrices"):
        merged([one.summary, two.summary])
    with pytest.raises(DataError, match="2 and 3 label columns"):
        merged([two.summary, sets.summary])
