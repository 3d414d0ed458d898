"""Dual coordinate descent for the l2 penalty: maximises D(u) over the dual variables of one row at a time.

Hsieh, Chang, Lin, Keerthi & Sundararajan (2008) for the hinge losses, Yu, Huang & Lin (2011) for logistic regression;
Keerthi et al.'s sequential dual method (2008) for Crammer–Singer, and the same idea for softmax. With

    W = V − (1/α) Σ_i s_i x_i u_i'

kept up to date, the best dual variables of one row cost one product with W and one update of it. Rows are visited in
random order, in runs of neighbours that share cache lines. Rows whose variables stay at their bounds are inactive
(shrinking) until everything else has converged. One-vs-rest columns are independent: groups of columns run on their own
threads, each with its own W.

A free intercept constrains the dual: Σ_i s_i u_i = 0, and updates of single rows violate this. The method of
multipliers handles it: a penalty ½β‖Σ s u‖² on the constraint acts as a constant feature, b −= β·s_i·δ at every update,
and after every pass its multiplier is updated, b −= β Σ s u. The mean x̄ is subtracted from the rows, so that W does not
have to replace the intercept. That changes W by x̄M' with M = (1/α) Σ s u, which is zero at the solution. M is stored
separately, so that sparse rows stay sparse.

**Rows in files** that are larger than memory: block minimisation (Yu, Hsieh, Chang & Lin 2012, Algorithm 2). In each
iteration every row is loaded once, in blocks, and `inner_passes` passes over the dual variables of a block, which skip
rows at their bounds, are made before the next one is loaded. W stays up to date. Each visit begins with all rows of the
block. After an inner pass the multiplier of the constraint is updated, too, by the fraction that the weight of the
block has in that of all rows. Unlike in the paper, blocks are not fixed: a block has runs of rows from random places of
the file, others in every iteration. Fixed blocks of consecutive rows pull W towards what is common in each of them, and
the gap then decreases ten times more slowly.

Memory: (n, k) dual variables and 5n numbers (21n for Crammer–Singer with many classes), d·k weights twice while groups
are joined (up to three times if a group of 9 to 15 columns is stored as 16), and a copy of X if it is stored by columns
(CSC, Fortran order) or its columns have different penalty factors. For rows in files, n is the number of rows of one
block; the dual variables of other blocks are in memory as far as the budget allows, and in a temporary file beyond it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.engine.local import LocalEngine
from lineal.engine.streamed import Streamed
from lineal.errors import OptionError
from lineal.numerics.local_only import local_rows
from lineal.problem.budget import Budget
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.dual_cd.ascent import Ascent
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES
from lineal.solvers.options import DualOptions

#: Passes without gain after which a fit has stalled: only rounding errors are left.
PATIENCE = 3

#: Default number of passes over a block of a file before the next one is loaded. To a gap of 1e-3, 20newsgroups and
#: wiki_toxicity in 8 blocks need up to 40 % fewer passes over the file than with one, and hardly more than with 5.
INNER_PASSES = 3

#: Number of passes after which the gap is computed for the first time if another solver may take over, and for one
#: score column of a loss whose dual updates take several Newton steps, where a pass costs more. The gap is computed
#: again whenever the passes have doubled: that costs about as much as two passes without shrinking.
FIRST_LOOK, FIRST_LOOK_DEAR = 40, 10

#: Factor of the first estimate of the gap with several inner passes, of which the first one gains most, for smooth
#: losses. Data differ by a factor of 60, and a certificate that comes too early costs less than an iteration.
INNER_RATIO = 0.13


def check(loss: Any, penalty: Any) -> None:
    """Raise an error for a loss without dual updates, and for a penalty other than l2."""
    if loss.dual_curvature is None:
        raise OptionError(f"dual_cd does not know the dual updates of loss {loss.name!r}: use lbfgs or newton")
    if not penalty.is_smooth:
        raise OptionError(f"dual_cd needs penalty 'l2', not {penalty.name!r}")


def check_objective(objective: Objective) -> None:
    """Raise an error for rows in another process, and for weights without a penalty, which make the dual infinite."""
    if not isinstance(objective.engine, Streamed):
        local_rows("dual_cd", objective)
    if not np.all(objective.regulariser.strengths > 0.0):
        other = "lbfgs or newton" if objective.loss.is_smooth else "multipliers"
        raise OptionError(f"dual_cd needs a penalty on every weight, alpha and all factors > 0: use {other}")


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X."""
    return (n * k + 3 * d * k + 5 * n) * size + 4 * (1 + KEPT_CLASSES) * n


