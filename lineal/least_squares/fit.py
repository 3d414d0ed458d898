"""From labelled rows to a model of (generalised or calibrated) least squares."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lineal.data.dataset import Dataset
from lineal.design.matrix import wrap_any
from lineal.engine.source import Source
from lineal.errors import OptionError
from lineal.least_squares import iterations
from lineal.least_squares.links import Link, LinkObjective
from lineal.least_squares.model import CalibratedModel
from lineal.least_squares.options import METHODS, LeastSquaresOptions
from lineal.linear.fit import Problem, blas_threads, labels_of, prepare, prepare_source, shown_progress
from lineal.linear.model import Model
from lineal.linear.options import TrainOptions
from lineal.numerics.basis import functions
from lineal.problem.checkpoint import Checkpoint, checkpoint_of
from lineal.problem.fingerprint import of_rows
from lineal.problem.minimise import minimise
from lineal.problem.monitor import ENDED, Callback, checked_callbacks
from lineal.problem.solution import Solution
from lineal.solvers import calibrated, least_squares
from lineal.system import memory
from lineal.system.validation import share


def fit_least_squares_rows(
    rows: Source | Dataset, options: LeastSquaresOptions, *, callbacks: Iterable[Callback] = ()
) -> tuple[Model | CalibratedModel, Any]:
    """`fit_least_squares` to rows of files or of a cluster (see `lineal.linear.rows`)."""
    options = options.checked()
    if isinstance(rows, Dataset):
        return fit_least_squares(
            rows.X, labels_of(rows), options, sample_weight=rows.weights, class_names=rows.class_names,
            callbacks=callbacks,
        )  # fmt: skip
    checkpoint = checkpoint_of(options)
    return _fit(_problem(lambda shared: prepare_source(rows, shared), options), options, callbacks, checkpoint)


def fit_least_squares(
    X: Any,
    y: Any,
    options: LeastSquaresOptions,
    *,
    sample_weight: Any = None,
    class_names: list[Any] | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[Model | CalibratedModel, Any]:
    """Train on X (dense or sparse) and labels y: the model, and how the fit went (`Solution` or `Calibrated`).

    Dense X may be of any numeric type: it is converted some rows at a time.
    """
    options = options.checked()
    design, checkpoint = wrap_any(X), checkpoint_of(options)

    def prepared(shared: TrainOptions) -> Problem:
        return prepare(design, y, shared, sample_weight=sample_weight, class_names=class_names)

    return _fit(_problem(prepared, options), options, callbacks, checkpoint)


def _fit(
    problem: Problem, options: LeastSquaresOptions, callbacks: Iterable[Callback], checkpoint: Checkpoint | None
) -> tuple[Model | CalibratedModel, Any]:
    callbacks, engine = checked_callbacks(callbacks), problem.objective.engine
    (n, d), k, size = engine.shape, problem.encoded.n_columns, engine.dtype.itemsize
    needed = least_squares.memory(n, d, k, size) + 3 * engine.largest_block * k * size
    memory.check_fit("least_squares", needed, (n, d), k)
    if engine.room is not None:
        memory.check_budget("least_squares", needed, engine.room)
    tol = 1e-3 if options.tol is None else options.tol
    with blas_threads(problem), shown_progress(problem, options.verbose, tol) as progress:
        shown = (*progress.callbacks, *callbacks)
        model: Model | CalibratedModel
        if options.calibration is not None:
            model, fitted = _calibrated(problem, options, shown, checkpoint)
        else:
            model, fitted = _generalised(problem, options, tol, shown, checkpoint)
    if checkpoint is not None and fitted.status in ENDED:
        checkpoint.remove()
    return model, fitted


def _problem(prepared: Callable[[TrainOptions], Problem], options: LeastSquaresOptions) -> Problem:
    """The problem of a link; `prepared` makes a problem of the rows with the options of a linear model."""
    shared = TrainOptions(
        alpha=options.alpha, fit_intercept=options.fit_intercept, class_weight=options.class_weight,
        n_jobs=options.n_jobs, solver="least_squares",
    )  # fmt: skip
    link = options.link if options.link is not None else "softmax" if options.calibration is None else "identity"

    def of(loss: str) -> Problem:
        return prepared(replace(shared, loss=loss))

    if isinstance(link, Link):
        problem = of("squared")
        _check_border(link, problem)
        return replace(problem, objective=LinkObjective.of(problem.objective, link))
    if link == "softmax":
        problem = of("logistic")
        return of("softmax") if problem.encoded.n_columns > 1 and not problem.encoded.is_multilabel else problem
    return of({"identity": "squared", "sigmoid": "logistic"}[link])


def _check_border(link: Link, problem: Problem) -> None:
    """Refuse a link whose mean at score zero is not halfway between the two outcomes of a binary label."""
    encoded = problem.encoded
    if encoded.n_columns == 1 or encoded.is_multilabel:
        middle = np.asarray(link.mean(np.zeros((1, encoded.n_columns))), np.float64)
        if not np.allclose(middle, 0.5):
            raise OptionError(
                f"mean of {link.name} is {middle.ravel()[0]:g} at zero, the border between labels: for two classes and "
                "label sets it must be 0.5 there; shift its argument"
            )


def _generalised(
    problem: Problem,
    options: LeastSquaresOptions,
    tol: float,
    callbacks: tuple[Callback, ...],
    checkpoint: Checkpoint | None,
) -> tuple[Model, Solution]:
    part = share(options.validation, int(np.count_nonzero(problem.row_weights()))) if options.validation else 0.0
    method = METHODS["quasi_newton" if options.accelerated is None else options.accelerated]
    if options.accelerated is None and part:
        method = "accelerated"
    if isinstance(problem.objective, LinkObjective) and method == "quasi_newton":
        method = "accelerated" if options.link.potential is None else method  # a line search needs values
    began = time.perf_counter()

    def fit(of: Problem, max_time: float | None, shown: tuple[Callback, ...], **others: Any) -> Solution:
        return minimise(
            least_squares.solve, of.objective, tol=tol, max_time=max_time, callbacks=shown, n_jobs=options.n_jobs,
            method=method, **others,
        )  # fmt: skip

    limit, most = options.max_time, 1000 if options.max_iter is None else int(options.max_iter)
    if not part:
        solution = fit(problem, limit, callbacks, max_iter=most, checkpoint=checkpoint)
        return replace(problem.model_of(solution), options=options.to_json()), solution
    training, held = iterations.held_out(problem, part)
    solution = fit(training, None if limit is None else 0.5 * limit, (*callbacks, held), max_iter=most)
    if (solution.status in ("stopped", "interrupted") and not held.has_ended) or not solution.is_answered:
        return replace(problem.model_of(solution), options=options.to_json()), solution
    more_would_help = solution.status == "converged" and held.best == len(held.errors) - 1
    left = None if limit is None else max(limit - (time.perf_counter() - began), 1e-3)
    solution = fit(
        problem, left, callbacks, max_iter=most if more_would_help else max(1, held.best), checkpoint=checkpoint
    )
    solution = iterations.chosen(solution, held)
    return replace(problem.model_of(solution), options=options.to_json()), solution


def _calibrated(
    problem: Problem, options: LeastSquaresOptions, callbacks: tuple[Callback, ...], checkpoint: Checkpoint | None
) -> tuple[CalibratedModel, Any]:
    engine, encoded = problem.objective.engine, problem.encoded
    basis = functions(options.calibration)
    onto = "cube" if encoded.is_multilabel or encoded.n_columns == 1 else "simplex"
    if checkpoint is not None:
        names = options.calibration if isinstance(options.calibration, str) else len(basis)
        facts = {"calibration": names, "alpha": float(options.alpha), "fit_intercept": bool(options.fit_intercept)}
        checkpoint.match({"solver": "calibrated", **facts, **of_rows(engine)})
    found = calibrated.solve(
        engine, alpha=options.alpha, basis=basis, onto=onto, fit_intercept=options.fit_intercept,
        max_iter=50 if options.max_iter is None else options.max_iter, max_time=options.max_time, callbacks=callbacks,
        checkpoint=checkpoint,
    )  # fmt: skip
    model = CalibratedModel(
        found.weights, found.intercepts, found.maps, basis, onto, encoded.classes, encoded.is_multilabel,
        options=options.to_json(), certificate=found.certificate, status=found.status,
    )  # fmt: skip
    return model, found
