"""Weights kept by row: the same numbers in fewer bytes; models without the features that they do not use."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cli_files import done, failed
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

import lineal
from lineal.core.row_sparse import RowSparse, live, pick_columns, product, smaller
from lineal.data.schema import Schema
from lineal.errors import DataError, ModelFileError
from lineal.linear.fit import fit
from lineal.linear.model import Model
from lineal.linear.options import TrainOptions
from lineal.system.tensor_file import checksum

DIGITS, LABELS = load_digits(return_X_y=True)
KINDS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


def weights_of(d: int, k: int, rows, dtype=np.float64) -> RowSparse:
    values = np.random.default_rng(d + k).normal(size=(len(rows), k)).astype(dtype)
    return RowSparse(np.asarray(rows, dtype=np.int64), values, (d, k))


def rows_of(n: int, d: int, seed: int = 0, density: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < density)


def model_of(weights, names: bool = False, **more) -> Model:
    d, k = weights.shape
    classes = np.arange(max(k, 2))
    known = [f"feature {j}" for j in range(d)] if names else None
    return Model(weights, np.linspace(-0.1, 0.1, k), classes, "softmax", feature_names=known, **more)


def twin(model: Model) -> Model:
    return replace(model, weights=np.asarray(model.weights))


# --- the matrix


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("n", [1, 200])
@pytest.mark.parametrize("rows", [[], [0], [3, 4, 39], list(range(40))])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_dense_matrix(kind, rows, n, k):
    W, X = weights_of(40, k, rows), rows_of(n, 40)
    expected = X @ W.toarray()
    np.testing.assert_allclose(product(kind(X), W), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kind(X) @ W, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(X[0] @ W, expected[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 50])
def test_columns_are_picked_as_scipy_picks_them(n, indices):
    X = sparse.csr_array(rows_of(n, 500, density=0.02))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    for columns in ([], [0], [499], [0, 17, 18, 250, 499], range(500)):
        columns = np.array(columns, dtype=np.int64)
        picked = pick_columns(X, columns)
        assert picked.shape == (n, len(columns))
        np.testing.assert_array_equal(picked.toarray(), X.toarray()[:, columns])
        assert picked.dtype == X.dtype


def test_it_acts_as_the_array_that_it_stands_for():
    W = weights_of(10, 3, [2, 7], np.float32)
    dense = W.toarray()
    assert (W.shape, W.dtype, W.ndim, W.size, len(W)) == ((10, 3), np.float32, 2, 30, 10)
    assert W.nbytes == 2 * 8 + 2 * 3 * 4
    assert np.asarray(W).dtype == np.float32
    assert np.asarray(W, dtype=np.float64).dtype == np.float64
    assert np.count_nonzero(W) == 6
    for found, expected in [
        (np.abs(W), np.abs(dense)), (W * 2, dense * 2), (W != 0, dense != 0), (W.T, dense.T), (W[2], dense[2]),
        (W[:, 1], dense[:, 1]), (W - W, dense * 0), (np.vstack(list(W)), dense), (W.T @ W, dense.T @ dense),
    ]:  # fmt: skip
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="copy"):
        np.array(W, copy=False)


@pytest.mark.parametrize(
    ("rows", "values", "shape"),
    [
        ([1, 1], np.ones((2, 3)), (5, 3)),
        ([2, 1], np.ones((2, 3)), (5, 3)),
        ([-1, 1], np.ones((2, 3)), (5, 3)),
        ([1, 5], np.ones((2, 3)), (5, 3)),
        ([1], np.ones((2, 3)), (5, 3)),
        ([1, 2], np.ones((2, 2)), (5, 3)),
        ([[1, 2]], np.ones((2, 3)), (5, 3)),
        ([1.0, 2.0], np.ones((2, 3)), (5, 3)),
        ([1, 2], np.ones(2), (5, 3)),
        ([], np.ones((0, 3)), (-1, 3)),
    ],
)
def test_parts_that_do_not_fit_are_refused(rows, values, shape):
    with pytest.raises(ValueError, match="rows"):
        RowSparse(np.asarray(rows), values, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4])
def test_the_smaller_form_is_kept(k, dtype):
    d = 100
    for count in range(0, d + 1, 5):
        W = np.zeros((d, k), dtype)
        W[:count, -1] = 1.0
        found = smaller(W)
        by_row, dense = count * (8 + k * W.itemsize), W.nbytes
        assert isinstance(found, RowSparse) == (by_row < dense)
        assert found.nbytes == min(by_row, dense)
        np.testing.assert_array_equal(np.asarray(found), W)
    assert smaller(found) is found


def test_a_row_of_zeros_is_not_live():
    W = RowSparse(np.array([1, 4]), np.array([[0.0, 0.0], [0.0, 2.0]]), (6, 2))
    assert live(W)[0].tolist() == [4]
    assert live(np.asarray(W))[0].tolist() == [4]
    assert model_of(W).used_features.tolist() == [4]


# --- models


@pytest.mark.parametrize("k", [1, 2, 3, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*KINDS, pd.DataFrame])
def test_predictions_are_those_of_the_dense_model(kind, dtype, k):
    X = rows_of(60, 30).astype(dtype)
    model = model_of(weights_of(30, k, [1, 5, 6, 28], dtype))
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        model.decision_function(kind(X)), twin(model).decision_function(kind(X)), rtol=rtol, atol=rtol
    )
    np.testing.assert_allclose(model.predict_proba(kind(X)), twin(model).predict_proba(X), rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(model.predict(kind(X)), twin(model).predict(X))


def test_bad_rows_are_still_named():
    model = model_of(weights_of(6, 3, [1, 2]))
    with pytest.raises(DataError, match="5 features, the model knows 6"):
        model.predict(np.zeros((2, 5)))
    X = np.zeros((3, 6))
    X[2, 1] = np.nan
    with pytest.raises(DataError, match="row 2"):
        model.predict(X)


def test_predicting_needs_no_numba(tmp_path):
    model_of(weights_of(6, 3, [1, 2])).save(tmp_path / "m")
    code = (
        "import sys, numpy as np; from lineal.core.row_sparse import RowSparse; from lineal.linear.model import Model;"
        "m = Model(RowSparse(np.array([1]), np.ones((1, 2)), (3, 2)), np.zeros(2), np.arange(2), 'softmax');"
        "m.compact()[0].predict(np.ones((2, 1))); m.predict(np.ones((2, 3))); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.fixture(scope="module")
def fitted():
    """A fit that uses some of the pixels: of 64 and 40 empty columns more."""
    X = np.hstack([DIGITS / 16, np.zeros((len(DIGITS), 40))])[:300]
    return X, lineal.LinearClassifier(loss="softmax", penalty="l1/l2", alpha=0.02).fit(X, LABELS[:300])


def test_a_fit_keeps_the_smaller_form(fitted):
    X, classifier = fitted
    W = classifier.model_.weights
    assert isinstance(W, RowSparse)
    assert 0 < len(W.rows) < 64
    assert isinstance(classifier.coef_, np.ndarray)
    assert classifier.coef_.shape == (10, 104)
    np.testing.assert_array_equal(classifier.coef_, W.toarray().T)
    np.testing.assert_allclose(
        classifier.decision_function(X), X @ classifier.coef_.T + classifier.intercept_, rtol=1e-10, atol=1e-12
    )


def test_estimators_with_such_weights_are_copied_pickled_and_cloned(fitted):
    X, classifier = fitted
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(other.decision_function(X), classifier.decision_function(X))
        assert isinstance(other.model_.weights, RowSparse)
    assert not hasattr(clone(classifier), "model_")


def test_a_warm_start_begins_at_such_weights(fitted):
    X, classifier = fitted
    again = copy.deepcopy(classifier).set_params(warm_start=True).fit(X, LABELS[:300])
    assert again.history_[0]["objective"] == pytest.approx(classifier.certificate_.primal, rel=1e-6)


def test_calibrated_probabilities_with_such_weights():
    X = np.hstack([DIGITS[:150] / 16, np.zeros((150, 200))])
    options = TrainOptions(loss="multiclass_squared_hinge", penalty="l1/l2", alpha=0.1, probability=True)
    model = fit(X, LABELS[:150], options)[0]
    assert isinstance(model.weights, RowSparse)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes[P.argmax(axis=1)], model.predict(X))


# --- files


def read_description(path) -> dict:
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["lineal"])


@pytest.mark.parametrize("rows", [[], [0], [3, 40, 999]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_hold_the_live_rows(dtype, rows, tmp_path):
    model = model_of(weights_of(1000, 3, rows, dtype), names=True)
    model.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    assert isinstance(loaded.weights, RowSparse)
    assert loaded.weights.rows.tolist() == rows
    assert loaded.weights.dtype == dtype
    np.testing.assert_array_equal(np.asarray(loaded.weights), np.asarray(model.weights))
    assert loaded.feature_names == model.feature_names
    assert read_description(tmp_path / "m")["format_version"] == 2


def test_the_size_of_a_file_grows_with_live_rows_only(tmp_path):
    sizes = {}
    for d, rows in ((1000, 10), (1_000_000, 10), (1_000_000, 110)):
        model_of(weights_of(d, 4, range(rows))).save(tmp_path / "m")
        sizes[d, rows] = (tmp_path / "m").stat().st_size
    assert abs(sizes[1_000_000, 10] - sizes[1000, 10]) < 32  # a few more digits
    assert abs(sizes[1_000_000, 110] - sizes[1_000_000, 10] - 100 * (4 * 8 + 8)) < 32


def test_dense_models_keep_the_first_format(tmp_path):
    twin(model_of(weights_of(10, 3, [1]))).save(tmp_path / "m")
    assert read_description(tmp_path / "m")["format_version"] == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda d, t: t.update(rows=t["rows"][::-1].copy()),
        lambda d, t: t.update(rows=np.array([1, 1, 2])),
        lambda d, t: t.update(rows=np.array([-1, 1, 2])),
        lambda d, t: t.update(rows=np.array([1, 2, 50])),
        lambda d, t: t.update(rows=t["rows"][:2].copy()),
        lambda d, t: t.update(rows=t["rows"][None].copy()),
        lambda d, t: t.update(rows=t["rows"].astype(np.int32)),
        lambda d, t: t.update(rows=t["rows"].astype(np.float64)),
        lambda d, t: t.pop("rows"),
        lambda d, t: t.pop("weights"),
        lambda d, t: d.pop("n_features"),
        lambda d, t: d.update(n_features=-1),
        lambda d, t: d.update(n_features=2**60),
        lambda d, t: d.update(n_features=50.0),
        lambda d, t: d.update(n_features=True),
        lambda d, t: d.update(n_features=5),
        lambda d, t: d.update(format_version=1),
        lambda d, t: d.update(feature_names=["a"] * 3),
        lambda d, t: t.update(weights=t["weights"].ravel()),
        lambda d, t: t.update(weights=np.full_like(t["weights"], np.inf)),
        lambda d, t: t.update(weights=t["weights"].astype(np.float16)),
        lambda d, t: t.update(extra=t["rows"]),
        lambda d, t: d.update(schema={"format": "array", "n_features": 9, "settings": {}, "columns": [0, 1]}),
        lambda d, t: d.update(schema={"format": "array", "n_features": 60, "settings": {}, "columns": [1] * 50}),
        lambda d, t: d.update(schema={"format": "array", "n_features": 9, "settings": {}, "columns": list(range(50))}),
        lambda d, t: d.update(schema={"format": "array", "n_features": 9, "settings": {}, "columns": "x"}),
        lambda d, t: d.update(schema={"format": "array", "n_features": 2**63, "settings": {}}),
    ],
)
def test_a_hostile_file_is_refused(change, tmp_path):
    path = tmp_path / "m"
    model_of(weights_of(50, 3, [3, 20, 41])).save(path)
    description, tensors = read_description(path), load_file(path)
    change(description, tensors)
    text = json.dumps(description)
    save_file(tensors, path, {"lineal": text, "blake2b": checksum(text, tensors)})
    with pytest.raises(ModelFileError, match="damaged"):
        lineal.load(path)


# --- compact


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
    data = lineal.read(tmp_path / "t.csv", label="label", categorical="hash", bits=6)
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


# --- the command line


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
