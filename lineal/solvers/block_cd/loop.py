"""The outer loop of block coordinate descent: improve, measure violations, and certify when it pays."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution

#: Iterations without progress after which a fit has stalled: only rounding errors are left.
PATIENCE = 5


class State(Protocol):
    """Parameters θ during a descent, changed in place, and what is known about their optimality."""

    by_columns: Objective
    theta: np.ndarray

    def objective(self) -> float:
        """Value of the objective."""
        ...

    def measure(self) -> None:
        """Measure how far the parameters are from optimal."""
        ...

    def estimate(self) -> float:
        """Estimate of the value of the certificate."""
        ...

    def is_done(self) -> bool:
        """Whether to compute the certificate now."""
        ...

    def certificate(self) -> Certificate:
        """Certificate of the parameters."""
        ...

    def accepts(self, certificate: Certificate) -> bool:
        """Whether the certificate is good enough to stop."""
        ...

    def tighten(self) -> None:
        """Require more of the next iterations, after a certificate that was not good enough."""
        ...

    def improve(self) -> None:
        """Do one iteration."""
        ...


def improve_until_done(state: State, monitor: Monitor) -> Solution:
    """Iterate until a certificate is accepted, the monitor stops the fit, or there is no progress."""
    split = state.by_columns.split
    value = state.objective()
    check_finite(value, "the objective at the starting point")
    state.measure()
    iteration, idle, best = 0, 0, state.estimate()
    status = monitor.record(0, value, state.estimate(), *split(state.theta))
    while True:
        if state.is_done() or status is not None:
            certificate = state.certificate()
            if state.accepts(certificate) or status is not None:
                break
            state.tighten()
        before = value
        state.improve()
        state.measure()
        iteration, value = iteration + 1, state.objective()
        status = monitor.record(iteration, value, state.estimate(), *split(state.theta))
        idle = 0 if value < before * (1.0 - 1e-14) or state.estimate() < 0.9 * best else idle + 1
        best = min(best, state.estimate())
        if idle >= PATIENCE:
            status = status or "stalled"
    return monitor.finish(*split(state.theta), certificate, status, is_met=state.accepts(certificate))
