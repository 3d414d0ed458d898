"""Several learners of one model: the same result wherever they are, passes, limits, interrupts and checkpoints."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

import lineal
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.errors import CheckpointError, DataError, OptionError, Unanswered
from lineal.online.average import average
from lineal.online.fit import array_blocks
from lineal.online.learner_pass import Answer, Job, Watch, learn
from lineal.online.learner_rows import ArrayRows, array_rows
from lineal.online.on_threads import OnThreads
from lineal.online.options import OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.state import PASS_EXAMPLES
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Trainer

N = 240


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks of 16 rows."""
    monkeypatch.setattr("lineal.online.fit.CHUNK_ROWS", 16)


def rows(seed=0, n=N):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n, 12), density=0.4, rng=random, format="csr", dtype=np.float32)
    return X, (X @ random.normal(size=(12, 3)) + 0.1 * random.normal(size=(n, 3)))


def labels(scores, kind):
    if kind == NUMBERS:
        return scores[:, 0]
    if kind == SETS:
        return sparse.csr_array((scores > 0.3).astype(np.int8))
    return np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]


def options_of(**given):
    return OnlineOptions(bits=10, **given).checked()


def parts_of(learned):
    own, tensors = learned.trainer.model(learned.run.status).to_parts()
    return own, {name: tensor.tolist() for name, tensor in tensors.items()}, learned.run.history, learned.run.message


LEARNERS = [
    (CLASSES, {}),
    (CLASSES, {"passes": 3, "hold_out": 7, "patience": 1}),
    (CLASSES, {"rate": "tune", "passes": 2}),
    (CLASSES, {"expansion": "adaptive", "schedule": "equal", "heuristic": "ssm", "passes": 2}),
    (NUMBERS, {"passes": 4, "patience": 1, "l2": 1e-4}),
    (NUMBERS, {"expansion": "adaptive", "schedule": "equal", "epochs": 4, "picky": True, "passes": 2}),
    (NUMBERS, {"loss": "quantile", "tau": 0.3, "adaptive": False, "l1": 1e-3}),
    (SETS, {"expansion": "quadratic"}),
]


def together(X, y, kind, options, n=3, threads=2, known=None):
    classes = np.arange(3) if kind == SETS else known
    place = OnThreads(array_rows(X, y, None, None, n), threads)
    return learn_together(place, options, kind, classes=classes, width=12)


@pytest.mark.parametrize(("kind", "given"), LEARNERS, ids=str)
def test_the_number_of_threads_does_not_matter(kind, given):
    X, scores = rows()
    y, options = labels(scores, kind), options_of(**given)
    found = [parts_of(together(X, y, kind, options, threads=threads)) for threads in (1, 2, 3)]
    assert found[0] == found[1] == found[2]
    other = parts_of(together(X, y, kind, options, n=2))
    assert other[1]["weights"] != found[0][1]["weights"]


@pytest.mark.parametrize("kind", [CLASSES, NUMBERS])
def test_two_passes_by_hand(kind):
    """Each learner goes on from the average, with its own rows."""
    X, scores = rows()
    y, options = labels(scores, kind), options_of(passes=2, hold_out=0)
    wanted: Trainer | None = None
    for _ in range(2):
        states = []
        for first in range(0, N, 80):
            trainer = Trainer(options, kind, None, None, 12)
            if wanted is not None:
                trainer.restore(wanted.loop_state())
                trainer.learner.counts = trainer.learner.counts * (first == 0)
            trainer.learner.start_pass()
            for block in array_blocks(X, y, None, None, first, first + 80):
                trainer.feed(block)
            states.append(trainer.loop_state())
        wanted = Trainer(options, kind, None, None, 12)
        average(wanted, states)
    found = together(X, y, kind, options)
    np.testing.assert_array_equal(found.trainer.learner.weights(), wanted.learner.weights())
    assert found.trainer.learner.examples == 2 * N == wanted.learner.examples
    assert found.run.history[-1]["average_loss"] == pytest.approx(wanted.loss(), rel=1e-12)


