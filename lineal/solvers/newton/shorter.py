"""Step sizes below one along a direction, for all columns together: trials need scores only, never X."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lineal.numerics.score_rows import ScoreRows

#: Smallest decrease of the objective, and largest absolute derivative at the end, relative to the derivative at zero.
DECREASE, FLAT = 1e-4, 0.5

MAX_TRIALS = 24


class JointLine(NamedTuple):
    """Objective along a direction: at zero, its derivative, the penalty and its derivatives, and rounding errors."""

    value: float
    slope: float
    penalty: float
    penalty_slope: float
    penalty_curvature: float
    noise: float

    def at(self, sums: np.ndarray, step: float) -> tuple[float, float]:
        """Objective and its derivative, from the loss and its derivative at a step size."""
        value = float(sums[0]) + self.penalty + step * (self.penalty_slope + 0.5 * step * self.penalty_curvature)
        derivative = float(sums[1]) + self.penalty_slope + step * self.penalty_curvature
        return (value if math.isfinite(value) else math.inf), derivative


def shorter(rows: ScoreRows, line: JointLine, value: float, derivative: float) -> tuple[float, float]:
    """Step size below one and its objective; zero if none decreases the objective. R of the rows is at this point."""
    low, high, low_slope, high_slope = 0.0, 1.0, line.slope, derivative
    step, best = 0.0, line.value
    for trial in range(MAX_TRIALS):
        fraction = 0.1 if not (math.isfinite(high_slope) and high_slope > 0.0) else low_slope / (low_slope - high_slope)
        fraction = 0.5 if trial % 3 == 2 else min(max(fraction, 0.05), 0.95)
        step = low + fraction * (high - low)
        value, slope = line.at(_scalar(rows.trial(np.full(1, step))), step)
        if value > line.value + DECREASE * step * line.slope + line.noise:
            high, high_slope = step, slope
        elif abs(slope) <= FLAT * abs(line.slope):
            return step, value
        elif slope > 0.0:
            high, high_slope = step, slope
        else:
            low, low_slope, best = step, slope, value
    value, _ = line.at(_scalar(rows.trial(np.full(1, low))), low)
    return low, best if low == 0.0 else value


def _scalar(sums: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.array([sums[0][0], sums[1][0]])
