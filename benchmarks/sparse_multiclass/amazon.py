"""A generated set with the shape of the paper's largest, Amazon7: 1.36 million rows, 262 thousand features, 7 classes.

    python -m benchmarks.sparse_multiclass.amazon ROWS FEATURES ENTRIES [MAX_TIME]

Columns have frequencies by Zipf's law and are made some at a time, straight into CSC of float32, so that no other copy
of the data ever exists. Some columns are drawn to one class, more or less, and the others are noise, as are some of the
labels; rows have unit length. The part runs in a process of its own, whose peak of resident memory is compared with the
data and n·m + d·m floats.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import peak_gb
from benchmarks.sparse_multiclass import exact
from benchmarks.sparse_multiclass.problems import MEDIUM, Plan, Table

TITLE = "Amazon7's shape, generated: multiclass squared hinge, l1/l2, λ = 1e-4, float32, relative gap 1e-3"
COLUMNS = (
    "rows", "features", "entries", "generated s", "warm-up s", "trained s", "iterations", "status", "gap",
    "non-zero rows", "training accuracy", "data GB", "n·m + d·m GB", "before training GB", "peak GB",
    "peak / (data + n·m + d·m)",
)  # fmt: skip
SHAPE = (1_360_000, 262_144, 143_000_000)
QUICK_SHAPE = (27_200, 5_243, 1_000_000)
N_CLASSES = 7
TOL = 1e-3

#: Exponent and shift of Zipf's law; no column is in more than this share of the rows.
EXPONENT, SHIFT, MOST = 0.9, 20.0, 0.25

#: Share of the columns that know something of the class, and how much more often at least and at most they occur in it.
INFORMED, LEAST_LIFT, MOST_LIFT = 0.5, 1.5, 8.0

#: Share of the rows whose label is any.
NOISE = 0.05

#: Entries that are drawn at a time.
CHUNK = 2_000_000


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """One row, from a process of its own."""
    if plan.match not in "amazon":
        return [], {}
    shape, limit = (QUICK_SHAPE, 60.0) if plan.is_quick else (SHAPE, 7200.0)
    command = [sys.executable, "-m", __name__, *map(str, shape), str(limit)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return [Table("amazon", TITLE, COLUMNS, [found["row"]])], found


def generate(n: int, d: int, entries: int, seed: int = 0) -> tuple[sparse.csc_matrix, np.ndarray]:
    """X and labels. Memory: the entries, twice `CHUNK` of them in int64, and n floats in float64."""
    rng = np.random.default_rng(seed)
    y = rng.choice(N_CLASSES, n, p=np.arange(N_CLASSES + 3, 3, -1) / np.arange(4, N_CLASSES + 4).sum())
    members = [np.flatnonzero(y == label).astype(np.int32) for label in range(N_CLASSES)]
    counts = rng.permutation(_counts(n, d, entries))
    data, indices = np.empty(counts.sum(), np.float32), np.empty(counts.sum(), np.int32)
    indptr, squares = np.zeros(d + 1, np.int64), np.zeros(n)
    first = 0
    while first < d:
        last = max(first + 1, int(np.searchsorted(np.cumsum(counts[first:]), CHUNK)) + first)
        columns = np.arange(first, min(last, d))
        keys = _draw(rng, counts[columns], members, n)  # sorted: column after column, rows in order
        numbers, rows = np.divmod(keys, n)
        begin = int(indptr[first])
        place = slice(begin, begin + len(keys))
        idf = np.log(n / counts[columns].astype(np.float64))
        data[place] = idf[numbers] * (1.0 + rng.exponential(0.3, len(keys)))
        indices[place] = rows
        indptr[first + 1 : first + 1 + len(columns)] = begin + np.cumsum(np.bincount(numbers, minlength=len(columns)))
        squares += np.bincount(rows, data[place].astype(np.float64) ** 2, minlength=n)
        first += len(columns)
    total = int(indptr[-1])
    lengths = (1.0 / np.sqrt(np.maximum(squares, 1e-30))).astype(np.float32)
    for begin in range(0, total, CHUNK):
        part = slice(begin, min(begin + CHUNK, total))
        data[part] *= lengths[indices[part]]
    kind = np.int32 if total < 2**31 else np.int64
    X = sparse.csc_matrix((data[:total], indices[:total], indptr.astype(kind)), shape=(n, d), copy=False)
    X.has_sorted_indices = X.has_canonical_format = True  # nobody need look
    return X, np.where(rng.random(n) < NOISE, rng.integers(0, N_CLASSES, n), y)


def _counts(n: int, d: int, entries: int) -> np.ndarray:
    """Entries of every column before duplicates are dropped, the most frequent one first."""
    shape, counts = (np.arange(d) + SHIFT) ** -EXPONENT, np.zeros(d)
    low, high = 0.0, float(n) * (d + SHIFT)
    for _ in range(100):
        scale = 0.5 * (low + high)
        counts = np.clip(scale * shape, 2.0, MOST * n)
        low, high = (scale, high) if counts.sum() < entries else (low, scale)
    return counts.astype(np.int64)


def _draw(rng: np.random.Generator, counts: np.ndarray, members: list[np.ndarray], n: int) -> np.ndarray:
    """Sorted distinct keys column·n + row; informed columns draw some of their rows from one class."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    rows = rng.integers(0, n, len(numbers))
    lifts = np.where(rng.random(len(counts)) < INFORMED, rng.uniform(LEAST_LIFT, MOST_LIFT, len(counts)), 1.0)
    own = rng.integers(0, len(members), len(counts))
    shares = np.array([len(rows_of_class) for rows_of_class in members]) / n
    drawn = (lifts - 1.0) * shares[own] / (1.0 + (lifts - 1.0) * shares[own])  # of the rows come from the class alone
    from_own = np.flatnonzero(rng.random(len(numbers)) < drawn[numbers])
    labels = own[numbers[from_own]]
    for label, candidates in enumerate(members):
        chosen = from_own[labels == label]
        rows[chosen] = candidates[rng.integers(0, len(candidates), len(chosen))]
    keys = numbers * n + rows
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])]