@solver(
    check=check, check_objective=check_objective, memory=memory, order="rows", options=DualOptions,
    varies_with_threads=True,
)  # fmt: skip
def solve(objective: Objective, budget: Budget, start: Start, options: DualOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is a pass over the rows.

    The objective costs half a pass. So `history` has it (instead of None) only when the gap was checked or, if there
    are callbacks, after every pass.
    """
    inner_passes = _inner_passes(objective, options)
    with Monitor(budget) as monitor:
        ascent = Ascent(objective, start, budget.threads, budget.seed, options.shrinking, inner_passes)
        gap = _Gap(objective, budget.tol, inner_passes, budget.is_slow is not None)
        iteration = monitor.resume(_Run(ascent, gap))

        def record(iteration: int) -> str | None:
            if not budget.callbacks:
                status = monitor.count(iteration, gap.estimate(ascent))
            else:
                theta = ascent.theta()
                value = objective.value(theta)
                status = monitor.record(iteration, value, gap.estimate(ascent), *objective.split(theta))
            monitor.history[-1]["work"] = ascent.work
            return status

        status = record(iteration)
        while not gap.is_reached(ascent, monitor.history[-1]) and status is None:
            if gap.is_stuck(ascent):
                status = "stalled"
                break
            # With a checkpoint, an iteration is always a whole one: the fit may continue with more time.
            ascent.run_pass(lambda: not monitor.has_checkpoint and monitor.must_end(-1) is not None)
            iteration += 1
            status = record(iteration)
        theta, certificate = gap.last(ascent)
    return monitor.finish(*objective.split(theta), certificate, status, dual_point=ascent.holder.U)


def _inner_passes(objective: Objective, options: DualOptions) -> int:
    """Number of passes over a set of rows before the next one."""
    if isinstance(objective.engine, LocalEngine):
        if options.inner_passes is not None:
            raise OptionError(
                f"inner_passes={options.inner_passes!r} is for rows in files, and these are in memory, where every "
                "pass is over all rows: leave it out"
            )
        return 1
    return INNER_PASSES if options.inner_passes is None else options.inner_passes


def first_look(is_dear: bool) -> int:
    """Number of passes before the first look; `is_dear` says whether updates take several Newton steps."""
    return FIRST_LOOK_DEAR if is_dear else FIRST_LOOK


def is_dear(loss: Any, n_columns: int) -> bool:
    """Whether a visit of a row costs much more than its product with W: exponentials of single numbers."""
    return bool(loss.name == "logistic" and n_columns == 1)


def is_watched_pass(passes: int, first: int) -> bool:
    """Whether the gap is computed after this pass, to see whether another solver should take over."""
    looks, rest = divmod(passes, first)
    return rest == 0 and looks > 0 and looks & (looks - 1) == 0


class _Run(LoopState):
    """State of the loop."""

    state_names = ("ascent", "gap")

    def __init__(self, ascent: Ascent, gap: _Gap) -> None:
        self.ascent, self.gap = ascent, gap


class _Gap(LoopState):
    """Decides when to compute the certificate, and keeps the last one.

    The gain of a pass costs nothing. The gap is roughly proportional to it for smooth losses, and to its square root
    for the others. Each certificate gives the constant, and so an estimate of when the next one will meet `tol`.
    """

    state_names = ("ratio", "failed", "idle")

    def __init__(self, objective: Objective, tol: float, inner_passes: int, is_watched: bool) -> None:
        self.objective, self.tol, self.is_watched = objective, tol, is_watched
        self.first_look = first_look(is_dear(objective.loss, objective.engine.n_columns))
        self.power = 1.0 if objective.loss.is_smooth else 0.5
        self.ratio = 1.5 if objective.loss.is_smooth else 0.25
        if objective.loss.is_smooth and inner_passes > 1:
            self.ratio *= INNER_RATIO
        self.failed: tuple[float, float] | None = None
        self.idle = 0
        self.latest: tuple[int, np.ndarray, Certificate] | None = None

    def estimate(self, ascent: Ascent) -> float:
        """Estimate of the relative gap from the last pass and the last certificate."""
        return self.ratio * ascent.relative_gain**self.power

    def is_reached(self, ascent: Ascent, row: dict[str, float]) -> bool:
        """Whether the certificate meets `tol`; it is computed only if the estimate does, and added to the history."""
        if ascent.passes == 0 and not ascent.holder.U.any():  # only a warm start can be good enough
            return False
        is_early = ascent.passes > 0 and self.estimate(ascent) > self.tol
        if is_early and not (self.is_watched and is_watched_pass(ascent.passes, self.first_look)):
            return False
        certificate = self.last(ascent)[1]
        row.update(objective=certificate.primal, gap=certificate.value)
        if certificate.meets(self.tol):
            return True
        if is_early:
            self.ratio = certificate.value / max(ascent.relative_gain**self.power, 1e-300)
        elif ascent.passes > 0:
            self._learn(certificate.value, ascent)
        return False

    def _learn(self, gap: float, ascent: Ascent) -> None:
        """Correct the estimate after a gap that is too large, or activate all rows if that is probably the reason."""
        gain, expected = ascent.relative_gain, self.estimate(ascent)
        before, self.failed = self.failed, (gap, gain)
        needs_all_rows = gap > 10.0 * expected
        if before is not None and before[1] > 0.0:
            needs_all_rows |= gap > before[0] * (gain / before[1]) ** (0.5 * self.power)
        if needs_all_rows and ascent.reactivate():
            return  # the next passes will gain more
        if gain > 0.0:
            self.ratio = 1.2 * gap / gain**self.power

    def is_stuck(self, ascent: Ascent) -> bool:
        """Whether the last passes gained only rounding errors."""
        eps = float(np.finfo(ascent.holder.U.dtype).eps)
        if ascent.gain > eps**2 * ascent.gained or ascent.imbalance > eps:  # b changes while Σ s u is not zero
            self.idle = 0
        else:
            self.idle += 1
        if self.idle > PATIENCE and ascent.reactivate():
            self.idle = 0
        return self.idle > PATIENCE

    def last(self, ascent: Ascent) -> tuple[np.ndarray, Certificate]:
        """Parameters θ after the last pass, and their certificate."""
        if self.latest is None or self.latest[0] != ascent.passes:
            theta = ascent.theta()
            self.latest = (ascent.passes, theta, ascent.holder.objective.certificate(theta, self.tol, ascent.holder.U))
        return self.latest[1:]
