"""Models without the features that they do not use: the same scores from fewer columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from row_sparse_models import model_of, rows_of, twin, weights_of
from scipy import sparse

import lineal
from lineal.data.schema import Schema
from lineal.errors import DataError
from lineal.linear.model import Model


@pytest.mark.parametrize("rows", [[], [5], [0, 3, 4, 29]])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_a_compact_model_scores_the_live_columns(k, dense, rows, tmp_path):
    model = model_of(weights_of(30, k, rows), names=True)
    model = twin(model) if dense else model
    small, columns = model.compact()
    assert columns.tolist() == rows
    assert small.n_features == len(rows)
    assert small.feature_names == [f"feature {j}" for j in rows]
    assert isinstance(small.weights, np.ndarray)
    small.save(tmp_path / "m")
    small = lineal.load(tmp_path / "m")
    X = rows_of(20, 30)
    expected = model.decision_function(X)
    for kind in (np.asarray, sparse.csr_array, sparse.csc_array):
        np.testing.assert_allclose(small.decision_function(kind(X[:, columns])), expected, rtol=1e-12, atol=1e-13)
    frame = pd.DataFrame(X, columns=model.feature_names)
    np.testing.assert_allclose(small.decision_function(frame), expected, rtol=1e-12, atol=1e-13)
    needed = frame[small.feature_names[::-1]]
    np.testing.assert_allclose(small.decision_function(needed), expected, rtol=1e-12, atol=1e-13)
    again, all_of_them = small.compact()
    assert all_of_them.tolist() == list(range(len(rows)))
    np.testing.assert_array_equal(again.weights, small.weights)


def by_file(model: Model, path, **options) -> np.ndarray:
    from lineal.data.read import read_blocks

    blocks = read_blocks(path, schema=model.schema, labels=False, block_bytes=400, **options)
    return np.concatenate([model.decision_function(block.X) for block in blocks])


@pytest.mark.parametrize("rows", [[], [1, 3]])
@pytest.mark.parametrize("ending", ["svm", "vw", "npy"])
def test_a_compact_model_reads_the_files_of_the_whole_one(ending, rows, tmp_path):
    X = rows_of(40, 6).round(2)
    path = tmp_path / f"rows.{ending}"
    if ending == "npy":
        np.save(path, X)
    else:
        bar = "| " if ending == "vw" else ""
        name = (lambda j: f"x{j}") if ending == "vw" else (lambda j: str(j + 1))
        lines = [
            f"{i % 2 + 1} {bar}" + " ".join(f"{name(j)}:{v}" for j, v in enumerate(row) if v) for i, row in enumerate(X)
        ]
        path.write_text("\n".join(lines) + "\n")
    data = lineal.read(path, **({"bits": 8} if ending == "vw" else {}))
    used = np.unique(data.X.nonzero()[1])[rows] if rows else []
    model = model_of(weights_of(data.X.shape[1], 3, used), schema=data.schema)
    small, columns = model.compact()
    assert small.schema.width == small.n_features == len(rows)
    small.save(tmp_path / "small")
    small = lineal.load(tmp_path / "small")
    expected = model.decision_function(data.X)
    np.testing.assert_allclose(small.decision_function(path), expected, rtol=1e-12)
    np.testing.assert_allclose(by_file(small, path), expected, rtol=1e-12)
    np.testing.assert_allclose(small.decision_function(data.X[:, columns]), expected, rtol=1e-12)
    if ending == "npy" and rows:
        np.save(tmp_path / "narrow.npy", X[:, columns])
        np.testing.assert_allclose(small.decision_function(tmp_path / "narrow.npy"), expected, rtol=1e-12)
        np.save(tmp_path / "odd.npy", X[:, :4])
        with pytest.raises(DataError, match="has 4 columns, expected 2"):
            small.predict(tmp_path / "odd.npy")
    if rows:
        twice, chosen = replace(small, weights=small.weights * [[0.0], [1.0]]).compact()
        assert (chosen.tolist(), twice.schema.columns) == ([1], [int(used[1])])


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


@pytest.mark.parametrize("rows", [[], [0], [2], [1, 3, 6], [0, 4]])
def test_a_compact_model_of_a_table_needs_only_the_columns_in_use(rows, tmp_path):
    path = tmp_path / "t.csv"
    frame = table(path)
    data = lineal.read(path, label="label")
    names = data.feature_names
    assert names == ["size", "colour=blue", "colour=green", "colour=red", "dull", "shape=long", "shape=round"]
    model = model_of(weights_of(7, 3, rows), schema=data.schema)
    model = replace(model, feature_names=names)
    small = model.compact()[0]
    assert small.feature_names == [names[j] for j in rows]
    small.save(tmp_path / "small")
    small = lineal.load(tmp_path / "small")
    expected = model.decision_function(path)
    sources = {name.split("=")[0] for name in small.feature_names} or {"size"}
    narrow = frame[[name for name in frame.columns[::-1] if name in sources]]
    narrow.to_csv(tmp_path / "narrow.csv", index=False)
    narrow.to_parquet(tmp_path / "narrow.parquet")
    for rows_to_score in (path, frame, narrow, tmp_path / "narrow.csv", tmp_path / "narrow.parquet"):
        np.testing.assert_allclose(small.decision_function(rows_to_score), expected, rtol=1e-12)
    assert lineal.read(path, schema=small.schema).X.shape[1] == small.n_features
    if sources != set(frame.columns[:4]):
        with pytest.raises(DataError, match="lacks"):
            model.predict(narrow)


def test_hashed_text_keeps_its_columns_together(tmp_path):
    frame = table(tmp_path / "t.csv")
    data = lineal.read(tmp_path / "t.csv", label="label", levels="hash", bits=6)
    assert data.X.shape[1] == 2 + 64
    used = np.unique(data.X.nonzero()[1])
    text = used[used >= 2][:2]
    for rows, needed in (([0], ["size"]), ([*text], ["colour", "shape"]), ([1, *text], ["colour", "dull", "shape"])):
        model = model_of(weights_of(66, 3, rows), schema=data.schema)
        small = model.compact()[0]
        assert small.n_features == len(rows)
        expected = model.decision_function(tmp_path / "t.csv")
        np.testing.assert_allclose(small.decision_function(tmp_path / "t.csv"), expected, rtol=1e-12)
        np.testing.assert_allclose(small.decision_function(frame[needed]), expected, rtol=1e-12)


def test_files_converted_for_a_compact_model(tmp_path):
    np.save(tmp_path / "rows.npy", rows_of(20, 6))
    lineal.convert(tmp_path / "rows.npy", tmp_path / "rows.arrow")
    schema = Schema("array", 6)
    model = model_of(weights_of(6, 3, [1, 4]), schema=schema)
    small = model.compact()[0]
    expected = model.decision_function(np.load(tmp_path / "rows.npy"))
    np.testing.assert_allclose(small.decision_function(tmp_path / "rows.arrow"), expected, rtol=1e-12)
    narrow = lineal.convert(tmp_path / "rows.npy", tmp_path / "narrow.arrow", schema=small.schema)
    assert lineal.read(narrow).X.shape == (20, 2)
    np.testing.assert_allclose(small.decision_function(narrow), expected, rtol=1e-12)
