"""The loss of tables for which none was chosen, in Python and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from cli_files import done

import lineal
from lineal import LinearClassifier, TableClassifier, TableFeatures


def table_of(k: int, with_text: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame({"size": rng.normal(100, 30, n), "town": rng.choice(["Bonn", "Oslo", "Riga"], n)})
    if with_text:
        words = ["late again and again today", "always on time here", "never seen before now"]
        table["note"] = [f"{rng.choice(words)} {i} times" for i in range(n)]
    score = (table["size"] - 100) / 30 + (table["town"] == "Oslo") + rng.normal(0, 0.5, n)
    table["label"] = np.array(list("abcd"))[np.digitize(score, [0.0, 1.0, 2.0][: k - 1])]
    return table


@pytest.mark.parametrize(
    ("k", "with_text", "loss"), [(2, False, "logistic"), (3, False, "softmax"), (3, True, "squared_hinge")]
)
def test_the_same_loss_everywhere(k, with_text, loss, tmp_path):
    table = table_of(k, with_text)
    classifier = TableClassifier()
    assert hasattr(classifier, "predict_proba")  # it is not known yet
    classifier.fit(table, "label")
    assert classifier.model_.loss == loss
    assert hasattr(classifier, "predict_proba") == (loss != "squared_hinge")
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    found = json.loads(done("train", path, "-m", tmp_path / "m", "--json").stdout)
    assert found["loss"] == loss
    model = lineal.load(tmp_path / "m")
    np.testing.assert_allclose(model.decision_function(table), classifier.decision_function(table), rtol=1e-9)
    profile = json.loads(done("inspect", path, "--json").stdout)
    assert f"loss {loss}," in profile["model"]
    assert profile["solver"].split(":")[0] == found["solver"].split(":")[0]
    chosen = json.loads(done("path", path, "-m", tmp_path / "m", "--n-alphas", "2", "--folds", "2", "--json").stdout)
    assert chosen["loss"] == loss


def test_a_loss_or_a_solver_that_is_given_stays(tmp_path):
    table, path = table_of(2), tmp_path / "t.csv"
    table.to_csv(path, index=False)
    for flags, loss in ((("--loss", "hinge"), "hinge"), (("--solver", "dual_cd"), "squared_hinge")):
        assert json.loads(done("train", path, "-m", tmp_path / "m", *flags, "--json").stdout)["loss"] == loss
    assert TableClassifier(LinearClassifier()).fit(table, "label").model_.loss == "squared_hinge"


def test_other_files_keep_the_default(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 2:0.5\n-1 1:0.2\n" * 20)
    assert json.loads(done("train", tmp_path / "t.svm", "-m", tmp_path / "m", "--json").stdout)["loss"] == (
        "squared_hinge"
    )


def test_labels_of_any_kind_are_counted():
    table = table_of(2)
    X, text = table[["size", "town"]], table["label"]
    numbers = np.where(text == "a", 0.0, 1.0)
    features = TableFeatures()
    for y in (text, text.tolist(), text.astype("category"), numbers, numbers.astype(bool)):
        assert TableClassifier(features=features).fit(X, y).model_.loss == "logistic"
    sets = np.column_stack([numbers, 1.0 - numbers, numbers])
    assert TableClassifier().fit(X, sets).model_.loss == "logistic"
