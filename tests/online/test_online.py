"""Online learning: the update rules against a plain twin and against VW, invariances, streams, files, bad input."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import lambertw

import lineal
from lineal.errors import DataError, LinealError, ModelFileError, OptionError
from lineal.online.fit import array_blocks, fit_online
from lineal.online.learner import Learner
from lineal.online.options import RATES, OnlineOptions
from lineal.online.rows import rows_of
from lineal.online.state import HIGHEST, LOWEST, SEEN
from lineal.online.trainer import Block, Trainer

REFERENCE = json.loads((Path(__file__).with_name("vw_predictions.json")).read_text())


def options(**given):
    return OnlineOptions(**{"loss": "logistic", "bits": 12, **given}).checked()


def labelled(X, y, h=None):
    return rows_of(X)._replace(
        labels=np.asarray(y, np.float64), importance=np.ones(len(y)) if h is None else np.asarray(h, np.float64)
    )


def learned(X, y, h=None, is_number=False, **given):
    learner = Learner(options(**given), is_number=is_number)
    return learner, learner.learn(labelled(X, y, h))


def problem(n=200, d=8, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density) * 10.0 ** rng.integers(-3, 4, d)
    scores = (X / np.maximum(np.abs(X).max(axis=0), 1e-9)) @ rng.normal(size=d)
    return X, np.where(scores > 0.0, 1.0, -1.0), scores


class Twin:
    """The update of one score as its formulas read, in plain Python and float64."""

    def __init__(self, d, rule, low, high):
        self.w, self.G, self.s = np.zeros(d + 1), np.zeros(d + 1), np.zeros(d + 1)
        self.rule, self.low, self.high = rule, low, high
        self.weight = self.norms = self.t = 0.0

    def step(self, x, y, h):
        rule = self.rule
        x = np.append(x, 1.0)
        self.low, self.high = min(self.low, y), max(self.high, y)
        p = min(max(float(self.w @ x), self.low), self.high)
        slope = self.slope(p, y)
        self.t += h
        if slope == 0.0:
            return p
        self.weight += h
        rate = np.ones(len(x))
        power = rule.power_t - 1.0 if rule.adaptive else -1.0
        for j in np.flatnonzero(x):
            if rule.adaptive:
                self.G[j] += h * slope**2 * x[j] ** 2
                rate[j] = self.G[j] ** -rule.power_t
            if rule.normalised:
                if abs(x[j]) > self.s[j]:
                    self.w[j] *= 0.0 if self.s[j] == 0.0 else (self.s[j] / abs(x[j])) ** (-2.0 * power)
                    self.s[j] = abs(x[j])
                rate[j] *= (self.s[j] ** 2) ** power
                self.norms += h * (x[j] / self.s[j]) ** 2
        N = (self.norms / self.weight) ** power if rule.normalised else 1.0
        q = N * float(x**2 @ rate)
        a = rule.rate * h * (1.0 if rule.adaptive else (rule.initial_t + self.t) ** -rule.power_t)
        u = self.flow(p, y, a, q) if rule.invariant else -a * slope
        self.w += N * u * x * rate
        return p

    def slope(self, p, y):
        if self.rule.loss == "logistic":
            return -y / (1.0 + math.exp(y * p))
        if self.rule.loss == "squared":
            return 2.0 * (p - y)
        if self.rule.loss == "hinge":
            return -y if y * p < 1.0 else 0.0
        return 0.0 if p == y else -self.rule.tau if y > p else 1.0 - self.rule.tau

    def flow(self, p, y, a, q):
        if self.rule.loss == "logistic":  # the margin after is −V, V = W(e^z) − z
            z = a * q + y * p + math.exp(y * p)
            if z < 300.0:
                big = lambertw(math.exp(z)).real
            else:
                big = brentq(lambda w: w + math.log(w) - z, 1.0, z)
            return -(y * (big - z) + p) / q
        if self.rule.loss == "squared":
            return (y - p) * (1.0 - math.exp(-2.0 * a * q)) / q
        if self.rule.loss == "hinge":
            return y * min(a, (1.0 - y * p) / q)
        error = y - p
        return min(self.rule.tau * a, error / q) if error > 0.0 else max((self.rule.tau - 1.0) * a, error / q)


RULES = [
    {},
    {"rate": 5.0},
    {"power_t": 0.3},
    {"adaptive": False},
    {"normalised": False, "rate": 0.01},
    {"invariant": False, "rate": 0.05},
    {"adaptive": False, "normalised": False, "invariant": False, "rate": 1e-3, "initial_t": 10.0},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "quantile"])
def test_updates_are_those_of_a_plain_twin(loss, rule):
    X, y, scores = problem(120)
    if rule.get("normalised") is False:
        X = X / np.maximum(np.abs(X).max(axis=0), 1e-9)
    is_number = loss in ("squared", "quantile")
    y = scores if is_number else y
    given = options(loss=loss, tau=0.3 if loss == "quantile" else 0.5, **rule)
    h = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    learner = Learner(given, is_number=is_number)
    said = learner.learn(labelled(X, y, h))
    limit = 50.0 if loss == "logistic" else 0.0
    twin = Twin(X.shape[1], given, -limit, limit)
    X32 = X.astype(np.float32).astype(np.float64)
    expected = [twin.step(*row) for row in zip(X32, y, h)]
    np.testing.assert_allclose(said, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
    assert np.median(np.abs(said - expected)) < 1e-4 * max(1.0, np.abs(expected).max())


VW_SETTINGS = {
    "logistic": ("y", {}, 1e-5),
    "squared": ("z", {"loss": "squared"}, 1e-5),
    "quantile": ("z", {"loss": "quantile", "tau": 0.3}, 1e-5),
    "hinge": ("y", {"loss": "hinge"}, 1e-4),
    "l1_l2": ("y", {"l1": 1e-3, "l2": 1e-3}, 1e-5),
    "power_t": ("z", {"loss": "squared", "power_t": 0.3}, 1e-5),
    "normalised_invariant": ("y", {"adaptive": False}, 1e-4),
    "rate": ("y", {"rate": 3.0}, 1e-4),
    "sgd": (
        "y", {"adaptive": False, "normalised": False, "invariant": False, "rate": 0.05, "initial_t": 1.0}, 1e-3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VW_SETTINGS)
def test_predictions_are_those_of_vw(name):
    """Predictions of VW 9.11, before each update, of the same rows with the same settings (18 bits)."""
    target, given, tolerance = VW_SETTINGS[name]
    X = np.insert(np.array(REFERENCE["X"]), 0, 0.0, axis=1)  # VW's columns began at 1
    _, said = learned(X, REFERENCE[target], REFERENCE["h"], is_number=target == "z", bits=18, **given)
    expected = np.array(REFERENCE["predictions"][name])
    np.testing.assert_allclose(said, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def test_classes_are_those_of_vw():
    trainer = Trainer(options(bits=18), "classes", [1, 2, 3])
    X = np.insert(np.array(REFERENCE["X"]), 0, 0.0, axis=1)
    said = trainer.feed(Block(X, np.array(REFERENCE["c"]), np.array(REFERENCE["h"])))
    assert np.array_equal(said + 1, REFERENCE["predictions"]["oaa"])


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_scores_of_classes_stay_within_the_labels_seen_as_those_of_vw(loss):
    """Predictions of VW 9.11 of the same rows, all of label 1 before all of −1."""
    signs = REFERENCE["signs"]
    y = np.where(np.array(signs["c"]) == 1, -1.0, 1.0)
    order = np.argsort(-y, kind="stable")
    X = np.insert(np.array(signs["X"], float), 0, 0.0, axis=1)[order]
    _, said = learned(X, y[order], np.array(signs["h"])[order], bits=18, loss=loss)
    assert np.count_nonzero(said == 0.0) > 1  # cut
    np.testing.assert_allclose(said, signs[f"ones_first_{loss}"], atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_scores_of_several_classes_are_those_of_vw(loss):
    """Raw predictions of VW 9.11 with --oaa 3. Values are ±1: VW has the scales of features by class, we have not."""
    signs = REFERENCE["signs"]
    X, c, h = np.insert(np.array(signs["X"], float), 0, 0.0, axis=1), np.array(signs["c"]), np.array(signs["h"])
    trainer = Trainer(options(bits=18, loss=loss), "classes", [1, 2, 3])
    for i, expected in enumerate(signs[f"oaa_{loss}"]):
        scores = trainer.learner.scores(rows_of(X[i : i + 1]))[0]
        np.testing.assert_allclose(np.clip(scores, -1.0, 1.0), expected, atol=1e-5)
        trainer.feed(Block(X[i : i + 1], c[i : i + 1], h[i : i + 1]))


@pytest.mark.parametrize("label", [0, 1])
def test_bounds_of_label_sets_are_the_labels_seen(label):
    X = np.random.default_rng(0).normal(size=(30, 3))
    trainer = Trainer(options(loss="squared"), "sets", ["a", "b"])
    trainer.feed(Block(X, np.full((30, 2), label)))
    assert trainer.learner.table.totals[0, [LOWEST, HIGHEST]].tolist() == [[-1.0, 0.0], [0.0, 1.0]][label]


# --- invariances


def test_importance_two_is_the_example_twice():
    X, y, scores = problem(100)
    X = X / np.maximum(np.abs(X).max(axis=0), 1e-9)
    plain = {"adaptive": False, "normalised": False, "power_t": 0.0, "rate": 0.1}
    for loss, labels in (("logistic", y), ("squared", scores), ("hinge", y)):
        twice, _ = learned(
            np.repeat(X, 2, axis=0), np.repeat(labels, 2), loss=loss, is_number=loss == "squared", **plain
        )
        heavy, _ = learned(X, labels, np.full(len(y), 2.0), loss=loss, is_number=loss == "squared", **plain)
        np.testing.assert_allclose(heavy.weights(), twice.weights(), rtol=1e-4, atol=1e-5)


def test_importance_nearly_counts_with_adaptive_rates_too():
    X, y, _ = problem(400)
    _, twice = learned(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    heavy, _ = learned(X, y, np.full(len(y), 2.0))
    assert np.corrcoef(twice[1::2], heavy.scores(rows_of(X))[:, 0])[0, 1] > 0.8


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e12])
def test_scales_of_features_do_not_matter(scale):
    X, y, _ = problem()
    scaled = X.copy()
    scaled[:, ::2] *= scale
    _, said = learned(X, y)
    _, again = learned(scaled, y)
    np.testing.assert_allclose(again, said, rtol=1e-4, atol=1e-4)


def test_dense_rows_are_sparse_rows():
    X, y, _ = problem()
    _, said = learned(X, y)
    for kind in (sparse.csr_array, sparse.csc_array):
        _, again = learned(kind(X), y)
        np.testing.assert_array_equal(again, said)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    wide.data = wide.data.astype(np.float32)
    np.testing.assert_array_equal(learned(wide, y)[1], said)


def test_stored_zeros_change_nothing():
    X, y, _ = problem()
    full = sparse.csr_array(np.ones_like(X))
    full.data = X.ravel().copy()
    assert full.nnz > sparse.csr_array(X).nnz
    np.testing.assert_array_equal(learned(full, y)[1], learned(X, y)[1])


@pytest.mark.parametrize("expansion", [None, "adaptive"])
@pytest.mark.parametrize("k", [2, 3])
def test_blocks_may_be_cut_anywhere(k, expansion):
    X, _, scores = problem(300)
    y = np.digitize(scores, np.quantile(scores, np.arange(1, k) / k))
    given = options(expansion=expansion)
    whole, parts = Trainer(given, "classes", n_examples=300), Trainer(given, "classes", n_examples=300)
    said = whole.feed(Block(X, y))
    cuts = [0, 1, 2, 7, 50, 51, 200, 300]
    again = [parts.feed(Block(X[a:b], y[a:b])) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(again), said)
    np.testing.assert_array_equal(parts.learner.weights(), whole.learner.weights())
    assert parts.learner.parents.monomials == whole.learner.parents.monomials
    assert parts.learner.history == whole.learner.history


@pytest.mark.core
def test_two_classes_are_two_columns():
    """A column a class gives the scores of one column and their negatives, whatever the order of the classes."""
    X, y, _ = problem()
    one = Trainer(options(), "classes", [-1.0, 1.0])
    one.feed(Block(X, y))
    two = Trainer(options(), "sets", ["no", "yes"])
    two.feed(Block(X, np.stack([y < 0, y > 0], axis=1)))
    single, columns = one.learner.scores(rows_of(X)), two.learner.scores(rows_of(X))
    np.testing.assert_allclose(columns[:, 1], single[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(columns[:, 0], -single[:, 0], rtol=1e-4, atol=1e-4)


def test_classes_come_as_they_come():
    X, _, scores = problem(300)
    y = np.array(["a", "b", "c"])[np.digitize(scores, np.quantile(scores, [0.4, 0.8]))]
    y[:5], y[5:9] = "b", "c"  # the first classes to come are not the first by name
    trainer = Trainer(options(), "classes")
    trainer.feed(Block(X, y))
    assert sorted(trainer.classes) == ["a", "b", "c"]
    model = trainer.model()
    assert trainer.learner.k == 3
    right = np.mean(trainer.classes[trainer.learner.scores(rows_of(X)).argmax(axis=1)] == y)
    assert right > 0.7
    assert model.loss == "logistic"


def test_columns_that_come_later_begin_with_nothing():
    """Whether there was room for them or not: what was learned stays, and the new ones are zero."""
    X, _, scores = problem(120)
    y = np.digitize(scores, np.quantile(scores, [0.3, 0.6]))
    for k in (4, 8, 9):
        trainer = Trainer(options(), "classes", [0, 1, 2])
        trainer.feed(Block(X, y))
        before = trainer.learner.weights()
        trainer.learner.grow(k)
        after = trainer.learner.weights()
        np.testing.assert_array_equal(after[:, :3], before)
        assert after.shape[1] == k
        assert not after[:, 3:].any()


def test_a_second_class_that_sorts_first_keeps_the_sign():
    X, y, _ = problem()
    for order in (y, -y):
        known, grown = Trainer(options(), "classes", [-1.0, 1.0]), Trainer(options(), "classes")
        known.feed(Block(X, order))
        grown.feed(Block(X, order))
        assert grown.classes.tolist() == [-1.0, 1.0]
        np.testing.assert_allclose(grown.learner.weights(), known.learner.weights(), rtol=1e-6, atol=1e-7)


def test_permuted_classes_permute_scores():
    X, _, scores = problem(300)
    y = np.digitize(scores, np.quantile(scores, [0.3, 0.6]))
    order = np.array([2, 0, 1])
    first, second = Trainer(options(), "classes", [0, 1, 2]), Trainer(options(), "classes", [0, 1, 2])
    first.feed(Block(X, y))
    second.feed(Block(X, order[y]))
    a, b = first.learner.scores(rows_of(X)), second.learner.scores(rows_of(X))
    np.testing.assert_allclose(b[:, order], a, rtol=1e-6, atol=1e-6)


# --- interrupts


def interrupt_after_call(monkeypatch, name, number):
    """Ctrl-C while a kernel runs is heard of when it returns."""
    kernel, calls = getattr(lineal.online.learner, name), itertools.count(1)

    def interrupted(*given):
        kernel(*given)
        if next(calls) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(lineal.online.learner, name, interrupted)


@pytest.mark.parametrize("call", [1, 7, 11])
@pytest.mark.parametrize(("k", "name"), [(2, "learn_rows"), (3, "learn_many_rows")])
def test_an_interrupt_loses_no_count_report_or_growth(monkeypatch, tmp_path, k, name, call):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    y = np.digitize(X[:, 0] * X[:, 1], [0.0, 0.5][: k - 1])
    given = options(expansion="adaptive", schedule="doubling")
    whole, part = (Trainer(given, "classes", np.arange(k), None, 4) for _ in range(2))
    whole.feed(Block(X, y))
    with monkeypatch.context() as patch:
        interrupt_after_call(patch, name, call)
        with pytest.raises(KeyboardInterrupt):
            part.feed(Block(X, y))
    done = part.learner.examples
    assert done == {1: 1, 7: 64, 11: 1000}[call]  # where a report or, at 1000, a growth is due
    assert part.learner.table.totals[0, SEEN] == done
    part.model().save(tmp_path / "m")
    for trainer in (part, Trainer.of(lineal.load(tmp_path / "m"))):
        trainer.feed(Block(X[done:], y[done:]))
        np.testing.assert_array_equal(trainer.learner.weights(), whole.learner.weights())
        assert trainer.learner.parents.monomials == whole.learner.parents.monomials
        assert trainer.learner.entries == whole.learner.entries
    np.testing.assert_equal(part.learner.history, whole.learner.history)


# --- passes, rates, options


def test_progressive_loss_is_reported_at_doubling_counts():
    X, y, _ = problem(300)
    learner, said = learned(X, y)
    learner.report()
    assert [row["examples"] for row in learner.history] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    losses = np.log1p(np.exp(-y * said))
    for row in learner.history:
        assert row["average_loss"] == pytest.approx(losses[: int(row["examples"])].mean())
    assert learner.history[-1]["since_last"] == pytest.approx(losses[256:].mean())


def test_several_passes_hold_out_and_keep_the_best():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(203, 60)), rng.choice([-1.0, 1.0], 203)  # nothing to learn: passes only overfit
    given = options(passes=30, patience=2)
    trainer, run = fit_online(lambda: array_blocks(X, y), given, "classes", n_examples=203)
    last = run.history[-1]["pass"]
    assert 3 <= last < 30  # ended early
    held = {row["pass"]: row["held_out_loss"] for row in run.history}
    assert trainer.loss(held=True) == pytest.approx(min(held.values()))
    assert trainer.learner.passes == min(held, key=held.__getitem__)
    out = np.arange(9, 203, 10)
    moved = y.copy()
    moved[out] *= -1.0  # labels of rows held out are never learned from
    again, _ = fit_online(lambda: array_blocks(X, moved), options(passes=2, patience=2), "classes", n_examples=203)
    same, _ = fit_online(lambda: array_blocks(X, y), options(passes=2, patience=2), "classes", n_examples=203)
    both = [np.sort(np.abs(one.learner.weights()[:, 0])) for one in (again, same)]
    assert again.learner.passes != same.learner.passes or np.allclose(*both)


def test_the_tuned_rate_has_the_least_progressive_loss():
    X, y, _ = problem(400)
    tuned = lineal.OnlineClassifier(rate="tune", bits=12).fit(X, y)
    losses = {}
    for rate in RATES:
        one = lineal.OnlineClassifier(rate=rate, bits=12).fit(X, y)
        losses[rate] = one.history_[-1]["average_loss"]
    assert tuned.rate_ == min(losses, key=losses.__getitem__)
    assert tuned.history_[-1]["average_loss"] == min(losses.values())


def test_l1_leaves_few_weights_and_l2_small_ones():
    X, y, _ = problem(400)
    plain, light, small = (learned(X, y, **given)[0].weights() for given in ({}, {"l1": 0.03}, {"l2": 0.05}))
    assert np.count_nonzero(light[:8]) < np.count_nonzero(plain[:8])
    assert np.linalg.norm(small) < np.linalg.norm(plain)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": "huber"}, "loss"),
        ({"rate": 0.0}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"bits": 9}, "bits"),
        ({"bits": 18.5}, "bits"),
        ({"passes": 0}, "passes"),
        ({"tau": 0.3}, "quantile"),
        ({"loss": "quantile", "tau": 1.0}, "tau"),
        ({"expansion": "quartic"}, "expansion"),
        ({"growth": 0.5}, "adaptive"),
        ({"interactions": "a*b"}, "expansion"),
        ({"expansion": "quadratic", "interactions": "a*b*c"}, "cubic"),
        ({"expansion": "quadratic", "interactions": "a"}, "two or three"),
        ({"hold_out": 1}, "hold_out"),
        ({"theorem": True}, "theorem"),
        ({"adaptive": "yes"}, "adaptive"),
        ({"verbose": "much"}, "verbose"),
        ({"expansion": "quadratic", "interactions": []}, "interactions"),
        ({"expansion": "quadratic", "interactions": 5}, "interactions"),
        ({"expansion": "quadratic", "interactions": [(1, 2)]}, "interactions"),
        # These would change nothing.
        ({"hold_out": 5}, "hold_out"),
        ({"patience": 5}, "patience"),
        ({"passes": 3, "hold_out": 0, "patience": 5}, "patience"),
        ({"initial_t": 5.0}, "initial_t"),
        ({"expansion": "adaptive", "schedule": "doubling", "epochs": 3}, "epochs"),
        ({"expansion": "adaptive", "caution": 0.9, "normalised": False}, "caution"),
        ({"theorem": True, "l2": 0.1, "adaptive": False, "normalised": False, "invariant": False, "rate": 2.0}, "rate"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused_by_name(given, words):
    with pytest.raises(OptionError, match=words):
        lineal.OnlineClassifier(**given).fit(np.eye(3), [0, 1, 0])


@pytest.mark.parametrize("k", [1, 3])
def test_strong_penalties_leave_weights_finite(k):
    """A contraction of 1e-40 would divide weights beyond float32."""
    X, y, _ = problem(400)
    y = y if k == 1 else np.arange(400) % 3
    model = lineal.OnlineClassifier(bits=12, l2=0.5).fit(np.tile(X, (5, 1)), np.tile(y, 5))
    assert np.isfinite(model.history_[-1]["average_loss"])
    assert 0.0 < np.abs(model.model_.learner.weights()).max() < 1.0


def test_a_feature_that_comes_twice_in_a_row_has_one_scale():
    """Its larger value sets the unit of the smaller one, whichever comes first."""
    for values in ([1.0, 4.0], [4.0, 1.0]):
        X = sparse.csr_array((np.array(values), np.array([0, 0]), [0, 2]), shape=(1, 1))
        for k in (1, 3):
            learner = Learner(options(invariant=False, adaptive=False), k)
            learner.learn(rows_of(X)._replace(labels=np.array([1.0])), np.zeros(1, np.int32), np.array([0, 1]))
            w, b = learner.weights()[[0, -1], 0]
            assert w / b == pytest.approx((1.0 + 4.0) / 16.0)  # x/s² of both, with s = 4


@pytest.mark.parametrize("k", [1, 3])
def test_steps_that_grow_without_end_are_refused(k):
    X, y, _ = problem()
    y = y if k == 1 else np.arange(200) % 3
    wild = lineal.OnlineClassifier(
        bits=12, loss="squared", rate=1e25, adaptive=False, normalised=False, invariant=False
    )
    with pytest.raises(DataError, match="rate"):
        wild.fit(X * 1e15, y)
    with pytest.raises(DataError, match="rate"):
        wild.partial_fit(X * 1e15, y)


def test_numbers_and_importances_beyond_float32_are_named():
    X, _, scores = problem()
    with pytest.raises(DataError, match=r"y\[0\] is"):
        lineal.OnlineRegressor().fit(X, scores + 1e35)
    with pytest.raises(DataError, match=r"sample_weight\[0\]"):
        lineal.OnlineRegressor().fit(X, scores, sample_weight=np.full(200, 1e35))
    assert np.isfinite(lineal.OnlineRegressor(bits=12).fit(X, scores * 1e28).predict(X)).all()


def test_losses_are_for_their_labels():
    with pytest.raises(OptionError, match="numbers"):
        lineal.OnlineRegressor(loss="logistic").fit(np.eye(3), [0.0, 1.0, 2.0])
    with pytest.raises(OptionError, match="classes"):
        lineal.OnlineClassifier(loss="quantile").fit(np.eye(3), [0, 1, 0])


# --- estimators


def test_partial_fit_is_fit():
    X, y, _ = problem(300)
    whole = lineal.OnlineClassifier(bits=12).fit(X, y)
    parts = lineal.OnlineClassifier(bits=12)
    for first in range(0, 300, 70):
        parts.partial_fit(X[first : first + 70], y[first : first + 70])
    np.testing.assert_array_equal(parts.decision_function(X), whole.decision_function(X))


def test_partial_fit_takes_new_rates_and_refuses_other_tables():
    X, y, _ = problem()
    slow, same = (lineal.OnlineClassifier(bits=12).partial_fit(X, y) for _ in range(2))
    slow.set_params(rate=1e-6).partial_fit(X, y)
    same.partial_fit(X, y)
    assert slow.rate_ == 1e-6
    assert np.abs(slow.decision_function(X) - same.decision_function(X)).max() > 0.01
    with pytest.raises(OptionError, match="bits=13"):
        same.set_params(bits=13).partial_fit(X, y)
    with pytest.raises(OptionError, match="max_time"):
        lineal.OnlineClassifier(max_time=1.0).partial_fit(X, y)


def test_partial_fit_after_passes_holds_nothing_out():
    X, y, _ = problem()
    model = lineal.OnlineClassifier(bits=12, passes=2).fit(X, y).set_params(passes=1)
    before = model.model_.learner.sums.copy()
    model.partial_fit(X, y)
    np.testing.assert_array_equal(model.model_.learner.sums[2:], before[2:])


def test_all_passes_are_made_where_nothing_is_held_out():
    X, y, _ = problem(8)
    assert lineal.OnlineClassifier(bits=12, passes=7).fit(X, y).n_iter_ == 7


def test_entries_that_meet_are_added_up():
    X, y, _ = problem()
    twice = sparse.csr_array(
        (np.repeat(X.ravel() / 2.0, 2), np.tile(np.repeat(np.arange(8), 2), 200), np.arange(0, 3201, 16)), X.shape
    )
    for expansion in (None, "quadratic"):
        model = lineal.OnlineClassifier(bits=12, expansion=expansion)
        expected = model.fit(X, y).decision_function(X)
        np.testing.assert_array_equal(model.fit(twice, y).decision_function(twice), expected)
        np.testing.assert_array_equal(model.fit(twice.tocsc(), y).decision_function(twice.tocsc()), expected)


def test_columns_that_share_a_weight_share_a_name():
    X = np.zeros((20, 1100))
    X[:, 1030] = np.arange(20) % 2
    model = lineal.OnlineClassifier(bits=10).fit(X, np.arange(20) % 2).model_
    named = dataclasses.replace(model, feature_names=[f"f{j}" for j in range(1100)])
    assert named.heaviest(1)[0]["features"][0]["name"] == "f6 or f1030"


@pytest.mark.parametrize(("first", "second"), [([0, 1, 0], ["a", "b", "a"]), (["a", "b", "a"], [0, 1, 0])])
def test_classes_are_numbers_or_texts(first, second):
    for classes in (None, np.unique(first)):
        model = lineal.OnlineClassifier(bits=12).partial_fit(np.eye(3), first, classes)
        with pytest.raises(DataError, match=r"texts.*numbers|numbers.*texts"):
            model.partial_fit(np.eye(3), second)


def test_too_many_weights_name_bits():
    with pytest.raises(DataError, match="--bits"):
        Trainer(options(bits=30), "sets", np.arange(20000))  # beyond what addresses can name


def test_label_sets_keep_their_width():
    X, _, _ = problem()
    Y = np.random.default_rng(0).random((200, 40)) < 0.5
    model = lineal.OnlineClassifier(bits=12).partial_fit(X, Y[:, :3].astype(int))
    with pytest.raises(DataError, match="shape"):
        model.partial_fit(X, Y.astype(int))


def test_label_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    Y = (X[:, :3] > 0.0).astype(int)
    model = lineal.OnlineClassifier(bits=12).fit(X, Y)
    assert np.mean(model.predict(X) == Y) > 0.9
    assert model.predict_proba(X).shape == Y.shape
    sparse_model = lineal.OnlineClassifier(bits=12).fit(X, sparse.csr_array(Y))
    np.testing.assert_array_equal(sparse_model.decision_function(X), model.decision_function(X))


def test_regression_and_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)) * 10.0 ** np.arange(-2, 3)
    y = X / 10.0 ** np.arange(-2, 3) @ np.arange(1.0, 6.0) + rng.normal(size=4000)
    assert lineal.OnlineRegressor(bits=12).fit(X, y).score(X, y) > 0.95
    noise = rng.exponential(size=6000)
    high = lineal.OnlineRegressor(loss="quantile", tau=0.9, bits=12, rate=2.0).fit(np.ones((6000, 1)), noise)
    assert np.mean(noise < high.predict(np.ones((1, 1)))) == pytest.approx(0.9, abs=0.05)


def test_probabilities_belong_to_logistic_loss():
    X, y, _ = problem()
    model = lineal.OnlineClassifier(bits=12).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    assert not hasattr(lineal.OnlineClassifier(loss="hinge"), "predict_proba")


def test_interactions_among_namespaces():
    """Only products of the named namespaces count, and each once, however it is written."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(3000, 4))
    y = np.where(X[:, 0] * X[:, 2] > 0.0, 1, 0)
    names = {"user": [0, 1], "ad": [2], "page": [3]}
    score = {}
    for text in ("user*ad", "ad*user,user*ad", "user*page"):
        model = lineal.OnlineClassifier(expansion="quadratic", interactions=text, namespaces=names).fit(X, y)
        score[text] = model.score(X, y)
    assert score["user*ad"] > 0.99
    assert score["user*page"] < 0.6
    assert score["ad*user,user*ad"] == score["user*ad"]
    with pytest.raises(OptionError, match="'site'"):
        lineal.OnlineClassifier(expansion="quadratic", interactions="user*site", namespaces=names).fit(X, y)
    with pytest.raises(OptionError, match="interactions"):
        lineal.OnlineClassifier(namespaces=names).fit(X, y)


