"""Bandwidth, ridge and block size of a stagewise model, chosen on a sample of the rows.

One after the other, since each hardly depends on the others once it is near its best: the bandwidth among multiples of
the median distance, by the error of held-out rows of the sample after a few small blocks; then the ridge; then the
largest block size whose last block still earned its cubic price: sizes are compared at equal numbers of features, and a
larger one must gain more than the noise of the error.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from lineal import features
from lineal.errors import OptionError
from lineal.features.rows import sample
from lineal.least_squares_options import StagewiseOptions, automatic
from lineal.progress import Steps
from lineal.stagewise_fit import fit_stagewise

#: Rows of the sample at most.
SAMPLE_ROWS = 12_000

#: Multiples of the bandwidth that are tried.
BANDWIDTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5)

#: Ridges that are tried.
RIDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

#: Block sizes that are tried, and features of all blocks of a try.
SIZES = (512, 1024, 2048)
FEATURES = 2048


def search(
    X: Any, y: Any, *, sample_weight: Any = None, sample_rows: int = SAMPLE_ROWS, **given: Any
) -> dict[str, Any]:
    """Parameters of a `StagewiseClassifier`: those given, and the ones that were chosen."""
    X, y = (given_ if hasattr(given_, "tocsr") else np.asarray(given_) for given_ in (X, y))
    options = tuned(X, y, StagewiseOptions(**given), sample_weight, sample_rows)
    return {**given, "generator": options.generator, "alpha": options.alpha, "block_size": options.block_size}


def tuned(
    X: Any, y: Any, options: StagewiseOptions, sample_weight: Any = None, sample_rows: int = SAMPLE_ROWS
) -> StagewiseOptions:
    """The options with the choices made."""
    options = options.checked()
    rows = sample(X.shape[0], sample_rows, int(options.random_state or 0), -11)
    X, y = X[rows], y[rows]
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    generator = _start(options, X)
    scales = _scaled(generator)
    sizes = [size for size in SIZES if size <= max(SIZES[0], len(rows) // 4)]
    total = (len(BANDWIDTHS) if scales is not None else 0) + len(RIDGES) + len(sizes)
    with Steps(options.verbose, "tuning", total) as steps:

        def error(**changes: Any) -> float:
            trial = dataclasses.replace(options, **{**_TRIAL, **changes})
            run = fit_stagewise(X, y, trial, sample_weight=weights)[1]
            found = [row["validation"] for row in run.history]
            steps.done += 1
            steps.step(f"error {min(found):.4f}")
            return min(found, default=math.inf)

        if scales is not None:
            errors = {s: error(generator=scales(s), alpha=options.alpha) for s in BANDWIDTHS}
            generator = scales(min(errors, key=errors.__getitem__))
        ridges = {alpha: error(generator=generator, alpha=alpha) for alpha in RIDGES}
        alpha = min(ridges, key=ridges.__getitem__)
        noise = math.sqrt(max(ridges[alpha], 1e-6) / (0.25 * len(rows)))
        size, best = sizes[0], math.inf
        for one in sizes:
            found = error(generator=generator, alpha=alpha, block_size=one, n_blocks=max(1, FEATURES // one))
            if found < best - noise:
                size, best = one, found
    return dataclasses.replace(options, generator=generator, alpha=alpha, block_size=size)


#: How a try differs from the fit that it is for.
_TRIAL: dict[str, Any] = {
    "block_size": 512, "n_blocks": 3, "validation_fraction": 0.25, "patience": 100, "n_models": 1, "verbose": 0,
    "max_time": None,
}  # fmt: skip


def _start(options: StagewiseOptions, X: Any) -> Any:
    """The generator of the options, not prepared."""
    if options.generator is not None:
        return features.parse(options.generator) if isinstance(options.generator, str) else options.generator
    return features.parse(automatic(hasattr(X, "tocsr"), X.shape[1]))


def _scaled(generator: Any) -> Any:
    """A function from multiples of the bandwidth to generators; None for generators that have no bandwidth."""
    if not hasattr(generator, "get_params"):
        return None
    name = next((name for name in generator.get_params() if name.split("__")[-1] == "scale"), None)
    if name is None:
        return None
    if generator.get_params()[name.removesuffix("scale") + "bandwidth"] != "median":
        raise OptionError("a bandwidth that is given cannot be searched for: use bandwidth='median'")
    from sklearn.base import clone

    return lambda scale: clone(generator).set_params(**{name: scale})
