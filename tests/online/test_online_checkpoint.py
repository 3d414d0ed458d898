"""Online learners that are killed and continue from their checkpoint: the same model as after one go."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cli_files import done, failed, write_iris
from scipy import sparse

import lineal
from lineal.errors import CheckpointError, OptionError
from lineal.online.fit import array_blocks, fit_online
from lineal.online.options import OnlineOptions
from lineal.online.row_digest import RowDigest
from lineal.online.trainer import CLASSES, NUMBERS, SETS
from lineal.problem.checkpoint import EVERY_VARIABLE


class Killed(Exception):
    """What a kill is in these tests: an exception before a block is read."""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Checkpoints after every block, and blocks of 16 rows."""
    monkeypatch.setenv(EVERY_VARIABLE, "0")
    monkeypatch.setattr("lineal.online.fit.CHUNK_ROWS", 16)


def rows(seed=0, n=200):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n, 12), density=0.4, rng=random, format="csr", dtype=np.float32)
    return X, (X @ random.normal(size=(12, 3)) + 0.1 * random.normal(size=(n, 3)))


def labels(scores, kind):
    if kind == NUMBERS:
        return scores[:, 0]
    if kind == SETS:
        return sparse.csr_array((scores > 0.3).astype(np.int8))
    return np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]


def after(count, X, y):
    """Blocks that end with a kill."""
    for number, block in enumerate(array_blocks(X, y)):
        if number == count:
            raise Killed
        yield block


def parts_of(trainer, run):
    own, tensors = trainer.model(run.status).to_parts()
    return own, {name: tensor.tolist() for name, tensor in tensors.items()}, run.history, run.message


LEARNERS = [
    (CLASSES, {}),
    (CLASSES, {"classes": None}),
    (CLASSES, {"classes": None, "passes": 3, "hold_out": 7, "patience": 1}),
    (CLASSES, {"rate": "tune", "passes": 2}),
    (CLASSES, {"expansion": "adaptive", "schedule": "doubling", "heuristic": "ssm"}),
    (NUMBERS, {"passes": 4, "patience": 1, "l2": 1e-4}),
    (NUMBERS, {"expansion": "adaptive", "schedule": "equal", "epochs": 4, "picky": True}),
    (NUMBERS, {"loss": "quantile", "tau": 0.3, "adaptive": False, "l1": 1e-3}),
    (SETS, {"expansion": "quadratic"}),
]


@pytest.mark.parametrize(("kind", "given"), LEARNERS, ids=lambda value: str(value))
def test_a_killed_learner_ends_with_the_same_model(tmp_path, kind, given):
    X, scores = rows()
    y, path = labels(scores, kind), str(tmp_path / "c")
    known = {CLASSES: np.unique(y) if kind == CLASSES else None, SETS: np.arange(3), NUMBERS: None}[kind]
    known = given.get("classes", known)
    options = OnlineOptions(bits=10, **{name: value for name, value in given.items() if name != "classes"})

    def fit(options, blocks=lambda: array_blocks(X, y)):
        return parts_of(*fit_online(blocks, options, kind, classes=known, n_examples=200, width=12))

    wanted, options = fit(options), replace(options, checkpoint=path)
    for count in (1, 5, 4, 12):  # of the first pass; the third kill comes while rows are skipped
        with pytest.raises(Killed):
            fit(options, lambda count=count: after(count, X, y))
        assert os.path.exists(path)
    assert fit(options) == wanted
    assert not os.path.exists(path)


def test_later_passes_continue_as_well(tmp_path):
    X, scores = rows()
    y, path = labels(scores, CLASSES), str(tmp_path / "c")
    options = OnlineOptions(bits=10, passes=3, hold_out=0)
    wanted = parts_of(*fit_online(lambda: array_blocks(X, y), options, CLASSES))
    options = replace(options, checkpoint=path)
    passes = iter([array_blocks(X, y), after(6, X, y)])
    with pytest.raises(Killed):
        fit_online(lambda: next(passes), options, CLASSES)
    assert parts_of(*fit_online(lambda: array_blocks(X, y), options, CLASSES)) == wanted


def test_other_blocks_are_the_same_rows(tmp_path, monkeypatch):
    X, scores = rows()
    y, path = labels(scores, SETS), str(tmp_path / "c")
    known = {"classes": np.arange(3), "width": 12}
    wanted = parts_of(*fit_online(lambda: array_blocks(X, y), OnlineOptions(bits=10), SETS, **known))
    options = OnlineOptions(bits=10, checkpoint=path)
    with pytest.raises(Killed):
        fit_online(lambda: after(6, X, y), options, SETS, **known)
    monkeypatch.setattr("lineal.online.fit.CHUNK_ROWS", 37)
    assert parts_of(*fit_online(lambda: array_blocks(X, y), options, SETS, **known)) == wanted