def test_cubic_expansion_of_pairs_alone_makes_no_triples():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(300, 4))
    y = np.where(X[:, 0] * X[:, 2] > 0.0, 1, 0)
    names = {"user": [0, 1], "ad": [2, 3]}
    pairs, both = (
        lineal.OnlineClassifier(bits=12, expansion=kind, interactions="user*ad", namespaces=names).fit(X, y)
        for kind in ("quadratic", "cubic")
    )
    np.testing.assert_array_equal(both.decision_function(X), pairs.decision_function(X))


def test_namespaces_of_columns_hold_whatever_a_block_has_stored():
    """Also where a sparse block has as many entries as X has columns."""
    X = np.zeros((4, 8))
    X[np.arange(4), [0, 2, 4, 6]] = 1.0
    X[np.arange(4), [1, 3, 5, 7]] = 2.0
    kinds = np.array([1, 2, 2, 1, 0, 0, 1, 1], np.uint8)
    dense, stored = (rows_of(matrix, column_kinds=kinds) for matrix in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(dense.kinds, [1, 2, 2, 1, 0, 0, 1, 1])
    np.testing.assert_array_equal(stored.kinds, dense.kinds)
    turned = X[:, ::-1]
    np.testing.assert_array_equal(rows_of(sparse.csr_array(turned), column_kinds=kinds).kinds, [1, 1, 0, 0, 2, 1, 1, 2])


def test_verbose_shows_the_progressive_loss(capsys):
    X, y, _ = problem(20)
    lineal.OnlineClassifier(bits=12, verbose=1).fit(X, y)
    head, *lines = capsys.readouterr().err.splitlines()
    assert head.split()[:3] == ["average", "since", "examples"]
    assert [int(line.split()[2]) for line in lines] == [1, 2, 4, 8, 16, 20]
    lineal.OnlineClassifier(bits=12).fit(X, y)
    assert capsys.readouterr().err == ""


# --- bad input and edges


def test_rows_without_features_and_weight_zero():
    X, y, _ = problem(50)
    X[::3] = 0.0
    _, said = learned(X, y)
    assert np.isfinite(said).all()
    h = np.ones(50)
    h[10:] = 0.0
    few, _ = learned(X[:10], y[:10])
    rest, _ = learned(X, y, h)
    np.testing.assert_array_equal(rest.weights(), few.weights())


def test_unlabelled_rows_are_predicted_only():
    X, y, _ = problem(60)
    gaps = y.copy()
    gaps[1::2] = np.nan
    some, said = learned(X, gaps)
    labelled_only, _ = learned(X[::2], y[::2])
    np.testing.assert_array_equal(some.weights(), labelled_only.weights())
    assert np.isfinite(said).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e31])
