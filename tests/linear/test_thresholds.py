"""Thresholds: each rule against a search over all cuts; label sets through fits, files and the command line."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from cli_files import done, failed, write_label_sets
from edited_models import rewrite
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score

import lineal
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.linear import thresholds
from lineal.linear.estimator import LinearClassifier
from lineal.linear.finish import held_out_folds
from lineal.linear.fit import fit, prepare
from lineal.linear.held_out import HeldOutScores, held_out_scores
from lineal.linear.options import TrainOptions
from lineal.linear.search.estimator import LinearClassifierCV
from lineal.models.thresholds import label_sets
from lineal.problem.monitor import Monitor


def rows_of_sets(n=150, k=4, seed=0):
    X, Y = make_multilabel_classification(n_samples=n, n_features=8, n_classes=k, n_labels=2, random_state=seed)
    return X / X.std(0), Y


def weighted_f1(truth, guess, weights):
    return 2.0 * weights @ (truth & guess) / max(weights @ truth + weights @ guess, 1e-300)


# --- rules


@pytest.mark.parametrize("seed", range(6))
def test_the_best_cut_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=40) if seed % 2 else rng.integers(0, 5, 40).astype(float)
    truth, weights = rng.random(40) < 0.3, rng.integers(1, 4, 40).astype(float)
    cut, f1 = thresholds.best_cut(scores, truth, weights)
    every = [-np.inf, *np.unique(scores)]
    assert f1 == pytest.approx(max(weighted_f1(truth, scores > c, weights) for c in every))
    assert weighted_f1(truth, scores > cut, weights) == pytest.approx(f1)
    twice = np.repeat(np.arange(40), weights.astype(int))
    assert thresholds.best_cut(scores[twice], truth[twice], np.ones(len(twice))) == pytest.approx((cut, f1))


def test_cuts_lie_between_scores_also_where_no_number_does():
    one = np.nextafter(1.0, 2.0)
    assert thresholds.best_cut(np.array([1.0, one]), np.array([False, True]), np.ones(2)) == (1.0, 1.0)
    assert thresholds.best_cut(np.array([1.0, 3.0]), np.array([False, True]), np.ones(2)) == (2.0, 1.0)
    cut, f1 = thresholds.best_cut(np.array([1.0, 3.0]), np.array([True, True]), np.ones(2))
    assert (cut < 1.0, f1) == (True, 1.0)
    assert thresholds.best_cut(np.array([1.0, 3.0]), np.array([False, False]), np.ones(2)) == (3.0, 0.0)


def held(seed=0, m=60, k=3):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(m, k))
    Y = Z + rng.normal(size=(m, k)) > 0.7
    return HeldOutScores(Z, sparse.csr_array(Y), rng.random(m) + 0.5, np.arange(m) % 3), Y


def learned(Z, truth, weights, is_ranking=False):
    return thresholds.learned(thresholds.CutMoments.of(Z, truth, weights, is_ranking), is_ranking)


def test_the_global_cut_has_the_best_micro_f1():
    scores, Y = held()
    cuts = thresholds.of_held_out("global", scores, 0.1)
    assert cuts.shape == (3,)
    assert (cuts == cuts[0]).all()
    weights = np.repeat(scores.weights, 3)

    def micro(cut):
        return weighted_f1(Y.ravel(), (cut < scores.Z).ravel(), weights)

    assert micro(cuts[0]) == pytest.approx(max(micro(cut) for cut in scores.Z.ravel()))


def test_cuts_of_labels_are_means_over_folds_of_the_best():
    scores, Y = held(1)
    cuts = thresholds.of_held_out("per_label", scores, 0.0)
    for r in range(3):
        found = []
        for fold in range(3):
            part = scores.folds == fold
            values = np.sort(scores.Z[part, r])
            middles = [*(0.5 * (values[1:] + values[:-1])), values[0] - 1e-12, values[-1]]
            f1 = [weighted_f1(Y[part, r], scores.Z[part, r] > cut, scores.weights[part]) for cut in middles]
            found.append(middles[int(np.argmax(f1))])
        assert cuts[r] == pytest.approx(np.mean(found), abs=1e-9)


def test_labels_that_are_not_found_get_their_highest_score():
    scores, Y = held(2)
    Y[:, 0] = False
    Y[np.argmin(scores.Z[:, 1]), 1] = True  # F1 of label 1 is small in a fold, but not zero
    scores = scores._replace(labels=sparse.csr_array(Y))
    highest = np.mean([scores.Z[scores.folds == fold].max(axis=0) for fold in range(3)], axis=0)
    assert thresholds.of_held_out("per_label", scores, 0.0)[0] == pytest.approx(highest[0])
    np.testing.assert_allclose(thresholds.of_held_out("per_label", scores, 1.0), highest)
    few = thresholds.of_held_out("per_label", scores, 0.1)
    np.testing.assert_allclose(few[1:], thresholds.of_held_out("per_label", scores, 0.0)[1:])


def test_row_cuts_make_the_fewest_errors():
    rng = np.random.default_rng(0)
    Z, truth = rng.integers(0, 6, (300, 5)).astype(float), rng.random((300, 5)) < 0.4
    cuts = thresholds.row_cuts(Z, truth)
    for z, labels, cut in zip(Z, truth, cuts):
        every = [-1.0, *(z + 0.5)]
        assert ((z > cut) != labels).sum() == min(((z > c) != labels).sum() for c in every)
        assert not np.any(z == cut)


def test_row_cuts_are_in_the_middle():
    Z = np.array([[3.0, 1.0, -2.0]] * 4)
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
    assert thresholds.row_cuts(Z, truth).tolist() == [2.0, -0.5, 4.0, -3.0]
    # one error with nothing, with the first, and with all three: the widest interval of these
    assert thresholds.row_cuts(np.array([[9.0, 5.0, 4.0]]), np.array([[True, False, True]])).tolist() == [7.0]


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_a_learned_threshold_is_least_squares_over_weighted_rows(shift):
    rng = np.random.default_rng(0)
    Z, truth, weights = rng.normal(size=(80, 4)) + shift, rng.random((80, 4)) < 0.4, rng.random(80)
    weights[:10] = 0.0
    first, *others = (
        thresholds.CutMoments.of(Z[a:b], truth[a:b], weights[a:b]) for a, b in ((0, 5), (5, 30), (30, 30), (30, 80))
    )
    found = thresholds.learned(sum(others, start=first))
    roots = np.sqrt(weights)
    centred = Z - shift
    expected = np.linalg.lstsq(
        roots[:, None] * np.column_stack([centred, np.ones(80)]), roots * (thresholds.row_cuts(Z, truth) - shift)
    )[0]
    np.testing.assert_allclose(found[:4], expected[:4], atol=1e-7)
    np.testing.assert_allclose(Z @ found[:4] + found[4], centred @ expected[:4] + expected[4] + shift, atol=1e-3)


def test_a_learned_threshold_of_scores_that_depend_on_each_other_is_the_smallest():
    rng = np.random.default_rng(1)
    Z, truth = rng.normal(size=(50, 3)), rng.random((50, 3)) < 0.5
    Z -= Z.mean(axis=1, keepdims=True)
    found = learned(Z, truth, np.ones(50))
    assert abs(found[:3].sum()) < 1e-6
    expected = np.linalg.lstsq(np.column_stack([Z, np.ones(50)]), thresholds.row_cuts(Z, truth))[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_learned_threshold_of_a_ranking_does_not_see_what_all_scores_of_a_row_share():
    rng = np.random.default_rng(6)
    Z, noise = rng.normal(size=(50, 3)), 1e-3 * rng.normal(size=(50, 1))
    Z -= Z.mean(axis=1, keepdims=True)
    truth = Z + 0.5 * rng.normal(size=Z.shape) > 0.0
    plain, found = (learned(z, truth, np.ones(50), is_ranking=True) for z in (Z, Z + noise))
    np.testing.assert_allclose(found, plain, atol=1e-6)
    for shift in (noise, 7.0):
        np.testing.assert_array_equal(label_sets(plain, Z + shift), label_sets(plain, Z))
    # Where rows share nothing it is the threshold of any other loss.
    other = learned(Z, truth, np.ones(50))
    np.testing.assert_allclose(Z @ other[:3] + other[3], Z @ plain[:3] + plain[3], atol=1e-6)


def test_a_learned_threshold_of_equal_scores_is_the_mean_cut():
    rng = np.random.default_rng(2)
    Z, truth = np.full((30, 3), [0.1, 0.3, 0.7]), rng.random((30, 3)) < 0.5
    Z += 1e-17 * rng.normal(size=Z.shape)
    found = learned(Z, truth, np.full(30, 1 / 30))
    np.testing.assert_allclose(Z @ found[:3] + found[3], thresholds.row_cuts(Z, truth).mean(), atol=0.05)


# --- fits


@pytest.mark.parametrize("loss", ["squared_hinge", "label_ranking"])
@pytest.mark.parametrize("threshold", ["zero", "global", "per_label", "learned"])
def test_every_rule_with_every_kind_of_loss(loss, threshold):
    X, Y = rows_of_sets()
    options = TrainOptions(loss=loss, alpha=1e-2, threshold=threshold, random_state=1)
    model, _ = fit(X, Y, options)
    shape = {"zero": None, "global": (4,), "per_label": (4,), "learned": (5,)}[threshold]
    assert (None if model.thresholds is None else model.thresholds.shape) == shape
    scores, sets = model.decision_function(X), model.predict(X)
    assert sets.dtype == np.int64
    if threshold == "zero":
        by_hand = scores > 0.0
    elif threshold == "learned":
        by_hand = scores > (scores @ model.thresholds[:4] + model.thresholds[4])[:, None]
    else:
        by_hand = scores > model.thresholds
    np.testing.assert_array_equal(sets, by_hand)
    if (loss, threshold) != ("label_ranking", "zero"):  # the scores of which are only worth their order
        assert f1_score(Y, sets, average="micro") > 0.7
    again = fit(X, Y, options)[0]
    np.testing.assert_array_equal(again.predict(X), sets)
    plain = fit(X, Y, dataclasses.replace(options, threshold="zero"))[0]
    np.testing.assert_array_equal(plain.weights, model.weights)


def test_cuts_come_from_rows_held_out():
    X, Y = rows_of_sets()
    options = TrainOptions(alpha=1e-2, threshold="per_label", random_state=1)
    problem = prepare(X, Y, options)
    folds = held_out_folds(problem)
    Z = np.empty(Y.shape)
    for fold in range(5):
        part = folds.numbers != fold
        Z[~part] = fit(X[part], Y[part], TrainOptions(alpha=1e-2, tol=1e-9))[0].decision_function(X[~part])
    found = held_out_scores(
        problem.objective.engine,
        problem.row_weights(),
        folds,
        lambda weights: problem.with_weights(weights).solve(),
        10**9,
    )
    np.testing.assert_array_equal(found.labels.toarray(), Y)
    np.testing.assert_allclose(found.Z, Z, atol=0.05)
    cuts = thresholds.of_held_out("per_label", found, 0.1)
    np.testing.assert_allclose(fit(X, Y, options)[0].thresholds, cuts)


@pytest.mark.parametrize("threshold", ["global", "per_label", "learned"])
def test_the_order_of_labels_layout_and_doubled_rows_do_not_matter(threshold):
    X, Y = rows_of_sets()
    options = TrainOptions(alpha=1e-2, tol=1e-9, threshold=threshold)
    cuts = fit(X, Y, options)[0].thresholds
    order = np.array([2, 0, 3, 1])
    expected = cuts[[*order, 4]] if threshold == "learned" else cuts[order]
    np.testing.assert_allclose(fit(X, Y[:, order], options)[0].thresholds, expected, atol=1e-4)
    np.testing.assert_allclose(fit(sparse.csr_array(X), Y, options)[0].thresholds, cuts, atol=1e-4)
    np.testing.assert_allclose(
        fit(X.astype(np.float32), Y, dataclasses.replace(options, tol=1e-6))[0].thresholds, cuts, atol=1e-2
    )
    if threshold == "learned":
        weights = np.where(np.arange(len(X)) < 50, 2.0, 1.0)
        doubled = fit(np.vstack([X, X[:50]]), np.vstack([Y, Y[:50]]), options)[0]
        np.testing.assert_allclose(
            fit(X, Y, options, sample_weight=weights)[0].thresholds, doubled.thresholds, atol=1e-4
        )


def test_scores_beyond_the_limit_are_sampled(monkeypatch):
    X, Y = rows_of_sets(n=2000)
    options = TrainOptions(alpha=1e-2, threshold="global")
    whole = fit(X, Y, options)[0].thresholds
    monkeypatch.setattr(thresholds, "MAX_SCORES", 4000)
    part = fit(X, Y, options)[0].thresholds
    assert part[0] != whole[0]
    np.testing.assert_allclose(part, whole, atol=0.3)


def test_rows_with_all_labels_or_none_and_labels_without_rows():
    X, Y = rows_of_sets()
    Y[:20], Y[20:40], Y[:, 3] = 1, 0, 0
    for loss, threshold in itertools.product(("squared_hinge", "label_ranking"), ("global", "per_label", "learned")):
        model, _ = fit(X, Y, TrainOptions(loss=loss, alpha=1e-2, threshold=threshold))
        assert np.isfinite(model.thresholds).all()
        assert model.predict(X)[:, 3].mean() < 0.1


def test_an_interrupt_between_fits_leaves_label_sets_cut_at_zero(monkeypatch):
    entered = Monitor.__enter__

    def interrupted_later(self):
        seen.append(self)
        self = entered(self)
        self._interrupted = len(seen) > 2
        return self

    seen: list[Monitor] = []
    monkeypatch.setattr(Monitor, "__enter__", interrupted_later)
    X, Y = rows_of_sets()
    model, solution = fit(X, Y, TrainOptions(threshold="global"))
    assert (solution.status, model.thresholds) == ("interrupted", None)
    assert "thresholds" in solution.message


# --- what is refused


def test_refusals():
    X, Y = rows_of_sets(n=40)
    y = Y[:, 0]
    with pytest.raises(OptionError, match="threshold='zero' is for label sets"):
        fit(X, y, TrainOptions(threshold="zero"))
    with pytest.raises(OptionError, match="probability=True with threshold='global'"):
        TrainOptions(threshold="global", probability=True).checked()
    with pytest.raises(OptionError, match="did you mean 'per_label'"):
        TrainOptions(threshold="perlabel").checked()
    with pytest.raises(OptionError, match="fbr=2 is not a number from 0 to 1"):
        TrainOptions(threshold="per_label", fbr=2).checked()
    with pytest.raises(OptionError, match=r"fbr=0\.2 is for threshold 'per_label'"):
        TrainOptions(threshold="global", fbr=0.2).checked()
    with pytest.raises(DataError, match="threshold='global' needs at least two rows"):
        fit(X[:1], Y[:1], TrainOptions(threshold="global"))
    fit(X, Y, TrainOptions(threshold="zero", probability=True))
    assert fit(X, y, TrainOptions(loss="label_ranking"))[0].thresholds is None


@pytest.mark.filterwarnings("ignore:the best .* is at the (smallest|largest) alpha of the path")
def test_a_search_scores_label_sets_where_it_can():
    X, Y = rows_of_sets(n=90)
    settings = {"loss": "label_ranking", "alphas": [1.0, 0.01], "cv": 3}
    found = LinearClassifierCV(scoring="micro_f1", **settings).fit(X, Y)
    assert found.cv_mean_.max() > 0.6
    assert found.model_.thresholds.shape == (5,)
    assert LinearClassifierCV(**settings).fit(X, Y).search_.measure == "precision_at_1"
    with pytest.raises(OptionError, match="scoring='micro_f1' measures label sets, and threshold='per_label'"):
        LinearClassifierCV(scoring="micro_f1", threshold="per_label", **settings).fit(X, Y)
    cut = LinearClassifierCV(alphas=[0.01], cv=3, threshold="per_label").fit(X, Y)
    assert cut.model_.thresholds.shape == (4,)


# --- files and the command line


@pytest.mark.parametrize("threshold", ["per_label", "learned"])
def test_files_keep_them_and_tampering_is_found(threshold, tmp_path):
    X, Y = rows_of_sets()
    classifier = LinearClassifier(threshold=threshold, alpha=1e-2).fit(X, Y)
    classifier.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.thresholds, classifier.model_.thresholds)
    np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
    for wrong in ([1.0], [0.0] * 6, [[0.0] * 4], "x", 3.0, ["a"] * 4, [float("inf")] * 4, [None] * 4):
        classifier.save(tmp_path / "m")
        rewrite(tmp_path / "m", lambda d, t, wrong=wrong: d.update(thresholds=wrong))
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(tmp_path / "m")
    one, _ = fit(X, Y[:, 0], TrainOptions())
    one.save(tmp_path / "m")
    rewrite(tmp_path / "m", lambda d, t: d.update(thresholds=[0.0, 0.0]))
    with pytest.raises(ModelFileError, match="thresholds are for label sets"):
        lineal.load(tmp_path / "m")


@pytest.mark.parametrize(("loss", "threshold"), [("label_ranking", None), ("logistic", "per_label")])
def test_the_command_line_gives_the_same_label_sets(loss, threshold, tmp_path):
    rows, model = write_label_sets(tmp_path / "sets.svm"), tmp_path / "sets.model"
    given = [] if threshold is None else ["--threshold", threshold, "--fbr", "0.05"]
    done("train", rows, "-m", model, "--loss", loss, "--quiet", *given)
    known = lineal.load(model)
    predicted = known.predict(lineal.read(rows, schema=known.schema).X)
    sets = [[10 * (j + 1) for j in np.flatnonzero(row)] for row in predicted]
    assert done("predict", model, rows).stdout.splitlines() == [",".join(map(str, labels)) for labels in sets]
    lines = map(json.loads, done("predict", model, rows, "--json", "--scores").stdout.splitlines())
    assert [line["labels"] for line in lines] == sets
    measures = json.loads(done("evaluate", model, rows, "--json").stdout)
    Y = lineal.read(rows, schema=known.schema).y.toarray()
    assert measures["subset_accuracy"] == pytest.approx((predicted == Y).all(axis=1).mean())
    shown = done("inspect", model).stdout
    assert ("learned, linear in the scores" if threshold is None else "one threshold per label") in shown
    assert "fbr" in failed("train", rows, "-m", model, "--fbr", "0.2")
