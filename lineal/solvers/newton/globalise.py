"""Globalisation of Newton's method: a line search or a trust region. Both need only scores, never X.

Each problem (column) has its own step size. `Line` contains what a trial needs: objective and derivative at zero, and
the penalty, which is quadratic along the line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.numerics.cg import NewtonDirection
from lineal.numerics.score_rows import ScoreRows
from lineal.problem.loop_state import LoopState

#: Smallest decrease of the objective, relative to the one that the derivative at zero (or the model) predicts.
DECREASE = 1e-4

#: Largest absolute derivative at the end, relative to that at zero.
FLAT = 0.5

MAX_TRIALS = 20


class Line(NamedTuple):
    """Objective of each problem along its direction.

    Attributes
    ----------
    values, derivatives : objective and its derivative at zero.
    penalties, penalty_derivatives, penalty_curvatures : penalty at zero and its derivatives.
    noise : rounding error of the objective.
    """

    values: np.ndarray
    penalties: np.ndarray
    derivatives: np.ndarray
    penalty_derivatives: np.ndarray
    penalty_curvatures: np.ndarray
    noise: np.ndarray

    def at(self, rows: ScoreRows, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Objective and its derivative of each problem at these step sizes."""
        values, derivatives = rows.trial(steps)
        values = values + self.penalties + steps * (self.penalty_derivatives + 0.5 * steps * self.penalty_curvatures)
        derivatives = derivatives + self.penalty_derivatives + steps * self.penalty_curvatures
        return np.where(np.isfinite(values), values, np.inf), derivatives


class LineSearch(LoopState):
    """Step sizes near the minimum along the direction, by the secant method; a step size of one is tried first."""

    state_names = ("radius",)

    def __init__(self, n_problems: int) -> None:
        self.radius = np.full(n_problems, np.inf)

    def keep(self, kept: np.ndarray) -> None:
        """Keep only some of the problems active."""
        self.radius = self.radius[kept]

    def choose(self, rows: ScoreRows, line: Line, newton: NewtonDirection) -> tuple[np.ndarray, np.ndarray]:
        """Step sizes (zero if none helps) and their objectives; R and D of the rows are those at this point."""
        t = np.where(line.derivatives < 0.0, 1.0, 0.0)
        low, high = np.zeros_like(t), np.full_like(t, np.inf)
        low_derivatives, high_derivatives = line.derivatives, np.full_like(t, np.inf)
        for trial in range(MAX_TRIALS):
            values, derivatives = line.at(rows, t)
            is_low = values <= line.values + DECREASE * t * line.derivatives + line.noise
            is_done = (t == 0.0) | (is_low & (np.abs(derivatives) <= -FLAT * line.derivatives))
            if is_done.all():
                return t, values
            too_far, too_near = ~is_done & (~is_low | (derivatives > 0.0)), ~is_done & is_low & (derivatives <= 0.0)
            high, high_derivatives = np.where(too_far, t, high), np.where(too_far, derivatives, high_derivatives)
            low, low_derivatives = np.where(too_near, t, low), np.where(too_near, derivatives, low_derivatives)
            with np.errstate(all="ignore"):
                fraction = low_derivatives / (low_derivatives - high_derivatives)  # where the secant is zero
                fraction = np.where(np.isfinite(fraction), np.clip(fraction, 0.05, 0.95), 0.1)
                # Secants can converge slowly from one side, so every third trial halves the interval.
                inner = low + (0.5 if trial % 3 == 2 else fraction) * (high - low)
                outer = np.clip(t * line.derivatives / (line.derivatives - derivatives), 1.5 * t, 4.0 * t)
            outer = np.where(np.isfinite(outer), outer, 4.0 * t)
            t = np.where(is_done, t, np.where(np.isfinite(high), inner, outer))
        t = np.where(is_done, t, low)  # the last point with a lower objective
        return t, line.at(rows, t)[0]


class TrustRegion(LoopState):
    """Trust region of Lin & Moré (1999): step size one or zero, and a radius that depends on how good the model is."""

    state_names = ("radius", "is_first")

    def __init__(self, n_problems: int) -> None:
        self.radius = np.full(n_problems, np.inf)
        self.is_first = True

    def keep(self, kept: np.ndarray) -> None:
        """Keep only some of the problems active."""
        self.radius = self.radius[kept]

    def choose(self, rows: ScoreRows, line: Line, newton: NewtonDirection) -> tuple[np.ndarray, np.ndarray]:
        """Step sizes of one or zero and their objectives; R and D of the rows are those at this point."""
        t = np.ones_like(line.derivatives)
        values, _ = line.at(rows, t)
        decrease, predicted = line.values - values, -newton.model_change
        if self.is_first:
            self.radius, self.is_first = np.minimum(self.radius, newton.norm), False
        curvature = -decrease - line.derivatives
        with np.errstate(all="ignore"):
            factor = np.where(curvature > 0.0, np.maximum(0.25, -0.5 * line.derivatives / curvature), 4.0)
        factor = np.where(np.isfinite(factor), factor, 0.25)
        natural, radius = factor * newton.norm, self.radius
        is_noise = np.abs(decrease) <= line.noise  # too small to judge the model
        ratio = np.where(is_noise, 1.0, decrease / np.maximum(predicted, np.finfo(np.float64).tiny))
        self.radius = np.select(
            [ratio < DECREASE, ratio < 0.25, ratio < 0.75, newton.on_boundary],
            [
                np.minimum(natural, 0.5 * radius),
                np.maximum(0.25 * radius, np.minimum(natural, 0.5 * radius)),
                np.maximum(0.25 * radius, np.minimum(natural, 4.0 * radius)),
                4.0 * radius,
            ],
            np.maximum(radius, np.minimum(natural, 4.0 * radius)),
        )
        t = np.where(ratio > DECREASE, 1.0, 0.0)
        return (t, values) if t.all() else (t, line.at(rows, t)[0])


#: Globalisations by name, the default first.
GLOBALISATIONS: dict[str, Any] = {"line_search": LineSearch, "trust_region": TrustRegion}
