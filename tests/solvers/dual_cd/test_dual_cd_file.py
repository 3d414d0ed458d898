"""Dual coordinate descent over files: certified, the same minimum as in memory, bounded and reproducible."""

from __future__ import annotations

import errno
import gc
import os
import signal

import numpy as np
import pytest
from conftest import random_problem
from file_rows import AMPLE, cut_into, engine_of, limit_scratch, problem_in, write_files
from scipy import sparse

from lineal import losses, solvers
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.engine import file as file_engine
from lineal.engine.file import FileSource
from lineal.errors import DataError
from lineal.linear.fit import fit_problem, prepare, prepare_source
from lineal.linear.options import TrainOptions
from lineal.problem.checkpoint import Checkpoint
from lineal.problem.minimise import minimise
from lineal.problem.monitor import Monitor
from lineal.solvers.dual_cd import dual_cd, holders
from lineal.solvers.dual_cd.holders import StreamHolder
from lineal.solvers.lbfgs import lbfgs

DUAL = ("crammer_singer", "hinge", "logistic", "softmax", "squared_hinge")

ROWS = 120


def rows(k: int = 4, dtype=np.float64, n: int = ROWS):
    X, y = random_problem(3, n=n, d=9, k=k)
    return X.astype(dtype), y


def solved(problem, **keywords):
    return dual_cd.solve(problem.objective, **{"tol": 1e-6, "max_iter": 20_000, **keywords})


def assert_same_bits(one, other) -> None:
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.intercept, other.intercept)
    assert one.certificate == other.certificate


@pytest.mark.parametrize("blocks", [pytest.param(1, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", DUAL)
def test_the_gap_is_met_and_true(loss, fit_intercept, blocks, tmp_path, monkeypatch):
    X, y = rows()
    weights = np.random.default_rng(0).uniform(0.2, 2.0, ROWS)
    weights[::11] = 0.0
    options = TrainOptions(loss=loss, alpha=0.02, fit_intercept=fit_intercept)
    cut_into(monkeypatch, X, blocks)
    problem = problem_in(write_files(tmp_path, X, y, weights, parts=2), options)
    found = solved(problem)
    assert found.status == "converged"
    assert found.certificate.kind == "gap"
    assert found.certificate.value <= 1e-6
    local = prepare(X, y, options, sample_weight=weights)
    theta = local.objective.theta_of(found)
    assert local.objective.value(theta) == pytest.approx(found.certificate.primal, rel=1e-12)
    points = np.asarray(found.dual_point)
    assert points.shape == found.dual_point.shape == (ROWS, found.weights.shape[1])
    again = local.objective.certificate(theta, 0.0, points)
    assert again.dual == pytest.approx(found.certificate.dual, rel=1e-12)
    wanted = solved(local)
    assert wanted.certificate.dual <= found.certificate.primal * (1 + 1e-12)
    assert found.certificate.dual <= wanted.certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize("layout", [pytest.param("dense", marks=pytest.mark.slow), "csr"])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared_hinge"])
def test_agrees_with_local_fits_and_lbfgs(loss, layout, tmp_path, monkeypatch):
    X, y = rows()
    X = np.ascontiguousarray(X.toarray()) if layout == "dense" else X
    options = TrainOptions(loss=loss, alpha=0.02, class_weight="balanced")
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y, parts=3), options)
    assert len(engine_of(problem).spans) >= 7
    found = solved(problem, tol=1e-11)
    for wanted in (
        solved(prepare(X, y, options), tol=1e-11),
        lbfgs.solve(problem.objective, tol=1e-12, max_iter=20_000),
    ):
        assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
@pytest.mark.parametrize("loss", DUAL)
def test_rows_that_fit_into_one_block_are_visited_like_local_rows(loss, dtype, fit_intercept, tmp_path):
    X, y = rows(dtype=dtype)
    options = TrainOptions(loss=loss, alpha=0.02, fit_intercept=fit_intercept)
    given = {"tol": 1e-12, "max_iter": 12, "shrinking": False}
    found = solved(problem_in(write_files(tmp_path, X, y), options), inner_passes=1, **given)
    wanted = solved(prepare(X, y, options), **given)
    if fit_intercept:  # β comes from the moments of the columns, not from the rows
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-5 if dtype == np.float32 else 1e-12)
    else:
        assert_same_bits(found, wanted)
        np.testing.assert_array_equal(np.asarray(found.dual_point), np.asarray(wanted.dual_point))


