"""Fits that are killed and continue from their checkpoint: the same bits as fits that nobody has interrupted."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_problem
from scipy import sparse
from served_rows import ServedRows

from lineal import losses, penalties, solvers
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.checkpoint import EVERY_VARIABLE, Checkpoint
from lineal.problem.minimise import minimise
from lineal.problem.objective import Objective
from lineal.problem.targets import encode


class Killed(Exception):
    """What a kill is in these tests: an exception right after a checkpoint was written."""


@pytest.fixture(autouse=True)
def after_every_iteration(monkeypatch):
    """Checkpoints are written after every iteration."""
    monkeypatch.setenv(EVERY_VARIABLE, "0")


def killing(iteration):
    """A callback that ends the process at an iteration."""

    def callback(snapshot):
        if snapshot.iteration == iteration:
            raise Killed

    return callback


def problem(loss, penalty="l2", layout="csr", *, alpha=1e-3, n=200, dtype=np.float64, seed=0):
    X, y = random_problem(seed, n=n, k=3)
    X = (3.0 * X).astype(dtype)
    random = np.random.default_rng(seed)
    y[3:] = (X @ random.normal(size=(X.shape[1], 3)) + 4.0 * random.normal(size=(n, 3))).argmax(axis=1)[3:]
    rows = wrap(np.ascontiguousarray(X.toarray()) if layout == "dense" else sparse.csr_array(X))
    encoded = encode(y, direct=losses.get(loss).is_direct)
    engine = LocalEngine(rows, encoded.targets, np.full(n, 1.0 / n), encoded.n_columns)
    regulariser = Regulariser(penalties.get(penalty), alpha, X.shape[1])
    return Objective(engine, losses.get(loss), regulariser)


def same(found, wanted):
    np.testing.assert_array_equal(found.weights, wanted.weights)
    np.testing.assert_array_equal(found.intercept, wanted.intercept)
    assert found.certificate == wanted.certificate
    assert (found.status, found.message) == (wanted.status, wanted.message)
    seconds = [row["seconds"] for row in found.history]
    assert seconds == sorted(seconds)
    assert without_seconds(found.history) == without_seconds(wanted.history)


def without_seconds(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def killed_and_continued(solve, path, iterations):
    """Kill a fit at each of these iterations, and then let it end; every iteration is done once."""
    seen = []

    def note(snapshot):
        seen.append(snapshot.iteration)

    for iteration in iterations:
        with pytest.raises(Killed):
            solve(checkpoint=Checkpoint(path), callbacks=[note, killing(iteration)])
    found = solve(checkpoint=Checkpoint(path), callbacks=[note, killing(-1)])
    assert seen == [row["iteration"] for row in found.history]
    return found


#: Solver, loss, penalty, options.
FITS = [
    ("lbfgs", "softmax", "l2", {}),
    ("lbfgs", "squared_hinge", "l2", {}),
    ("newton", "softmax", "l2", {}),
    ("newton", "logistic", "l2", {}),
    ("newton", "squared_hinge", "l2", {"globalisation": "trust_region"}),
    ("newton", "label_ranking", "l2", {}),
    ("least_squares", "softmax", "l2", {}),
    ("least_squares", "logistic", "l2", {"method": "plain"}),
    ("least_squares", "logistic", "l2", {"method": "accelerated"}),
    ("fista", "softmax", "l1/l2", {}),
    ("fista", "squared_hinge", "l1", {"step": "constant"}),
    ("sparsa", "logistic", "l1", {}),
    ("sparsa", "multiclass_squared_hinge", "sparse_group", {}),
    ("block_cd", "logistic", "l1", {}),
    ("block_cd", "squared_hinge", "elastic_net", {}),
    ("block_cd", "softmax", "l1/l2", {}),
    ("block_cd", "multiclass_squared_hinge", "l1/linf", {"method": "cyclic"}),
    ("block_cd", "softmax", "l1/l2", {"method": "random", "shrinking": True}),
    ("block_cd", "softmax", "l1/l2", {"method": "parallel"}),
    ("dual_cd", "hinge", "l2", {}),
    ("dual_cd", "squared_hinge", "l2", {}),
    ("dual_cd", "crammer_singer", "l2", {}),
    ("dual_cd", "softmax", "l2", {}),
    ("fobos", "hinge", "l1", {}),
    ("fobos", "logistic", "l2", {}),
    ("fobos", "label_ranking", "l1/l2", {}),
]


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(("name", "loss", "penalty", "options"), FITS, ids=lambda value: str(value))
def test_a_fit_that_was_killed_ends_with_the_same_bits(tmp_path, name, loss, penalty, options, layout):
    path, objective = tmp_path / "c", problem(loss, penalty, layout)

    def solve(**keywords):
        return minimise(solvers.get(name), objective, tol=1e-9, max_iter=60, **options, **keywords)

    wanted = solve(checkpoint=Checkpoint(path), callbacks=[killing(-1)])
    if os.path.exists(path):  # solvers leave it to those who call them
        os.unlink(path)
    last = wanted.history[-1]["iteration"]
    assert last >= 4
    same(killed_and_continued(solve, path, (1, 3, last - 1)), wanted)
    same(solve(callbacks=[killing(-1)]), wanted)  # checkpoints change nothing
