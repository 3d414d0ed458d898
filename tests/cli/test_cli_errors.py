"""The commands on bad input: exit code 2, one line that says what is wrong, nothing left behind."""

from __future__ import annotations

import builtins
import dataclasses
import errno
import gzip
import inspect
import json
import os
import subprocess
import typing

import numpy as np
import pytest
from cli_files import done, failed, program, run, shell, write_iris
from safetensors.numpy import load_file, save_file

import lineal
import lineal.cli.training
from lineal.cli.app import app
from lineal.cli.cluster import ClusterOptions
from lineal.cli.files import role_of
from lineal.cli.flags import parse_class_weight
from lineal.data.options import ReadOptions
from lineal.data.tables import reader
from lineal.errors import OptionError
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.options import TrainOptions
from lineal.linear.search.options import PathOptions
from lineal.online.options import OnlineOptions
from lineal.stagewise.options import StagewiseOptions

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
        (("--alpha", "-1"), "--alpha -1.0 is not a finite number ≥ 0"),
        (("--alpha", "nan"), "--alpha nan is not"),
        (("--tol", "0"), "--tol 0.0 is not a number > 0"),
        (("--holdout", "1.5"), "--holdout 1.5 is not a share between 0 and 1"),
        (("--n-features", "0"), "--n-features 0 must be an integer"),
        (("--bits", "18"), "--bits 18 does not apply to svmlight"),
        (("--holdout", "0.5", "--validate", "x.svm"), "exclude each other"),
        (("--format", "svmligth"), "did you mean 'svmlight'"),
        (("--delimiter", ";"), "does not apply to svmlight"),
        (("--class-weight", "1:2"), "not LABEL=WEIGHT"),
        (("--class-weight", "3=2"), "names '3'"),
        (("--n-jobs", "0"), "--n-jobs 0"),
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
        ("1 1:2\n1 2:2\n", "only one value"),
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
    assert "folder" in failed("predict", model, tmp_path)


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
    assert "takes one label per row" in failed("train", sets, "-m", tmp_path / "s", "--loss", "softmax")
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

    monkeypatch.setattr("lineal.linear.model.Model.scores", greedy)
    assert "not enough memory" in failed("predict", model, rows)


def test_errors_that_nobody_foresaw(trained, monkeypatch):
    model, rows = trained

    def broken(*args: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("lineal.linear.model.Model.scores", broken)
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
    assert "--n-features 3000000000 must be an integer from 1 to 2147483647" in message
    monkeypatch.setattr("lineal.system.memory.available_memory", lambda: 10**9)
    message = failed("train", rows, "-m", tmp_path / "m", "--n-features", "2147483647")
    assert "any solver needs 85.9 GB of memory (85899345880 bytes) for 2147483647 features × 1 classes" in message
    assert os.listdir(tmp_path) == []
    done("train", rows, "-m", tmp_path / "m", "--n-features", "10", "--quiet")


def test_what_the_model_has_decided(trained):
    model, rows = trained
    assert "--n-features 5 cannot be changed: the model was trained with --n-features 2" in failed(
        "predict", model, rows, "--n-features", "5"
    )
    assert "--index-base 0 cannot be changed" in failed("evaluate", model, rows, "--index-base", "0")
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


# ---------------------------------------------------------------------------------------------- overwriting


@pytest.fixture
def place(trained, tmp_path):
    """A folder with rows, a model, and other names of both; every file's contents."""
    model, rows = trained
    for name, source in (("m", model), ("a.svm", rows), ("b.svm", rows)):
        (tmp_path / name).write_bytes(source.read_bytes())
    os.link(tmp_path / "a.svm", tmp_path / "hard.svm")
    (tmp_path / "soft.svm").symlink_to("a.svm")
    (tmp_path / "folder").mkdir()
    (tmp_path / "there").symlink_to("folder")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "train a.svm -m a.svm",
        "train a.svm -m hard.svm",
        "train soft.svm -m a.svm",
        "train a.svm -m folder/../a.svm",
        "train *.svm -m b.svm",
        "train a.svm -m n --validate b.svm --history b.svm",
        "train a.svm -m n --history n",
        "train a.svm -m folder/n --history there/n",
        "train a.svm -m n.png --plot n.png",
        "train --online a.svm -m soft.svm",
        "train --online a.svm -m n --resume m --history m",
        "path a.svm -m hard.svm",
        "path a.svm -m n --plot p.png --plot-sparsity p.png",
        "predict m a.svm -o a.svm",
        "predict m a.svm -o m",
        "compact m -o m",
        "compact m -o n --columns n",
        "compact m -o n --columns m",
        "convert a.svm a.svm",
    ],
)
def test_an_output_is_no_input_and_no_other_output(place, monkeypatch, command):
    monkeypatch.chdir(place)
    before = {path: path.read_bytes() for path in place.iterdir() if path.is_file()}
    message = failed(*command.split())
    assert "would overwrite" in message or "are the same file" in message
    assert {path: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
    assert os.listdir(place / "folder") == []


def test_a_redirected_input_is_not_overwritten(trained, tmp_path):
    model, rows = trained
    with open(rows) as file:
        result = shell("predict", model, "-", "-o", rows, "--format", "svmlight", stdin=file)
    assert (result.returncode, result.stdout) == (2, "")
    assert "would overwrite DATA -" in result.stderr
    with open(rows, "a") as file:
        command = [*program(), "predict", str(model), str(rows)]
        result = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=240)
    assert "standard output would overwrite DATA" in result.stderr
    assert rows.read_text() == ROWS


