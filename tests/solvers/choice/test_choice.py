"""`solver="auto"`: what it chooses, when it changes its mind, and what a fit by two solvers has to keep."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_problem
from objectives import objective_on
from scipy import sparse

import lineal
from lineal import LinearClassifier, solvers
from lineal.problem.budget import Budget
from lineal.problem.minimise import minimise
from lineal.solvers.choice import stages as chains
from lineal.solvers.choice.in_turn import Stage, in_turn
from lineal.solvers.choice.progress import Costs
from lineal.solvers.choice.rules import by_speed
from lineal.solvers.newton import sample_size


def after(iteration):
    """A rule that leaves a solver after so many iterations."""
    return lambda history, budget, before=(): history[-1]["iteration"] >= iteration


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

        def ends(snapshot, last=last):
            return snapshot.iteration == last

        found = minimise(chain("dual_cd", "lbfgs"), objective, tol=1e-12, callbacks=[ends])
        assert (found.status, found.history[-1]["iteration"]) == ("stopped", last)


def test_three_solvers():
    X, y = random_problem(6, n=80, d=6, k=3)
    objective = objective_on(X, y, "softmax", "l2", alpha=1e-5)
    calls = {"dual_cd": 3, "lbfgs": 2}
    stages = [Stage(solvers.get(name), "", after(calls[name])) for name in calls]
    found = minimise(in_turn([*stages, Stage(solvers.get("newton"), "")]), objective, tol=1e-10)
    assert found.status == "converged"
    assert [row["solver"] for row in found.history[:7]] == ["dual_cd"] * 4 + ["lbfgs"] * 2 + ["newton"]


def test_a_fit_that_runs_out_of_iterations_returns_the_best_of_all_solvers():
    """A good first solver is not forgotten, and the bounds of all of them hold."""
    X, y = random_problem(5, n=80, d=6, k=2)
    objective = objective_on(X, y, "logistic", "l2", alpha=1e-3)
    first = minimise(solvers.get("newton"), objective, tol=1e-12, max_iter=3)
    found = minimise(chain("newton", "dual_cd", leave=3), objective, tol=1e-12, max_iter=4)
    alone = minimise(solvers.get("dual_cd"), objective, tol=1e-12, max_iter=1)
    assert found.status == "max_iter"
    assert found.certificate.primal <= first.certificate.primal < alone.certificate.primal
    assert found.certificate.value <= first.certificate.value
    theta = np.vstack([found.weights, found.intercept[None, :]])
    assert objective.value(theta) == pytest.approx(found.certificate.primal, rel=1e-9)
    minimum = minimise(solvers.get("newton"), objective, tol=1e-12)
    assert found.certificate.dual <= minimum.certificate.primal * (1 + 1e-12)


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
    """Sparse counts with a few frequent words, with noisy labels: slow for dual coordinate descent if α is tiny."""
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
    assert took == ["dual_cd", "lbfgs"]
    assert first.status_ == "converged"
    for other in fits[1:]:
        assert [row["solver"] for row in other.history_] == [row["solver"] for row in first.history_]
    assert without_seconds(fits[1].history_) == without_seconds(first.history_)
    np.testing.assert_array_equal(fits[1].coef_, first.coef_)
    assert first.solver_.startswith("dual_cd: ")
    assert "; then lbfgs after iteration" in first.solver_


def test_the_model_names_its_solver(tmp_path):
    X, y = random_problem(8, n=80, d=6, k=3)
    auto, named = LinearClassifier(), LinearClassifier(solver="lbfgs")
    assert auto.fit(X, y).solver_ == "newton: 6 features are few enough for their Hessian"
    assert named.fit(X, y).solver_ == "lbfgs"
    for model in (auto, named):
        model.save(tmp_path / "model")
        assert lineal.load(tmp_path / "model").solver == model.solver_


def test_newtons_method_takes_over_on_tall_tables_where_the_gap_closes_slowly(monkeypatch):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((4000, 8))
    y = (X @ rng.standard_normal((8, 5)) + rng.gumbel(size=(4000, 5))).argmax(axis=1)
    monkeypatch.setattr(sample_size, "MIN_WORK", 1)
    quick = LinearClassifier("softmax", alpha=1e-3).fit(X, y)
    assert {row["solver"] for row in quick.history_} == {"lbfgs"}
    monkeypatch.setattr(chains, "MOST_LEFT", 1.0)
    slow, plain = (
        LinearClassifier("softmax", alpha=1e-6, tol=1e-9, solver=name).fit(X, y) for name in ("auto", "newton")
    )
    assert slow.solver_.startswith("lbfgs: dense rows")
    assert "; then newton after iteration" in slow.solver_
    assert slow.status_ == "converged"
    assert slow.certificate_.value <= 1e-9
    assert slow.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-8)


def row(iteration, gap, work):
    return {"iteration": iteration, "gap": gap, "work": work}


def history(gap, passes, share=1.0):
    """A history whose gap is a function of the passes."""
    return [row(t, gap(t), share * t) for t in range(passes + 2)]


FAST, SLOW, FLAT = (lambda t: 0.9**t), (lambda t: 0.7 * 0.998**t), (lambda t: 0.5)


@pytest.mark.parametrize("passes", [80, 160])
def test_when_dual_coordinate_descent_is_slow(passes):
    costs, budget = Costs(False, 1), Budget(tol=1e-3, max_iter=10_000)
    assert not costs.dual_is_slow(history(FAST, passes), budget)
    assert costs.dual_is_slow(history(SLOW, passes), budget)
    assert costs.dual_is_slow(history(FLAT, passes), budget)
    assert not costs.dual_is_slow(history(SLOW, passes, share=0.01), budget)  # most rows are skipped: cheap passes
    assert costs.dual_is_slow(history(SLOW, passes, share=0.1), budget)
    assert not costs.dual_is_slow(history(SLOW, passes, share=0.1), budget, chance=5.0)
    assert not Costs(False, 20).dual_is_slow(history(SLOW, passes, share=0.1), budget)
    assert not costs.dual_is_slow(history(SLOW, passes)[:-1], budget)  # the gap is computed after this row was written
    assert not costs.dual_is_slow(history(SLOW, passes + 1), budget)
    assert not costs.dual_is_slow(history(SLOW, 40), budget)  # two looks are needed
    assert costs.dual_is_slow(history(SLOW, passes, share=0.01), Budget(max_iter=200), 1)  # max_iter would end it


def test_a_gap_near_one_is_not_judged_early():
    costs, budget = Costs(False, 1), Budget(tol=1e-3, max_iter=10_000)
    assert not costs.dual_is_slow(history(lambda t: 0.99, 160), budget)
    assert costs.dual_is_slow(history(lambda t: 0.99, 320), budget)


def test_passes_of_dear_updates_are_watched_earlier():
    budget = Budget(tol=1e-3, max_iter=10_000)
    assert Costs(True, 1).dual_is_slow(history(SLOW, 20), budget)
    assert not Costs(True, 1).dual_is_slow(history(lambda t: 0.7**t, 20), budget)
    assert not Costs(False, 1).dual_is_slow(history(SLOW, 20), budget)


def test_when_lbfgs_is_slow():
    costs, budget = Costs(False, 1), Budget(tol=1e-3, max_iter=10_000)
    for before, is_slow in ((history(FLAT, 80), False), (history(SLOW, 80, 0.1), True)):
        assert costs.lbfgs_is_slow([row(t, 1e4, 0.0) for t in range(201)], budget, before) is is_slow
        assert not costs.lbfgs_is_slow([row(t, 1e4, 0.0) for t in range(200)], budget, before)
        assert not costs.lbfgs_is_slow([row(t, 0.95**t, 0.0) for t in range(201)], budget, before)


def test_a_solver_comes_back_to_where_it_was():
    X, y = random_problem(9, n=80, d=6, k=3)
    objective = objective_on(X, y, "squared_hinge", "l2", alpha=1e-2)
    dual, lbfgs = solvers.get("dual_cd"), solvers.get("lbfgs")
    stages = [Stage(dual, "", after(5)), Stage(lbfgs, "", after(1)), Stage(dual, "again")]
    found = minimise(in_turn(stages), objective, tol=1e-8, max_iter=100_000)
    assert found.status == "converged"
    assert [row["solver"] for row in found.history[:8]] == ["dual_cd"] * 6 + ["lbfgs", "dual_cd"]
    first = minimise(dual, objective, tol=1e-8, max_iter=5)
    passes = minimise(dual, objective, tol=1e-8, max_iter=100_000, start=first).history[-1]["iteration"]
    assert found.history[-1]["iteration"] == 6 + passes
    assert found.choice.endswith("; then dual_cd after iteration 6: again")


def test_what_cannot_be_left_later_is_chosen_carefully():
    X, y = hard_rows()
    for alpha, careful in ((1e6, "dual_cd"), (1e-9, "newton")):
        objective = objective_on(X, y, "logistic", "l2", alpha=alpha)
        assert by_speed(objective, 1e-3, can_change=False)[0].solver == careful
        assert by_speed(objective, 1e-3, can_change=True)[0].solver == "dual_cd"
        assert solvers.pick("auto", objective, 1e-3).name == careful


def test_few_features_far_from_unit_scale_and_a_loss_with_kinks():
    X, y = random_problem(10, n=80, d=6, k=2)
    for scale, name in ((1.0, "dual_cd"), (1e3, "multipliers")):
        model = LinearClassifier("hinge", alpha=1e-2).fit(scale * X, y)
        assert {row["solver"] for row in model.history_} == {name}
        assert model.status_ == "converged"


def test_what_runs_is_asked_for_by_name():
    """A named solver runs alone, however slow it is."""
    X, y = hard_rows()
    model = LinearClassifier("logistic", alpha=1e-9, solver="dual_cd", max_iter=200).fit(X, y)
    assert {row["solver"] for row in model.history_} == {"dual_cd"}
