"""Products: lineal against SciPy on a text-shaped sparse matrix, and against NumPy's BLAS on dense rows.

    python -m benchmarks.products [--rows 12000] [--json PATH]

Sparse X is CSR (and CSC) with Zipf-distributed columns; dense X has 784 or 4000 columns. X@V and X'@R with several
numbers of columns, on one thread and all. NumPy has the threads that its BLAS takes, and as many as lineal in the
column of one thread.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import RESULTS, measure, print_table, write_json
from lineal.core.threads import available_cores, blas_limit
from lineal.design import products, wrap

COLUMNS = ("product", "k", "SciPy ms", "1 thread ms", "all ms", "1 thread ×", "ratio")


def text_matrix(rows: int, columns: int, per_row: int, dtype: Any) -> Any:
    """Random words by Zipf's law."""
    rng = np.random.default_rng(0)
    words = (columns ** rng.random((rows, per_row))).astype(np.int64) % columns
    parts = (rng.random(rows * per_row).astype(dtype), (np.repeat(np.arange(rows), per_row), words.ravel()))
    X = sparse.csr_array(parts, shape=(rows, columns))
    X.sum_duplicates()
    return X


def compare(X: Any, k: int, repeats: int) -> list[list[Any]]:
    """Rows of the table for one matrix and one number of columns."""
    rng = np.random.default_rng(1)
    design, threads = wrap(X), available_cores()
    V, R = (rng.random((size, k)).astype(X.dtype) for size in (X.shape[1], X.shape[0]))
    Z, G = np.empty((X.shape[0], k), X.dtype), np.empty((X.shape[1], k), X.dtype)
    table = []
    for name, peer, ours in (
        ("X@V", lambda: X @ V, lambda t: products.matmul(design, V, Z, t)),
        ("X'@R", lambda: X.T @ R, lambda t: products.rmatmul(design, R, G, t)),
    ):
        tolerance = 1e-3 if X.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(ours(threads), peer(), rtol=tolerance, atol=tolerance)
        ours(1)
        theirs, one, all_ = (
            1e3 * measure(f, repeats) for f in (peer, lambda ours=ours: ours(1), lambda ours=ours: ours(threads))
        )
        label = f"{getattr(X, 'format', 'dense')} {X.dtype.name} {name}"
        table.append([label, k, theirs, one, all_, theirs / one, theirs / all_])
    return table


def dense(columns: int, dtype: Any, repeats: int) -> list[list[Any]]:
    """Rows of the table for some 64 MB of dense rows: BLAS on one thread against one thread, all against all."""
    X = np.random.default_rng(0).standard_normal((16_000_000 // columns, columns)).astype(dtype)
    table = []
    for k in (2, 10, 20, 32):
        with blas_limit(1):
            alone = compare(X, k, repeats)
        for slow, line in zip(alone, compare(X, k, repeats)):
            table.append([f"{line[0]}, {columns} columns", k, line[2], slow[3], line[4], slow[5], line[6]])
    return table


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--data", help="not used: the matrix is made")
    parser.add_argument("--json", default=RESULTS / "products.json")
    arguments = parser.parse_args()
    start = time.perf_counter()
    for dtype in (np.float32, np.float64):
        small = text_matrix(500, 3000, 50, dtype)
        for k in (1, 20):
            compare(small, k, 1)
            compare(small.tocsc(), k, 1)
    print(f"warm-up {time.perf_counter() - start:.1f} s")
    table = []
    for dtype in (np.float32, np.float64):
        X = text_matrix(arguments.rows, 130_000, 120, dtype)
        for k in (1, 3, 10, 20, 100):
            table += compare(X, k, arguments.repeats)
        table += compare(X.tocsc(), 20, arguments.repeats)
    print_table(f"{X.shape[0]} × {X.shape[1]}, {X.nnz} non-zeros", COLUMNS, table)
    rows = [
        row for dtype in (np.float32, np.float64) for columns in (784, 4000)
        for row in dense(columns, dtype, arguments.repeats)
    ]  # fmt: skip
    print_table("dense rows, NumPy in place of SciPy", COLUMNS, rows)
    write_json(arguments.json, {"columns": COLUMNS, "rows": table, "nonzeros": X.nnz, "dense": rows})


if __name__ == "__main__":
    main()
