"""Arrays from outside: damaged sparse matrices, masks, types and sizes are refused before anything follows them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import lineal
from lineal import dropin, features
from lineal.core.inputs import checked, checked_labels, checked_numbers
from lineal.errors import DataError

X = np.arange(1.0, 13.0).reshape(4, 3) * (np.arange(12).reshape(4, 3) % 3 > 0)


def damaged(kind, name, change):
    matrix = getattr(sparse, f"{kind}_array")(X)
    setattr(matrix, name, change(getattr(matrix, name).copy()))
    return matrix


def put(at, value, dtype=None):
    def change(part):
        part = part if dtype is None else part.astype(dtype)
        part[at] = value
        return part

    return change


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indices", put(1, -1), "an index is out of range: negative, or not below"),
        ("indices", put(1, 4), "an index is out of range"),
        ("indices", put(1, 2**31 - 1), "an index is out of range"),
        ("indices", put(1, 2**40, np.int64), "an index is out of range"),
        ("indptr", put(0, 1), "a pointer is out of range"),
        ("indptr", put(1, -3), "a pointer is out of range"),
        ("indptr", put(-1, 9), "a pointer is out of range"),
        ("indptr", put(1, 7), "a pointer is out of range"),
        ("indptr", lambda part: np.append(part, part[-1]), "its parts have the wrong lengths"),
        ("indptr", lambda part: part[:-1], "its parts have the wrong lengths"),
        ("data", lambda part: part[:-1], "its parts have the wrong lengths"),
        ("indices", lambda part: part.astype(float), "its indices are of type float64"),
        ("indices", lambda part: part.tolist(), "its parts are not NumPy arrays"),
        ("data", lambda part: part.astype(object), "must hold real numbers, found object"),
    ],
)
def test_damaged_sparse_matrices_are_refused(kind, name, change, message):
    with pytest.raises(DataError, match=message):
        checked(damaged(kind, name, change), "X")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", ["array", "matrix"])
def test_sparse_matrices_of_all_formats_are_taken(kind, shape):
    matrix = getattr(sparse, f"{kind}_{shape}")(X)
    found = checked(matrix, "X")
    assert found.format in ("csr", "csc")
    assert found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.toarray(), X)


@pytest.mark.parametrize("block", [(1, 1), (2, 3), (4, 1), (2, 1)])
def test_blocks_are_checked_as_a_matrix_of_blocks(block):
    matrix = sparse.bsr_array(X, blocksize=block)
    np.testing.assert_array_equal(checked(matrix, "X").toarray(), X)
    matrix.indices[-1] = 3 // block[1]
    with pytest.raises(DataError, match=f"not below {3 // block[1]}"):
        checked(matrix, "X")


def test_parts_that_are_longer_than_needed_are_cut_and_the_input_stays():
    matrix = damaged("csr", "indices", lambda part: np.append(part, [10**9] * 3))
    matrix.data = np.append(matrix.data, [np.nan] * 3)
    found = checked(matrix, "X")
    np.testing.assert_array_equal(found.toarray(), X)
    assert len(found.data) == np.count_nonzero(X)
    assert len(matrix.data) == len(found.data) + 3


def test_other_types_of_stored_numbers_are_converted():
    for dtype in (np.float16, ">f8", ">i4"):
        found = checked(damaged("csr", "data", lambda part, dtype=dtype: part.astype(dtype)), "X")
        assert found.dtype.isnative
        np.testing.assert_array_equal(found.toarray(), X)


def test_a_valid_matrix_is_not_copied():
    for matrix in (sparse.csr_array(X), sparse.csc_array(X), X):
        assert checked(matrix, "X") is matrix


@pytest.mark.parametrize(
    "values",
    [
        np.ma.MaskedArray(X, X > 5),
        list(np.ma.MaskedArray(X, X > 5)),
        [[1.0, np.ma.masked], [2.0, 3.0]],
        [np.ma.masked, 1.0],
        np.array([[np.ma.masked, 1.0]], object),
        damaged("csr", "data", lambda part: np.ma.MaskedArray(part, part > 5)),
        damaged("coo", "data", lambda part: np.ma.MaskedArray(part, part > 5)),
        damaged("csr", "indices", lambda part: np.ma.MaskedArray(part, part > 1)),
    ],
)
def test_masked_entries_are_refused(values):
    with pytest.raises(DataError, match="mask"):
        checked(values, "X")


def test_a_mask_without_masked_entries_is_dropped():
    found = checked(np.ma.MaskedArray(X, np.zeros(X.shape, bool)), "X")
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, X)


def test_masked_labels_do_not_become_labels():
    with pytest.raises(DataError, match="mask"):
        checked_labels(np.ma.MaskedArray(np.array(["a", "b"]), [True, False]))
    with pytest.raises(DataError, match="mask"):
        checked_labels(["a", np.ma.masked, "b"])


def test_numbers_are_real():
    with pytest.raises(DataError, match="Complex data not supported: offsets must hold real numbers"):
        checked_numbers(X + 1j, "offsets")
    with pytest.raises(DataError, match="X must hold real numbers, found datetime64"):
        checked_numbers(np.full((2, 2), np.datetime64("2020-01-01")), "X")
    assert checked_numbers(X.astype(np.longdouble), "X").dtype == np.float64


@pytest.mark.parametrize("dense", [True, False])
def test_indicators_of_plus_and_minus_one_are_refused_by_all(dense):
    Y = np.where(X > 5, 1, -1)
    for estimator in (lineal.LinearClassifier(), lineal.OnlineClassifier(bits=10), lineal.LeastSquaresClassifier()):
        with pytest.raises(DataError, match="indicator matrix of 0 and 1"):
            estimator.fit(X, Y if dense else sparse.csr_array(Y))
    with pytest.raises(DataError, match="indicator matrix of 0 and 1"):
        lineal.OnlineClassifier(bits=10).partial_fit(X, Y)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (np.array([0.0, np.nan, 0.0, 0.0]), "offsets of row 1 have nan in column 0: they must be finite"),
        (np.array([0.0, 0.0, np.inf, 0.0]), "offsets of row 2 have inf"),
        (np.zeros(3), r"offsets have shape \(3, 1\), expected \(4, 1\)"),
        (np.zeros(4) + 1j, "Complex data not supported"),
    ],
)
def test_offsets_are_blamed_for_what_is_wrong_with_them(offsets, message):
    with pytest.raises(DataError, match=message):
        lineal.LinearClassifier().fit(X, [0, 1, 0, 1], offsets=offsets)


@pytest.mark.parametrize("columns", [2**31 - 1, 2**31, 2**40])
@pytest.mark.parametrize(
    "generator",
    [
        features.RandomFourier(bandwidth=1.0, n_features=8192),
        features.RandomFourier(bandwidth=1.0, variant="hadamard"),
        features.PrincipalComponents(),
        features.RandomSubset(),
        features.FrequencyOrdered(),
        features.GreedyResidual(),
        features.AdaptivePolynomial(bits=10),
        features.Chain(features.PrincipalComponents(), features.RandomFourier()),
    ],
)
def test_generators_refuse_so_many_columns_that_memory_does_not_suffice(generator, columns, monkeypatch):
    monkeypatch.setattr("lineal.system.memory.available_memory", lambda: 1 << 30)
    wide = sparse.csr_array((np.ones(4), [0, 7, 2**20, columns - 1], [0, 1, 2, 3, 4]), (4, columns))
    with pytest.raises(DataError, match=r"memory for|columns, and at most"):
        generator.fit(wide, [0, 1, 0, 1])


def test_online_labels_beyond_2_to_53_stay_apart():
    classifier = lineal.OnlineClassifier(bits=10)
    classifier.partial_fit(X, [0, 1, 0, 1])
    with pytest.raises(DataError, match="numbers beyond 2\\^53 are not the same in both"):
        classifier.partial_fit(X, np.array([2**63 + 1, 2**63 + 2] * 2, np.uint64))


def test_limits_of_the_address_space_count_as_memory(monkeypatch):
    resource = pytest.importorskip("resource")
    from lineal.system.memory import available_memory

    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 20, 1 << 20))
    if available_memory() is not None and not hasattr(resource, "RLIMIT_AS"):
        pytest.skip("this system does not limit the address space")
    assert available_memory() == 0


@pytest.mark.parametrize("make", [
    lambda y: pd.Series(y, dtype="Int64"), lambda y: pd.Series(y, dtype="int64[pyarrow]"),
    lambda y: pd.array(y, dtype="Int64"),
])  # fmt: skip
def test_labels_of_pandas_beyond_2_to_53_stay_apart(make):
    labels = [2**53, 2**53 + 1, 5, 2**53]
    assert checked_labels(make(labels)).tolist() == labels
    assert dropin.RidgeClassifier().fit(X, make(labels)).classes_.tolist() == [5, 2**53, 2**53 + 1]
    assert lineal.OnlineClassifier().fit(X, make(labels)).classes_.tolist() == [5, 2**53, 2**53 + 1]


def test_missing_labels_of_pandas_are_named():
    missing = pd.Series(["a", pd.NA, "b", "a"], dtype="string")
    for classifier in (lineal.LinearClassifier(), lineal.OnlineClassifier(), dropin.RidgeClassifier()):
        with pytest.raises(DataError, match="missing or infinite label at row 1"):
            classifier.fit(X, missing)


def test_labels_that_differ_in_a_last_zero_byte_are_not_merged():
    with pytest.raises(DataError, match=r"y has the label 'a\\x00', which ends with a zero byte"):
        lineal.LinearClassifier().fit(X, ["a", "a\0", "b", "a"])


def test_whole_numbers_beyond_doubles_are_refused():
    rows, y = [[10**400, 1, 2], [1, 2, 3], [0, 1, 0], [1, 0, 1]], [0, 1, 0, 1]
    for given in (rows, np.array(rows, object), pd.DataFrame(rows)):
        with pytest.raises(DataError, match=r"too large for float64|has 1000"):
            lineal.LinearClassifier().fit(given, y)
    for name in ("sample_weight", "offsets"):
        with pytest.raises(DataError, match=f"{name} has an integer that is too large"):
            lineal.LinearClassifier().fit(X, y, **{name: [10**400, 1, 1, 1]})


def test_a_table_with_a_column_twice_is_named_as_such():
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    frame["c"] = "text"
    with pytest.raises(DataError, match="the table has 2 columns called 'a'"):
        lineal.LinearClassifier().fit(frame, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "make", [dropin.LinearSVC, dropin.LogisticRegression, lambda: dropin.SGDClassifier(random_state=0, tol=1.0)]
)
def test_scores_of_drop_ins_are_finite(make):
    fitted = make().fit(100.0 * X, [0, 1, 0, 1])
    fitted.coef_[:] = 10.0
    with pytest.raises(DataError, match="row 1 of X has NaN, infinite or too large values"):
        fitted.predict(np.array([[1.0, 2.0, 3.0], [1e308, 1e308, 1e308]]))


def test_scores_of_two_columns_are_finite():
    fitted = lineal.LinearClassifier("softmax", alpha=1e-2).fit(X, [0, 1, 0, 1])
    fitted.model_.weights[:] = [[-1.0, 1.0]] * 3
    with pytest.raises(DataError, match="row 0 of X has NaN, infinite or too large values"):
        fitted.decision_function(np.array([[1e308, 0.0, 0.0]]))