def test_the_history_adds_up_all_learners():
    X, scores = rows()
    found = together(X, labels(scores, NUMBERS), NUMBERS, options_of(passes=2, patience=5))
    examples = [row["examples"] for row in found.run.history]
    assert examples == 2 * [3, 6, 12, 24, 48, 96, 192, 240]
    assert [row["pass"] for row in found.run.history] == [1.0] * 8 + [2.0] * 8
    alone = [together(X[n : n + 80], scores[n : n + 80, 0], NUMBERS, options_of(), n=1) for n in (0, 80, 160)]
    losses = [one.run.history[-1]["average_loss"] for one in alone]
    one_pass = together(X, scores[:, 0], NUMBERS, options_of())
    assert one_pass.run.history[-1]["average_loss"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert 0 < found.run.history[-1]["held_out_loss"] < found.run.history[7]["held_out_loss"]


# --- adaptive products


def products(n=3000, seed=1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8))
    return X, np.where(X[:, 2] * X[:, 5] + 0.3 * X[:, 1] > 0.0, "up", "down")


def test_parents_are_those_that_all_learners_find_alone():
    X, y = products()
    given = {"expansion": "adaptive", "schedule": "equal", "epochs": 4, "growth": 0.5}
    found = together(X, y, CLASSES, options_of(**given, passes=2, hold_out=0), n=2)
    parents = []
    for first in (0, 1500):
        alone = together(X[first : first + 1500], y[first : first + 1500], CLASSES, options_of(**given), n=1)
        parents += alone.trainer.learner.parents.monomials
    assert found.trainer.learner.parents.monomials == list(dict.fromkeys(parents))
    assert len(set(parents)) > 6  # each learner alone has three epochs of two
    assert {row["parents"] for row in found.run.history if row["pass"] == 2.0} == {float(len(set(parents)))}


@pytest.mark.parametrize("passes", [1, 3])
def test_planted_products_are_found(passes):
    X, y = products(6000)
    for learners in (1, 3):
        model = lineal.OnlineClassifier(
            expansion="adaptive", learners=learners, passes=passes, hold_out=0 * passes + 10
        )
        model.fit(X[:5000], y[:5000])
        assert model.model_.monomials(least=2)[0][0] == (2, 5)
        assert model.score(X[5000:], y[5000:]) > 0.9


# --- unequal learners


def test_a_learner_whose_rows_end_early_waits():
    X, scores = rows()
    y = labels(scores, NUMBERS)
    place = OnThreads([ArrayRows(X, y, None, None, 0, 200), ArrayRows(X, y, None, None, 200, 207)], 2)
    found = learn_together(place, options_of(passes=2, hold_out=0), NUMBERS, width=12)
    assert found.trainer.learner.examples == 2 * 207
    alone = learn_together(OnThreads(place.rows[:1], 1), options_of(), NUMBERS, width=12)
    error, wanted = (np.mean((one.trainer.model().predict(X) - y) ** 2) for one in (found, alone))
    assert error < 1.1 * wanted


def test_classes_in_one_learner_only():
    X, scores = rows()
    y = labels(scores, CLASSES)
    order = np.argsort(y != "cedar", kind="stable")  # all cedars come first
    with pytest.warns(UserWarning, match="the rows of 'cedar' come in 1 run"):
        found = together(X[order], y[order], CLASSES, options_of(passes=5, hold_out=0), n=2)
    assert sorted(found.trainer.classes.tolist()) == ["ash", "birch", "cedar"]
    assert np.mean(found.trainer.model().predict(X) == y) > 0.6
    with pytest.warns(UserWarning, match="the labels come in 2 runs"):
        ones = together(X[order], np.where(y[order] == "cedar", "x", "y"), CLASSES, options_of(), n=3)
    assert ones.trainer.classes.tolist() == ["x", "y"]


def test_rows_without_labels_or_examples():
    X, _scores = rows(n=8)
    y = np.full(8, np.nan)
    with pytest.raises(DataError, match="there are no labels"):
        together(X, y, CLASSES, options_of(), n=2)
    y[7] = 1.0
    assert together(X, y, CLASSES, options_of(), n=2).trainer.classes.tolist() == [1.0]
    with pytest.raises(DataError, match="learners=9 are more than the 8 rows: use at most 8"):
        lineal.OnlineClassifier(learners=9).fit(X, np.arange(8) % 2)


def test_a_learner_that_diverges_is_named():
    X, scores = rows()
    y = labels(scores, NUMBERS).copy()
    y[100] = 1e30
    given = {"adaptive": False, "normalised": False, "invariant": False, "rate": 1e6}
    with pytest.raises(DataError, match=r"learner 2 of 3: .*lower the rate \(1e\+06\), for example to 100000"):
        together(X * 1e6, y, NUMBERS, options_of(**given), n=3, threads=1)