def test_values_that_cannot_be_used_name_their_row(value):
    X = np.ones((5, 3))
    X[3, 1] = value
    with pytest.raises(DataError, match="row 3"):
        Trainer(options(), "classes", [0, 1]).feed(Block(X, np.array([0, 1, 0, 1, 0])))


@pytest.mark.parametrize("scale", [1e-28, 1e28])
def test_huge_and_tiny_values_stay_finite(scale):
    X, y, _ = problem(100)
    X = X * scale / np.abs(X).max()
    for given in ({}, {"expansion": "cubic"}, {"expansion": "adaptive", "schedule": "doubling"}, {"loss": "squared"}):
        learner, said = learned(X, y, **given)
        assert np.isfinite(said).all()
        assert np.isfinite(learner.scores(rows_of(X))).all()


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("power_t", [0.5, 0.3])
def test_values_below_the_least_scale_are_learned_as_they_are_scored(k, power_t):
    """With z their part of the least scale, G grows by z² of what it grows for the constant, and w without G by z."""
    for x, adaptive in itertools.product((1e-33, -1e-33, 1e-31, 1e-20), (False, True)):
        learner = Learner(options(adaptive=adaptive, invariant=False, power_t=power_t), k)
        rows = rows_of(np.array([[x]]))._replace(labels=np.array([1.0]))
        learner.learn(rows, np.zeros(1, np.int32), np.array([0, 1]))
        z = math.copysign(min(abs(x) / 1e-30, 1.0), x)
        feature, constant = learner.tensors()["squares" if adaptive else "weights"][:, 0]
        assert feature == pytest.approx((z * z if adaptive else z) * constant, rel=1e-5)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("expansion", [None, "cubic"])
