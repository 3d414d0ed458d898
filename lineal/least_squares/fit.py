"""From labelled rows to a model of (generalised or calibrated) least squares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lineal.design.narrow import wrap_any
from lineal.errors import OptionError
from lineal.least_squares.links import Link, LinkObjective
from lineal.least_squares.model import CalibratedModel
from lineal.least_squares.options import METHODS, LeastSquaresOptions
from lineal.linear.fit import Problem, blas_threads, prepare
from lineal.linear.model import Model
from lineal.linear.options import TrainOptions
from lineal.numerics.basis import functions
from lineal.problem.checkpoint import Checkpoint, checkpoint_of
from lineal.problem.fingerprint import of_rows
from lineal.problem.minimise import minimise
from lineal.problem.monitor import ENDED, Callback, checked_callbacks
from lineal.problem.progress import Progress
from lineal.problem.solution import Solution
from lineal.solvers import calibrated, least_squares
from lineal.system import memory


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
    checkpoint = checkpoint_of(options)
    problem = _problem(wrap_any(X), y, options, sample_weight, class_names)
    callbacks = checked_callbacks(callbacks)
    (n, d), k = problem.objective.engine.shape, problem.encoded.n_columns
    size = problem.objective.engine.dtype.itemsize
    memory.check_fit("least_squares", least_squares.memory(n, d, k, size) + 3 * n * k * size, (n, d), k)
    tol = 1e-3 if options.tol is None else options.tol
    with blas_threads(problem), Progress(options.verbose, tol) as progress:
        shown = (*progress.callbacks, *callbacks)
        model: Model | CalibratedModel
        if options.calibration is not None:
            model, fitted = _calibrated(problem, options, shown, checkpoint)
        else:
            model, fitted = _generalised(problem, options, tol, shown, checkpoint)
    if checkpoint is not None and fitted.status in ENDED:
        checkpoint.remove()
    return model, fitted


def _problem(X: Any, y: Any, options: LeastSquaresOptions, sample_weight: Any, class_names: Any) -> Problem:
    shared = TrainOptions(
        alpha=options.alpha, fit_intercept=options.fit_intercept, class_weight=options.class_weight,
        n_jobs=options.n_jobs, solver="least_squares",
    )  # fmt: skip
    link = options.link if options.link is not None else "softmax" if options.calibration is None else "identity"

    def of(loss: str) -> Problem:
        return prepare(X, y, replace(shared, loss=loss), sample_weight=sample_weight, class_names=class_names)

    if isinstance(link, Link):
        problem = of("squared")
        _check_border(link, problem)
        return replace(problem, objective=LinkObjective.of(problem.objective, link))
    if link == "softmax":
        problem = of("logistic")
        return of("softmax") if problem.encoded.n_columns > 1 and not problem.encoded.is_multilabel else problem
    return of({"identity": "squared", "sigmoid": "logistic"}[link])


def _check_border(link: Link, problem: Problem) -> None:
    """Refuse a link by which two classes, or a label, would not be as likely as not where scores are zero."""
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
    method = METHODS[options.accelerated]
    if isinstance(problem.objective, LinkObjective) and method == "quasi_newton":
        method = "accelerated" if options.link.potential is None else method  # a line search needs values
    solution = minimise(
        least_squares.solve, problem.objective, tol=tol, max_time=options.max_time, callbacks=callbacks,
        max_iter=1000 if options.max_iter is None else options.max_iter, n_jobs=options.n_jobs, method=method,
        checkpoint=checkpoint,
    )  # fmt: skip
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
