"""The outer loop of block coordinate descent: improve, measure violations, and certify when it pays."""

from __future__ import annotations

import abc

import numpy as np

from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Certificate, Solution

#: Iterations without progress after which a fit has stalled: only rounding errors are left.
PATIENCE = 5


class State(LoopState, abc.ABC):
    """Parameters θ during a descent, changed in place, and what is known about their optimality."""

    by_columns: Objective
    theta: np.ndarray

    @abc.abstractmethod
    def objective(self) -> float:
        """Value of the objective."""

    @abc.abstractmethod
    def measure(self) -> None:
        """Measure how far the parameters are from optimal."""

    @abc.abstractmethod
    def estimate(self) -> float:
        """Estimate of the value of the certificate."""

    @abc.abstractmethod
    def is_done(self) -> bool:
        """Whether to compute the certificate now."""

    @abc.abstractmethod
    def certificate(self) -> Certificate:
        """Certificate of the parameters."""

    @abc.abstractmethod
    def accepts(self, certificate: Certificate) -> bool:
        """Whether the certificate is good enough to stop."""

    @abc.abstractmethod
    def tighten(self) -> None:
        """Require more of the next iterations, after a certificate that was not good enough."""

    @abc.abstractmethod
    def improve(self) -> None:
        """Do one iteration."""


def improve_until_done(state: State, monitor: Monitor) -> Solution:
    """Iterate until a certificate is accepted, the monitor stops the fit, or there is no progress."""
    split = state.by_columns.split
    check_finite(state.objective(), "the objective at the starting point")
    state.measure()
    progress = _Progress(state)
    iteration = monitor.resume(progress)
    status = monitor.record(iteration, progress.value, state.estimate(), *split(state.theta))
    while True:
        if progress.idle >= PATIENCE:
            status = status or "stalled"
        if state.is_done() or status is not None:
            certificate = state.certificate()
            if state.accepts(certificate) or status is not None:
                break
            state.tighten()
        state.improve()
        state.measure()
        iteration += 1
        progress.note()
        status = monitor.record(iteration, progress.value, state.estimate(), *split(state.theta))
    return monitor.finish(*split(state.theta), certificate, status, is_met=state.accepts(certificate))


class _Progress(LoopState):
    """State of the loop: that of the descent, its objective, and for how many iterations nothing has improved."""

    state_names = ("state", "value", "best", "idle")

    def __init__(self, state: State) -> None:
        self.state, self.value, self.best, self.idle = state, state.objective(), state.estimate(), 0

    def note(self) -> None:
        """Note what an iteration has improved."""
        before, self.value, estimate = self.value, self.state.objective(), self.state.estimate()
        is_better = self.value < before * (1.0 - 1e-14) or estimate < 0.9 * self.best
        self.idle, self.best = 0 if is_better else self.idle + 1, min(self.best, estimate)
