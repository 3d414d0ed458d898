"""Rows in random order: which order that is, that nothing else changes, and that it comes again."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import lineal
from lineal.core.rng import generator
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.errors import CheckpointError, DataError, OptionError
from lineal.online.arrival import Arrival
from lineal.online.fit import array_blocks, fit_online
from lineal.online.learner_rows import ArrayRows, array_rows
from lineal.online.on_threads import OnThreads
from lineal.online.options import OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.shuffled import ONCE, Shuffle, _exchanged, through_buffer
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Block
from lineal.problem.checkpoint import EVERY_VARIABLE

HOW = Shuffle(16, 0, 0, NUMBERS, Arrival(NUMBERS))


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks of 16 rows."""
    monkeypatch.setattr("lineal.online.fit.CHUNK_ROWS", 16)
    monkeypatch.setattr("lineal.online.shuffled.PIECE_ROWS", 16)


def rows(seed=0, n=200):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n, 12), density=0.4, rng=random, format="csr", dtype=np.float32)
    return X, (X @ random.normal(size=(12, 3)) + 0.1 * random.normal(size=(n, 3)))


def labels(scores, kind):
    if kind == NUMBERS:
        return scores[:, 0]
    if kind == SETS:
        return sparse.csr_array((scores > 0.3).astype(np.int8))
    return np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]


def numbered(n, step=16):
    """Blocks whose rows have their numbers as labels."""
    numbers = np.arange(n, dtype=np.float64)
    for first in range(0, n, step):
        part = numbers[first : first + step]
        yield Block(part[:, None] + 1.0, part)


def order_through(n, how=HOW, step=16):
    return np.concatenate([np.zeros(0), *(block.y for block in through_buffer(numbered(n, step), how))])


# --- the order


def naive_buffer(n, size, drawn):
    """Which rows leave and which stay, one row after the other."""
    held, leaving = list(range(min(n, size))), []
    for row, place in zip(range(size, n), drawn):
        leaving.append(held[place])
        held[place] = row
    return leaving, held


@pytest.mark.parametrize(("n", "size"), [(0, 4), (3, 4), (4, 4), (5, 4), (60, 4), (60, 50), (1000, 7)])
def test_the_buffer_is_that_of_a_plain_loop(n, size):
    leaving, kept = _exchanged(n, size, generator(3))
    drawn: np.ndarray = np.empty(max(0, n - size))
    from lineal.core.rng import fill_uniform

    fill_uniform(generator(3), drawn)
    assert (leaving.tolist(), kept.tolist()) == naive_buffer(n, size, (drawn * size).astype(int).tolist())


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 24, 25, 100, 1000])
def test_every_row_comes_once_whatever_the_blocks_are(n):
    found = [order_through(n, step=step) for step in (1, 7, 16, 5000)]
    assert sorted(found[0].tolist()) == list(range(n))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_orders_depend_on_seed_and_pass():
    found = {tuple(order_through(300, HOW._replace(seed=seed, stream=stream))) for seed in (0, 1) for stream in (0, 1)}
    assert len(found) == 4


def test_a_buffer_for_all_rows_gives_every_order_equally_often():
    counts = Counter(tuple(order_through(4, HOW._replace(seed=seed))) for seed in range(4800))
    assert len(counts) == 24
    assert max(abs(count - 200) for count in counts.values()) < 5 * 200**0.5


def test_a_row_leaves_the_buffer_after_a_geometric_time():
    n, size = 20_000, 100
    positions = np.empty(n)
    positions[order_through(n, HOW._replace(size=size), step=1000).astype(int)] = np.arange(n)
    delays = positions[:15_000] - np.arange(15_000) + size
    assert delays[size:].min() >= 1  # no row comes before it was read
    assert delays[size:].mean() == pytest.approx(size, rel=0.05)


def test_the_stream_is_closed_with_the_result():
    closed = []

    def stream():
        try:
            yield from numbered(100)
        finally:
            closed.append(True)

    found = through_buffer(stream(), HOW)
    next(found)
    found.close()
    assert closed == [True]


