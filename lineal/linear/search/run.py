"""A search for α: the path on all rows and on every fold, side by side, from the largest α to the smallest.

At each α every fold is fitted from its own last solution, then all rows from theirs: whenever the search ends, by its
options, by `max_time` or by Ctrl-C, the model of the best α so far exists already. Labels are encoded and X is wrapped
once; a fold is the same rows with other weights, so that nothing of X is copied.

Memory: for each fold one solution (d·k, and n·k with a solver that has dual variables) and n weights; the solutions to
all rows at every α while they are at most `PATH_BYTES`, else that of the α in the lead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lineal.data.dataset import Dataset
from lineal.engine.source import Source
from lineal.errors import DataError, OptionError, Unanswered
from lineal.linear.finish import finished, held_out_folds
from lineal.linear.fit import Problem, blas_threads, labels_of, prepare, prepare_source
from lineal.linear.folds import Fold, from_pairs, stratified
from lineal.linear.model import Model
from lineal.linear.options import TrainOptions
from lineal.linear.search import alphas as strengths
from lineal.linear.search import measures
from lineal.linear.search import scan as scans
from lineal.linear.search.options import WITHIN, PathOptions
from lineal.linear.search.result import Search, choose
from lineal.problem.budget import Budget
from lineal.problem.encoder import sample_weights_of
from lineal.problem.monitor import Callback, Monitor, checked_callbacks
from lineal.problem.progress import Steps
from lineal.problem.row_weights import row_weights
from lineal.problem.solution import Solution

#: Bytes of solutions that are kept, so that the one chosen in the end need not be fitted again.
PATH_BYTES = 256 << 20

#: Steps that do not improve the score before the quick search ends.
QUICK_PATIENCE = 3

#: Seconds for fitting a model where the search was ended before it had any.
LAST_SECONDS = 1.0

#: Statuses of a fit that end the whole search.
ENDINGS = ("max_time", "interrupted", "stopped")


def search(
    X: Any,
    y: Any,
    options: TrainOptions,
    path_options: PathOptions,
    *,
    sample_weight: Any = None,
    offsets: Any = None,
    class_names: list[Any] | None = None,
    folds: Any = None,
    scorer: measures.Scorer | None = None,
    keep_path: bool = False,
    callbacks: Iterable[Callback] = (),
) -> tuple[Model, Solution, Search]:
    """Choose α by cross-validation: the model of all rows at that α, its solution, and the search.

    `options.alpha` is not used. `folds` are pairs (training rows, held-out rows), by default made by
    `path_options.folds`; `scorer` takes the place of the measure in `path_options.scoring`. `options.max_time` holds
    for the whole search.
    """
    path_options = path_options.checked()
    callbacks = checked_callbacks(callbacks)
    problem = prepare(X, y, options, sample_weight=sample_weight, offsets=offsets, class_names=class_names)
    return search_problem(
        problem, path_options, sample_weight=sample_weight, folds=folds, scorer=scorer, keep_path=keep_path,
        callbacks=callbacks,
    )  # fmt: skip


def search_rows(
    rows: Source | Dataset,
    options: TrainOptions,
    path_options: PathOptions,
    *,
    keep_path: bool = False,
    callbacks: Iterable[Callback] = (),
) -> tuple[Model, Solution, Search]:
    """`search` on rows of files or of a cluster (see `lineal.linear.rows`).

    Labels and weights of all rows are gathered, to deal the rows to folds.
    """
    if isinstance(rows, Dataset):
        return search(
            rows.X, labels_of(rows), options, path_options, sample_weight=rows.weights, class_names=rows.class_names,
            keep_path=keep_path, callbacks=callbacks,
        )  # fmt: skip
    path_options, callbacks = path_options.checked(), checked_callbacks(callbacks)
    problem, weights = prepare_source(rows, options), sample_weights_of(rows)
    return search_problem(problem, path_options, sample_weight=weights, keep_path=keep_path, callbacks=callbacks)


def search_problem(
    problem: Problem,
    path_options: PathOptions,
    *,
    sample_weight: Any = None,
    folds: Any = None,
    scorer: measures.Scorer | None = None,
    keep_path: bool = False,
    callbacks: tuple[Callback, ...] = (),
) -> tuple[Model, Solution, Search]:
    """`search` on rows that any engine holds. `sample_weight` are those of the problem, without class weights."""
    options = problem.options
    if options.checkpoint is not None:
        raise OptionError(
            "checkpoint is for one fit, and a search for alpha makes many: leave it out, or fit with a given alpha"
        )
    n = problem.objective.engine.shape[0]
    seed = options.random_state or 0
    if folds is None:
        parts = stratified(problem.encoded, n, int(path_options.folds), seed)
    else:
        parts = from_pairs(folds, problem.encoded, n)
    given = None if folds is None else parts
    held_out_folds(problem, given)  # refuses early what cannot be learnt from held-out rows
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    with np.errstate(over="ignore"):
        total_weight = float(n if weights is None else weights.sum())
    if not np.isfinite(total_weight):
        raise DataError("sample_weight adds up to more than a floating-point number can hold: divide the weights")
    if scorer is None:
        name = path_options.scoring or measures.default(problem.threshold)
        engine, encoded = problem.objective.engine, problem.encoded
        scorer = measures.HeldOut(name, engine, encoded, options.loss, weights, problem.threshold)
    with ExitStack() as stack:
        stack.enter_context(blas_threads(problem))
        run = _Run(problem, path_options, _lanes(problem, parts, weights), scorer, callbacks, keep_path, given)
        run.monitor = stack.enter_context(Monitor(Budget(max_time=options.max_time)))
        run.steps = stack.enter_context(Steps(options.verbose, "searching", 1))
        run.go(run.find_alphas(total_weight))
        run.extend()
        return run.finish()


@dataclass
class _Lane:
    """One path: its problem at the current α, the rows that score it, and its last solution."""

    problem: Problem
    held: np.ndarray | None
    last: Solution | None = None


def _lanes(problem: Problem, folds: list[Fold], sample_weight: np.ndarray | None) -> list[_Lane]:
    """Lanes: one per fold, and one for all rows at the end."""
    lanes = []
    n = problem.objective.engine.shape[0]
    for number, fold in enumerate(folds):
        rows = fold.counts(n) if sample_weight is None else sample_weight * fold.counts(n)
        try:
            weights = row_weights(rows, problem.options.class_weight, problem.encoded, n)
        except DataError as error:
            raise DataError(f"fold {number}: {error}") from None
        lanes.append(_Lane(problem.with_weights(weights), fold.held))
    return [*lanes, _Lane(problem, None)]


@dataclass
class _Run:
    """The state of a search."""

    problem: Problem
    options: PathOptions
    lanes: list[_Lane]
    scorer: measures.Scorer
    callbacks: tuple[Callback, ...]
    keep_path: bool
    given: list[Fold] | None = None
    monitor: Any = None
    steps: Any = None
    alphas: list[float] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    solutions: dict[int, Solution] = field(default_factory=dict)
    # Of fits to all rows, by position: certificate, number of non-zero weights, number of features with any.
    ends: dict[int, tuple[Any, int, int]] = field(default_factory=dict)
    alpha_max: float | None = None
    constant: np.ndarray | None = None  # where the paths of a sparse penalty start
    missed: int = 0
    status: str = "complete"
    scanned: float | None = None  # the best α of the scan
    is_natural: bool = False  # whether the path starts where the model is constant, or almost so

    def find_alphas(self, total_weight: float) -> np.ndarray:
        """The strengths to try, from the largest to the smallest.

        Where all weights are zero from some α on, the model without features is made first, with its best intercept:
        a path that begins there has its first answer at once.
        """
        objective, options, start = self.problem.objective, self.options, None
        if strengths.has_critical_alpha(objective):
            constant = strengths.constant_model(objective)
            start = self.alpha_max = strengths.largest_alpha(objective, constant)
            self.constant = constant.astype(objective.engine.dtype)
        alphas = options.given_alphas()
        if alphas is not None:
            return alphas
        first, quick = strengths.largest_alpha(objective) if start is None else start, options.search == "quick"
        if quick or (start is None and options.alpha_min_ratio is None and int(options.n_alphas) > 1):
            typical = strengths.typical_alpha(objective, self.constant)
            best = self._scan(first, typical, strengths.least_alpha(total_weight))
            if best is None:
                return np.empty(0)
            self.scanned, above = best, scans.ABOVE_QUICK if quick else scans.ABOVE
            start = min(first, best * above)
        self.is_natural = start is None or start == first
        if quick:
            return strengths.quick_alphas(objective, total_weight, start)
        return strengths.path_alphas(objective, int(options.n_alphas), options.alpha_min_ratio, start)

    def _scan(self, first: float, typical: float, least: float) -> float | None:
        """The best α of a scan on the first fold; None where it has ended the search."""
        lane = self.lanes[0]
        assert lane.held is not None
        loose = replace(lane.problem.options, tol=max(scans.TOL, lane.problem.options.tol))
        trial, held = _Lane(replace(lane.problem, options=loose), lane.held), lane.held

        def score_at(alpha: float) -> float | str:
            ending = self.monitor.must_end(0)
            if ending is not None:
                return str(ending)
            self.steps.note(f"scanning alpha {alpha:.3g}")
            trial.problem = trial.problem.with_alpha(alpha)
            try:
                trial.last = self._solve(trial)
            except Unanswered:
                return "max_time"
            if trial.last.status in ENDINGS:
                return trial.last.status
            return float(self.scorer(trial.problem.model_of(trial.last), held))

        found = scans.scan(first, typical, least, score_at, self.scorer.greater_is_better)
        if found.status is None:
            return found.best
        self.alphas, self.seconds = [first if found.best is None else found.best], [self.monitor.seconds]
        self.scores = [np.full(len(self.lanes) - 1, np.nan)]
        self.status = self._end(0, found.status)
        return None

    def go(self, tried: np.ndarray, before: int = 0) -> None:
        """Fit and score one α after the other, until there are no more or something ends the search."""
        quick, total = self.options.search == "quick", before + len(tried)
        self.steps.expect(total * (len(self.lanes) - self._is_fitted_last))
        for position, alpha in enumerate(tried.tolist(), before):
            began = time.perf_counter()
            self.alphas.append(alpha)
            self.scores.append(np.full(len(self.lanes) - 1, np.nan))
            try:
                ending = self._one_alpha(position, alpha, total)
            except Unanswered:  # by workers, although the time is over
                if not self.solutions:
                    raise
                ending = "max_time"
            self.seconds.append(time.perf_counter() - began)
            if ending is not None:
                self.status = ending
                return
            if quick and self._has_passed_the_best():
                return

    def extend(self) -> None:
        """Go on below the last α while it has the best score, to at most twice as many strengths."""
        options = self.options
        if options.search == "quick" or not options.is_open or len(self.alphas) < 2:
            return
        factor = self.alphas[-1] / self.alphas[-2]
        for position in range(len(self.alphas), 2 * len(self.alphas)):
            if self.status != "complete" or self._choose()[0] != position - 1:
                return
            self.go(np.array([self.alphas[-1] * factor]), position)

    @property
    def _is_fitted_last(self) -> bool:
        """Whether all rows are fitted only at the chosen α: in a quick search, unless its models decide."""
        return self.options.search == "quick" and self.options.select != "smallest" and not self.keep_path

    def _one_alpha(self, position: int, alpha: float, total: int) -> str | None:
        for number, lane in enumerate(self.lanes):
            if lane.held is None and self._is_fitted_last:
                return None
            ending = self.monitor.must_end(0)
            if ending is not None and lane.held is not None:
                return self._end(position, ending)
            name = f"fold {number + 1} of {len(self.lanes) - 1}" if lane.held is not None else "all rows"
            self.steps.step(f"alpha {alpha:.3g} ({position + 1} of {total}), {name}")
            lane.problem = lane.problem.with_alpha(alpha)
            solution = self._solve(lane)
            if solution.status in ENDINGS and lane.held is not None:
                return self._end(position, solution.status)
            lane.last = solution
            self.missed += solution.status != "converged"
            if lane.held is not None:
                score = float(self.scorer(lane.problem.model_of(solution), lane.held))
                self.scores[position][number] = score
            else:
                self._keep(position, solution)
                if solution.status in ENDINGS:
                    return solution.status
        return None

    def _solve(self, lane: _Lane) -> Solution:
        limit = self.problem.options.max_time
        left = None if limit is None else max(limit - self.monitor.seconds, 1e-3)
        start = self.constant if lane.last is None else lane.last
        return lane.problem.solve(max_time=left, callbacks=self.callbacks, start=start)

    def _end(self, position: int, status: str) -> str:
        """End the search; if it has no model yet, fit one to all rows as far as `LAST_SECONDS` allow."""
        lane = self.lanes[-1]
        if lane.last is None:
            position = self._choose()[1] if np.isfinite(np.array(self.scores)).all(axis=1).any() else position
            lane.problem = lane.problem.with_alpha(self.alphas[position])
            self._keep(position, lane.problem.solve(max_time=LAST_SECONDS))
        return status

    def _keep(self, position: int, solution: Solution) -> None:
        self.monitor.has_iterate = True
        W = solution.weights
        self.ends[position] = solution.certificate, int(np.count_nonzero(W)), int(np.count_nonzero(W.any(axis=1)))
        self.solutions[position] = replace(solution, dual_point=None)
        size = sum(kept.weights.nbytes for kept in self.solutions.values())
        if size > PATH_BYTES and not self.keep_path:
            leader = self._choose()[1]
            self.solutions = {i: kept for i, kept in self.solutions.items() if i in (leader, position)}

    def _choose(self) -> tuple[int, int]:
        within = WITHIN if self.options.within is None else float(self.options.within)
        sizes = [self.ends[i][2] if i in self.ends else -1 for i in range(len(self.alphas))]
        return choose(np.array(self.scores), self.scorer.greater_is_better, self.options.select, sizes, within)

    def _has_passed_the_best(self) -> bool:
        """Whether `QUICK_PATIENCE` strengths, all below the best one of the scan, have not improved the best score."""
        last = len(self.alphas) - 1
        since = last - self._choose()[0]
        below = sum(alpha < (self.scanned or 0.0) for alpha in self.alphas)
        return min(since, below) >= QUICK_PATIENCE

    def _edge(self, best: int) -> str | None:
        """The end of the path at which the best score stands, where a longer path might have a better one."""
        means, last = np.array(self.scores).mean(axis=1), len(self.alphas) - 1
        if self.status != "complete" or last == 0:
            return None
        if best == last:
            return "smallest"
        return "largest" if best == 0 and not self.is_natural and means[0] != means[1] else None

    def finish(self) -> tuple[Model, Solution, Search]:
        """Model at the selected α."""
        best, chosen = self._choose()
        problem = self.problem.with_alpha(self.alphas[chosen])
        if chosen not in self.solutions:
            above = [i for i in self.solutions if i < chosen]
            start = self.solutions[max(above)] if above else None
            self.solutions[chosen] = self._solve(_Lane(problem, None, start))
        solution = self.solutions[chosen]
        m = len(self.alphas)
        if chosen not in self.ends:
            self._keep(chosen, solution)
        ends = [self.ends.get(i, (None, -1, -1)) for i in range(m)]
        kept = [self.solutions.get(i) for i in range(m)]
        path = [None if one is None else (one.weights, one.intercept) for one in kept] if self.keep_path else None
        found = Search(
            np.array(self.alphas), np.array(self.scores), self.scorer.name, self.scorer.greater_is_better,
            np.array([nonzero for _, nonzero, _ in ends]), [certificate for certificate, _, _ in ends],
            np.array(self.seconds), best, chosen, self.missed, self.status,
            np.array([rows for _, _, rows in ends]), problem.objective.engine.shape[1], self.alpha_max, path,
            self._edge(best),
        )  # fmt: skip
        limit = self.problem.options.max_time
        folds = held_out_folds(problem, self.given) if self.status != "interrupted" else None
        deadline = None if limit is None else time.perf_counter() + limit - self.monitor.seconds
        return *finished(problem, folds, solution, deadline), found
