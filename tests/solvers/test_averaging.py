"""Model averaging against independent fits of the same shards, and votes."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from objectives import label_sets, objective_on, telling_rows
from served_rows import ServedRows

import lineal
from lineal import LinearClassifier
from lineal.design.matrix import unwrapped
from lineal.errors import OptionError
from lineal.linear.voting import VotingModel
from lineal.problem.minimise import minimise
from lineal.problem.solution import Members
from lineal.solvers import get, lbfgs, shard_fit

averaging = get("averaging")


def problem(loss="squared_hinge", penalty="l2", **options):
    X, y = telling_rows(10, n=80)
    given = {"alpha": 0.1 if penalty == "l2" else 0.03, "weights": np.random.default_rng(0).random(80) + 0.1}
    return objective_on(X, y, loss, penalty, **{**given, **options})


def independent(objective, count, seed=0):
    """Fits of every shard by another solver, and their shares."""
    found = []
    for block in objective.engine.shards(count, seed).blocks():
        engine = replace(
            objective.engine, X=block.X, targets=block.targets, weights=block.weights / block.weights.sum()
        )
        alone = replace(objective, engine=engine)
        found.append((block.weights.sum(), lbfgs.solve(alone, tol=1e-12)))
    return found


def test_the_mean_is_that_of_independent_fits():
    objective = problem()
    found = averaging(objective, tol=1e-10, shards=3)
    parts = independent(objective, 3)
    wanted = sum(share * one.weights for share, one in parts)
    np.testing.assert_allclose(found.weights, wanted, atol=1e-5)
    np.testing.assert_allclose(found.intercept, sum(share * one.intercept for share, one in parts), atol=1e-5)
    best = lbfgs.solve(objective, tol=1e-10).certificate.primal
    assert found.certificate.primal == pytest.approx(objective.value(objective.theta_of(found)), rel=1e-12)
    assert found.certificate.primal > best * 1.001
    assert found.certificate.dual <= best
    assert found.status == "max_iter"
    assert "the mean of the models of 3 shards after 1 round" in found.message
    assert "admm" in found.message


@pytest.mark.parametrize("name", ["averaging", "admm"])
def test_without_a_penalty_the_dual_points_of_shards_give_a_violation(name):
    found = get(name)(problem("crammer_singer", alpha=0.0), tol=1e-2, max_iter=5)
    assert found.certificate.kind == "violation"
    assert np.isfinite(found.certificate.value)


@pytest.mark.parametrize("combine", ["mean", "vote"])
def test_a_mean_above_zero_weights_is_kept(combine):
    """With a weak penalty and few rows per shard, the mean has a higher objective than no model, and predicts well."""
    X, y = telling_rows(10, n=80)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(80) < 0.2, rng.integers(0, 3, 80), y)
    objective = objective_on(X, y, "squared_hinge", "l2", alpha=1e-4)
    found = minimise(averaging, objective, shards=8, combine=combine)
    parts = independent(objective, 8)
    np.testing.assert_allclose(found.weights, sum(share * one.weights for share, one in parts), atol=0.1)
    assert found.certificate.primal > objective.value(objective.theta_of(None))
    assert np.mean((X @ found.weights + found.intercept).argmax(axis=1) == y) > 0.5  # the largest class has 0.4
    assert "the start" not in found.message


def test_one_shard_is_the_ordinary_fit():
    objective = problem()
    found = averaging(objective, tol=1e-8, shards=1)
    assert found.status == "converged"
    assert found.certificate.value <= 1e-8


def test_rounds_of_short_fits_get_closer():
    objective = problem("logistic")
    best = lbfgs.solve(objective, tol=1e-10).certificate.primal
    values = [
        averaging(objective, tol=1e-10, shards=3, rounds=rounds, local_iter=1).certificate.primal for rounds in (1, 4)
    ]
    assert best <= values[1] < values[0]
    history = averaging(objective, tol=1e-10, shards=3, rounds=4).history
    assert [row["iteration"] for row in history] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_short_fits_improve_their_start(loss):
    """Dual methods, which `auto` takes for these losses, return their start after few iterations."""
    objective = problem(loss)
    start = objective.value(objective.start())
    for options in ({"rounds": 1, "local_iter": 2}, {"rounds": 2}):
        assert averaging(objective, tol=1e-6, shards=3, **options).certificate.primal < 0.95 * start


@pytest.mark.parametrize(
    ("loss", "penalty"), [("hinge", "l2"), pytest.param("crammer_singer", "l2", marks=pytest.mark.slow)]
)
def test_losses_with_kinks_have_useful_bounds(loss, penalty):
    objective = problem(loss, penalty)
    found = averaging(objective, tol=1e-4, shards=2)
    best = get("dual_cd")(objective, tol=1e-5, max_iter=5000).certificate
    assert found.certificate.kind == "gap"
    assert found.certificate.value < 0.2
    assert found.certificate.dual <= best.primal
    assert found.certificate.primal >= best.dual


def test_rows_elsewhere():
    objective = problem()
    wanted = averaging(replace(objective, engine=ServedRows(objective.engine, (30, 0, 50))), tol=1e-9)
    forgetful = ServedRows(objective.engine, (30, 0, 50), forgets=0.3)
    found = averaging(replace(objective, engine=forgetful), tol=1e-9)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    blocks = [(0.0, slice(0, 30)), (0.0, slice(30, 80))]
    X, targets = unwrapped(objective.engine.X), objective.engine.targets
    mean = 0.0
    for _, rows in blocks:
        weights = objective.engine.weights[rows]
        alone = replace(
            objective.engine.with_features(lambda X, rows=rows: X.rows(rows.start, rows.stop)),
            targets=targets.rows(rows.start, rows.stop), weights=weights / weights.sum(),
        )  # fmt: skip
        mean = mean + weights.sum() * lbfgs.solve(replace(objective, engine=alone), tol=1e-12).weights
    assert X.shape[0] == 80
    np.testing.assert_allclose(found.weights, mean, atol=1e-5)


def test_a_shard_without_a_class_and_one_without_weight():
    X, y = telling_rows(5, n=60)
    order = np.argsort(y, kind="stable")
    objective = objective_on(X[order], y[order], "softmax", "l2", weights=np.arange(60) >= 15)
    engine = ServedRows(objective.engine, (15, 10, 35))
    found = averaging(replace(objective, engine=engine), tol=1e-6)
    assert np.isfinite(found.weights).all()
    assert "2 shards" in found.message


# --- limits


def test_rounds_that_max_iter_leaves_out_are_not_claimed():
    found = averaging(problem("logistic"), tol=1e-10, shards=3, rounds=6, max_iter=2)
    assert (found.status, found.history[-1]["iteration"]) == ("max_iter", 2)
    assert "the mean of the models of 3 shards after 2 of 6 rounds (max_iter=2)" in found.message


@pytest.mark.parametrize("name", ["averaging", "admm"])
def test_fits_one_after_the_other_share_the_time(monkeypatch, name):
    """Each fit takes all the time that it is given."""
    limits, fit = [], shard_fit.fit
    get(name)(problem(), tol=1e-12, shards=4, max_iter=1)  # loads the kernels

    def slow(objective, start, budget):
        limits.append(budget.max_time)
        time.sleep(budget.max_time)
        return fit(objective, start, replace(budget, max_time=None))

    monkeypatch.setattr(shard_fit, "fit", slow)
    found = get(name)(problem(), tol=1e-12, shards=4, max_time=0.3, n_jobs=1)
    assert found.status == "max_time"
    assert len(limits) == 4
    assert sum(limits) <= 0.31


def test_a_round_that_time_cuts_short_says_so(monkeypatch):
    fit = shard_fit.fit
    monkeypatch.setattr(shard_fit, "fit", lambda *given: replace(fit(*given), status="max_time"))
    for combine in ("mean", "vote"):
        found = averaging(problem(), tol=1e-10, shards=3, combine=combine, max_time=1e3)
        assert found.status == "max_time"
        assert "stopped by max_time" in found.message


# --- votes


def test_votes_by_hand():
    members = Members(np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0]]]), np.zeros((3, 3)))
    mean = lineal.linear.model.Model(
        weights=np.array([[9.0, 1.0, 0.0]]), intercept=np.zeros(3), classes=np.array(["a", "b", "c"]), loss="hinge"
    )
    model = VotingModel.of(mean, members)
    assert model.predict(np.array([[1.0]])).tolist() == ["b"]  # two of three, though the mean says a
    np.testing.assert_allclose(model.raw_scores(np.array([[1.0]])), [[1.5 / 3.5, 2.0 / 3.5, 0.0]])
    two = VotingModel.of(mean, Members(members.weights[:2], members.intercepts[:2]))
    assert two.predict(np.array([[1.0]])).tolist() == ["a"]  # a tie: as the mean


@pytest.mark.parametrize("kind", ["binary", "many", pytest.param("sets", marks=pytest.mark.slow)])
def test_votes_from_the_estimator(tmp_path, kind):
    X, y = telling_rows(6, n=90)
    y = {"binary": np.where(y > 0, "yes", "no"), "many": y, "sets": label_sets(1, 90, 3)}[kind]
    options = {"solver": "averaging", "solver_options": {"combine": "vote", "shards": 3}, "alpha": 0.01}
    with pytest.warns(UserWarning, match="the mean of the models of 3 shards"):
        classifier = LinearClassifier(**options).fit(X, y)
    model = classifier.model_
    assert isinstance(model, VotingModel)
    votes = [
        lineal.linear.model.Model(
            weights=W, intercept=b, classes=model.classes, loss=model.loss, is_multilabel=model.is_multilabel
        ).predict(X)
        for W, b in zip(*model.members)
    ]  # fmt: skip
    if kind == "many":
        counts = np.stack([sum(vote == label for vote in votes) for label in model.classes], axis=1)
        is_clear = np.sort(counts, axis=1)[:, -1] > np.sort(counts, axis=1)[:, -2]
        assert is_clear.mean() > 0.8
        np.testing.assert_array_equal(classifier.predict(X)[is_clear], model.classes[counts.argmax(axis=1)][is_clear])
    else:
        positive = "yes" if kind == "binary" else 1
        majority = np.mean([vote == positive for vote in votes], axis=0) > 0.5
        np.testing.assert_array_equal(classifier.predict(X) == positive, majority)
    path = tmp_path / "votes.lineal"
    classifier.save(path)
    again = lineal.load(path)
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    small, columns = again.compact()
    np.testing.assert_array_equal(small.predict(X[:, columns]), classifier.predict(X))
    with pytest.raises(OptionError, match="votes are no probabilities"):
        again.predict_proba(X)


def test_votes_of_far_columns_are_those_of_the_given_rows():
    X, y = telling_rows(4, n=90)
    far = X.toarray() + np.array([1e6] + [0.0] * 7)
    found = minimise(averaging, objective_on(far, y, "squared_hinge", "l2"), combine="vote", shards=3)
    near = minimise(averaging, objective_on(X, y, "squared_hinge", "l2"), combine="vote", shards=3)
    for one, other in zip(zip(*found.members), zip(*near.members)):
        scores = [far @ one[0] + one[1], X @ other[0] + other[1]]
        np.testing.assert_allclose(*scores, atol=0.1)


def test_options_that_are_refused():
    objective = problem()
    for options, text in (
        ({"shards": 81}, "shards=81"), ({"rounds": 0}, "rounds=0"), ({"local_iter": 0}, "local_iter=0"),
        ({"combine": "median"}, "combine='median'"), ({"combine": "vote", "rounds": 2}, "rounds=2"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=text):
            averaging(objective, **options)
    X, y = telling_rows(6, n=90)
    votes = {"solver": "averaging", "solver_options": {"combine": "vote"}}
    with pytest.raises(OptionError, match="probability=True needs one model"):
        LinearClassifier(**votes, probability=True).fit(X, y)
    with pytest.raises(OptionError, match="learned from scores, which votes are not: use combine='mean'"):
        LinearClassifier("label_ranking", **votes).fit(X, label_sets(1, 90, 3))
