"""From labelled rows to a stagewise model."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lineal import features
from lineal.core import rng
from lineal.core.threads import blas_limit, thread_count
from lineal.errors import DataError, OptionError
from lineal.fit import checked_callbacks, row_weights
from lineal.least_squares_options import StagewiseOptions, automatic
from lineal.progress import Steps
from lineal.solution import NO_CERTIFICATE, Snapshot
from lineal.solvers import stagewise
from lineal.solvers.parts.monitor import Callback
from lineal.solvers.parts.stages import Labelled
from lineal.stagewise_model import StagewiseModel
from lineal.targets import Encoded, encode, zeros_and_ones


@dataclass(frozen=True)
class Run:
    """How a stagewise model came about: history over all members, status and a sentence about it."""

    history: list[dict[str, float]]
    status: str
    message: str
    certificate = NO_CERTIFICATE


def fit_stagewise(
    X: Any,
    y: Any,
    options: StagewiseOptions,
    *,
    sample_weight: Any = None,
    class_names: list[Any] | None = None,
    start: StagewiseModel | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[StagewiseModel, Run]:
    """Train on X, a dense array of any numeric type or a CSR matrix, and labels y.

    `start` is a model to which blocks are added, up to `n_blocks` in all; its generator goes on.
    Memory: that of `solvers/stagewise.py`, and X in float32 where it is float64 and the precision is not.
    """
    options = options.checked()
    callbacks = checked_callbacks(callbacks)
    X = _rows(X, options.precision)
    encoded = encode(y, direct=False, class_names=class_names)
    weights = row_weights(sample_weight, options.class_weight, encoded, X.shape[0])
    seed = int(options.random_state or 0)
    held = _held_out(options.validation_fraction, weights, seed)
    training = weights.copy()
    training[held] = 0.0
    training /= training.sum()
    Y = zeros_and_ones(encoded, np.dtype(options.precision))
    if start is not None and not _goes_on(start, encoded, X, options):
        start = None
    limit = nullcontext() if options.n_jobs is None else blas_limit(thread_count(options.n_jobs))
    total = int(options.n_models) * int(options.n_blocks)
    with limit, Steps(options.verbose, "blocks", total) as steps:
        generator = start.generator if start is not None else _generator(options, X, seed)
        model = start if start is not None else _empty(generator, Y, training, encoded, X.shape[1], options)
        maker, seen = stagewise.through(generator, X)

        blocks = 0

        def show(snapshot: Snapshot) -> None:
            nonlocal blocks
            blocks += snapshot.iteration > 0  # a member's first record is of none
            steps.done = blocks
            steps.step(f"loss {snapshot.objective:.5g}")

        return _members(model, maker, X, seen, Y, training, weights, held, options, (show, *callbacks))


def _members(
    model: StagewiseModel, maker: Any, X: Any, seen: Any, Y: np.ndarray, training: np.ndarray, weights: np.ndarray,
    held: np.ndarray, options: StagewiseOptions, callbacks: tuple[Callback, ...],
) -> tuple[StagewiseModel, Run]:  # fmt: skip
    """Fit the members one after the other."""
    members: list[list[stagewise.Stage]] = []
    history: list[dict[str, float]] = []
    is_independent = model.is_multilabel or Y.shape[1] == 1
    status, message, seconds = "converged", "", 0.0
    taken = [stage.number for member in model.members for stage in member]
    free = max(taken, default=-1) + 1
    for number, member in enumerate(model.members):
        running = model.running(X, member)
        rows = Labelled(seen, Y, running, training, is_independent)
        border = 0.0 if options.update == "softmax" else 0.5
        left = None if options.max_time is None else options.max_time - seconds
        if status != "converged" or (left is not None and left <= 0.0):
            members.append(member)
            continue
        found = stagewise.solve(
            rows, maker, update=options.update, alpha=options.alpha, block_size=int(options.block_size),
            n_blocks=max(0, int(options.n_blocks) - len(member)), first_block=free,
            inner_iter=50 if options.inner_iter is None else int(options.inner_iter),
            measure=_error_of(Y, running, weights, held, is_independent, border) if len(held) else None,
            patience=5 if options.patience is None else int(options.patience), block_memory=int(options.block_memory),
            max_time=left, callbacks=callbacks,
        )  # fmt: skip
        free += max(0, int(options.n_blocks) - len(member))
        members.append([*member, *found.stages])
        history += [{**row, "seconds": row["seconds"] + seconds, "member": number} for row in found.history]
        seconds = history[-1]["seconds"] if history else 0.0
        status, message = found.status, found.message
    kept = [member for member in members if member] or [[]]  # of an interrupted fit, those that have begun
    model = StagewiseModel(
        model.generator, kept, model.start, options.update, model.classes, model.n_features, model.is_multilabel,
        options=options.to_json(), certificate=NO_CERTIFICATE, status=status,
    )  # fmt: skip
    return model, Run(history, status, message)


def _rows(X: Any, precision: str) -> Any:
    if sparse.issparse(X):
        X = X.tocsr()
    elif not isinstance(X, np.ndarray) or X.ndim != 2:
        raise DataError("X must be a NumPy array of two dimensions or a SciPy sparse matrix")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X of shape {X.shape} has nothing to learn from")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, found {X.dtype}")
    if X.dtype.kind == "f" and X.dtype != precision and X.dtype.itemsize > 2:
        with np.errstate(over="ignore"):
            X = X.astype(precision)
    elif precision == "float64" and X.dtype != np.float64:
        X = X.astype(np.float64)
    return X


def _generator(options: StagewiseOptions, X: Any, seed: int) -> Any:
    """The generator of the options, prepared with X; what was given stays as it was."""
    from sklearn.base import clone

    given = options.generator
    if given is None:
        given = automatic(sparse.issparse(X), X.shape[1])
    is_generator = hasattr(given, "prepare") and hasattr(given, "make") and not isinstance(given, type)
    if not (isinstance(given, str) or is_generator):
        raise OptionError(f"generator={given!r} makes no features: it needs `prepare` and `make`")
    fresh = features.parse if isinstance(given, str) else clone if hasattr(given, "get_params") else copy.deepcopy
    made: Any = fresh(given)
    if options.n_jobs is not None and hasattr(made, "set_params"):  # a generator's own number of threads goes first
        open_ = [name for name, value in made.get_params().items() if name.endswith("n_jobs") and value is None]
        made.set_params(**dict.fromkeys(open_, options.n_jobs))
    made.prepare(X, seed)
    return made


def _empty(
    generator: Any, Y: np.ndarray, weights: np.ndarray, encoded: Encoded, d: int, options: StagewiseOptions
) -> StagewiseModel:
    """The model before the first block: the means of the labels, or their logarithms."""
    means = np.clip(weights @ Y, 1e-9, 1.0 - 1e-9)
    if options.update == "softmax":
        is_independent = encoded.is_multilabel or Y.shape[1] == 1
        means = np.log(means) - (np.log1p(-means) if is_independent else np.log(means).mean())
    return StagewiseModel(
        generator, [[] for _ in range(int(options.n_models))], means.astype(Y.dtype), options.update,
        encoded.classes, d, encoded.is_multilabel,
    )  # fmt: skip


def _goes_on(start: StagewiseModel, encoded: Encoded, X: Any, options: StagewiseOptions) -> bool:
    """Whether blocks can be added to a model."""
    return (
        np.array_equal(start.classes, encoded.classes)
        and start.is_multilabel == encoded.is_multilabel
        and start.n_features == X.shape[1]
        and start.update == options.update
        and len(start.members) == options.n_models
        and start.dtype == options.precision
    )


def _held_out(fraction: float | None, weights: np.ndarray, seed: int) -> np.ndarray:
    """Rows to measure on, ascending: a share of those that have weight."""
    if fraction is None:
        return np.zeros(0, np.int64)
    order = np.flatnonzero(weights > 0.0)
    rng.shuffle(rng.generator(seed, -7), order)
    count = round(fraction * len(order))
    if not 0 < count < len(order):
        raise DataError(f"validation_fraction={fraction:g} of {len(order)} rows leaves none to train or to measure on")
    return np.sort(order[:count])


def _error_of(
    Y: np.ndarray, running: np.ndarray, weights: np.ndarray, held: np.ndarray, is_independent: bool, border: float
) -> Any:
    """Share of the held-out weight with a wrong label; of wrong labels for label sets."""
    share = weights[held] / weights[held].sum()

    def measure() -> float:
        true, found = Y[held], running[held]
        if is_independent:
            return float(share @ ((found > border) != (true > 0.5)).mean(axis=1))
        return float(share @ (found.argmax(axis=1) != true.argmax(axis=1)))

    return measure
