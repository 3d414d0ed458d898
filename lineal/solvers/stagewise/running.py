"""Running predictions (or raw scores) of all rows: row state that every stage moves, and that all stages rebuild."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.features.rows import correlations, matrix_of
from lineal.numerics.basis import POLYNOMIAL, expand, functions
from lineal.numerics.label_residuals import labels_of, residuals, squared_error
from lineal.numerics.links import sigmoid, softmax
from lineal.problem import row_sums
from lineal.solvers.stagewise.features import Stage, StageFeatures, maker_of, rows_of, through

#: Functions of the running predictions among the features of calibrated stages.
POWERS = functions(POLYNOMIAL)

#: Predictions are clipped to these bounds before powers are taken: else those of new rows would grow at every stage.
LOWEST, HIGHEST = -1.0, 2.0


def add_stage(running: np.ndarray, F: np.ndarray, stage_weights: np.ndarray, b: np.ndarray, update: str) -> None:
    """Move the running predictions of some rows by a stage, whose features are F."""
    step = F @ stage_weights[: F.shape[1]]
    if update == "calibrated":
        step += powers_of(running) @ stage_weights[F.shape[1] :]
    running += step
    running += b


def powers_of(running: np.ndarray) -> np.ndarray:
    """y, y² and y³ of the running predictions, which are clipped first."""
    return expand(POWERS, np.clip(running, LOWEST, HIGHEST))


def after_stages(X: Any, start: np.ndarray, fitted: Iterable[tuple[StageFeatures, Stage]], update: str) -> np.ndarray:
    """Running predictions of rows X, as generators take them, after some stages."""
    running = np.tile(start, (X.shape[0], 1))
    for features, stage in fitted:
        for part, F in features.chunks(X, {}):
            add_stage(running[part], F, stage.weights, stage.intercept, update)
    return running


# --- steps over rows. A piece of `running` has the predictions P.


@dataclass(frozen=True)
class Running:
    """Rebuilds the running predictions from the stages so far."""

    update: str

    def __call__(self, block: Block, generator: Any, start: np.ndarray, stages: tuple[Stage, ...]) -> Piece:
        if not stages or block.n == 0:
            return {"P": np.tile(start, (block.n, 1))}
        maker, k = maker_of(generator), len(start)
        extra = 3 * k if self.update == "calibrated" else 0
        fitted = (
            (StageFeatures(maker, one.number, one.size, one.state, len(one.weights) - extra, start.dtype), one)
            for one in stages
        )
        return {"P": after_stages(through(generator, matrix_of(block.X)), start, fitted, self.update)}


@dataclass(frozen=True)
class RunningLoss:
    """Σ s·ℓ of raw scores for a loss; without one, the squared error of predictions."""

    loss: Any

    def __call__(self, block: Block, running: Piece) -> tuple[float]:
        if self.loss is None:
            return (squared_error(block, running["P"]),)
        return (row_sums.values(self.loss, block, running["P"]),)


@dataclass(frozen=True)
class AddStage:
    """Moves the running predictions by a stage; their loss afterwards."""

    update: str
    loss: Any

    def __call__(
        self, block: Block, running: Piece, seen: Piece, kept: Piece, features: StageFeatures, stage: Stage
    ) -> tuple[float]:
        for part, F in features.chunks(rows_of(block, seen), kept):
            add_stage(running["P"][part], F, stage.weights, stage.intercept, self.update)
        return RunningLoss(self.loss)(block, running)


@dataclass(frozen=True)
class HeldOutError:
    """Σ over held-out rows of their weight where the label is wrong; of the share of wrong labels for label sets."""

    is_independent: bool
    border: float

    def __call__(self, block: Block, running: Piece, held_out: Piece) -> tuple[float]:
        P = running["P"]
        held = np.flatnonzero(held_out["rows"])
        weights, P, Y = held_out["rows"][held], P[held], labels_of(block, P.shape[1], P.dtype)[held]
        if self.is_independent:
            return (float(weights @ ((self.border < P) != (Y > 0.5)).mean(axis=1)),)
        return (float(weights @ (P.argmax(axis=1) != Y.argmax(axis=1))),)


@dataclass(frozen=True)
class LeftToFit:
    """What is left to fit, for generators that choose features by it: y − ŷ, zero in rows without weight.

    `n_columns` is the number of columns that the generator sees.
    """

    update: str
    is_independent: bool
    n_columns: int = 0

    def of(self, block: Block, running: Piece) -> np.ndarray:
        """The residual of every row."""
        P = running["P"]
        if self.update == "softmax":
            P = sigmoid(P).astype(P.dtype) if self.is_independent else softmax(P)
        left = residuals(block, P)
        left[block.weights == 0.0] = 0.0
        return left

    def __call__(self, block: Block, running: Piece, seen: Piece) -> tuple[np.ndarray]:
        """Σ x·r' of the rows that the generator sees."""
        if block.n == 0:
            return (np.zeros((self.n_columns, running["P"].shape[1])),)
        return (correlations(rows_of(block, seen), self.of(block, running)),)


@dataclass(frozen=True)
class SampledRows:
    """Rows of a block with what is left to fit of them: those with the given numbers, or all. For `Engine.gather`."""

    left: LeftToFit

    def __call__(self, block: Block, running: Piece, seen: Piece, chosen: np.ndarray | None) -> tuple[Any, np.ndarray]:
        X, R = rows_of(block, seen), self.left.of(block, running)
        if chosen is None:
            return X, R
        mine = chosen[(chosen >= block.first) & (chosen < block.first + block.n)] - block.first
        return X[mine], R[mine]
