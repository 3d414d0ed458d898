"""How far to go along Newton's direction: a line search, or a trust region. Both see only scores, never X.

Every problem (column) of the rows has its own step. `Line` holds what a trial needs: value and slope at zero, and the
penalty, which is a parabola along the line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.numerics.cg import Step
from lineal.numerics.score_rows import ScoreRows

#: Share of the decrease that the first slope promises.
DECREASE = 1e-4

#: Share of the first slope that may be left, of either sign.
FLAT = 0.5

MAX_TRIALS = 20


class Line(NamedTuple):
    """Objective and slope at zero; slope and bend of the penalty; rounding error of the objective."""

    values: np.ndarray
    penalties: np.ndarray
    slopes: np.ndarray
    penalty_slopes: np.ndarray
    penalty_bends: np.ndarray
    noise: np.ndarray

    def at(self, rows: ScoreRows, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Objective and slope of every problem."""
        values, slopes = rows.trial(steps)
        values = values + self.penalties + steps * (self.penalty_slopes + 0.5 * steps * self.penalty_bends)
        return np.where(np.isfinite(values), values, np.inf), slopes + self.penalty_slopes + steps * self.penalty_bends


class LineSearch:
    """Steps near the minimum along the direction, by secants on the slope; one is tried first, and mostly taken."""

    def __init__(self, groups: int) -> None:
        self.radius = np.full(groups, np.inf)

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the problems only."""
        self.radius = self.radius[kept]

    def choose(self, rows: ScoreRows, line: Line, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Steps (zero where nothing helps) and the objective there; R and D of the rows are those of that point."""
        t = np.where(line.slopes < 0.0, 1.0, 0.0)
        low, high = np.zeros_like(t), np.full_like(t, np.inf)
        low_slopes, high_slopes = line.slopes, np.full_like(t, np.inf)
        for trial in range(MAX_TRIALS):
            values, slopes = line.at(rows, t)
            is_low = values <= line.values + DECREASE * t * line.slopes + line.noise
            is_done = (t == 0.0) | (is_low & (np.abs(slopes) <= -FLAT * line.slopes))
            if is_done.all():
                return t, values
            too_far, too_near = ~is_done & (~is_low | (slopes > 0.0)), ~is_done & is_low & (slopes <= 0.0)
            high, high_slopes = np.where(too_far, t, high), np.where(too_far, slopes, high_slopes)
            low, low_slopes = np.where(too_near, t, low), np.where(too_near, slopes, low_slopes)
            with np.errstate(all="ignore"):
                share = low_slopes / (low_slopes - high_slopes)  # where the secant of the slopes is zero
                share = np.where(np.isfinite(share), np.clip(share, 0.05, 0.95), 0.1)
                # Slopes bend: a secant may creep from one side, so that every third trial halves the interval.
                inner = low + (0.5 if trial % 3 == 2 else share) * (high - low)
                outer = np.clip(t * line.slopes / (line.slopes - slopes), 1.5 * t, 4.0 * t)
            outer = np.where(np.isfinite(outer), outer, 4.0 * t)
            t = np.where(is_done, t, np.where(np.isfinite(high), inner, outer))
        t = np.where(is_done, t, low)  # the last point known to be lower
        return t, line.at(rows, t)[0]


class TrustRegion:
    """Lin & Moré (1999): a whole step or none, and a radius that follows how well the model foretold it."""

    def __init__(self, groups: int) -> None:
        self.radius = np.full(groups, np.inf)
        self.is_first = True

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the problems only."""
        self.radius = self.radius[kept]

    def choose(self, rows: ScoreRows, line: Line, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Steps of one or zero and the objective there; R and D of the rows are those of that point."""
        t = np.ones_like(line.slopes)
        values, _ = line.at(rows, t)
        decrease, foretold = line.values - values, -step.model
        if self.is_first:
            self.radius, self.is_first = np.minimum(self.radius, step.norm), False
        bend = -decrease - line.slopes
        with np.errstate(all="ignore"):
            factor = np.where(bend > 0.0, np.maximum(0.25, -0.5 * line.slopes / bend), 4.0)
        factor = np.where(np.isfinite(factor), factor, 0.25)
        natural, radius = factor * step.norm, self.radius
        is_noise = np.abs(decrease) <= line.noise  # too small to judge the model by
        share = np.where(is_noise, 1.0, decrease / np.maximum(foretold, np.finfo(np.float64).tiny))
        self.radius = np.select(
            [share < DECREASE, share < 0.25, share < 0.75, step.on_border],
            [
                np.minimum(natural, 0.5 * radius),
                np.maximum(0.25 * radius, np.minimum(natural, 0.5 * radius)),
                np.maximum(0.25 * radius, np.minimum(natural, 4.0 * radius)),
                4.0 * radius,
            ],
            np.maximum(radius, np.minimum(natural, 4.0 * radius)),
        )
        t = np.where(share > DECREASE, 1.0, 0.0)
        return (t, values) if t.all() else (t, line.at(rows, t)[0])


#: By name, the default first.
GLOBALISATIONS: dict[str, Any] = {"line_search": LineSearch, "trust_region": TrustRegion}