@pytest.mark.parametrize("n", [1, 3])
def test_errors_name_the_row_of_the_given_arrays(n):
    X, scores = rows()
    where = "learner 3 of 3: " if n == 3 else ""
    weights, y, far = np.ones(N), scores[:, 0].copy(), X.toarray()
    weights[200], y[201], far[202, 0] = -1.0, 1e31, 1e31
    for given, text in (
        ((X, scores[:, 0], weights), r"sample_weight\[200\] is -1"),
        ((X, y), r"y\[201\] is 1e\+31"),
        ((far, scores[:, 0]), "row 202 of X has the value 1e\\+31"),
    ):
        with pytest.raises(DataError, match=where + text):
            lineal.OnlineRegressor(bits=10, learners=n).fit(*given)
    model = lineal.OnlineRegressor(bits=10, learners=n).fit(X, scores[:, 0])
    with pytest.raises(DataError, match=r"^y\[1\] is 1e\+31"):
        model.set_params(learners=1).partial_fit(X[:2], [0.0, 1e31])


def test_the_history_counts_rows_that_teach_nothing():
    X, scores = rows()
    weights = np.r_[np.ones(100), np.zeros(N - 100)]
    for n in (1, 3):
        model = lineal.OnlineRegressor(bits=10, learners=n).fit(X, scores[:, 0], weights)
        assert model.history_[-1]["examples"] == N


# --- limits and interrupts


@dataclass
class Slow(ArrayRows):
    """Rows that call `act` before block number `at`."""

    at: int = 10**9
    act: object = None

    def blocks(self):
        for number, block in enumerate(super().blocks()):
            if number == self.at:
                self.act()
            yield block


def interrupt():
    raise KeyboardInterrupt


def test_an_interrupt_in_the_first_pass_returns_the_average_so_far():
    X, scores = rows()
    y = labels(scores, NUMBERS)
    place = OnThreads([Slow(X, y, None, None, 0, 120, act=interrupt, at=3), ArrayRows(X, y, None, None, 120, 240)], 1)
    found = learn_together(place, options_of(), NUMBERS, width=12)
    assert found.run.status == "interrupted"
    assert found.trainer.learner.examples == 48
    assert found.run.message.startswith("interrupted: 48 examples learned")


def test_an_interrupt_in_a_later_pass_returns_the_last_average():
    X, scores = rows()
    y = labels(scores, NUMBERS)
    wanted = together(X, y, NUMBERS, options_of(), n=2)
    passes = []

    def in_the_second_pass():
        passes.append(1)
        if len(passes) == 2:
            raise KeyboardInterrupt

    part = Slow(X, y, None, None, 0, 120, act=in_the_second_pass, at=3)
    place = OnThreads([part, ArrayRows(X, y, None, None, 120, 240)], 2)
    found = learn_together(place, options_of(passes=3, hold_out=0), NUMBERS, width=12)
    assert found.run.status == "interrupted"
    np.testing.assert_array_equal(found.trainer.learner.weights(), wanted.trainer.learner.weights())


def test_an_interrupt_while_this_thread_waits_for_others(monkeypatch):
    X, scores = rows()
    y, in_helper, main = labels(scores, NUMBERS), threading.Event(), threading.main_thread()

    def hold():
        if threading.current_thread() is not main:
            in_helper.set()
            time.sleep(0.3)

    parts = [Slow(X, y, None, None, start, start + 120, act=hold, at=2) for start in (0, 120)]
    run = lineal.core.threads.run

    def interrupted(tasks, threads):
        helper = threading.Thread(target=tasks[1])
        helper.start()
        in_helper.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr("lineal.online.on_threads.threads.run", interrupted)
    answer = OnThreads(parts, 2).run(Job(options_of(), NUMBERS, None, 12, 2, (0.5,), 0), None, lambda reports: None)
    monkeypatch.setattr("lineal.online.on_threads.threads.run", run)
    assert answer.is_interrupted
    assert answer.outcomes[0] is None
    assert answer.outcomes[1].states[0]["learner"]["counts"][PASS_EXAMPLES] == 48  # the block that it had begun


