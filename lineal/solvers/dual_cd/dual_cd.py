"""Dual coordinate descent for the l2 penalty: max_u D(u) one example at a time, all its classes at once.

Hsieh, Chang, Lin, Keerthi & Sundararajan (2008) for the hinge losses, Yu, Huang & Lin (2011) for logistic regression;
Keerthi et al.'s sequential dual method (2008) for Crammer–Singer, and the same idea for softmax. With

    W = V − (1/α) Σ_i s_i x_i u_i'

kept up to date, the best dual variables of one row cost one product with W and one update of it. Rows come in random
order, in blocks of neighbours that share cache lines; rows whose variables are stuck at their bounds are left out
(shrinking) until everything else has converged. One-vs-rest columns are independent: groups of them run on their own
threads, each with its own W.

A free intercept constrains the dual: Σ_i s_i u_i = 0, which steps in single rows cannot keep. The method of multipliers
can: a penalty ½β‖Σ s u‖² on the constraint acts as a constant feature, b −= β·s_i·δ at every step, and after every
pass its multiplier moves, b −= β Σ s u. Rows are seen from their mean x̄, lest W do the intercept's work: that changes
W by x̄M' with M = (1/α) Σ s u, zero at the solution, and is kept apart so that sparse rows stay sparse.

Memory: (n, k) dual variables and 5n numbers (21n for Crammer–Singer with many classes), d·k weights twice while they
are joined (up to thrice where a group of 9 to 15 columns takes 16), and a copy of X where its rows cannot be read in
order (CSC, Fortran order) or its columns have different penalty factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.errors import OptionError
from lineal.numerics.local_only import local_rows
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.dual_cd.ascent import Ascent
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES
from lineal.solvers.options import DualOptions

#: Passes without any gain after which rounding is to blame.
PATIENCE = 3


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    if loss.dual_curvature is None:
        raise OptionError(f"dual_cd does not know the dual steps of loss {loss.name!r}: use lbfgs or newton")
    if not penalty.is_smooth:
        raise OptionError(f"dual_cd needs penalty 'l2', not {penalty.name!r}")


def check_objective(objective: Objective) -> None:
    """Refuse rows that are held elsewhere, and weights without a penalty: the dual has no bound in their direction."""
    local_rows("dual_cd", objective)
    if not np.all(objective.regulariser.strengths > 0.0):
        other = "lbfgs or newton" if objective.loss.is_smooth else "fobos"
        raise OptionError(f"dual_cd needs a penalty on every weight, alpha and all factors > 0: use {other}")


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X."""
    return (n * k + 3 * d * k + 5 * n) * size + 4 * (1 + KEPT_CLASSES) * n


@solver(check=check, check_objective=check_objective, memory=memory, order="rows", options=DualOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: DualOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is a pass over the rows.

    The objective costs half a pass, so `history` has it (instead of None) where the gap was checked and, if there are
    callbacks to see it, at every pass.
    """
    with Monitor(budget) as monitor:
        ascent = Ascent(objective, start, budget.threads, budget.seed, options.shrinking)
        gap = _Gap(objective, budget.tol)

        def record(iteration: int) -> str | None:
            if not budget.callbacks:
                return monitor.count(iteration, gap.estimate(ascent))
            theta = ascent.theta()
            return monitor.record(iteration, objective.value(theta), gap.estimate(ascent), *objective.split(theta))

        iteration, status = 0, record(0)
        while not gap.is_reached(ascent, monitor.history[-1]) and status is None:
            if gap.is_stuck(ascent):
                status = "stalled"
                break
            ascent.run_pass()
            iteration += 1
            status = record(iteration)
        theta, certificate = gap.last(ascent)
    return monitor.finish(*objective.split(theta), certificate, status, dual_point=ascent.U)


class _Gap:
    """Decides when the certificate is worth its price, and keeps the last one.

    The gain of a pass is free, and the gap follows it: in proportion for smooth losses, like its square root for the
    others. Each certificate tells the constant, hence when to try the next.
    """

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.power = 1.0 if objective.loss.is_smooth else 0.5
        self.ratio = 1.5 if objective.loss.is_smooth else 0.25
        self.failed: tuple[float, float] | None = None
        self.idle = 0
        self.found: tuple[int, np.ndarray, Certificate] | None = None

    def estimate(self, ascent: Ascent) -> float:
        """Relative gap, as far as the last pass and the last certificate tell."""
        return self.ratio * ascent.relative_gain**self.power

    def is_reached(self, ascent: Ascent, row: dict[str, float]) -> bool:
        """Whether the certificate, computed only when the estimate meets tol, does too; it is noted in the history."""
        if ascent.passes == 0 and not ascent.U.any():  # a warm start may be good enough, a cold one is not
            return False
        if ascent.passes > 0 and self.estimate(ascent) > self.tol:
            return False
        certificate = self.last(ascent)[1]
        row.update(objective=certificate.primal, gap=certificate.value)
        if certificate.meets(self.tol):
            return True
        if ascent.passes > 0:
            self._learn(certificate.value, ascent)
        return False

    def _learn(self, gap: float, ascent: Ascent) -> None:
        """What a gap that is too large tells: when to look again, and whether rows that were left out are missed."""
        gain, expected = ascent.relative_gain, self.estimate(ascent)
        before, self.failed = self.failed, (gap, gain)
        is_missed = gap > 10.0 * expected
        if before is not None and before[1] > 0.0:
            is_missed |= gap > before[0] * (gain / before[1]) ** (0.5 * self.power)
        if is_missed and ascent.reactivate():
            return  # the next passes gain more again
        if gain > 0.0:
            self.ratio = 1.2 * gap / gain**self.power

    def is_stuck(self, ascent: Ascent) -> bool:
        """Whether passes gain nothing but rounding."""
        eps = float(np.finfo(ascent.U.dtype).eps)
        if ascent.gain > eps**2 * ascent.gained or ascent.imbalance > eps:  # b moves while Σ s u is not zero
            self.idle = 0
        else:
            self.idle += 1
        if self.idle > PATIENCE and ascent.reactivate():
            self.idle = 0
        return self.idle > PATIENCE

    def last(self, ascent: Ascent) -> tuple[np.ndarray, Certificate]:
        """θ and its certificate."""
        if self.found is None or self.found[0] != ascent.passes:
            theta = ascent.theta()
            self.found = (ascent.passes, theta, ascent.by_rows.certificate(theta, self.tol, ascent.U))
        return self.found[1:]
