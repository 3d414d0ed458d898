"""Columns of X as features: a random order (`RandomSubset`) or the most frequent first (`FrequencyOrdered`).

For text: stagewise fits go through the columns batch by batch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lineal.core import rng
from lineal.core.row_sparse import pick_columns
from lineal.core.scikit import _check_feature_names_in, check_is_fitted
from lineal.design.matrix import summed
from lineal.features import rows
from lineal.features.base import Generator
from lineal.features.contracts import FeatureBatch


class ColumnBatch:
    """Some columns, in a given order."""

    def __init__(self, columns: np.ndarray, has_state: bool = False) -> None:
        self.columns, self.width, self.has_state = columns, len(columns), has_state

    def transform(self, X: Any) -> np.ndarray:
        """The columns X[:, columns] as a dense array."""
        dtype = rows.precision(X)
        if not sparse.issparse(X):
            return np.ascontiguousarray(X[:, self.columns], dtype)
        order = np.argsort(self.columns, kind="stable")
        picked = rows.dense(pick_columns(rows.sliceable(X), self.columns[order]), dtype)
        if (order[1:] > order[:-1]).all():
            return picked
        F = np.empty_like(picked)
        F[:, order] = picked
        return F

    def state(self) -> dict[str, Any]:
        """The columns, if `make` would not choose them again."""
        return {"columns": self.columns} if self.has_state else {}


class ColumnGenerator(Generator):
    """Base of generators whose features are columns of X."""

    block_: ColumnBatch

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns."""
        check_is_fitted(self, "block_")
        return _check_feature_names_in(self, input_features)[self.block_.columns]

    def width_of(self, number: int, size: int) -> int:
        """Number of columns of a batch."""
        return max(0, min(size, self.n_columns_ - number * size))

    def need_columns(self, columns: Any, what: str) -> np.ndarray:
        """Check column indices, which must not repeat; returns them as int64."""
        if not (
            isinstance(columns, np.ndarray)
            and columns.ndim == 1
            and columns.dtype.kind in "iu"
            and (len(columns) == 0 or (int(columns.min()) >= 0 and int(columns.max()) < self.n_columns_))
            and len(np.unique(columns)) == len(columns)
        ):
            raise ValueError(f"{what} of {self.name} features are not different columns below {self.n_columns_}")
        return columns.astype(np.int64, copy=False)


class RandomSubset(ColumnGenerator):
    """Columns of X in random order.

    Parameters
    ----------
    replacement : False cuts one permutation of the columns into batches, which have no column in common; the last is
        narrower, then there are none. True draws every batch anew (different columns within a batch), without end.
    n_features : features as a scikit-learn transformer.
    random_state : seed (None: 0).
    """

    name: ClassVar[str] = "subset"

    def __init__(self, replacement: bool = False, n_features: int = 1024, random_state: int | None = None) -> None:
        self.replacement = replacement
        self.n_features = n_features
        self.random_state = random_state

    def _check_params(self) -> None:
        self.need_flag("replacement")

    def width_of(self, number: int, size: int) -> int:
        """Number of columns of a batch; with replacement, every batch chooses from all columns."""
        return super().width_of(0 if self.replacement else number, size)

    def _bytes_to_make(self, size: int) -> int:
        return 8 * self.n_columns_

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        stream, start = (number + 1, 0) if self.replacement else (0, number * size)
        order = np.arange(self.n_columns_)
        rng.shuffle(rng.generator(self.seed_, stream), order)
        return ColumnBatch(np.sort(order[start : start + size]))


class FrequencyOrdered(ColumnGenerator):
    """Columns by decreasing number of non-zero entries; ties go to the lower column.

    Parameters
    ----------
    n_features : features as a scikit-learn transformer.

    Attributes
    ----------
    order_ : all columns in this order.
    """

    name: ClassVar[str] = "frequency"
    learnt: ClassVar[tuple[str, ...]] = ("order_",)

    order_: np.ndarray

    def __init__(self, n_features: int = 1024) -> None:
        self.n_features = n_features

    def _bytes_to_learn(self) -> int:
        return 32 * self.n_columns_

    def _learn(self, X: Any) -> None:
        self._learn_from(rows.SumsHere(X), X)

    def _learn_from(self, sums: Any, sample: Any) -> None:
        (counts,) = sums.total(nonzero_counts)
        self.order_ = np.argsort(-counts, kind="stable")

    def _check_state(self) -> None:
        self.order_ = self.need_columns(self.order_, "order_")
        if len(self.order_) != self.n_columns_:
            raise ValueError(f"order_ of frequency features has {len(self.order_)} of {self.n_columns_} columns")

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        return ColumnBatch(self.order_[number * size : (number + 1) * size])


def column_sums(X: Any, of: Any) -> np.ndarray:
    """Sum Σ_i of(x_ij) of each column, in float64; of(0) must be 0."""
    total = np.zeros(X.shape[1])
    for start, stop in rows.chunks(X, 1):
        part = X[start:stop]
        if sparse.issparse(part):
            part = summed(part)
            total += np.bincount(part.indices, of(part.data.astype(np.float64)), X.shape[1])
        else:
            total += of(rows.dense(part)).sum(axis=0, dtype=np.float64)
    return total


def nonzero_counts(X: Any) -> tuple[np.ndarray]:
    """Numbers of non-zero entries of the columns."""
    return (column_sums(X, lambda values: values != 0),)


def sums_of_squares(X: Any) -> tuple[np.ndarray]:
    """Sums of squares of the columns."""
    return (column_sums(X, lambda values: np.square(values, dtype=np.float64)),)
