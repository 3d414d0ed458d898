"""Methods that fit the partitions of a cluster one by one: same bits for any number of workers, and after kills."""

from __future__ import annotations

import time

import numpy as np
import pytest
from test_dask_engine import elsewhere, same_bits
from test_dask_faults import SIZES, Counted, cluster_of, kill
from test_engines import problem

from lineal import LinearClassifier, solvers

distributed = pytest.importorskip("distributed")
slow = pytest.mark.slow

#: Solver, loss, penalty, options.
FITS = [
    pytest.param("admm", "hinge", "l2", {"tol": 1e-9, "max_iter": 8}, id="admm"),
    pytest.param("admm", "softmax", "l1/l2", {"tol": 1e-9, "max_iter": 8}, id="admm-sparse", marks=slow),
    pytest.param("averaging", "hinge", "l2", {"tol": 1e-6, "rounds": 4}, id="averaging"),
    pytest.param("averaging", "softmax", "l2", {"tol": 1e-6, "combine": "vote"}, id="votes", marks=slow),
    pytest.param("hybrid", "softmax", "l2", {"tol": 1e-9, "max_iter": 10, "passes": 2}, id="hybrid"),
]


def solved(client, name, loss, penalty, options):
    objective = elsewhere(client, problem(loss, penalty), SIZES)
    return solvers.get(name)(objective, **options), objective.engine.family.rounds


@pytest.mark.parametrize(("name", "loss", "penalty", "options"), FITS)
def test_a_worker_killed_in_mid_fit(client, monkeypatch, name, loss, penalty, options):
    counted = Counted(monkeypatch)
    wanted, _ = solved(client, name, loss, penalty, options)
    total = counted.passes
    monkeypatch.undo()
    random = np.random.default_rng()
    at, delay = int(random.integers(2, total - 1)), random.random() * 0.01
    print(f"{name}: kill in pass {at} of {total} after {delay:.4f} s")
    with cluster_of(2) as fragile:
        objective = elsewhere(fragile, problem(loss, penalty), SIZES)
        rounds = objective.engine.family.rounds

        def act():
            time.sleep(delay)
            kill(fragile, random.choice(sorted(set(rounds._owners))))

        counted = Counted(monkeypatch, at, act)
        found = solvers.get(name)(objective, **options)
        assert at < counted.passes == total
        assert rounds.n_made > counted.before[0] >= len(SIZES)
        same_bits(found, wanted)
        if wanted.members is not None:
            np.testing.assert_array_equal(found.members.weights, wanted.members.weights)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("name", "loss", "penalty", "options"), FITS)
def test_one_or_four_workers(client, name, loss, penalty, options, n):
    wanted, _ = solved(client, name, loss, penalty, options)
    with cluster_of(n) as other:
        same_bits(solved(other, name, loss, penalty, options)[0], wanted)


def test_a_history_that_grows_too_long_leaves_pieces_in_place(client, monkeypatch):
    """Multipliers cannot be rebuilt from parameters: workers keep them when the client no longer remembers."""
    wanted, _ = solved(client, "admm", "hinge", "l2", {"tol": 1e-9, "max_iter": 8})
    monkeypatch.setattr("lineal.engine.dask.lineage.KEPT_STEPS", 2)
    found, _ = solved(client, "admm", "hinge", "l2", {"tol": 1e-9, "max_iter": 8})
    same_bits(found, wanted)


def test_losses_with_kinks_are_minimised_on_a_cluster(client):
    import dask.array as da

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)
    model = LinearClassifier(loss="hinge", alpha=0.02, tol=1e-2).fit(
        da.from_array(X, chunks=(80, 5)), da.from_array(y, chunks=80)
    )
    assert model.status_ == "converged"
    local = LinearClassifier(loss="hinge", alpha=0.02, tol=1e-4).fit(X, y)
    assert local.certificate_.primal <= model.certificate_.primal <= 1.0101 * local.certificate_.primal
