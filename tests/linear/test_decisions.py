"""Thresholds for one label per row: against all thresholds, in fits of every kind, in files and on the command line."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from cli_files import done, failed
from edited_models import rewrite
from scipy import sparse
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import PredefinedSplit, TunedThresholdClassifierCV

import lineal
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.linear import decisions, finish
from lineal.linear.estimator import LinearClassifier
from lineal.linear.fit import fit, fit_problem, prepare
from lineal.linear.held_out import Given, HeldOutScores
from lineal.linear.options import TrainOptions
from lineal.models.thresholds import class_numbers

COSTS = {2: [[0.0, 1.0], [5.0, -1.0]], 3: [[0.0, 1.0, 4.0], [2.0, -0.5, 1.0], [9.0, 3.0, 0.0]]}
RULES = ["f1", "balanced", "costs"]


def rare(n=400, k=2, seed=0):
    """Rows of classes of very different sizes, which overlap."""
    shares = [0.9, 0.1] if k == 2 else [0.75, 0.19, 0.06]
    return make_classification(
        n, 10, n_informative=5, n_classes=k, n_clusters_per_class=1, weights=shares, class_sep=0.6, flip_y=0.05,
        random_state=seed,
    )  # fmt: skip


def threshold_of(rule, k):
    return COSTS[k] if rule == "costs" else rule


def worth(rule, k, truth, guess, weights=None):
    """What decisions are worth, by scikit-learn."""
    if rule == "f1":
        average, labels = ("binary", None) if k == 2 else ("macro", np.arange(k))
        return f1_score(truth, guess, average=average, labels=labels, sample_weight=weights, zero_division=0.0)
    if rule == "balanced":
        return balanced_accuracy_score(truth, guess, sample_weight=weights)
    return -np.average(np.array(COSTS[k])[truth, guess], weights=weights)


def held(seed, k, m=40, is_tied=False):
    """Held-out scores of rows, the last class the rarest, with weights that are whole numbers."""
    rng = np.random.default_rng(seed)
    truth = np.r_[np.arange(k), rng.choice(k, m - k, p=np.arange(k, 0, -1) / (k * (k + 1) / 2))]
    Z = rng.normal(size=(m, 1 if k == 2 else k))
    Z[np.arange(m), 0 if k == 2 else truth] += truth if k == 2 else 1.0
    Z = np.round(2.0 * Z) / 2.0 if is_tied else Z
    return HeldOutScores(Z, truth, rng.integers(1, 4, m).astype(float), np.arange(m) % 4)


def value_of(rule, k, scores):
    shares = scores.weights / scores.weights.sum()
    costs = np.array(COSTS[k]) if rule == "costs" else None
    return decisions.value_of(rule, costs, np.bincount(scores.labels, shares, k)), shares


# --- searches


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_of_two_classes_the_best_threshold_is_the_best_of_all(rule, seed):
    scores = held(seed, 2, is_tied=seed % 2 == 1)
    value, shares = value_of(rule, 2, scores)
    z, truth = scores.Z[:, 0], scores.labels
    t = decisions.best_cut(value, z, truth, shares)
    every = [worth(rule, 2, truth, (z > c).astype(int), scores.weights) for c in [-np.inf, *np.unique(z)]]
    assert worth(rule, 2, truth, class_numbers(t, z), scores.weights) == pytest.approx(max(every))
    assert not np.isin(t[0], z[z != 0.0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 3), (2, 3), (3, 2)])
def test_values_along_a_line_are_those_of_each_decision(rule, seed, k):
    scores = held(seed, k, is_tied=True)
    value, shares = value_of(rule, k, scores)
    rng = np.random.default_rng(seed)
    for to in range(1 if k == 2 else 0, k):
        rest = rng.choice([r for r in range(k) if r != to], len(shares))
        line = decisions.Line(rng.permutation(len(shares)), scores.labels, rest, shares, to)
        guess, expected = rest.copy(), []
        for i in [None, *line.order]:
            if i is not None:
                guess[i] = to
            expected.append(value.of(scores.labels, guess, shares))
        np.testing.assert_allclose(value.along(line), expected, atol=1e-14)
        found, known = value.of(scores.labels, rest, shares), worth(rule, k, scores.labels, rest, scores.weights)
        if rule == "costs":  # without the least cost of every row, and as shares of the largest
            least = np.min(COSTS[k], axis=1)
            found = found * (9.0 if k == 3 else 6.0) - shares @ least[scores.labels]
        assert found == pytest.approx(known)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_of_three_classes_no_single_threshold_is_better(rule, seed, monkeypatch):
    monkeypatch.setattr(decisions, "WORTH_A_SWEEP", decisions.ROUNDING)
    scores = held(seed, 3)
    value, shares = value_of(rule, 3, scores)
    Z, truth = scores.Z, scores.labels
    t = decisions.best_offsets(value, Z, truth, shares)
    found = value.of(truth, class_numbers(t, Z), shares)
    assert found > value.of(truth, class_numbers(None, Z), shares)
    assert t.sum() == pytest.approx(0.0, abs=1e-12)
    best = -np.inf
    for r in range(3):
        others = np.delete(Z - t, r, axis=1).max(axis=1)
        for c in [-100.0, *np.unique(Z[:, r] - others)]:
            moved = t.copy()
            moved[r] = c + 1e-9
            best = max(best, value.of(truth, class_numbers(moved, Z), shares))
    assert found == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [2, 3])
def test_held_out_rows_are_never_decided_worse_and_weights_are_repeated_rows(rule, k):
    costs = np.array(COSTS[k]) if rule == "costs" else None
    better = 0
    for seed in range(8):
        scores = held(seed, k, m=120)
        t = decisions.of_held_out(rule, costs, scores)
        z = scores.Z[:, 0] if k == 2 else scores.Z
        plain, found = (worth(rule, k, scores.labels, class_numbers(one, z), scores.weights) for one in (None, t))
        assert found >= plain
        better += found > plain
        twice = np.repeat(np.arange(120), scores.weights.astype(int))
        copies = HeldOutScores(scores.Z[twice], scores.labels[twice], np.ones(len(twice)), scores.folds[twice])
        np.testing.assert_allclose(decisions.of_held_out(rule, costs, copies), t, atol=1e-12)
    assert better >= 4


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_classes_and_what_rows_share_do_not_matter(rule):
    scores, order = held(3, 3, m=600), np.array([2, 0, 1])
    costs = np.array(COSTS[3]) if rule == "costs" else None
    t = decisions.of_held_out(rule, costs, scores)
    assert t.any()
    permuted = scores._replace(Z=scores.Z[:, order], labels=np.argsort(order)[scores.labels])
    there = None if costs is None else costs[np.ix_(order, order)]
    np.testing.assert_allclose(decisions.of_held_out(rule, there, permuted), t[order], atol=1e-12)
    shifted = scores._replace(Z=scores.Z + 10.0 * np.random.default_rng(0).normal(size=(600, 1)))
    np.testing.assert_allclose(decisions.of_held_out(rule, costs, shifted), t, atol=1e-9)
    single = scores._replace(Z=scores.Z.astype(np.float32).astype(float))
    np.testing.assert_allclose(decisions.of_held_out(rule, costs, single), t, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_two_columns_of_scores_are_one_difference(rule):
    scores, costs = held(5, 2, m=100), np.array(COSTS[2]) if rule == "costs" else None
    shared = np.random.default_rng(0).normal(size=100)
    two = scores._replace(Z=np.column_stack([shared, shared + scores.Z[:, 0]]))
    t = decisions.of_held_out(rule, costs, scores)
    assert t.shape == (1,)
    np.testing.assert_allclose(decisions.of_held_out(rule, costs, two), t, atol=1e-9)


def test_where_nothing_can_be_gained_thresholds_are_zero():
    truth, folds = np.arange(60) % 3, np.arange(60) // 20
    equal = HeldOutScores(np.zeros((60, 3)), truth, np.ones(60), folds)
    right = HeldOutScores(np.eye(3)[truth], truth, np.ones(60), folds)
    for scores, rule in itertools.product((equal, right), ("f1", "balanced")):
        assert not decisions.of_held_out(rule, None, scores).any()
    assert not decisions.of_held_out("costs", np.ones((3, 3)), equal).any()
    noise = HeldOutScores(np.random.default_rng(0).normal(size=(60, 1)), truth // 2, np.ones(60), folds)
    assert decisions.of_held_out("f1", None, noise).shape == (1,)


def test_classes_that_no_held_out_row_has_keep_theirs():
    scores = held(1, 3, m=90)
    rows = scores.labels != 2
    few = HeldOutScores(scores.Z[rows], scores.labels[rows], scores.weights[rows], scores.folds[rows])
    for rule in ("f1", "balanced"):
        t = decisions.of_held_out(rule, None, few)
        assert np.isfinite(t).all()
    nobody = HeldOutScores(np.ones((4, 1)), np.zeros(4, int), np.ones(4), np.arange(4))
    assert decisions.of_held_out("f1", None, nobody).tolist() == [0.0]


def test_costs_that_leave_one_choice_make_it():
    """If the second class never costs anything, nothing else is predicted, also beyond the scores that were seen."""
    scores = held(0, 2, m=100)
    t = decisions.of_held_out("costs", np.array([[1.0, 0.0], [1.0, 0.0]]), scores)
    assert t[0] < scores.Z.min() - 1.0
    assert decisions.of_held_out("costs", np.array([[0.0, 1.0], [0.0, 1.0]]), scores)[0] > scores.Z.max() + 1.0


def test_a_share_of_the_thresholds_is_taken_where_folds_do_not_agree():
    """Scores that say nothing: the best threshold of all rows is an accident, and other folds do not confirm it."""
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = (rng.random(80) < 0.4).astype(int)
        scores = HeldOutScores(rng.normal(size=(80, 1)), truth, np.ones(80), np.arange(80) % 5)
        value, weights = value_of("balanced", 2, scores)
        whole = decisions.best_cut(value, scores.Z[:, 0], truth, weights)[0]
        shares.append(decisions.of_held_out("balanced", None, scores)[0] / whole)
    assert set(np.round(shares, 12)) <= set(decisions.SHARES)
    assert np.mean(shares) < 0.6


@pytest.mark.parametrize("k", [2, 3])
def test_what_all_predictions_of_a_row_cost_changes_nothing(k):
    scores, costs = held(3, k, m=300), np.array(COSTS[k])
    t = decisions.of_held_out("costs", costs, scores)
    assert t.any()
    shifted = costs + 1e9 * np.arange(1.0, k + 1)[:, None]
    np.testing.assert_allclose(decisions.of_held_out("costs", shifted, scores), t, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [2, 3])
def test_a_single_fold_is_cut_into_parts(rule, k):
    """So are folds of one class each: what is found then does not depend on how rows were cut."""
    scores, costs = held(3, k, m=300), np.array(COSTS[k]) if rule == "costs" else None
    t = decisions.of_held_out(rule, costs, scores._replace(folds=np.zeros(300, int)))
    assert t.any()
    z = scores.Z[:, 0] if k == 2 else scores.Z
    plain, found = (worth(rule, k, scores.labels, class_numbers(one, z), scores.weights) for one in (None, t))
    assert found > plain
    if k == 2:
        by_class = decisions.of_held_out(rule, costs, scores._replace(folds=scores.labels))
        np.testing.assert_array_equal(by_class, t)


def test_a_search_that_runs_out_of_time_is_not_worse_than_none():
    scores = held(2, 3, m=150)
    t = decisions.of_held_out("f1", None, scores, is_over=lambda: True)
    values = [f1_score(scores.labels, class_numbers(one, scores.Z), average="macro", sample_weight=scores.weights)
              for one in (None, t)]  # fmt: skip
    assert values[1] >= values[0]


# --- fits


@pytest.mark.parametrize("loss", ["squared_hinge", "softmax", "crammer_singer"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [2, 3])
def test_every_rule_with_every_kind_of_loss(loss, rule, k):
    X, y = rare(k=k)
    labels = np.array(["a", "b", "c"])[y]
    options = TrainOptions(loss=loss, alpha=1e-2, random_state=1)
    plain, _ = fit(X, labels, options)
    model, _ = fit(X, labels, dataclasses.replace(options, threshold=threshold_of(rule, k)))
    assert model.thresholds.shape == ((1,) if k == 2 else (3,))
    np.testing.assert_array_equal(model.weights, plain.weights)
    scores = plain.decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    by_hand = (scores > model.thresholds).astype(int) if k == 2 else (scores - model.thresholds).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes[by_hand])
    assert worth(rule, k, y, by_hand) > worth(rule, k, y, class_numbers(None, scores))
    assert model.score(X, labels) == np.mean(model.predict(X) == labels)
    if loss == "softmax":
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_and_thresholds_come_from_the_same_rows(k):
    X, y = rare(k=k)
    settings = {"alpha": 1e-2, "random_state": 3}
    both = LinearClassifier(probability=True, threshold="balanced", **settings).fit(X, y)
    slopes = LinearClassifier(probability=True, **settings).fit(X, y)
    cuts = LinearClassifier(threshold="balanced", **settings).fit(X, y)
    np.testing.assert_array_equal(both.predict_proba(X), slopes.predict_proba(X))
    np.testing.assert_array_equal(both.predict(X), cuts.predict(X))
    assert (both.predict(X) != slopes.predict(X)).any()


def test_on_new_rows_they_help_where_they_should():
    X, y = rare(n=4000)
    for rule in RULES:
        options = TrainOptions("logistic", alpha=1e-3)
        plain, tuned = (
            fit(X[:2000], y[:2000], dataclasses.replace(options, threshold=threshold))[0].predict(X[2000:])
            for threshold in (None, threshold_of(rule, 2))
        )
        assert worth(rule, 2, y[2000:], tuned) > worth(rule, 2, y[2000:], plain) + 0.02


def test_as_good_as_scikit_learn():
    """`TunedThresholdClassifierCV` of the same model, measured on new rows."""
    X, y = rare(n=3000, seed=2)
    theirs = TunedThresholdClassifierCV(LogisticRegression(C=1.0), scoring="balanced_accuracy", cv=5)
    theirs.fit(X[:1500], y[:1500])
    ours = LinearClassifier("logistic", alpha=1.0 / 1500, tol=1e-6, threshold="balanced").fit(X[:1500], y[:1500])
    expected, found = (balanced_accuracy_score(y[1500:], one.predict(X[1500:])) for one in (theirs, ours))
    assert found > expected - 0.02
    shares = np.log(theirs.best_threshold_ / (1.0 - theirs.best_threshold_))
    assert ours.model_.thresholds[0] == pytest.approx(shares, abs=0.7)


@pytest.mark.parametrize("k", [2, 3])
def test_weights_are_those_of_rows_not_of_classes(k):
    """Class weights change the scores; what decisions are worth is counted by sample weights alone."""
    X, y = rare(k=k)
    weights = 1.0 + np.arange(len(y)) % 3
    by_hand = {"balanced": len(y) * 2.0 / (k * np.bincount(y, weights)), "dict": np.arange(1.0, k + 1)}
    for class_weight in ("balanced", dict(enumerate(by_hand["dict"]))):
        options = TrainOptions(alpha=1e-2, class_weight=class_weight, threshold="f1", tol=1e-6)
        problem = prepare(X, y, options, sample_weight=weights)
        folds = finish.held_out_folds(problem)
        held_out = finish._scores(problem, folds, None)
        expected = decisions.of_held_out("f1", None, held_out._replace(weights=weights.astype(float)))
        model, _ = fit_problem(problem)
        np.testing.assert_allclose(model.thresholds, expected, atol=1e-9)
        assert worth("f1", k, y, model.predict(X), weights) > 0.3


def test_the_layout_and_the_precision_do_not_matter():
    X, y = rare(k=3)
    options = TrainOptions("softmax", alpha=1e-2, tol=1e-9, threshold="balanced")
    t = fit(X, y, options)[0].thresholds
    assert t.any()
    np.testing.assert_allclose(fit(sparse.csr_array(X), y, options)[0].thresholds, t, atol=1e-4)
    single = fit(X.astype(np.float32), y, dataclasses.replace(options, tol=1e-6))[0].thresholds
    np.testing.assert_allclose(single, t, atol=1e-2)
    names = np.array(["c", "a", "b"])[y]
    np.testing.assert_allclose(fit(X, names, options)[0].thresholds, t[[1, 2, 0]], atol=0.2)


def test_held_out_rows_of_the_user_decide(monkeypatch):
    """In a search with given folds, these are also the folds for what comes after it."""
    seen = []
    scores = finish.held_out_scores
    monkeypatch.setattr(finish, "held_out_scores", lambda *given: seen.append(given[2]) or scores(*given))
    X, y = rare()
    pairs = [(np.arange(200), np.arange(200, 300)), (np.arange(300), np.arange(300, 400))]
    found = lineal.LinearClassifierCV(alphas=[1e-2], cv=pairs, threshold="balanced").fit(X, y)
    (folds,) = seen
    assert isinstance(folds, Given)
    weights = np.full(400, 1 / 400)
    assert np.flatnonzero(folds.held(1)).tolist() == list(range(300, 400))
    assert np.flatnonzero(folds.others(0, weights)).tolist() == list(range(200))
    assert found.model_.thresholds.any()
    plain = lineal.LinearClassifierCV(alphas=[1e-2], cv=2, threshold="balanced").fit(X, y)
    assert not isinstance(seen[1], Given)
    assert plain.model_.thresholds.any()


@pytest.mark.parametrize("rule", RULES)
def test_one_split_is_enough(rule):
    X, y = rare(n=2000)
    split = PredefinedSplit(np.where(np.arange(2000) < 1000, -1, 0))
    found = lineal.LinearClassifierCV("logistic", alphas=[1e-2], cv=split, threshold=threshold_of(rule, 2)).fit(X, y)
    assert found.model_.thresholds.any()


@pytest.mark.parametrize("rule", RULES)
def test_rows_of_one_class_choose_no_threshold(rule):
    X, y = rare(n=2000)
    of_one, folds = np.flatnonzero(y == 0), [np.arange(1000, 2000)] * 2
    pairs = [(train, rows) for train, rows in zip(folds, (of_one[:20], of_one[20:40]))]
    search = lineal.LinearClassifierCV("logistic", alphas=[1e-2], scoring="log_loss", threshold=threshold_of(rule, 2))
    with pytest.raises(DataError, match="all of them are of class 'no': give folds that hold out rows of other cl"):
        search.set_params(cv=pairs).fit(X, np.array(["no", "yes"])[y])
    pairs[1] = (np.arange(1000), np.arange(1000, 2000))
    assert search.set_params(cv=pairs).fit(X, y).model_.thresholds.any()


def test_an_interrupt_leaves_a_model_without(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(decisions, "of_held_out", interrupted)
    X, y = rare(n=100)
    model, solution = fit(X, y, TrainOptions(threshold="f1", probability=True))
    assert (solution.status, model.thresholds, model.calibration) == ("interrupted", None, None)
    assert "before its thresholds were chosen and its probabilities calibrated: it has none" in solution.message
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0.0).astype(int))


# --- what models do with them


def test_everything_that_predicts_applies_them(tmp_path):
    import pandas as pd

    X, y = rare(k=3)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    classifier = LinearClassifier(alpha=1e-2, threshold=COSTS[3]).fit(frame, y)
    expected = classifier.predict(frame)
    assert (expected != class_numbers(None, classifier.decision_function(frame))).any()
    assert classifier.score(frame, y) == np.mean(expected == y)
    small, columns = classifier.model_.compact()
    np.testing.assert_array_equal(small.predict(X[:, columns]), expected)
    classifier.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(frame), expected)
    assert loaded.options["threshold"] == COSTS[3]
    from lineal.data.dataset import Dataset
    from lineal.models.evaluation import accuracy_on, evaluate

    measures = evaluate(loaded, Dataset(X, y))
    assert measures["accuracy"] == np.mean(expected == y)
    assert measures["macro_f1"] == pytest.approx(f1_score(y, expected, average="macro"))
    assert np.diag(measures["confusion"]["matrix"]).sum() == np.sum(expected == y)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    assert accuracy_on(loaded, tmp_path / "rows.npz") == pytest.approx(np.mean(expected == y))


def test_tables():
    import pandas as pd

    X, y = rare()
    table = pd.DataFrame(100.0 * X[:, :4] + 7.0, columns=list("abcd"))
    found = lineal.TableClassifier(LinearClassifier(alpha=1e-2, threshold="balanced")).fit(table, y)
    plain = lineal.TableClassifier(LinearClassifier(alpha=1e-2)).fit(table, y)
    np.testing.assert_allclose(found.decision_function(table), plain.decision_function(table))
    by_hand = found.decision_function(table) > found.model_.thresholds
    np.testing.assert_array_equal(found.predict(table), by_hand.astype(int))
    assert worth("balanced", 2, y, found.predict(table)) > worth("balanced", 2, y, plain.predict(table))


@pytest.mark.parametrize("k", [2, 3])
def test_files_keep_them_and_tampering_is_found(k, tmp_path):
    X, y = rare(k=k)
    classifier = LinearClassifier(threshold=COSTS[k], alpha=1e-2).fit(X, y)
    path = tmp_path / "m"
    classifier.save(path)
    np.testing.assert_array_equal(lineal.load(path).thresholds, classifier.model_.thresholds)
    shape = len(classifier.model_.thresholds)
    good = [0.0] * shape
    for wrong in ([*good, 1.0], good[1:], [good], "x", 3.0, ["a"] * shape, [float("inf")] * shape, [None] * shape):
        classifier.save(path)
        rewrite(path, lambda d, t, wrong=wrong: d.update(thresholds=wrong))
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(path)
    for version in (1, 2, 3, 4):  # what older versions would read, without the thresholds
        classifier.save(path)
        rewrite(path, lambda d, t, version=version: d.update(format_version=version))
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(path)
    classifier.save(path)
    rewrite(path, lambda d, t: d.update(format_version=6))
    with pytest.raises(ModelFileError, match="upgrade lineal"):
        lineal.load(path)


@pytest.mark.filterwarnings("ignore:the mean of the models of 4 shards")
def test_votes_have_no_thresholds(tmp_path):
    X, y = rare()
    options = {"solver": "averaging", "solver_options": {"combine": "vote"}}
    with pytest.raises(OptionError, match="threshold='f1' needs one model with scores"):
        LinearClassifier(threshold="f1", **options).fit(X, y)
    with pytest.raises(OptionError, match="threshold=… needs one model with scores"):
        LinearClassifier(threshold=COSTS[2], **options).fit(X, y)
    LinearClassifier(**options).fit(X, y).save(tmp_path / "m")
    rewrite(tmp_path / "m", lambda d, t: d["own"].update(thresholds=[0.5], format_version=5))
    with pytest.raises(ModelFileError, match="votes are not compared with thresholds"):
        lineal.load(tmp_path / "m")


# --- what is refused


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("F1", "did you mean 'f1'"),
        ("F2", "for one label per row there are 'f1', 'balanced' and a matrix of costs, for label sets 'zero'"),
        (0.3, "is neither one of f1, balanced nor a matrix of costs"),
        (0.3, r"its shape is \(\)"),
        ([[0, 1]], r"its shape is \(1, 2\)"),
        ([[0, 1], [2]], "equally many numbers"),
        ([[0, 1], ["2", 0]], "not numbers"),
        ([[0, 1], [None, 0]], "not numbers"),
        ([[False, True], [True, False]], "not numbers"),
        ([[0, 1], [float("nan"), 0]], "row 1 has nan in column 0"),
        ([[0.0]], r"its shape is \(1, 1\)"),
        (np.zeros((2, 2, 2)), "its shape is"),
        ("costs", "not numbers"),
    ],
)
def test_options_that_are_refused(threshold, message):
    with pytest.raises(OptionError, match=message):
        TrainOptions(threshold=threshold).checked()


def test_problems_that_are_refused():
    X, y = rare(k=3)
    Y = np.eye(3, dtype=int)[y]
    for name in ("zero", "global", "per_label", "learned"):
        with pytest.raises(OptionError, match="is for label sets, and y has one label per row: use 'f1', 'balanced'"):
            fit(X, y, TrainOptions(threshold=name))
    for rule in RULES:
        with pytest.raises(OptionError, match="is for one label per row, and y has label sets: use 'global'"):
            fit(X, Y, TrainOptions(threshold=threshold_of(rule, 3)))
    with pytest.raises(OptionError, match=r"has costs of 2 classes, and y has 3: .* in their order: 0, 1, 2"):
        fit(X, y, TrainOptions(threshold=COSTS[2]))
    with pytest.raises(OptionError, match=r"fbr=0\.2 is for threshold 'per_label', not 'f1'"):
        TrainOptions(threshold="f1", fbr=0.2).checked()
    with pytest.raises(DataError, match="threshold='f1' needs two rows of every class"):
        fit(X, np.r_[3, y[1:]], TrainOptions(threshold="f1"))


# --- the command line


def write_rows(path, k=2):
    X, y = rare(k=k)
    names = np.array(["no", "yes", "maybe"])[y]
    lines = [",".join([*(f"{value:.6f}" for value in row), name]) for row, name in zip(X, names)]
    path.write_text("\n".join([",".join([*(f"x{j}" for j in range(10)), "label"]), *lines]) + "\n")
    return path


def test_the_command_line_predicts_the_same(tmp_path):
    rows, model = write_rows(tmp_path / "rows.csv"), tmp_path / "m"
    given = ("train", rows, "-m", model, "--label", "label", "--alpha", "0.01", "--quiet", "--threshold")
    for threshold, rule in (("balanced", "balanced"), ("[[0, 1], [5, 0]]", [[0.0, 1.0], [5.0, 0.0]])):
        done(*given, threshold)
        known = lineal.load(model)
        assert known.options["threshold"] == rule
        predicted = known.predict(rows)
        assert done("predict", model, rows).stdout.split() == predicted.tolist()
        measures = json.loads(done("evaluate", model, rows, "--json").stdout)
        truth = np.array(rows.read_text().split()[1:])
        assert measures["accuracy"] == np.mean([line.endswith(f",{guess}") for line, guess in zip(truth, predicted)])
        assert f"yes where its score is above {known.thresholds[0]:g}" in done("inspect", model).stdout
        assert json.loads(done("inspect", model, "--json").stdout)["thresholds"] == known.thresholds.tolist()
    found = failed(*given, "[[0,1],[2]]")
    assert "--threshold … is neither one of f1, balanced" in found
    assert "one list per true class" in failed(*given, "[[0,1")
    assert "--threshold … has costs of 3 classes, and y has 2" in failed(*given, "[[0,1,1],[1,0,1],[1,1,0]]")
    assert "--threshold global is for label sets" in failed(*given, "global")
    assert "--threshold f2 is unknown: did you mean" in failed(*given, "f2")
    done("path", rows, "-m", model, "--label", "label", "--alphas", "0.1,0.01", "--folds", "3", "--quiet",
         "--threshold", "f1")  # fmt: skip
    assert lineal.load(model).thresholds.shape == (1,)
    assert "measures predictions" in failed(
        "path", rows, "-m", model, "--label", "label", "--threshold", "f1", "--scoring", "accuracy"
    )


def test_iris_is_decided_as_before():
    """Classes of equal size that are well separated: nothing to gain, nothing lost."""
    X, y = load_iris(return_X_y=True)
    plain = LinearClassifier("softmax", alpha=1e-3).fit(X, y).score(X, y)
    for rule in ("f1", "balanced"):
        assert LinearClassifier("softmax", alpha=1e-3, threshold=rule).fit(X, y).score(X, y) >= plain - 0.01
