"""The best iterate of a fit whose rows are on other machines: what is left of the fit if these never answer."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from lineal.errors import Unanswered
from lineal.problem.solution import Certificate, Solution


class Kept:
    """A copy of the best iterate so far. Memory: that of the parameters.

    Attributes
    ----------
    is_filled : whether there has been an iterate.
    """

    def __init__(self, max_time: float | None) -> None:
        self.is_filled = False
        self._status, self._history = "max_time", list[dict[str, Any]]()
        self._end = math.inf if max_time is None else time.perf_counter() + max_time
        self._value, self._parameters = math.nan, (np.empty((0, 0)), np.empty(0))

    def offer(self, weights: np.ndarray, intercept: np.ndarray, value: float = math.nan) -> None:
        """Keep an iterate if it is the best one, or the latest one where objectives are not known (NaN)."""
        if value > self._value or not (np.isfinite(weights).all() and np.isfinite(intercept).all()):
            return
        self._value, self._parameters = value, (np.array(weights), np.array(intercept))
        self.is_filled = True

    def note(self, history: list[dict[str, Any]], interrupted_at: float) -> None:
        """Take note of how the loop went that has just ended, and when it was interrupted, or infinity."""
        self._history, self._end = history, min(self._end, interrupted_at)
        self._status = "interrupted" if interrupted_at < math.inf else "max_time"

    def overdue(self) -> float:
        """Seconds since the fit should have ended (see `lineal.engine.overdue`)."""
        return max(0.0, time.perf_counter() - self._end) if self.is_filled else 0.0

    def solution(self, error: Unanswered) -> Solution:
        """The iterate as the solution of a fit that was given up; nothing is known about how good it is."""
        certificate = Certificate("gap", 1.0, self._value)
        how = {"interrupted": "interrupted", "max_time": "stopped by max_time"}[self._status]
        message = f"{how}: {error}; this is the best model so far: {certificate}"
        return Solution(*self._parameters, certificate, self._history, self._status, message, is_answered=False)
