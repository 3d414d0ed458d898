"""Files that change, disagree or do not fit: errors that name them, and no crash."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from conftest import random_problem
from file_rows import AMPLE, cut_into, engine_of, problem_in, write_files
from scipy import sparse

from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.engine import file as file_engine
from lineal.engine.file import FileSource
from lineal.errors import DataError, OptionError
from lineal.linear.fit import fit_problem, prepare_source
from lineal.linear.options import TrainOptions
from lineal.system import memory

ROWS = 60


def rows(n: int = ROWS, d: int = 7, dtype=np.float64):
    X, y = random_problem(3, n=n, d=d)
    return X.astype(dtype), y


# --- files that change


def _cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def _empty(path):
    os.truncate(path, 0)


def _overwrite(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 3)
        file.write(b"\xff" * 64)


def _append(path):
    with open(path, "ab") as file:
        file.write(b"\0" * 64)


def _replace(path):
    X, y = rows(90)
    write_layout(Dataset(X, y), path)


CHANGES = (_cut, _empty, _overwrite, _append, _replace)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("which", "solver"), [(0, "newton"), (1, "newton"), (1, "dual_cd")])
def test_a_file_that_changes_during_a_fit_is_named(change, which, solver, tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 5)
    paths = write_files(tmp_path, X, y, parts=2)
    os.utime(paths[which], (1, 1))  # whatever the resolution of the clock, a change is later
    problem = problem_in(paths, TrainOptions(alpha=1e-3, tol=1e-12, solver=solver))

    def callback(snapshot):
        if snapshot.iteration == 1:
            change(paths[which])

    with pytest.raises(DataError, match=re.escape(paths[which])):
        fit_problem(problem, callbacks=(callback,))


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_before_a_fit_is_named(change, tmp_path):
    X, y = rows()
    paths = write_files(tmp_path, X, y, parts=2)
    os.utime(paths[1], (1, 1))
    source = FileSource(paths, AMPLE)
    change(paths[1])
    with pytest.raises(DataError, match=re.escape(paths[1])):
        prepare_source(source, TrainOptions())


def test_a_file_that_is_deleted_can_still_be_read(tmp_path):
    X, y = rows()
    paths = write_files(tmp_path, X, y, parts=2)
    problem = problem_in(paths, TrainOptions())
    os.unlink(paths[0])
    assert fit_problem(problem)[1].status == "converged"


@pytest.mark.parametrize("column", ["indices", "label"])
@pytest.mark.parametrize("kind", ["one label", "label sets"])
def test_changes_that_hide_their_time_harm_nobody(column, kind, tmp_path, monkeypatch):
    """Indices and labels that kernels trust are checked again with every pass."""
    X, y = rows()
    Y = np.eye(3, dtype=bool)[y] if kind == "label sets" else y.astype(np.int32)
    monkeypatch.setattr(file_engine, "LABEL_BYTES", 1 << 40)  # labels are read for every pass
    (path,) = write_files(tmp_path, X, Y)
    problem = problem_in([path], TrainOptions(solver="lbfgs", tol=1e-12))
    file = problem.objective.engine.source.files[0]
    vector, status = getattr(file, column), os.stat(path)
    with open(path, "r+b") as target:
        target.seek(vector._start)
        target.write(np.full(5, 1 << 30, vector.dtype).tobytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError, match=re.escape(path)):
        fit_problem(problem)


def test_solvers_that_need_rows_here_name_one_for_files(tmp_path):
    X, y = rows()
    (path,) = write_files(tmp_path, X, y)
    options = TrainOptions(loss="hinge", solver="fobos")
    with pytest.raises(OptionError, match="FileEngine holds them elsewhere: use solver='dual_cd'"):
        fit_problem(problem_in([path], options))


# --- files that disagree


def test_files_that_disagree_are_named_before_training(tmp_path):
    X, y = rows()
    good = tmp_path / "good.arrow"
    write_layout(Dataset(X, y, feature_names=list("abcdefg")), good)
    cases = {
        "columns": (Dataset(rows(d=6)[0], y, feature_names=list("abcdef")), r"number of columns \(6 and 7\)"),
        "layout": (Dataset(X.toarray(), y, feature_names=list("abcdefg")), "layout"),
        "names": (Dataset(X, y, feature_names=list("abcdefh")), "feature_names"),
        "weights": (Dataset(X, y, np.ones(ROWS), feature_names=list("abcdefg")), "weights"),
        "labels": (Dataset(X, None, feature_names=list("abcdefg")), "labels"),
        "kind": (Dataset(X, y.astype(str), feature_names=list("abcdefg")), "int, str"),
        "precision": (Dataset(X.astype(np.float32), y, feature_names=list("abcdefg")), "float32"),
        "sets": (
            Dataset(X, sparse.csr_array(np.eye(3, dtype=bool)[y]), None, list("abcdefg"), ["a", "b", "c"]),
            "class_names",
        ),
    }
    for what, (data, message) in cases.items():
        other = tmp_path / f"{what}.arrow"
        write_layout(data, other)
        with pytest.raises(DataError, match=message) as refusal:
            problem_in([str(good), str(other)], TrainOptions())
        assert str(other) in str(refusal.value), what
        assert str(good) in str(refusal.value) or what in ("kind", "precision"), what


def test_files_that_are_none(tmp_path):
    X, _ = rows()
    with pytest.raises(DataError, match="no files"):
        FileSource([])
    text = tmp_path / "rows.svm"
    text.write_text("1 1:2\n2 2:1\n" * 20)
    for path in (text, tmp_path, tmp_path / "nowhere.arrow"):
        with pytest.raises(DataError, match=re.escape(str(path))):
            FileSource([str(path)])
    write_layout(Dataset(X), tmp_path / "unlabelled.arrow")
    with pytest.raises(DataError, match=r"unlabelled.arrow.*no labels"):
        problem_in([str(tmp_path / "unlabelled.arrow")], TrainOptions())
    write_layout(Dataset(X, np.zeros(ROWS)), tmp_path / "one.arrow")
    with pytest.raises(DataError, match="class"):
        problem_in([str(tmp_path / "one.arrow")], TrainOptions())


def test_weights_that_cannot_be_used_are_named(tmp_path):
    X, y = rows()
    weights = np.ones(ROWS)
    weights[55] = -1.0
    paths = write_files(tmp_path, X, y, weights, parts=3)
    with pytest.raises(DataError, match=re.escape(paths[2])):
        problem_in(paths, TrainOptions())


def test_bad_rows_are_counted_over_all_files(tmp_path):
    X, y = rows()
    labels = y.astype(float)
    labels[50] = np.nan
    paths = write_files(tmp_path, X, labels, parts=3)
    with pytest.raises(DataError, match="row 50"):
        problem_in(paths, TrainOptions())


# --- budgets


@pytest.mark.parametrize("k", [2, 40])
def test_a_budget_that_is_too_small_says_how_much_is_needed(k, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "own_memory", lambda: 50_000_000)  # what it takes must not change between the tries
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random_array((4000, 3000), density=0.01, rng=rng))
    paths = write_files(tmp_path, X, np.arange(4000) % k)
    options = TrainOptions(loss="softmax", alpha=1e-2, solver="lbfgs")
    with pytest.raises(DataError, match="blocks of rows need") as refusal:
        problem_in(paths, options, 51_000_000)
    budget = memory.parse_size(str(refusal.value).partition("use at least ")[2])
    problem = problem_in(paths, options, budget)
    with pytest.raises(DataError, match="lbfgs needs") as refusal:
        fit_problem(problem)
    budget += memory.parse_size(str(refusal.value).partition("raise the budget by ")[2])
    assert fit_problem(problem_in(paths, options, budget))[1].status == "converged"
    assert budget < 50_000_000 + 4 * (8 << 20) + 8 * 8 * 24 * 3000 * k


def test_blocks_have_at_least_one_row_and_the_budget_knows(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 1 << 18))
    paths = write_files(tmp_path, X, np.arange(6) % 2)
    source = FileSource(paths, 64 << 20)
    assert source.block_bytes() == 8 << 18
    spans = list(source.spans(source.block_bytes()))
    assert [span.n for span in spans] == [1] * 6


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_steps_that_request_larger_blocks_get_them_from_each_file(layout, tmp_path, monkeypatch):
    X, y = rows()
    X = X.toarray() if layout == "dense" else X
    cut_into(monkeypatch, X, 10)
    engine = engine_of(problem_in(write_files(tmp_path, X, y, parts=2), TrainOptions()))
    blocks = [(block.first, block.n) for block in engine.blocks(at_least=15)]
    assert sum(n for _, n in blocks) == ROWS
    assert len(blocks) < len(engine.spans)
    assert all(n >= 15 or first + n in (20, ROWS) for first, n in blocks)
