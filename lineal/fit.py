"""From labelled rows to a model: the one path that the estimators and the command line share."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from lineal import calibration, losses, penalties, solvers
from lineal.core.threads import thread_count
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import DataError, OptionError
from lineal.model import Model
from lineal.objective import Objective
from lineal.options import TrainOptions
from lineal.penalties.regulariser import Regulariser
from lineal.progress import Progress
from lineal.solution import Solution
from lineal.solvers.parts.monitor import Callback
from lineal.targets import Encoded, OneLabel, encode


def fit(
    X: Any,
    y: Any,
    options: TrainOptions,
    *,
    sample_weight: Any = None,
    offsets: Any = None,
    class_names: list[Any] | None = None,
    start: Model | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[Model, Solution]:
    """Train a linear model on X (float32 or float64; dense, CSR or CSC) and labels y.

    `start` is a model of the same shape to start from. The model comes without names and schema: callers that know
    them add them with `dataclasses.replace`.
    """
    options = options.checked()
    callbacks = _checked_callbacks(callbacks)
    loss, penalty = losses.get(options.loss), penalties.get(options.penalty)
    solver = solvers.choose(options.solver, loss, penalty)
    encoded = encode(y, direct=loss.is_direct, class_names=class_names)
    if encoded.is_multilabel and not loss.takes_label_sets:
        able = [name for name in losses.names() if losses.get(name).takes_label_sets]
        raise OptionError(f"loss {loss.name!r} takes one label a row, and y has label sets: use {', '.join(able)}")
    design = wrap(X)
    n, d = design.shape
    weights = row_weights(sample_weight, options.class_weight, encoded, n)
    engine = LocalEngine(
        design, encoded.targets, weights, encoded.n_columns, _offsets(offsets, n, encoded, design.dtype),
        thread_count(options.n_jobs),
    )  # fmt: skip
    objective = Objective(engine, loss, Regulariser(penalty, options.alpha, d), bool(options.fit_intercept))
    folds = None
    if options.probability and calibration.is_needed(loss, encoded):
        folds = calibration.fold_numbers(encoded, weights, options.random_state or 0)
    settings: dict[str, Any] = {
        "tol": options.tol,
        "max_iter": int(options.max_iter),
        "n_jobs": options.n_jobs,
        "seed": options.random_state or 0,
    }
    deadline = None if options.max_time is None else time.perf_counter() + options.max_time
    with blas_threads(options.n_jobs), Progress(options.verbose, options.tol) as progress:
        solution = solver.solve(
            objective,
            max_time=options.max_time if folds is None or options.max_time is None else 0.5 * options.max_time,
            callbacks=(*progress.callbacks, *callbacks),
            start=_start(start, objective, encoded),
            **settings,
        )
        slopes = None
        if folds is not None:
            solution, slopes = _calibrated(objective, encoded, folds, solution, solver, deadline, settings)
    model = Model(
        weights=solution.weights,
        intercept=solution.intercept,
        classes=encoded.classes,
        loss=loss.name,
        is_multilabel=encoded.is_multilabel,
        calibration=slopes,
        options=options.to_json(),
        certificate=solution.certificate,
        status=solution.status,
    )
    return model, solution


def _calibrated(
    objective: Objective,
    encoded: Encoded,
    folds: np.ndarray,
    solution: Solution,
    solver: Any,
    deadline: float | None,
    settings: dict[str, Any],
) -> tuple[Solution, np.ndarray | None]:
    """The solution with the slopes of its probabilities; without them where Ctrl-C ended one of the fits."""
    left = int(folds.max()) + 1

    def refit(part: Objective, start: Solution) -> Solution:
        nonlocal left
        share = None if deadline is None else max(deadline - time.perf_counter(), 0.0) / left + 1e-3
        left -= 1
        return solver.solve(part, start=start, max_time=share, **settings)

    slopes = None
    if solution.status != "interrupted":
        slopes = calibration.held_out_slopes(objective, encoded, folds, solution, refit)
    if slopes is None:
        message = "interrupted before its probabilities were calibrated: there are none"
        solution = dataclasses.replace(solution, status="interrupted", message=message)
    return solution, slopes


def _checked_callbacks(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    if callable(callbacks):
        raise OptionError("callbacks must be a list of functions, not one function: write callbacks=[f]")
    found = tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise OptionError(f"callbacks has {callback!r}, which cannot be called")
    return found


def blas_threads(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Dense products run on BLAS's own threads: `n_jobs` holds for those too."""
    if n_jobs is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(thread_count(n_jobs), user_api="blas")


def row_weights(sample_weight: Any, class_weight: Any, encoded: Encoded, n: int) -> np.ndarray:
    """Weights of the rows, class weights included, scaled to add up to one."""
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise DataError(f"sample_weight has shape {weights.shape}, X has {n} rows")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise DataError(f"sample_weight of row {bad[0]} is {weights[bad[0]]}: weights must be finite and ≥ 0")
    weights = weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)  # their sum must not overflow
    if isinstance(encoded.targets, OneLabel):
        columns = encoded.targets.columns
        numbers = columns + 1 if encoded.n_columns == 1 else columns  # binary: -1 and 0
        if len(numbers) != n:
            raise DataError(f"y has {len(numbers)} labels, X has {n} rows")
        weights = weights * _class_factors(class_weight, encoded.classes, numbers, weights)[numbers]
        empty = np.flatnonzero(np.bincount(numbers, weights, minlength=len(encoded.classes)) <= 0.0)
        if empty.size:
            label = encoded.classes[empty[:1]].tolist()[0]
            raise DataError(f"class {label!r} has no weight: remove its rows or give it some")
    else:
        if len(encoded.targets.starts) != n + 1:
            raise DataError(f"y has {len(encoded.targets.starts) - 1} rows, X has {n}")
        if class_weight is not None:
            raise OptionError("class_weight has no meaning for label sets: use sample_weight")
    total = weights.sum()
    if not (total > 0.0 and np.isfinite(total)):
        raise DataError(f"the weights add up to {total}: some must be positive")
    return weights / total


def _class_factors(class_weight: Any, classes: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        shares = np.bincount(numbers, weights, minlength=len(classes))
        return weights.sum() / (len(classes) * np.maximum(shares, np.finfo(np.float64).tiny))
    if not isinstance(class_weight, dict):
        raise OptionError(f"class_weight={class_weight!r} is neither None, 'balanced' nor a dict of class weights")
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise OptionError(f"class_weight names {unknown[0]!r}, which is no class of y: {known[:10]}")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise OptionError("class_weight has a weight that is negative or not finite")
    return factors


def _offsets(offsets: Any, n: int, encoded: Encoded, dtype: Any) -> np.ndarray | None:
    if offsets is None:
        return None
    offsets = np.asarray(offsets, dtype=dtype)
    if offsets.ndim == 1:
        offsets = offsets[:, None]
    if offsets.shape != (n, encoded.n_columns) or not np.isfinite(offsets).all():
        raise DataError(f"offsets must be finite, of shape ({n}, {encoded.n_columns}), found {offsets.shape}")
    return np.ascontiguousarray(offsets)


def _start(model: Model | None, objective: Objective, encoded: Encoded) -> np.ndarray | None:
    if model is None:
        return None
    if model.weights.shape != (objective.engine.shape[1], encoded.n_columns) or not np.array_equal(
        model.classes, encoded.classes
    ):
        return None  # another problem: start anew
    theta = np.zeros(objective.shape, objective.engine.dtype)
    theta[: len(model.weights)] = model.weights
    if objective.fit_intercept:
        theta[-1] = model.intercept
    return theta
