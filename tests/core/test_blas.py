"""Dense products on our own threads: the same numbers for any number of threads, and BLAS gets its threads back."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from lineal.core import blas
from lineal.core.threads import _blas_libraries, blas_limit, product_threads, serial_blas

#: Rows, columns, and columns of the other matrix: small ones, and each way to cut.
SHAPES = [(0, 3, 2), (7, 3, 2), (50_000, 20, 9), (500, 700, 40), (90_000, 60, 1)]


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_do_not_depend_on_threads(n, d, k, dtype, order):
    rng = np.random.default_rng(0)
    A = np.asarray(rng.standard_normal((n, d)), dtype, order=order)
    B, R = rng.standard_normal((d, k)).astype(dtype), rng.standard_normal((n, k)).astype(dtype)
    exact = A.astype(np.float64)
    found = []
    for threads in (1, 2, 5):
        with blas_limit(threads):
            found.append((blas.matmul(A, B), blas.rmatmul(A, R), blas.gram(A)))
            out = np.full((n, k), np.nan, dtype)
            assert blas.matmul(A, B, out) is out
            assert np.array_equal(out, found[-1][0])
            out = np.full((d, k), np.nan, dtype)
            assert blas.rmatmul(A, R, out=out) is out
            assert np.array_equal(out, found[-1][1])
    for others in found[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(found[0], others))
    tolerance = 3e-5 if dtype == np.float32 else 1e-13
    with serial_blas():
        truths = (exact @ B, exact.T @ R, exact.T @ exact)
    for one, truth in zip(found[0], truths):
        assert one.dtype == dtype
        assert np.allclose(one, truth, rtol=0, atol=tolerance * max(n, d))
    assert np.array_equal(found[0][2], found[0][2].T)


def counts() -> list[int]:
    return [library.get_num_threads() for library in _blas_libraries()]


def test_blas_has_one_thread_while_any_fit_runs():
    before = counts()
    assert before
    assert product_threads() is None
    inside, may_end = threading.Event(), threading.Event()

    def another_fit() -> None:
        with blas_limit(3):
            inside.set()
            may_end.wait()

    seen = []

    def one_more_fit() -> None:
        with blas_limit(3):
            seen.append(set(counts()))

    other = threading.Thread(target=another_fit)
    with blas_limit(2):
        assert (product_threads(), set(counts())) == (2, {1})
        with blas_limit(1):
            assert product_threads() == 1
        other.start()
        inside.wait()
        assert product_threads() == 2  # each fit has its own number
    assert (product_threads(), set(counts())) == (None, {1})
    may_end.set()
    other.join()
    assert counts() == before  # though another thread than the one that limited it has ended last
    alone = threading.Thread(target=one_more_fit)
    alone.start()
    alone.join()
    assert seen == [{1}]
    assert counts() == before
    with pytest.raises(ZeroDivisionError), serial_blas():
        1 / 0  # noqa: B018
    assert counts() == before
