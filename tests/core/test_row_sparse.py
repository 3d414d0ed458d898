"""Weights kept by row: the same numbers in fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest
from row_sparse_models import rows_of, weights_of
from scipy import sparse
from sklearn.datasets import load_digits

from lineal.core.row_sparse import RowSparse, pick_columns, product, smaller

DIGITS, LABELS = load_digits(return_X_y=True)
KINDS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("n", [1, 200])
@pytest.mark.parametrize("rows", [[], [0], [3, 4, 39], list(range(40))])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_dense_matrix(kind, rows, n, k):
    W, X = weights_of(40, k, rows), rows_of(n, 40)
    expected = X @ W.toarray()
    np.testing.assert_allclose(product(kind(X), W), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kind(X) @ W, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(X[0] @ W, expected[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 50])
def test_columns_are_picked_as_scipy_picks_them(n, indices):
    X = sparse.csr_array(rows_of(n, 500, density=0.02))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    for columns in ([], [0], [499], [0, 17, 18, 250, 499], range(500)):
        columns = np.array(columns, dtype=np.int64)
        picked = pick_columns(X, columns)
        assert picked.shape == (n, len(columns))
        np.testing.assert_array_equal(picked.toarray(), X.toarray()[:, columns])
        assert picked.dtype == X.dtype


def test_it_acts_as_the_array_that_it_stands_for():
    W = weights_of(10, 3, [2, 7], np.float32)
    dense = W.toarray()
    assert (W.shape, W.dtype, W.ndim, W.size, len(W)) == ((10, 3), np.float32, 2, 30, 10)
    assert W.nbytes == 2 * 8 + 2 * 3 * 4
    assert np.asarray(W).dtype == np.float32
    assert np.asarray(W, dtype=np.float64).dtype == np.float64
    assert np.count_nonzero(W) == 6
    for found, expected in [
        (np.abs(W), np.abs(dense)), (W * 2, dense * 2), (W != 0, dense != 0), (W.T, dense.T), (W[2], dense[2]),
        (W[:, 1], dense[:, 1]), (W - W, dense * 0), (np.vstack(list(W)), dense), (W.T @ W, dense.T @ dense),
    ]:  # fmt: skip
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="copy"):
        np.array(W, copy=False)


@pytest.mark.parametrize(
    ("rows", "values", "shape"),
    [
        ([1, 1], np.ones((2, 3)), (5, 3)),
        ([2, 1], np.ones((2, 3)), (5, 3)),
        ([-1, 1], np.ones((2, 3)), (5, 3)),
        ([1, 5], np.ones((2, 3)), (5, 3)),
        ([1], np.ones((2, 3)), (5, 3)),
        ([1, 2], np.ones((2, 2)), (5, 3)),
        ([[1, 2]], np.ones((2, 3)), (5, 3)),
        ([1.0, 2.0], np.ones((2, 3)), (5, 3)),
        ([1, 2], np.ones(2), (5, 3)),
        ([], np.ones((0, 3)), (-1, 3)),
    ],
)
def test_parts_that_do_not_fit_are_refused(rows, values, shape):
    with pytest.raises(ValueError, match="rows"):
        RowSparse(np.asarray(rows), values, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4])
def test_the_smaller_form_is_kept(k, dtype):
    d = 100
    for count in range(0, d + 1, 5):
        W = np.zeros((d, k), dtype)
        W[:count, -1] = 1.0
        found = smaller(W)
        by_row, dense = count * (8 + k * W.itemsize), W.nbytes
        assert isinstance(found, RowSparse) == (by_row < dense)
        assert found.nbytes == min(by_row, dense)
        np.testing.assert_array_equal(np.asarray(found), W)
    assert smaller(found) is found
