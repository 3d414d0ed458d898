"""Workers that are killed, come, go and forget during a fit on a Dask cluster: the fit ends with the same bits."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from dask_rows import on_cluster
from test_dask_engine import elsewhere, same_bits, tasks, wait_until
from test_engines import ANYWHERE, problem, solve

from lineal.engine.dask.rounds import Rounds
from lineal.errors import ClusterError

distributed = pytest.importorskip("distributed")

#: A loss for each solver.
LOSSES = {"lbfgs": "softmax", "newton": "squared_hinge", "least_squares": "squared", "fista": "softmax",
          "sparsa": "logistic"}  # fmt: skip


@pytest.fixture(scope="module")
def fragile():
    """A client of a cluster whose workers are killed by tests; Dask starts others in their place."""
    from lineal.engine.dask.cluster import local_cluster

    with local_cluster(2, memory_limit=None) as cluster, distributed.Client(cluster) as client:
        yield client


def complete(client, n=2):
    """Wait until all workers are there."""
    client.wait_for_workers(n, timeout=60)
    assert wait_until(lambda: len(client.nthreads()) == n)


def kill(client, address):
    """Kill the process of a worker as the system does when memory runs out."""
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)


class Counted:
    """Counts passes over the rows, and does something in one of them."""

    def __init__(self, monkeypatch, at=None, act=None, during=True):
        self.passes, self.at, self.act, self.during = 0, at, act, during
        run = Rounds.run

        def counted(rounds, work):
            self.passes += 1
            if self.passes == self.at:
                self.before = rounds.n_made, rounds.n_rebuilt
                if self.during:
                    thread = threading.Thread(target=self.act)
                    thread.start()
                else:
                    self.act()
            return run(rounds, work)

        monkeypatch.setattr(Rounds, "run", counted)


def options(name):
    return {"tol": 1e-9, "max_iter": 25 if name in ("fista", "sparsa", "lbfgs") else 50}


SIZES = (1, 9, 0, 17, 2, 8, 11)


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_worker_killed_in_mid_fit(fragile, monkeypatch, name):
    complete(fragile)
    objective = problem(LOSSES[name], "l2")
    counted = Counted(monkeypatch)
    wanted = solve(name, elsewhere(fragile, objective, SIZES), **options(name))
    total = counted.passes
    monkeypatch.undo()

    random = np.random.default_rng()
    at = int(random.integers(2, total - 1))
    print(f"{name}: kill in pass {at} of {total}")
    there = elsewhere(fragile, objective, SIZES)
    rounds = there.engine.family.rounds
    owners = []

    def act():
        time.sleep(random.random() * 0.01)
        owners.extend(rounds._owners)
        kill(fragile, random.choice(sorted(set(rounds._owners))))

    counted = Counted(monkeypatch, at, act)
    found = solve(name, there, **options(name))
    assert at < counted.passes == total
    assert rounds.n_made > counted.before[0] >= len(SIZES)
    same_bits(found, wanted)
