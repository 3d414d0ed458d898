"""Line search for smooth functions by the weak Wolfe conditions: sufficient decrease and sufficient curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

#: Smallest decrease, relative to the one that the derivative at zero predicts.
DECREASE = 1e-4

#: Largest derivative at the end, relative to that at zero.
CURVATURE = 0.9

MAX_TRIALS = 30


class Trial(NamedTuple):
    """Point on the line: step size, value, derivative, and what else `evaluate` computed."""

    step: float
    value: float
    derivative: float
    point: Any


def wolfe_search(
    evaluate: Callable[[float], Trial],
    value: float,
    derivative: float,
    step: float,
    noise: float,
    must_end: Callable[[], Any] = lambda: None,
) -> Trial | None:
    """Find a step size that meets the weak Wolfe conditions, by bracketing and safeguarded interpolation.

    `noise` is the rounding error of function values: smaller differences are ignored, and derivatives decide. If the
    search fails (limited precision, or `must_end` is true), the best point with a lower value is returned, or None.
    """
    low, high = 0.0, float("inf")
    low_value, low_derivative = value, derivative
    best: Trial | None = None
    for _ in range(MAX_TRIALS):
        trial = evaluate(step)
        is_low = trial.value <= value + DECREASE * step * derivative + noise  # False for NaN and infinity too
        if is_low and (best is None or trial.value < best.value):
            best = trial
        if not is_low:
            high = step
            guess = _minimum_of_parabola(low, low_value, low_derivative, step, trial.value)
            step = min(max(guess, low + 0.1 * (high - low)), low + 0.9 * (high - low))
        elif trial.derivative < CURVATURE * derivative:
            low, low_value, low_derivative = step, trial.value, trial.derivative
            step = 2.0 * step if high == float("inf") else 0.5 * (low + high)
        else:
            return trial
        if high - low <= 1e-12 * high or must_end():
            break
    return best if best is not None and best.value < value else None


def _minimum_of_parabola(at: float, value: float, derivative: float, other: float, other_value: float) -> float:
    """Minimum of the parabola with this value and derivative at one point and this value at another."""
    width = other - at
    excess = other_value - value - derivative * width
    if not excess > 0.0 or excess == float("inf"):
        return at + 0.1 * width  # there is no such parabola
    return at - 0.5 * derivative * width * width / excess
