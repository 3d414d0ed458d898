"""From labelled rows to a model of (generalized or calibrated) least squares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from lineal import memory
from lineal.calibrated_model import CalibratedModel
from lineal.data.options import option
from lineal.errors import OptionError, unknown_value
from lineal.fit import Problem, blas_threads, checked_callbacks, prepare
from lineal.links import Link, LinkObjective
from lineal.model import Model
from lineal.options import Options, TrainOptions
from lineal.progress import Progress
from lineal.solution import Solution
from lineal.solvers import calibrated, least_squares
from lineal.solvers.parts.basis import functions
from lineal.solvers.parts.monitor import Callback
from lineal.targets import zeros_and_ones

LINKS = ("softmax", "sigmoid", "identity")

#: By the option `accelerated`.
METHODS = {False: "plain", True: "accelerated", "quasi_newton": "quasi_newton"}


@dataclass(frozen=True)
class LeastSquaresOptions(Options):
    """How a model of least squares is trained."""

    link: Any = option(  # noqa: RUF009
        None, f"link of scores and expected labels: {', '.join(LINKS)}, or a lineal.Link; None means softmax, which is "
        "the sigmoid for two classes and for label sets (identity with calibration)",
    )  # fmt: skip
    calibration: Any = option(  # noqa: RUF009
        None, "learn the link: 'polynomial' for y, y^2 and y^3, or a list of functions of (n, k) predictions",
    )  # fmt: skip
    accelerated: bool | str = option(
        "quasi_newton", "how the matrix is used: quasi_newton, True for Nesterov's momentum, False for plain steps"
    )
    alpha: float = option(1e-6, "ridge, alpha/2 times the squares of the weights beside the mean loss")
    tol: float | None = option(None, "stop at this relative duality gap; None means 1e-3. Calibrated fits have none")
    fit_intercept: bool = option(True, "fit an intercept; it is never penalised")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of weights of the classes")  # noqa: RUF009
    max_iter: int | None = option(None, "iterations at most; None means 1000, and 50 for calibrated fits")
    max_time: float | None = option(None, "seconds at most; the best model so far is kept")
    n_jobs: int | None = option(None, "threads; None or -1 means all cores")
    verbose: int = option(0, "1 shows progress: a bar on a terminal, lines elsewhere")

    def checked(self) -> LeastSquaresOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        if not isinstance(self.link, Link) and self.link not in (None, *LINKS):
            raise unknown_value("link", self.link, LINKS)
        if type(self.accelerated) not in (bool, str) or self.accelerated not in METHODS:
            raise OptionError(f"accelerated={self.accelerated!r} is none of True, False and 'quasi_newton'")
        if self.calibration is not None:
            functions(self.calibration)
            if self.link not in (None, "identity"):
                raise OptionError(f"calibration learns the link, and link={self.link!r} fixes it: leave out one of them")
            if self.tol is not None:
                raise OptionError(
                    f"tol={self.tol!r} with calibration: it minimises no convex objective, and ends when an iteration "
                    f"gains less than {calibrated.MIN_GAIN:g} of the mean squared error; leave out tol"
                )
            if self.accelerated != "quasi_newton":
                raise OptionError("accelerated has no meaning with calibration, which solves its systems exactly")
        self.need_common("alpha", "max_time")
        for name in ("tol", "max_iter"):
            if getattr(self, name) is not None:
                self.need_common(name)
        self.need_flags("fit_intercept")
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self


def fit_least_squares(
    X: Any,
    y: Any,
    options: LeastSquaresOptions,
    *,
    sample_weight: Any = None,
    class_names: list[Any] | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[Model | CalibratedModel, Any]:
    """Train on X (dense or sparse) and labels y: the model, and how it came about (`Solution` or `Calibrated`)."""
    options = options.checked()
    problem = _problem(X, y, options, sample_weight, class_names)
    callbacks = checked_callbacks(callbacks)
    (n, d), k = problem.objective.engine.shape, problem.encoded.n_columns
    size = problem.objective.engine.dtype.itemsize
    memory.check_fit("least_squares", least_squares.memory(n, d, k, size) + 3 * n * k * size, (n, d), k)
    tol = 1e-3 if options.tol is None else options.tol
    with blas_threads(problem), Progress(options.verbose, tol) as progress:
        shown = (*progress.callbacks, *callbacks)
        if options.calibration is not None:
            return _calibrated(problem, options, shown)
        return _generalized(problem, options, tol, shown)


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
        return replace(problem, objective=LinkObjective.of(problem.objective, link))
    if link == "softmax":
        problem = of("logistic")
        return of("softmax") if problem.encoded.n_columns > 1 and not problem.encoded.is_multilabel else problem
    return of({"identity": "squared", "sigmoid": "logistic"}[link])


def _generalized(
    problem: Problem, options: LeastSquaresOptions, tol: float, callbacks: tuple[Callback, ...]
) -> tuple[Model, Solution]:
    method = METHODS[options.accelerated]
    if isinstance(problem.objective, LinkObjective) and method == "quasi_newton":
        method = "accelerated" if options.link.potential is None else method  # a line search needs values
    solution = least_squares.solve(
        problem.objective, tol=tol, max_iter=1000 if options.max_iter is None else options.max_iter,
        max_time=options.max_time, callbacks=callbacks, n_jobs=options.n_jobs, method=method,
    )  # fmt: skip
    return replace(problem.model_of(solution), options=options.to_json()), solution


def _calibrated(
    problem: Problem, options: LeastSquaresOptions, callbacks: tuple[Callback, ...]
) -> tuple[CalibratedModel, Any]:
    engine, encoded = problem.objective.engine, problem.encoded
    basis = functions(options.calibration)
    onto = "cube" if encoded.is_multilabel or encoded.n_columns == 1 else "simplex"
    found = calibrated.solve(
        engine.X, zeros_and_ones(encoded, engine.dtype), engine.weights, alpha=options.alpha, basis=basis, onto=onto,  # type: ignore[attr-defined]
        fit_intercept=options.fit_intercept, max_iter=50 if options.max_iter is None else options.max_iter,
        max_time=options.max_time, callbacks=callbacks, n_jobs=options.n_jobs,
    )  # fmt: skip
    model = CalibratedModel(
        found.weights, found.intercepts, found.maps, basis, onto, encoded.classes, encoded.is_multilabel,
        options=options.to_json(), certificate=found.certificate, status=found.status,
    )  # fmt: skip
    return model, found
