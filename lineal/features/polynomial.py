"""`Polynomial`: monomials x_a x_b … of the columns up to a degree, a slice of them at a time.

Monomials are numbered by degree, then in lexicographic order of their columns (that of scikit-learn's
`PolynomialFeatures` without the constant): x_0, x_1, …, x_0², x_0x_1, …. The first of a slice is found from its number
(combinatorial number system), the rest by counting on: there is never a list of all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lineal.core.row_sparse import pick_columns
from lineal.core.scikit import _check_feature_names_in, check_is_fitted
from lineal.errors import OptionError
from lineal.features import rows
from lineal.features.base import Generator
from lineal.features.contracts import FeatureBatch

#: Highest degree, and features that one batch may have.
HIGHEST, WIDEST = 10, 1_000_000


class Polynomial(Generator):
    """Products of columns.

    Parameters
    ----------
    degree : highest degree, at most 10.
    interactions_only : leave out monomials with a column twice.
    n_features : features as a scikit-learn transformer, at most this many; None for all.
    """

    name: ClassVar[str] = "polynomial"

    block_: PolynomialBatch

    def __init__(self, degree: int = 2, interactions_only: bool = False, n_features: int | None = 1024) -> None:
        self.degree = degree
        self.interactions_only = interactions_only
        self.n_features = n_features

    def _check_params(self) -> None:
        self.need_flag("interactions_only")
        if self.need_option("degree", self.degree, 1) > HIGHEST:
            raise OptionError(f"degree={self.degree} is beyond {HIGHEST}: such monomials are 0 or infinite")

    @property
    def n_monomials(self) -> int:
        """Number of monomials."""
        repeats = not self.interactions_only
        return sum(count(self.n_columns_, degree, repeats) for degree in range(1, int(self.degree) + 1))

    def _size(self) -> int:
        return self.n_monomials if self.n_features is None else super()._size()

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        start = number * size
        size = max(0, min(size, self.n_monomials - start))
        if size > WIDEST:
            raise OptionError(
                f"{size} monomials of {self.n_columns_} columns are too many at once: make batches, or set n_features"
            )
        found = monomials(self.n_columns_, int(self.degree), not self.interactions_only, start)
        terms = np.full((size, int(self.degree)), -1, np.int64)
        for row, columns in enumerate(itertools.islice(found, size)):
            terms[row, : len(columns)] = columns
        return PolynomialBatch(terms)

    def width_of(self, number: int, size: int) -> int:
        """Number of monomials of a batch."""
        return max(0, min(size, self.n_monomials - number * size))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "x0^2 x1"."""
        check_is_fitted(self, "block_")
        known = _check_feature_names_in(self, input_features)
        return np.array([_named(known, columns) for columns in self.block_.terms.tolist()], dtype=object)


class PolynomialBatch:
    """Some monomials: `terms` has the columns of each, and −1 where its degree is lower."""

    def __init__(self, terms: np.ndarray) -> None:
        self.terms, self.width = terms, len(terms)
        self.columns, at = np.unique(terms, return_inverse=True)
        self.at: np.ndarray = at.reshape(terms.shape)

    @np.errstate(over="ignore", invalid="ignore")  # products that are not finite are refused by the caller
    def transform(self, X: Any) -> np.ndarray:
        """Products of columns, (m, width)."""
        dtype = rows.precision(X)
        has_ones = bool((self.columns < 0).any())
        columns = self.columns[1:] if has_ones else self.columns
        picked = pick_columns(rows.sliceable(X), columns) if sparse.issparse(X) else X[:, columns]
        used = rows.dense(picked, dtype)
        if has_ones:
            used = np.hstack([np.ones((len(used), 1), dtype), used])
        F = np.take(used, self.at[:, 0], axis=1) if self.width else np.empty((X.shape[0], 0), dtype)
        for factor in range(1, self.terms.shape[1]):
            higher = np.flatnonzero(self.terms[:, factor] >= 0)  # the last ones: degrees ascend
            if len(higher):
                F[:, higher[0] :] *= np.take(used, self.at[higher[0] :, factor], axis=1)
        return F

    def state(self) -> dict[str, Any]:
        """Empty state, because number and size determine the batch."""
        return {}


def count(d: int, degree: int, repeats: bool) -> int:
    """Number of monomials of exactly this degree."""
    return comb(d + degree - 1, degree) if repeats else comb(d, degree)


def monomials(d: int, degree: int, repeats: bool, start: int = 0) -> Iterator[tuple[int, ...]]:
    """The columns of monomials number start, start + 1, …."""
    for size in range(1, degree + 1):
        total = count(d, size, repeats)
        if start < total:
            columns: tuple[int, ...] | None = _unranked(start, d, size, repeats)
            while columns is not None:
                yield columns
                columns = _next(columns, d, repeats)
        start = max(0, start - total)


def _unranked(rank: int, d: int, size: int, repeats: bool) -> tuple[int, ...]:
    """Combination of `size` of d columns with this rank in lexicographic order."""
    columns, low = [], 0
    for left in range(size, 0, -1):
        all_from_low = count(d - low, left, repeats)
        # The largest first column a before which there are at most `rank` combinations, by bisection.
        first, last = low, d - 1
        while first < last:
            middle = (first + last + 1) // 2
            if all_from_low - count(d - middle, left, repeats) <= rank:
                first = middle
            else:
                last = middle - 1
        rank -= all_from_low - count(d - first, left, repeats)
        columns.append(first)
        low = first if repeats else first + 1
    return tuple(columns)


def _next(columns: tuple[int, ...], d: int, repeats: bool) -> tuple[int, ...] | None:
    size = len(columns)
    for place in range(size - 1, -1, -1):
        highest = d - 1 if repeats else d - size + place
        if columns[place] < highest:
            first = columns[place] + 1
            rest = range(size - place)
            return (*columns[:place], *(first if repeats else first + step for step in rest))
    return None


def _named(known: np.ndarray, columns: list[int]) -> str:
    powers = {column: columns.count(column) for column in columns if column >= 0}
    return " ".join(known[c] if power == 1 else f"{known[c]}^{power}" for c, power in powers.items())
