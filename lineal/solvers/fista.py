"""FISTA: accelerated proximal gradient steps, for every smooth loss with every penalty.

    θ_{t+1} = prox_{αΩ/L}(y_t − ∇f(y_t)/L),   y_{t+1} = θ_{t+1} + β_t(θ_{t+1} − θ_t)

Beck & Teboulle (2009). L is found by a search (step="line_search"): doubled until f lies below its quadratic model at
y_t; or it is a bound that always holds (step="constant"). Momentum starts anew when it points uphill (O'Donoghue &
Candès 2015), and the search may then find a smaller L.

Memory: six θ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.errors import OptionError, unknown_value
from lineal.objective import Objective, check_finite
from lineal.solution import Solution
from lineal.solvers.parts.composite import Composite, GapSchedule
from lineal.solvers.parts.monitor import Callback, Monitor, explain
from lineal.solvers.parts.smooth_only import check_smooth_loss
from lineal.solvers.parts.vectors import dot

STEPS = ("line_search", "constant")

#: Constants of a constant step: the spectrum of X, or the paper's trace.
CONSTANTS = ("spectral", "trace")


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("fista", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return 6 * d * k * size


def solve(
    objective: Objective,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    start: np.ndarray | Solution | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    step: str = "line_search",
    constant: str = "spectral",
) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`.

    Draws no random numbers: `seed` changes nothing. With a constant step the objective costs half an iteration, so
    `history` has it (instead of NaN) only if there are callbacks to see it.
    """
    check(objective.loss, objective.regulariser.penalty)
    if step not in STEPS:
        raise unknown_value("step", step, list(STEPS))
    if constant not in CONSTANTS:
        raise unknown_value("constant", constant, list(CONSTANTS))
    if step == "line_search" and constant != "spectral":
        raise OptionError("constant has no meaning with step='line_search': use step='constant'")
    callbacks = tuple(callbacks)
    with Monitor(max_iter, max_time, callbacks) as monitor:
        descent = _Descent(objective, start, pool.thread_count(n_jobs), step, constant)
        gap = GapSchedule(descent.composite, tol)

        def record(iteration: int) -> str | None:
            value = descent.value if not callbacks or math.isfinite(descent.value) else descent.evaluate()
            if not math.isfinite(value):
                return monitor.count(iteration, gap.estimate)
            outside = descent.composite.outside(descent.theta)
            return monitor.record(iteration, value, gap.estimate, *objective.split(outside))

        iteration, status = 0, record(0)
        while not gap.is_reached(iteration, descent.theta) and status is None:
            if not descent.advance():
                status = "stalled"
                break
            iteration += 1
            status = record(iteration)
        certificate = gap.certificate(descent.theta)
    status = "converged" if certificate.meets(tol) else status or "stalled"
    monitor.history[-1].update(objective=certificate.primal, gap=certificate.value)
    W, b = objective.split(descent.composite.outside(descent.theta))
    return Solution(W, b, certificate, monitor.history, status, explain(status, certificate, tol, max_iter))


class _Descent:
    """The iterate θ, the point y from which it moves, and the curvature L."""

    def __init__(
        self, objective: Objective, start: np.ndarray | Solution | None, threads: int, step: str, constant: str
    ) -> None:
        self.composite, self.threads, self.searches = Composite(objective, threads), threads, step == "line_search"
        self.theta = self.composite.inside(objective.theta_of(start))
        self.y, self.momentum = self.theta, 1.0
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        if self.searches:
            self.curvature = self.composite.least_curvature()
        else:
            self.curvature = (
                self.composite.spectral_curvature() if constant == "spectral" else self.composite.trace_curvature()
            )
        self.value = self.evaluate()
        check_finite(self.value, "the objective at the starting point")

    def evaluate(self) -> float:
        """F(θ)."""
        return self.composite.loss(self.theta) + self.composite.penalty(self.theta)

    def advance(self) -> bool:
        """One step; False where none can be had in this precision."""
        loss, gradient = self.composite.loss_and_gradient(self.y)
        check_finite(loss, "the objective")
        found, there = self.composite.step(self.y, gradient, self.curvature), math.nan
        while self.searches:
            move = found - self.y
            there = self.composite.loss(found)
            square = dot(move, move, self.threads)
            model = loss + dot(gradient, move, self.threads) + 0.5 * self.curvature * square
            if there <= model + self.noise * abs(loss) or square == 0.0:
                break
            self.curvature *= 2.0
            if not math.isfinite(self.curvature):
                return False
            found = self.composite.step(self.y, gradient, self.curvature)
        self.value = there + self.composite.penalty(found) if self.searches else math.nan
        self._extrapolate(found)
        return True

    def _extrapolate(self, found: np.ndarray) -> None:
        change = found - self.theta
        if dot(self.y - found, change, self.threads) > 0.0:  # the momentum leads uphill
            self.momentum = 1.0
            if self.searches:
                self.curvature *= 0.5
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.momentum**2))
        share = found.dtype.type((self.momentum - 1.0) / following)
        self.y = found + share * change if share > 0.0 else found
        self.theta, self.momentum = found, following
