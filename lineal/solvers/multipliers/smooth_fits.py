"""Method of multipliers for any number of features: the smooth problems go to the solver that is the fastest for them.

That is `block_cd` for penalties that set weights to zero, otherwise `newton` or `lbfgs`. A smooth problem is solved
only a little better than what is already known about the answer, from the last parameters.

Memory: that of the solver, and 3·n·k numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal import penalties, solvers
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem import row_sums
from lineal.problem.budget import Budget
from lineal.problem.certificate import reference_violation
from lineal.problem.loop_state import LoopState
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate

#: A smooth problem is solved to this fraction of the last gap, but not below this fraction of the gap that is wanted.
INNER_FRACTION, LEAST_FRACTION = 0.1, 0.2

#: Largest number of iterations of the solver of a smooth problem, before the dual variables change again.
INNER_ITER = 100

#: Share of the largest curvature of a one-vs-rest loss beyond its kink. To a gap of 1e-3, the fits of 20newsgroups with
#: l1 took 6 s with 0.01, 8 s with 0.03, 11 s with 0.1, 22 s with 0.3, and made no progress with 0.
SHARE = 0.01

#: Statuses of a fit that was cut short.
CUT = ("interrupted", "max_time")


class SmoothFits(LoopState):
    """Fits of smoothed losses; what they change is all in their results."""

    def __init__(self, objective: Objective, engine: LocalEngine, budget: Budget, smoothed: Callable[..., Any]) -> None:
        self.objective, self.engine, self.budget, self.smoothed = objective, engine, budget, smoothed
        self.reference = 0.0 if objective.has_gap else reference_violation(objective)

    def improve(
        self, theta: np.ndarray, dual: np.ndarray, width: float, known: Certificate, seconds: float | None
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Solve the smooth problem around dual variables; returns new parameters and dual variables, and the status.

        `known` is the certificate of the best parameters so far, and `seconds` is the time that is left.
        """
        problem = self._problem(dual, width)
        tol = self._tolerance(problem, theta, known)
        found = solvers.pick("auto", problem, tol)(
            problem, start=theta, tol=tol, max_iter=INNER_ITER, max_time=seconds, n_jobs=self.budget.threads,
            seed=self.budget.seed,
        )  # fmt: skip
        theta = problem.theta_of(found)
        W, b = self.objective.split(theta.astype(np.float64))
        parts = problem.engine.gather(_Gradients(problem.loss), W, b)
        return theta, np.concatenate(parts), found.status

    def _problem(self, dual: np.ndarray, width: float) -> Objective:
        """The smooth problem around dual variables."""
        offsets = (width * dual).astype(self.engine.dtype)
        if self.engine.offsets is not None:
            offsets += self.engine.offsets
        loss = self.smoothed(width, SHARE)
        problem = self.objective.with_loss(loss, replace(self.engine, offsets=offsets))
        if problem.regulariser.strengths.any():
            return problem
        nothing = Regulariser(penalties.get("l2"), 0.0, self.engine.shape[1])  # no penalty is a smooth one, too
        return replace(problem, regulariser=nothing)

    def _tolerance(self, problem: Objective, theta: np.ndarray, known: Certificate) -> float:
        """Tolerance for the smooth problem: a fraction of the last gap or violation, in units of this problem."""
        tol = max(INNER_FRACTION * min(known.value, 1.0), LEAST_FRACTION * self.budget.tol)
        if known.kind == "violation":
            reference = reference_violation(problem)
            return tol * self.reference / reference if reference > 0.0 and self.reference > 0.0 else tol
        value = problem.value(theta, np.float64)
        return min(tol * known.primal / value, 0.5) if value > 0.0 and math.isfinite(value) else tol


@dataclass(frozen=True)
class _Gradients:
    """Step for `Engine.gather`: the gradients of a smoothed loss at the scores of all rows."""

    loss: Any

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        Z = row_sums.scores(block, W, b)
        U = np.empty_like(Z)
        row_sums.gradients(self.loss, block, np.ones(block.n), Z, U)
        return U
