"""What updates of all rows have in common: α, the mean that is subtracted from the rows, and β for the intercept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.design import Design
from lineal.design.orders import by_rows
from lineal.design.products import matmul, row_norms, scale_columns
from lineal.numerics.vectors import dot
from lineal.problem.objective import Objective, check_finite
from lineal.problem.targets import OneLabel
from lineal.solvers.dual_cd.rows import PassRows

#: β in units of mean‖x‖²/α. Larger values balance the intercept sooner, and make the updates smaller.
BALANCE = 0.1


@dataclass(frozen=True)
class Geometry:
    """Strength of the penalty and position of the rows.

    Attributes
    ----------
    alpha : the largest strength of the penalty.
    stretch : √(strength/α) per column, by which columns are divided, or None if all strengths are equal.
    mean, mean_square : weighted mean x̄ of the divided rows and its squared norm; zeros without an intercept.
    beta : strength of the penalty on the constraint Σ s u = 0; zero without an intercept.
    fit_intercept : whether there is an intercept.
    """

    alpha: float
    stretch: np.ndarray | None
    mean: np.ndarray
    mean_square: float
    beta: float
    fit_intercept: bool

    @staticmethod
    def of(objective: Objective) -> Geometry:
        """Geometry of an objective, without β."""
        d = objective.engine.shape[1]
        strengths = objective.regulariser.strengths if d else np.array([objective.regulariser.alpha])
        alpha = float(strengths.max())
        stretch = np.sqrt(strengths / alpha) if strengths.min() < alpha else None
        mean = np.zeros(d)
        with np.errstate(over="ignore", invalid="ignore"):
            if objective.fit_intercept:
                mean = objective.moments[0][:, 0] / (1.0 if stretch is None else stretch)
            return Geometry(alpha, stretch, mean, dot(mean, mean), 0.0, objective.fit_intercept)

    def with_spread(self, spread: float) -> Geometry:
        """Geometry with the β that suits rows whose weighted mean squared distance from x̄ is `spread`."""
        if not self.fit_intercept:
            return self
        with np.errstate(over="ignore", invalid="ignore"):
            return replace(self, beta=BALANCE * spread / self.alpha + 1.0)

    def spread(self, moments: tuple[np.ndarray, np.ndarray]) -> float:
        """Weighted mean squared distance of the rows from x̄, from the moments of their columns."""
        squares = moments[1][:, 0] / (1.0 if self.stretch is None else self.stretch**2)
        return max(float(squares.sum()) - self.mean_square, 0.0)

    def stretched(self, X: Design) -> Design:
        """X by rows, its columns divided by `stretch`: X itself if nothing has to be changed."""
        X = by_rows(X)
        return X if self.stretch is None else scale_columns(X, 1.0 / self.stretch)

    def distances(self, X: Design, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances ‖x_i − x̄‖² of stretched rows from the mean, and the products x_i'x̄."""
        squares, dots = row_norms(X), np.zeros(X.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            if self.fit_intercept:
                dots = matmul(X, self.mean[:, None], threads=threads)[:, 0]
                squares = np.maximum(squares - 2.0 * dots + self.mean_square, 0.0)
        return squares, dots

    def pass_rows(self, dtype: Any, block: Any, squares: np.ndarray, dots: np.ndarray) -> PassRows:
        """Labels of the rows of a block or an engine, and the factors of their updates."""
        weights = block.weights
        with np.errstate(over="ignore", invalid="ignore"):
            scale = _narrow(weights / self.alpha, dtype)
            shift = _narrow(weights * (self.beta - dots / self.alpha), dtype)
            tilt = _narrow(dots - self.mean_square, dtype)
            q = _narrow(weights * (squares / self.alpha + self.beta), dtype)
        q = np.maximum(q, dtype.type(1e-12))  # the score of an empty row does not change
        offsets = np.empty((0, 0), dtype) if block.offsets is None else block.offsets
        return PassRows(*_labels(block.targets, len(weights)), scale, q, shift, tilt, offsets)


def _narrow(numbers: np.ndarray, dtype: Any) -> np.ndarray:
    """The numbers in the precision of X; an error if that overflows."""
    narrow = numbers.astype(dtype)
    check_finite(float(np.abs(narrow).max(initial=0.0)), "the squared norm of a row over α")
    return narrow


def _labels(targets: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Label columns of all rows, and the position of the first one of each row."""
    if isinstance(targets, OneLabel):
        return targets.columns, np.arange(n + 1)
    return targets.columns, targets.starts
