"""L-BFGS for smooth losses with the l2 penalty: min_{W,b} F(W, b) by limited-memory quasi-Newton steps.

Nocedal (1980), with the two-loop recursion of Nocedal & Wright (2006), Algorithm 7.4, an initial Hessian from
`lineal/numerics/precondition.py`, and step sizes that meet the weak Wolfe conditions. With the l2 penalty every
gradient gives an estimate of the duality gap (`lineal/numerics/gap_estimate.py`), and the certificate is computed when
the estimate is small enough.

Memory: 2·MEMORY + 4 parameter arrays and two blocks of scores; with the Gram preconditioner also 2d² numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lineal.numerics.centred import Centred
from lineal.numerics.gap_estimate import GapEstimate
from lineal.numerics.precondition import Metric, metric
from lineal.numerics.smooth_only import check_smooth
from lineal.numerics.vectors import add_scaled, dot
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.lbfgs.line_search import Trial, wolfe_search

#: Number of pairs (update, gradient change) that are kept.
MEMORY = 10


def check(loss: Any, penalty: Any) -> None:
    """Raise an error that names a loss or a penalty that this solver cannot handle."""
    check_smooth("lbfgs", loss, penalty)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes that a fit needs besides X."""
    return (2 * MEMORY + 4) * d * k * size


@solver(check=check, memory=memory)
def solve(objective: Objective, budget: Budget, start: Start) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where α = 0)."""
    return descend(objective, budget, start, metric)


def descend(
    objective: Objective,
    budget: Budget,
    start: Start,
    metric: Callable[[Centred], Metric],
    improved: Callable[[np.ndarray, Monitor], np.ndarray] = lambda theta, monitor: theta,
) -> Solution:
    """L-BFGS with an initial Hessian that the function `metric` makes for the centred objective.

    The function `improved` may find better parameters than those of the start before the first iteration.
    """
    threads = budget.threads
    with Monitor(budget) as monitor:
        start = improved(objective.theta_of(start), monitor)
        centred = Centred(objective)
        theta = centred.inside(start)
        noise = 4.0 * float(np.finfo(theta.dtype).eps)
        run = _Run(centred, theta, metric, budget.tol)
        gap, pairs, H = run.gap, run.pairs, run.metric
        iteration = monitor.resume(run)

        def record(iteration: int) -> str | None:
            return monitor.record(iteration, run.value, run.estimate, *objective.split(centred.outside(run.theta)))

        status = record(iteration)
        while not gap.is_reached(run.theta, run.estimate) and status is None:
            gradient = run.gradient
            direction = _two_loops(gradient, pairs, H, threads)
            derivative = dot(direction, gradient, threads)
            if not derivative < 0.0:  # rounding has spoilt the kept pairs: drop them
                pairs.clear()
                direction = -H.solve(gradient)
                derivative = dot(direction, gradient, threads)
            must_end = partial(monitor.must_end, iteration)
            trial = _search(centred, run.theta, direction, run.value, derivative, noise, threads, must_end)
            if trial is None or (monitor.has_checkpoint and must_end()):  # the search may have been cut short
                status = must_end() or ("stalled" if not pairs else None)
                pairs.clear()
                continue
            _step, value, _, (theta_new, gradient_new) = trial
            _remember(pairs, H, theta_new - run.theta, gradient_new - gradient, threads)
            run.theta, run.value, run.gradient = theta_new, value, gradient_new
            iteration += 1
            status = record(iteration)
        if status == "slow":  # the next solver begins here, and proves its own answer
            certificate = Certificate("gap" if objective.has_gap else "violation", run.estimate, run.value)
        else:
            certificate = gap.certificate(run.theta)
    return monitor.finish(*objective.split(centred.outside(run.theta)), certificate, status)


class _Run(LoopState):
    """Parameters (W, b̃) with their objective and gradient, the kept pairs, and the initial Hessian."""

    state_names = ("theta", "value", "gradient", "pairs", "metric", "gap")

    def __init__(
        self, centred: Centred, theta: np.ndarray, metric: Callable[[Centred], Metric], tol: float
    ) -> None:  # fmt: skip
        self.theta = theta
        self.value, self.gradient = centred.value_and_gradient(theta)
        check_finite(self.value, "the objective at the starting point")
        self.metric, self.pairs = metric(centred), deque[tuple[np.ndarray, np.ndarray, float]](maxlen=MEMORY)
        self.gap = GapEstimate(centred, tol)

    @property
    def estimate(self) -> float:
        """Estimate of the relative gap."""
        return self.gap.estimate(self.value, self.gradient)

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; the loop refers to the pairs."""
        if name == "pairs":
            self.pairs.extend(value)
        else:
            super().restore_part(name, value)


def _two_loops(
    gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray, float]], H: Metric, threads: int
) -> np.ndarray:
    """Direction −H_t·gradient, where H_t is the approximation of the inverse Hessian by the kept pairs."""
    q = gradient.copy()
    factors = []
    for s, y, rho in reversed(pairs):
        a = rho * dot(s, q, threads)
        factors.append(a)
        add_scaled(q, -a, y, threads)
    q = H.solve(q)
    for (s, y, rho), a in zip(pairs, reversed(factors)):
        add_scaled(q, a - rho * dot(y, q, threads), s, threads)
    return np.negative(q, out=q)


def _search(
    centred: Centred,
    theta: np.ndarray,
    direction: np.ndarray,
    value: float,
    derivative: float,
    noise: float,
    threads: int,
    must_end: Callable[[], str | None],
) -> Trial | None:
    """Trial point along the direction that meets the weak Wolfe conditions; None if there is none."""

    def evaluate(step: float) -> Trial:
        point = theta.copy()
        add_scaled(point, step, direction, threads)
        trial_value, gradient = centred.value_and_gradient(point)
        if not math.isfinite(trial_value):
            return Trial(step, math.inf, math.inf, None)
        return Trial(step, trial_value, dot(gradient, direction, threads), (point, gradient))

    return wolfe_search(evaluate, value, derivative, 1.0, noise * abs(value), must_end)


def _remember(
    pairs: deque[tuple[np.ndarray, np.ndarray, float]], H: Metric, s: np.ndarray, y: np.ndarray, threads: int
) -> None:
    """Keep an update s with gradient change y, if the curvature along s is clearly positive."""
    curvature = dot(s, y, threads)
    if curvature > 1e-10 * math.sqrt(dot(s, s, threads) * dot(y, y, threads)):
        pairs.append((s, y, 1.0 / curvature))
        H.adapt(curvature, y)