def measure(n: int, d: int, entries: int, max_time: float) -> dict[str, Any]:
    """Generate, warm up, train; the row of the table."""
    from lineal.linear.fit import fit
    from lineal.linear.options import TrainOptions

    options = TrainOptions(
        loss="multiclass_squared_hinge", penalty="l1/l2", alpha=MEDIUM, tol=TOL, solver="block_cd",
        fit_intercept=False, max_time=max_time, max_iter=1000, verbose=1,
    )  # fmt: skip
    marks = [time.perf_counter()]
    fit(*generate(2000, 500, 40_000), options)  # compiles
    marks.append(time.perf_counter())
    X, y = generate(n, d, entries)
    before = peak_gb()
    marks.append(time.perf_counter())
    _, solution = fit(X, y, options)
    marks.append(time.perf_counter())
    peak = peak_gb()
    warm, made, trained = np.diff(marks)
    W = solution.weights
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    work = 4 * (n + d) * N_CLASSES
    right = float((np.asarray(X @ W).argmax(axis=1) == y).mean())
    return {
        "row": [
            n, d, X.nnz, made, warm, trained, int(solution.history[-1]["iteration"]), solution.status,
            solution.certificate.value, f"{exact.live_rows(W):.1%}", f"{right:.1%}", data / 1e9, work / 1e9,
            before, peak, 1e9 * peak / (data + work),
        ],
        "history": solution.history,
    }  # fmt: skip


if __name__ == "__main__":
    size = [int(value) for value in sys.argv[1:4]]
    print(json.dumps(measure(*size, max_time=float(sys.argv[4]) if len(sys.argv) > 4 else 7200.0)))
