"""What is learnt after a fit, from scores of rows that were held out: probabilities and thresholds."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lineal.engine.overdue import asking
from lineal.errors import DataError, Unanswered
from lineal.linear import calibration, decisions, thresholds
from lineal.linear.folds import Fold
from lineal.linear.held_out import Dealt, Folds, Given, HeldOutScores, fold_numbers, held_out_scores
from lineal.linear.model import Model
from lineal.linear.options import COSTS, FBR
from lineal.problem.solution import Solution
from lineal.problem.targets import Encoded

if TYPE_CHECKING:
    from lineal.linear.fit import Problem

#: Rules that need held-out scores.
_RULES = (*thresholds.HELD_OUT, *decisions.RULES)


def held_out_folds(problem: Problem, given: list[Fold] | None = None) -> Folds | None:
    """The folds, `given` or dealt, for what is learnt from held-out scores; None where nothing is."""
    if _has_threshold(problem):
        what = problem.options.shown_threshold
    elif _has_slopes(problem):
        what = "probability=True"
    else:
        return None
    weights = problem.row_weights()
    if given is not None:
        folds = Given(given, weights)
        if problem.threshold in decisions.RULES:
            _check_classes(folds, problem.encoded, what)
        return folds
    return Dealt(fold_numbers(problem.encoded, weights, problem.options.random_state or 0, what))


def _check_classes(folds: Given, encoded: Encoded, what: str) -> None:
    """Refuse folds whose held-out rows have one class: they do not tell which decisions are good."""
    is_held = np.logical_or.reduce([folds.held(fold) for fold in range(len(folds))])
    numbers = encoded.class_numbers[is_held]
    if len(numbers) and (numbers == numbers[0]).all():
        label = encoded.classes[numbers[0]].tolist()
        raise DataError(
            f"{what} is chosen on rows that are held out, and all of them are of class {label!r}: give folds that "
            "hold out rows of other classes, too"
        )


def finished(
    problem: Problem, folds: Folds | None, solution: Solution, deadline: float | None
) -> tuple[Model, Solution]:
    """The model of a solution, with what is learnt from held-out scores; without it where a fit was ended by Ctrl-C.

    So it is where workers do not answer although the time is over.
    """
    if folds is None:
        return problem.model_of(solution), solution
    held = None
    if solution.status != "interrupted" and solution.is_answered:
        try:
            held = _scores(problem, folds, deadline)
        except Unanswered as error:
            message = f"{solution.message}; {error}"
            solution = replace(solution, status="max_time", message=message, is_answered=False)
    if held is not None:
        try:
            return _with_learnt(problem, problem.model_of(solution), held, deadline), solution
        except KeyboardInterrupt:
            held = None
    lost = _lost(problem)
    if solution.is_answered:
        solution = replace(solution, status="interrupted", message=f"interrupted before its {lost}")
    else:
        solution = replace(solution, message=f"{solution.message}; it ended before its {lost}")
    return problem.model_of(solution), solution


def _with_learnt(problem: Problem, model: Model, held: HeldOutScores, deadline: float | None) -> Model:
    """The model with what held-out scores tell."""
    if _has_slopes(problem):
        model = replace(model, calibration=calibration.slopes_of(held))
    if _has_threshold(problem):
        model = replace(model, thresholds=_thresholds(problem, held, lambda: _seconds_after(deadline) > 0.0))
    return model


def _has_threshold(problem: Problem) -> bool:
    return problem.threshold in _RULES


def _has_slopes(problem: Problem) -> bool:
    return problem.options.probability and calibration.is_needed(problem.objective.loss, problem.encoded)


def _scores(problem: Problem, folds: Folds, deadline: float | None) -> HeldOutScores | None:
    """Scores of the rows by fits that have not seen them; None if one was interrupted."""
    left = len(folds)

    def refit(weights: np.ndarray) -> Solution:
        nonlocal left
        seconds = None if deadline is None else max(deadline - time.perf_counter(), 0.0) / left + 1e-3
        left -= 1
        return problem.with_weights(weights).solve(max_time=seconds)

    room = calibration.MAX_SCORES
    if problem.threshold in decisions.RULES:
        room = decisions.room_for(problem.objective.engine.n_columns)
    elif _has_threshold(problem):
        room = thresholds.MAX_SCORES
    with asking(partial(_seconds_after, deadline)):
        return held_out_scores(problem.objective.engine, problem.row_weights(), folds, refit, room)


def _seconds_after(deadline: float | None) -> float:
    return 0.0 if deadline is None else max(0.0, time.perf_counter() - deadline)


def _thresholds(problem: Problem, held: HeldOutScores, is_over: decisions.IsOver) -> np.ndarray:
    """Thresholds by the rule. What decisions are worth does not count class weights, which are about the fit."""
    rule, options = problem.threshold, problem.options
    if rule not in decisions.RULES:
        return thresholds.of_held_out(rule, held, FBR if options.fbr is None else float(options.fbr))
    if problem.factors is not None:
        held = held._replace(weights=held.weights / problem.factors[held.labels])
    return decisions.of_held_out(rule, options.costs() if rule == COSTS else None, held, is_over)


def _lost(problem: Problem) -> str:
    """What a fit that ended too early does not have."""
    if not _has_threshold(problem):
        return "probabilities were calibrated: there are none"
    also = " and its probabilities calibrated" if _has_slopes(problem) else ""
    return f"thresholds were chosen{also}: it has none"
