"""`lineal inspect` and `lineal compact` on models that use few features."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cli_files import done, failed
from row_sparse_models import model_of, twin, weights_of
from sklearn.datasets import load_digits

import lineal
from lineal.core.row_sparse import RowSparse
from lineal.data.schema import Schema
from lineal.linear.model import Model
from lineal.linear.voting import VotingModel
from lineal.problem.solution import Members

DIGITS, LABELS = load_digits(return_X_y=True)


def table(path, n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n).round(3), "colour": rng.choice(["red", "green", "blue"], n),
            "dull": rng.normal(size=n).round(3), "shape": rng.choice(["round", "long"], n),
            "label": rng.choice(["a", "b", "c"], n),
        }
    )  # fmt: skip
    frame.to_csv(path, index=False)
    return frame


def test_inspect_lists_the_features_in_use(tmp_path):
    path = tmp_path / "m"
    W = RowSparse(np.array([2, 5, 6]), np.array([[0.0, 1.0, 0.0], [3.0, 0.0, 4.0], [0.5, 0.5, 0.5]]), (200, 3))
    model_of(W, names=True).save(path)
    found = json.loads(done("inspect", path, "--features", "--json").stdout)
    assert [(row["name"], row["column"], row["classes"]) for row in found["selected"]] == [
        ("feature 5", 5, 2), ("feature 2", 2, 1), ("feature 6", 6, 3),
    ]  # fmt: skip
    assert found["selected"][0]["norm"] == pytest.approx(5.0)
    assert [[feature["column"] for feature in entry["features"]] for entry in found["selected_by_class"]] == [
        [5, 6], [2, 6], [5, 6],
    ]  # fmt: skip
    assert found["nonzero"] == {"weights": 6, "features": 3}
    assert found["features"] == 200
    lines = done("inspect", path, "--features").stdout.splitlines()
    assert "features used: 3 of 200" in lines
    assert "feature 5\t5\t2" in lines
    twin(model_of(W, names=True)).save(path)
    dense = json.loads(done("inspect", path, "--features", "--json").stdout)
    assert dense["selected"] == found["selected"]
    assert dense["top_features"] == found["top_features"]


def test_inspect_of_a_model_without_features(tmp_path):
    model_of(weights_of(9, 3, [])).save(tmp_path / "m")
    found = json.loads(done("inspect", tmp_path / "m", "--features", "--json").stdout)
    assert (found["selected"], found["nonzero"]["features"]) == ([], 0)
    model_of(weights_of(9, 3, [])).compact()[0].save(tmp_path / "m")
    assert "features used: 0 of 0" in done("inspect", tmp_path / "m", "--features").stdout


def test_models_that_vote(tmp_path):
    path = tmp_path / "m"
    members = Members(np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]]), np.zeros((2, 2)))
    mean = Model(weights=np.zeros((2, 2)), intercept=np.zeros(2), classes=np.array(["a", "b"]), loss="softmax")
    VotingModel.of(mean, members).save(path)
    found = json.loads(done("inspect", path, "--json").stdout)
    assert (found["kind"], found["members"], found["loss"], found["features_used"]) == ("voting", 2, "softmax", 1)
    assert "members: 2" in done("inspect", path).stdout
    assert "--features is for linear models" in failed("inspect", path, "--features")


def test_the_list_is_cut_and_says_so(tmp_path):
    model_of(weights_of(500, 2, range(150))).save(tmp_path / "m")
    result = done("inspect", tmp_path / "m", "--features")
    assert "50 more features" in result.stderr
    assert len(json.loads(done("inspect", tmp_path / "m", "--features", "--json").stdout)["selected"]) == 150


def test_compact_on_the_command_line(tmp_path):
    path = tmp_path / "t.csv"
    table(path)
    data = lineal.read(path, label="label")
    model = replace(model_of(weights_of(7, 3, [0, 2]), schema=data.schema), feature_names=data.feature_names)
    model.save(tmp_path / "m")
    columns = tmp_path / "columns.tsv"
    lines = done("compact", tmp_path / "m", "-o", tmp_path / "small", "--columns", columns).stdout.splitlines()
    assert lines[1:3] == ["features: 7", "features kept: 2"]
    assert columns.read_text() == "0\tsize\n2\tcolour=green\n"
    found = json.loads(done("compact", tmp_path / "m", "-o", tmp_path / "small", "--json").stdout)
    assert (found["columns"], found["names"]) == ([0, 2], ["size", "colour=green"])
    assert done("compact", tmp_path / "m", "-o", tmp_path / "small", "--columns", "-").stdout == columns.read_text()
    big, small = (done("predict", tmp_path / name, path).stdout for name in ("m", "small"))
    assert big == small
    assert done("evaluate", tmp_path / "small", path).stdout == done("evaluate", tmp_path / "m", path).stdout
    assert "standard output" in failed("compact", tmp_path / "m", "-o", tmp_path / "small", "--columns", "-", "--json")


def test_compact_names_the_columns_that_are_left_and_overwrites_no_model(tmp_path):
    path, small, smaller = tmp_path / "m", tmp_path / "small", tmp_path / "smaller"
    model_of(weights_of(50, 3, [3, 20, 41]), schema=Schema("svmlight", 50, {"index_base": 1})).save(path)
    assert "--columns" in failed("compact", path, "-o", small, "--columns", small)
    assert not small.exists()
    before = path.read_bytes()
    assert "would overwrite MODEL" in failed("compact", path, "-o", path)
    assert path.read_bytes() == before
    found = json.loads(done("compact", path, "-o", small, "--json").stdout)
    assert (found["bytes_before"], found["bytes"]) == (len(before), small.stat().st_size)
    names = [row["name"] for row in json.loads(done("inspect", small, "--features", "--json").stdout)["selected"]]
    assert sorted(names) == ["column 20", "column 3", "column 41"]  # of the files that it reads
    again = done("compact", small, "-o", smaller, "--columns", "-").stdout
    assert again == "0\tcolumn 3\n1\tcolumn 20\n2\tcolumn 41\n"
