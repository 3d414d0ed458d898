"""`solver="auto"`: what it chooses, when it changes its mind, and what a fit by two solvers has to keep."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from conftest import random_problem
from objectives import objective_on
from scipy import sparse

import lineal
from lineal import LinearClassifier, solvers
from lineal.problem.budget import Budget
from lineal.problem.minimise import minimise
from lineal.solvers.choice import progress
from lineal.solvers.choice.in_turn import Stage, in_turn
from lineal.solvers.choice.rules import by_speed


def after(iteration):
    """A rule that leaves a solver after so many iterations."""
    return lambda history, budget: history[-1]["iteration"] >= iteration


def chain(*names, leave=3):
    """These solvers, one after the other, each for so many iterations."""
    stages = [Stage(solvers.get(name), f"it is {name}", after(leave)) for name in names[:-1]]
    return in_turn([*stages, Stage(solvers.get(names[-1]), f"it is {names[-1]}")])


def without_seconds(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


@pytest.mark.parametrize("names", [("dual_cd", "lbfgs"), ("dual_cd", "newton"), ("lbfgs", "dual_cd"), ("lbfgs",)])
@pytest.mark.parametrize("loss", ["squared_hinge", "softmax"])
def test_solvers_in_turn_find_the_minimum(names, loss):
    X, y = random_problem(3, n=80, d=6, k=3)
    objective, seen = objective_on(X, y, loss, "l2", alpha=1e-3), []
    wanted = solvers.get("lbfgs")(objective, tol=1e-9)
    found = minimise(chain(*names), objective, tol=1e-7, max_iter=5000, callbacks=[seen.append])
    assert (found.status, found.solver) == ("converged", names[-1])
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-6)
    iterations = [row["iteration"] for row in found.history]
    assert iterations == list(range(len(iterations)))
    assert [snapshot.iteration for snapshot in seen] == iterations
    assert [row["solver"] for row in found.history[:4]] == [names[0]] * 4
    assert {row["solver"] for row in found.history[4:]} == {names[-1]}
    seconds = [row["seconds"] for row in found.history]
    assert seconds == sorted(seconds)
    assert all(f"{name}" in found.choice and f"it is {name}" in found.choice for name in names)


def test_the_next_solver_starts_where_the_one_before_ended():
    X, y = random_problem(4, n=80, d=6, k=2)
    objective, seen = objective_on(X, y, "logistic", "l2", alpha=1e-3), []
    minimise(chain("lbfgs", "newton", leave=4), objective, tol=1e-9, callbacks=[seen.append])
    values = [snapshot.objective for snapshot in seen]
    assert values == sorted(values, reverse=True)  # both only go down, also from one to the other


@pytest.mark.parametrize("limit", [1, 3, 4, 5])
def test_max_iter_holds_for_all_of_them(limit):
    X, y = random_problem(5, n=80, d=6, k=3)
    objective = objective_on(X, y, "softmax", "l2", alpha=1e-4)
    found = minimise(chain("dual_cd", "lbfgs"), objective, tol=1e-12, max_iter=limit)
    assert (found.status, found.history[-1]["iteration"]) == ("max_iter", limit)


def test_a_callback_ends_the_fit_in_either_solver():
    X, y = random_problem(5, n=80, d=6, k=3)
    objective = objective_on(X, y, "softmax", "l2", alpha=1e-4)
    for last in (2, 5):
        found = minimise(
            chain("dual_cd", "lbfgs"), objective, tol=1e-12, callbacks=[lambda snapshot: snapshot.iteration == last]
        )
        assert (found.status, found.history[-1]["iteration"]) == ("stopped", last)


def test_three_solvers():
    X, y = random_problem(6, n=80, d=6, k=2)
    objective = objective_on(X, y, "squared_hinge", "l2", alpha=1e-4)
    calls = {"dual_cd": 3, "lbfgs": 2}
    stages = [Stage(solvers.get(name), "", after(calls[name])) for name in calls]
    found = minimise(in_turn([*stages, Stage(solvers.get("newton"), "")]), objective, tol=1e-8)
    assert found.status == "converged"
    assert [row["solver"] for row in found.history[:7]] == ["dual_cd"] * 4 + ["lbfgs"] * 2 + ["newton"]


def test_what_stalls_in_float32_goes_on_in_float64_with_the_last_solver():
    X, y = random_problem(7, n=200, d=6, k=2)
    X = sparse.csr_array(X * 10.0 ** np.arange(0.0, -6.0, -1.0), dtype=np.float32)
    objective = objective_on(X, y, "logistic", "l2", alpha=1e-12)
    found = minimise(chain("dual_cd", "newton"), objective, tol=1e-11, max_iter=300)
    assert "float64" in found.message or found.status == "converged"
    assert found.weights.dtype in (np.float32, np.float64)
    assert found.solver == "newton"
    assert "it is newton" in found.choice


def hard_rows(n=300, d=20_000, seed=0):
    """Sparse counts with a few frequent words, whose labels are noisy: slow for dual coordinate descent if α is tiny."""
    rng = np.random.default_rng(seed)
    frequent = rng.poisson(30.0, (n, 12)) * (1 << np.arange(12) % 6)
    rare = sparse.random_array((n, d - 12), density=60 / d, rng=rng, data_sampler=lambda size: np.ones(size))
    X = sparse.csr_array(sparse.hstack([sparse.csr_array(frequent.astype(float)), rare]))
    y = ((frequent - frequent.mean(axis=0)) @ rng.normal(size=12) + 100.0 * rng.normal(size=n) > 0.0).astype(int)
    return X, y


def test_auto_leaves_dual_coordinate_descent_where_it_is_slow_and_always_in_the_same_way():
    X, y = hard_rows()
    fits = [LinearClassifier("logistic", alpha=1e-9, n_jobs=n_jobs, max_iter=5000).fit(X, y) for n_jobs in (1, 1, 2)]
    first = fits[0]
    took = list(dict.fromkeys(row["solver"] for row in first.history_))
    assert took == ["dual_cd", "newton"]
    assert first.status_ == "converged"
    for other in fits[1:]:
        assert [row["solver"] for row in other.history_] == [row["solver"] for row in first.history_]
    assert without_seconds(fits[1].history_) == without_seconds(first.history_)
    np.testing.assert_array_equal(fits[1].coef_, first.coef_)
    assert first.solver_.startswith("dual_cd: ") and "newton from iteration" in first.solver_


def test_the_model_names_its_solver(tmp_path):
    X, y = random_problem(8, n=80, d=6, k=3)
    auto, named = LinearClassifier(), LinearClassifier(solver="lbfgs")
    assert auto.fit(X, y).solver_ == "newton: 6 features are few enough for their Hessian"
    assert named.fit(X, y).solver_ == "lbfgs"
    for model in (auto, named):
        model.save(tmp_path / "model")
        assert lineal.load(tmp_path / "model").solver == model.solver_


def row(iteration, gap, work):
    return {"iteration": iteration, "gap": gap, "work": work}


def history(gap, passes, share=1.0):
    """A history whose gap is a function of the passes."""
    return [row(t, gap(t), share * t) for t in range(passes + 2)]


@pytest.mark.parametrize("passes", [80, 160])
def test_when_dual_coordinate_descent_is_slow(passes):
    is_slow = partial(progress.dual_is_slow, budget=Budget(tol=1e-3, max_iter=10_000), n_columns=1)
    fast, slow, flat = (lambda t: 0.9**t), (lambda t: 0.998**t), (lambda t: 0.5)
    assert not is_slow(history(fast, passes))
    assert is_slow(history(slow, passes))
    assert is_slow(history(flat, passes))
    assert not is_slow(history(slow, passes, share=0.01))  # most rows are skipped, so that the passes cost little
    assert not is_slow(history(slow, passes)[:-1])  # the gap after these passes is computed later
    assert not is_slow(history(slow, passes + 1))
    assert not is_slow(history(slow, 40))
    assert is_slow(history(slow, passes, share=0.1))
    assert not progress.dual_is_slow(history(slow, passes, 0.1), Budget(max_iter=10_000), 20)  # several columns
    assert progress.dual_is_slow(history(slow, passes, 0.01), Budget(max_iter=200), 1)  # max_iter ends before


def test_what_cannot_be_left_later_is_chosen_carefully():
    X, y = hard_rows()
    for alpha, careful in ((1e6, "dual_cd"), (1e-9, "newton")):
        objective = objective_on(X, y, "logistic", "l2", alpha=alpha)
        assert by_speed(objective, 1e-3, can_change=False)[0].solver == careful
        assert by_speed(objective, 1e-3, can_change=True)[0].solver == "dual_cd"
        assert solvers.pick("auto", objective, 1e-3).name == careful


def test_what_runs_is_asked_for_by_name():
    """A named solver runs alone, however slow it is."""
    X, y = hard_rows()
    model = LinearClassifier("logistic", alpha=1e-9, solver="dual_cd", max_iter=200).fit(X, y)
    assert {row["solver"] for row in model.history_} == {"dual_cd"}
