"""Block coordinate descent on groups of weights (rows of W, or rows of several features) with working sets.

To measure all groups takes one product with X: it gives gradients, violations of the optimality conditions, and the
next working set (`working_set.py`). An iteration then does Newton steps on the groups that are not zero
(`support_newton.py`), and updates the groups of the working set one by one (`group_descent.py`). From zero weights, the
penalty starts strong and becomes weaker with each iteration, so that only few groups become non-zero at a time. Groups
that a certificate proves to be zero (`screening.py`) are never chosen again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lineal.design.matrix import Design
from lineal.design.orders import by_rows, take_columns
from lineal.engine.local import LocalEngine
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd import working_set
from lineal.solvers.block_cd.gram_newton import GramNewton, is_worthwhile
from lineal.solvers.block_cd.group_descent import descend
from lineal.solvers.block_cd.group_state import GroupState
from lineal.solvers.block_cd.screening import safe_zeros
from lineal.solvers.block_cd.support_newton import SupportNewton

#: A working set has converged when its largest violation is this fraction of the largest of all groups.
SET_FRACTION = 0.2

#: Fraction of the entries of X that a working set may always add, and relative growth of a larger working set.
LEAST, GROWTH = 0.1, 1.0

#: Newton steps, and sweeps over the working set, per iteration.
MAX_STEPS, MAX_SWEEPS = 2, 4

#: Factor of the strength of the penalty from one iteration to the next, from a start at zero.
WEAKENING = 0.3

#: The penalty is not weakened gradually below this fraction of the smallest strength at which all weights are zero.
WEAKEST = 1e-6

#: The features in use are copied for Newton steps if they have at most so many bytes, or this fraction of X.
COPIED_BYTES, COPIED_FRACTION = 256 << 20, 0.25


class WeightGroups(GroupState):
    """Parameters, what is known about the optimality of every group, and the current working set."""

    state_names = (
        *GroupState.state_names, "is_zero", "largest", "first", "last", "chosen", "weakest", "weakened_alpha",
    )  # fmt: skip

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        typical_curvature = objective.loss.typical_curvature(engine.n_columns)
        super().__init__(objective, engine, theta, tol, threads, typical_curvature)
        n = len(self.Z)
        sizes = np.full(self.X.shape[1], n) if self.X.is_dense else np.diff(self.X.layout.indptr)
        self.entries = sizes.astype(np.int64)
        self.sizes = self.target.by_group(self.entries)
        self.least = int(LEAST * self.sizes.sum())
        self.is_zero = np.zeros(self.target.n_groups, bool)  # proven by screening
        self.largest, self.first = 0.0, 0.0
        self.last: tuple[float, Certificate] | None = None  # largest violation and certificate
        self.copied: tuple[np.ndarray, Design] | None = None  # features of the last Newton step, by rows
        self.regulariser, self.weakest = self.target, self.target.alpha
        self.chosen = np.empty(0, np.int64)
        if len(self.b):  # the violations of zero weights depend on the intercept
            self._descend(np.empty(0, np.int64), 1e-10 * self.unit, 50)
        if not self.target.penalty.is_smooth and not self.W.any():
            strongest = self.target.critical_alpha(self.gradient())
            self.weakest = max(self.target.alpha, WEAKEST * strongest)
            self._weaken(strongest)

    @property
    def weakened_alpha(self) -> float | None:
        """Strength of the penalty while it becomes weaker; None for the given one."""
        return None if self.regulariser is self.target else self.regulariser.alpha

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "weakened_alpha":
            self.regulariser = self.target if value is None else self.target.with_alpha(value)
        else:
            super().restore_part(name, value)

    def _weaken(self, alpha: float) -> None:
        """Continue with a fraction of this strength, or with the given penalty if that is not weaker."""
        alpha *= WEAKENING
        self.regulariser = self.target.with_alpha(alpha) if alpha > self.weakest else self.target

    def measure(self) -> None:
        """Compute the violations of all groups, and the working set of the next iteration."""
        W = np.ascontiguousarray(self.W)
        violations = self.regulariser.violation(W, self.gradient())
        is_free = ~self.regulariser.zero_groups(W) | (self.regulariser.strengths == 0.0)
        violations[self.is_zero & ~is_free] = 0.0
        largest = float(violations.max(initial=0.0))
        self.largest = max(largest, self.intercept_violation())
        self.first = max(self.first, self.largest)
        self.chosen = working_set.choose(violations, is_free, largest, self.sizes, self.least, GROWTH)

    def estimate(self) -> float:
        """Estimate of the relative gap: proportional to the largest violation, as in the last certificate."""
        if self.last is not None:
            violation, certificate = self.last
            return certificate.value * self.largest / violation if violation > 0.0 else certificate.value
        return self.largest / max(self.first, self.target.alpha) if self.largest > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether to compute the certificate: the penalty is the given one, and the estimate meets `tol`."""
        return self.regulariser is self.target and (self.estimate() <= self.tol or self.largest == 0.0)

    def accepts(self, certificate: Certificate) -> bool:
        """Whether the certificate meets `tol`."""
        return certificate.meets(self.tol)

    def tighten(self) -> None:
        """Screen groups and continue from exact scores, since the certificate was worse than the estimate."""
        self.is_zero |= safe_zeros(self.by_columns, self.theta)
        self.refresh()
        self.measure()

    def certificate(self) -> Certificate:
        """Certificate of θ; the next estimates are relative to it."""
        certificate = super().certificate()
        self.last = (self.largest, certificate)
        return certificate

    def improve(self) -> None:
        """Do Newton steps on a working set with a small Hessian; else on the non-zero groups, and sweep the set."""
        if not self._proximal_newton():
            if self.regulariser.penalty.has_curvature:
                self._newton()
            self._descend(self.chosen, SET_FRACTION * self.largest, MAX_SWEEPS)
        if self.regulariser is not self.target:
            self._weaken(self.regulariser.alpha)

    def _proximal_newton(self) -> bool:
        """Do proximal Newton steps on the working set, if its Hessian is cheap; returns whether it is."""
        is_chosen = np.zeros(self.target.n_groups, bool)
        is_chosen[self.chosen] = True
        features = np.flatnonzero(self.target.features_of(is_chosen))
        entries = int(self.entries[features].sum())
        if not is_worthwhile(self.by_columns, len(features), entries) or not self._can_copy(entries):
            return False
        is_last = self.regulariser is self.target  # otherwise the penalty becomes weaker after this step
        newton = GramNewton(*self._part(features))
        self.theta[newton.chosen] = newton.run(MAX_STEPS if is_last else 1, SET_FRACTION)
        self.expand()
        return True

    def _newton(self) -> None:
        """Do Newton steps on the groups that are not zero."""
        W = np.ascontiguousarray(self.W)
        features = np.flatnonzero(self.regulariser.nonzero_features(W))
        if not len(features) or not self._can_copy(int(self.entries[features].sum())):
            return
        newton = SupportNewton(*self._part(features))
        self.theta[newton.chosen] = newton.run(MAX_STEPS, 0.1 * SET_FRACTION * self.largest)
        self.expand()

    def _part(self, features: np.ndarray) -> tuple[Any, ...]:
        """Arguments of `ChosenFeatures`; a copy by rows of the features is kept until others are chosen."""
        if self.copied is None or not np.array_equal(self.copied[0], features):
            self.copied = None  # free its memory before the next copy
            self.copied = features, by_rows(take_columns(self.X, features), self.threads)
        objective = replace(self.by_columns, regulariser=self.regulariser)
        return objective, features, self.copied[1], self.theta, self.Z, self.R, self.threads

    def _can_copy(self, entries: int) -> bool:
        """Whether a copy of so many entries of X is small enough."""
        fraction = entries / max(self.X.stored, 1)
        bytes_ = 2 * self.X.dtype.itemsize * entries
        return bytes_ <= COPIED_BYTES or fraction <= COPIED_FRACTION

    def _descend(self, chosen: np.ndarray, goal: float, max_sweeps: int) -> None:
        """Sweep over the chosen groups."""
        problem = self.problem(self.regulariser)
        descend(problem, self.rows, self.parameters, chosen, self.unit, goal, max_sweeps)
