"""The outer loop of block coordinate descent: improve, look at the violations, certify when that looks worthwhile."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution

#: Iterations without any progress after which rounding is to blame.
PATIENCE = 5


class State(Protocol):
    """Parameters θ of an objective in the middle of a descent, changed in place."""

    by_columns: Objective
    theta: np.ndarray

    def objective(self) -> float:
        """Value of the objective."""
        ...

    def look(self) -> None:
        """See how far the parameters are from optimal."""
        ...

    def estimate(self) -> float:
        """What the certificate is likely to say."""
        ...

    def is_done(self) -> bool:
        """Whether a certificate is worth its price."""
        ...

    def certificate(self) -> Certificate:
        """Certificate of the parameters."""
        ...

    def accepts(self, certificate: Certificate) -> bool:
        """Whether this is what was asked for."""
        ...

    def tighten(self) -> None:
        """Ask more of the next iterations, after a certificate that was not good enough."""
        ...

    def improve(self) -> None:
        """One iteration."""
        ...


def improve_until_done(state: State, monitor: Monitor) -> Solution:
    """Iterations until a certificate is accepted, the monitor ends them, or nothing is gained any more."""
    split = state.by_columns.split
    value = state.objective()
    check_finite(value, "the objective at the starting point")
    state.look()
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
        state.look()
        iteration, value = iteration + 1, state.objective()
        status = monitor.record(iteration, value, state.estimate(), *split(state.theta))
        idle = 0 if value < before * (1.0 - 1e-14) or state.estimate() < 0.9 * best else idle + 1
        best = min(best, state.estimate())
        if idle >= PATIENCE:
            status = status or "stalled"
    return monitor.finish(*split(state.theta), certificate, status, is_met=state.accepts(certificate))
