"""Rows in files larger than memory: the same answers as from rows in memory, whatever is kept between passes."""

from __future__ import annotations

import errno
import gc
import os
import warnings

import numpy as np
import pytest
from conftest import random_problem
from file_rows import cut_into, engine_of, limit_scratch, problem_in, write_files
from scipy import sparse

from lineal import losses, penalties, solvers
from lineal.engine import file as file_engine
from lineal.engine.file import FileEngine
from lineal.engine.scratch import Scratch
from lineal.errors import OptionError
from lineal.linear.fit import fit_problem, prepare
from lineal.linear.options import TrainOptions
from lineal.models.file import load

#: Solvers that need nothing of the rows but sums.
ANYWHERE = ("lbfgs", "newton", "least_squares", "fista", "sparsa")

ROWS = 60


def rows(layout: str, dtype, seed: int = 3, k: int = 3):
    X, y = random_problem(seed, n=ROWS, k=k)
    X = X.astype(dtype)
    return (np.ascontiguousarray(X.toarray()) if layout == "dense" else sparse.csr_array(X)), y


def label_sets(k: int = 4) -> np.ndarray:
    Y = np.random.default_rng(5).random((ROWS, k)) < 0.4
    Y[:k] = np.eye(k, dtype=bool)
    Y[k] = False
    return Y


def combinations():
    """Every solver with every loss, and the penalties that it takes."""
    for name in ANYWHERE:
        for loss in losses.names():
            for penalty in ("l2", "l1", "sparse_group"):
                try:
                    solvers.get(name).check(losses.get(loss), penalties.get(penalty))
                except OptionError:
                    continue
                is_quick = loss in ("softmax", "squared_hinge") and penalty in ("l2", "l1/l2")
                yield pytest.param(name, loss, penalty, marks=() if is_quick else pytest.mark.slow)


def minimum(problem, name: str, **keywords):
    return solvers.get(name)(problem.objective, **{"tol": 1e-30, "max_iter": 4000, **keywords})


def assert_same(found, wanted, loss: str) -> None:
    assert max(found.certificate.value, wanted.certificate.value) < 1e-10
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=0, atol=1e-9)
    # what a loss that compares scores leaves open: a number that all intercepts have in common
    common = [b.mean() if losses.get(loss).is_direct else 0.0 for b in (found.intercept, wanted.intercept)]
    np.testing.assert_allclose(found.intercept - common[0], wanted.intercept - common[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "loss", "penalty"), list(combinations()))
def test_solutions_are_those_of_local_rows(name, loss, penalty, tmp_path, monkeypatch):
    X, y = rows("csr", np.float64)
    if loss == "label_ranking":
        y = label_sets()
    weights = np.random.default_rng(0).random(ROWS) + 0.1
    options = TrainOptions(loss=loss, penalty=penalty, alpha=0.03)
    cut_into(monkeypatch, X, 7)
    found = problem_in(write_files(tmp_path, X, y, weights, parts=2), options)
    assert len(engine_of(found).spans) >= 7
    wanted = prepare(X, y, options, sample_weight=weights)
    assert_same(minimum(found, name), minimum(wanted, name), loss)