def test_weights_namespaces_and_labels_stay_with_their_rows():
    random = np.random.default_rng(0)
    X = sparse.random_array((100, 9), density=0.4, rng=random, format="csr", dtype=np.float32)
    kinds = (X.data * 200).astype(np.uint8)
    for y in (np.arange(100.0), np.arange(100).astype("U3"), sparse.csr_array(np.eye(100, dtype=bool))):
        whole = Block(X, y, np.arange(100.0) + 0.5, kinds)
        blocks = [whole.rows(first, first + 7) for first in range(0, 98, 7)] + [
            replace(whole.rows(98, 100), weights=None)
        ]
        seen = []
        kind = SETS if sparse.issparse(y) else CLASSES
        for block in through_buffer(blocks, HOW._replace(kind=kind, arrival=Arrival(kind))):
            own = block.y.indices if sparse.issparse(block.y) else np.asarray(block.y).astype(float).astype(int)
            np.testing.assert_array_equal(block.X.toarray(), X[own].toarray())
            np.testing.assert_array_equal(block.kinds, (block.X.data * 200).astype(np.uint8))
            np.testing.assert_array_equal(block.weights, np.where(own < 98, own + 0.5, 1.0))
            seen += own.tolist()
        assert sorted(seen) == list(range(100))


# --- learning


def fit(X, y, kind=CLASSES, learners=1, threads=1, **given):
    options = OnlineOptions(bits=10, shuffle=True, learners=learners, **given).checked()
    known = np.arange(3) if kind == SETS else None
    if learners == 1:
        own = ArrayRows(X, y, None, None, 0, X.shape[0])
        trainer, run = fit_online(
            own.blocks, options, kind, classes=known, n_examples=X.shape[0], width=12, shuffled=own.shuffled
        )
    else:
        parts = array_rows(X, y, None, None, learners, Shuffle.of(options, kind, ONCE))
        trainer, run, _ = learn_together(OnThreads(parts, threads), options, kind, classes=known, width=12)
    own, tensors = trainer.model(run.status).to_parts()
    return own, {name: tensor.tolist() for name, tensor in tensors.items()}, run.history, run.message


@pytest.mark.parametrize("kind", [CLASSES, NUMBERS, SETS])
def test_arrays_are_learned_in_the_order_of_a_permutation(kind):
    X, scores = rows()
    y = labels(scores, kind)
    order = Shuffle(2, 5, 0, kind, Arrival(kind)).permutation(200)
    options = OnlineOptions(bits=10)
    known = np.arange(3) if kind == SETS else None
    trainer, run = fit_online(lambda: array_blocks(X[order], y[order]), options, kind, classes=known, width=12)
    found = fit(X, y, kind, random_state=5)
    assert found[2] == run.history
    assert found[1] == {name: tensor.tolist() for name, tensor in trainer.model().to_parts()[1].items()}
    dense = fit(X.toarray(), y, kind, random_state=5)
    assert dense[2] == found[2]


