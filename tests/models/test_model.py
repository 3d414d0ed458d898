"""Models: predictions from any kind of rows, files that are whole, checked and free of code."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from edited_models import rewrite
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, make_multilabel_classification

import lineal
from lineal.errors import DataError, LinealError, ModelFileError, OptionError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.models.file import FORMAT_VERSION

DIGITS, LABELS = load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    return fit(DIGITS / 16, LABELS, TrainOptions(loss="softmax"))[0]


def same(a, b):
    assert a.weights.dtype == b.weights.dtype
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.intercept, b.intercept)
    np.testing.assert_array_equal(a.classes, b.classes)
    assert (a.loss, a.is_multilabel, a.feature_names, a.schema, a.options, a.certificate, a.status) == (
        b.loss, b.is_multilabel, b.feature_names, b.schema, b.options, b.certificate, b.status,
    )  # fmt: skip


@pytest.mark.parametrize("labels", [np.arange(10), np.array(list("abcdefghij")), np.arange(10) / 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_save_and_load(labels, dtype, tmp_path):
    y = labels[LABELS] if labels.dtype.kind != "f" else LABELS
    model, _ = fit((DIGITS / 16).astype(dtype), y, TrainOptions(class_weight="balanced"))
    model = replace(model, feature_names=[f"pixel {j} é" for j in range(64)])
    model.save(tmp_path / "m.lineal")
    same(lineal.load(tmp_path / "m.lineal"), model)
    np.testing.assert_array_equal(lineal.load(tmp_path / "m.lineal").predict(DIGITS / 16), model.predict(DIGITS / 16))
    assert os.listdir(tmp_path) == ["m.lineal"]


@pytest.mark.parametrize("y", [[True, False, True, False], ["a", "b", "a", "b"], [1, 2, 1, 2]])
def test_binary_models_keep_their_label_type(y, tmp_path):
    model, _ = fit(np.eye(4), np.array(y), TrainOptions())
    model.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    assert loaded.classes.dtype.kind == model.classes.dtype.kind
    assert loaded.predict(np.eye(4)).tolist() == y


def test_multilabel_models(tmp_path):
    X, Y = make_multilabel_classification(n_samples=50, random_state=0)
    model, _ = fit(X, Y, TrainOptions(loss="logistic"), class_names=["a", "b", "c", "d", "e"])
    model.save(tmp_path / "m")
    same(lineal.load(tmp_path / "m"), model)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array, pd.DataFrame])
def test_predictions_do_not_depend_on_the_kind_of_rows(model, kind):
    np.testing.assert_array_equal(model.predict(kind(DIGITS / 16)), model.predict(DIGITS / 16))
    np.testing.assert_allclose(model.predict_proba(kind(DIGITS / 16)), model.predict_proba(DIGITS / 16), rtol=1e-9)


def test_predictions_do_not_depend_on_the_batches(model, monkeypatch):
    whole = model.decision_function(DIGITS / 16)
    monkeypatch.setattr("lineal.models.predictor.CHUNK_ROWS", 100)
    np.testing.assert_allclose(model.decision_function(DIGITS / 16), whole, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(DIGITS / 16)), whole.argmax(1))


def test_a_single_row_may_be_a_vector(model):
    assert model.predict(DIGITS[7] / 16).tolist() == [7]
    assert model.predict(DIGITS[7:8] / 16).tolist() == [7]


def test_predicting_from_a_file(tmp_path):
    frame = pd.DataFrame(
        {"size": [1.0, 2.0, 8.0, 9.0], "colour": ["red", "red", "blue", "blue"], "label": list("nnyy")}
    )
    frame.to_csv(tmp_path / "train.csv", index=False)
    data = lineal.read(tmp_path / "train.csv")
    model, _ = fit(data.X, data.y, TrainOptions())
    model = replace(model, schema=data.schema, feature_names=data.feature_names)
    model.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    assert loaded.predict(tmp_path / "train.csv").tolist() == list("nnyy")
    new = frame[["colour", "size"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    assert loaded.predict(str(tmp_path / "new.csv")).tolist() == list("nnyy")
    assert loaded.predict(new).tolist() == list("nnyy")
    with pytest.raises(DataError, match="colour"):
        loaded.predict(frame[["size"]])


def test_threads_may_share_a_model(model):
    expected = model.predict(DIGITS / 16)
    failures = []

    def work():
        failures.extend(1 for _ in range(20) if not np.array_equal(model.predict(DIGITS / 16), expected))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_bad_rows_are_named(model):
    with pytest.raises(DataError, match="65 features, the model knows 64"):
        model.predict(np.zeros((2, 65)))
    X = DIGITS / 16
    X[3, 5] = np.nan
    with pytest.raises(DataError, match="row 3"):
        model.predict(X)
    with pytest.raises(DataError, match="two dimensions"):
        model.predict(np.zeros((2, 2, 2)))


def test_rows_are_counted_from_the_first(model, monkeypatch):
    monkeypatch.setattr("lineal.models.predictor.CHUNK_ROWS", 100)
    X = DIGITS / 16
    X[1234, 0] = np.inf
    with pytest.raises(DataError, match="row 1234 "):
        model.predict(X)


@pytest.mark.parametrize("X", [[[1.0], [1.0, 2.0]], np.array([["a"] * 64]), np.ones((2, 64), dtype=complex)])
def test_what_is_no_matrix_of_numbers_is_refused(model, X):
    with pytest.raises(DataError):
        model.predict(X)


def test_integers_are_converted_piece_by_piece(model, monkeypatch):
    monkeypatch.setattr("lineal.models.predictor.CHUNK_ROWS", 100)
    X = DIGITS.astype(np.uint8)
    assert {part.dtype for part in model.batches(X)} == {model.weights.dtype}
    np.testing.assert_array_equal(model.predict(X), model.predict(DIGITS))


def test_scores_are_no_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    model, _ = fit(X / X.max(0), y, TrainOptions())
    with pytest.raises(OptionError, match="'logistic' or 'softmax'"):
        model.predict_proba(X)


# --- hostile and broken files


def saved(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def test_a_file_cut_anywhere_is_refused(model, tmp_path):
    path = saved(model, tmp_path)
    content = path.read_bytes()
    for length in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="cut, damaged or not a model file"):
            lineal.load(path)


def test_a_flipped_bit_is_found(model, tmp_path):
    path = saved(model, tmp_path)
    content = bytearray(path.read_bytes())
    for position in (len(content) - 3, len(content) // 2, 300):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            lineal.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda d, t: d.update(classes=[1, 2]),
        lambda d, t: d.update(classes="x"),
        lambda d, t: d.update(label_kind="object"),
        lambda d, t: d.update(feature_names=["a"]),
        lambda d, t: d.pop("loss"),
        lambda d, t: d.update(schema={"format": "csv"}),
        lambda d, t: d.update(certificate=[]),
        lambda d, t: d.update(options=3),
        lambda d, t: t.update(intercept=t["intercept"][:3].copy()),
        lambda d, t: t.update(weights=t["weights"].astype(np.int32)),
        lambda d, t: t.update(weights=np.full_like(t["weights"], np.nan)),
        lambda d, t: t.update(extra=t["intercept"]),
    ],
)
def test_a_tampered_file_is_refused_even_with_a_fitting_checksum(change, model, tmp_path):
    path = saved(model, tmp_path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match="damaged"):
        lineal.load(path)


def test_a_wrong_checksum_is_refused(model, tmp_path):
    path = saved(model, tmp_path)
    rewrite(path, lambda d, t: None, checksum=False)
    with pytest.raises(ModelFileError, match="checksum"):
        lineal.load(path)


def test_a_newer_format_asks_for_an_upgrade(model, tmp_path):
    path = saved(model, tmp_path)
    rewrite(path, lambda d, t: d.update(format_version=FORMAT_VERSION + 1, lineal_version="9.9"))
    with pytest.raises(ModelFileError, match=r"written by lineal 9\.9.*upgrade"):
        lineal.load(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        lineal.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="not a file"):
        lineal.load(tmp_path)
    save_file({"a": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(ModelFileError, match="not a model of lineal"):
        lineal.load(tmp_path / "other")


def test_a_failing_disk_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = saved(model, tmp_path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LinealError, match="No space left on device"):
        replace(model, status="other").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_saved_file_keeps_its_permissions_and_links_stay_links(model, tmp_path):
    path = saved(model, tmp_path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    model.save(tmp_path / "link")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", ["folder", "folder/", "nul\0byte"])
def test_odd_places_are_refused(model, name, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(LinealError, match="cannot write"):
        model.save(str(tmp_path) + "/" + name)
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "a\0", "b"], object),
        np.array(["\ud800", "x", "y"], object),
        np.array([2**63 + 1, 2**63 + 2, 5], np.uint64),
        np.array([-(2**63), 2**63 - 1, 2**53 + 1]),
        np.array([0.1, 1e300, -0.0]),
    ],
)
def test_odd_labels_come_back(labels, tmp_path):
    model, _ = fit(np.eye(6, 4), np.arange(6) % 3, TrainOptions())
    replace(model, classes=labels).save(tmp_path / "m")
    assert lineal.load(tmp_path / "m").classes.tolist() == labels.tolist()


def test_labels_that_no_file_holds_are_refused(tmp_path):
    model, _ = fit(np.eye(6, 4), np.arange(6) % 3, TrainOptions())
    for labels in (np.arange(3, dtype=np.longdouble), np.array([1, "a", None], object), np.arange(3) + 1j):
        with pytest.raises(ModelFileError, match="cannot be saved"):
            replace(model, classes=labels).save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("letter", ["n", '"', "\u4e2d", "\x01"])
def test_names_that_no_header_holds_are_stored_outside_of_it(letter, tmp_path, monkeypatch):
    monkeypatch.setattr("lineal.models.file.LONGEST_TEXT", 1000)
    model, _ = fit(np.eye(6, 4), np.arange(6) % 3, TrainOptions())
    names = [letter * 500 + str(j) for j in range(4)]
    model = replace(model, feature_names=names)
    model.save(tmp_path / "m")
    assert int.from_bytes((tmp_path / "m").read_bytes()[:8], "little") < 1000
    loaded = lineal.load(tmp_path / "m")
    assert loaded.feature_names == names
    np.testing.assert_array_equal(loaded.predict(np.eye(4)), model.predict(np.eye(4)))


def test_more_than_100_mb_of_names(tmp_path):
    model, _ = fit(np.eye(6, 4), np.arange(6) % 3, TrainOptions())
    names = [str(j) + "\u4e2d" * 10_000_000 for j in range(4)]
    replace(model, feature_names=names).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size > 100_000_000
    assert lineal.load(tmp_path / "m").feature_names == names


def test_a_file_that_may_not_be_read_is_not_called_damaged(model, tmp_path, monkeypatch):
    path = saved(model, tmp_path)

    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    for name in ("builtins.open", "os.stat"):
        with monkeypatch.context() as patch:
            patch.setattr(name, forbidden)
            with pytest.raises(ModelFileError) as caught:
                lineal.load(path)
        assert str(caught.value) == f"cannot read {path}: Permission denied"


def test_a_file_that_is_cut_while_it_is_read(model, tmp_path, monkeypatch):
    """Another process makes the file shorter after its size was looked at: an error, not a signal."""
    path = saved(model, tmp_path)
    size = path.stat().st_size
    real = os.fstat

    def before_the_cut(descriptor):
        found = real(descriptor)
        os.truncate(path, size - 100)
        return found

    monkeypatch.setattr("lineal.system.tensor_file.os.fstat", before_the_cut)
    with pytest.raises(ModelFileError, match="cut while it was read"):
        lineal.load(path)


def test_an_unwritable_place_is_named(model, tmp_path):
    with pytest.raises(LinealError, match="cannot write"):
        model.save(tmp_path / "no" / "folder" / "m")


def test_labels_that_json_cannot_hold_are_refused(model, tmp_path):
    odd = replace(model, classes=np.array([object()] * 10, dtype=object))
    with pytest.raises(ModelFileError, match="cannot be saved"):
        odd.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []
