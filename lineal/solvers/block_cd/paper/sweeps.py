"""The sweeps of Blondel, Seki & Uehara (2013), to compare with: over all blocks, without working sets.

A visit solves the quadratic model of one block, with H = L·I, by the prox of its penalty (their algorithm 2).

``cyclic``    blocks in order; L is the largest second derivative, and a search shortens the step until the objective
              falls by a share of what the model promised (Tseng & Yun 2009: σ = 0.01, ω = 0.5, ε = 1e-12)
``random``    blocks drawn with replacement; L is a bound, and no search is needed (Richtárik & Takáč 2014)
``parallel``  as many random blocks at once as cost no more than a factor of two in L (Richtárik & Takáč 2016); their
              steps are computed by threads from the same gradients, then all are taken

Either kind of step goes with cyclic and random blocks. With shrinking, blocks at zero that are far from leaving it are
left out until the others are done.
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
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.solvers.block_cd.block_rows import BlockRows
from lineal.solvers.block_cd.descent import balance
from lineal.solvers.block_cd.paper.visits import steps_of, sweep, take_steps
from lineal.solvers.options import BlockOptions

#: Certificates are one such part of the sweeps so far apart.
WAIT_SHARE = 4

#: Products of a batch of parallel visits from which on threads are worth their start; the parts it is then cut into.
WORTH_THREADS, PARTS = 1 << 15, 16


class PaperSweeps(BlockRows):
    """One sweep (as many visits as there are blocks) an iteration, and the violations that it met."""

    def __init__(
        self,
        objective: Objective,
        engine: LocalEngine,
        theta: np.ndarray,
        tol: float,
        threads: int,
        seed: int,
        options: BlockOptions,
    ) -> None:
        super().__init__(objective, engine, theta, tol, threads)
        self.method, self.rule, self.shrinking = options.method, options.rule, options.shrinking
        self.searches = options.searches
        k, loss = engine.n_columns, self.loss
        bound = loss.pairwise_lipschitz(k) if options.constant == "paper" else loss.lipschitz(k)
        self.curvatures = bound * self.squares
        self.draws = np.random.default_rng(seed)
        self.active = self.squares > 0.0
        self.was_whole = True  # whether the last sweep began with all blocks
        self.at_once = 1
        if self.method == "parallel":
            self.at_once = self._blocks_at_once()
        self.sweeps, self.waits = 0, CertificateWaits(1, WAIT_SHARE, first=1)
        self.sums, self.tops = math.inf, math.inf
        self.first: tuple[float, float] | None = None

    def _blocks_at_once(self) -> int:
        """Blocks whose steps may be added up if every L is multiplied by β = 1 + (ω − 1)(τ − 1)/(g − 1) ≤ 2.

        ω is the largest number of blocks that meet in a row, τ the number of blocks taken at once, of g in all. Empty
        blocks are never drawn, and do not count: the others would seem to meet less often than they do.
        """
        g = int(np.count_nonzero(self.active))
        meeting = g if self.X.is_dense else min(g, _longest_row(self.X.layout, len(self.Z)))
        if meeting <= 1 or g <= 1:
            return max(g, 1)
        taken = max(1, int(1 + (g - 1) / (meeting - 1)))
        self.curvatures = self.curvatures * (1.0 + (meeting - 1) * (taken - 1) / (g - 1))
        return taken

    def look(self) -> None:
        """Nothing: sweeps see the violations."""

    def estimate(self) -> float:
        """Violations of the last sweep, relative to those of the first: their sum or their largest."""
        if self.first is None:
            return math.inf
        found, first = (self.tops, self.first[1]) if self.rule == "max" else (self.sums, self.first[0])
        return found / first if first > 0.0 else 0.0

    def is_done(self) -> bool:
        """Whether the rule is met, or a certificate is due."""
        is_met = self.estimate() < self.tol or self.sums == 0.0
        if is_met and not self.was_whole:  # of the blocks that were not left out: now all have to say so
            self.active = self.squares > 0.0
            return False
        if self.rule != "gap":
            if is_met and self.method != "cyclic":
                self._look_at_all()
            return self.estimate() < self.tol or self.sums == 0.0
        return self.waits.is_due(self.sweeps)

    def _look_at_all(self) -> None:
        """Violations of all blocks: random draws leave some out, and these may be the ones that are not done."""
        violations = self.target.violation(np.ascontiguousarray(self.W), self.gradient())
        off_balance = self._off_balance()
        self.sums = float(violations.sum()) + off_balance
        self.tops = max(float(violations.max(initial=0.0)), off_balance)
        self.first = self.first if self.first is not None and self.first[0] > 0.0 else (self.sums, self.tops)

    def accepts(self, certificate: Certificate) -> bool:
        """Whether this is what was asked for: a gap or, by the paper's rules, small violations."""
        return certificate.meets(self.tol) if self.rule == "gap" else self.estimate() < self.tol

    def tighten(self) -> None:
        """Go on from exact scores."""
        self.refresh()

    def improve(self) -> None:
        """One sweep."""
        slack = self.tops if self.shrinking and math.isfinite(self.tops) else math.inf
        off_balance = self._off_balance()
        self.was_whole = bool(np.array_equal(self.active, self.squares > 0.0))
        if len(self.b):
            balance(self.loss, self.engine.targets, self.rows, self.b, self.bend)
        blocks = np.flatnonzero(self.active)
        if self.method != "cyclic":
            blocks = self.draws.choice(blocks, len(blocks)) if len(blocks) else blocks
        sums, tops = self._sweep(blocks, slack)
        self.sums, self.tops = sums + off_balance, max(tops, off_balance)
        self.sweeps += 1
        if self.first is None:
            self.first = (self.sums, self.tops)

    def _off_balance(self) -> float:
        """The intercept's violation; zero where rounding is all of it, which relative rules must not see."""
        found, noise = self.off_balance(), self.unit * float(np.finfo(self.R.dtype).eps)
        return found if found > noise * float(np.abs(self.R).sum(dtype=np.float64)) else 0.0

    def _sweep(self, blocks: np.ndarray, slack: float) -> tuple[float, float]:
        target = self.target
        what = (self.loss, target.penalty, self.X.layout, self.engine.targets, self.rows)
        how = (target.groups.offsets, target.groups.features, target.strengths)
        if self.method != "parallel":
            return sweep(*what, *how, blocks, self.curvatures, self.searches, slack, self.active, self.W)
        sums, tops = 0.0, 0.0
        for start in range(0, len(blocks), self.at_once):
            part = np.unique(blocks[start : start + self.at_once])
            steps = np.zeros((len(part), self._largest_block()), self.W.dtype)
            cuts = pool.ranges(len(part), self._parts(len(part)))
            found = pool.run(
                [partial(steps_of, *what, *how, part, self.curvatures, self.W, steps, *cut) for cut in cuts],
                self.threads,
            )
            sums, tops = sums + sum(f[0] for f in found), max(tops, *(f[1] for f in found))
            take_steps(*what, *how[:2], part, steps, self.W)
        return sums, tops

    def _parts(self, count: int) -> int:
        """Parts of a batch of so many groups: by its work alone, so that sums do not depend on the threads."""
        products = self.X.stored * self.W.shape[1] * count // max(len(self.squares), 1)
        return PARTS if products >= WORTH_THREADS else 1

    def _largest_block(self) -> int:
        offsets = self.target.groups.offsets
        widest = int(np.diff(offsets).max()) if self.target.groups.features.size else 1
        return widest * self.W.shape[1]


def _longest_row(layout: Any, n: int) -> int:
    """Entries of the row with the most of them: no more blocks can meet there."""
    counts = np.zeros(n, np.int64)
    _count_rows(layout, counts)
    return int(counts.max(initial=0))


@kernel
def _count_rows(layout, counts):
    for p in range(layout.indptr[0], layout.indptr[layout.indptr.shape[0] - 1]):
        counts[layout.indices[p]] += 1