def test_many_classes(tmp_path, monkeypatch):
    X, y = rows(k=40, n=240)
    options = TrainOptions(loss="crammer_singer", alpha=0.02)
    cut_into(monkeypatch, X, 5)
    found = solved(problem_in(write_files(tmp_path, X, y, parts=2), options), tol=1e-5)
    wanted = solved(prepare(X, y, options), tol=1e-5)
    assert found.status == wanted.status == "converged"
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-5)


@pytest.mark.parametrize("is_kept", [True, False])
def test_label_sets_of_which_some_are_empty(is_kept, tmp_path, monkeypatch):
    X, _ = rows()
    Y = np.random.default_rng(2).random((ROWS, 4)) < 0.3
    Y[5:30] = False
    options = TrainOptions(loss="squared_hinge", alpha=0.05)
    cut_into(monkeypatch, X, 7)
    if not is_kept:
        monkeypatch.setattr(file_engine, "LABEL_BYTES", 1 << 40)
    found = solved(problem_in(write_files(tmp_path, X, Y, parts=2), options), tol=1e-9)
    wanted = solved(prepare(X, sparse.csr_array(Y), options), tol=1e-9)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-9)


@pytest.mark.parametrize("loss", ["hinge", pytest.param("softmax", marks=pytest.mark.slow)])
def test_empty_rows_and_factors_of_the_penalty(loss, tmp_path, monkeypatch):
    X, y = rows()
    X = X.toarray()
    X[40:70] = 0.0
    X = sparse.csr_array(X)
    factors = np.random.default_rng(1).uniform(0.5, 2.0, 9)
    options = TrainOptions(loss=loss, alpha=0.02, penalty_factors=factors)
    cut_into(monkeypatch, X, 7)
    found = solved(problem_in(write_files(tmp_path, X, y), options))
    wanted = solved(prepare(X, y, options))
    assert found.status == wanted.status == "converged"
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-6)


@pytest.mark.parametrize("inner_passes", [1, 4])
def test_the_seed_decides_and_threads_do_not(inner_passes, tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="softmax", alpha=0.02))
    given = {"max_iter": 6, "tol": 1e-12, "inner_passes": inner_passes}
    one, other = solved(problem, seed=1, **given), solved(problem, seed=2, **given)
    assert not np.array_equal(one.weights, other.weights)
    for repeat in range(12):
        assert_same_bits(solved(problem, seed=1, n_jobs=1 + repeat % 2, **given), one)


# --- loads


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("parts", [1, 3])
def test_every_iteration_loads_each_row_once_and_no_more_than_a_block(layout, parts, tmp_path, monkeypatch):
    X, y = rows(n=400)
    X = np.ascontiguousarray(X.toarray()) if layout == "dense" else X
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y, np.arange(1.0, 401.0), parts=parts), TrainOptions())
    engine = engine_of(problem)
    holder = StreamHolder(problem.objective, [(0, engine.n_columns)], 0)
    assert not holder.is_one_set
    dense = X if layout == "dense" else X.toarray()
    largest = engine.load.nbytes
    orders = []
    for _ in range(2):
        order, seen = engine.loads([holder.runs[number] for number in holder.order]), []
        loads = engine.loads(holder.runs) if not orders else order
        for load, block in zip(loads, engine.visit(loads, lambda block: block)):
            numbers = np.concatenate([np.arange(run.first, run.first + run.n) for run in load])
            seen.extend(numbers.tolist())
            assert sum(engine.source.span_bytes(run) for run in load) <= largest
            assert block.n == len(numbers)
            np.testing.assert_allclose(block.weights, np.arange(1.0, 401.0)[numbers] / (400 * 401 / 2), rtol=1e-14)
            np.testing.assert_array_equal(block.targets.columns, y[numbers])
            values = block.X.layout
            found = values.values if layout == "dense" else sparse.csr_array(
                (values.data, values.indices, values.indptr), shape=block.X.shape
            ).toarray()  # fmt: skip
            np.testing.assert_array_equal(found, dense[numbers])
        assert sorted(seen) == list(range(400))
        orders.append(seen)
        list(holder.visits())
    assert orders[0] == list(range(400))
    assert orders[0] != orders[1]
    assert len(engine.loads(holder.runs)) >= 7
    assert np.mean([len(load) for load in engine.loads(holder.runs)]) > 4


