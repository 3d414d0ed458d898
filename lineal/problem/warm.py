"""A tiny problem like a given one, on which the processes that hold rows load their kernels before the first pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lineal.design import wrap
from lineal.engine.base import Block, Engine
from lineal.problem import steps
from lineal.problem.labels import LabelColumns
from lineal.problem.row_sums import curvatures
from lineal.problem.targets import LabelSets, OneLabel


@dataclass(frozen=True)
class WarmUp:
    """Runs the steps of a fit on two rows: those of gradients, curvatures and certificates."""

    loss: Any
    n_columns: int
    is_multilabel: bool
    is_dense: bool
    dtype: np.dtype[Any]

    @staticmethod
    def of(engine: Engine, loss: Any, columns: LabelColumns) -> WarmUp:
        """The tiny problem for a loss on rows like those of an engine."""
        return WarmUp(loss, columns.n_columns, columns.is_multilabel, engine.is_dense, engine.dtype)

    def __call__(self) -> None:
        """Run the steps, and forget what comes out."""
        block, k = self._block(), self.n_columns
        W, b = np.zeros((2, k), self.dtype), np.zeros(k, self.dtype)
        steps.moments(block)
        steps.mean_square(block)
        steps.LabelWeights(k)(block)
        steps.LossValue(self.loss)(block, W, b)
        steps.LossGradient(self.loss, True)(block, W, b)
        scores = steps.Scores(np.float64)(block, W, b)
        steps.GradientDual(self.loss)(block, scores, np.zeros(k), self.loss.identity_repair(k), 1.0)
        if self.loss.is_smooth:
            Z = steps.Scores()(block, W, b)["Z"]
            curvatures(self.loss, block, Z, np.ones_like(Z))

    def _block(self) -> Block:
        X = np.array([[1.0, 0.0], [0.0, 1.0]], self.dtype)
        columns = np.array([0, -1 if self.n_columns == 1 else self.n_columns - 1], np.int32)
        targets: Any = OneLabel(columns)
        if self.is_multilabel:
            targets = LabelSets(np.zeros(1, np.int32), np.array([0, 1, 1], np.int64))
        return Block(wrap(X if self.is_dense else sparse.csr_array(X)), targets, np.full(2, 0.5), None, 1)
