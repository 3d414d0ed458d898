"""Stagewise regression: stage after stage of generated features, each fitted to what those before have left.

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), Algorithm 3. A generator makes p features x̃ of every row; one
p × p factorisation fits them; the running predictions move; the features are forgotten. Three ways to fit a stage:

linear : ridge regression of the residual y − ŷ on x̃, then ŷ ← ŷ + W'x̃ + b.
calibrated : the same with y, y², y³ of the running predictions among the features, with a ridge of their own that
    grows with every stage.
softmax : generalised least squares (`least_squares.py`, accelerated) on the labels themselves, from the running raw
    scores z: minimise ℓ(y, z + W'x̃ + b), then z ← z + W'x̃ + b. A sigmoid for two classes and for label sets.

Running predictions are row state. Features are made where the rows are, a chunk of rows at a time. Those of one stage
are kept while it is fitted if `feature_memory` allows it, else they are made again for each pass over the rows.

Memory: X, n·k numbers of predictions, 24·p² bytes, min(n·p·size, feature_memory) bytes of features, of 4 bytes each or
8 in float64, and three chunks of CHUNK_BYTES; the model has (p + 1)·k weights per stage. Rows in blocks add 8·p² bytes
for each of log₂(blocks) partial sums, per thread that has blocks of its own. Where an engine limits memory (`room`), at
most half of that is for features, and chunks are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lineal import losses
from lineal.engine.base import Engine
from lineal.engine.state import no_entries
from lineal.errors import Unanswered, unknown_value
from lineal.features.contracts import ChoosesByProducts, NeedsResidual
from lineal.features.elsewhere import chosen_rows, sampled_rows, stacked
from lineal.numerics.held_out_choice import best_of, effective_rows
from lineal.problem.budget import Budget
from lineal.problem.checkpoint import Checkpoint
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Callback, Monitor
from lineal.solvers.stagewise import UPDATES
from lineal.solvers.stagewise.features import CHUNK_BYTES, Stage, StageFeatures, maker_of, seen_rows, tell_of
from lineal.solvers.stagewise.label_fit import fit_labels
from lineal.solvers.stagewise.residual_fit import fit_residual
from lineal.solvers.stagewise.running import (
    AddStage,
    Fitted,
    HeldOutError,
    LeftToFit,
    RunningLoss,
    SampledRows,
    running_predictions,
)

#: Part of the memory that an engine allows for parameters which a chunk of features may take, and its least size.
CHUNKS_PER_ROOM, LEAST_CHUNK = 8, 1 << 18


@dataclass
class Stagewise:
    """The stages, how the fit went, and the ridge of the stages."""

    stages: list[Stage]
    history: list[dict[str, float]] = field(default_factory=list)
    status: str = ""
    message: str = ""
    is_answered: bool = True
    alpha: float = math.nan


def solve(
    engine: Engine,
    generator: Any,
    start: np.ndarray,
    *,
    before: Sequence[Stage] = (),
    is_independent: bool = False,
    update: str = "linear",
    alpha: float | Sequence[float] = 1e-6,
    stage_size: int = 1024,
    n_stages: int = 20,
    first_stage: int = 0,
    inner_iter: int = 50,
    held_out: np.ndarray | None = None,
    patience: int | None = None,
    feature_memory: int = 1 << 30,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | None = None,
    measured: Callable[[float], None] = lambda error: None,
) -> Stagewise:
    """Fit stages `first_stage` … of a prepared generator to the labels of an engine.

    `start` are the predictions (k,) without any stage, in the precision of the features, and `before` the stages that
    were fitted already.
    `is_independent` says that columns do not compete: two classes (k = 1) and label sets. `held_out` are weights, (n,),
    of rows that have no weight in the engine: their error and loss are noted after every stage, and `measured` is told
    the error. The fit ends when `patience` stages have not improved it, and stages after the best one are dropped; of
    errors that can hardly be told apart, the one with the least loss is best. Of several `alpha`, the first stage takes
    the one with the least squared error of the held-out rows, or the first one without such rows and for softmax; all
    stages have it.
    """
    if update not in UPDATES:
        raise unknown_value("update", update, UPDATES)
    fit = _Fit(engine, generator, start, tuple(before), is_independent, update, feature_memory)
    result = Stagewise([])
    progress = _Progress(fit, result, tuple(alpha) if isinstance(alpha, Sequence) else (alpha,))
    budget = Budget(max_iter=n_stages, max_time=max_time, callbacks=tuple(callbacks), checkpoint=checkpoint)
    with Monitor(budget) as monitor:

        def record(W: np.ndarray, b: np.ndarray, loss: float) -> str | None:
            status = monitor.record(len(result.stages), loss, math.nan, W, b)
            if held_out is not None:
                error, held_loss = fit.held_out_error(held_out)
                monitor.history[-1].update(validation=error, validation_loss=held_loss)
                measured(error)
                progress.errors.append(error)
                progress.losses.append(held_loss)
                if patience is not None and progress.since_gain >= patience:
                    return status or "early"
            return status

        def must_end() -> bool:
            return monitor.must_end(0) is not None

        def add_stage() -> str | None:
            features = fit.make(first_stage + len(result.stages), stage_size)
            if features.width == 0:
                return "exhausted"
            states, count = fit.states(), len(before) + len(result.stages) + 1
            if update == "softmax":
                chosen = progress.alphas[0]
                fitted = fit_labels(engine, states, features, fit.loss, chosen, inner_iter, must_end)
            else:
                fit_of_stage = fit_residual(engine, states, features, update, progress.alphas, count, held_out)
                fitted, chosen = fit_of_stage[:2], fit_of_stage.alpha
            if fitted is None or must_end():  # within the stage, which is not kept
                monitor.save()
                return monitor.must_end(0)
            progress.alphas = (chosen,)
            stage = Stage(features.number, stage_size, features.state, *fitted)
            loss = fit.add(features, stage, states)
            result.stages.append(stage)
            return record(stage.weights, stage.intercept, loss)

        k, why = engine.n_columns, ""
        monitor.resume(progress)
        status = record(np.zeros((0, k)), np.zeros(k), fit.loss_now())
        try:
            while status is None:
                status = add_stage()
        except Unanswered as error:
            status, why, result.is_answered = monitor.must_end(0) or "max_time", f": {error}", False
            monitor.save()
    if held_out is not None and progress.errors:
        del result.stages[best_of(progress.errors, progress.losses, effective_rows(held_out)) :]
    result.alpha = progress.alphas[0]
    result.history, result.status = monitor.history, _ENDS[status or "max_iter"][0]
    result.message = _ENDS[status or "max_iter"][1].format(stages=len(result.stages)) + why
    return result


class _Progress(LoopState):
    """State of the loop.

    Attributes
    ----------
    stages : those so far.
    errors, losses : of held-out rows, from before the first stage on.
    alphas : ridges to choose from; after the first stage, the one that was chosen.
    """

    state_names = ("stages", "errors", "losses", "alphas")

    def __init__(self, fit: _Fit, result: Stagewise, alphas: tuple[float, ...]) -> None:
        self.fit, self.result, self.alphas = fit, result, alphas
        self.errors: list[float] = []
        self.losses: list[float] = []

    @property
    def since_gain(self) -> int:
        """Number of stages since the first one with the least error."""
        return len(self.errors) - 1 - int(np.argmin(self.errors))

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The stages as plain values and arrays."""
        return [stage.parts() for stage in self.result.stages]

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "stages":
            self.result.stages[:] = [Stage(**parts) for parts in value]
            self.fit.continue_after(self.result.stages)
        else:
            super().restore_part(name, value)


