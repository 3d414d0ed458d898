"""Training on files larger than memory and on clusters from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_files import done, failed
from conftest import random_problem
from file_rows import write_files

import lineal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y = random_problem(3, n=300, d=9, k=3, density=0.5)
    folder = tmp_path_factory.mktemp("rows")
    write_files(folder, X, y, parts=2)
    return folder


TRAIN = ("--loss", "logistic", "--solver", "newton", "--tol", "1e-9", "--alpha", "1e-2")


@pytest.mark.parametrize(
    "flags", [("--engine", "file", "--memory-budget", "1GB"), ("--memory-budget", "1.5GiB"), ("--workers", "2")]
)
def test_the_model_is_that_of_rows_in_memory(folder, tmp_path, flags):
    wanted = json.loads(done("train", folder / "*.arrow", "-m", tmp_path / "local", *TRAIN, "--json").stdout)
    found = json.loads(done("train", folder / "*.arrow", "-m", tmp_path / "other", *TRAIN, *flags, "--json").stdout)
    assert found["certificate"]["primal"] == pytest.approx(wanted["certificate"]["primal"], rel=1e-9)
    for name in ("rows", "features", "classes", "status", "training_accuracy", "training_rows"):
        assert found[name] == wanted[name]
    models = [lineal.load(tmp_path / name) for name in ("local", "other")]
    np.testing.assert_allclose(models[1].weights, models[0].weights, atol=1e-5)
    assert models[1].schema == models[0].schema


@pytest.mark.parametrize("flags", [("--engine", "file", "--memory-budget", "2GB"), ("--workers", "2")])
def test_stagewise_models_are_those_of_rows_in_memory(folder, tmp_path, flags):
    stages = ("--model-type", "stagewise", "--features", "fourier", "--block-size", "16", "--n-blocks", "2", "--json")
    stages += ("--precision", "float64", "--alpha", "1e-3")
    wanted = json.loads(done("train", folder / "*.arrow", "-m", tmp_path / "local", *stages).stdout)
    found = json.loads(done("train", folder / "*.arrow", "-m", tmp_path / "other", *stages, *flags).stdout)
    for name in ("rows", "features", "classes", "status", "iterations", "training_accuracy"):
        assert found[name] == wanted[name]
    models = [lineal.load(tmp_path / name) for name in ("local", "other")]
    for one, other in zip(*(model.members[0] for model in models), strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-7, atol=1e-9)
    assert models[1].schema == models[0].schema


def test_a_folder_can_be_trained_on_and_predicted_from(folder, tmp_path):
    done("train", folder, "-m", tmp_path / "m", *TRAIN, "--engine", "file", "--quiet")
    lines = done("predict", tmp_path / "m", folder / "part-0.arrow").stdout.splitlines()
    assert len(lines) == 100


def test_a_search_on_files(folder, tmp_path):
    flags = ("--n-alphas", "3", "--folds", "3", "--loss", "logistic", "--solver", "newton", "--tol", "1e-8", "--json")
    wanted = json.loads(done("path", folder / "*.arrow", "-m", tmp_path / "m", *flags).stdout)
    found = json.loads(done("path", folder / "*.arrow", "-m", tmp_path / "n", *flags, "--engine", "file").stdout)
    assert [row["score"] for row in found["path"]] == pytest.approx([row["score"] for row in wanted["path"]])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--engine", "dask"), "--engine dask needs a cluster: give --workers N, or --scheduler ADDRESS"),
        (("--engine", "file", "--workers", "2"), "--workers is for --engine dask, not --engine file"),
        (("--workers", "2", "--scheduler", "tcp://127.0.0.1:1"), "exclude each other"),
        (("--workers", "0"), "--workers 0 is not a number of processes"),
        (("--workers", "2", "--tls-cert", "x.pem"), "--tls-cert is for --scheduler"),
        (("--tls-key", "x.pem"), "--tls-key is for --scheduler tls://HOST:PORT"),
        (("--scheduler", "10.0.0.1"), "has no port number: give its whole address, such as tcp://10.0.0.1:8786"),
        pytest.param(
            ("--scheduler", "tcp://127.0.0.1:9"),
            "cannot reach a Dask scheduler at tcp://127.0.0.1:9",
            marks=pytest.mark.slow,  # it waits for ten seconds
        ),
        (("--engine", "fil"), "did you mean 'file'"),
        (("--engine", "file", "--memory-budget", "1MB"), "--memory-budget is too small"),
        (("--engine", "file", "--memory-budget", "lots"), "is not a number of bytes"),
        (("--engine", "file", "--holdout", "0.2"), "--holdout needs rows in memory"),
        (("--engine", "file", "--label", "x"), "--label x has no meaning for converted files"),
        (("--online", "--engine", "dask"), "--engine dask needs a cluster: give --workers N, or --scheduler ADDRESS"),
    ],
)
def test_flags_that_do_not_fit_are_named(folder, tmp_path, flags, message):
    training = () if "--online" in flags or "--model-type" in flags else TRAIN
    assert message in failed("train", folder / "*.arrow", "-m", tmp_path / "m", *training, *flags)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--engine", "file", "--memory-budget", "1GB"), "--engine file"),
        (("--memory-budget", "1GB"), "--memory-budget"),
        (("--workers", "2"), "--workers"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"), "--scheduler"),
        (("--online", "--workers", "2"), "--workers"),
        (("--model-type", "stagewise", "--engine", "file"), "--engine file"),
    ],
)
def test_flags_that_standard_input_cannot_honour_are_refused(tmp_path, flags, named):
    commands = ("train",) if set(flags) & {"--online", "--model-type"} else ("train", "path")
    for command in commands:
        message = failed(command, "-", "-m", tmp_path / "m", *flags, "--format", "svmlight", input=b"1 1:1\n-1 2:1\n")
        assert f"{named} is for files, and DATA is standard input" in message
        assert "lineal convert - rows.arrow" in message


def test_files_of_a_folder_are_not_overwritten(folder, tmp_path):
    message = failed("train", folder, "-m", folder / "part-0.arrow", *TRAIN)
    assert "would overwrite DATA" in message
    done("train", folder, "-m", tmp_path / "m", *TRAIN, "--quiet")
    assert "would overwrite DATA" in failed("predict", tmp_path / "m", folder, "-o", folder / "part-1.arrow")
    assert len(done("predict", tmp_path / "m", folder).stdout.splitlines()) == 300


def test_files_that_are_not_converted_are_named(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    message = failed("train", tmp_path / "rows.svm", "-m", tmp_path / "m", "--engine", "file")
    assert "lineal convert" in message
