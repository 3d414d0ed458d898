"""Softmax stages: generalised least squares (Algorithm 1, accelerated) on the labels, with running scores as offsets.

The rows of the objective are the features of the stage, so that an iteration is one pass over the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal import penalties
from lineal.design import wrap
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece, States
from lineal.engine.tree import Summands, add_along_tree
from lineal.numerics.centred import Centred
from lineal.numerics.factorisation import Factor
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.solvers.least_squares import Descent
from lineal.solvers.stagewise.features import StageFeatures, rows_of
from lineal.solvers.stagewise.residual_fit import moments_of


def fit_labels(
    engine: Engine,
    states: States,
    features: StageFeatures,
    loss: Any,
    alpha: float,
    inner_iter: int,
    must_end: Callable[[], bool],
) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and intercept of a stage; None where the fit must end before its last iteration."""
    moments, _, _ = moments_of(engine, states, features, "softmax")
    width, k, dtype = features.width, engine.n_columns, features.dtype
    regulariser = Regulariser(penalties.get("l2"), alpha, width)
    sums: Any = FeatureEngine(engine, features, states)
    objective = Objective(sums, loss, regulariser)
    assert moments.means is not None
    centred = Centred(objective, (moments.means[:, None], moments.constant))
    square = np.zeros((width + 1, width + 1))
    square[:width, :width] = moments.square
    square[width, width] = 1.0
    ridge = np.append(np.full(width, alpha), 0.0)
    factor = Factor(square, ridge, loss.lipschitz(k), float(np.finfo(dtype).eps))
    descent = Descent(centred, np.zeros((width + 1, k), dtype), is_accelerated=True, threads=engine.threads)
    for iteration in range(inner_iter):
        if iteration:
            descent.evaluate()
        if must_end():
            return None
        descent.advance(factor)
    return objective.split(centred.outside(descent.reached))


@dataclass(frozen=True)
class FeatureEngine:
    """The rows of another engine by the features of a stage; running scores are the offsets.

    Steps see a chunk of rows at a time. Chunks have no row state, so this is the part of `Engine` that sums alone:
    Algorithm 1 needs no more.
    """

    engine: Engine
    features: StageFeatures
    states: States
    is_dense = True

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.engine.shape[0], self.features.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self.features.dtype

    @property
    def n_columns(self) -> int:
        """k, the number of score columns."""
        return self.engine.n_columns

    @property
    def threads(self) -> int:
        """Threads for work that is not over rows."""
        return self.engine.threads

    @property
    def stored(self) -> int:
        """Number of features of all rows."""
        return math.prod(self.shape)

    def with_threads(self, threads: int) -> FeatureEngine:
        """The same features, with this many threads per block."""
        return FeatureEngine(self.engine.with_threads(threads), self.features, self.states)

    def with_weights(self, weights: np.ndarray) -> FeatureEngine:
        """The same features of rows with other weights."""
        return FeatureEngine(self.engine.with_weights(weights), self.features, self.states)

    def sum(self, step: Any, *arguments: Any, rows: int = 1) -> Summands:
        """Sum of step(chunk, *arguments) over all chunks of all blocks."""
        return self.engine.sum(OnFeatures(step), self.features, *arguments, states=self.states)


@dataclass(frozen=True)
class OnFeatures:
    """A step over the features of a block's rows, chunk by chunk, with running scores as offsets."""

    step: Any

    def __call__(
        self, block: Block, running: Piece, seen: Piece, kept: Piece, features: StageFeatures, *arguments: Any
    ) -> Summands:
        chunks = (
            Block(
                wrap(F), block.targets.rows(part.start, part.stop), block.weights[part], running["P"][part],
                block.threads, block.first + part.start,
            )
            for part, F in features.chunks(rows_of(block, seen), kept)
        )  # fmt: skip
        if block.n:
            return add_along_tree(self.step(chunk, *arguments) for chunk in chunks)
        none = np.empty((0, features.width), features.dtype)
        return self.step(Block(wrap(none), block.targets, block.weights, running["P"], block.threads), *arguments)
