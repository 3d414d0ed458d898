"""Bandwidth, ridge and stage size of a stagewise model, chosen on a sample of the rows.

They are chosen one after the other, since each hardly depends on the others once they are near their best. First the
bandwidth, among multiples of the median distance, by the error of held-out rows of the sample after a few small stages.
Then the ridge. Then the largest stage size that is worth its cubic cost: sizes are compared at equal numbers of
features, and a larger one must gain more than the noise of the error. What is given stays as it is.

The sample of rows in files or on a cluster is drawn where they are, and is searched in this process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import sparse

from lineal import features
from lineal.data.dataset import Dataset
from lineal.engine.source import Source
from lineal.errors import OptionError
from lineal.features import elsewhere
from lineal.features.contracts import HasParameters
from lineal.features.rows import sample
from lineal.linear.fit import labels_of
from lineal.problem.progress import Steps
from lineal.stagewise.fit import fit_stagewise
from lineal.stagewise.options import StagewiseOptions, automatic
from lineal.stagewise.training_rows import LabelledRows, TrainingRows

#: Rows of the sample at most.
SAMPLE_ROWS = 12_000

#: Multiples of the bandwidth that are tried.
BANDWIDTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5)

#: Ridges that are tried.
RIDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

#: Stage sizes that are tried, and features of all stages of a try.
SIZES = (512, 1024, 2048)
FEATURES = 2048


def tuned(
    X: Any,
    y: Any,
    options: StagewiseOptions,
    sample_weight: Any = None,
    sample_rows: int = SAMPLE_ROWS,
    keep: Collection[str] | None = None,
) -> StagewiseOptions:
    """Options with the chosen values. Options in `keep` (None: those that differ from their defaults) stay."""
    options = options.checked()
    if not isinstance(sample_rows, int) or sample_rows < 2:
        raise OptionError(f"sample_rows={sample_rows!r} is not an integer ≥ 2")
    keep = _not_default(options) if keep is None else keep
    rows = sample(X.shape[0], sample_rows, int(options.random_state or 0), -11)
    X, y = X[rows], y[rows]
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    generator = _start(options, X)
    scales = _scaled(generator)
    bandwidths = BANDWIDTHS if scales is not None else ()
    ridges = () if "alpha" in keep else RIDGES
    sizes = () if "block_size" in keep else [size for size in SIZES if size <= max(SIZES[0], len(rows) // 4)]
    with Steps(options.verbose or 0, "tuning", len(bandwidths) + len(ridges) + len(sizes)) as steps:

        def error(**changes: Any) -> float:
            trial = dataclasses.replace(options, **{**_TRIAL, "generator": generator, "alpha": alpha, **changes})
            run = fit_stagewise(X, y, trial, sample_weight=weights)[1]
            found = min(row["validation"] for row in run.history)
            steps.done += 1
            steps.step(f"error {found:.4f}")
            return found

        alpha, size, best = options.alpha, options.block_size, math.inf
        if scales is not None:
            generator = scales(min(bandwidths, key=lambda scale: error(generator=scales(scale))))
        if ridges:
            errors = {one: error(alpha=one) for one in ridges}
            alpha = min(errors, key=errors.__getitem__)
        for one in sizes:
            found = error(block_size=one, n_blocks=max(1, FEATURES // one))
            noise = math.sqrt(max(found, 1e-6) / (0.25 * len(rows)))
            if found < best - noise:
                size, best = one, found
    return dataclasses.replace(options, generator=generator, alpha=alpha, block_size=size)


def tuned_rows(
    rows: Source | Dataset,
    options: StagewiseOptions,
    sample_rows: int = SAMPLE_ROWS,
    keep: Collection[str] | None = None,
) -> StagewiseOptions:
    """`tuned` for rows of files or of a cluster (see `lineal.linear.rows`)."""
    if isinstance(rows, Dataset):
        return tuned(rows.X, labels_of(rows), options, rows.weights, sample_rows, keep)
    plain = dataclasses.replace(options.checked(), class_weight=None, validation_fraction=None, patience=None)
    found = TrainingRows.of_source(rows, plain)
    engine, encoded = found.engine, found.encoded
    most = min(sample_rows, elsewhere.sampled_rows(engine))
    chosen = elsewhere.chosen_rows(engine, most, int(options.random_state or 0), -11)
    X, y, weights = zip(*engine.gather(LabelledRows(), chosen, encoded.n_columns, np.dtype(options.precision)))
    labels = elsewhere.stacked(list(y))
    labels = labels if encoded.is_multilabel else encoded.classes[labels]
    return tuned(elsewhere.stacked(list(X)), labels, options, np.concatenate(weights), sample_rows, keep)


def _not_default(options: StagewiseOptions) -> set[str]:
    return {one.name for one in dataclasses.fields(options) if getattr(options, one.name) != one.default}


#: How a try differs from the fit that it is for.
_TRIAL: dict[str, Any] = {
    "block_size": 512, "n_blocks": 3, "validation_fraction": 0.25, "patience": 100, "n_models": 1, "verbose": 0,
    "max_time": None, "checkpoint": None,
}  # fmt: skip


def _start(options: StagewiseOptions, X: Any) -> Any:
    """Generator of the options, not prepared."""
    if options.generator is not None:
        return features.parse(options.generator) if isinstance(options.generator, str) else options.generator
    return features.parse(automatic(sparse.issparse(X), X.shape[1]))


def _scaled(generator: Any) -> Any:
    """Function that returns the generator for a multiple of the bandwidth.

    None for generators that have no bandwidth, or whose bandwidth or scale is given.
    """
    if not isinstance(generator, HasParameters):
        return None
    params = generator.get_params()
    name = next((name for name in params if name.split("__")[-1] == "scale"), None)
    if name is None or params[name] != 1.0 or params.get(name.removesuffix("scale") + "bandwidth") != "median":
        return None
    from sklearn.base import clone

    return lambda scale: clone(generator).set_params(**{name: scale})