@pytest.mark.parametrize("blocks", [1, pytest.param(3, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("layout", [pytest.param("dense", marks=pytest.mark.slow), "csr"])
def test_any_blocks_of_any_files_give_the_same_solution(layout, parts, blocks, tmp_path, monkeypatch):
    X, y = rows(layout, np.float64)
    options = TrainOptions(loss="softmax", alpha=0.03, class_weight="balanced")
    cut_into(monkeypatch, X, blocks)
    found = problem_in(write_files(tmp_path, X, y, parts=parts), options)
    spans = engine_of(found).spans
    assert len(spans) >= max(blocks, parts)
    assert spans[0].first == 0
    assert [span.first for span in spans[1:]] == np.cumsum([span.n for span in spans])[:-1].tolist()
    for name in ("newton", "fista"):
        assert_same(minimum(found, name), minimum(prepare(X, y, options), name), "softmax")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ANYWHERE)
def test_float32(name, layout, tmp_path, monkeypatch):
    X, y = rows(layout, np.float32)
    options = TrainOptions(loss="logistic", alpha=0.03)
    cut_into(monkeypatch, X, 7)
    found = problem_in(write_files(tmp_path, X, y, parts=2), options)
    assert found.objective.engine.dtype == np.float32
    solutions = [minimum(problem, name, tol=1e-6) for problem in (found, prepare(X, y, options))]
    assert [solution.status for solution in solutions] == ["converged"] * 2
    assert {solution.weights.dtype for solution in solutions} == {np.dtype(np.float32)}
    assert solutions[0].certificate.primal == pytest.approx(solutions[1].certificate.primal, rel=2e-6)


LABELS = {
    "text": np.array(["rot", "grün", "schwarz-weiß"])[np.arange(ROWS) % 3],
    "two texts": np.array(["no", "yes"])[np.arange(ROWS) % 2],
    "whole numbers": np.array([-7, 2**40, 3])[np.arange(ROWS) % 3],
    "real numbers": np.array([0.5, 1.0, -2.25])[np.arange(ROWS) % 3],
    "booleans": np.arange(ROWS) % 3 == 0,
    "label sets": label_sets(),
}


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(kind, is_kept, tmp_path, monkeypatch):
    X, _ = rows("csr", np.float64)
    y, options = LABELS[kind], TrainOptions(loss="squared_hinge", alpha=0.03, solver="newton", tol=1e-10)
    cut_into(monkeypatch, X, 7)
    if not is_kept:
        monkeypatch.setattr(file_engine, "LABEL_BYTES", 1 << 40)
    names = {"class_names": ["a", "b", "c", "d"]} if kind == "label sets" else {}
    given = np.random.default_rng(1).random(ROWS)
    found = problem_in(write_files(tmp_path, X, y, given, parts=3, **names), options)
    model, solution = fit_problem(found)
    assert len(engine_of(found).labels) == (len(engine_of(found).spans) if is_kept else 0)
    wanted = prepare(X, y, options, sample_weight=given, **names)
    local, expected = fit_problem(wanted)
    assert solution.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-10)
    assert model.classes.tolist() == local.classes.tolist()
    assert model.classes.dtype.kind == local.classes.dtype.kind
    np.testing.assert_array_equal(model.predict(X), local.predict(X))
    assert found.encoded.n_rows == ROWS
    if kind != "label sets":
        np.testing.assert_array_equal(found.encoded.class_numbers, wanted.encoded.class_numbers)
    else:
        for field in ("columns", "starts"):
            np.testing.assert_array_equal(getattr(found.encoded.targets, field), getattr(wanted.encoded.targets, field))


def test_models_can_be_saved(tmp_path):
    X, y = rows("csr", np.float64)
    model, _ = fit_problem(problem_in(write_files(tmp_path, X, y), TrainOptions(alpha=0.1)))
    model.save(tmp_path / "m.lineal")
    np.testing.assert_array_equal(load(tmp_path / "m.lineal").weights, model.weights)


# --- what is kept between passes


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("newton", "l2"), ("lbfgs", "l2"),
        *(pytest.param(name, "l1", marks=pytest.mark.slow) for name in ("fista", "sparsa")),
    ],
)  # fmt: skip
def test_state_in_a_file_gives_the_same_bits(name, penalty, tmp_path, monkeypatch):
    X, y = rows("csr", np.float64)
    options = TrainOptions(loss="softmax", penalty=penalty, alpha=0.01)
    cut_into(monkeypatch, X, 7)
    paths, answers = write_files(tmp_path, X, y), []
    for room in (1 << 30, 400, 0):
        problem = problem_in(paths, options)
        scratch = limit_scratch(problem, room)
        answers.append(minimum(problem, name, tol=1e-8))
        assert (scratch.file_bytes > 0) == (room < 1 << 30)
        gc.collect()
        assert scratch.left == room  # all state is released with its handles
    for other in answers[1:]:
        np.testing.assert_array_equal(other.weights, answers[0].weights)
        assert other.certificate == answers[0].certificate


def _full(number, data, start):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("writes", [0, 9])
@pytest.mark.parametrize("name", ["newton", "sparsa"])
def test_a_full_disk_changes_no_solution(name, writes, tmp_path, monkeypatch):
    X, y = rows("csr", np.float64)
    options = TrainOptions(loss="softmax", alpha=0.01)
    cut_into(monkeypatch, X, 7)
    paths, real, left = write_files(tmp_path, X, y), os.pwrite, writes
    wanted = minimum(problem_in(paths, options), name, tol=1e-8)

    def until_full(number, data, start):
        nonlocal left
        left -= 1
        return real(number, data, start) if left >= 0 else _full(number, data, start)

    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(os, "pwrite", until_full)
    problem = problem_in(paths, options)
    limit_scratch(problem, 0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = minimum(problem, name, tol=1e-8)
    assert [warning.category for warning in told] == [RuntimeWarning]
    assert str(folder) in str(told[0].message)
    assert "memory_budget" in str(told[0].message)
    assert found.status == "converged"
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=0, atol=1e-9)  # scores are no longer updated ones
    assert list(folder.iterdir()) == []


