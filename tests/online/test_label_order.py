"""Rows that are not in random order: runs of labels are counted as a plain loop counts them, and are warned of."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from cli_files import done
from scipy import sparse

import lineal
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.errors import OptionError
from lineal.online.label_order import LabelOrder, NumberOrder, joined, warning_of
from lineal.online.learner_rows import array_rows
from lineal.online.on_threads import OnThreads
from lineal.online.options import OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.trainer import CLASSES

SORTED = "not in random order"


def order_of(labels, step=7):
    order = LabelOrder()
    for first in range(0, len(labels), step):
        order.add(np.asarray(labels[first : first + step], np.int64))
    return order


def sets_of(sets):
    return np.array([label for one in sets for label in one], np.int64), np.cumsum([0, *map(len, sets)])


def naive_runs(sets):
    """Rows and runs of each label, one row after the other."""
    counts, runs, before = {}, {}, set()
    for one in sets:
        for label in one:
            counts[label] = counts.get(label, 0) + 1
            runs[label] = runs.get(label, 0) + (label not in before)
        before = set(one)
    k = max(counts, default=-1) + 1
    return [counts.get(label, 0) for label in range(k)], [runs.get(label, 0) for label in range(k)]


def says(order, window=None, k=10):
    return warning_of(order, np.arange(k), window)


@pytest.mark.parametrize("step", [1, 3, 7, 100])
@pytest.mark.parametrize("seed", range(3))
def test_runs_are_those_of_a_plain_loop(step, seed):
    random = np.random.default_rng(seed)
    labels = random.choice(4, 60, p=[0.7, 0.1, 0.1, 0.1])
    order = order_of(labels, step)
    assert (order.counts.tolist(), order.runs.tolist()) == naive_runs([[label] for label in labels.tolist()])
    sets = [random.choice(4, random.integers(0, 4), replace=False).tolist() for _ in range(60)]
    order = LabelOrder()
    for first in range(0, 60, step):
        order.add_sets(*sets_of(sets[first : first + step]))
    assert (order.counts.tolist(), order.runs.tolist()) == naive_runs(sets)


def test_parts_add_up_whatever_the_classes_are_called_in_them():
    random = np.random.default_rng(0)
    names = np.array(["ash", "birch", "cedar", "oak"])
    labels = np.repeat(random.choice(4, 40), 3)
    whole = order_of(labels)
    parts, places = [], []
    for first, last in itertools.pairwise((0, 0, 31, 32, 90, 120)):
        own = list(dict.fromkeys(labels[first:last].tolist()))  # in the order of appearance
        part = LabelOrder()
        part.add(np.array([own.index(label) for label in labels[first:last]], np.int64))
        parts.append(part.loop_state())
        places.append(np.array(own, np.int64))
    found = joined(parts, places)
    for name in LabelOrder.state_names:
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert len(names) == len(found.counts)
    numbers = np.round(random.normal(size=100), 1)
    for values in (numbers, random.normal(size=100)):
        whole, parts = NumberOrder(), []
        whole.add(values)
        for first, last in itertools.pairwise((0, 0, 31, 32, 100)):
            part = NumberOrder()
            part.add(values[first:last])
            parts.append(part.loop_state())
        found = joined(parts, None)
        assert (found.rises, found.falls, found.has_few) == (whole.rises, whole.falls, whole.has_few)
        assert found.order.runs.sum() == whole.order.runs.sum()
        assert (found.rows, found.ends.tolist()) == (100, whole.ends.tolist())


def test_expected_runs_are_the_mean_over_random_orders():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), [10, 40, 150])
    found = np.mean([order_of(random.permutation(labels)).runs for _ in range(2000)], axis=0)
    order = order_of(labels)
    expected = order.counts * (order.rows - order.counts + 1.0) / order.rows
    np.testing.assert_allclose(found, expected, rtol=0.03)
    assert order.oddity().expected == pytest.approx(expected.sum())


def test_what_is_odd():
    random = np.random.default_rng(0)
    assert "the labels come in 2 runs, and would in random order come in about 101" in says(
        order_of([0] * 100 + [1] * 100)
    )
    assert says(order_of(np.repeat(random.permutation(np.repeat([0, 1], 50)), 30)))  # long runs, not sorted
    assert says(order_of([0] * 20_000 + [1] * 100))  # few of one class, at the end
    assert says(order_of(np.repeat(np.arange(1000), 11)), k=1000)
    mixed = np.concatenate([random.choice(2, 1000), np.full(500, 2)])
    assert "rows of 2 come in 1 run" in says(order_of(mixed))


@pytest.mark.parametrize(
    "labels",
    [
        [], [0], [0] * 1000, [0, 1], [0] * 20 + [1] * 20, [0] * 100_000 + [1] * 20, [0, 1] * 500, [0, 0, 1, 1] * 100,
        list(range(1000)),
    ],
    ids=lambda labels: str(len(labels)),
)  # fmt: skip
def test_few_rows_and_rare_labels_are_no_alarm(labels):
    for window in (None, 2, 50):
        assert says(order_of(labels), window, k=1000) is None


@pytest.mark.parametrize("n", [10, 50, 200, 2000, 20_000])
def test_random_orders_are_no_alarm(n):
    random = np.random.default_rng(n)
    for k in (2, 3, 30, 300):
        for skew in (1.0, 0.3, 0.02):
            labels = random.choice(k, n, p=random.dirichlet(np.full(k, skew)))
            for window in (None, 2, 50):
                assert says(order_of(labels, n), window, k=k) is None


def test_a_rare_class_that_comes_at_once_is_not_worth_a_word():
    random = np.random.default_rng(0)
    labels = random.choice(10, 20_000)
    labels[500:700] = 10
    assert says(order_of(labels), k=11) is None


def test_a_window_makes_up_for_runs_that_are_short_enough():
    by_class, in_runs = order_of(np.repeat(np.arange(5), 400)), order_of(np.tile(np.repeat([0, 1], 50), 100))
    assert says(by_class, 1999)
    assert says(by_class, 2000) is None
    assert says(in_runs)  # 100 runs of each label in 10,000 rows
    assert says(in_runs, 999)
    assert says(in_runs, 1001) is None


def test_numbers():
    random = np.random.default_rng(0)

    def said(numbers, window=None):
        order = NumberOrder()
        for part in np.array_split(np.asarray(numbers, np.float64), 7):
            order.add(part)
        return warning_of(order, np.empty(0), window)

    drawn = random.normal(size=3000)
    assert "rise 2999 times" in said(np.sort(drawn))
    assert "fall 2999 times" in said(-np.sort(drawn))
    assert "come in 2 runs" in said([0.0] * 500 + [1.0] * 500)
    for fine in (
        drawn,
        np.cumsum(drawn),
        drawn.round(),
        np.full(1000, 3.0),
        random.permutation([0.0] * 990 + [1.0] * 10),
    ):
        assert said(fine) is None
    assert said(np.sort(drawn), window=2999)
    assert said(np.sort(drawn), window=3000) is None


# --- warnings of learners


def rows(n=600, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    y = np.where(X[:, 0] - X[:, 1] + 0.3 * random.normal(size=n) > 0.0, "up", "down")
    return X, y


def by_label(X, y):
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def test_sorted_rows_are_warned_of_once():
    X, y = by_label(*rows())
    with pytest.warns(UserWarning, match=rf"{SORTED}: the labels come in 2 runs.*\. Set shuffle=True") as caught:
        model = lineal.OnlineClassifier(passes=3).fit(X, y)
    assert len(caught) == 1
    assert model.status_.endswith("passes")
    with pytest.warns(UserWarning, match=SORTED):
        lineal.OnlineRegressor().fit(X, np.sort(X[:, 0]))
    sets = np.stack([y == "up", np.roll(y == "up", 40)], axis=1).astype(int)
    for given in (sets, sparse.csr_array(sets)):
        with pytest.warns(UserWarning, match=SORTED):
            lineal.OnlineClassifier().fit(X, given)


@pytest.mark.parametrize("learners", [2, 3])
def test_several_learners_warn_of_the_order_of_all_rows(learners):
    """Each of them alone may see one class only."""
    X, y = by_label(*rows())
    with pytest.warns(UserWarning, match=SORTED) as caught:
        lineal.OnlineClassifier(learners=learners, passes=2).fit(X, y)
    assert len(caught) == 1
    for known in (None, np.array(["down", "up"])):
        place = OnThreads(array_rows(X, y, None, None, learners), 1)
        with pytest.warns(UserWarning, match="come in 2 runs"):
            learn_together(place, OnlineOptions().checked(), CLASSES, classes=known, width=6)


def test_calls_of_partial_fit_are_counted_together():
    X, y = by_label(*rows())
    model = lineal.OnlineClassifier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for part in np.array_split(np.arange(600), 10):
            model.partial_fit(X[part], y[part])
    (warning,) = caught
    assert "Shuffle the rows before the calls" in str(warning.message)
    assert model.status_ == "one pass"
    with pytest.raises(OptionError, match="shuffle=True with partial_fit: shuffle the rows before the call"):
        lineal.OnlineClassifier(shuffle=True).partial_fit(X, y)


@pytest.mark.parametrize("n_calls", [1, 10])
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_sorted_rows_after_random_ones_are_warned_of(n_calls, start):
    X, y = rows()
    model = lineal.OnlineClassifier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vars(lineal.OnlineClassifier)[start](model, X, y)
        assert not caught
        X, y = by_label(X, y)
        for part in np.array_split(np.arange(600), n_calls):
            model.partial_fit(X[part], y[part])
    (warning,) = caught
    assert "in 2 runs" in str(warning.message) or "random order" in str(warning.message)


def test_a_few_sorted_rows_among_many_calls_are_no_alarm():
    random = np.random.default_rng(0)
    X, y = rows(30_000)
    model = lineal.OnlineClassifier()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in np.array_split(np.arange(30_000), 60):
            model.partial_fit(X[part], y[part])
        few = random.integers(0, 30_000, 200)
        model.partial_fit(*by_label(X[few], y[few]))
        assert len(model._trainer.calls.parts) < 10
        model = lineal.OnlineClassifier(shuffle=True).fit(*by_label(X, y)).set_params(shuffle=False)
        model.partial_fit(X, y)


@pytest.mark.parametrize("first", ["up", "down"])
def test_the_order_of_earlier_calls_is_kept_when_the_second_class_comes(first):
    """Also if it is the first one in alphabetical order, which changes the numbers of the classes."""
    X, y = by_label(*rows())
    parts = [np.flatnonzero(y == label) for label in (first, "up" if first == "down" else "down")]
    model = lineal.OnlineClassifier().partial_fit(X[parts[0]], y[parts[0]])
    with pytest.warns(UserWarning, match="the labels come in 2 runs"):
        model.partial_fit(X[parts[1]], y[parts[1]])


def test_rows_in_random_order_and_shuffled_ones_are_not_warned_of():
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lineal.OnlineClassifier().fit(X, y)
        lineal.OnlineClassifier(learners=2).fit(X, y)
        model = lineal.OnlineClassifier(shuffle=True).fit(*by_label(X, y))
        lineal.OnlineClassifier(shuffle=True, learners=3, passes=2).fit(*by_label(X, y))
        lineal.OnlineRegressor(shuffle=True).fit(X, np.sort(X[:, 0]))
    assert model.score(X, y) > 0.85
    assert 0.2 < model.history_[-1]["average_loss"] < 0.6  # and not the 0.0… of rows that come label by label


def test_a_buffer_that_is_too_small_for_sorted_classes_is_warned_of(tmp_path):
    """It mixes neighbouring classes, so that labels change often after it."""
    X, _ = rows(1000)
    y = np.repeat(np.arange(10), 100)
    write_layout(Dataset(X, y), tmp_path / "t.arrow")
    for learners in (1, 2):
        given = {"shuffle": True, "learners": learners, "passes": 2}
        with pytest.warns(UserWarning, match="the labels come in 10 runs") as caught:
            lineal.OnlineClassifier(**given, shuffle_buffer=300).fit(tmp_path / "t.arrow")
        assert len(caught) == 1
    with pytest.warns(UserWarning, match="Every learner shuffles its own rows"):
        lineal.OnlineClassifier(**given).fit(tmp_path / "t.arrow")  # each has one half of the classes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lineal.OnlineClassifier(shuffle=True, passes=2).fit(tmp_path / "t.arrow")


def vw_of(X, y):
    lines = [
        f"{1 if label == 'up' else -1} | " + " ".join(f"x{j}:{value:.4f}" for j, value in enumerate(row))
        for row, label in zip(X, y)
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["t.vw", "t.svm", "t.csv"])
def test_files_and_pipes_from_the_command_line(tmp_path, name):
    X, y = by_label(*rows(1000))
    path = tmp_path / name
    if name == "t.vw":
        path.write_text(vw_of(X, y))
    elif name == "t.svm":
        path.write_text(vw_of(X, y).replace(" |", "").replace("x", ""))
    else:
        path.write_text(
            "a,b,c,d,e,f,label\n"
            + "".join(f"{','.join(f'{v:.4f}' for v in row)},{label}\n" for row, label in zip(X, y))
        )
    line = ("train", "--online", path, "-m", tmp_path / "m")
    said = done(*line)
    (warning,) = [line for line in said.stderr.splitlines() if SORTED in line]
    assert warning.startswith("lineal: warning: the rows are not in random order: the labels come in 2 runs")
    assert warning.endswith("Set --shuffle, or shuffle the rows first")
    assert "status: one pass" in said.stdout
    mixed = done(*line[:-1], tmp_path / "shuffled", "--shuffle")
    assert SORTED not in mixed.stderr
    few = done(*line, "--shuffle", "--shuffle-buffer", "50", "--passes", "2")
    assert "A buffer of 50 rows cannot change that: raise --shuffle-buffer" in few.stderr
    assert "status: 2 passes" in few.stdout
    if name != "t.csv":  # tables are not cut
        shared = done(*line, "--shuffle", "--learners", "2")
        assert "Every learner shuffles its own rows: set --learners 1, or shuffle the rows first" in shared.stderr
        few_shared = done(*line, "--shuffle", "--learners", "2", "--shuffle-buffer", "50")
        assert "set --learners 1 and raise --shuffle-buffer, or shuffle" in few_shared.stderr
        assert "Set --shuffle and --learners 1, or shuffle the rows first" in done(*line, "--learners", "2").stderr
    more = done("train", "--online", path, "-m", tmp_path / "m", "--resume", tmp_path / "shuffled", "--shuffle")
    assert SORTED not in more.stderr
    assert "examples: 2000" in more.stdout
    more = done(*line, "--resume", tmp_path / "shuffled")  # which is a matter of this file, not of the model
    assert more.stderr.rstrip().endswith("Set --shuffle, or shuffle the rows first")
    kind = {"t.vw": "vw", "t.svm": "svmlight", "t.csv": "csv"}[name]
    piped = ("train", "--online", "-", "--format", kind, "-m", tmp_path / "p", "--shuffle")
    assert SORTED not in done(*piped, input=path.read_bytes()).stderr
    scores = [done("predict", tmp_path / name, path, "--scores").stdout for name in ("shuffled", "p")]
    assert scores[0] == scores[1]
