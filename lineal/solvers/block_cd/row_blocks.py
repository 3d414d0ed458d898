"""Working sets of blocks (rows of W, or groups of rows): which to visit, and when to end.

A look at all blocks costs one product with X: gradients, violations of the penalty's optimality conditions, and the
next working set (`working_set.py`). Between two looks the blocks that are not zero move together
(`support_newton.py`), then those of the set one by one (`block_descent.py`). From zero weights the penalty starts
strong and is weakened from look to look, so that few blocks enter at a time. Blocks that a certificate proves to be
zero (`screening.py`) are not chosen any more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lineal.design.columns import take_columns
from lineal.design.matrix import Design
from lineal.design.orders import by_rows
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd import working_set
from lineal.solvers.block_cd.block_rows import BlockRows
from lineal.solvers.block_cd.descent import descend
from lineal.solvers.block_cd.gram_newton import GramNewton, is_worthwhile
from lineal.solvers.block_cd.screening import safe_zeros
from lineal.solvers.block_cd.support_newton import SupportNewton

#: A working set is left when its largest violation is this share of the largest of all blocks.
SET_SHARE = 0.2

#: Share of the entries of X that a working set may always gain, and growth of the entries of one that is larger.
LEAST, GROWTH = 0.1, 1.0

#: Newton steps, and sweeps over the working set, between two looks.
STEPS, SWEEPS = 2, 4

#: Share by which the penalty is weakened from one iteration to the next, from a start at zero.
STAGE = 0.3

#: Share of the strength at which all weights are zero below which the penalty is not weakened in stages any more.
WEAKEST = 1e-6

#: Bytes of the features in use that are copied for Newton's method, at most, or share of the bytes of X.
COPIED_BYTES, COPIED_SHARE = 256 << 20, 0.25


class RowBlocks(BlockRows):
    """What is known of the optimality of every block, and the working set of the most promising ones."""

    def __init__(self, objective: Objective, engine: LocalEngine, theta: np.ndarray, tol: float, threads: int) -> None:
        super().__init__(objective, engine, theta, tol, threads)
        n, k = self.Z.shape
        sizes = np.full(self.X.shape[1], n) if self.X.is_dense else np.diff(self.X.layout.indptr)
        self.entries = sizes.astype(np.int64)
        self.sizes = self.target.by_group(self.entries)
        self.least = int(LEAST * self.sizes.sum())
        self.curvatures = self.loss.typical_curvature(k) * self.squares
        self.is_zero = np.zeros(self.target.n_groups, bool)  # proven
        self.largest, self.first = 0.0, 0.0
        self.found: tuple[float, Certificate] | None = None
        self.copied: tuple[np.ndarray, Design] | None = None  # features that were last stepped on, by rows
        self.regulariser = self.target
        if len(self.b):  # zero weights are judged by their best intercept
            self._descend(np.empty(0, np.int64), 1e-10 * self.unit, 50)
        if not self.target.penalty.is_smooth and not self.W.any():
            strongest = self.target.critical_alpha(self.gradient())
            self.weakest = max(self.target.alpha, WEAKEST * strongest)
            self._weaken(strongest)

    def _weaken(self, alpha: float) -> None:
        """Go on with a share of this strength, or with the target where that is about as strong."""
        alpha *= STAGE
        self.regulariser = self.target.with_alpha(alpha) if alpha > self.weakest else self.target

    def look(self) -> None:
        """Violations of all blocks, and the next working set."""
        W = np.ascontiguousarray(self.W)
        violations = self.regulariser.violation(W, self.gradient())
        is_free = ~self.regulariser.zero_groups(W) | (self.regulariser.strengths == 0.0)
        violations[self.is_zero & ~is_free] = 0.0
        largest = float(violations.max(initial=0.0))
        self.largest = max(largest, self.off_balance())
        self.first = max(self.first, self.largest)
        self.chosen = working_set.choose(violations, is_free, largest, self.sizes, self.least, GROWTH)

    def estimate(self) -> float:
        """Relative gap, if violations tell; the last certificate says how much they mean."""
        if self.found is not None:
            violation, certificate = self.found
            return certificate.value * self.largest / violation if violation > 0.0 else certificate.value
        return self.largest / max(self.first, self.target.alpha) if self.largest > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether the certificate is worth computing."""
        return self.regulariser is self.target and (self.estimate() <= self.tol or self.largest == 0.0)

    def accepts(self, certificate: Certificate) -> bool:
        """Whether this is what was asked for."""
        return certificate.meets(self.tol)

    def tighten(self) -> None:
        """The certificate was not as good as the estimate: go on from exact scores, without what is surely zero."""
        self.is_zero |= safe_zeros(self.by_columns, self.theta)
        self.refresh()
        self.look()

    def certificate(self) -> Certificate:
        """Of θ."""
        certificate = super().certificate()
        self.found = (self.largest, certificate)
        return certificate

    def improve(self) -> None:
        """Steps on the working set by its small Hessian; else Newton on what is not zero, then sweeps over the set."""
        if not self._proximal_newton():
            if self.regulariser.penalty.has_curvature:
                self._newton()
            self._descend(self.chosen, SET_SHARE * self.largest, SWEEPS)
        if self.regulariser is not self.target:
            self._weaken(self.regulariser.alpha)

    def _proximal_newton(self) -> bool:
        """Whether the working set is one whose Hessian is worth its price."""
        is_chosen = np.zeros(self.target.n_groups, bool)
        is_chosen[self.chosen] = True
        features = np.flatnonzero(self.target.features_of(is_chosen))
        entries = int(self.entries[features].sum())
        if not is_worthwhile(self.by_columns, len(features), entries) or not self._can_copy(entries):
            return False
        is_last = self.regulariser is self.target  # else the penalty is about to be weakened
        newton = GramNewton(*self._part(features))
        self.theta[newton.chosen] = newton.run(STEPS if is_last else 1, SET_SHARE)
        self.expand()
        return True

    def _newton(self) -> None:
        W = np.ascontiguousarray(self.W)
        features = np.flatnonzero(self.regulariser.nonzero_features(W))
        if not len(features) or not self._can_copy(int(self.entries[features].sum())):
            return
        newton = SupportNewton(*self._part(features))
        self.theta[newton.chosen] = newton.run(STEPS, 0.1 * SET_SHARE * self.largest)
        self.expand()

    def _part(self, features: np.ndarray) -> tuple[Any, ...]:
        """What Newton steps on some features need to know; the last of them are kept by rows."""
        if self.copied is None or not np.array_equal(self.copied[0], features):
            self.copied = None  # not two at a time
            self.copied = features, by_rows(take_columns(self.X, features), self.threads)
        objective = replace(self.by_columns, regulariser=self.regulariser)
        return objective, features, self.copied[1], self.theta, self.Z, self.R, self.threads

    def _can_copy(self, entries: int) -> bool:
        """Whether so many entries of X are few enough to be stored twice."""
        share = entries / max(self.X.stored, 1)
        bytes_ = 2 * self.X.dtype.itemsize * entries
        return bytes_ <= COPIED_BYTES or share <= COPIED_SHARE

    def _descend(self, chosen: np.ndarray, goal: float, sweeps: int) -> None:
        regulariser: Regulariser = self.regulariser
        descend(
            self.loss, regulariser.penalty, self.X.layout, self.engine.targets, self.rows, regulariser.groups.offsets,
            regulariser.groups.features, regulariser.strengths, chosen, self.curvatures, self.W, self.b, self.bend,
            self.unit, goal, sweeps,
        )  # fmt: skip