class _Fit:
    """The rows as a fit sees them: their running predictions, and the features of the current stage."""

    def __init__(
        self,
        engine: Engine,
        generator: Any,
        start: np.ndarray,
        stages: tuple[Stage, ...],
        is_independent: bool,
        update: str,
        feature_memory: int,
    ) -> None:
        self.engine, self.is_independent, self.update = engine, is_independent, update
        self.feature_memory = feature_memory if engine.room is None else min(feature_memory, engine.room // 2)
        self.maker = maker_of(generator)
        self.fitted = Fitted(generator, start, stages, update, chunk_bytes(engine))
        self.running = engine.state(running_predictions, self.fitted)
        self.seen = engine.state(seen_rows, generator, start.dtype)
        self.loss = losses.get("logistic" if is_independent else "softmax") if update == "softmax" else None

    def continue_after(self, stages: list[Stage]) -> None:
        """Continue after further stages, from which the running predictions are computed."""
        tell_of(self.maker, stages)
        self.fitted = self.fitted.plus(stages)
        self.running = self.engine.state(running_predictions, self.fitted)

    def states(self) -> tuple[Any, ...]:
        """Row state of a new stage: running predictions, the rows that generators see, and room for features."""
        return self.running, self.seen, self.engine.state(no_entries)

    def loss_now(self) -> float:
        """Mean squared error, or mean logistic loss of raw scores."""
        return float(self.engine.sum(RunningLoss(self.loss), states=(self.running,))[0])

    def add(self, features: StageFeatures, stage: Stage, states: tuple[Any, ...]) -> float:
        """Move the running predictions by a stage; the loss afterwards."""
        self.fitted = self.fitted.plus([stage])
        moved = self.running.to(self.fitted)
        step = AddStage(self.update, self.loss)
        return float(self.engine.sum(step, features, stage, states=(moved, *states[1:]))[0])

    def held_out_error(self, weights: np.ndarray) -> tuple[float, float]:
        """Share of the held-out weight with a wrong label (of wrong labels for label sets), and the loss."""
        step = HeldOutError(self.is_independent, self.loss)
        error, loss = self.engine.sum(step, states=(self.running, self.engine.cut(weights)))
        return float(error), float(loss)

    def make(self, number: int, size: int) -> StageFeatures:
        """The features of a stage."""
        made, dtype = self._made(number, size), self.fitted.start.dtype
        features = StageFeatures.of(self.maker, number, size, made, dtype, self.fitted.chunk_bytes)
        needed = features.width * features.dtype.itemsize * self.engine.shape[0]
        return features.kept_if(needed <= self.feature_memory)

    def _made(self, number: int, size: int) -> Any:
        maker: Any = self.maker
        if not (isinstance(maker, NeedsResidual) and maker.needs_residual):
            return maker.make(number, size)
        left = LeftToFit(self.update, self.is_independent)
        if isinstance(self.maker, ChoosesByProducts):
            step = replace(left, n_columns=self.maker.n_columns_)
            (products,) = self.engine.sum(step, states=(self.running, self.seen))
            return self.maker.make_by_products(number, size, products)
        chosen = chosen_rows(self.engine, sampled_rows(self.engine), 0, number)
        X, R = zip(*self.engine.gather(SampledRows(left), chosen, states=(self.running, self.seen)))
        return self.maker.make(number, size, (stacked(list(X)), stacked(list(R))))


def chunk_bytes(engine: Engine) -> int | None:
    """Bytes of features made at a time: a power of two if an engine limits memory, None for CHUNK_BYTES.

    Then a little more or less memory makes no difference to the sums.
    """
    if engine.room is None:
        return None
    at_once = 1 if engine.is_dense else engine.threads
    most = max(LEAST_CHUNK, engine.room // (CHUNKS_PER_ROOM * at_once))
    return min(CHUNK_BYTES, 1 << (most.bit_length() - 1))


#: How a fit may end: its status, and what to say.
_ENDS = {
    "max_iter": ("converged", "fitted all {stages} stages"),
    "exhausted": ("converged", "the generator had features for {stages} stages"),
    "early": ("converged", "the error of held-out rows no longer fell: the {stages} stages up to the best are kept"),
    "max_time": ("max_time", "stopped by max_time after {stages} stages"),
    "stopped": ("stopped", "stopped by a callback after {stages} stages"),
    "interrupted": ("interrupted", "interrupted: the {stages} stages so far are kept"),
}