@pytest.mark.parametrize("change", ["label", "value", "order", "end"])
def test_other_rows_are_refused(tmp_path, change):
    X, scores = rows()
    y, options = labels(scores, CLASSES), OnlineOptions(bits=10, checkpoint=str(tmp_path / "c"))
    with pytest.raises(Killed):
        fit_online(lambda: after(6, X, y), options, CLASSES)
    X, y = X.copy(), y.copy()
    if change == "label":
        y[20] = "birch" if y[20] != "birch" else "ash"
    elif change == "value":
        X.data[5] += 1.0
    elif change == "order":
        order = np.roll(np.arange(90), 1)
        X, y = sparse.csr_array(sparse.vstack([X[order], X[90:]])), np.concatenate([y[order], y[90:]])
    else:
        X, y = X[:50], y[:50]
    with pytest.raises(CheckpointError, match="the first 96 rows are not those"):
        fit_online(lambda: array_blocks(X, y), options, CLASSES)


def test_other_options_are_refused_by_name(tmp_path):
    X, scores = rows()
    y, options = labels(scores, CLASSES), OnlineOptions(bits=10, checkpoint=str(tmp_path / "c"))
    with pytest.raises(Killed):
        fit_online(lambda: after(6, X, y), options, CLASSES)
    with pytest.raises(CheckpointError, match=r"l2 is 0\.0 there, 0\.1 here"):
        fit_online(lambda: array_blocks(X, y), replace(options, l2=0.1), CLASSES)
    with pytest.raises(CheckpointError, match="kind of labels is classes there, numbers here"):
        fit_online(lambda: array_blocks(X, scores[:, 0]), options, NUMBERS)
    with pytest.raises(OptionError, match="checkpoint with partial_fit: save the model"):
        lineal.OnlineClassifier(checkpoint="c").partial_fit(X, y)


def test_max_time_can_be_raised(tmp_path):
    X, scores = rows()
    y, path = labels(scores, CLASSES), str(tmp_path / "c")
    wanted = lineal.OnlineClassifier(bits=10).fit(X, y)
    with pytest.warns(match="max_time"):
        lineal.OnlineClassifier(bits=10, max_time=1e-9, checkpoint=path).fit(X, y)
    found = lineal.OnlineClassifier(bits=10, max_time=1e9, checkpoint=path).fit(X, y)
    assert (found.history_, os.path.exists(path)) == (wanted.history_, False)
    np.testing.assert_array_equal(found.decision_function(X), wanted.decision_function(X))


def test_an_interrupt_within_a_block_continues_there(tmp_path, monkeypatch):
    X, scores = rows()
    y, path = labels(scores, CLASSES), str(tmp_path / "c")
    wanted = parts_of(*fit_online(lambda: array_blocks(X, y), OnlineOptions(bits=10), CLASSES))
    from lineal.online.learner import Learner

    report = Learner.report

    def interrupted(self):
        report(self)
        if self.examples == 64:
            raise KeyboardInterrupt

    monkeypatch.setattr("lineal.online.fit.CHUNK_ROWS", 50)  # the report after 64 rows comes within a block
    monkeypatch.setattr(Learner, "report", interrupted)
    options = OnlineOptions(bits=10, checkpoint=path)
    assert fit_online(lambda: array_blocks(X, y), options, CLASSES)[1].status == "interrupted"
    monkeypatch.setattr(Learner, "report", report)
    assert parts_of(*fit_online(lambda: array_blocks(X, y), options, CLASSES)) == wanted


def test_the_digest_depends_on_rows_and_not_on_blocks():
    X, scores = rows()
    for y in (labels(scores, CLASSES), labels(scores, NUMBERS), labels(scores, SETS)):
        whole, parts = RowDigest(), RowDigest()
        whole.add(X, y, None)
        for first in range(0, 200, 30):
            parts.add(X[first : first + 30], y[first : first + 30], None)
        assert whole.equals(parts)
    dense = RowDigest()
    dense.add(X.toarray(), y, np.ones(200))
    assert not dense.equals(whole)


def test_a_file_from_the_command_line(tmp_path):
    rows = write_iris(tmp_path / "a.csv")
    line = ["train", "--online", rows, "--passes", "2", "--quiet", "--block-bytes", "1000"]
    done(*line, "-m", tmp_path / "wanted")
    path = tmp_path / "c"
    result = done(*line, "-m", tmp_path / "m", "--checkpoint", path, "--max-time", "1e-9")
    assert "--max-time" in result.stderr
    assert path.exists()
    assert "--bits" not in failed(*line, "-m", tmp_path / "m", "--checkpoint", path, "--l2", "0.5")
    result = done(*line, "-m", tmp_path / "m", "--checkpoint", path)
    assert "continuing from" in result.stderr
    assert not path.exists()
    found, wanted = (lineal.load(tmp_path / name).to_parts()[1] for name in ("m", "wanted"))
    for name, tensor in wanted.items():
        np.testing.assert_array_equal(found[name], tensor)


def test_the_time_of_reading_the_first_block_counts(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,label\n" + "1,0\n2,1\n" * 20)
    model = lineal.OnlineClassifier(bits=10, max_time=1000.0)
    assert model.fit(tmp_path / "t.csv").status_ == "one pass"
    began = SimpleNamespace(monotonic=lambda: time.monotonic() - 2000.0)
    monkeypatch.setattr("lineal.online.from_files.time", began)
    with pytest.warns(match="max_time"):
        assert model.fit(tmp_path / "t.csv").status_ == "max_time"