unix = pytest.mark.skipif(os.name == "nt", reason="numbers of open files are Unix's")


@unix
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_numbers_of_open_files_are_names_of_files(trained, tmp_path, folder):
    if not os.path.isdir(folder):
        pytest.skip(f"needs {folder}")
    model, rows = trained
    before = model.read_bytes()
    with open(rows, "rb+") as data, open(model, "rb+") as own:
        for command in (
            ("train", rows, "-m", f"{folder}/{data.fileno()}"),
            ("train", f"{folder}/{data.fileno()}", "-m", rows, "--format", "svmlight"),
            ("train", rows, "-m", tmp_path / "n", "--history", f"{folder}/{data.fileno()}"),
            ("predict", model, rows, "-o", f"{folder}/{data.fileno()}"),
            ("predict", f"{folder}/{own.fileno()}", rows, "-o", model),
            ("compact", model, "-o", f"{folder}/{own.fileno()}"),
        ):
            assert "would overwrite" in failed(*command)
    assert (rows.read_text(), model.read_bytes(), os.listdir(tmp_path)) == (ROWS, before, [])


@unix
def test_open_files_are_written_to_as_they_are(trained, tmp_path):
    """What `>>` has opened keeps what it holds, and a file without a name gets its output as well."""
    model, rows = trained
    log, missing = tmp_path / "log", "/dev/fd/987"
    log.write_text("before\n")
    with open(log, "ab") as file:
        done("predict", model, rows, "-o", f"/dev/fd/{file.fileno()}")
        done("compact", model, "-o", tmp_path / "small", "--columns", f"/dev/fd/{file.fileno()}")
        command = [*program(), "predict", str(model), str(rows), "-o", "/dev/stderr"]
        subprocess.run(command, stderr=file, timeout=240, check=True)
    labels = ["1", "2", "1", "2"]
    assert log.read_text().splitlines() == ["before", *labels, "0\tcolumn 0", "1\tcolumn 1", *labels]
    with open(log, "wb+") as file:
        log.unlink()
        done("predict", model, rows, "-o", f"/dev/fd/{file.fileno()}")
        assert os.pread(file.fileno(), 100, 0).split() == [b"1", b"2", b"1", b"2"]
    assert os.listdir(tmp_path) == ["small"]
    assert "Bad file descriptor" in failed("predict", model, rows, "-o", missing)
    assert "Bad file descriptor" in failed("compact", model, "-o", tmp_path / "n", "--columns", missing)
    assert "cannot write" in failed("predict", model, rows, "-o", "/dev/fd/" + "9" * 30)
    assert os.listdir(tmp_path) == ["small"]


@unix
def test_standard_output_is_no_place_for_a_model(trained, tmp_path, monkeypatch):
    _, rows = trained
    monkeypatch.chdir(tmp_path)
    for args in (("-m", "-"), ("-m", "n", "--history", "-"), ("-m", "n", "--plot", "-")):
        assert "cannot go to standard output" in failed("train", rows, *args)
    command = [*program(), "train", str(rows), "-m", "/dev/stdout"]
    piped = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (piped.returncode, piped.stdout) == (2, "")
    assert "not a regular file" in piped.stderr
    with open("out", "w") as file:
        written = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=240)
    assert written.returncode == 2
    assert "--model and standard output are the same file" in written.stderr
    assert (os.listdir(), os.path.getsize("out")) == (["out"], 0)


def test_what_may_be_named_twice(trained, tmp_path):
    model, rows = trained
    done("train", rows, "-m", tmp_path / "m", "--validate", rows, "--quiet")
    done("predict", model, rows, "-o", "/dev/null")
    assert done("predict", model, rows, "-o", "/dev/stdout").stdout.split() == ["1", "2", "1", "2"]
    done("train", "--online", rows, "-m", tmp_path / "online", "--quiet")
    done("train", "--online", rows, "-m", tmp_path / "online", "--resume", tmp_path / "online", "--quiet")


def test_every_parameter_that_names_a_file_says_what_it_is_for():
    """Texts that name no file are listed here; a new one must be marked, or listed."""
    plain = {"model_type", "classes", "command", "shell"}
    fields = {
        field.name
        for options in (
            TrainOptions,
            LeastSquaresOptions,
            StagewiseOptions,
            OnlineOptions,
            PathOptions,
            ReadOptions,
            ClusterOptions,
        )
        for field in dataclasses.fields(options)
    }
    seen = 0
    for command in app.registered_commands:
        for name, parameter in inspect.signature(command.callback).parameters.items():
            if str not in (kind := typing.get_args(parameter.annotation))[:1] and kind[:1] != (str | None,):
                continue
            if name not in plain | fields:
                assert role_of(parameter) is not None, f"lineal {command.callback.__name__}: {name}"
                seen += 1
    assert seen > 15