def test_an_interrupt_before_anything_was_learned():
    X, scores = rows()
    y = labels(scores, NUMBERS)
    place = OnThreads([Slow(X, y, None, None, 0, 240, act=interrupt, at=0)], 1)
    with pytest.raises(KeyboardInterrupt):
        learn_together(place, options_of(), NUMBERS, width=12)


def test_an_error_of_one_learner_ends_all():
    X, scores = rows()
    y, fed = labels(scores, NUMBERS), []

    def fail():
        raise DataError("broken")

    parts = [Slow(X, y, None, None, 0, 120, act=fail, at=1), Slow(X, y, None, None, 120, 240, act=fed.append, at=0)]
    with pytest.raises(DataError, match="learner 1 of 2: broken"):
        learn_together(OnThreads(parts, 1), options_of(), NUMBERS, width=12)
    assert not fed


def test_learners_that_do_not_answer_end_with_the_last_average():
    X, scores = rows()
    y, options = labels(scores, NUMBERS), options_of(passes=3, hold_out=0)
    wanted = together(X, y, NUMBERS, options_of())

    class Silent(OnThreads):
        answers = 1

        def run(self, job, state, show):
            if self.answers == 0:
                raise Unanswered("no answer: learner 2")
            self.answers -= 1
            return super().run(job, state, show)

    place = Silent(array_rows(X, y, None, None, 3), 2)
    found = learn_together(place, options, NUMBERS, width=12)
    assert (found.run.status, found.run.message[-20:]) == ("max_time", "no answer: learner 2")
    np.testing.assert_array_equal(found.trainer.learner.weights(), wanted.trainer.learner.weights())
    with pytest.raises(Unanswered):
        learn_together(place, options, NUMBERS, width=12)


def test_max_time_ends_all_learners():

    X, scores = rows()
    found = together(X, labels(scores, NUMBERS), NUMBERS, options_of(max_time=1e-9, passes=4))
    assert found.run.status == "max_time"
    assert found.trainer.learner.examples == 3 * 16
    with pytest.warns(match="max_time reached: 48 examples learned"):
        lineal.OnlineRegressor(learners=3, max_time=1e-9).fit(X, scores[:, 0])


# --- checkpoints


class Killed(Exception):
    """What a kill is in these tests."""


@pytest.mark.parametrize(("kind", "given"), [LEARNERS[1], LEARNERS[2], LEARNERS[3], LEARNERS[5]], ids=str)
def test_a_killed_fit_ends_with_the_same_model(tmp_path, kind, given):
    X, scores = rows()
    y, path = labels(scores, kind), str(tmp_path / "c")
    options = options_of(**{**given, "passes": 4, "patience": 3})
    wanted = parts_of(together(X, y, kind, options))
    place = OnThreads(array_rows(X, y, None, None, 3), 2)
    run, passes = place.run, []

    def killed(*arguments) -> Answer:
        passes.append(1)
        if len(passes) in (2, 4):
            raise Killed
        return run(*arguments)

    place.run = killed
    for _ in range(2):
        with pytest.raises(Killed):
            learn_together(place, replace(options, checkpoint=path), kind, width=12)
        assert os.path.exists(path)
    found = learn_together(place, replace(options, checkpoint=path), kind, width=12)
    assert parts_of(found) == wanted
    assert not os.path.exists(path)


def test_max_time_can_be_raised(tmp_path):
    X, scores = rows()
    y, path = labels(scores, NUMBERS), str(tmp_path / "c")
    options = options_of(passes=3, hold_out=0)
    wanted = parts_of(together(X, y, NUMBERS, options))
    place = OnThreads(array_rows(X, y, None, None, 3), 2)
    run = place.run
    place.run = lambda job, state, show: run(replace(job, seconds=None if state is None else 0.0), state, show)
    late = learn_together(place, replace(options, checkpoint=path), NUMBERS, width=12)
    assert late.run.status == "max_time"
    assert late.trainer.learner.examples == N + 3 * 16
    assert parts_of(together(X, y, NUMBERS, replace(options, checkpoint=path))) == wanted