def test_a_folder_for_temporary_files_that_does_not_exist_is_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.warns(RuntimeWarning, match="nowhere"):
        assert Scratch(0).put({"Z": np.ones(3)}) is None


def test_no_folder_for_temporary_files_at_all_is_a_full_disk(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    with pytest.warns(RuntimeWarning, match="No usable temporary directory"):
        assert Scratch(0).put({"Z": np.ones(3)}) is None


def test_scratch_uses_the_room_of_what_was_dropped():
    scratch = Scratch(100)
    pieces = [
        {"Z": np.full((7, 2), float(number)), "empty": np.empty((0, 3), np.int8), "sum": np.array(3.5)}
        for number in range(5)
    ]
    for _ in range(3):
        kept = [scratch.put(piece) for piece in pieces]
        for entry, piece in zip(kept, pieces):
            for name, array in scratch.get(entry).items():
                np.testing.assert_array_equal(array, piece[name])
                assert (array.dtype, array.shape) == (piece[name].dtype, piece[name].shape)
        assert scratch.file_bytes == 5 * (7 * 2 * 8 + 8)
        for entry in kept:
            scratch.drop(entry)
    assert scratch.left == 100


def _filled(block, value):
    return {"Z": np.full((block.n, 1), value)}


def _doubled(block, piece):
    piece["Z"] *= 2.0
    if block.first:
        raise RuntimeError("half done")
    return (0.0,)


def _sum(block, piece):
    return (float(piece["Z"].sum()),)


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_a_step_that_fails_halfway_leaves_no_wrong_state(room, tmp_path, monkeypatch):
    X, y = rows("csr", np.float64)
    cut_into(monkeypatch, X, 3)
    problem = problem_in(write_files(tmp_path, X, y), TrainOptions())
    limit_scratch(problem, room)
    engine = engine_of(problem)
    held = engine.state(_filled, 1.0)
    assert engine.sum(_sum, states=(held,)) == (60.0,)
    with pytest.raises(RuntimeError, match="half done"):
        engine.sum(_doubled, states=(held.to(2.0),))
    assert engine.sum(_sum, states=(held,)) == (60.0,)


# --- memory that is used again


class Overwriting(FileEngine):
    """An engine that overwrites the features of a block as soon as the next one is requested."""

    def visit(self, loads, prepare):
        for block in self._read(loads):
            yield prepare(block)
            _overwrite(block)

    def blocks(self, at_least=1):
        for block in self._read([span] for span in (self.spans if at_least <= 1 else self._larger(at_least))):
            yield block
            _overwrite(block)


def _overwrite(block) -> None:
    layout = block.X.layout
    for name in layout._fields:
        array = getattr(layout, name)
        if name in ("values", "data", "indices"):
            while isinstance(array.base, np.ndarray):
                array = array.base
            array.view(np.uint8)[...] = 0 if name == "indices" else 255  # NaN, and indices that are in range


@pytest.mark.parametrize("layout", [pytest.param("dense", marks=pytest.mark.slow), "csr"])
@pytest.mark.parametrize("name", [*ANYWHERE, "dual_cd"])
def test_nothing_keeps_the_memory_of_a_finished_block(name, layout, tmp_path, monkeypatch):
    X, y = rows(layout, np.float64)
    options = TrainOptions(loss="softmax", alpha=0.01)
    cut_into(monkeypatch, X, 7)
    paths = write_files(tmp_path, X, y, parts=2)
    wanted = minimum(problem_in(paths, options), name, tol=1e-9)
    monkeypatch.setattr(file_engine, "FileEngine", Overwriting)
    problem = problem_in(paths, options)
    assert isinstance(problem.objective.engine, Overwriting)
    found = minimum(problem, name, tol=1e-9)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.certificate == wanted.certificate


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_three_blocks_are_in_memory_and_not_more(layout, tmp_path, monkeypatch):
    X, y = rows(layout, np.float64)
    cut_into(monkeypatch, X, 7)
    problem = problem_in(write_files(tmp_path, X, y, parts=3), TrainOptions())
    places, blocks = set(), 0
    for block in engine_of(problem).blocks():
        values = block.X.layout.values if layout == "dense" else block.X.layout.data
        places.add(values.__array_interface__["data"][0])
        blocks += 1
    assert blocks >= 7
    assert len(places) <= 6  # three, each of which may have grown once
