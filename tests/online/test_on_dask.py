"""Learners on the workers of a Dask cluster: the same bits as on threads, whatever happens to the workers."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import lineal
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.errors import ClusterError, DataError, OptionError
from lineal.online.learner_rows import ArrayRows, PartitionRows, array_rows
from lineal.online.on_threads import OnThreads
from lineal.online.options import OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.trainer import CLASSES, NUMBERS

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

N = 300


def rows(seed=0, n=N):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n, 12), density=0.4, rng=random, format="csr", dtype=np.float32)
    return X, (X @ random.normal(size=(12, 3)) + 0.1 * random.normal(size=(n, 3)))


def options_of(**given):
    return OnlineOptions(bits=10, **given).checked()


def parts_of(learned):
    own, tensors = learned.trainer.model(learned.run.status).to_parts()
    return own, {name: tensor.tolist() for name, tensor in tensors.items()}, learned.run.history, learned.run.message


def on_dask(client, parts):
    from lineal.online.on_dask import OnDask

    return OnDask(client, parts)


@contextmanager
def cluster_of(n):
    """A client of a cluster of its own, whose workers can be killed; Dask starts others in their place."""
    from lineal.engine.dask.cluster import local_cluster

    with local_cluster(n, None, 1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


LEARNERS = [
    (CLASSES, {"passes": 3, "hold_out": 7}),
    (NUMBERS, {"expansion": "adaptive", "schedule": "equal", "epochs": 4, "passes": 2}),
    (NUMBERS, {"rate": "tune", "passes": 2, "hold_out": 0}),
]


@pytest.mark.parametrize(("kind", "given"), LEARNERS, ids=str)
def test_the_same_bits_as_on_threads(client, kind, given):
    X, scores = rows()
    y = scores[:, 0] if kind == NUMBERS else np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]
    parts = array_rows(X, y, None, None, 3)
    wanted = learn_together(OnThreads(parts, 1), options_of(**given), kind, width=12)
    found = learn_together(on_dask(client, parts), options_of(**given), kind, width=12)
    assert parts_of(found) == parts_of(wanted)


@pytest.mark.parametrize(
    ("chunks", "bounds"), [((100, 100, 100), (0, 100, 200, N)), ((40, 0, 60, 90, 110), (0, 100, 190, N))]
)
def test_collections(client, chunks, bounds):
    X, scores = rows()
    X = X.toarray().astype(np.float64)
    y = (scores[:, 0] > 0).astype(int)
    weights = np.random.default_rng(1).random(N)
    collection = [da.from_array(one, chunks=(chunks, *one.shape[1:])) for one in (X, y, weights)]
    found = lineal.OnlineClassifier(learners=3, passes=2).fit(*collection[:2], collection[2])
    parts = [ArrayRows(X, y, weights, None, *pair) for pair in itertools.pairwise(bounds)]
    wanted = learn_together(
        OnThreads(parts, 1), OnlineOptions(learners=3, passes=2).checked(), CLASSES, classes=np.array([0, 1]), width=12
    )
    np.testing.assert_array_equal(found.decision_function(X), wanted.trainer.model().scores(X))
    assert found.history_ == wanted.run.history
    lazy = found.predict(collection[0])
    np.testing.assert_array_equal(lazy.compute(), found.predict(X))
    numbers = lineal.OnlineRegressor(learners=2).fit(collection[0], da.from_array(scores[:, 0], chunks=(chunks,)))
    np.testing.assert_array_equal(numbers.predict(collection[0]).compute(), numbers.predict(X))
    sets = da.from_array((scores > 0).astype(int), chunks=(chunks, 3))
    assert lineal.OnlineClassifier(learners=2).fit(collection[0], sets).predict(X).shape == (N, 3)


def test_collections_in_random_order(client):
    """Every learner shuffles its own partitions, which cannot mix those of different learners."""
    from lineal.engine.source import RawRows

    X, scores = rows()
    X, y = X.toarray(), (scores[:, 0] > 0).astype(int)
    chunked = [da.from_array(one, chunks=(50, *one.shape[1:])) for one in (X, y)]
    options = OnlineOptions(learners=3, passes=2, shuffle=True, shuffle_buffer=30).checked()
    found = lineal.OnlineClassifier(learners=3, passes=2, shuffle=True, shuffle_buffer=30).fit(*chunked)
    parts = [RawRows(X[first : first + 50], y[first : first + 50]) for first in range(0, N, 50)]
    own = [PartitionRows(CLASSES, None, tuple(parts[first : first + 2])) for first in (0, 2, 4)]
    wanted = learn_together(OnThreads(own, 1), options, CLASSES, classes=np.array([0, 1]), width=12)
    np.testing.assert_array_equal(found.decision_function(X), wanted.trainer.model().scores(X))
    assert found.history_ == wanted.run.history
    X, scores = rows(n=1200)
    X, y = X.toarray(), np.sort((scores[:, 0] > np.median(scores[:, 0])).astype(int))
    chunked = [da.from_array(one, chunks=(200, *one.shape[1:])) for one in (X, y)]
    with pytest.warns(UserWarning, match=r"not in random order.*Every learner shuffles its own rows"):
        lineal.OnlineClassifier(learners=2, shuffle=True).fit(*chunked)
    lineal.OnlineClassifier(shuffle=True).fit(*chunked)


def test_collections_that_are_refused(client):
    X, scores = rows()
    X, y = da.from_array(X.toarray(), chunks=(100, 12)), da.from_array(scores[:, 0], chunks=(100,))
    with pytest.raises(DataError, match="learners=4 are more than the 3 partitions: cut X into more of them"):
        lineal.OnlineRegressor(learners=4).fit(X, y)
    with pytest.raises(OptionError, match="engine='local' cannot read Dask collections"):
        lineal.OnlineRegressor(learners=2, engine="local").fit(X, y)
    with pytest.raises(DataError, match="expected one number per row"):
        lineal.OnlineRegressor(learners=2).fit(X, da.from_array(scores, chunks=(100, 3)))


def test_files(client, tmp_path):
    X, scores = rows()
    y = (scores[:, 0] > 0).astype(int)
    for number, part in enumerate((slice(0, 100), slice(100, N))):
        write_layout(Dataset(X[part], y[part]), tmp_path / f"{number}.arrow")
    given = {"learners": 4, "passes": 2, "expansion": "adaptive", "bits": 12}
    wanted = lineal.OnlineClassifier(**given, engine="local").fit(tmp_path)
    for engine in ("auto", "dask"):
        found = lineal.OnlineClassifier(**given, engine=engine).fit(tmp_path)
        np.testing.assert_array_equal(found.decision_function(X), wanted.decision_function(X))
        assert found.history_ == wanted.history_
    alone = lineal.OnlineClassifier(engine="dask").fit(tmp_path)
    np.testing.assert_array_equal(
        alone.decision_function(X), lineal.OnlineClassifier(engine="local").fit(tmp_path).decision_function(X)
    )
    (tmp_path / "bad.svm").write_text("1 0:1\n-1 0:2\n1 0:x\n-1 0:1\n")
    with pytest.raises(DataError, match=r"bad\.svm:3:5"):
        lineal.OnlineClassifier(learners=2, engine="dask").fit(tmp_path / "bad.svm")


# --- what happens to workers


@dataclass
class Held(ArrayRows):
    """Rows of a learner that tells which process it is in, and waits in its third block for a file "go"."""

    folder: str = ""
    passes: int = 1

    def blocks(self):
        own = os.path.join(self.folder, f"{self.start}-")
        for number, block in enumerate(super().blocks()):
            if number == 2 and not os.path.exists(os.path.join(self.folder, "go")):
                with open(f"{own}{os.getpid()}.part", "w"):
                    pass
                os.rename(f"{own}{os.getpid()}.part", f"{own}{os.getpid()}")
                while not os.path.exists(os.path.join(self.folder, "go")):
                    time.sleep(0.01)
            yield block
        open(f"{own}end", "w").close()


def processes(folder, start):
    """Processes in which a learner has waited."""
    names = [name for name in os.listdir(folder) if name.startswith(f"{start}-") and name.rpartition("-")[2].isdigit()]
    return [int(name.partition("-")[2]) for name in names]


def wait_until(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def long_rows(folder, n=2, size=3 * 8192):
    X, scores = rows(n=n * size)
    y = scores[:, 0]
    parts = [ArrayRows(X, y, None, None, start, start + size) for start in range(0, n * size, size)]
    held = [
        Held(X[one.start : one.stop], y[one.start : one.stop], None, None, 0, size, folder=str(folder)) for one in parts
    ]
    for number, one in enumerate(held):
        one.folder = str(folder / str(number))
        os.makedirs(one.folder)
    return parts, held


def go(held):
    for one in held:
        open(os.path.join(one.folder, "go"), "w").close()


def test_a_worker_that_is_killed_in_mid_pass(tmp_path):
    parts, held = long_rows(tmp_path)
    options = options_of(passes=2, hold_out=0)
    wanted = learn_together(OnThreads(parts, 2), options, NUMBERS, width=12)
    with cluster_of(2) as client:

        def act():
            assert wait_until(lambda: processes(held[1].folder, 0))
            victim = processes(held[1].folder, 0)[0]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(processes(held[1].folder, 0)) > 1)  # it runs again
            go(held)

        thread = threading.Thread(target=act)
        thread.start()
        found = learn_together(on_dask(client, held), options, NUMBERS, width=12)
        thread.join()
        assert len(processes(held[1].folder, 0)) > 1
    assert parts_of(found) == parts_of(wanted)


@pytest.mark.slow
def test_all_workers_killed_between_passes(tmp_path):
    X, scores = rows()
    parts = array_rows(X, scores[:, 0], None, None, 3)
    options = options_of(passes=3, hold_out=0)
    wanted = learn_together(OnThreads(parts, 1), options, NUMBERS, width=12)
    with cluster_of(2) as client:
        place = on_dask(client, parts)
        run, passes = place.run, []

        def killing(job, state, show):
            passes.append(1)
            if len(passes) == 2:
                for pid in client.run(os.getpid).values():
                    os.kill(pid, signal.SIGKILL)
            return run(job, state, show)

        place.run = killing
        found = learn_together(place, options, NUMBERS, width=12)
    assert parts_of(found) == parts_of(wanted)


def test_no_workers():
    X, scores = rows()
    with cluster_of(1) as client:
        client.cluster.scale(0)
        assert wait_until(lambda: not client.nthreads())
        place, told = on_dask(client, array_rows(X, scores[:, 0], None, None, 2)), []
        place.tasks.patience, place.tasks.told = 1.0, told.append
        with pytest.raises(ClusterError, match=f"{re.escape(client.scheduler.address)}.*no workers.*dask worker"):
            learn_together(place, options_of(), NUMBERS, width=12)
        assert "waiting for workers" in told[0]


@pytest.mark.slow
def test_a_slow_learner_is_named(client, tmp_path):
    _, held = long_rows(tmp_path)
    go(held[:1])
    place, told = on_dask(client, held), []

    def tell(line):
        told.append(line)
        go(held)

    place.tasks.told = tell
    learn_together(place, options_of(), NUMBERS, width=12)
    assert re.match(r"waiting for learner 2 of 2 on worker tcp://127.0.0.1:\d+: \d+ s, and the others took", told[0])


@pytest.mark.slow
def test_a_learner_that_never_answers(tmp_path):
    parts, held = long_rows(tmp_path)
    go(held[:1])
    with cluster_of(2) as client:
        place = on_dask(client, held)
        learn_together(on_dask(client, parts), options_of(), NUMBERS, width=12)  # kernels are loaded now
        place.tasks.patience = 1.0
        with pytest.raises(
            ClusterError, match=r"time was over: .*learner 2 of 2 on worker tcp://127.0.0.1:\d+.*; end that"
        ):
            learn_together(place, options_of(max_time=2.0), NUMBERS, width=12)
        go(held)


@dataclass
class Endless(ArrayRows):
    """Rows that come again and again, slowly."""

    def blocks(self):
        while True:
            for block in super().blocks():
                time.sleep(0.02)
                yield block


def test_learners_that_wait_for_a_thread_share_the_time(client):
    X, scores = rows()
    y, n = scores[:, 0], 8
    learn_together(on_dask(client, array_rows(X, y, None, None, 2)), options_of(), NUMBERS, width=12)  # loads kernels
    place = on_dask(client, [Endless(X, y, None, None, 30 * start, 30 * start + 30) for start in range(n)])
    place.tasks.patience = 1.0  # less than two more learners would take if each had all of the time
    found = learn_together(place, options_of(max_time=1.0), NUMBERS, width=12)
    assert found.run.status == "max_time"
    assert found.trainer.learner.examples >= 30 * n


@dataclass
class Broken(ArrayRows):
    """Rows whose reader has a fault; it notes every attempt."""

    folder: str = ""

    def blocks(self):
        open(os.path.join(self.folder, f"{self.start}-{time.monotonic_ns()}"), "w").close()
        raise ZeroDivisionError("a fault of the reader")
        yield


def test_a_fault_on_a_worker_comes_back_at_once_as_it_is(client, tmp_path):
    X, scores = rows()
    parts = [Broken(X, scores[:, 0], None, None, start, start + 150, folder=str(tmp_path)) for start in (0, 150)]
    with pytest.raises(ZeroDivisionError, match="a fault of the reader") as caught:
        learn_together(on_dask(client, parts), options_of(), NUMBERS, width=12)
    assert re.match(r"learner 1 of 2 on worker tcp://127.0.0.1:\d+:\nTraceback", str(caught.value.__cause__))
    assert len(os.listdir(tmp_path)) == 2


def states(dask_worker):
    """States of the tasks of a worker."""
    return [task.state for task in dask_worker.state.tasks.values()]


def test_ctrl_c_in_the_second_pass_returns_the_last_average(client, tmp_path):
    parts, held = long_rows(tmp_path)
    wanted = learn_together(OnThreads(parts, 2), options_of(), NUMBERS, width=12)
    place = on_dask(client, parts)
    run = place.run

    def interrupted(job, state, show):
        if state is None:
            return run(job, state, show)
        place.rows = held
        thread = threading.Thread(target=interrupt)
        thread.start()
        return run(job, state, show)

    def interrupt():
        wait_until(lambda: processes(held[0].folder, 0))
        os.kill(os.getpid(), signal.SIGINT)

    place.run = interrupted
    found = learn_together(place, options_of(passes=3, hold_out=0), NUMBERS, width=12)
    assert found.run.status == "interrupted"
    np.testing.assert_array_equal(found.trainer.learner.weights(), wanted.trainer.learner.weights())
    assert wait_until(
        lambda: "executing" not in {state for own in client.run(states).values() for state in own}
    )  # no result is wanted
    go(held)
    assert wait_until(lambda: not any(client.run(states).values()))
    assert not any(name.endswith("end") for one in held for name in os.listdir(one.folder))  # they ended early


def test_partitions_of_a_learner_are_its_rows():
    X, scores = rows()
    from lineal.engine.source import RawRows

    parts = tuple(RawRows(X[start : start + 100], scores[start : start + 100, 0]) for start in (0, 100))
    found = PartitionRows(NUMBERS, None, parts)
    assert found.count() == 200
    np.testing.assert_array_equal(np.concatenate([block.y for block in found.blocks()]), scores[:200, 0])
    with pytest.raises(DataError, match="online learners have no offsets: leave them out"):
        list(PartitionRows(NUMBERS, None, (*parts, parts[0]._replace(offsets=np.zeros((100, 1))))).blocks())
