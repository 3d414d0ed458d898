"""From labelled rows to a model: the one path that the estimators and the command line share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal import losses, solvers
from lineal.core.inputs import checked_numbers
from lineal.core.row_sparse import smaller
from lineal.core.threads import blas_limit, thread_count
from lineal.data.dataset import Dataset
from lineal.design import Design, wrap
from lineal.engine.base import Engine
from lineal.engine.local import LocalEngine
from lineal.engine.source import Source
from lineal.errors import DataError, OptionError
from lineal.linear import decisions, thresholds
from lineal.linear.finish import finished, held_out_folds
from lineal.linear.model import Model
from lineal.linear.options import COSTS, THRESHOLDS, TrainOptions
from lineal.linear.voting import VotingModel
from lineal.linear.warm import WarmUp
from lineal.penalties.regulariser import Regulariser
from lineal.problem.checkpoint import Checkpoint, checkpoint_of
from lineal.problem.encoder import EncodedElsewhere, gathered_weights, survey_of
from lineal.problem.minimise import minimise
from lineal.problem.monitor import ENDED, Callback, checked_callbacks
from lineal.problem.objective import Objective
from lineal.problem.progress import Progress
from lineal.problem.row_weights import checked_weights, class_factors, row_weights
from lineal.problem.solution import Solution
from lineal.problem.targets import Encoded, encode
from lineal.problem.used_columns import narrowed
from lineal.system import memory


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
    checkpoint = checkpoint_of(options.checked())
    problem = prepare(X, y, options, sample_weight=sample_weight, offsets=offsets, class_names=class_names)
    return fit_problem(problem, start=start, callbacks=checked_callbacks(callbacks), checkpoint=checkpoint)


def fit_rows(
    rows: Source | Dataset, options: TrainOptions, *, start: Model | None = None, callbacks: Iterable[Callback] = ()
) -> tuple[Model, Solution]:
    """`fit` to rows of files or of a cluster (see `lineal.linear.rows`)."""
    if isinstance(rows, Dataset):
        return fit(
            rows.X, labels_of(rows), options, sample_weight=rows.weights, class_names=rows.class_names, start=start,
            callbacks=callbacks,
        )  # fmt: skip
    callbacks, checkpoint = checked_callbacks(callbacks), checkpoint_of(options.checked())
    return fit_problem(prepare_source(rows, options), start=start, callbacks=callbacks, checkpoint=checkpoint)


def labels_of(rows: Dataset) -> Any:
    """Labels of a dataset, or an error if it has none."""
    if rows.y is None:
        raise DataError("the files have no labels: name the label column of a table with label=")
    return rows.y


def fit_problem(
    problem: Problem,
    *,
    start: Model | None = None,
    callbacks: tuple[Callback, ...] = (),
    checkpoint: Checkpoint | None = None,
) -> tuple[Model, Solution]:
    """`fit` to rows that any engine holds; `checkpoint` is `checkpoint_of` the options.

    What comes after the main fit is not part of the checkpoint: it is done again.
    """
    options, folds = problem.options, held_out_folds(problem)
    limit = options.max_time
    with blas_threads(problem), shown_progress(problem, options.verbose, options.tol) as progress:
        solution = problem.solve(
            max_time=limit if folds is None or limit is None else 0.5 * limit,
            callbacks=(*progress.callbacks, *callbacks),
            start=_start(start, problem.objective, problem.encoded),
            checkpoint=checkpoint,
        )
        deadline = None if limit is None else time.perf_counter() + limit - solution.history[-1]["seconds"]
        model, solution = finished(problem, folds, solution, deadline)
    if checkpoint is not None and solution.status in ENDED:
        checkpoint.remove()
    return model, solution


@contextmanager
def shown_progress(problem: Problem, verbose: int, tol: float) -> Iterator[Progress]:
    """Progress of a fit, with what there is to say about those who hold the rows."""
    engine = problem.objective.engine
    with Progress(verbose, tol, engine.remark) as progress:
        engine.notify(progress.note)
        try:
            yield progress
        finally:
            engine.notify(None)


@dataclass(frozen=True)
class Problem:
    """What there is to minimise, with the meaning of its columns.

    `factors` are those of the class weights in the weights of the rows, if there are any.
    """

    objective: Objective
    encoded: Encoded
    options: TrainOptions
    factors: np.ndarray | None = None

    def row_weights(self) -> np.ndarray:
        """Weights of all rows, (n,), which add up to one."""
        engine = self.objective.engine
        return engine.weights if isinstance(engine, LocalEngine) else gathered_weights(engine)

    def solve(
        self,
        *,
        max_time: float | None = None,
        callbacks: Iterable[Callback] = (),
        start: np.ndarray | Solution | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Solution:
        """The answer of the solver, by the options."""
        narrow = narrowed(self.objective)
        inside = self.objective if narrow is None else narrow.inside
        solver, why = solvers.plan(self.options.solver, inside, self.options.tol)
        solvers.check_memory(solver, inside)
        solution = minimise(
            solver,
            self.objective,
            tol=self.options.tol,
            max_iter=int(self.options.max_iter),
            max_time=max_time,
            callbacks=callbacks,
            start=start,
            n_jobs=self.options.n_jobs,
            seed=self.options.random_state or 0,
            checkpoint=checkpoint,
            **(self.options.solver_options or {}),
        )
        return replace(solution, choice=why) if why else solution

    def with_alpha(self, alpha: float) -> Problem:
        """This problem with another strength of the penalty."""
        return replace(
            self, objective=self.objective.with_alpha(alpha), options=replace(self.options, alpha=float(alpha))
        )

    def with_weights(self, weights: np.ndarray) -> Problem:
        """This problem with other weights of the rows, which add up to one; the rows are not copied."""
        engine = self.objective.engine.with_weights(weights)
        return replace(self, objective=replace(self.objective, engine=engine))

    @property
    def threshold(self) -> str:
        """Name of the rule by which scores become labels."""
        return thresholds.chosen(self.options.rule, self.objective.loss.name, self.encoded.is_multilabel)

    def model_of(self, solution: Solution) -> Model:
        """The answer as a model, its weights in the form that takes fewer bytes; without what needs held-out scores."""
        model = Model(
            weights=smaller(solution.weights),
            intercept=solution.intercept,
            classes=self.encoded.classes,
            loss=self.objective.loss.name,
            is_multilabel=self.encoded.is_multilabel,
            thresholds=self._learned_threshold(solution),
            options=self.options.to_json(),
            certificate=solution.certificate,
            status=solution.status,
            solver=solution.took,
        )
        return model if solution.members is None else VotingModel.of(model, solution.members)

    def _learned_threshold(self, solution: Solution) -> np.ndarray | None:
        if self.threshold != "learned" or not solution.is_answered:
            return None
        is_ranking = self.objective.loss.name in thresholds.RANKING
        return thresholds.of_training(self.objective.engine, solution, is_ranking)


def prepare(
    X: Any,
    y: Any,
    options: TrainOptions,
    *,
    sample_weight: Any = None,
    offsets: Any = None,
    class_names: list[Any] | None = None,
) -> Problem:
    """Labels encoded, rows wrapped, options checked: all that comes before the solver. X is not copied."""
    options = options.checked()
    loss = losses.get(options.loss)
    solvers.choose(options.solver, loss, options.get_penalty())  # refuses early what no solver can honour
    encoded = encode(y, direct=loss.is_direct, class_names=class_names)
    _check_labels(encoded.is_multilabel, encoded.classes, loss, options)
    design = wrap(X)
    n = design.shape[0]
    weights = row_weights(sample_weight, options.class_weight, encoded, n)
    problem = assemble(design, encoded, weights, options, _offsets(offsets, n, encoded, design.dtype))
    if options.class_weight is None or problem.threshold not in decisions.RULES:
        return problem
    numbers, k = encoded.class_numbers, len(encoded.classes)
    shares = checked_weights(sample_weight, n)
    sums = np.bincount(numbers, shares / shares.max(), k)
    return replace(problem, factors=class_factors(options.class_weight, encoded.classes, sums))


def _check_labels(is_multilabel: bool, classes: np.ndarray, loss: Any, options: TrainOptions) -> None:
    """Refuse options that do not suit the kind of labels."""
    if is_multilabel and not loss.takes_label_sets:
        able = [name for name in losses.names() if losses.get(name).takes_label_sets]
        raise OptionError(f"loss {loss.name!r} takes one label per row, and y has label sets: use {', '.join(able)}")
    rule = options.rule
    if rule in THRESHOLDS and not is_multilabel:
        raise OptionError(
            f"{options.shown_threshold} is for label sets, and y has one label per row: use 'f1', 'balanced' or a "
            "matrix of costs, or leave it out"
        )
    if rule in decisions.RULES and is_multilabel:
        raise OptionError(
            f"{options.shown_threshold} is for one label per row, and y has label sets: use 'global' for the best "
            "micro F1, 'per_label' for the best F1 of each label, or leave it out"
        )
    if rule == COSTS and len(costs := options.costs()) != len(classes):
        raise OptionError(
            f"threshold=… has costs of {len(costs)} classes, and y has {len(classes)}: give one row per true and one "
            f"column per predicted class, in their order: {', '.join(map(repr, classes.tolist()[:10]))}"
        )
    if options.has_votes and thresholds.chosen(rule, loss.name, is_multilabel) != "zero":
        raise OptionError(
            f"loss {loss.name!r} orders the labels of a row, and its threshold is learned from scores, which votes are "
            "not: use combine='mean'"
        )


def prepare_source(source: Source, options: TrainOptions) -> Problem:
    """The same for rows in files or on a cluster: every part is looked at once, and X stays where it is."""
    options = options.checked()
    loss = losses.get(options.loss)
    solvers.choose(options.solver, loss, options.get_penalty())
    survey = survey_of(source)
    columns = survey.labels.columns(direct=loss.is_direct, class_names=source.class_names)
    _check_labels(columns.is_multilabel, columns.classes, loss, options)
    encoder = survey.encoder(columns, options.class_weight)
    engine = source.engine(encoder, columns.n_columns, thread_count(options.n_jobs))
    _check_parameters(engine)
    problem = replace(problem_on(engine, EncodedElsewhere(engine, columns), options), factors=encoder.factors)
    solver, _ = solvers.plan(options.solver, problem.objective, options.tol)
    (_, d), k = engine.shape, columns.n_columns
    for stage in solver.stages or (solver,):
        used = replace(options, solver=stage.name)
        engine.warm_up(WarmUp(used, k, columns.is_multilabel, d, engine.dtype, engine.is_dense))
    return problem


def _check_parameters(engine: Engine) -> None:
    """Refuse parameters that do not fit into memory, with any solver."""
    k = engine.n_columns
    memory.check_fit("any solver", (24 * k + 16) * engine.shape[1], engine.shape, k)


def assemble(
    design: Design, encoded: Encoded, weights: np.ndarray, options: TrainOptions, offsets: np.ndarray | None = None
) -> Problem:
    """The problem of wrapped rows, encoded labels and weights that add up to one, by options that were checked."""
    threads = thread_count(options.n_jobs)
    engine = LocalEngine(design, encoded.targets, weights, encoded.n_columns, offsets, threads)
    _check_parameters(engine)
    return problem_on(engine, encoded, options)


def problem_on(engine: Engine, encoded: Encoded, options: TrainOptions) -> Problem:
    """The problem of rows that an engine holds, with these labels, by options that were checked."""
    return Problem(objective_on(engine, options), encoded, options)


def objective_on(engine: Engine, options: TrainOptions) -> Objective:
    """The objective on rows that an engine holds, by options that were checked."""
    regulariser = Regulariser(
        options.get_penalty(), options.alpha, engine.shape[1], options.penalty_factors, options.feature_groups
    )
    return Objective(engine, losses.get(options.loss), regulariser, bool(options.fit_intercept))


def blas_threads(problem: Problem) -> AbstractContextManager[Any]:
    """Threads of dense products. Sparse rows need BLAS for small matrices and short vectors only: one is enough."""
    return blas_limit(thread_count(problem.options.n_jobs) if problem.objective.engine.is_dense else 1)


def _offsets(offsets: Any, n: int, encoded: Encoded, dtype: Any) -> np.ndarray | None:
    if offsets is None:
        return None
    offsets = checked_numbers(offsets, "offsets")
    try:
        with np.errstate(over="ignore"):  # too large for the precision of X: refused below
            found = np.asarray(offsets.toarray() if sparse.issparse(offsets) else offsets, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise DataError(f"offsets must be numbers: {error}") from None
    if found.ndim == 1:
        found = found[:, None]
    if found.shape != (n, encoded.n_columns):
        raise DataError(f"offsets have shape {found.shape}, expected ({n}, {encoded.n_columns}): one per row and score")
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise DataError(f"offsets of row {row} have {found[row, column]} in column {column}: they must be finite")
    return np.ascontiguousarray(found)


def _start(model: Model | None, objective: Objective, encoded: Encoded) -> np.ndarray | None:
    if model is None:
        return None
    if model.weights.shape != (objective.engine.shape[1], encoded.n_columns) or not np.array_equal(
        model.classes, encoded.classes
    ):
        return None  # another problem: start anew
    theta = np.zeros(objective.shape, np.result_type(model.dtype, model.intercept.dtype))
    theta[: len(model.weights)] = np.asarray(model.weights)
    if objective.fit_intercept:
        theta[-1] = model.intercept
    return theta
