"""Calls to workers in place of tasks: the same bits, and tasks whenever a call does not do."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from test_dask_engine import elsewhere, same_bits
from test_engines import problem, solve

pytest.importorskip("distributed")

from lineal.engine.dask import calls, rounds, shares
from lineal.engine.dask.rounds import Rounds

SIZES = (1, 9, 0, 17, 2, 8, 11)


@pytest.fixture
def kinds(monkeypatch):
    """How shares reached workers, in order: "tasks" or "calls"."""
    found = []
    run_tasks, run_calls = Rounds._tasks, Rounds._call

    async def tasks(self, *given):
        found.append("tasks")
        return await run_tasks(self, *given)

    async def calls(self, *given):
        found.append("calls")
        return await run_calls(self, *given)

    monkeypatch.setattr(Rounds, "_tasks", tasks)
    monkeypatch.setattr(Rounds, "_call", calls)
    monkeypatch.setattr(rounds, "LOOK_SECONDS", 1e9)
    monkeypatch.setattr(rounds, "LONG_SECONDS", 1e9)
    return found


@pytest.fixture
def wanted(client, monkeypatch):
    """A fit whose passes consist of tasks."""
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "LOOK_SECONDS", 0.0)
        engine = elsewhere(client, problem("softmax", "l2"), SIZES)
        found = solve("newton", engine, tol=1e-9)
        assert engine.engine.family.rounds.n_called == 0
    return found


def test_calls_and_tasks_give_the_same_bits(client, wanted, kinds):
    objective = elsewhere(client, problem("softmax", "l2"), SIZES)
    same_bits(solve("newton", objective, tol=1e-9), wanted)
    assert kinds[0] == "tasks"
    assert kinds.count("tasks") <= 3  # Dask may run a first one elsewhere than planned
    assert kinds.count("calls") == objective.engine.family.rounds.n_called > 5


def test_what_is_too_large_or_takes_long_is_a_task(client, kinds, monkeypatch):
    engine = elsewhere(client, problem("softmax", "l2"), SIZES).engine
    for name, value in (("FEW_CALLS_BYTES", 0), ("LONG_SECONDS", -1.0)):
        with monkeypatch.context() as patch:
            patch.setattr(rounds, name, value)
            for _ in range(3):
                assert engine.sum(_count) == (48,)
        assert set(kinds) == {"tasks"}
    engine.sum(_count)
    assert kinds[-1] == "calls"


def _count(block):
    return (block.n,)


def test_large_results_are_joined_by_tasks(client, kinds, monkeypatch):
    engine = elsewhere(client, problem("softmax", "l2"), SIZES).engine
    for step in (_count, _large):
        engine.sum(step)
        engine.sum(step)
        assert kinds[-1] == "calls"
    monkeypatch.setattr(rounds, "FEW_CALLS_BYTES", 100_000)
    for step, kind in ((_large, "tasks"), (_count, "calls")):
        engine.sum(step)
        assert kinds[-1] == kind


def _large(block):
    return (np.ones(20_000),)


def test_tasks_take_over_where_workers_cannot_be_called(client, wanted, kinds, monkeypatch):
    async def unreachable(client, address, what):
        await asyncio.sleep(0.0)
        raise OSError("no connection")

    monkeypatch.setattr(rounds, "call", unreachable)
    objective = elsewhere(client, problem("softmax", "l2"), SIZES)
    same_bits(solve("newton", objective, tol=1e-9), wanted)
    assert kinds.count("calls") == rounds.FAILED_CALLS


def test_a_worker_that_does_not_know_of_calls(client, kinds):
    engine = elsewhere(client, problem("softmax", "l2"), SIZES).engine
    assert engine.sum(_count) == engine.sum(_count) == (48,)
    client.run(_forget_calls)
    assert engine.sum(_count) == (48,)
    assert kinds[-2:] == ["calls", "tasks"]
    assert engine.sum(_count) == engine.sum(_count) == (48,)
    assert kinds[-1] == "calls"


def _forget_calls(dask_worker):
    del dask_worker.handlers[calls.HANDLER]


def test_the_error_of_a_step_comes_back_from_a_call(client, kinds):
    engine = elsewhere(client, problem("softmax", "l2"), SIZES).engine
    engine.sum(_count)
    engine.sum(_count)
    with pytest.raises(ZeroDivisionError):
        engine.sum(_divide)
    assert kinds[-1] == "calls"
    assert engine.sum(_count) == (48,)


def _divide(block):
    return (1 // (block.n - 17),)


def test_states_that_change_and_arrays_that_are_cut(client, kinds):
    engine = elsewhere(client, problem("softmax", "l2"), SIZES).engine
    engine.sum(_count)
    numbers = np.arange(48.0)[:, None]
    state = engine.state(_numbers, np.zeros(1))
    for wanted in (1.0, 2.0):
        assert engine.sum(_add, states=(state.to(np.full(1, wanted)), engine.cut(numbers))) == (
            48 * wanted + numbers.sum(),
        )
    assert kinds[-2:] == ["calls", "calls"]
    client.run(_forget_rows, workers=[min(client.nthreads())])
    assert engine.sum(_add, states=(state.to(np.full(1, 3.0)), engine.cut(numbers))) == (48 * 3.0 + numbers.sum(),)
    assert kinds[-2:] == ["calls", "tasks"]


def _numbers(block, value):
    return {"Z": np.full((block.n, 1), value[0])}


def _add(block, piece, cut):
    piece["Z"] += 1.0
    return (float(piece["Z"].sum() + cut["rows"].sum()),)


def _forget_rows():
    for holder in shares._holders.values():
        holder.rows.clear()
