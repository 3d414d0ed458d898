"""The sweeps of Blondel, Seki & Uehara (2013), for comparisons: over all groups, without working sets.

A visit minimises the quadratic model of one group, with H = L·I, by the prox of its penalty (their algorithm 2).

``cyclic``    The groups in order. L is the largest second derivative, and a line search shortens the update until the
              objective decreases by a fraction of the predicted decrease (Tseng & Yun 2009: σ = 0.01, ω = 0.5,
              ε = 1e-12).
``random``    Groups drawn with replacement. L is an upper bound, so no line search is needed (Richtárik & Takáč 2014).
``parallel``  Many random groups at once: as many as are possible if L is at most doubled (Richtárik & Takáč 2016).
              Threads compute their updates from the same gradients, then all of them are applied.

Cyclic and random sweeps can use either way to choose step sizes. With shrinking, groups that are zero and will probably
stay zero are inactive until the others have converged.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.engine.local import LocalEngine
from lineal.numerics.certificate_waits import CertificateWaits
from lineal.problem.budget import Budget
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd.group_descent import update_intercept
from lineal.solvers.block_cd.group_state import GroupState
from lineal.solvers.block_cd.paper.group_updates import apply_updates, compute_updates, sweep
from lineal.solvers.options import BlockOptions

#: The number of sweeps up to the next certificate is the number of sweeps so far divided by this.
WAIT_DIVISOR = 4

#: Products per batch of parallel updates for which threads are worth their start, and parts of such a batch.
WORTH_THREADS, PARTS = 1 << 15, 16


class PaperSweeps(GroupState):
    """One sweep per iteration (as many visits as there are groups), and the violations that it observed."""

    state_names = (
        *GroupState.state_names, "random_state", "active", "all_were_active", "sweeps", "waits", "total", "largest",
        "first",
    )  # fmt: skip

    def __init__(
        self, objective: Objective, engine: LocalEngine, theta: np.ndarray, budget: Budget, options: BlockOptions
    ) -> None:
        k, loss = engine.n_columns, objective.loss
        bound = loss.pairwise_lipschitz(k) if options.constant == "paper" else loss.lipschitz(k)
        super().__init__(objective, engine, theta, budget.tol, budget.threads, bound)
        self.method, self.rule, self.shrinking = options.method, options.rule, options.shrinking
        self.searches = options.searches
        self.draws = np.random.default_rng(budget.seed)
        self.active = self.squares > 0.0
        self.all_were_active = True  # at the start of the last sweep
        self.at_once = self._groups_at_once() if self.method == "parallel" else 1
        self.sweeps, self.waits = 0, CertificateWaits(1, WAIT_DIVISOR, first=1)
        self.total, self.largest = math.inf, math.inf
        self.first: tuple[float, float] | None = None

    @property
    def random_state(self) -> dict[str, Any]:
        """State of the random numbers."""
        return dict(self.draws.bit_generator.state)

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "random_state":
            self.draws.bit_generator.state = value
        else:
            super().restore_part(name, value)

    def _groups_at_once(self) -> int:
        """Number τ of groups whose updates may be added; L is multiplied by β = 1 + (ω − 1)(τ − 1)/(g − 1) ≤ 2.

        ω is the largest number of groups with features in the same row, and g the number of groups. Empty groups are
        never drawn and are not counted: with them, the other groups would seem to meet less often than they do.
        """
        g = int(np.count_nonzero(self.active))
        meeting = g if self.X.is_dense else min(g, _longest_row(self.X.layout, len(self.Z)))
        if meeting <= 1 or g <= 1:
            return max(g, 1)
        at_once = max(1, int(1 + (g - 1) / (meeting - 1)))
        self.curvatures *= 1.0 + (meeting - 1) * (at_once - 1) / (g - 1)
        return at_once

    def measure(self) -> None:
        """Do nothing: sweeps observe the violations."""

    def estimate(self) -> float:
        """Violations of the last sweep, relative to those of the first: their sum or their largest."""
        if self.first is None:
            return math.inf
        last, first = (self.largest, self.first[1]) if self.rule == "max" else (self.total, self.first[0])
        return last / first if first > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether the stopping rule is met, or a certificate is due."""
        is_met = self.estimate() < self.tol or self.total == 0.0
        if is_met and not self.all_were_active:  # the rule must hold for all groups
            self.active = self.squares > 0.0
            return False
        if self.rule != "gap":
            if is_met and self.method != "cyclic":
                self._measure_all()
            return self.estimate() < self.tol or self.total == 0.0
        return self.waits.is_due(self.sweeps)

    def _measure_all(self) -> None:
        """Compute the violations of all groups: random sweeps miss some, and these may not have converged."""
        violations = self.target.violation(np.ascontiguousarray(self.W), self.gradient())
        of_intercept = self._intercept_violation()
        self.total = float(violations.sum()) + of_intercept
        self.largest = max(float(violations.max(initial=0.0)), of_intercept)
        self.first = self.first if self.first is not None and self.first[0] > 0.0 else (self.total, self.largest)

    def accepts(self, certificate: Certificate) -> bool:
        """Whether the certificate meets `tol` or, with the paper's rules, the violations are small."""
        return certificate.meets(self.tol) if self.rule == "gap" else self.estimate() < self.tol

    def tighten(self) -> None:
        """Continue from exact scores."""
        self.refresh()

    def improve(self) -> None:
        """Do one sweep."""
        slack = self.largest if self.shrinking and math.isfinite(self.largest) else math.inf
        of_intercept = self._intercept_violation()
        self.all_were_active = bool(np.array_equal(self.active, self.squares > 0.0))
        if len(self.b):
            update_intercept(self.loss, self.rows, self.parameters)
        order = np.flatnonzero(self.active)
        if self.method != "cyclic":
            order = self.draws.choice(order, len(order)) if len(order) else order
        total, largest = self._sweep(order, slack)
        self.total, self.largest = total + of_intercept, max(largest, of_intercept)
        self.sweeps += 1
        if self.first is None:
            self.first = (self.total, self.largest)

    def _intercept_violation(self) -> float:
        """Violation of the intercept; zero if it is only rounding, which relative rules must not see."""
        violation, noise = self.intercept_violation(), self.unit * float(np.finfo(self.R.dtype).eps)
        return violation if violation > noise * float(np.abs(self.R).sum(dtype=np.float64)) else 0.0

    def _sweep(self, order: np.ndarray, slack: float) -> tuple[float, float]:
        """Visit the groups in this order; returns the sum and the largest of their violations."""
        given = (self.problem(self.target), self.rows, self.parameters)
        if self.method != "parallel":
            return sweep(*given, order, self.searches, slack, self.active)
        total, largest = 0.0, 0.0
        for start in range(0, len(order), self.at_once):
            batch = np.unique(order[start : start + self.at_once])
            steps = np.zeros((len(batch), self._largest_group()), self.W.dtype)
            cuts = pool.ranges(len(batch), self._parts(len(batch)))
            tasks = [partial(compute_updates, *given, batch, steps, *cut) for cut in cuts]
            violations = pool.run(tasks, self.threads)
            total += sum(part[0] for part in violations)
            largest = max(largest, *(part[1] for part in violations))
            apply_updates(*given[:2], self.W, batch, steps)
        return total, largest

    def _parts(self, count: int) -> int:
        """Number of parts of a batch with `count` groups. It does not depend on the threads, so neither do sums."""
        products = self.X.stored * self.W.shape[1] * count // max(len(self.squares), 1)
        return PARTS if products >= WORTH_THREADS else 1

    def _largest_group(self) -> int:
        """Number of weights of the largest group."""
        offsets = self.target.groups.offsets
        widest = int(np.diff(offsets).max()) if self.target.groups.features.size else 1
        return widest * self.W.shape[1]


def _longest_row(layout: Any, n: int) -> int:
    """Largest number of entries per row: no more groups can have features in the same row."""
    counts = np.zeros(n, np.int64)
    _count_rows(layout, counts)
    return int(counts.max(initial=0))


@kernel
def _count_rows(layout, counts):
    """Add the number of entries per row to `counts`."""
    for p in range(layout.indptr[0], layout.indptr[layout.indptr.shape[0] - 1]):
        counts[layout.indices[p]] += 1
