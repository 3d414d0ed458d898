"""Workers that are killed, come, go and forget during a fit on a Dask cluster: the fit ends with the same bits."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from dask_rows import source
from test_dask_engine import elsewhere, same_bits, tasks, wait_until
from test_engines import ANYWHERE, problem, solve

from lineal import solvers
from lineal.engine.dask import parcels, shares
from lineal.engine.dask.rounds import Rounds
from lineal.errors import ClusterError
from lineal.problem.minimise import minimise

distributed = pytest.importorskip("distributed")

#: A loss for each solver.
LOSSES = {"lbfgs": "softmax", "newton": "squared_hinge", "least_squares": "squared", "fista": "softmax",
          "sparsa": "logistic"}  # fmt: skip


@contextmanager
def cluster_of(n, threads=None):
    """A client of a cluster of its own, whose workers can be killed; Dask starts others in their place."""
    from lineal.engine.dask.cluster import local_cluster

    with local_cluster(n, None, threads) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def kill(client, address):
    """Kill the process of a worker as the system does when memory runs out."""
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)


class Counted:
    """Counts passes over the rows, and does something in one of them; it is done before the next one begins."""

    def __init__(self, monkeypatch, at=None, act=None, during=True):
        self.passes, self.at, self.act, self.during = 0, at, act, during
        self.thread, run = None, Rounds.run

        def counted(rounds, work):
            self.passes += 1
            if self.thread is not None:
                self.thread.join()
            if self.passes == self.at:
                self.before = rounds.n_made, rounds.n_rebuilt
                if self.during:
                    self.thread = threading.Thread(target=self.act)
                    self.thread.start()
                else:
                    self.act()
            return run(rounds, work)

        monkeypatch.setattr(Rounds, "run", counted)


def options(name):
    return {"tol": 1e-9, "max_iter": 25 if name in ("fista", "sparsa", "lbfgs") else 50}


SIZES = (1, 9, 0, 17, 2, 8, 11)


def undisturbed(client, objective, name, monkeypatch):
    """A fit, and its number of passes over the rows."""
    counted = Counted(monkeypatch)
    wanted = solve(name, elsewhere(client, objective, SIZES), **options(name))
    monkeypatch.undo()
    return wanted, counted.passes


#: Solvers that are disturbed in `make test`; `make test-all` disturbs all of them.
QUICK = [pytest.param(name, marks=() if name in ("newton", "fista") else pytest.mark.slow) for name in ANYWHERE]


@pytest.mark.parametrize("name", QUICK)
def test_a_worker_killed_in_mid_fit(client, monkeypatch, name):
    objective = problem(LOSSES[name], "l2")
    wanted, total = undisturbed(client, objective, name, monkeypatch)
    random = np.random.default_rng()
    at, delay = int(random.integers(2, total - 1)), random.random() * 0.01
    print(f"{name}: kill in pass {at} of {total} after {delay:.4f} s")
    if random.random() < 0.5:
        print("with all arguments sent to workers")
        monkeypatch.setattr(parcels, "SMALL", 0)
    with cluster_of(2) as fragile:
        there = elsewhere(fragile, objective, SIZES)
        rounds = there.engine.family.rounds

        def act():
            time.sleep(delay)
            kill(fragile, random.choice(sorted(set(rounds._owners))))

        counted = Counted(monkeypatch, at, act)
        found = solve(name, there, **options(name))
        assert at < counted.passes == total
        assert rounds.n_made > counted.before[0] >= len(SIZES)
        same_bits(found, wanted)


def test_a_worker_that_takes_long_to_start_again_is_not_given_up():
    from dask import config

    with config.set({"distributed.deploy.lost-worker-timeout": "1ms"}), cluster_of(1) as fragile:
        (first,) = fragile.nthreads()
        kill(fragile, first)
        assert wait_until(lambda: first not in fragile.nthreads())
        fragile.wait_for_workers(1, timeout=60)
        assert len(fragile.cluster.workers) == 1


@pytest.mark.parametrize("name", ["newton", pytest.param("fista", marks=pytest.mark.slow)])
def test_all_workers_killed_and_others_in_their_place(client, monkeypatch, name):
    objective = problem(LOSSES[name], "l2")
    wanted, total = undisturbed(client, objective, name, monkeypatch)
    with cluster_of(2) as fragile:
        there = elsewhere(fragile, objective, SIZES)
        first = set(fragile.nthreads())

        def act():
            for address in first:
                kill(fragile, address)

        counted = Counted(monkeypatch, total // 2, act, during=False)
        found = solve(name, there, **options(name))
        rounds = there.engine.family.rounds
        assert not first & {report.address for report in rounds.recent[-1]}
        assert rounds.n_made >= counted.before[0] + len(SIZES)
        same_bits(found, wanted)


def test_a_worker_that_joins_gets_rows(client, monkeypatch):
    objective = problem("softmax", "l2")
    wanted, total = undisturbed(client, objective, "newton", monkeypatch)
    monkeypatch.setattr("lineal.engine.dask.rounds.LOOK_SECONDS", 0.0)
    with cluster_of(1, threads=1) as growing:
        there = elsewhere(growing, objective, SIZES)
        rounds = there.engine.family.rounds
        there.engine.warm_up(note_warm_up)
        counted = Counted(monkeypatch, total // 2, lambda: join(growing, rounds), during=False)
        found = solve("newton", there, **options("newton"))
        assert counted.passes == total
        assert len({report.address for report in rounds.recent[-1]}) == 2
        assert min(growing.run(warm_ups).values()) >= 1
        same_bits(found, wanted)


def join(client, rounds):
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    client.sync(rounds._look, True)
    for future in rounds._getting_ready.values():
        assert future.key
    assert wait_until(lambda: all(future.done() for future in rounds._getting_ready.values()))


_warmed = []


def note_warm_up():
    _warmed.append(1)


def warm_ups():
    return len(_warmed)


@pytest.mark.parametrize("name", ["lbfgs", pytest.param("sparsa", marks=pytest.mark.slow)])
def test_the_number_of_workers_does_not_change_a_bit(client, monkeypatch, name):
    objective = problem(LOSSES[name], "l2")
    wanted, _ = undisturbed(client, objective, name, monkeypatch)
    with cluster_of(1) as alone:
        same_bits(solve(name, elsewhere(alone, objective, SIZES), **options(name)), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("n", [1, 4])
def test_one_two_or_four_workers(client, monkeypatch, name, n):
    objective = problem(LOSSES[name], "l2")
    wanted, _ = undisturbed(client, objective, name, monkeypatch)
    with cluster_of(n) as other:
        same_bits(solve(name, elsewhere(other, objective, SIZES), **options(name)), wanted)


def forget(share, seed):
    """Drop some of what a worker holds."""
    random = np.random.default_rng(seed)
    for holder in shares._holders.values():
        with holder.lock:
            for held in (holder.pieces, holder.rows, holder.weights):
                for place in [place for place in held if random.random() < share]:
                    del held[place]


@pytest.mark.parametrize("name", QUICK)
def test_what_workers_forget_is_made_again(client, monkeypatch, name):
    objective = problem(LOSSES[name], "l2")
    wanted, total = undisturbed(client, objective, name, monkeypatch)
    there = elsewhere(client, objective, SIZES)
    run, passes = Rounds.run, []

    def forgetful(rounds, work):
        passes.append(work)
        if len(passes) % 3 == 0:
            client.run(forget, 0.3, len(passes))
        return run(rounds, work)

    monkeypatch.setattr(Rounds, "run", forgetful)
    same_bits(solve(name, there, **options(name)), wanted)
    assert len(passes) == total
    assert there.engine.family.rounds.n_made > len(SIZES)


def test_histories_that_grow_too_long_are_cut(client, monkeypatch):
    monkeypatch.setattr("lineal.engine.dask.lineage.KEPT_STEPS", 3)
    objective = problem("softmax", "l2")
    wanted, _ = undisturbed(client, objective, "newton", monkeypatch)
    monkeypatch.setattr("lineal.engine.dask.lineage.KEPT_STEPS", 3)
    there = elsewhere(client, objective, SIZES)
    run, passes = Rounds.run, []

    def forgetful(rounds, work):
        passes.append(max((node.kept_steps for node in work.nodes), default=0))
        client.run(forget, 0.2, len(passes))
        return run(rounds, work)

    monkeypatch.setattr(Rounds, "run", forgetful)
    same_bits(solve("newton", there, **options("newton")), wanted)
    assert max(passes) == 3


# --- no workers, slow workers, Ctrl-C


def test_no_workers(client):
    with cluster_of(1) as shrinking:
        there = elsewhere(shrinking, problem("logistic", "l2"), SIZES)
        rounds, told = there.engine.family.rounds, []
        there.value(there.start())
        shrinking.cluster.scale(0)
        assert wait_until(lambda: not shrinking.nthreads())
        rounds.patience, rounds._looked, rounds.told = 1.0, 0.0, told.append
        with pytest.raises(ClusterError, match=f"{re.escape(shrinking.scheduler.address)}.*no workers.*dask worker"):
            there.value(there.start())
        assert "waiting for workers" in told[0]


def test_no_workers_from_the_start(caplog):
    with cluster_of(1) as empty:
        empty.cluster.scale(0)
        assert wait_until(lambda: not empty.nthreads())
        rows = source(empty, problem("logistic", "l2").engine, SIZES)
        rows.patience = 0.5
        for _ in range(2):
            with pytest.raises(ClusterError, match="no workers"):
                rows.facts()
        rows.close()
        assert wait_until(lambda: not tasks(empty))
        gc.collect()
        empty.sync(asyncio.sleep, 0.1)
    assert not [record for record in caplog.records if record.name == "asyncio"]


def _slow_once(block):
    time.sleep(0.8 if block.first == 0 else 0.0)
    return (1,)


def test_a_slow_worker_is_named(client):
    engine = elsewhere(client, problem("logistic", "l2"), SIZES).engine
    for _ in range(3):
        engine.sum(_slow_once)
    assert re.match(r"worker tcp://127.0.0.1:\d+ takes \d+.\d times as long as the others", engine.remark())
    for _ in range(6):
        engine.sum(_nothing_slow)
    assert engine.remark() == ""


def _nothing_slow(block):
    return (1,)


HUNG = [
    ("newton", "logistic", "max_time"),
    ("newton", "logistic", "interrupted"),
    pytest.param("admm", "hinge", "max_time", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "loss", "how"), HUNG)
def test_a_worker_that_hangs_is_named_and_the_fit_ends_with_the_best_model(client, monkeypatch, name, loss, how):
    objective, given = problem(loss, "l2"), {"tol": 1e-9, "max_iter": 8}
    counted = Counted(monkeypatch)
    minimise(solvers.get(name), elsewhere(client, objective, SIZES), **given)  # loads kernels
    monkeypatch.undo()
    monkeypatch.setattr("lineal.engine.dask.waiting.WAIT_SECONDS", 0.1)
    there, told = elsewhere(client, objective, SIZES), []
    rounds = there.engine.family.rounds
    rounds.patience, rounds.told, pids, hung = 0.8, told.append, client.run(os.getpid), []

    def hang():
        hung.append(rounds._owners[0])
        os.kill(pids[hung[0]], signal.SIGSTOP)
        if how == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)

    Counted(monkeypatch, counted.passes * 2 // 3, hang, during=False)
    max_time = {"max_time": 0.5, "interrupted": None}[how]
    try:
        found = minimise(solvers.get(name), there, max_time=max_time, **given)
    finally:
        for address in hung:
            os.kill(pids[address], signal.SIGCONT)
    assert (found.status, found.is_answered, found.certificate.value) == (how, False, 1.0)
    assert re.match(rf"waiting for worker {hung[0]} for \d+ s", told[0])
    assert f"no answer from worker {hung[0]} for" in found.message
    theta = np.vstack([found.weights, found.intercept[None, :]])
    assert objective.value(theta) < objective.value(objective.start())
    assert len(found.history) > 1


def _long(block):
    time.sleep(0.4)
    return (1,)


def run_for_long(engine):
    for _ in range(100):
        engine.sum(_long)


def test_ctrl_c_leaves_the_cluster_clean(client):
    assert wait_until(lambda: not tasks(client))
    objective = elsewhere(client, problem("logistic", "l2"), SIZES)
    wanted = objective.value(objective.start())
    before = set(tasks(client))
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_for_long(objective.engine)
    assert wait_until(lambda: set(tasks(client)) <= before)
    assert objective.value(objective.start()) == wanted
    del objective
    assert wait_until(lambda: not tasks(client))
