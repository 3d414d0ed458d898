"""Shards: the same rows, each in one of them, wherever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from dask_rows import on_cluster
from file_rows import cut_into, problem_in, write_files
from objectives import label_sets, objective_on, telling_rows
from scipy import sparse

from lineal.design import wrap
from lineal.design.matrix import unwrapped
from lineal.design.ones import with_constant
from lineal.design.orders import take_rows
from lineal.engine.file_shards import RUNS_PER_SHARD
from lineal.engine.state import RowState
from lineal.errors import OptionError
from lineal.linear.options import TrainOptions


def facts(block):
    """What a block has: its rows with labels and weights, as a set."""
    rows = dense_of(block.X)
    labels = [tuple(block.targets.labels(i).tolist()) for i in range(block.n)]
    return [(tuple(row), label, weight) for row, label, weight in zip(rows.tolist(), labels, block.weights.tolist())]


def local(kind="csr", sets=False, n=30, threads=1):
    X, y = telling_rows(0, n=n)
    X = X.toarray() if kind == "dense" else X.tocsc() if kind == "csc" else X
    weights = np.random.default_rng(1).random(n) + 0.1
    offsets = np.arange(3.0 * n).reshape(n, 3)
    Y = label_sets(2, n, 3) if sets else y
    return objective_on(X, Y, "logistic", "l2", weights=weights, offsets=offsets, threads=threads).engine


@pytest.mark.parametrize(("kind", "sets"), [("csr", False), ("csr", True), ("dense", False), ("csc", False)])
def test_local_shards_deal_out_all_rows_once(kind, sets):
    engine = local(kind, sets)
    everything = local("csr", sets)
    shards = engine.shards(4, seed=3)
    blocks = shards.blocks()
    assert [block.n for block in blocks] == [7, 8, 7, 8]
    assert [block.first for block in blocks] == [0, 7, 15, 22]
    found = sorted(one for block in blocks for one in facts(block))
    assert found == sorted(facts(everything.blocks()[0]))
    offsets = np.concatenate([block.offsets for block in blocks])
    assert sorted(offsets[:, 0]) == sorted(engine.offsets[:, 0])
    firsts = [facts(block)[0] for block in blocks]
    assert firsts != [facts(block)[0] for block in engine.shards(4, seed=4).blocks()]
    assert firsts == [facts(block)[0] for block in local(kind, sets).shards(4, seed=3).blocks()]


def test_one_shard_is_all_rows_without_a_copy():
    engine = local()
    assert engine.shards(1).X is engine.X


def test_default_numbers():
    assert len(local().shards().blocks()) == 4
    assert len(local(n=3).shards().blocks()) == 3
    for count in (31, 1000):
        with pytest.raises(OptionError, match=f"shards={count}.*30 rows.*at most 30"):
            local().shards(count)


def _sum_and_note(block, piece, value):
    piece["seen"] = piece.get("seen", np.zeros(1)) + value
    return block.weights.sum(), piece["seen"].copy(), 1


def _nothing(block):
    return {}


def _seen(block, piece):
    return block.first, float(piece["seen"][0])


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_and_states_on_shards(threads):
    shards = local(threads=threads).shards(3)
    state = shards.state(_nothing)
    assert isinstance(state, RowState)
    for value in (1.0, 2.0):
        total, seen, count = shards.sum(_sum_and_note, value, states=(state.to(),))
    assert (count, seen.tolist()) == (3, [9.0])
    assert total == pytest.approx(1.0, rel=1e-14)
    assert shards.gather(_seen, states=(state,)) == [(0, 3.0), (10, 3.0), (20, 3.0)]


@pytest.mark.parametrize("parts", [1, 3])
def test_file_shards_deal_out_all_rows_once(tmp_path, monkeypatch, parts):
    X, y = telling_rows(0, n=50)
    paths = write_files(tmp_path, X, y, parts=parts)
    cut_into(monkeypatch, X, 5)
    engine = problem_in(paths, TrainOptions(loss="softmax")).objective.engine
    wanted = sorted(one for block in engine.blocks() for one in facts(block))
    for count in (None, 1, 4, 50):
        shards = engine.shards(count, seed=1)
        found = [facts(block) for block in shards.blocks()]
        assert len(found) == (count or 1)
        assert sorted(one for shard in found for one in shard) == wanted
        assert found == [facts(block) for block in engine.shards(count, seed=1).blocks()]
        assert [block.first for block in shards.blocks()] == np.cumsum([0, *map(len, found)])[:-1].tolist()
    with pytest.raises(OptionError, match=r"shards=51.*50 rows"):
        engine.shards(51)


@pytest.mark.parametrize("count", [2, 7])
def test_file_shards_are_mixed_however_many_are_asked_for(tmp_path, count):
    """Each shard of a file that is sorted by label has runs from all over the file, and so all labels."""
    X, y = telling_rows(0, n=400)
    order = np.argsort(y, kind="stable")
    paths = write_files(tmp_path, X[order], y[order])
    shards = problem_in(paths, TrainOptions(loss="softmax")).objective.engine.shards(count, seed=1)
    assert len(shards.loads) == count
    assert min(len(load) for load in shards.loads) >= RUNS_PER_SHARD
    for block in shards.blocks():
        assert set(block.targets.columns.tolist()) == {0, 1, 2}


def test_file_shards_need_memory(tmp_path, monkeypatch):
    X, y = telling_rows(0, n=200)
    paths = write_files(tmp_path, X, y)
    cut_into(monkeypatch, X, 8)
    engine = problem_in(paths, TrainOptions(loss="softmax")).objective.engine
    monkeypatch.setattr("lineal.engine.file_shards.SHARDS_PER_BUDGET", 1 << 60)
    least = len(engine.shards().loads)
    assert least >= 6
    with pytest.raises(OptionError, match=f"shards=2 are too few.*{least - 0}"):
        engine.shards(2)


def _size(block):
    return block.n


def test_shards_of_which_some_wait_for_others_share_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr("lineal.engine.time_limit.time", Clock)
    Clock.now = 0.0
    for threads, wanted in (
        (1, [25, 100 / 3, 50, 100]),
        (2, [50, 100 / 1.5, 100, 100]),
        (4, [100] * 4),
        (8, [100] * 4),
    ):
        shards = local(n=40, threads=threads).shards(4)
        limit = shards.time_per_shard(100.0)
        assert [limit(block) for block in shards.blocks()] == pytest.approx(wanted)
    assert local().shards(4).time_per_shard(None) is None
    X, y = telling_rows(0, n=40)
    shards = problem_in(write_files(tmp_path, X, y), TrainOptions(n_jobs=2)).objective.engine.shards(4)
    limit = shards.time_per_shard(100.0)
    for block in shards.blocks():  # one after the other, with all threads; each takes what it may
        assert limit(block) == pytest.approx(25.0, rel=0.1)
        Clock.now += limit(block)
    assert limit(block) == 1e-3


class Clock:
    """A clock that tests move."""

    now = 0.0

    @classmethod
    def monotonic(cls):
        return cls.now


def test_shards_on_a_cluster_are_partitions(client):
    engine = on_cluster(client, local(), (20, 0, 10))
    assert engine.shards().gather(_size) == [20, 0, 10]
    assert engine.shards(3).gather(_size) == [20, 0, 10]
    turns = max(-(-3 // sum(client.nthreads().values())), 1)
    assert engine.shards().time_per_shard(60.0).seconds <= 60.0 / turns
    assert engine.shards().time_per_shard(None) is None
    with pytest.raises(OptionError, match=r"shards=2.*partitions, of which there are 3"):
        engine.shards(2)
    state = engine.shards().state(_nothing)
    for value in (1.0, 2.0):
        total, seen, count = engine.shards().sum(_sum_and_note, value, states=(state.to(),))
    assert (count, seen.tolist(), round(total, 12)) == (3, [9.0], 1.0)


@pytest.mark.core
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dense", [True, False])
def test_a_constant_column_and_chosen_rows(dense, dtype):
    X = telling_rows(3, n=12)[0].astype(dtype)
    rows = np.array([3, 3, 11, 0])
    given = wrap(X.toarray() if dense else X).rows(2, 12) if dense else wrap(X[2:])
    full = np.hstack([X.toarray()[2:], np.full((10, 1), 0.5, dtype)])
    found = with_constant(given, 0.5)
    assert (found.shape, found.dtype) == ((10, 9), dtype)
    np.testing.assert_array_equal(dense_of(found), full)
    assert with_constant(given, 0.5) is found
    assert with_constant(given, 2.0).layout is not found.layout
    np.testing.assert_array_equal(dense_of(take_rows(wrap(X), rows)), X.toarray()[rows])


def dense_of(design):
    X = unwrapped(design)
    return X.toarray() if sparse.issparse(X) else X
