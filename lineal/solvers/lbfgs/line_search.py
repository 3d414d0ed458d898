"""A line search for smooth functions: sufficient decrease and a slope that has flattened (weak Wolfe conditions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

#: Share of the decrease that the first slope promises.
DECREASE = 1e-4

#: Share of the first slope that may be left.
CURVATURE = 0.9

MAX_TRIALS = 30


class Trial(NamedTuple):
    """A point on the line: step, value and slope there, and whatever else `evaluate` returned."""

    step: float
    value: float
    slope: float
    point: Any


def wolfe_search(
    evaluate: Callable[[float], Trial],
    value: float,
    slope: float,
    step: float,
    noise: float,
    must_end: Callable[[], Any] = lambda: None,
) -> Trial | None:
    """A step that meets the weak Wolfe conditions, by bracketing and safeguarded interpolation.

    `noise` is the rounding error of function values: differences below it do not decide, slopes then do. Returns the
    best decrease found, or None if there is none (the limit of this precision, or `must_end` said so).
    """
    low, high = 0.0, float("inf")
    low_value, low_slope = value, slope
    best: Trial | None = None
    for _ in range(MAX_TRIALS):
        trial = evaluate(step)
        is_low = trial.value <= value + DECREASE * step * slope + noise  # False for NaN and infinity too
        if is_low and (best is None or trial.value < best.value):
            best = trial
        if not is_low:
            high = step
            guess = _minimum_of_parabola(low, low_value, low_slope, step, trial.value)
            step = min(max(guess, low + 0.1 * (high - low)), low + 0.9 * (high - low))
        elif trial.slope < CURVATURE * slope:
            low, low_value, low_slope = step, trial.value, trial.slope
            step = 2.0 * step if high == float("inf") else 0.5 * (low + high)
        else:
            return trial
        if high - low <= 1e-12 * high or must_end():
            break
    return best if best is not None and best.value < value else None


def _minimum_of_parabola(at: float, value: float, slope: float, other: float, other_value: float) -> float:
    width = other - at
    bend = other_value - value - slope * width
    if not bend > 0.0 or bend == float("inf"):
        return at + 0.1 * width  # no parabola through an overflow
    return at - 0.5 * slope * width * width / bend
