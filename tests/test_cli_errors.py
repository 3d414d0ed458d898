"""The commands on bad input: exit code 2, one line that says what is wrong, nothing left behind."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from cli_files import done, failed, run, write_iris
from safetensors.numpy import load_file, save_file

from lineal.cli.flags import parse_class_weight
from lineal.errors import OptionError

ROWS = "1 1:1 2:0.5\n2 1:0.1\n1 1:2\n2 2:1\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of two columns, and its rows."""
    folder = tmp_path_factory.mktemp("errors")
    rows, model = folder / "rows.svm", folder / "rows.model"
    rows.write_text(ROWS)
    done("train", rows, "-m", model, "--loss", "softmax", "--quiet")
    return model, rows


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--losss", "hinge"), "--loss"),
        (("--loss", "logitsic"), "did you mean 'logistic'"),
        (("--penalty", "L2"), "did you mean 'l2'"),
        (("--solver", "lbfsg"), "did you mean 'lbfgs'"),
        (("--alpha", "much"), "'--alpha'"),
        (("--alpha", "-1"), "alpha=-1.0 is not a finite number ≥ 0"),
        (("--alpha", "nan"), "alpha=nan is not"),
        (("--tol", "0"), "tol=0.0 is not a number > 0"),
        (("--holdout", "1.5"), "--holdout 1.5 is not a share between 0 and 1"),
        (("--n-features", "0"), "n_features=0 must be a whole number"),
        (("--bits", "18"), "bits=18 does not apply to svmlight"),
        (("--holdout", "0.5", "--validate", "x.svm"), "exclude each other"),
        (("--format", "svmligth"), "did you mean 'svmlight'"),
        (("--delimiter", ";"), "does not apply to svmlight"),
        (("--class-weight", "1:2"), "not LABEL=WEIGHT"),
        (("--class-weight", "3=2"), "names '3'"),
        (("--n-jobs", "0"), "n_jobs=0"),
        (("--validate", "nowhere.svm"), "nowhere.svm does not exist"),
    ],
)
def test_wrong_flags(trained, tmp_path, args, expected):
    _, rows = trained
    assert expected in failed("train", rows, "-m", tmp_path / "m", *args)
    assert os.listdir(tmp_path) == []


def test_standard_input_is_read_once(tmp_path):
    assert "both standard input" in failed("train", "-", "-m", tmp_path / "m", "--validate", "-", input=ROWS)


def test_wrong_commands():
    assert "Did you mean 'train'" in failed("tarin")
    assert "--model" in failed("train", "x.svm")
    assert "DATA" in failed("train")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "no examples"),
        ("1 1:2\n2 1:x\n", "data.svm:2:5: found 'x', expected a number"),
        ("1 1:2\n1 2:2\n", "only one class"),
        ("1 1:inf\n2 1:1\n", "data.svm"),
    ],
)
def test_wrong_data(tmp_path, content, expected):
    data = tmp_path / "data.svm"
    data.write_text(content)
    assert expected in failed("train", data, "-m", tmp_path / "m")
    assert os.listdir(tmp_path) == ["data.svm"]


def test_missing_files(trained, tmp_path):
    model, rows = trained
    assert "nowhere.svm does not exist" in failed("train", tmp_path / "nowhere.svm", "-m", tmp_path / "m")
    assert "no model file" in failed("predict", tmp_path / "none", rows)
    assert "does not exist" in failed("evaluate", model, tmp_path / "nowhere.svm")
    assert "is not a file" in failed("inspect", tmp_path)
    assert "directory" in failed("predict", model, tmp_path)