def test_passes_have_different_orders_and_come_again():
    X, scores = rows()
    y = labels(scores, CLASSES)
    once, other = fit(X, y, passes=3, hold_out=0), fit(X, y, passes=3, hold_out=0, random_state=1)
    assert once == fit(X, y, passes=3, hold_out=0)
    assert once[2] != other[2]
    order = Shuffle(2, 0, 0, CLASSES, Arrival(CLASSES)).permutation(200)
    same_order = OnlineOptions(bits=10, passes=3, hold_out=0)
    run = fit_online(lambda: array_blocks(X[order], y[order]), same_order, CLASSES, width=12)[1]
    assert once[2][: len(run.history) // 3] == run.history[: len(run.history) // 3]
    assert once[2] != run.history


def test_learners_share_random_rows_whatever_the_threads():
    X, scores = rows()
    y = labels(scores, CLASSES)
    order = np.argsort(y)
    found = [fit(X[order], y[order], learners=3, threads=threads, passes=2) for threads in (1, 2)]
    assert found[0] == found[1]
    parts = array_rows(X, y, None, None, 3, Shuffle(2, 0, ONCE, CLASSES, Arrival(CLASSES)))
    drawn = np.concatenate([part.drawn for part in parts])
    assert sorted(drawn.tolist()) == list(range(200))
    assert not np.array_equal(drawn, np.sort(drawn))


@pytest.mark.parametrize(
    "given", [{"expansion": "adaptive", "passes": 2}, {"rate": "tune"}, {"passes": 3, "hold_out": 5}]
)
def test_the_other_options_work_with_it(given):
    X, scores = rows()
    y = labels(scores, CLASSES)
    found = lineal.OnlineClassifier(bits=10, shuffle=True, **given).fit(X, y)
    again = lineal.OnlineClassifier(bits=10, shuffle=True, n_jobs=1, **given).fit(X, y)
    np.testing.assert_array_equal(found.decision_function(X), again.decision_function(X))
    assert found.score(X, y) > 0.7


@pytest.mark.parametrize("learners", [1, 2])
def test_files_are_shuffled_through_a_buffer(tmp_path, learners):
    X, scores = rows(n=400)
    y = (scores[:, 0] > 0).astype(int)
    write_layout(Dataset(X, y), tmp_path / "t.arrow")
    given = {"bits": 10, "shuffle": True, "learners": learners, "passes": 2, "hold_out": 0}
    found = lineal.OnlineClassifier(**given, shuffle_buffer=64).fit(tmp_path / "t.arrow")
    again = lineal.OnlineClassifier(**given, shuffle_buffer=64, n_jobs=1).fit(tmp_path / "t.arrow")
    np.testing.assert_array_equal(found.decision_function(X), again.decision_function(X))
    other = lineal.OnlineClassifier(**given, shuffle_buffer=65).fit(tmp_path / "t.arrow")
    plain = lineal.OnlineClassifier(**{**given, "shuffle": False}).fit(tmp_path / "t.arrow")
    assert (
        len(
            {found.history_[-1]["average_loss"], other.history_[-1]["average_loss"], plain.history_[-1]["average_loss"]}
        )
        == 3
    )


# --- checkpoints


class Killed(Exception):
    """What a kill is in these tests: an exception before a block is read."""


def killed_after(count, blocks):
    for number, block in enumerate(blocks):
        if number == count:
            raise Killed
        yield block


@pytest.mark.parametrize("has_buffer", [False, True])
@pytest.mark.parametrize(
    ("kind", "given"), [(CLASSES, {"passes": 3, "hold_out": 7}), (NUMBERS, {}), (SETS, {"rate": "tune"})]
)
def test_a_killed_learner_ends_with_the_same_model(tmp_path, monkeypatch, kind, given, has_buffer):
    monkeypatch.setenv(EVERY_VARIABLE, "0")
    X, scores = rows()
    y, path = labels(scores, kind), str(tmp_path / "c")
    options = OnlineOptions(bits=10, shuffle=True, shuffle_buffer=40, **given)
    own = ArrayRows(X, y, None, None, 0, 200)

    def learn(options, cut=lambda blocks: blocks):
        if has_buffer:
            how = {"blocks": lambda: cut(own.blocks())}
        else:
            how = {"blocks": own.blocks, "shuffled": lambda shuffle: cut(own.shuffled(shuffle))}
        known = np.arange(3) if kind == SETS else None
        trainer, run = fit_online(how.pop("blocks"), options, kind, classes=known, width=12, **how)
        parts = trainer.model(run.status).to_parts()
        return parts[0], {name: tensor.tolist() for name, tensor in parts[1].items()}, run.history, run.message

    wanted, options = learn(options), replace(options, checkpoint=path)
    for count in (8, 11, 6):
        with pytest.raises(Killed):
            learn(options, lambda blocks, count=count: killed_after(count, blocks))
    assert os.path.exists(path)
    with pytest.raises(CheckpointError, match="random_state is None there, 3 here"):
        learn(replace(options, random_state=3))
    assert learn(options) == wanted
    assert not os.path.exists(path)


def test_several_learners_continue_after_a_pass(tmp_path, monkeypatch):
    X, scores = rows()
    y, path = labels(scores, CLASSES), str(tmp_path / "c")
    options = OnlineOptions(bits=10, shuffle=True, learners=2, passes=3, hold_out=0).checked()
    parts = array_rows(X, y, None, None, 2, Shuffle.of(options, CLASSES, ONCE))

    class Place(OnThreads):
        passes_left = 9

        def run(self, job, state, show):
            if not self.passes_left:
                raise Killed
            self.passes_left -= 1
            return super().run(job, state, show)

    wanted = learn_together(Place(parts, 1), options, CLASSES, width=12)
    options = replace(options, checkpoint=path)
    place = Place(parts, 1)
    place.passes_left = 1
    with pytest.raises(Killed):
        learn_together(place, options, CLASSES, width=12)
    found = learn_together(Place(parts, 2), options, CLASSES, width=12)
    assert found.run.history == wanted.run.history
    np.testing.assert_array_equal(found.trainer.learner.weights(), wanted.trainer.learner.weights())


# --- what is refused


def test_messages_number_the_rows_of_the_data(tmp_path):
    X, scores = rows()
    X, y = X.toarray(), scores[:, 0].copy()
    X[123, 4] = 1e31
    for learners in (1, 2):
        for given in (X, sparse.csr_array(X)):
            with pytest.raises(DataError, match=r"row 123 of X has the value 1e\+31"):
                lineal.OnlineRegressor(shuffle=True, learners=learners).fit(given, y)
    y[77], X[123, 4] = -1e31, 1.0
    with pytest.raises(DataError, match=r"y\[77\] is -1e\+31"):
        lineal.OnlineRegressor(shuffle=True).fit(X, y)
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "".join(f"{1e31 if row == 60 else row},{row % 3}\n" for row in range(100)))
    with pytest.raises(DataError, match=r"row 60 of X"):
        lineal.OnlineClassifier(shuffle=True, shuffle_buffer=8).fit(path)


