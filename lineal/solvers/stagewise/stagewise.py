"""Stagewise regression: block after block of generated features, each fitted to what those before have left.

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), Algorithm 3. A generator makes p features x̃ of every row; one
p × p factorisation fits them; the running predictions move; the features are forgotten. Three ways to fit a block:

linear : ridge regression of the residual y − ŷ on x̃, then ŷ ← ŷ + W'x̃ + b.
calibrated : the same with y, y², y³ of the running predictions among the features, with a ridge of their own that
    grows with every block.
softmax : generalized least squares (`least_squares.py`, with momentum) on the labels themselves, from the running raw
    scores z: minimise ℓ(y, z + W'x̃ + b), then z ← z + W'x̃ + b. A sigmoid for two classes and for label sets.

Features are made a chunk of rows at a time. Those of one block are kept while it is fitted where `block_memory` allows
it, and made again for each pass over the rows where not.

Memory: X, 2·n·k numbers of labels and predictions, 24·p² bytes, min(n·p·size, block_memory) bytes of features, of 4
bytes each or 8 where X is float64, and three chunks of CHUNK_BYTES; the model has (p + 1)·k weights a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lineal.errors import unknown_value
from lineal.features.base import checked_block
from lineal.problem.budget import Budget
from lineal.problem.monitor import Callback, Monitor
from lineal.solvers.stagewise.stages import FITS, Features, Labelled, loss_of
from lineal.solvers.stagewise.updates import UPDATES


@dataclass(frozen=True)
class Stage:
    """A block of features with its weights, all that prediction needs: weights (p or p + 3k, k), intercept (k,)."""

    number: int
    size: int
    state: dict[str, Any]
    weights: np.ndarray
    intercept: np.ndarray


@dataclass
class Stagewise:
    """The stages, and how they came about."""

    stages: list[Stage]
    history: list[dict[str, float]] = field(default_factory=list)
    status: str = ""
    message: str = ""


def through(generator: Any, X: Any) -> tuple[Any, Any]:
    """What makes the blocks, and the rows that it sees: the steps of a chain that come first are taken once."""
    if hasattr(generator, "before") and hasattr(generator, "last"):
        return generator.last, generator.before(X)
    return generator, X


def solve(
    rows: Labelled,
    generator: Any,
    *,
    update: str = "linear",
    alpha: float = 1e-6,
    block_size: int = 1024,
    n_blocks: int = 20,
    first_block: int = 0,
    inner_iter: int = 50,
    measure: Callable[[], float] | None = None,
    patience: int | None = None,
    block_memory: int = 1 << 30,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
) -> Stagewise:
    """Fit blocks `first_block` … of a prepared generator; `rows.running` is where they start from.

    `measure()`, of held-out rows (which have no weight), is noted after every block; smaller is better. The fit ends
    when `patience` blocks have not improved it, and blocks after the best one are dropped.
    """
    if update not in UPDATES:
        raise unknown_value("update", update, UPDATES)
    result, best, at_best = Stagewise([]), math.inf, 0
    with Monitor(Budget(max_iter=n_blocks, max_time=max_time, callbacks=tuple(callbacks))) as monitor:

        def record(W: np.ndarray, b: np.ndarray) -> str | None:
            nonlocal best, at_best
            status = monitor.record(len(result.stages), loss_of(rows, update), math.nan, W, b)
            if measure is not None:
                monitor.history[-1]["validation"] = error = measure()
                if error < best:
                    best, at_best = error, len(result.stages)
                elif patience is not None and len(result.stages) - at_best >= patience:
                    return status or "early"
            return status

        k = rows.Y.shape[1]
        status = record(np.zeros((0, k)), np.zeros(k))
        while status is None:
            number = first_block + len(result.stages)
            given = ((rows.X, rows.residual(update)),) if getattr(generator, "needs_residual", False) else ()
            who = f"block {number} of {type(generator).__name__}"
            block = checked_block(generator.make(number, block_size, *given), who)
            if block.width == 0:
                status = "exhausted"
                break
            features = Features(block, who, block_memory)
            count = rows.behind + len(result.stages) + 1
            fitted = FITS[update](features, rows, alpha, count, inner_iter, lambda: monitor.must_end(0) is not None)
            if fitted is None:  # interrupted within the block, which is not kept
                status = monitor.must_end(0)
                break
            W, b = fitted
            result.stages.append(Stage(number, block_size, block.state() if hasattr(block, "state") else {}, W, b))
            status = record(W, b)
    if measure is not None and math.isfinite(best):
        del result.stages[at_best:]
    result.history, result.status = monitor.history, _ENDS[status or "max_iter"][0]
    result.message = _ENDS[status or "max_iter"][1].format(blocks=len(result.stages))
    return result


#: How a fit may end: its status, and what to say.
_ENDS = {
    "max_iter": ("converged", "fitted all {blocks} blocks"),
    "exhausted": ("converged", "the generator had features for {blocks} blocks"),
    "early": ("converged", "the held-out rows gained nothing more: the {blocks} blocks up to the best are kept"),
    "max_time": ("max_time", "stopped by max_time after {blocks} blocks"),
    "stopped": ("stopped", "stopped by a callback after {blocks} blocks"),
    "interrupted": ("interrupted", "interrupted: the {blocks} blocks so far are kept"),
}
