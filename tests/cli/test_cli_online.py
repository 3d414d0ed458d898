"""`lineal train --online`: streams in, models out, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from cli_files import done, failed, run
from sklearn.datasets import load_breast_cancer, load_digits

import lineal


def vw_lines(X, y, weights=None):
    lines = []
    for i, row in enumerate(X):
        weight = "" if weights is None else f" {weights[i]}"
        lines.append(f"{y[i]:g}{weight} |f " + " ".join(f"x{j}:{row[j]:.6g}" for j in np.flatnonzero(row)))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("online")
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], 2 * y[order] - 1
    (folder / "train.vw").write_text(vw_lines(X[:400], y[:400]))
    (folder / "test.vw").write_text(vw_lines(X[400:], y[400:]))
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    for name, rows in (("digits.svm", slice(0, 1400)), ("digits_test.svm", slice(1400, None))):
        text = "".join(
            f"{label} " + " ".join(f"{j + 1}:{row[j]:g}" for j in np.flatnonzero(row)) + "\n"
            for row, label in zip(X[rows], y[rows])
        )
        (folder / name).write_text(text)
    return folder


NGRAMS = ("--ngram", "2", "--skips", "1")


def test_ngrams_of_text(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(800):
        words = [f"w{i}" for i in rng.permutation(3)]
        lines.append(f"{1 if words.index('w0') < words.index('w1') else -1} |t {' '.join(words)}\n")
    data, model, plain = tmp_path / "data.vw", tmp_path / "m", tmp_path / "plain"
    data.write_text("".join(lines))
    result = json.loads(done("train", "--online", data, "-m", model, *NGRAMS, "--validate", data, "--json").stdout)
    assert result["validation_accuracy"] > 0.99
    said = done("predict", model, data).stdout.splitlines()
    assert np.mean(np.array(said) == [line.split()[0] for line in lines]) == result["validation_accuracy"]
    assert done("predict", model, data, *NGRAMS).stdout.splitlines() == said
    assert "trained with --ngram 2" in failed("predict", model, data, "--ngram", "3")
    result = json.loads(done("train", "--online", data, "-m", plain, "--validate", data, "--json").stdout)
    assert result["validation_accuracy"] < 0.7
    done("train", "--online", data, "-m", plain, "--ngram", "t=2")
    assert lineal.load(plain).schema.settings["ngram"] == "t=2"
    resumed = json.loads(done("train", "--online", data, "-m", plain, "--resume", model, "--json").stdout)
    assert resumed["examples"] == 1600
    assert lineal.load(plain).schema.settings["ngram"] == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--ngram", "0"), "--ngram 0 is"), (("--skips", "1"), "set --ngram"), (("--ngram", "x"), "--ngram x is"),
        (("--ngram", "2", "--skips", "-1"), "--skips -1"), (("--ngram", "9", "--skips", "9"), "at most 256"),
    ],
)  # fmt: skip
def test_bad_ngrams(files, tmp_path, flags, message):
    for command in (("train", "--online"), ("train",)):
        assert message in failed(*command, files / "train.vw", "-m", tmp_path / "m", *flags)
    assert not (tmp_path / "m").exists()
    assert "does not apply to svmlight" in failed(
        "train", "--online", files / "digits.svm", "-m", tmp_path / "m", "--ngram", "2"
    )


def test_vw_text_round_trip(files, tmp_path):
    model = tmp_path / "m"
    result = json.loads(
        done("train", "--online", files / "train.vw", "-m", model, "--validate", files / "test.vw", "--json").stdout
    )
    assert result["examples"] == 400
    assert [row["examples"] for row in result["history"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 400]
    assert result["validation_accuracy"] > 0.85
    said = done("predict", model, files / "test.vw").stdout.splitlines()
    truth = [line.split()[0] for line in (files / "test.vw").read_text().splitlines()]
    assert np.mean(np.array(said) == truth) == pytest.approx(result["validation_accuracy"])
    assert json.loads(done("evaluate", model, files / "test.vw", "--json").stdout)["log_loss"] < 0.6


def test_a_file_a_pipe_and_a_compressed_file_are_the_same(files, tmp_path):
    text = (files / "train.vw").read_bytes()
    (tmp_path / "train.vw.gz").write_bytes(gzip.compress(text))
    for name, data, extra in (
        ("file", files / "train.vw", {}), ("gz", tmp_path / "train.vw.gz", {}), ("pipe", "-", {"input": text}),
    ):  # fmt: skip
        done("train", "--online", data, "-m", tmp_path / name, "--format", "vw", "--quiet", **extra)
    models = [lineal.load(tmp_path / name).learner.weights() for name in ("file", "gz", "pipe")]
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[0], models[2])


def test_streaming_is_learning_from_arrays(files, tmp_path):
    """The same rows from a file and from an array: the same weights, to the bit."""
    done("train", "--online", files / "digits.svm", "-m", tmp_path / "m", "--quiet", "--classes", "0,1,2,3,4,5,6,7,8,9")
    data = lineal.read(files / "digits.svm", dtype="float32", index_base="0", n_features=65)
    model = lineal.OnlineClassifier().partial_fit(data.X, data.y, classes=np.arange(10))
    streamed = lineal.load(tmp_path / "m").learner
    np.testing.assert_array_equal(streamed.weights(), model.model_.learner.weights())


def test_classes_come_up_in_a_stream(files, tmp_path):
    done("train", "--online", files / "digits.svm", "-m", tmp_path / "m", "--quiet")
    assert sorted(lineal.load(tmp_path / "m").classes.tolist()) == list(range(10))
    result = json.loads(done("evaluate", tmp_path / "m", files / "digits_test.svm", "--json").stdout)
    assert result["accuracy"] > 0.85


def test_resume_goes_on(files, tmp_path):
    lines = (files / "train.vw").read_text().splitlines(keepends=True)
    (tmp_path / "a.vw").write_text("".join(lines[:150]))
    (tmp_path / "b.vw").write_text("".join(lines[150:]))
    done("train", "--online", tmp_path / "a.vw", "-m", tmp_path / "half", "--quiet")
    done("train", "--online", tmp_path / "b.vw", "-m", tmp_path / "both", "--resume", tmp_path / "half", "--quiet")
    done("train", "--online", files / "train.vw", "-m", tmp_path / "whole", "--quiet")
    both, whole = (lineal.load(tmp_path / name).learner for name in ("both", "whole"))
    np.testing.assert_array_equal(both.weights(), whole.weights())
    assert both.examples == whole.examples == 400
    assert "--rate" in failed(
        "train", "--online", tmp_path / "b.vw", "-m", tmp_path / "x", "--resume", tmp_path / "half", "--rate", "1"
    )


def test_resume_refuses_what_it_would_ignore(files, tmp_path):
    path = files / "train.vw"
    done("train", "--online", path, "-m", tmp_path / "m", "--quiet", "--passes", "2", "--hold-out", "5")
    resume = ("train", "--online", path, "-m", tmp_path / "m", "--resume", tmp_path / "m", "--quiet")
    assert "--tune" in failed(*resume, "--tune")
    assert "--label-sets" in failed(*resume, "--label-sets")
    done(*resume, "--max-time", "100", "--n-jobs", "1")


@pytest.mark.parametrize("schedule", ["halving", "equal"])
def test_epochs_are_the_same_from_every_format(tmp_path, schedule):
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame((rng.random((191, 4)) < 0.5).astype(float), columns=list("abcd"))
    y = np.where(table["a"] == table["b"], "same", "other")
    given = {"expansion": "adaptive", "schedule": schedule, "bits": 12}
    X = table.to_numpy()
    expected = lineal.OnlineClassifier(**given).fit(X, y).decision_function(X)
    table["label"] = y
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    table.to_parquet(tmp_path / "t.parquet")
    done("convert", tmp_path / "t.csv", tmp_path / "t.arrow")
    for name in ("t.csv", "t.jsonl", "t.parquet", "t.arrow"):
        flags = ("--expansion", "adaptive", "--schedule", schedule, "--bits", "12")
        done("train", "--online", tmp_path / name, "-m", tmp_path / "m", "--quiet", *flags)
        np.testing.assert_array_equal(lineal.load(tmp_path / "m").decision_function(X), expected, err_msg=name)
    done("train", "--online", tmp_path / "t.arrow", "-m", tmp_path / "m", *flags, "--validate", tmp_path / "t.arrow")


def test_features_that_come_twice_are_multiplied_as_they_are_predicted(tmp_path):
    (tmp_path / "t.vw").write_text("1 | a:2 a:3 b\n-1 | a b:3 b\n" * 20)
    done("train", "--online", tmp_path / "t.vw", "-m", tmp_path / "m", "--quiet", "--expansion", "quadratic")
    data = lineal.read(tmp_path / "t.vw")
    expected = lineal.OnlineClassifier(expansion="quadratic").fit(data.X, data.y).decision_function(data.X)
    np.testing.assert_array_equal(lineal.load(tmp_path / "m").decision_function(data.X), expected)


def test_passes_hold_out_and_history_is_drawn(files, tmp_path):
    done(
        "train", "--online", files / "train.vw", "-m", tmp_path / "m", "--passes", "4", "--quiet",
        "--history", tmp_path / "h.json", "--plot", tmp_path / "h.png",
    )  # fmt: skip
    history = json.loads((tmp_path / "h.json").read_text())
    assert {row["pass"] for row in history} >= {1.0, 2.0}
    assert history[-1]["held_out_loss"] < 0.6
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")


def test_tune_tries_rates_at_once(files, tmp_path):
    result = json.loads(done("train", "--online", files / "train.vw", "-m", tmp_path / "m", "--tune", "--json").stdout)
    plain = json.loads(done("train", "--online", files / "train.vw", "-m", tmp_path / "n", "--json").stdout)
    assert result["rate"] in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    assert result["progressive_loss"] <= plain["progressive_loss"]


def test_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    (tmp_path / "r.vw").write_text(vw_lines(X, X @ [1.0, -2.0, 3.0, 0.5]))
    done("train", "--online", tmp_path / "r.vw", "-m", tmp_path / "m", "--regression", "--quiet")
    assert json.loads(done("evaluate", tmp_path / "m", tmp_path / "r.vw", "--json").stdout)["r2"] > 0.95
    said = [float(line) for line in done("predict", tmp_path / "m", tmp_path / "r.vw").stdout.splitlines()]
    assert len(said) == 3000
    assert done("inspect", tmp_path / "m").stdout.count("number\t") == 4


def test_label_sets_of_a_stream(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    text = ""
    for row in X:
        labels = ",".join(str(j) for j in range(3) if row[j] > 0.0)
        text += f"{labels} | " + " ".join(f"x{j}:{row[j]:.4f}" for j in range(4)) + "\n"
    (tmp_path / "s.vw").write_text(text)
    assert "--classes" in failed("train", "--online", tmp_path / "s.vw", "-m", tmp_path / "m", "--label-sets")
    done("train", "--online", tmp_path / "s.vw", "-m", tmp_path / "m", "--label-sets", "--classes", "0,1,2", "--quiet")
    assert json.loads(done("evaluate", tmp_path / "m", tmp_path / "s.vw", "--json").stdout)["micro_f1"] > 0.9


def test_interactions_among_namespaces_of_a_file(tmp_path):
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 2, (3, 3000))
    y = np.where(a == b, 1, -1)
    lines = [f"{label} |user u{i} |ad a{j} |page p{k}\n" for label, i, j, k in zip(y, a, b, c)]
    (tmp_path / "x.vw").write_text("".join(lines))
    common = ("train", "--online", tmp_path / "x.vw", "-m", tmp_path / "m", "--expansion", "quadratic", "--json")
    good = json.loads(done(*common, "--interactions", "user*ad").stdout)
    assert json.loads(done("evaluate", tmp_path / "m", tmp_path / "x.vw", "--json").stdout)["accuracy"] > 0.99
    assert np.mean([int(v) for v in done("predict", tmp_path / "m", tmp_path / "x.vw").stdout.split()] == y) > 0.99
    bad = json.loads(done(*common, "--interactions", "user*page").stdout)
    assert good["progressive_loss"] < 0.5 * bad["progressive_loss"]


def test_monomials_are_listed_by_name(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.choice([-1, 1], size=(4000, 5))
    y = X[:, 1] * X[:, 3]
    (tmp_path / "t.csv").write_text(
        "label,a,b,c,d,e\n" + "".join(",".join(map(str, (label, *row))) + "\n" for label, row in zip(y, X))
    )
    done(
        "train", "--online", tmp_path / "t.csv", "-m", tmp_path / "m", "--label", "label", "--expansion", "adaptive",
        "--schedule", "doubling", "--quiet",
    )  # fmt: skip
    shown = done("inspect", tmp_path / "m", "--top", "1").stdout
    assert "b*d" in shown
    assert "share of collisions" in shown


def test_inspect_estimates_how_many_names_share_a_weight(tmp_path):
    lines = [f"{1 - 2 * (i % 2)} | name{i}" for i in range(600)]
    (tmp_path / "t.vw").write_text("\n".join(lines) + "\n")
    done("train", "--online", tmp_path / "t.vw", "-m", tmp_path / "m", "--bits", "10", "--quiet")
    found = lineal.load(tmp_path / "m").summary()
    slots = lineal.read(tmp_path / "t.vw", bits=10).X.tocsr().indices
    counts = np.bincount(slots)
    truth = float(np.mean(counts[slots] > 1))
    assert 0.3 < truth < 0.6
    assert found["share_of_collisions"] == pytest.approx(truth, abs=0.06)


# --- what is refused


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--passes", "3"), "standard input"),
        (("--holdout", "0.2"), "--holdout"),
        (("--alpha", "1"), "--alpha is for --model-type linear"),
        (("--growth", "2"), "adaptive"),
        (("--bits", "31"), "bits"),
        (("--model-type", "stagewise"), "--online"),
        (("--regression", "--classes", "1,2"), "--regression"),
        (("--tune", "--rate", "1"), "--rate"),
        (("--loss", "squared_hinge"), "loss"),
        (("--hold-out", "5"), "--hold-out 5"),
        (("--shuffle-buffer", "100"), "--shuffle-buffer 100 is for rows in random order: set --shuffle"),
        (("--random-state", "1"), "--random-state is the seed of --shuffle"),
        (("--label-sets", "--classes", "1,foo"), "numbers"),
    ],
)
def test_flags_that_cannot_be_honoured(tmp_path, flags, words):
    line = failed("train", "--online", "-", "-m", tmp_path / "m", "--format", "vw", *flags, input=b"1 | a\n")
    assert words in line
    assert not (tmp_path / "m").exists()


def test_flags_of_online_learning_are_for_it(files, tmp_path):
    assert "--online" in failed("train", files / "digits.svm", "-m", tmp_path / "m", "--regression")
    assert "online" in failed("train", files / "digits.svm", "-m", tmp_path / "m", "--rate", "1")


def test_malformed_lines_are_counted_named_and_bounded(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("1 | a\n-1 | b:oops\n1 | a\nno bar\n-1 | b\n")
    line = failed("train", "--online", path, "-m", tmp_path / "m")
    assert ":2:" in line
    assert not (tmp_path / "m").exists()
    result = run("train", "--online", path, "-m", tmp_path / "m", "--max-bad-lines", "2", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["bad_lines"] == 2
    assert json.loads(result.stdout)["examples"] == 3


def test_classes_are_numbers_or_texts(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n1,1\n2,x\n3,1\n")
    done("train", "--online", tmp_path / "t.csv", "-m", tmp_path / "m", "--quiet", "--classes", "1, x", "--label", "1")
    assert lineal.load(tmp_path / "m").classes.tolist() == ["1", "x"]


def test_one_class_and_none(tmp_path):
    (tmp_path / "one.vw").write_text("1 | a\n1 | b\n")
    (tmp_path / "none.vw").write_text("| a\n| b\n")
    done("train", "--online", tmp_path / "one.vw", "-m", tmp_path / "m", "--quiet")
    assert json.loads(done("evaluate", tmp_path / "m", tmp_path / "one.vw", "--json").stdout)["accuracy"] == 1.0
    for flags in ((), ("--regression",)):
        assert "no labels" in failed("train", "--online", tmp_path / "none.vw", "-m", tmp_path / "n", *flags)
    assert not (tmp_path / "n").exists()


def test_products_that_are_cut_are_said_in_one_line(tmp_path):
    (tmp_path / "t.vw").write_text("1 | a:1e20 b:1e20\n-1 | a:1e20 b:1e19\n" * 3)
    flags = ("--expansion", "quadratic", "--passes", "2", "--hold-out", "0", "--quiet")
    result = run("train", "--online", tmp_path / "t.vw", "-m", tmp_path / "m", *flags)
    assert result.exit_code == 0
    assert result.stderr.startswith("lineal: warning: 36 products")
    assert len(result.stderr.splitlines()) == 1


def test_namespaces_that_never_occur_are_named_once(tmp_path):
    (tmp_path / "t.vw").write_text("1 |u a |v b\n-1 |u b |v a\n" * 10)
    flags = ("--expansion", "quadratic", "--interactions", "u*zz", "--passes", "2", "--quiet")
    result = run("train", "--online", tmp_path / "t.vw", "-m", tmp_path / "m", *flags)
    assert result.stderr.count("'zz'") == 1
    assert result.stderr.startswith("lineal: warning:")


def test_an_empty_stream_leaves_nothing(tmp_path):
    assert "no examples" in failed("train", "--online", "-", "-m", tmp_path / "m", "--format", "vw", input=b"")
    assert not (tmp_path / "m").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_learns_from_what_a_waiting_pipe_has_given(files, tmp_path):
    text = (files / "train.vw").read_bytes()
    command = [sys.executable, "-m", "lineal", "train", "--online", "-", "-m", str(tmp_path / "m"), "--format", "vw"]
    for part in (text, text[:-20]):  # the last line may be cut
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(part)
        process.stdin.flush()
        waiting = Path(f"/proc/{process.pid}/task")
        while process.poll() is None and len(list(waiting.iterdir())) < 2:  # the thread that reads is there
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait()  # with standard input still open
        _, message = process.communicate()
        assert process.returncode == 130, message
        assert lineal.load(tmp_path / "m").learner.examples == part.count(b"\n")
        (tmp_path / "m").unlink()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_pipe_that_closes_early_and_an_interrupt_keep_the_model(files, tmp_path):
    text = (files / "train.vw").read_bytes()
    command = [sys.executable, "-m", "lineal", "train", "--online", "-", "-m", str(tmp_path / "m"), "--format", "vw"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.communicate(text[: len(text) // 2])  # the last line is cut, too
    assert process.returncode in (0, 2)
    cut = text[: len(text) // 2]
    cut = cut[: cut.rfind(b"\n") + 1]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.communicate(cut)
    assert process.returncode == 0
    assert lineal.load(tmp_path / "m").learner.examples == cut.count(b"\n")

    os.remove(tmp_path / "m")
    command += ["--block-bytes", "4096", "--verbose"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()
    assert process.stderr is not None
    assert b"average" in process.stderr.readline()
    process.stderr.readline()  # the first example is learned
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 130, message
    assert lineal.load(tmp_path / "m").learner.examples > 0


@pytest.mark.parametrize("passes", [1, 3])
def test_an_interrupted_run_says_one_loss(files, tmp_path, monkeypatch, passes):
    from lineal.online.trainer import Trainer

    fed, feed = 0, Trainer.feed

    def interrupted(self, block):
        nonlocal fed
        said, fed = feed(self, block), fed + 1
        if fed == 3 * passes:
            raise KeyboardInterrupt
        return said

    monkeypatch.setattr(Trainer, "feed", interrupted)
    result = run(
        "train", "--online", files / "train.vw", "-m", tmp_path / "m", "--block-bytes", "40000", "--history",
        tmp_path / "h.json", "--passes", passes, *(["--hold-out", 5] if passes > 1 else []),
    )  # fmt: skip
    assert result.exit_code == 130
    told = float(result.stderr.split("progressive loss ")[1].split(";")[0])
    shown = float(result.stdout.split("progressive loss: ")[1].split()[0])
    assert told == shown
    if passes == 1:
        last = json.loads((tmp_path / "h.json").read_text())[-1]
        assert last["average_loss"] == pytest.approx(told, rel=1e-5)
        assert last["examples"] == float(result.stdout.split("examples: ")[1].split()[0])


def test_an_interrupt_before_the_first_example_leaves_nothing(files, tmp_path, monkeypatch):
    def interrupted(self, block):
        raise KeyboardInterrupt

    monkeypatch.setattr("lineal.online.trainer.Trainer.feed", interrupted)
    result = run("train", "--online", files / "train.vw", "-m", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (130, "lineal: interrupted\n")
    assert not (tmp_path / "m").exists()


def test_a_warning_is_one_line(tmp_path):
    (tmp_path / "a.vw").write_text("1 |a x |b y\n-1 |a y |b x\n" * 3)
    (tmp_path / "b.vw").write_text("1 |a x\n-1 |a y\n")
    options = ("--expansion", "quadratic", "--interactions", "a*b", "--quiet")
    done("train", "--online", tmp_path / "a.vw", "-m", tmp_path / "m", *options)
    for command in ("predict", "evaluate"):
        (line,) = done(command, tmp_path / "m", tmp_path / "b.vw").stderr.splitlines()
        assert line.startswith("lineal: warning: ")
        assert "has no namespace 'b'" in line


def test_several_learners(files, tmp_path):
    line = [
        "train",
        "--online",
        files / "digits.svm",
        "-m",
        tmp_path / "m",
        "--learners",
        "3",
        "--passes",
        "2",
        "--json",
    ]
    result = json.loads(done(*line).stdout)
    assert (result["learners"], result["examples"], result["passes"]) == (3, 2800, 2)
    assert sorted({row["pass"] for row in result["history"]}) == [1.0, 2.0]
    assert lineal.load(tmp_path / "m").learner.options.learners == 3
    shown = done("train", "--online", files / "digits.svm", "-m", tmp_path / "n", "--learners", "2", "--verbose")
    assert "learners" in shown.stdout
    assert "average" in shown.stderr
    again = done("train", "--online", files / "digits.svm", "-m", tmp_path / "n", "--resume", tmp_path / "n", "--json")
    assert json.loads(again.stdout)["examples"] == 2800
    text = (files / "digits.svm").read_bytes()
    assert "can be read once" in failed("train", "--online", "-", "-m", tmp_path / "p", "--learners", "2", input=text)
    said = failed("train", "--online", files / "digits.svm", "-m", tmp_path / "n", "--learners", "2", "--resume",
                  tmp_path / "n")  # fmt: skip
    assert "leave out --learners" in said
    (tmp_path / "few.svm").write_text("1 1:1\n2 1:2\n")
    assert "too few lines for 5" in failed("train", "--online", tmp_path / "few.svm", "-m", tmp_path / "p",
                                           "--learners", "5")  # fmt: skip


@pytest.mark.slow
def test_learners_on_worker_processes(files, tmp_path):
    pytest.importorskip("distributed")
    line = ["train", "--online", files / "digits.svm", "--learners", "2", "--passes", "2", "--quiet", "-m"]
    done(*line, tmp_path / "threads")
    for workers in ("1", "2"):
        done(*line, tmp_path / workers, "--workers", workers)
        np.testing.assert_array_equal(
            lineal.load(tmp_path / workers).learner.weights(), lineal.load(tmp_path / "threads").learner.weights()
        )
    result = done(*line[:3], "--passes", "2", "--quiet", "-m", tmp_path / "m", "--workers", "2")  # and no --learners
    assert "note: the rows are shared by 2 learners, one per worker" in result.stderr
    np.testing.assert_array_equal(
        lineal.load(tmp_path / "m").learner.weights(), lineal.load(tmp_path / "threads").learner.weights()
    )


@pytest.mark.parametrize(
    ("flags", "workers", "learners", "said"),
    [
        (("--workers", "3"), 3, 3, "shared by 3 learners"),
        (("--scheduler", "tcp://127.0.0.1:8786"), 4, 4, "shared by 4 learners"),
        (("--scheduler", "tcp://127.0.0.1:8786"), 0, 1, "one learner uses one worker"),
        (("--workers", "3", "--learners", "2"), 3, 2, ""),
        (("--workers", "3", "--learners", "1"), 3, 1, "one learner uses one worker"),
        (("--workers", "1"), 1, 1, ""),
        (("--learners", "2"), 0, 2, ""),
    ],
)
def test_every_worker_has_a_learner(files, tmp_path, monkeypatch, flags, workers, learners, said):
    seen = []
    monkeypatch.setattr("lineal.cli.train.cluster_of", lambda cluster: nullcontext(workers))
    monkeypatch.setattr("lineal.cli.online.train_online", lambda request, options, reading: seen.append(options))
    result = done("train", "--online", files / "digits.svm", "-m", tmp_path / "m", *flags)
    assert [options.learners for options in seen] == [learners]
    assert said in result.stderr
    assert ("note" in result.stderr) == bool(said)


def test_resume_names_the_flag_of_the_cluster(files, tmp_path):
    done("train", "--online", files / "train.vw", "-m", tmp_path / "m", "--quiet")
    resume = ("train", "--online", files / "train.vw", "-m", tmp_path / "m", "--resume", tmp_path / "m")
    message = failed(*resume, "--checkpoint", tmp_path / "c", "--workers", "2")
    assert message.endswith("leave out --workers")


@pytest.mark.parametrize("flags", [(), ("--levels", "hash")])
def test_tables_with_text_from_files_and_pipes(flags, tmp_path):
    """Words are learned from in one pass if they are hashed, else in two; a pipe gives the same model as a file."""
    source = np.random.default_rng(0)
    plain, good, bad = "the a day report people city work time".split(), ["great", "fine"], ["awful", "sad"]  # noqa: SIM905
    rows = tmp_path / "t.jsonl"
    with open(rows, "w") as file:
        for number in range(1500):
            label = number % 2
            words = [*source.choice(plain, 6), source.choice(good if label else bad)]
            file.write(json.dumps({"doc": {"body": " ".join(source.permutation(words))}, "label": label}) + "\n")
    given = ("--text", "doc.body", *flags)
    result = json.loads(done("train", "--online", rows, "-m", tmp_path / "m", "--json", *given).stdout)
    assert result["progressive_loss"] < 0.3
    piped = ("train", "--online", "-", "--format", "jsonl", "-m", tmp_path / "piped", "--quiet", *given)
    done(*piped, input=rows.read_bytes())
    assert json.loads(done("evaluate", tmp_path / "piped", rows, "--json").stdout)["accuracy"] > 0.98
    scores = [done("predict", tmp_path / name, rows, "--scores").stdout for name in ("m", "piped")]
    assert scores[0] == scores[1]
    again = ("train", "--online", rows, "-m", tmp_path / "m", "--resume", tmp_path / "m", "--json")
    assert json.loads(done(*again).stdout)["examples"] == 3000