def test_a_plot_that_cannot_be_drawn_is_refused_before_the_training(trained, tmp_path):
    _, rows = trained
    assert "must end with one of" in failed("train", rows, "-m", tmp_path / "m", "--plot", tmp_path / "fit.doc")
    assert os.listdir(tmp_path) == []


def test_names_that_cannot_be_written_are_refused_before_the_training(trained, tmp_path):
    _, rows = trained
    for name, expected in (
        ("", "without a name"),
        (f"{tmp_path}/new/", "not a regular file"),
        (tmp_path / ("x" * 300), "too long"),
        (rows / "m", "Not a directory"),
    ):
        assert expected in failed("train", rows, "-m", name)


def test_a_model_that_cannot_be_written_in_the_end_is_saved_elsewhere(trained, tmp_path, monkeypatch):
    _, rows = trained
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    fitted = lineal.cli.training.fit_rows

    def slow(*args):
        (tmp_path / "place").rmdir()  # while it trains
        return fitted(*args)

    (tmp_path / "place").mkdir()
    monkeypatch.setattr("lineal.cli.train.fit_rows", slow)
    message = failed("train", rows, "-m", tmp_path / "place" / "m", "--loss", "softmax")
    assert "No such file" in message
    (saved,) = (tmp_path / "temporary").iterdir()
    assert f"saved to {saved} instead" in message
    assert lineal.load(saved).classes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b'a,label\n1,"x\n2,y\n', "t.csv:2:3: found a quote that is never closed"),
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a,label\n", "t.csv has no rows"),
        ("t.csv", b"a,t,label\n1,\xff,x\n2,z,y\n", "t.csv:2: column 't' is not UTF-8 text"),
        ("t.csv", b"\xff\xfea\0,\0", "t.csv is UTF-16 text: convert it to UTF-8"),
        ("t.svm", b"", "t.svm: no examples"),
        ("t.svm", b"1 1:2\0\n", "t.svm:1:6"),
        ("t.jsonl", b"", "t.jsonl has no rows"),
        ("t.vw", b"\n\n", "t.vw: no examples"),
        ("t.arrow", b"ARROW1", "t.arrow is cut or damaged"),
        ("t.parquet", b"PAR1", "t.parquet: "),
        ("t.npy", b"", "t.npy is not a readable NumPy file: it is empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in failed("train", tmp_path / name, "-m", tmp_path / "m.model")
    assert not (tmp_path / "m.model").exists()


@pytest.mark.parametrize("name", ["t.svm", "t.vw", "t.csv", "t.jsonl", "t.parquet", "t.feather", "t.arrow", "t.npz"])
def test_permission_denied_is_not_damage(tmp_path, monkeypatch, name):
    """As root, which may read everything, this can only be pretended."""
    path = tmp_path / name
    path.write_bytes(b"ARROW1\0\0ARROW1")
    _deny(monkeypatch, str(path))
    text = failed("train", path, "-m", tmp_path / "m.model")
    assert text.endswith(f"cannot read {path}: Permission denied")


def test_models_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\n")
    (tmp_path / "m.model").write_bytes(b"model")
    _deny(monkeypatch, str(tmp_path / "m.model"))
    text = failed("predict", tmp_path / "m.model", tmp_path / "t.csv")
    assert text.endswith(f"cannot read {tmp_path / 'm.model'}: Permission denied")


def _deny(monkeypatch, path: str) -> None:
    opened, opened_low = builtins.open, os.open

    def high(file, *args, **kwargs):
        if str(file) == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(file, *args, **kwargs)

    def low(file, *args, **kwargs):
        if str(file) == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened_low(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", high)
    monkeypatch.setattr(os, "open", low)


def test_too_little_memory_names_the_file(tmp_path, monkeypatch):
    """A compressed table that does not fit into memory."""
    path = tmp_path / "t.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1"))

    def full(*args):
        raise MemoryError

    monkeypatch.setattr(reader, "_seekable", full)
    assert f"not enough memory to read {path}: use" in failed("train", path, "-m", tmp_path / "m.model")


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="extended precision is double precision here")
@pytest.mark.parametrize("command", ["train", "path"])
def test_labels_that_no_model_file_holds_are_refused_before_training(command, tmp_path, monkeypatch):
    def trains(*_, **__):
        raise AssertionError("the training began")

    monkeypatch.setattr("lineal.linear.fit.fit", trains)
    monkeypatch.setattr("lineal.linear.search.run.search", trains)
    np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.array([0, 1, 0, 1], np.longdouble))
    assert "cannot be saved" in failed(command, tmp_path / "rows.npz", "-m", tmp_path / "m")
    assert os.listdir(tmp_path) == ["rows.npz"]
