"""The Dask engine: the same answers as on local rows, the same bits for any number of workers, on real processes."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
import pytest
from dask_rows import on_cluster
from test_engines import ANYWHERE, _constant, _double, _failing, _total, problem, settled, solve, table

from lineal import losses, penalties
from lineal.design import wrap
from lineal.design.matrix import unwrapped
from lineal.engine.source import RawRows
from lineal.penalties.regulariser import Regulariser
from lineal.problem.encoder import survey_of
from lineal.problem.objective import Objective

pytest.importorskip("distributed")
from distributed.comm import tcp

from lineal.engine.dask import shares
from lineal.engine.dask.rounds import Rounds
from lineal.engine.dask.source import DaskSource

#: Rows of the partitions: one, two, three and seven unequal ones, of which one is empty.
SIZES = ((48,), (31, 17), (20, 0, 28), (1, 9, 0, 17, 2, 8, 11))


def elsewhere(client, objective, sizes=SIZES[3]):
    """The same objective, its rows on the cluster."""
    return replace(objective, engine=on_cluster(client, objective.engine, sizes))


# --- the answers of local rows


def combinations():
    """Solvers, losses and penalties that run anywhere, for each way of cutting the rows; what takes long is marked."""
    for name, loss, penalty in table():
        for sizes in SIZES:
            is_quick = len(sizes) == 7 and loss == "softmax" and penalty in ("l2", "l1/l2")
            yield pytest.param(name, loss, penalty, sizes, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "loss", "penalty", "sizes"), list(combinations()))
def test_solutions_are_those_of_local_rows(client, name, loss, penalty, sizes):
    objective = problem(loss, penalty)
    wanted = solve(name, objective, tol=1e-12, max_iter=12)
    found = solve(name, elsewhere(client, objective, sizes), tol=1e-12, max_iter=12)
    pairs = list(zip(found.history, wanted.history))  # the last iterations only decrease rounding errors
    assert len(pairs) >= min(6, len(wanted.history))
    np.testing.assert_allclose(*zip(*((one["objective"], other["objective"]) for one, other in pairs)), rtol=1e-10)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)
    if len(found.history) == len(wanted.history):
        np.testing.assert_allclose(found.weights, wanted.weights, rtol=0, atol=1e-10)
        np.testing.assert_allclose(settled(found, loss), settled(wanted, loss), rtol=0, atol=1e-10)


def same_bits(found, wanted):
    np.testing.assert_array_equal(found.weights, wanted.weights)
    np.testing.assert_array_equal(found.intercept, wanted.intercept)
    assert found.certificate == wanted.certificate
    assert [row["objective"] for row in found.history] == [row["objective"] for row in wanted.history]


# --- sums and state


def test_state_is_that_of_its_parameters_whatever_is_kept(client):
    engine = elsewhere(client, problem("logistic", "l2")).engine
    for max_bytes in (0.0, np.inf):
        state = engine.state(_constant, 1.0, max_bytes=max_bytes)
        assert engine.sum(_total, states=(state,)) == (48.0,)
        assert engine.sum(_double, states=(state.to(2.0),)) == (96.0,)
        assert engine.sum(_total, states=(state,)) == (96.0,)
        engine.update(_double, states=(state.to(4.0),))
        assert engine.sum(_total, states=(state,)) == (192.0,)
        with pytest.raises(RuntimeError, match="half done"):
            engine.sum(_failing, states=(state.to(8.0),))
        assert engine.sum(_total, states=(state,)) == (192.0,)


@dataclass(frozen=True)
class Facts:
    """Step: number, first row and rows of a block."""

    def __call__(self, block):
        return block.first, block.n, block.threads


def test_blocks_are_numbered_over_all_partitions(client):
    engine = elsewhere(client, problem("logistic", "l2"), (20, 0, 28)).engine
    assert [(first, n) for first, n, _ in engine.gather(Facts())] == [(0, 20), (20, 0), (20, 28)]
    assert engine.shape == (48, problem("logistic", "l2").engine.shape[1])


def test_rows_never_reach_the_client(client, monkeypatch):
    """Bytes that arrive at the client during a fit on 12 MB of rows that workers make themselves."""
    n, d, received = 3 * 4000, 120, []
    parts = [client.submit(random_rows, seed, 4000, d, pure=False) for seed in range(3)]
    objective = objective_of(DaskSource(client, parts))
    read = tcp.from_frames

    async def counted(frames, *given, **named):
        received.append(sum(map(len, map(memoryview, frames))))
        return await read(frames, *given, **named)

    monkeypatch.setattr(tcp, "from_frames", counted)
    found = solve("newton", objective, tol=1e-6)
    assert objective.engine.shape == (n, d)
    assert found.status == "converged"
    passes = objective.engine.family.rounds.n_passes
    assert 1000 < sum(received) < 8 * n * d / 4  # with the messages of the scheduler, which is in this process
    assert sum(received) < passes * (3 * 8 * d * 3 + 30_000)


def random_rows(seed, n, d):
    """Rows that are made on a worker, with two classes."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return RawRows(X, (X[:, 0] + X[:, 1] > 0).astype(int), None, None)


def objective_of(source):
    survey = survey_of(source)
    columns = survey.labels.columns(direct=False)
    engine = source.engine(survey.encoder(columns, None), columns.n_columns, 1)
    return Objective(engine, losses.get("logistic"), Regulariser(penalties.get("l2"), 1e-2, engine.shape[1]))


