"""Loop of methods whose objective can increase in some iterations: keep the best iterate, and decide when to stop."""

from __future__ import annotations

import abc
import math

import numpy as np

from lineal.numerics.certificate_waits import CertificateWaits
from lineal.numerics.composite import Composite
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.solution import Certificate, Solution

#: Iterations between two certificates: at least this many, and the number of iterations so far divided by this.
MIN_WAIT, WAIT_DIVISOR = 4, 4

#: Iterations without a lower objective after which the method has stalled: at least this many, and the number of
#: iterations so far divided by this.
PATIENCE, PATIENCE_DIVISOR = 200, 2


class Descent(LoopState, abc.ABC):
    """State of a running method: the iterate θ (see `Composite`), its shift x̄'W and its objective."""

    composite: Composite
    theta: np.ndarray
    shift: np.ndarray
    value: float

    @abc.abstractmethod
    def advance(self) -> bool:
        """Do one iteration; returns False if no progress is possible in this precision."""


def descend(descent: Descent, monitor: Monitor) -> Solution:
    """Iterate until a certificate meets `tol`, the monitor ends the loop, or the method stalls."""
    composite, best = descent.composite, Best(descent.composite, monitor.budget.tol)

    def record(iteration: int) -> str | None:
        best.offer(iteration, descent.theta, descent.value)
        W, b = composite.weights(descent.theta, descent.shift)
        return monitor.record(iteration, descent.value, best.estimate, W, b)

    iteration = monitor.resume(_Both(descent, best))
    status = record(iteration)
    while not best.is_enough(iteration) and status is None:
        if best.is_stale(iteration) or not descent.advance():
            status = "stalled"
            break
        iteration += 1
        status = record(iteration)
    certificate = best.certificate()
    return monitor.finish(*composite.objective.split(best.parameters()), certificate, status)


class _Both(LoopState):
    """State of the loop: that of the method, and the best iterate."""

    state_names = ("best", "descent")

    def __init__(self, descent: Descent, best: Best) -> None:
        self.descent, self.best = descent, best


class LowerBound(LoopState):
    """Largest lower bound of all certificates so far; it holds for every iterate."""

    state_names = ("value",)

    def __init__(self) -> None:
        self.value = -math.inf

    def improve(self, certificate: Certificate) -> Certificate:
        """Certificate with the largest lower bound so far in place of its own."""
        dual = -math.inf if certificate.dual is None else certificate.dual
        if dual >= self.value:
            self.value = dual
            return certificate
        return Certificate.of_gap(certificate.primal, self.value)


class Best(LoopState):
    """Best iterate so far, with certificates that are computed rarely enough to cost little."""

    state_names = ("waits", "estimate", "value", "checked", "best_at", "bound", "theta", "last")

    def __init__(self, composite: Composite, tol: float) -> None:
        self.composite, self.tol = composite, tol
        self.waits = CertificateWaits(MIN_WAIT, WAIT_DIVISOR)
        self.estimate, self.value, self.checked, self.best_at = math.inf, math.inf, math.inf, 0
        self.bound, self.noise = LowerBound(), float(np.finfo(composite.engine.dtype).eps)
        self.theta: np.ndarray | None = None
        self.last: tuple[np.ndarray, Certificate] | None = None

    def offer(self, iteration: int, theta: np.ndarray, value: float) -> None:
        """Keep θ, which must not be changed afterwards, if it is the best iterate so far.

        If rounding hides which of two iterates is better, the later one is kept, because gradients and gaps still
        decrease when the objective no longer does.
        """
        if self.theta is None or value <= self.value + self.noise * abs(self.value):
            self.theta = theta
        if value < self.value:
            self.value, self.best_at = value, iteration

    def is_stale(self, iteration: int) -> bool:
        """Whether the objective has not decreased for so long that the method has stalled."""
        return iteration - self.best_at > max(PATIENCE, iteration // PATIENCE_DIVISOR)

    def is_enough(self, iteration: int) -> bool:
        """Whether a certificate is due and meets tol. None is due while the objective decreases by more than tol."""
        if not self.waits.is_due(iteration):
            return False
        decrease, self.checked = self.checked - self.value, self.value
        if iteration > 0 and decrease > self.tol * self.value > 0.0:
            return False
        return self.certificate().meets(self.tol)

    def parameters(self) -> np.ndarray:
        """Parameters (W, b) of the best iterate."""
        assert self.theta is not None
        return self.composite.outside(self.theta)

    def certificate(self) -> Certificate:
        """Certificate of the best iterate; the last one is kept, because it is usually needed again."""
        assert self.theta is not None
        if self.last is None or self.last[0] is not self.theta:
            objective = self.composite.objective
            certificate = objective.certificate(self.composite.outside(self.theta), self.tol)
            self.last = (self.theta, self.bound.improve(certificate))
            self.estimate = self.last[1].value
        return self.last[1]
