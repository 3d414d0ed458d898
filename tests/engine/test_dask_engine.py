"""The Dask engine: the same answers as on local rows, the same bits for any number of workers, on real processes."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from dask_rows import on_cluster
from test_engines import QUICK_LOSSES, _constant, _double, _failing, _total, problem, settled, solve, table

pytest.importorskip("distributed")

#: Rows of the partitions: one, two, three and seven unequal ones, of which one is empty.
SIZES = ((48,), (31, 17), (20, 0, 28), (1, 9, 0, 17, 2, 8, 11))


def elsewhere(client, objective, sizes=SIZES[3]):
    """The same objective, its rows on the cluster."""
    return replace(objective, engine=on_cluster(client, objective.engine, sizes))


# --- the answers of local rows


def combinations():
    """The solvers, losses and penalties that run anywhere, for each way of cutting the rows; what takes long is marked."""
    for number, (name, loss, penalty) in enumerate(table()):
        for sizes in SIZES:
            is_quick = len(sizes) == 7 and loss in QUICK_LOSSES and (penalty in ("l2", "l1/l2"))
            yield pytest.param(name, loss, penalty, sizes, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "loss", "penalty", "sizes"), list(combinations()))
def test_solutions_are_those_of_local_rows(client, name, loss, penalty, sizes):
    objective = problem(loss, penalty)
    wanted = solve(name, objective, tol=1e-14, max_iter=12)
    found = solve(name, elsewhere(client, objective, sizes), tol=1e-14, max_iter=12)
    assert len(found.history) == len(wanted.history)
    values = [[row["objective"] for row in fit.history] for fit in (found, wanted)]
    np.testing.assert_allclose(*values, rtol=1e-10)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=0, atol=1e-10)
    np.testing.assert_allclose(settled(found, loss), settled(wanted, loss), rtol=0, atol=1e-10)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)


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
