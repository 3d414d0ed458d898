"""SpaRSA: proximal gradient steps whose length follows the curvature that the last step saw.

    θ_{t+1} = prox_{αΩ/L}(θ_t − ∇f(θ_t)/L),   L = s'y/s's of the last step s and change of gradient y

Wright, Nowak & Figueiredo (2009). The objective may rise now and then: a step is taken when it ends sufficiently below
the largest of the last few objectives, else L is doubled.

Memory: six θ.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.objective import Objective, check_finite
from lineal.solution import Solution
from lineal.solvers.parts.composite import Composite, GapSchedule
from lineal.solvers.parts.monitor import Callback, Monitor, explain
from lineal.solvers.parts.smooth_only import check_smooth_loss
from lineal.solvers.parts.vectors import dot

#: Objectives that a new one is compared with.
REMEMBERED = 5

#: Share of ½L‖step‖² by which it must be lower.
DECREASE = 0.01

#: How far L may be from the first guess, as a factor.
CURVATURE_RANGE = 1e12


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("sparsa", loss)


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
) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`.

    Draws no random numbers: `seed` changes nothing. The objective need not fall at every iteration; the answer is the
    best iterate.
    """
    check(objective.loss, objective.regulariser.penalty)
    with Monitor(max_iter, max_time, callbacks) as monitor:
        descent = _Descent(objective, start, pool.thread_count(n_jobs))
        gap = GapSchedule(descent.composite, tol)

        def record(iteration: int) -> str | None:
            outside = descent.composite.outside(descent.theta)
            return monitor.record(iteration, descent.value, gap.estimate, *objective.split(outside))

        iteration, status = 0, record(0)
        while not gap.is_reached(iteration, descent.best) and status is None:
            if not descent.advance():
                status = "stalled"
                break
            iteration += 1
            status = record(iteration)
        certificate = gap.certificate(descent.best)
    status = "converged" if certificate.meets(tol) else status or "stalled"
    monitor.history[-1].update(objective=certificate.primal, gap=certificate.value)
    W, b = objective.split(descent.composite.outside(descent.best))
    return Solution(W, b, certificate, monitor.history, status, explain(status, certificate, tol, max_iter))


class _Descent:
    """The iterate θ with its objective and gradient, the best one so far, and the curvature L."""

    def __init__(self, objective: Objective, start: np.ndarray | Solution | None, threads: int) -> None:
        self.composite, self.threads = Composite(objective, threads), threads
        self.theta = self.composite.inside(objective.theta_of(start))
        loss, self.gradient = self.composite.loss_and_gradient(self.theta)
        self.value = loss + self.composite.penalty(self.theta)
        check_finite(self.value, "the objective at the starting point")
        self.best, self.lowest = self.theta, self.value
        self.recent = deque([self.value], maxlen=REMEMBERED)
        self.noise = 4.0 * float(np.finfo(self.theta.dtype).eps)
        self.curvature = first = self.composite.least_curvature()
        self.bounds = (first / CURVATURE_RANGE, first * CURVATURE_RANGE)

    def advance(self) -> bool:
        """One step; False where none can be had in this precision."""
        while True:
            found = self.composite.step(self.theta, self.gradient, self.curvature)
            move = found - self.theta
            square = dot(move, move, self.threads)
            if square == 0.0:
                return False
            loss, gradient = self.composite.loss_and_gradient(found)
            value = loss + self.composite.penalty(found)
            enough = max(self.recent) - 0.5 * DECREASE * self.curvature * square
            if value <= enough + self.noise * abs(self.value):
                break
            self.curvature *= 2.0
            if not self.curvature <= self.bounds[1]:
                return False
        seen = dot(move, gradient - self.gradient, self.threads) / square
        self.curvature = min(max(seen, self.bounds[0]), self.bounds[1]) if math.isfinite(seen) else self.bounds[1]
        self.theta, self.gradient, self.value = found, gradient, value
        self.recent.append(value)
        if value < self.lowest:
            self.best, self.lowest = found, value
        return True
