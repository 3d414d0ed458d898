"""Models whose weights are kept by row: the same predictions, copies, model files."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from row_sparse_models import model_of, rows_of, twin, weights_of
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

import lineal
from lineal.core.row_sparse import RowSparse, live
from lineal.errors import DataError, ModelFileError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.system.tensor_file import checksum

DIGITS, LABELS = load_digits(return_X_y=True)
KINDS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


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
