"""Which iterate is the answer of a method whose objective need not fall at every step, and when it is good enough."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lineal.numerics.certificate_waits import CertificateWaits
from lineal.numerics.composite import Composite
from lineal.problem.monitor import Monitor
from lineal.problem.solution import Certificate, Solution

#: Iterations between certificates: so many at least, and a share of those that have been.
LEAST_WAIT, WAIT_SHARE = 4, 4

#: Iterations without a lower objective, at least and as a share of all, after which rounding must be the reason.
PATIENCE, PATIENCE_SHARE = 200, 2


class Descent(Protocol):
    """A method in the middle of its work: an iterate θ (see `Composite`) with x̄'W and its objective."""

    composite: Composite
    theta: np.ndarray
    shift: np.ndarray
    value: float

    def advance(self) -> bool:
        """One step; False where none can be had in this precision."""
        ...


def descend(descent: Descent, monitor: Monitor) -> Solution:
    """Steps until a certificate meets `tol`, the monitor ends them, or nothing is gained any more."""
    composite, best = descent.composite, Best(descent.composite, monitor.budget.tol)

    def record(iteration: int) -> str | None:
        best.offer(iteration, descent.theta, descent.value)
        W, b = composite.weights(descent.theta, descent.shift)
        return monitor.record(iteration, descent.value, best.estimate, W, b)

    iteration, status = 0, record(0)
    while not best.is_enough(iteration) and status is None:
        if best.is_stale(iteration) or not descent.advance():
            status = "stalled"
            break
        iteration += 1
        status = record(iteration)
    certificate = best.certificate()
    return monitor.finish(*composite.objective.split(best.answer()), certificate, status)


class LowerBound:
    """The highest bound that any certificate has given; it is true for every iterate."""

    def __init__(self) -> None:
        self.value = -math.inf

    def improve(self, found: Certificate) -> Certificate:
        """The certificate with the highest bound so far in place of its own."""
        dual = -math.inf if found.dual is None else found.dual
        if dual >= self.value:
            self.value = dual
            return found
        return Certificate.of_gap(found.primal, self.value)


class Best:
    """The best iterate so far, and certificates of it, seldom enough to cost little beside the iterations."""

    def __init__(self, composite: Composite, tol: float) -> None:
        self.composite, self.tol = composite, tol
        self.waits = CertificateWaits(LEAST_WAIT, WAIT_SHARE)
        self.estimate, self.value, self.checked, self.found_at = math.inf, math.inf, math.inf, 0
        self.bound, self.noise = LowerBound(), float(np.finfo(composite.engine.dtype).eps)
        self.theta: np.ndarray | None = None
        self.last: tuple[np.ndarray, Certificate] | None = None

    def offer(self, iteration: int, theta: np.ndarray, value: float) -> None:
        """Keep θ, which nobody may change afterwards, if it is the best so far.

        Of two that rounding cannot tell apart the later one is: gradients, and hence gaps, shrink for longer than
        objectives do.
        """
        if self.theta is None or value <= self.value + self.noise * abs(self.value):
            self.theta = theta
        if value < self.value:
            self.value, self.found_at = value, iteration

    def is_stale(self, iteration: int) -> bool:
        """Whether the objective has not fallen for so long that it will not."""
        return iteration - self.found_at > max(PATIENCE, iteration // PATIENCE_SHARE)

    def is_enough(self, iteration: int) -> bool:
        """Whether a certificate was due and meets tol. None is, while the objective still falls by more than tol."""
        if not self.waits.is_due(iteration):
            return False
        fall, self.checked = self.checked - self.value, self.value
        if iteration > 0 and fall > self.tol * self.value > 0.0:
            return False
        return self.certificate().meets(self.tol)

    def answer(self) -> np.ndarray:
        """W and b of the best iterate."""
        assert self.theta is not None
        return self.composite.outside(self.theta)

    def certificate(self) -> Certificate:
        """Of the best iterate; remembered, since the last one asked for is usually asked for again."""
        assert self.theta is not None
        if self.last is None or self.last[0] is not self.theta:
            objective = self.composite.objective
            found = objective.certificate(self.composite.outside(self.theta), self.tol)
            self.last = (self.theta, self.bound.improve(found))
            self.estimate = self.last[1].value
        return self.last[1]