@pytest.mark.parametrize("scale", [1e-32, 1e-36, 1e-40])
def test_vanishing_values_and_products_do_no_harm(scale, expansion, k):
    """A column of them beside others changes next to nothing."""
    X, y, _ = problem(200, density=1.0)
    X, y = X / np.abs(X).max(axis=0), y if k == 1 else np.arange(200) % 3
    tiny = np.column_stack([X, scale * np.sin(np.arange(200))])
    plain, more = (
        lineal.OnlineClassifier(bits=16, expansion=expansion).fit(one, y).decision_function(one) for one in (X, tiny)
    )
    assert np.isfinite(more).all()
    assert np.corrcoef(plain.ravel(), more.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("expansion", ["quadratic", "cubic", "adaptive"])
def test_products_that_are_cut_are_counted_and_said_once(expansion):
    X, y, _ = problem(60, d=3, density=1.0)
    X = X / np.abs(X)
    model = lineal.OnlineClassifier(bits=12, expansion=expansion)
    for method in (model.fit, model.partial_fit):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            method(X * 1e3, y)
        with pytest.warns(UserWarning, match="beyond .*1e.30.*: scale the columns") as caught:
            method(X * 1e20, y)
        assert len(caught) == 1
    if expansion == "quadratic":
        assert str(caught[0].message).startswith(f"{60 * 6} products")


def test_bad_weights_and_labels():
    X, y = np.eye(3), np.array([0, 1, 0])
    with pytest.raises(DataError, match="not negative"):
        Trainer(options(), "classes", [0, 1]).feed(Block(X, y, np.array([1.0, -1.0, 1.0])))
    with pytest.raises(DataError, match="label 7"):
        Trainer(options(), "classes", [0, 1]).feed(Block(X, np.array([0, 7, 1])))
    with pytest.raises(LinealError, match="one class"):
        lineal.OnlineClassifier().fit(X, [1, 1, 1])
    with pytest.raises(DataError, match=r"y\[1\] is inf"):
        Trainer(options(loss="squared"), "numbers").feed(Block(X, np.array([0.0, math.inf, 1.0])))


def test_too_many_monomials_are_refused():
    with pytest.raises(DataError, match="adaptive"):
        lineal.OnlineClassifier(expansion="cubic").fit(np.ones((2, 1200)), [0, 1])


# --- files


@pytest.mark.parametrize(
    "given", [{}, {"expansion": "adaptive"}, {"expansion": "quadratic", "l1": 1e-3}, {"loss": "squared"}], ids=str
)
@pytest.mark.parametrize("k", [2, 3])
def test_saved_models_predict_and_go_on(tmp_path, given, k):
    X, _, scores = problem(300)
    y = np.digitize(scores, np.quantile(scores, np.arange(1, k) / k))
    model = lineal.OnlineClassifier(bits=12, **given).fit(X[:200], y[:200])
    model.save(tmp_path / "m")
    loaded = lineal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.learner.parents.monomials == model.model_.learner.parents.monomials
    model.partial_fit(X[200:], y[200:])
    trainer = Trainer.of(loaded)
    trainer.feed(Block(X[200:], y[200:]))
    np.testing.assert_array_equal(trainer.learner.weights(), model.model_.learner.weights())


@pytest.mark.parametrize("given", [{"heuristic": "ssm"}, {"picky": True}])
def test_saved_models_go_on_within_an_epoch(tmp_path, given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 6)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0.0, 1.0, -1.0)
    whole, half = (Trainer(options(expansion="adaptive", schedule="doubling", **given), "classes", [-1, 1], None, 6)
                   for _ in range(2))  # fmt: skip
    whole.feed(Block(X, y))
    half.feed(Block(X[:1500], y[:1500]))
    half.model().save(tmp_path / "m")
    again = Trainer.of(lineal.load(tmp_path / "m"))
    again.feed(Block(X[1500:], y[1500:]))
    assert again.learner.parents.monomials == whole.learner.parents.monomials
    np.testing.assert_array_equal(again.learner.weights(), whole.learner.weights())


