"""Ridge regression with a free intercept, on centred and weighted rows: one factorisation for many targets.

    min over W and b of  Σ_i s_i‖t_i − W'x_i − b‖² + Σ_j ridge_j‖W_j‖²

With Σ̂ = Σ s(x − x̄)(x − x̄)' the answer is W = (Σ̂ + diag(ridge))⁻¹ Σ s(x − x̄)t' and b = t̄ − W'x̄. The weights s add up
to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.design.odd_columns import is_constant
from lineal.engine.base import Engine
from lineal.numerics.factorisation import Factor
from lineal.numerics.precondition import SecondMoment
from lineal.problem import steps


@dataclass(frozen=True)
class Moments:
    """First and second moments of the columns: x̄ (None without an intercept) and Σ̂.

    Columns that are `constant` have zeros in Σ̂.
    """

    means: np.ndarray | None
    square: np.ndarray
    constant: np.ndarray

    @staticmethod
    def of(means: np.ndarray | None, square: np.ndarray, dtype: Any, is_cancelled: bool = False) -> Moments:
        """Moments whose constant columns are found; `square`, Σ̂, is changed in place (see `without_constants`)."""
        if means is None:
            return Moments(means, square, np.zeros(0, np.intp))
        return Moments(means, square, without_constants(square, means, dtype, is_cancelled))

    @staticmethod
    def of_rows(engine: Engine, fit_intercept: bool) -> Moments:
        """Moments of the rows of an engine. Memory: 8d² bytes, twice if there are several blocks."""
        means = engine.sum(steps.moments)[0][:, 0] if fit_intercept else None
        (square,) = engine.sum(SecondMoment(), means, rows=max(1, engine.shape[1]))
        return Moments.of(means, square, engine.dtype, not engine.is_dense)


class Ridge:
    """Ridge regression on given columns, for one target after another."""

    def __init__(self, moments: Moments, ridge: Any, rounding: float) -> None:
        """`ridge` is one number, or one per column; `rounding` is the relative error of the entries of Σ̂."""
        self.moments = moments
        self.factor = Factor(moments.square, ridge, rounding=rounding)

    def solve(self, products: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights W and intercept b for targets with Σ s·x·t' = `products`, changed in place, and Σ s·t = `totals`."""
        if self.moments.means is not None:
            products -= np.outer(self.moments.means, totals).astype(products.dtype)
        return self.solve_centred(products, totals)

    def solve_centred(self, products: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W and b for targets with Σ s(x − x̄)t' = `products`, changed in place, and Σ s·t = `totals`."""
        products[self.moments.constant] = 0.0
        W = self.factor.solve(products)
        means = self.moments.means
        b = np.zeros(len(totals)) if means is None else totals - means @ W
        return W, b.astype(products.dtype)


def without_constants(square: np.ndarray, means: np.ndarray, dtype: Any, is_cancelled: bool = False) -> np.ndarray:
    """Constant columns; their rows and columns of Σ̂ are set to zero in place.

    Their products with targets are rounding too, which a ridge alone would turn into huge weights: whoever solves with
    Σ̂ sets them to zero. `dtype` is the precision of the features less their means; `is_cancelled` says that means were
    subtracted from the second moments instead, which leaves fewer digits. Columns that overflow stay as they are, for
    `Factor` to refuse.
    """
    constant = np.flatnonzero(is_constant(np.diag(square), means, dtype, from_moments=is_cancelled))
    square[constant] = square[:, constant] = 0.0
    return constant
