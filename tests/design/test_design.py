"""Layouts and products: every layout × precision × index type agrees with NumPy, without copies, for any threads."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import random_problem
from numba import typeof
from scipy import sparse

from lineal.core.jit import kernel
from lineal.design import narrow_products, orders, products, wrap
from lineal.design.odd_columns import is_constant
from lineal.errors import DataError

pytestmark = pytest.mark.core

KINDS = ["C", "F", "csr", "csc"]
DTYPES = [np.float32, np.float64]
INDEX_TYPES = [np.int32, np.int64]


def make(kind, dtype=np.float64, index_type=np.int32, seed=0, n=60, d=23, density=0.4):
    X = random_problem(seed, n, d, density=density)[0].astype(dtype)
    if kind in "CF":
        return np.array(X.toarray(), order=kind)
    X = X.asformat(kind)
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    return X


def dense(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


CASES = [(kind, dtype, np.int32) for kind in KINDS for dtype in DTYPES]
CASES += [(kind, np.float32, np.int64) for kind in ("csr", "csc")]


@pytest.mark.parametrize(("kind", "dtype", "index_type"), CASES)
@pytest.mark.parametrize("k", [1, 2, 3, 7, 20, 33])
def test_products(kind, dtype, index_type, k):
    X = make(kind, dtype, index_type)
    rng = np.random.default_rng(k)
    V, R = rng.normal(size=(X.shape[1], k)).astype(dtype), rng.normal(size=(X.shape[0], k)).astype(dtype)
    design, tolerance = wrap(X), 2e-5 if dtype == np.float32 else 1e-12
    found = products.matmul(design, V)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, dense(X) @ V, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(products.rmatmul(design, R), dense(X).T @ R, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_float32_data_with_float64_weights_are_float64(kind):
    X = make(kind, np.float32)
    V = np.random.default_rng(0).normal(size=(X.shape[1], 3))
    found = products.matmul(wrap(X), V)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, dense(X) @ V, rtol=1e-13, atol=1e-13)
    R = np.random.default_rng(1).normal(size=(X.shape[0], 3))
    np.testing.assert_allclose(products.rmatmul(wrap(X), R), dense(X).T @ R, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("of_X", DTYPES)
@pytest.mark.parametrize("of_other", DTYPES)
@pytest.mark.parametrize("k", [2, 10, 16, 21])
def test_narrow_products_of_dense_rows(of_X, of_other, k, monkeypatch):
    """Tiles of rows, parts of columns and vectors of columns, each with a remainder; threads change no sum."""
    monkeypatch.setattr(narrow_products, "WORTH_A_KERNEL", 1)
    calls = []
    for name in ("matmul", "rmatmul"):
        inner = getattr(narrow_products, name)
        monkeypatch.setattr(narrow_products, name, lambda *given, inner=inner: calls.append(1) or inner(*given))
    rng = np.random.default_rng(k)
    n, d = narrow_products.ROW_BLOCK + 9, narrow_products.COLUMNS + 5
    X = rng.normal(size=(n, d)).astype(of_X)
    V, R = rng.normal(size=(d, k)).astype(of_other), rng.normal(size=(n, k)).astype(of_other)
    wide = np.result_type(of_X, of_other)
    tolerance = 5e-5 if wide == np.float32 else 1e-12
    for product, given, expected in ((products.matmul, V, X @ V), (products.rmatmul, R, X.T @ R)):
        found = product(wrap(X), given, dtype=wide)
        assert found.dtype == wide
        np.testing.assert_allclose(found, expected, atol=30 * tolerance, rtol=tolerance)
        np.testing.assert_array_equal(product(wrap(X), given, dtype=wide, threads=2), found)
    assert len(calls) == 4


def test_narrow_products_leave_nothing_of_what_was_in_their_output(monkeypatch):
    monkeypatch.setattr(narrow_products, "WORTH_A_KERNEL", 1)
    X, V = np.ones((7, 70), np.float32), np.ones((70, 3), np.float32)
    out = np.full((7, 3), np.nan, np.float32)
    np.testing.assert_array_equal(products.matmul(wrap(X), V, out=out), np.full((7, 3), 70.0))
    out = np.full((70, 3), np.nan, np.float32)
    np.testing.assert_array_equal(products.rmatmul(wrap(X), V[:7], out=out), np.full((70, 3), 7.0))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing_at_all(kind, threads, monkeypatch):
    monkeypatch.setattr(products, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(products, "WORTH_A_SPLIT", 1)
    X = wrap(make(kind, n=200, d=31))
    rng = np.random.default_rng(0)
    V, R = rng.normal(size=(31, 20)), rng.normal(size=(200, 20))
    np.testing.assert_array_equal(products.matmul(X, V, threads=threads), products.matmul(X, V, threads=1))
    np.testing.assert_array_equal(products.rmatmul(X, R, threads=threads), products.rmatmul(X, R, threads=1))
    np.testing.assert_array_equal(products.gram(X, threads=threads), products.gram(X, threads=1))


@pytest.mark.parametrize("kind", KINDS)
def test_gram_and_norms(kind):
    X = make(kind)
    weights = np.random.default_rng(0).random(X.shape[0])
    A = dense(X)
    np.testing.assert_allclose(products.gram(wrap(X)), A.T @ A, atol=1e-12)
    np.testing.assert_allclose(products.gram(wrap(X), weights), A.T @ (weights[:, None] * A), atol=1e-12)
    np.testing.assert_allclose(products.row_norms(wrap(X)), (A**2).sum(1), atol=1e-12)
    moments = products.column_moments(wrap(X), weights)
    np.testing.assert_allclose(moments, np.stack([weights @ A, weights @ A**2], axis=1), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 7, 24])
def test_products_can_be_wider_than_what_is_multiplied(kind, k):
    X = make(kind, np.float32)
    V = np.random.default_rng(0).normal(size=(X.shape[1], k)).astype(np.float32)
    found = products.matmul(wrap(X), V, dtype=np.float64)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, dense(X).astype(np.float64) @ V.astype(np.float64), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_unsorted_indices(kind, monkeypatch):
    monkeypatch.setattr(products, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(products, "WORTH_A_SPLIT", 1)
    X = make(kind)
    A = dense(X)
    for row in range(len(X.indptr) - 1):
        part = slice(X.indptr[row], X.indptr[row + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
    X.has_sorted_indices = False
    design = wrap(X)
    assert not design.is_sorted
    R = np.random.default_rng(0).normal(size=(X.shape[0], 9))
    np.testing.assert_allclose(products.rmatmul(design, R, threads=2), A.T @ R, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_nothing_is_copied_and_read_only_memory_is_welcome(kind, index_type, tmp_path):
    X = make(kind, np.float32, index_type)
    if kind in "CF":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        parts, kept = [X], [wrap(X).layout.values]
    else:
        for part in (X.data, X.indices, X.indptr):
            part.flags.writeable = False
        parts, kept = [X.data, X.indices, X.indptr], list(wrap(X).layout[:3])
    for given, held in zip(parts, kept):
        assert np.shares_memory(given, held)
        assert given.dtype == held.dtype
    V = np.ones((X.shape[1], 2), np.float32)
    np.testing.assert_allclose(products.matmul(wrap(X), V), dense(X) @ V, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["C", "F", "csr"])
def test_rows_are_views(kind):
    design = wrap(make(kind))
    part = design.rows(10, 25)
    V = np.random.default_rng(0).normal(size=(design.shape[1], 4))
    np.testing.assert_allclose(products.matmul(part, V), products.matmul(design, V)[10:25], rtol=1e-12)
    R = np.random.default_rng(0).normal(size=(15, 4))
    np.testing.assert_allclose(products.rmatmul(part, R), dense(make(kind))[10:25].T @ R, atol=1e-12)


def test_csc_has_no_row_views():
    with pytest.raises(DataError, match="tocsr"):
        wrap(make("csc")).rows(0, 3)


@kernel
def by_rows(layout, V, k, scores, back, squares):
    for i in range(squares.shape[0]):
        layout.row_scores(i, V, k, scores, i * k)
        layout.row_update(i, scores, i * k, k, back)
        squares[i] = layout.row_square(i)


@kernel
def by_columns(layout, R, k, gathered, back, d):
    for j in range(d):
        layout.column_products(j, R, k, gathered, j * k)
        layout.column_update(j, gathered, j * k, k, back)


@pytest.mark.parametrize("kind", ["C", "F", "csr"])
def test_the_protocol_of_rows(kind):
    X, k = make(kind), 3
    A, V = dense(X), np.random.default_rng(0).normal(size=(23, 3))
    scores, back, squares = np.zeros(60 * k), np.zeros(23 * k), np.zeros(60)
    by_rows(wrap(X).layout, V.ravel(), k, scores, back, squares)
    np.testing.assert_allclose(scores.reshape(60, k), A @ V, atol=1e-12)
    np.testing.assert_allclose(back.reshape(23, k), A.T @ (A @ V), atol=1e-11)
    np.testing.assert_allclose(squares, (A**2).sum(1), atol=1e-12)


@pytest.mark.parametrize("kind", ["C", "F", "csc"])
def test_the_protocol_of_columns(kind):
    X, k = make(kind), 3
    A, R = dense(X), np.random.default_rng(0).normal(size=(60, 3))
    gathered, back = np.zeros(23 * k), np.zeros(60 * k)
    by_columns(wrap(X).layout, R.ravel(), k, gathered, back, 23)
    np.testing.assert_allclose(gathered.reshape(23, k), A.T @ R, atol=1e-12)
    np.testing.assert_allclose(back.reshape(60, k), A @ (A.T @ R), atol=1e-11)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda X: X.indices.__setitem__(3, 99), "out of range"),
        (lambda X: X.indices.__setitem__(3, -1), "out of range"),
        (lambda X: X.indptr.__setitem__(5, 10_000), "out of range"),
        (lambda X: X.indptr.__setitem__(5, 0), "out of range"),
        (lambda X: setattr(X, "indices", X.indices[:-1]), "wrong lengths"),
    ],
)
def test_damaged_sparse_matrices_are_refused(damage, message):
    X = make("csr", density=0.9)
    damage(X)
    with pytest.raises(DataError, match=message):
        wrap(X)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_that_do_not_fit_are_refused_before_a_kernel_sees_them(kind):
    X = wrap(make(kind))
    with pytest.raises(DataError, match="cannot be multiplied"):
        products.matmul(X, np.ones((22, 3)))
    with pytest.raises(DataError, match="cannot be multiplied"):
        products.rmatmul(X, np.ones((61, 3)))
    with pytest.raises(DataError, match="out must be"):
        products.matmul(X, np.ones((23, 3)), np.empty((59, 3)))
    with pytest.raises(DataError, match="out must be"):
        products.rmatmul(X, np.ones((60, 3)), np.empty((3, 23)).T)


def test_other_types_are_refused_by_name():
    with pytest.raises(DataError, match=r"int64.*astype"):
        wrap(np.zeros((2, 2), dtype=np.int64))
    with pytest.raises(DataError, match="two dimensions"):
        wrap(np.zeros(3))
    with pytest.raises(DataError, match="coo_array"):
        wrap(sparse.coo_array(np.eye(2)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("kind", "dtype", "index_type"), CASES)
def test_orders_are_those_of_scipy(kind, dtype, index_type, threads):
    X = make(kind, dtype, index_type, n=200, d=20)
    for order, convert, other in (("rows", orders.by_rows, "csr"), ("columns", orders.by_columns, "csc")):
        design = wrap(X)
        wanted = wrap(X.asformat(other) if sparse.issparse(X) else np.array(X, order="C" if order == "rows" else "F"))
        size = orders.copied_bytes(design, order)
        found = convert(design, threads)
        assert (found is design) == (kind in ("csr", "C") if order == "rows" else kind in ("csc", "F"))
        assert found.is_sorted
        assert found.dtype == dtype
        assert type(found.layout) is type(wanted.layout)
        for mine, theirs in zip(found.layout, wanted.layout):
            np.testing.assert_array_equal(mine, theirs)
            assert isinstance(mine, int) or mine.flags.f_contiguous == theirs.flags.f_contiguous
        made = sum(part.nbytes for part in found.layout if not isinstance(part, int))
        assert size == (0 if found is design else made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_keeps_its_copy_but_does_not_send_it(kind):
    design = wrap(make(kind))
    for convert in (orders.by_rows, orders.by_columns):
        assert convert(design) is convert(design)
    assert len(design.copies) == 1
    sent = pickle.loads(pickle.dumps(design))
    assert sent.copies == {}
    assert len(design.copies) == 1
    np.testing.assert_array_equal(dense(make(kind)) @ np.eye(23), products.matmul(sent, np.eye(23)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_empty_and_tiny_shapes(shape, kind):
    A = np.full(shape, 2.0)
    X = np.array(A, order=kind) if kind in "CF" else sparse.csr_array(A).asformat(kind)
    design = wrap(X)
    V, R = np.ones((shape[1], 2)), np.ones((shape[0], 2))
    np.testing.assert_array_equal(products.matmul(design, V), A @ V)
    np.testing.assert_array_equal(products.rmatmul(design, R), A.T @ R)
    np.testing.assert_array_equal(products.gram(design), A.T @ A)
    for ordered in (orders.by_rows(design, 2), orders.by_columns(design, 2)):
        np.testing.assert_array_equal(products.matmul(ordered, V), A @ V)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [1.0, 2024.7, -1e9, 3e-12])
@pytest.mark.parametrize("from_moments", [True, False])
def test_constant_columns_are_told_from_those_that_vary(mean, dtype, from_moments):
    """A column of equal numbers is constant however its variance was rounded; one that varies by more is not."""
    rng = np.random.default_rng(0)
    n = 4001
    constant = np.full(n, mean, dtype)
    step = 1e-2 if from_moments else 1e-5  # relative to the mean, well above the rounding of float32
    varying = (constant * (1 + step * rng.normal(size=n))).astype(dtype)
    s = rng.random(n) / n
    s = (s / s.sum()).astype(dtype)

    def moments(x):
        average = (s * x).sum(dtype=dtype)
        if from_moments:
            return (s * x * x).sum(dtype=dtype) - average * average, average
        return (s * (x - average) ** 2).sum(dtype=dtype), average

    for column, expected in ((constant, True), (varying, False)):
        variance, average = (np.array([number], np.float64) for number in moments(column))
        assert is_constant(variance, average, dtype, from_moments).tolist() == [expected]


def test_columns_of_zeros_are_constant_and_those_whose_squares_overflow_are_not():
    variances, means = np.array([0.0, np.inf, np.nan, 1.0]), np.array([0.0, 1e200, 1.0, 1e300])
    assert is_constant(variances, means).tolist() == [True, False, False, True]


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array])
def test_kernels_are_compiled_for_read_only_arrays_only(kind):
    X = kind(np.arange(12.0).reshape(4, 3))
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    frozen = X.copy(order="K") if isinstance(X, np.ndarray) else X.copy()
    for part in [frozen] if isinstance(X, np.ndarray) else [frozen.data, frozen.indices, frozen.indptr]:
        part.setflags(write=False)
    layouts = [wrap(X).layout, wrap(frozen).layout, pickle.loads(pickle.dumps(wrap(X))).layout]
    assert len({typeof(layout) for layout in layouts}) == 1
    arrays = [part for part in layouts[0] if isinstance(part, np.ndarray)]
    assert not any(array.flags.writeable for array in arrays)
    assert all(np.shares_memory(array, part) for array, part in zip(arrays, parts, strict=True))
    assert all(part.flags.writeable for part in parts)