def test_files_with_indices_of_different_widths(tmp_path, monkeypatch):
    X, y = rows()
    paths = []
    for number, (part, width) in enumerate(((slice(0, 50), np.int32), (slice(50, ROWS), np.int64))):
        some = X[part]
        some.indices, some.indptr = some.indices.astype(width), some.indptr.astype(width)
        paths.append(str(tmp_path / f"{number}.arrow"))
        write_layout(Dataset(some, y[part]), paths[-1])
    options = TrainOptions(loss="logistic", alpha=0.02)
    cut_into(monkeypatch, X, 5)
    problem = problem_in(paths, options)
    assert [file.indices.dtype.itemsize for file in problem.objective.engine.source.files] == [4, 8]
    found, wanted = (solved(each, tol=1e-9) for each in (problem, prepare(X, y, options)))
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=2e-9)


def test_sorted_rows_need_hardly_more_iterations(tmp_path, monkeypatch):
    """Runs of random places make up each block, so that the order of the file matters little."""
    X, y = rows(n=600)
    cut_into(monkeypatch, X, 8)
    counts = []
    for number, order in enumerate((np.random.default_rng(0).permutation(600), np.argsort(y, kind="stable"))):
        (tmp_path / str(number)).mkdir()
        paths = write_files(tmp_path / str(number), X[order], y[order])
        found = solved(problem_in(paths, TrainOptions(loss="squared_hinge", alpha=0.01)), tol=1e-4)
        assert found.status == "converged"
        counts.append(len(found.history) - 1)
    assert counts[1] <= 2 * counts[0] + 4


def test_inner_passes_save_iterations(tmp_path, monkeypatch):
    X, y = rows(n=400)
    cut_into(monkeypatch, X, 8)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="hinge", alpha=0.01))
    one, default = (len(solved(problem, tol=1e-4, **given).history) for given in ({"inner_passes": 1}, {}))
    assert default < one


# --- dual variables


@pytest.mark.parametrize("loss", ["squared_hinge", pytest.param("crammer_singer", marks=pytest.mark.slow)])
def test_dual_variables_in_a_file_give_the_same_bits(loss, tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    paths, answers = write_files(tmp_path, X, y), []
    for room in (1 << 30, 900, 0):
        problem = problem_in(paths, TrainOptions(loss=loss, alpha=0.02))
        scratch = limit_scratch(problem, room)
        answers.append(solved(problem, tol=1e-4))
        assert (scratch.file_bytes > 0) == (room < 1 << 30)
        assert scratch.file_bytes <= ROWS * 4 * 8  # each one has one place
        if answers[1:]:
            assert_same_bits(answers[-1], answers[0])
            np.testing.assert_array_equal(np.asarray(answers[-1].dual_point), np.asarray(answers[0].dual_point))
        for point in (answers[-1].dual_point,):
            np.testing.assert_array_equal(point[5:70], np.asarray(point)[5:70])
        answers[-1] = answers[-1] if len(answers) == 1 else None
        del point
        gc.collect()
        assert scratch.left == room or len(answers) == 1  # nothing is kept for a solution that is gone


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="hinge", alpha=0.02))
    limit_scratch(problem, 0)

    def full(number, data, start):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DataError, match=r"No space left.*raise memory_budget"):
        solved(problem)


@pytest.mark.slow
@pytest.mark.parametrize("loss", DUAL)
def test_starts_from_solutions_and_weights(loss, tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y, parts=2), TrainOptions(loss=loss, alpha=0.02))
    first = solved(problem, tol=1e-5)
    before = np.asarray(first.dual_point)
    again = solved(problem, tol=1.1e-5, start=first)
    assert again.status == "converged"
    assert len(again.history) <= 2
    near = dual_cd.solve(problem.objective.with_alpha(0.018), tol=1e-5, start=first, max_iter=20_000)
    assert near.status == "converged"
    np.testing.assert_array_equal(np.asarray(first.dual_point), before)  # a later fit does not change them
    if losses.get(loss).is_smooth:
        best = lbfgs.solve(problem.objective, tol=1e-10)
        found = solved(problem, start=problem.objective.theta_of(best))
        assert len(found.history) <= 4


# --- endings, and which solver "auto" is