def test_a_checkpoint_of_other_rows_or_options(tmp_path):
    X, scores = rows()
    y, path = labels(scores, NUMBERS), str(tmp_path / "c")
    options = options_of(passes=2, hold_out=0, learners=3, checkpoint=path)
    place = OnThreads(array_rows(X, y, None, None, 3), 2)
    run = place.run
    place.run = lambda job, state, show: run(job, state, show) if state is None else interrupt()
    assert learn_together(place, options, NUMBERS, width=12).run.status == "interrupted"
    with pytest.raises(CheckpointError, match="learners is 3 there, 2 here"):
        together(X, y, NUMBERS, replace(options, learners=2), n=2)
    y = y.copy()
    y[100] += 1.0
    with pytest.raises(CheckpointError, match="those of learner 2 are not the ones of the first pass"):
        together(X, y, NUMBERS, options)


# --- estimators and files


def test_files_and_arrays_have_the_same_learners(tmp_path):
    X, scores = rows()
    y = (scores[:, 0] > 0).astype(int)
    write_layout(Dataset(X[:100], y[:100]), tmp_path / "0.arrow")
    write_layout(Dataset(X[100:], y[100:]), tmp_path / "1.arrow")
    wanted = lineal.OnlineClassifier(learners=3, passes=2).fit(X, y)
    found = lineal.OnlineClassifier(learners=3, passes=2).fit(tmp_path)
    assert found.history_ == wanted.history_
    np.testing.assert_array_equal(found.decision_function(X), wanted.decision_function(X))
    text = tmp_path / "a.svm"
    text.write_text("".join(
        f"{label} " + " ".join(f"{j}:{x:.9g}" for j, x in zip(row.indices, row.data)) + "\n"
        for label, row in zip(y, (X[[i]] for i in range(N)))
    ))  # fmt: skip
    alone = lineal.OnlineClassifier().fit(text)
    model = lineal.OnlineClassifier(learners=4).fit(text)
    assert model.model_.learner.examples == N == alone.model_.learner.examples
    assert abs(model.score(text_rows(model, X), y) - alone.score(text_rows(model, X), y)) < 0.1


def text_rows(model, X):
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], model.n_features_in_))


def test_a_model_is_saved_and_continued(tmp_path):
    X, scores = rows()
    y = labels(scores, CLASSES)
    classifier = lineal.OnlineClassifier(learners=2, passes=2, bits=12, expansion="adaptive").fit(X, y)
    classifier.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.scores(X), classifier.decision_function(X))
    assert loaded.learner.products.is_final
    with pytest.raises(OptionError, match="learners=2 with partial_fit: one learner learns; set learners=1"):
        classifier.partial_fit(X, y)
    classifier.set_params(learners=1, passes=1).partial_fit(X, y)
    for block in array_blocks(X, y):
        Trainer.of(loaded).feed(block)
    np.testing.assert_array_equal(loaded.scores(X), classifier.decision_function(X))
    assert loaded.learner.examples == 3 * N


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learners": 0}, "learners=0 is not an integer ≥ 1"),
        ({"engine": "file"}, "engine='file': online learners read all files as a stream"),
        ({"engine": "spark"}, "engine='spark' is unknown"),
        ({"engine": "dask"}, "engine='dask' needs a Dask collection or the path of a file"),
    ],
)
def test_options_that_are_refused(given, message):
    X, scores = rows()
    with pytest.raises(OptionError, match=message):
        lineal.OnlineRegressor(**given).fit(X, scores[:, 0])


def test_a_learner_alone_is_a_pure_function():
    X, scores = rows()
    job = Job(options_of(), NUMBERS, None, 12, 2, (0.5,), 0)
    part = array_rows(X, scores[:, 0], None, None, 2)[1]
    first = learn(job, 1, part, None, Watch())
    second = learn(job, 1, part, first.states[0], Watch())
    again = learn(job, 1, part, first.states[0], Watch())
    for name in ("slots", "rows"):
        old, new = (one.states[0]["learner"]["table"]["used"][name] for one in (second, again))
        np.testing.assert_array_equal(old, new)


def test_a_file_that_changes_between_passes(tmp_path, monkeypatch):
    path = tmp_path / "a.svm"
    path.write_text("1 0:1\n-1 0:2\n" * 50)
    run = OnThreads.run

    def changing(place, job, state, show):
        answer = run(place, job, state, show)
        with path.open("a") as file:
            file.write("1 0:1\n")
        return answer

    monkeypatch.setattr(OnThreads, "run", changing)
    with pytest.raises(DataError, match=r"a\.svm changed while it was read"):
        lineal.OnlineClassifier(learners=2, passes=2).fit(path)
