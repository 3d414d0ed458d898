"""Which rows an online learner has learned from: numbers that do not depend on how a stream is cut into blocks.

A learner that continues from a checkpoint reads the rows of the pass again up to where it was. Their digest tells
whether they are the rows that it has learned from.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from scipy import sparse

from lineal.problem.loop_state import LoopState


class RowDigest(LoopState):
    """Number of rows so far, and sums over them, modulo 2⁶⁴: of the bits of values, of columns, labels and weights.

    `is_ordered` says whether the order of the rows counts.
    """

    state_names = ("rows", "sums")

    def __init__(self, is_ordered: bool = True) -> None:
        self.rows, self.sums, self.is_ordered = 0, [0, 0, 0, 0], is_ordered

    def add(self, X: Any, y: Any, weights: Any) -> None:
        """Add some rows."""
        n = X.shape[0]
        numbers = np.arange(self.rows + 1, self.rows + n + 1, dtype=np.uint64) if self.is_ordered else np.uint64(1)
        values = X.data if sparse.issparse(X) else X
        columns = int(X.indices.sum(dtype=np.uint64)) if sparse.issparse(X) and X.format == "csr" else 0
        found = [_bits(values), columns, int((numbers * _labels(y, n)).sum()), 0 if weights is None else _bits(weights)]
        self.sums = [(total + one) % (1 << 64) for total, one in zip(self.sums, found)]
        self.rows += n

    def equals(self, other: RowDigest) -> bool:
        """Whether both have seen the same rows."""
        return (self.rows, self.sums) == (other.rows, other.sums)


def _bits(values: Any) -> int:
    """Sum of the bits of all numbers, as integers."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize not in (1, 2, 4, 8):
        values = values.astype(np.float64)
    return int(values.reshape(-1).view(f"u{values.dtype.itemsize}").sum(dtype=np.uint64))


def _labels(y: Any, n: int) -> np.ndarray:
    """One integer per row that depends on its labels."""
    if sparse.issparse(y) or np.ndim(y) == 2:
        matrix = sparse.csr_array(y)
        sums = np.concatenate(([0], np.cumsum(matrix.indices.astype(np.int64) + 1)))
        return np.diff(sums[matrix.indptr]).astype(np.uint64)
    y = np.asarray(y)
    if y.dtype.kind in "fiub":
        return y.astype(np.float64).view(np.uint64)
    texts, places = np.unique(y.astype(str), return_inverse=True)
    return np.array([zlib.crc32(text.encode()) for text in texts.tolist()], np.uint64)[places].reshape(n)
