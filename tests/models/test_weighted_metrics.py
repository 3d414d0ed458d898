"""Weighted measures: a row of weight 2 counts as two rows, and one of weight 0 not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_files import done, failed
from scipy import sparse

import lineal
from lineal.data.dataset import Dataset
from lineal.errors import DataError
from lineal.models import metrics
from lineal.models.evaluation import evaluate, headline_of, summary_of

rng = np.random.default_rng(0)
WEIGHTS = rng.integers(1, 4, 200).astype(np.float64)
COPIES = np.repeat(np.arange(200), WEIGHTS.astype(int))


def assert_same(weighted, copied):
    assert weighted.keys() == copied.keys()
    for name, value in copied.items():
        if name == "confusion":
            assert weighted[name]["matrix"] == value["matrix"]
        elif name not in ("rows", "notes"):
            assert weighted[name] == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("k", [2, 4])
def test_classes(k):
    labels = rng.integers(0, k, 200)
    scores = rng.normal(size=200 if k == 2 else (200, k))
    p = 1.0 / (1.0 + np.exp(-scores))
    probabilities = np.column_stack([1.0 - p, p]) if k == 2 else p / p.sum(axis=1, keepdims=True)
    classes = np.arange(k) if k > 2 else np.array([0, 1])
    one = metrics.single_label(labels, scores, probabilities, classes, WEIGHTS)
    assert_same(one, metrics.single_label(labels[COPIES], scores[COPIES], probabilities[COPIES], classes))
    assert one["accuracy"] != metrics.single_label(labels, scores, probabilities, classes)["accuracy"]
    assert metrics.headline(labels, scores, classes, WEIGHTS)[1] == pytest.approx(one["accuracy"])


def test_label_sets():
    truth, scores = rng.random((200, 5)) > 0.6, rng.normal(size=(200, 5))
    probabilities = 1.0 / (1.0 + np.exp(-scores))
    one = metrics.label_sets(sparse.csr_array(truth), scores, probabilities, np.arange(5), None, WEIGHTS)
    assert_same(one, metrics.label_sets(truth[COPIES], scores[COPIES], probabilities[COPIES], np.arange(5)))
    name, value = metrics.headline(truth, scores, np.arange(5), WEIGHTS)
    assert value == pytest.approx(one[name])


def test_numbers():
    y, predicted = rng.normal(size=200), rng.normal(size=200)
    assert_same(metrics.numbers(y, predicted, WEIGHTS), metrics.numbers(y[COPIES], predicted[COPIES]))


@pytest.fixture(scope="module")
def model():
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0.0, "up", "down")
    return lineal.LinearClassifier(loss="logistic", max_iter=20, tol=0.1).fit(X, y).model_, X, y


def test_rows_without_weight_do_not_count(model):
    known, X, y = model
    weights = WEIGHTS * (np.arange(200) % 3 > 0)
    some = weights > 0.0
    expected = evaluate(known, Dataset(X[some], y[some], weights[some]))
    assert evaluate(known, Dataset(X, y, weights)) == expected
    name, value, rows = headline_of(known, Dataset(X, y, weights))
    assert (name, rows) == ("accuracy", 200)
    assert value == pytest.approx(expected["accuracy"])
    summary, _ = summary_of(known, Dataset(X, y, weights))
    assert list(summary) == ["accuracy", "roc_auc", "log_loss", "macro_f1"]
    assert summary["log_loss"] == expected["log_loss"]


def test_weights_that_measure_nothing(model):
    known, X, y = model
    for measure in (evaluate, headline_of):
        with pytest.raises(DataError, match="the weights of all rows are 0"):
            measure(known, Dataset(X, y, np.zeros(200)))
    with pytest.raises(DataError, match="the weight of row 3 is -1"):
        evaluate(known, Dataset(X, y, np.where(np.arange(200) == 3, -1.0, 1.0)))


def test_commands(tmp_path):
    lines = [
        f"{x:.3f},{int(w)},{'up' if x + e > 0 else 'down'}" for x, e, w in zip(*rng.normal(size=(2, 200)), WEIGHTS)
    ]
    single, copied = tmp_path / "single.csv", tmp_path / "copied.csv"
    single.write_text("\n".join(["x,w,label", *lines]) + "\n")
    copied.write_text(
        "\n".join(["x,w,label", *(lines[i].replace(f",{int(WEIGHTS[i])},", ",1,") for i in COPIES)]) + "\n"
    )
    flags = ("-m", tmp_path / "m", "--weight", "w", "--loss", "logistic", "--json")
    result = json.loads(done("train", single, *flags, "--validate", copied).stdout)
    by_weight = json.loads(done("evaluate", tmp_path / "m", single, "--json").stdout)
    for name in ("accuracy", "roc_auc", "log_loss", "macro_f1"):
        assert result[f"validation_{name}"] == pytest.approx(by_weight[name])
    assert (result["validation_rows"], by_weight["rows"]) == (len(COPIES), 200)
    held = json.loads(done("train", single, *flags, "--holdout", "0.3").stdout)
    assert held.keys() >= {"holdout_accuracy", "holdout_roc_auc", "holdout_log_loss", "holdout_macro_f1"}
    flags = ("-m", tmp_path / "m", "--weight", "w", "--loss", "squared_hinge", "--json")
    plain = json.loads(done("train", single, *flags, "--holdout", "0.3").stdout)
    assert "holdout_log_loss" not in plain  # this loss has no probabilities
    assert "--validate" in failed("train", single, "-m", tmp_path / "m", "--holdout", "0.3", "--validate", copied)
