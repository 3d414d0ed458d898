"""Running predictions (or raw scores) of all rows: row state that every stage moves, and that all stages rebuild."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lineal.core import blas
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.features.elsewhere import among
from lineal.features.rows import correlations, in_precision, matrix_of
from lineal.numerics.basis import POLYNOMIAL, expand, functions
from lineal.numerics.label_residuals import labels_of, residuals, squared_error
from lineal.numerics.links import sigmoid, softmax
from lineal.problem import row_sums
from lineal.solvers.stagewise.features import Stage, StageFeatures, maker_of, remade_once, rows_of, through

#: Functions of the running predictions among the features of calibrated stages.
POWERS = functions(POLYNOMIAL)

#: Predictions are clipped to these bounds before powers are taken: else those of new rows would grow at every stage.
LOWEST, HIGHEST = -1.0, 2.0


def add_stage(running: np.ndarray, F: np.ndarray, stage_weights: np.ndarray, b: np.ndarray, update: str) -> None:
    """Move the running predictions of some rows by a stage, whose features are F."""
    step = blas.matmul(F, stage_weights[: F.shape[1]])
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


@dataclass(frozen=True)
class Fitted:
    """Stages that are fitted, and all that running predictions after them are computed from.

    Attributes
    ----------
    generator : prepared.
    start : (k,) predictions without any stage, in the precision of the features.
    stages, update : the stages, and how they were fitted.
    chunk_bytes : bytes of features made at a time; None for CHUNK_BYTES.
    made : what makes the features of the stages, for all blocks that a process has; it is not sent to others.
    """

    generator: Any
    start: np.ndarray
    stages: tuple[Stage, ...]
    update: str
    chunk_bytes: int | None = None
    made: dict[tuple[int, int], Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    def plus(self, stages: Iterable[Stage]) -> Fitted:
        """These stages and further ones."""
        return replace(self, stages=(*self.stages, *stages), made={})

    def after(self, X: Any) -> np.ndarray:
        """Running predictions of rows after all stages."""
        if not self.stages or X.shape[0] == 0:
            return np.tile(self.start, (X.shape[0], 1))
        X = through(self.generator, in_precision(X, self.start.dtype))
        return after_stages(X, self.start, self._features(), self.update)

    def _features(self) -> Iterator[tuple[StageFeatures, Stage]]:
        maker = maker_of(self.generator)
        for stage in self.stages:
            made = remade_once(maker, stage, self.made)
            yield StageFeatures.of(maker, stage.number, stage.size, made, self.start.dtype, self.chunk_bytes), stage


# --- steps over rows. A piece of `running` has the predictions P.


def running_predictions(block: Block, fitted: Fitted) -> Piece:
    """Rebuilds the running predictions from the stages so far."""
    return {"P": fitted.after(matrix_of(block.X))}


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
    """Sums over held-out rows: their weight where the label is wrong, and their loss.

    For label sets the first is the share of wrong labels. `loss` is None for the squared error of predictions.
    """

    is_independent: bool
    loss: Any

    def __call__(self, block: Block, running: Piece, held_out: Piece) -> tuple[float, float]:
        held = np.flatnonzero(held_out["rows"])
        weights, P, Y = held_labels(block, held, held_out["rows"], running["P"])
        if self.is_independent:
            border = 0.5 if self.loss is None else 0.0
            error = float(weights @ ((border < P) != (Y > 0.5)).mean(axis=1))
        else:
            error = float(weights @ (P.argmax(axis=1) != Y.argmax(axis=1)))
        if self.loss is None:
            return error, float(weights @ np.square(Y - P).sum(axis=1, dtype=np.float64))
        return error, row_sums.values(self.loss, replace(block, weights=held_out["rows"]), running["P"])


def held_labels(
    block: Block, held: np.ndarray, weights: np.ndarray, running: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, running predictions and labels of the held-out rows of a block."""
    return weights[held], running[held], labels_of(block, running.shape[1], running.dtype)[held]


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
        R = self.of(block, running)
        return (correlations(in_precision(rows_of(block, seen), R.dtype), R),)


@dataclass(frozen=True)
class SampledRows:
    """For `Engine.gather`: chosen rows of a block (`lineal.features.elsewhere`) with what is left to fit of them."""

    left: LeftToFit

    def __call__(self, block: Block, running: Piece, seen: Piece, chosen: np.ndarray | None) -> tuple[Any, np.ndarray]:
        X, R, mine = rows_of(block, seen), self.left.of(block, running), among(block, chosen)
        return in_precision(X[mine], R.dtype), R[mine]
