"""Hessians of samples of rows, one after the other: each sample says how the next one is best drawn.

Memory: n leverages as row state, and what `sampled_hessian.py` says.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.engine.state import RowState
from lineal.numerics.centred import Centred
from lineal.problem.loop_state import LoopState
from lineal.solvers.newton.row_sample import UNIFORM, CurvatureSums, DrawRows, LeveragePieces, Leverages
from lineal.solvers.newton.sample_size import wanted_rows
from lineal.solvers.newton.sampled_hessian import of_sample


class Sampler(LoopState):
    """Draws samples and computes their Hessians."""

    state_names = ("size", "draws", "sums")

    def __init__(self, centred: Centred, moment: np.ndarray, seed: int) -> None:
        """`moment` is Σ̂ of the centred rows."""
        self.centred, self.seed = centred, seed
        self.wanted = wanted_rows(centred.objective)
        self.is_exact = math.isinf(self.wanted)
        self.size, self.draws = self.wanted, 0
        self.sums: np.ndarray | None = None
        self.leverages = self._leverages(moment)

    @property
    def curvatures(self) -> np.ndarray | None:
        """Mean curvature of every column at the last sample; None before the first one."""
        return None if self.sums is None else self.sums[0]

    def _leverages(self, moment: np.ndarray) -> RowState:
        """Row state with the leverages of all rows."""
        engine, found = self.centred.objective.engine, Leverages.of(self.centred, moment, self.seed)
        if self.is_exact:  # not needed
            found = Leverages(found.matrix[:, :1] * 0.0, found.shift[:1] * 0.0)
        return engine.state(LeveragePieces(engine.dtype), *found)

    def hessians(self, scores: RowState) -> np.ndarray:
        """Hessians of the loss term at these scores, from a sample of rows or from all of them."""
        engine, loss = self.centred.objective.engine, self.centred.objective.loss
        states = (scores, self.leverages)
        means = None if self.centred.means is None else self.centred.means[:, 0]
        if not self.is_exact and self.sums is None:
            (self.sums,) = engine.sum(CurvatureSums(loss), states=states)
        step = DrawRows(loss, self.seed + self.draws, self.size)
        drawn = engine.gather(step, self._factors(), means, states=states)
        self.draws += 1
        if not self.is_exact:
            count = sum(len(part.X) for part in drawn)
            self.size = min(max(self.size * min(self.wanted / max(count, 1), 8.0), self.wanted), 1e6 * self.wanted)
            self.sums = np.sum([part.sums for part in drawn], axis=0)  # for the next sample
        for part in drawn:
            part.X[:, self.centred.constant] = 0.0
        return of_sample(drawn, engine.n_columns, loss.is_direct, engine.threads)

    def _factors(self) -> np.ndarray:
        """What the curvatures of each column count in the probabilities of rows."""
        k = self.centred.objective.engine.n_columns
        if self.sums is None:
            return np.zeros(k)
        totals, leverages = self.sums
        is_curved = totals > 0.0
        shares = np.divide(leverages, totals, out=np.zeros(k), where=is_curved)
        size = float(shares.sum()) or 1.0
        return np.divide((1.0 - UNIFORM) / size, totals, out=np.zeros(k), where=is_curved)
