"""Stagewise fits on a Dask cluster: the same bits for any number of workers, and if workers are killed or forget."""

from __future__ import annotations

import time

import numpy as np
import pytest
from dask_rows import on_cluster
from test_dask_faults import Counted, cluster_of, forget, kill
from test_least_squares_family import digits, engine_of, fit_stages, same

from lineal.engine.dask import parcels
from lineal.engine.dask.lineage import After
from lineal.engine.dask.rounds import Rounds

pytest.importorskip("distributed")

SIZES = (1, 19, 0, 31, 2, 17, 20)

#: Generator, update, and bytes of features that are kept between passes.
FITS = [
    ("pca:n_components=6+fourier", "linear", 1 << 30),
    pytest.param("fourier:variant=orthogonal", "linear", 0, marks=pytest.mark.slow),
    pytest.param("greedy", "calibrated", 1 << 30, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def rows():
    X, y = digits()
    return X / 16.0, engine_of(X / 16.0, y)


def fit(client, rows, text, update, memory, engine=None):
    X, local = rows
    engine = on_cluster(client, local, SIZES) if engine is None else engine
    return fit_stages(engine, X, text, update, feature_memory=memory, n_stages=4)


@pytest.mark.parametrize("update", ["linear", pytest.param("softmax", marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", ["fourier", pytest.param("pca:n_components=6+greedy", marks=pytest.mark.slow)])
def test_stages_are_those_of_local_rows(client, rows, text, update):
    X, local = rows
    wanted = fit_stages(local, X, text, update, n_stages=4)
    for sizes in ((90,), (40, 0, 50), SIZES):
        same(fit(client, rows, text, update, 1 << 30, on_cluster(client, local, sizes)), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "update", "memory"), FITS)
def test_the_number_of_workers_does_not_change_a_bit(client, rows, text, update, memory):
    wanted = fit(client, rows, text, update, memory)
    with cluster_of(1) as alone:
        same(fit(alone, rows, text, update, memory), wanted, exact=True)


@pytest.mark.parametrize(("text", "update", "memory"), FITS)
def test_a_worker_killed_in_mid_fit(client, rows, monkeypatch, text, update, memory):
    counted = Counted(monkeypatch)
    wanted = fit(client, rows, text, update, memory)
    total = counted.passes
    monkeypatch.undo()
    random = np.random.default_rng()
    at, delay = int(random.integers(3, total - 1)), random.random() * 0.01
    print(f"{text}: kill in pass {at} of {total} after {delay:.4f} s")
    if random.random() < 0.5:
        print("with all arguments sent to workers")
        monkeypatch.setattr(parcels, "SMALL", 0)
    with cluster_of(2) as fragile:
        there = on_cluster(fragile, rows[1], SIZES)
        rounds = there.family.rounds

        def act():
            time.sleep(delay)
            kill(fragile, random.choice(sorted(set(rounds._owners))))

        counted = Counted(monkeypatch, at, act)
        found = fit(fragile, rows, text, update, memory, there)
        assert at < counted.passes == total
        assert rounds.n_made > counted.before[0] >= len(SIZES)
        same(found, wanted, exact=True)


@pytest.mark.parametrize(("text", "update", "memory"), FITS)
def test_what_workers_forget_is_made_again(client, rows, monkeypatch, text, update, memory):
    wanted = fit(client, rows, text, update, memory)
    there = on_cluster(client, rows[1], SIZES)
    run, passes = Rounds.run, []

    def forgetful(rounds, work):
        passes.append(work)
        if len(passes) % 3 == 0:
            client.run(forget, 0.3, len(passes))
        return run(rounds, work)

    monkeypatch.setattr(Rounds, "run", forgetful)
    same(fit(client, rows, text, update, memory, there), wanted, exact=True)
    rounds = there.family.rounds
    assert rounds.n_made > len(SIZES)
    assert rounds.n_rebuilt > 0


def test_only_what_moves_predictions_is_remembered(client, rows, monkeypatch):
    """Features that are kept are no part of how predictions came about: a worker that lost them makes them again."""
    run, nodes = Rounds.run, []

    def watched(rounds, work):
        nodes.append(work.nodes)
        return run(rounds, work)

    monkeypatch.setattr(Rounds, "run", watched)
    fit(client, rows, "fourier", "linear", 1 << 30)
    running, seen, kept = next(three for three in reversed(nodes) if len(three) == 3)
    assert running.kept_steps == 3
    assert not isinstance(seen, After)
    assert not isinstance(kept, After)