def test_options_that_cannot_be_honoured():
    X, scores = rows()
    y = labels(scores, CLASSES)
    for given, said in (
        ({"shuffle": 1}, "shuffle=1 is neither True nor False"),
        ({"shuffle": True, "shuffle_buffer": 1}, "shuffle_buffer=1 is not an integer ≥ 2"),
        ({"shuffle_buffer": 100}, "shuffle_buffer=100 is for rows in random order: set shuffle"),
        ({"shuffle": True, "shuffle_buffer": 100}, "shuffle_buffer is for files and Dask collections"),
        ({"shuffle": True, "random_state": -1}, "random_state=-1 is not an integer ≥ 0 and below 2.64, or None"),
        ({"shuffle": True, "random_state": 2**64}, f"random_state={2**64} is not an integer ≥ 0"),
    ):
        with pytest.raises(OptionError, match=said):
            lineal.OnlineClassifier(**given).fit(X, y)


def test_texts_and_numbers_do_not_become_texts_in_the_buffer():
    X = np.ones((20, 1))
    blocks = [Block(X, np.arange(20)), Block(X, np.arange(20).astype(str))]
    with pytest.raises(DataError, match="texts for labels, and the classes so far are numbers"):
        list(through_buffer(blocks, HOW._replace(kind=CLASSES, size=100, arrival=Arrival(CLASSES))))


def test_a_buffer_beyond_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr("lineal.system.memory.WORTH_ASKING", 0)
    monkeypatch.setattr("lineal.system.memory.available_memory", lambda: 100)
    with pytest.raises(DataError, match=r"shuffle_buffer=16 rows need .* lower shuffle_buffer"):
        list(through_buffer(numbered(100), HOW))
    assert len(order_through(15)) == 15
