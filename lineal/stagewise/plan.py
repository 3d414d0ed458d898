"""Size and number of stages, ridge and bandwidth where the options leave them open.

A stage costs n·p² operations for n rows and p features, and p³/3 for each ridge that is tried. A ridge on blocks that
are nearly as wide as there are rows interpolates the labels, noise included, so p is at most about a quarter of n; few
columns need few features, because the kernel has few directions there. More than about n features in all change little
(2n for more than two classes), and held-out rows end most fits long before that.

The bandwidth of the default generator of dense rows is a multiple of the median distance. It matters as much as the
ridge, and is found on a sample of the training rows: half the median, then up or down by factors of two while the loss
of a held-out quarter of the sample falls, after a single stage.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineal.features.chain import Chain
from lineal.features.contracts import HasParameters
from lineal.solvers.stagewise.features import through
from lineal.stagewise import generator as generators
from lineal.stagewise.model import StagewiseModel
from lineal.stagewise.options import StagewiseOptions
from lineal.stagewise.training_rows import TrainingRows

#: Rows per feature of a stage, and features of a stage per column, at least and at most.
ROWS_PER_FEATURE, FEATURES_PER_COLUMN = 4, 128

#: Features of a stage: at least, at most, and at most where there are `MANY_ROWS`.
LEAST_WIDTH, MOST_WIDTH, MOST_WIDTH_OF_MANY, MANY_ROWS = 32, 1024, 2048, 30_000

#: Stages at least and at most.
LEAST_STAGES, MOST_STAGES = 4, 20

#: Ridges from which the first stage chooses, and the one without held-out rows to choose by.
RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
RIDGE = 1e-7

#: Rows of the sample on which the bandwidth is found, features of the stage there, and the share that is held out.
SAMPLE_ROWS, SAMPLE_WIDTH, SAMPLE_HELD_OUT = 4000, 512, 0.25

#: Multiple of the median distance that is tried first, and how often it is doubled or halved at most.
FIRST_SCALE, MOST_DOUBLINGS = 0.5, 5

#: Rows below which the bandwidth is not searched for.
FEWEST_ROWS = 100


def width(rows: int, columns: int, is_sparse: bool) -> int:
    """Features per stage: a power of two."""
    most = MOST_WIDTH
    if rows >= MANY_ROWS and (is_sparse or columns * FEATURES_PER_COLUMN >= 2 * MOST_WIDTH_OF_MANY):
        most = MOST_WIDTH_OF_MANY
    wanted = min(rows / ROWS_PER_FEATURE, math.inf if is_sparse else FEATURES_PER_COLUMN * columns)
    return int(2 ** np.clip(round(math.log2(max(wanted, 1.0))), math.log2(LEAST_WIDTH), math.log2(most)))


def stages(rows: int, features: int, classes: int) -> int:
    """Number of stages of so many features, at most."""
    total = rows if classes <= 2 else 2 * rows
    return int(np.clip(math.ceil(total / features), LEAST_STAGES, MOST_STAGES))


def planned(
    rows: TrainingRows, options: StagewiseOptions, start: StagewiseModel | None, loss_of: Callable[..., float]
) -> StagewiseOptions:
    """The options with a generator, a size and a number of stages; of these, what is given stays.

    `loss_of(X, y, weights, options)` is the least held-out loss of a fit. The stages that are added to a model `start`
    have its size and its generator.
    """
    n, columns = rows.n_training, rows.n_features
    classes = max(2, len(rows.encoded.classes))
    size, count = options.block_size, options.n_blocks
    if size is None and start is not None and any(start.members):
        size = next(stage.size for member in start.members for stage in member)
    size = width(n, columns, rows.is_sparse) if size is None else int(size)
    count = stages(n, size, classes) if count is None else int(count)
    generator = options.generator
    if generator is None and start is not None:
        generator = start.generator
    if generator is None:
        generator = generators.given(options, rows.is_sparse, columns)
        if scale_of(generator) is not None and n >= FEWEST_ROWS:
            generator = _with_bandwidth(generator, rows, options, loss_of)
    return dataclasses.replace(options, block_size=size, n_blocks=count, generator=generator)


def ridges(options: StagewiseOptions, rows: TrainingRows) -> Sequence[float]:
    """The ridges to choose from."""
    if options.alpha is not None:
        return (float(options.alpha),)
    return (RIDGE,) if rows.held_out is None or options.update == "softmax" else RIDGES


def _with_bandwidth(
    generator: Any, rows: TrainingRows, options: StagewiseOptions, loss_of: Callable[..., float]
) -> Any:
    """The generator with the multiple of the median distance that is best on a sample of the training rows."""
    seed = int(options.random_state or 0)
    X, y, weights = rows.sample(SAMPLE_ROWS, seed, -13, np.dtype(options.precision))
    if X.shape[0] < FEWEST_ROWS or (not rows.encoded.is_multilabel and len(np.unique(y)) < 2):
        return generator
    prepared = generators.copied(generator, options.n_jobs)
    prepared.prepare(X, seed)
    seen = through(prepared, X)  # of a chain, the first steps are the same for every trial
    last = generator.steps[-1] if isinstance(generator, Chain) else generator
    size = width(round((1.0 - SAMPLE_HELD_OUT) * X.shape[0]), rows.n_features, False)
    trial = dataclasses.replace(
        options, block_size=min(size, SAMPLE_WIDTH), n_blocks=1, alpha=None, update="linear", inner_iter=None,
        validation_fraction=SAMPLE_HELD_OUT, patience=None, n_models=1, class_weight=None, max_time=None, verbose=0,
        checkpoint=None,
    )  # fmt: skip
    losses: dict[float, float] = {}

    def loss(scale: float) -> float:
        if scale not in losses:
            losses[scale] = loss_of(seen, y, weights, dataclasses.replace(trial, generator=scaled(last, scale)))
        return losses[scale]

    best = FIRST_SCALE
    for factor in (0.5, 2.0):
        while len(losses) <= MOST_DOUBLINGS and loss(best * factor) < loss(best):
            best *= factor
        if best != FIRST_SCALE:
            break
    return scaled(generator, best)


def scale_of(generator: Any) -> float | None:
    """The multiple of the median distance of a generator; None if it has none."""
    name = _scale_name(generator)
    return None if name is None else float(generator.get_params()[name])


def scaled(generator: Any, scale: float | None) -> Any:
    """A generator, not prepared, with another multiple of the median distance; the same one for None."""
    from sklearn.base import clone

    name = _scale_name(generator)
    return generator if name is None or scale is None else clone(generator).set_params(**{name: scale})


def _scale_name(generator: Any) -> str | None:
    if not isinstance(generator, HasParameters):
        return None
    return next((name for name in generator.get_params() if name.split("__")[-1] == "scale"), None)