def test_data_without_labels(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    assert "has no labels" in failed("train", tmp_path / "X.npy", "-m", tmp_path / "m")


def test_wrong_model_files(trained, tmp_path):
    model, rows = trained
    content = model.read_bytes()
    cut, changed, foreign, newer = (tmp_path / name for name in ("cut", "changed", "foreign", "newer"))
    cut.write_bytes(content[:-9])
    changed.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    foreign.write_text("not a model")
    save_file(load_file(model), newer, {"lineal": json.dumps({"format_version": 99, "lineal_version": "9.0"})})
    assert "cut, damaged" in failed("predict", cut, rows)
    assert "checksum" in failed("evaluate", changed, rows)
    assert "not a model file" in failed("inspect", foreign)
    assert "written by lineal 9.0" in failed("predict", newer, rows)


def test_rows_that_the_model_cannot_take(trained, tmp_path):
    model, _ = trained
    wide = tmp_path / "wide.svm"
    wide.write_text("1 1:1\n1 9:1\n")
    message = failed("predict", model, wide, "-o", tmp_path / "out")
    assert "wide.svm:2:3" in message
    assert "the model knows only 2 features" in message
    assert os.listdir(tmp_path) == ["wide.svm"]  # half an output is none
    assert "table" in failed("predict", model, write_iris(tmp_path / "iris.csv"))
    np.savez(tmp_path / "sets.npz", X=np.eye(2), y=np.eye(2))
    assert "the data has label sets" in failed("evaluate", model, tmp_path / "sets.npz")


def test_what_a_loss_cannot_say(trained, tmp_path):
    _, rows = trained
    done("train", rows, "-m", tmp_path / "m", "--quiet")
    assert "gives scores, not probabilities" in failed("predict", tmp_path / "m", rows, "--proba")
    assert "exclude each other" in failed("predict", tmp_path / "m", rows, "--proba", "--scores")
    sets = tmp_path / "sets.svm"
    sets.write_text("1,2 1:1\n2 2:1\n1 1:2\n")
    assert "takes one label a row" in failed("train", sets, "-m", tmp_path / "s", "--loss", "softmax")
    assert "is for label sets" in failed("train", rows, "-m", tmp_path / "s", "--threshold", "global")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_while_predicting(trained):
    model, rows = trained
    assert "No space left" in failed("predict", model, rows, "--output", "/dev/full")
    assert not os.path.isfile("/dev/full")  # still a device


def test_full_disk_while_saving(trained, tmp_path, monkeypatch):
    _, rows = trained

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    assert "No space left" in failed("train", rows, "-m", tmp_path / "m", "--loss", "softmax")
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(trained, tmp_path):
    _, rows = trained
    assert "No such file" in failed("train", rows, "-m", tmp_path / "no" / "m")
    assert "it is a folder" in failed("train", rows, "-m", tmp_path)
    assert "it is a folder" in failed("train", rows, "-m", tmp_path / "m", "--history", tmp_path)
    assert "must end with .arrow" in failed("convert", rows, tmp_path / "rows.txt")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_a_device_is_no_model_file(trained):
    _, rows = trained
    assert "not a regular file" in failed("train", rows, "-m", "/dev/null")
    assert not os.path.isfile("/dev/null")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(trained, tmp_path):
    _, rows = trained
    tmp_path.chmod(0o500)
    assert "Permission denied" in failed("train", rows, "-m", tmp_path / "m")


def test_too_little_memory(trained, monkeypatch):
    model, rows = trained

    def greedy(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("lineal.model.Model.scores", greedy)
    assert "not enough memory" in failed("predict", model, rows)


def test_errors_that_nobody_foresaw(trained, monkeypatch):
    model, rows = trained

    def broken(*args: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("lineal.model.Model.scores", broken)
    line = "lineal: internal error: ZeroDivisionError: two lines (set LINEAL_TRACEBACK=1 for details)"
    result = run("predict", model, rows)
    assert (result.exit_code, result.stderr.splitlines()) == (2, [line])
    monkeypatch.setenv("LINEAL_TRACEBACK", "1")
    result = run("predict", model, rows)
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert "in broken" in result.stderr


def test_more_columns_than_memory(trained, tmp_path, monkeypatch):
    _, rows = trained
    message = failed("train", rows, "-m", tmp_path / "m", "--n-features", "3000000000")
    assert "n_features=3000000000 must be a whole number from 1 to 2147483647" in message
    monkeypatch.setattr("lineal.memory.available_memory", lambda: 10**9)
    message = failed("train", rows, "-m", tmp_path / "m", "--n-features", "2147483647")
    assert "any solver needs 85.9 GB of memory (85899345880 bytes) for 2147483647 features × 1 classes" in message
    assert os.listdir(tmp_path) == []
    done("train", rows, "-m", tmp_path / "m", "--n-features", "10", "--quiet")


def test_what_the_model_has_decided(trained):
    model, rows = trained
    assert "n_features=5 cannot be changed: the model was trained with n_features=2" in failed(
        "predict", model, rows, "--n-features", "5"
    )
    assert "index_base='0' cannot be changed" in failed("evaluate", model, rows, "--index-base", "0")
    done("predict", model, rows, "--n-features", "2", "--index-base", "1")


def test_hints_fit_the_format(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert "--label" not in failed("train", tmp_path / "X.npy", "-m", tmp_path / "m")
    assert "name the label column of a table with --label" in failed(
        "train", tmp_path / "t.csv", "-m", tmp_path / "m", "--label", ""
    )


def test_class_weights():
    assert parse_class_weight(None) is None
    assert parse_class_weight("balanced") == "balanced"
    assert parse_class_weight("a=b=2, c=0.5") == {"a=b": 2.0, "c": 0.5}
    for text in ("x", "x=", "a=1,,b=2"):
        with pytest.raises(OptionError, match="LABEL=WEIGHT"):
            parse_class_weight(text)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="extended precision is double precision here")
@pytest.mark.parametrize("command", ["train", "path"])
def test_labels_that_no_model_file_holds_are_refused_before_training(command, tmp_path, monkeypatch):
    def trains(*_, **__):
        raise AssertionError("the training began")

    monkeypatch.setattr("lineal.fit.fit", trains)
    monkeypatch.setattr("lineal.search.run.search", trains)
    np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.array([0, 1, 0, 1], np.longdouble))
    assert "cannot be saved" in failed(command, tmp_path / "rows.npz", "-m", tmp_path / "m")
    assert os.listdir(tmp_path) == ["rows.npz"]
