"""`GreedyResidual`: the columns that are most correlated with a residual.

    score_j = ‖X_j'R‖ / ‖X_j‖

for the (n, k) residual R. Among all columns alone, the one with the largest score reduces ‖R‖² the most. Memory: d × k
products in float64 while a batch is chosen, d norms kept.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lineal.errors import DataError, OptionError
from lineal.features import rows
from lineal.features.contracts import FeatureBatch
from lineal.features.subset import ColumnBatch, ColumnGenerator, sums_of_squares


class GreedyResidual(ColumnGenerator):
    """Columns of X with the largest correlation with the residual. Each is used once, columns of zeros never.

    As a scikit-learn transformer it needs y, whose centred indicator matrix (labels) or values are the residual.

    Parameters
    ----------
    n_features : features as a scikit-learn transformer.

    Attributes
    ----------
    norms_ : ‖X_j‖.
    columns_, numbers_ : columns used so far, and their batches.
    """

    name: ClassVar[str] = "greedy"
    needs_residual: ClassVar[bool] = True
    learnt: ClassVar[tuple[str, ...]] = ("norms_", "columns_", "numbers_")

    norms_: np.ndarray
    columns_: np.ndarray
    numbers_: np.ndarray

    def __init__(self, n_features: int = 1024) -> None:
        self.n_features = n_features

    def _bytes_to_learn(self) -> int:
        return 24 * self.n_columns_

    def _bytes_to_make(self, size: int) -> int:
        return 24 * self.n_columns_

    def _learn(self, X: Any) -> None:
        self._learn_from(rows.SumsHere(X), X)

    def _learn_from(self, sums: Any, sample: Any) -> None:
        with np.errstate(over="ignore"):
            (squares,) = sums.total(sums_of_squares)
        self.norms_ = np.sqrt(squares)
        if not np.isfinite(self.norms_).all():
            raise DataError("some columns are too large to be squared: scale them")
        self.columns_ = self.numbers_ = np.zeros(0, np.int64)

    def _check_state(self) -> None:
        self.need_array("norms_", (self.n_columns_,))
        self.columns_ = self.need_columns(self.columns_, "columns_")
        numbers = self.numbers_
        fits = isinstance(numbers, np.ndarray) and numbers.shape == self.columns_.shape
        if not (fits and numbers.dtype.kind in "iu"):
            raise ValueError("numbers_ of greedy features are not one batch number per column")

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        if residual is None:
            known = self.columns_[self.numbers_ == number]
            if len(known) == 0:
                raise OptionError("greedy features need a residual: call make(…, residual=(X, R))")
            return ColumnBatch(known, has_state=True)
        X, R = residual
        if X.shape[1] != self.n_columns_ or len(R) != X.shape[0]:
            raise DataError(f"greedy features: X of shape {X.shape} and a residual of {len(R)} rows do not fit")
        R = np.asarray(R).reshape(len(R), -1)
        return self.make_by_products(number, size, rows.correlations(rows.sliceable(X), R))

    def make_by_products(self, number: int, size: int, products: np.ndarray) -> FeatureBatch:
        """The batch that `make` chooses, from X'R, which is a sum over rows, instead of X and the residual R."""
        scores = column_scores(products, self.norms_)
        others = self.numbers_ != number
        scores[self.columns_[others]] = -1.0
        best = np.argsort(-scores, kind="stable")[:size]
        return self._give(number, best[scores[best] >= 0.0])

    def remake(self, number: int, size: int, state: dict[str, Any]) -> FeatureBatch:
        """Batch with the columns that were chosen before."""
        if set(state) != {"columns"}:
            raise ValueError(f"a batch of greedy features has columns, found {sorted(state)}")
        return self._give(number, self.need_columns(np.asarray(state["columns"]), "columns of a batch"))

    def _give(self, number: int, columns: np.ndarray) -> FeatureBatch:
        if not np.array_equal(self.columns_[self.numbers_ == number], columns):  # threads may give a known one again
            others = self.numbers_ != number
            self.columns_ = np.concatenate([self.columns_[others], columns])
            self.numbers_ = np.concatenate([self.numbers_[others], np.full(len(columns), number, np.int64)])
        return ColumnBatch(columns, has_state=True)


def column_scores(products: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Correlations ‖X_j'R‖/‖X_j‖; −1 for columns of zeros."""
    size = np.sqrt(np.einsum("jr,jr->j", products, products))
    return np.where(norms > 0.0, size / np.where(norms > 0.0, norms, 1.0), -1.0)
