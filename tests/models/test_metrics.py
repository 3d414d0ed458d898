"""Measures against scikit-learn's own, and against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn import metrics as reference

from lineal.models import metrics, ranking


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.fixture
def three():
    rng = np.random.default_rng(1)
    classes = np.array(["ape", "bee", "cat"])
    scores = rng.normal(size=(200, 3))
    labels = classes[np.argmax(scores + rng.normal(size=(200, 3)), axis=1)]
    return classes, labels, scores, softmax(scores)


def test_several_classes_as_scikit_learn(three):
    classes, labels, scores, probabilities = three
    result = metrics.single_label(labels, scores, probabilities, classes)
    guess = classes[np.argmax(scores, axis=1)]
    onehot = labels[:, None] == classes
    expected = {
        "rows": 200,
        "accuracy": reference.accuracy_score(labels, guess),
        "macro_f1": reference.f1_score(labels, guess, average="macro"),
        "micro_f1": reference.f1_score(labels, guess, average="micro"),
        "log_loss": reference.log_loss(labels, probabilities, labels=classes),
        "brier": np.mean(((probabilities - onehot) ** 2).sum(axis=1)),
        "roc_auc": reference.roc_auc_score(labels, probabilities, multi_class="ovr"),
        "pr_auc": reference.average_precision_score(onehot, probabilities, average="macro"),
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert result["confusion"]["matrix"] == reference.confusion_matrix(labels, guess).tolist()
    assert result["confusion"]["labels"] == classes.tolist()
    assert result["notes"] == []


def test_two_classes_as_scikit_learn():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=300)
    labels = np.where(scores + rng.normal(size=300) > 0, 7, 3)
    positive = 1.0 / (1.0 + np.exp(-scores))
    probabilities = np.stack([1.0 - positive, positive], axis=1)
    result = metrics.single_label(labels, scores, probabilities, np.array([3, 7]))
    assert result["roc_auc"] == pytest.approx(reference.roc_auc_score(labels == 7, scores))
    assert result["pr_auc"] == pytest.approx(reference.average_precision_score(labels == 7, scores))
    assert result["brier"] == pytest.approx(reference.brier_score_loss(labels == 7, positive))
    assert result["log_loss"] == pytest.approx(reference.log_loss(labels == 7, positive))


def test_without_probabilities(three):
    classes, labels, scores, _ = three
    result = metrics.single_label(labels, scores, None, classes)
    assert not {"log_loss", "brier", "calibration_error"} & set(result)
    expected = np.mean([reference.roc_auc_score(labels == c, scores[:, j]) for j, c in enumerate(classes)])
    assert result["roc_auc"] == pytest.approx(expected)


def test_unknown_labels_are_wrong_and_said(three):
    classes, labels, scores, probabilities = three
    known = metrics.single_label(labels, scores, probabilities, classes)
    more = np.concatenate([labels, ["dog", "eel"]])
    rows = np.concatenate([np.arange(200), [0, 1]])
    result = metrics.single_label(more, scores[rows], probabilities[rows], classes)
    assert result["accuracy"] == pytest.approx(known["accuracy"] * 200 / 202)
    assert result["log_loss"] == pytest.approx(known["log_loss"])
    assert result["confusion"] == known["confusion"]
    assert result["notes"][0].startswith("2 rows have labels the model does not know")


@pytest.mark.parametrize("labels", [np.array(["x", "y"]), np.array([5, 6])])
def test_all_labels_unknown(labels):
    result = metrics.single_label(labels, np.zeros(2), np.full((2, 2), 0.5), np.array([0, 1]))
    assert result["accuracy"] == 0.0
    assert result["roc_auc"] is None


def test_absent_classes_are_left_out_of_the_areas(three):
    classes, labels, scores, probabilities = three
    rows = labels != "cat"
    result = metrics.single_label(labels[rows], scores[rows], probabilities[rows], classes)
    expected = [reference.roc_auc_score(labels[rows] == c, probabilities[rows, j]) for j, c in enumerate(classes[:2])]
    assert result["roc_auc"] == pytest.approx(np.mean(expected))
    assert "1 of 3 classes" in result["notes"][0]


def test_one_class_has_no_areas():
    result = metrics.single_label(np.array([1, 1]), np.array([0.5, -0.5]), None, np.array([0, 1]))
    assert result["roc_auc"] is None
    assert result["pr_auc"] is None
    assert "one class only" in result["notes"][0]


def test_confusion_only_for_few_classes():
    classes = np.arange(metrics.MAX_CONFUSION + 1)
    result = metrics.single_label(classes, np.eye(len(classes)), None, classes)
    assert "confusion" not in result
    assert result["accuracy"] == 1.0


def test_class_numbers():
    numbers = metrics.class_numbers(np.array(["b", "z", "a"]), np.array(["c", "a", "b"]))
    assert numbers.tolist() == [2, -1, 1]
    assert metrics.class_numbers(np.array([1.0, 1.5]), np.array([0, 1])).tolist() == [1, -1]
    assert metrics.class_numbers(np.array(["0", "1"]), np.array([0, 1])).tolist() == [-1, -1]


def test_calibration_error_by_hand():
    confidence = np.array([0.55, 0.65, 0.95, 0.95])
    correct = np.array([True, False, True, True])
    # Ten bins: {0.55 right}, {0.65 wrong}, {0.95, 0.95 right}.
    assert metrics.calibration_error(confidence, correct, 10) == pytest.approx((0.45 + 0.65 + 0.05 + 0.05) / 4)
    assert metrics.calibration_error(np.array([0.0, 1.0]), np.array([False, True])) == 0.0


def test_brier_by_hand():
    assert metrics.brier_score(np.array([0]), np.array([[0.8, 0.2]])) == pytest.approx(0.04)
    assert metrics.brier_score(np.array([2]), np.array([[0.5, 0.2, 0.3]])) == pytest.approx(0.25 + 0.04 + 0.49)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_label_sets_as_scikit_learn(wrap):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(60, 6))
    truth = scores + rng.normal(size=(60, 6)) > 0.4
    probabilities = 1.0 / (1.0 + np.exp(-scores))
    result = metrics.label_sets(wrap(truth), scores, probabilities, np.arange(6))
    guess = scores > 0
    expected = {
        "subset_accuracy": reference.accuracy_score(truth, guess),
        "hamming_loss": reference.hamming_loss(truth, guess),
        "macro_f1": reference.f1_score(truth, guess, average="macro"),
        "micro_f1": reference.f1_score(truth, guess, average="micro"),
        "label_ranking_loss": reference.label_ranking_loss(truth, scores),
        "label_ranking_average_precision": reference.label_ranking_average_precision_score(truth, scores),
        "log_loss": np.mean([reference.log_loss(truth[:, j], probabilities[:, j], labels=[0, 1]) for j in range(6)]),
        "brier": np.mean((probabilities - truth) ** 2),
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    best = np.argsort(-scores, axis=1)
    for top in (1, 3, 5):
        by_hand = np.mean([truth[i, best[i, :top]].mean() for i in range(60)])
        assert result[f"precision_at_{top}"] == pytest.approx(by_hand)


@pytest.mark.parametrize("chunk", [1 << 20, 21])
def test_label_sets_with_ties_and_rows_without_labels(monkeypatch, chunk):
    monkeypatch.setattr(metrics, "CHUNK_SCORES", chunk)
    rng = np.random.default_rng(4)
    scores = rng.integers(-2, 3, (50, 6)).astype(float)
    truth = scores + rng.normal(size=(50, 6)) > 0.4
    truth[0], truth[1] = False, True
    guess = scores > 1.0
    truth[2] = guess[2] = False
    scores[2] = -1.0
    result = metrics.label_sets(sparse.csr_array(truth), scores, None, np.arange(6), lambda some: some > 1.0)
    expected = {
        "micro_f1": reference.f1_score(truth, guess, average="micro"),
        "macro_f1": reference.f1_score(truth, guess, average="macro"),
        "example_f1": reference.f1_score(truth, guess, average="samples", zero_division=1.0),
        "label_ranking_loss": reference.label_ranking_loss(truth, scores),
        "label_ranking_average_precision": reference.label_ranking_average_precision_score(truth, scores),
        "coverage": reference.coverage_error(truth, scores),
        "hamming_loss": reference.hamming_loss(truth, guess),
        "subset_accuracy": reference.accuracy_score(truth, guess),
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    labelled = truth.any(1)
    top = np.argmax(scores, axis=1)
    hits = truth[np.arange(50), top]
    assert result["precision_at_1"] == pytest.approx(hits.mean())
    assert result["one_error"] == pytest.approx(1.0 - hits[labelled].mean())
    assert result["notes"] == [f"{(~labelled).sum()} rows have no label that the model knows"]


def test_two_labels_have_an_order_but_no_third():
    truth, scores = np.array([[1, 0], [0, 1]]), np.array([[2.0, 1.0], [2.0, 1.0]])
    result = metrics.label_sets(truth, scores, None, np.arange(2))
    assert result["precision_at_1"] == 0.5
    assert result["one_error"] == 0.5
    assert result["label_ranking_loss"] == 0.5
    assert "precision_at_3" not in result


def test_a_single_label_and_rows_without_any():
    result = metrics.label_sets(np.array([[1], [0]]), np.array([[1.0], [-1.0]]), None, np.arange(1))
    assert result["macro_f1"] == 1.0
    assert result["precision_at_1"] == 0.5
    assert result["notes"] == ["1 rows have no label that the model knows"]


def test_headline(three):
    classes, labels, scores, _ = three
    name, value = metrics.headline(labels, scores, classes)
    assert (name, value) == ("accuracy", np.mean(classes[np.argmax(scores, axis=1)] == labels))
    sets = sparse.csr_array(labels[:, None] == classes)
    name, value = metrics.headline(sets, scores, classes)
    assert name == "precision_at_1"
    assert math.isclose(value, np.mean(classes[np.argmax(scores, axis=1)] == labels))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("distinct", [2, 5, 10**6])
def test_areas_with_ties_as_scikit_learn(distinct, weighted, dtype):
    rng = np.random.default_rng(distinct)
    scores = rng.integers(0, distinct, 400).astype(dtype)
    truth = rng.random(400) < 0.3 + 0.3 * (scores > scores.mean())
    weights = rng.uniform(0.1, 3.0, 400) if weighted else None
    roc, pr = ranking.areas(truth, scores, weights)
    assert roc == pytest.approx(reference.roc_auc_score(truth, scores, sample_weight=weights), rel=1e-9)
    assert pr == pytest.approx(reference.average_precision_score(truth, scores, sample_weight=weights), rel=1e-9)


def test_areas_of_perfect_and_useless_rankings():
    truth = np.array([True, False, True, False])
    assert ranking.areas(truth, np.array([3.0, 1.0, 2.0, 0.0])) == (1.0, 1.0)
    assert ranking.areas(truth, np.array([0.0, 2.0, 1.0, 3.0]))[0] == 0.0
    assert ranking.areas(truth, np.zeros(4)) == (0.5, 0.5)


@pytest.mark.parametrize("k", [2, 6])
def test_f1_and_log_loss_with_absent_classes_and_certain_errors(k):
    rng = np.random.default_rng(k)
    classes, labels = np.arange(k), rng.integers(0, k - 1, 300)  # the last class never occurs
    scores = rng.normal(size=(300, k)).astype(np.float32)
    probabilities = softmax(20.0 * scores)
    probabilities[0] = np.eye(k)[(labels[0] + 1) % k]
    weights = rng.integers(1, 3, 300).astype(float)
    ours = scores[:, 1] - scores[:, 0] if k == 2 else scores
    result = metrics.single_label(labels, ours, probabilities, classes, weights)
    guess = np.argmax(scores, axis=1)
    options = {"labels": np.union1d(labels, guess), "zero_division": 0.0, "sample_weight": weights}
    for average in ("macro", "micro"):
        assert result[f"{average}_f1"] == pytest.approx(reference.f1_score(labels, guess, average=average, **options))
    expected = reference.log_loss(labels, probabilities, labels=classes, sample_weight=weights)
    assert result["log_loss"] == pytest.approx(expected)
