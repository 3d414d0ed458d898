"""Rows on other machines that no longer answer, although the fit should have ended: it ends with what it has."""

from __future__ import annotations

import pkgutil
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_problem
from served_rows import ServedRows

from lineal import solvers
from lineal.engine import overdue
from lineal.errors import Unanswered
from lineal.least_squares.fit import fit_least_squares
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.fit import fit, prepare
from lineal.linear.options import TrainOptions
from lineal.linear.search.options import PathOptions
from lineal.linear.search.run import search
from lineal.problem.budget import Budget
from lineal.problem.minimise import minimise
from lineal.problem.monitor import Monitor
from lineal.stagewise.fit import fit_stagewise
from lineal.stagewise.options import StagewiseOptions

X, Y = random_problem(0, n=120)
X = X.toarray()


def silence(monkeypatch, name, calls):
    """Let a function raise the error of an engine that is not answered, after some calls."""
    function, made = pkgutil.resolve_name(name), []

    def silent(*given, **named):
        made.append(1)
        if len(made) > calls:
            raise Unanswered("no answer from worker a")
        return function(*given, **named)

    monkeypatch.setattr(name.replace(":", "."), silent)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_best_iterate_is_the_solution(shift):
    objective = prepare(X + shift, Y, TrainOptions(loss="softmax", alpha=1e-2)).objective
    state = {"answers": True}

    class Silent(ServedRows):
        def gather(self, step, *arguments, states=()):
            if not state["answers"]:
                raise Unanswered("no answer from worker a")
            return super().gather(step, *arguments, states=states)

    def silence_at_two(snapshot):
        state["answers"] = snapshot.iteration < 2

    remote = replace(objective, engine=Silent(objective.engine, (50, 70)))
    found = minimise(solvers.get("lbfgs"), remote, tol=1e-9, callbacks=[silence_at_two])
    assert (found.status, found.is_answered, found.history[-1]["iteration"]) == ("max_time", False, 2)
    assert "stopped by max_time: no answer from worker a; this is the best model so far" in found.message
    theta = np.vstack([found.weights, found.intercept[None, :]]).astype(np.float64)
    assert found.certificate.primal == pytest.approx(objective.value(theta), rel=1e-6)
    assert (found.certificate.value, found.certificate.dual) == (1.0, None)
    with pytest.raises(Unanswered):  # there is nothing to end with
        minimise(solvers.get("lbfgs"), remote, tol=1e-9)


def test_a_loop_is_overdue_from_its_limit_on_once_it_has_an_iterate():
    assert overdue.asked()() == 0.0
    with Monitor(Budget(max_time=1e-9)) as monitor:
        time.sleep(1e-3)
        assert overdue.asked()() == 0.0
        monitor.record(0, 1.0, 1.0, np.zeros((1, 1)), np.zeros(1))
        assert overdue.asked()() > 0.0
        with Monitor(Budget(max_time=1e3)):
            assert overdue.asked()() > 0.0
    assert overdue.asked()() == 0.0


def test_stages_that_are_whole_are_kept(monkeypatch):
    silence(monkeypatch, "lineal.solvers.stagewise.stagewise:_Fit.add", 2)
    options = StagewiseOptions("fourier:scale=1", n_blocks=4, block_size=8, validation_fraction=None)
    model, run = fit_stagewise(X, Y, options)
    assert (run.status, run.is_answered, len(model.members[0])) == ("max_time", False, 2)
    assert run.message == "stopped by max_time after 2 stages: no answer from worker a"


def test_calibrated_iterations_that_are_whole_are_kept(monkeypatch):
    options = LeastSquaresOptions(calibration="polynomial")
    silence(monkeypatch, "lineal.solvers.calibrated:best_map", 1)
    _, found = fit_least_squares(X, Y, options)
    assert (found.status, found.is_answered, len(found.weights)) == ("max_time", False, 1)
    with pytest.raises(Unanswered):
        fit_least_squares(X, Y, options)


def test_a_model_without_probabilities_is_kept(monkeypatch):
    silence(monkeypatch, "lineal.linear.finish:held_out_scores", 0)
    model, solution = fit(X, Y, TrainOptions(probability=True))
    assert (solution.status, solution.is_answered, model.calibration) == ("max_time", False, None)
    assert "no answer from worker a; it ended before its probabilities were calibrated" in solution.message


def test_a_search_ends_with_the_strengths_so_far(monkeypatch):
    given = TrainOptions(loss="logistic"), PathOptions(n_alphas=3, folds=3)
    silence(monkeypatch, "lineal.linear.search.run:_Run._one_alpha", 1)
    _, _, found = search(X, Y, *given)
    assert (found.status, len(found.alphas), found.chosen) == ("max_time", 2, 0)
    with pytest.raises(Unanswered):
        search(X, Y, *given)