def test_saved_regressions(tmp_path):
    X, _, scores = problem(200)
    model = lineal.OnlineRegressor(bits=12).fit(X, scores)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(lineal.load(tmp_path / "m").predict(X), model.predict(X))


def test_damaged_parts_are_refused(tmp_path):
    from lineal.models.file import _from_json, _to_json

    X, y, _ = problem(100)
    model = lineal.OnlineClassifier(bits=12, expansion="adaptive").fit(X, y).model_
    values, tensors = _to_json(model)
    good = json.loads(json.dumps(values))
    assert _from_json(good, dict(tensors)).learner.k == 1
    damages = (
        lambda a: a[:-1],
        lambda a: np.zeros(a.shape, np.int8),
        lambda a: a - 1 if a.dtype == np.int64 else a * np.nan,
    )
    for name, damage in itertools.product(tensors, damages):
        wrong = damage(tensors[name])
        if name == "clashes" and wrong.dtype == np.int64 and len(wrong) == 2:
            continue  # any counts will do
        with pytest.raises((ValueError, KeyError, IndexError, LinealError)):
            _from_json(json.loads(json.dumps(values)), {**tensors, name: wrong})
    for key, value in (
        ("k", 2), ("k", -1), ("parents", [[5, 1]]), ("parents", [[-1]]), ("epoch", "x"), ("learner", {"x": 1}),
        ("parents", [[0]] * 3), ("learner", {"loss": "logistic", "rate": "tune"}),
    ):  # fmt: skip
        broken = json.loads(json.dumps(values))
        broken["own"][key] = value
        with pytest.raises((ValueError, KeyError, TypeError, LinealError)):
            _from_json(broken, dict(tensors))
    with pytest.raises(ModelFileError):
        lineal.load(tmp_path / "nothing")


def test_damaged_namespaces_and_candidates_are_refused():
    from lineal.models.file import _from_json, _to_json

    X, y, _ = problem(100)
    names = {"a": [0, 1], "b": [2]}
    given = {"expansion": "quadratic", "interactions": "a*b", "namespaces": names}
    model = lineal.OnlineClassifier(bits=12, **given).fit(X, y).model_
    values, tensors = _to_json(model)
    for wrong in (tensors["kinds"] + np.uint8(7), tensors["kinds"][:-1], tensors["kinds"].astype(np.int64)):
        with pytest.raises(ValueError, match="kinds"):
            _from_json(json.loads(json.dumps(values)), {**tensors, "kinds": wrong})
    model = lineal.OnlineClassifier(bits=12, expansion="adaptive", picky=True).fit(X, y).model_
    values, tensors = _to_json(model)
    for wrong in (np.array([-1]), np.array([1 << 12]), np.array([3, 2])):
        with pytest.raises(ValueError, match="active"):
            _from_json(json.loads(json.dumps(values)), {**tensors, "active": wrong})
