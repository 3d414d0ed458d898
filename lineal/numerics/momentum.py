"""Nesterov's (1983) momentum, restarted where it points uphill (O'Donoghue & Candès 2015)."""

from __future__ import annotations

import math

from lineal.problem.loop_state import LoopState


class Momentum(LoopState):
    """The sequence t_1 = 1, t_{i+1} = ½ + √(¼ + t_i²), and how far to extrapolate along each update."""

    state_names = ("t",)

    def __init__(self) -> None:
        self.t = 1.0

    def following(self, is_uphill: bool) -> float:
        """Factor (t_i − 1)/t_{i+1} of the last update by which to extrapolate; zero after a restart."""
        before = 1.0 if is_uphill else self.t
        self.t = 0.5 + math.sqrt(0.25 + before * before)
        return (before - 1.0) / self.t