def test_endings(tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="hinge", alpha=1e-4))

    def interrupt(snapshot):
        if snapshot.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    endings = {
        "max_iter": {"max_iter": 3},
        "max_time": {"max_time": 1e-3},
        "stopped": {"callbacks": [lambda snapshot: snapshot.iteration == 2]},
        "interrupted": {"callbacks": [interrupt]},
    }
    for status, given in endings.items():
        found = solved(problem, tol=1e-12, **given)
        assert found.status == status
        assert np.isfinite(found.certificate.value)
        assert found.certificate.dual <= found.certificate.primal


def test_time_that_runs_out_within_an_iteration_leaves_a_valid_solution(tmp_path, monkeypatch):
    """The weights belong to the dual variables of all blocks, those that were visited and those that were not."""
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="squared_hinge", alpha=0.02))
    calls = 0

    def must_end(self, iteration):
        nonlocal calls
        calls += 1
        return "max_time" if calls > 12 else None

    monkeypatch.setattr(Monitor, "must_end", must_end)
    found = solved(problem, tol=1e-12)
    assert found.status == "max_time"
    assert len(found.history) == 3  # the start, one iteration, and the one that was cut short
    points, local = np.asarray(found.dual_point), prepare(X, y, problem.options)
    engine = local.objective.engine
    assert 0 < np.count_nonzero(points.any(axis=1)) <= ROWS
    expected = -(X.T @ (points * engine.weights[:, None])) / 0.02
    mean = (X.T @ engine.weights)[:, None]
    balance = (points * engine.weights[:, None]).sum(axis=0)[None, :] / 0.02
    np.testing.assert_allclose(found.weights, expected + mean * balance, atol=1e-9)


def test_time_that_runs_out_within_an_iteration_changes_no_continuation(tmp_path, monkeypatch):
    X, y = rows()
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions(loss="squared_hinge", alpha=0.02))
    wanted, calls = minimise(dual_cd.solve, problem.objective, tol=1e-8), []

    def must_end(self, iteration):
        calls.append(iteration)
        return "max_time" if len(calls) > 2 else None

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "must_end", must_end)
        short = minimise(dual_cd.solve, problem.objective, tol=1e-8, checkpoint=Checkpoint(tmp_path / "c"))
    assert short.status == "max_time"
    found = minimise(dual_cd.solve, problem.objective, tol=1e-8, checkpoint=Checkpoint(tmp_path / "c"))
    assert_same_bits(found, wanted)


@pytest.mark.parametrize(
    ("loss", "alpha", "tol", "name"),
    [
        ("squared_hinge", 1e-3, 1e-3, "dual_cd"),
        ("hinge", 1e-3, 1e-3, "dual_cd"),
        ("softmax", 1e-3, 1e-3, "dual_cd"),
        ("softmax", 1e-3, 1e-9, "lbfgs"),
        ("squared_hinge", 1e-9, 1e-3, "lbfgs"),
    ],
)
def test_auto(loss, alpha, tol, name, tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random_array((300, 2000), density=0.01, rng=rng))
    y = np.arange(300) % 3
    options = TrainOptions(loss=loss, alpha=alpha, tol=tol)
    problem = problem_in(write_files(tmp_path, X, y), options)
    assert solvers.pick("auto", problem.objective, tol).name == name
    assert solvers.pick("auto", prepare(X, y, options).objective, tol).name == name


def test_models_are_trained_on_files_by_auto(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random_array((300, 2000), density=0.02, rng=rng))
    y = np.array(["a", "b", "c"])[np.asarray(X[:, :900].sum(axis=1) > X[:, 900:].sum(axis=1)).astype(int)]
    cut_into(monkeypatch, X, 6)
    options = TrainOptions(loss="hinge", alpha=1e-3, tol=1e-4)
    model, solution = fit_problem(prepare_source(FileSource(write_files(tmp_path, X, y), AMPLE), options))
    assert solution.status == "converged"
    local, _ = fit_problem(prepare(X, y, options))
    assert np.mean(model.predict(X) == local.predict(X)) > 0.99


def test_runs_are_as_many_as_said(tmp_path, monkeypatch):
    X, y = rows(n=400)
    cut_into(monkeypatch, X, 4)
    engine = engine_of(problem_in(write_files(tmp_path, X, y), TrainOptions()))
    assert len(engine.runs(holders.RUNS_PER_LOAD)) >= 4 * holders.RUNS_PER_LOAD // 2
    assert [(run.first, run.n) for run in engine.runs(1)] == [(span.first, span.n) for span in engine.spans]