class Sizes:
    """Largest request that was sent with a pass, without its arguments."""

    def __init__(self, monkeypatch):
        self.largest = 0
        run = Rounds.run

        def counted(rounds, work):
            self.largest = max(self.largest, len(cloudpickle.dumps(work.request)))
            return run(rounds, work)

        monkeypatch.setattr(Rounds, "run", counted)


@pytest.mark.parametrize("name", ANYWHERE)
def test_requests_are_small(client, monkeypatch, name):
    sizes = Sizes(monkeypatch)
    solve(name, elsewhere(client, problem("softmax", "l2")), tol=1e-3)
    assert 0 < sizes.largest < 4096


def test_other_weights_share_rows_and_states(client):
    objective = elsewhere(client, problem("logistic", "l2"))
    engine, local = objective.engine, problem("logistic", "l2").engine
    state = engine.state(_constant, 1.0)
    assert engine.sum(_weighted, states=(state,))[0] == pytest.approx(1.0)
    n_made, other = engine.family.rounds.n_made, np.arange(48.0)
    heavier = engine.with_weights(other)
    assert heavier.sum(_weighted, states=(state.to(2.0),))[0] == other.sum()
    assert heavier.with_threads(3).gather(Facts())[0][2] == 1  # workers have one thread
    assert engine.sum(_weighted, states=(state,))[0] == pytest.approx(1.0)
    assert engine.family.rounds.n_made == n_made
    chosen = engine.cut(other[:, None])
    assert engine.sum(_rows, states=(chosen,))[0] == other.sum()
    assert local.sum(_rows, states=(local.cut(other[:, None]),))[0] == other.sum()


def _weighted(block, piece):
    return (float(block.weights @ piece["Z"][:, 0]),)


def _rows(block, piece):
    assert len(piece["rows"]) == block.n
    return (float(piece["rows"].sum()),)


@dataclass(frozen=True)
class Scaled:
    """Features times a factor; carries a large array."""

    factor: float
    ballast: np.ndarray

    def __call__(self, X):
        return wrap(self.factor * unwrapped(X))


def test_changed_features_are_made_on_workers(client, monkeypatch):
    engine = elsewhere(client, problem("logistic", "l2")).engine
    (plain,) = engine.sum(_sum_of_features)
    sizes = Sizes(monkeypatch)
    changed = [engine.with_features(Scaled(factor, np.zeros(50_000))) for factor in (2.0, 3.0)]
    for one, factor in [(changed[0], 2.0), (changed[1], 3.0), (changed[0], 2.0)]:
        assert one.sum(_sum_of_features)[0] == pytest.approx(factor * plain, rel=1e-12)
    assert engine.sum(_sum_of_features) == (plain,)
    assert sizes.largest < 4096


def _sum_of_features(block):
    return (float(unwrapped(block.X).sum()),)


def test_lost_pieces_come_back_from_the_features_that_they_were_made_of(client):
    engine = elsewhere(client, problem("logistic", "l2")).engine
    (plain,), changed = engine.sum(_sum_of_features), engine.with_features(Scaled(2.0, np.zeros(1)))
    state = changed.state(_row_sums, np.ones(1))
    changed.sum(_add_row_sums, states=(state.to(np.full(1, 2.0)),))
    for user in (engine, changed, engine.with_features(Scaled(3.0, np.zeros(1)))):
        client.run(_forget_pieces)
        assert user.sum(_sum_of_pieces, states=(state,))[0] == pytest.approx(4.0 * plain, rel=1e-12)


def _row_sums(block, factor):
    return {"Z": factor[0] * np.asarray(unwrapped(block.X).sum(axis=1), np.float64).reshape(-1, 1)}


def _add_row_sums(block, piece):
    piece["Z"] += _row_sums(block, (1.0,))["Z"]
    return (block.n,)


def _sum_of_pieces(block, piece):
    return (float(piece["Z"].sum()),)


def _forget_pieces():
    for holder in shares._holders.values():
        holder.pieces.clear()


def test_large_arguments_arrive_once_and_whole(client):
    engine = elsewhere(client, problem("logistic", "l2")).engine
    large = np.arange(100_000.0)
    (total,) = engine.sum(_scaled, large)
    large *= 2.0  # solvers change arrays in place
    np.testing.assert_array_equal(2.0 * total, engine.sum(_scaled, large)[0])
    total += 1.0  # and what they get


def _scaled(block, large):
    return (block.n * large,)


def test_blocks_are_joined_on_request(client):
    engine = elsewhere(client, problem("logistic", "l2"), (20, 0, 28)).engine
    assert engine.sum(_count, rows=1000) == (48, 3)


def _count(block):
    return block.n, 1


def test_the_cluster_is_clean_after_the_engine(client):
    objective = elsewhere(client, problem("softmax", "l2"))
    solve("newton", objective, max_iter=3)
    assert tasks(client)
    del objective
    assert wait_until(lambda: not tasks(client))
    from lineal.engine.dask.shares import held

    assert wait_until(lambda: not any(client.run(held).values()))


def tasks(client):
    """Keys on the scheduler that are not Dask's own."""
    return client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])


def wait_until(is_so, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        gc.collect()
        time.sleep(0.05)
    return True
