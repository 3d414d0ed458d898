"""The average of several learners: by hand, by its invariances, and with classes and products that only one has."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lineal.errors import DataError
from lineal.online.average import average, columns_of, united
from lineal.online.fit import array_blocks
from lineal.online.options import OnlineOptions
from lineal.online.parents import Parents
from lineal.online.state import HIGHEST, IMPORTANCE, LOWEST, NORMS, SEEN
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Trainer

SLOTS = 1 << 10


def trained(X, y, kind=CLASSES, classes=None, **options):
    options = OnlineOptions(bits=10, **options).checked()
    trainer = Trainer(options, kind, classes, None if options.schedule != "equal" else len(y), X.shape[1])
    trainer.learner.start_pass()
    for block in array_blocks(sparse.csr_array(X), y):
        trainer.feed(block)
    return trainer


def averaged(trainers, kind=CLASSES, classes=None):
    options = trainers[0].learner.options
    trainer = Trainer(options, kind, classes, trainers[0].learner.products.n_examples, trainers[0].width)
    average(trainer, [one.loop_state() for one in trainers])
    return trainer


def true_sums(trainer):
    """G in the units of the rows, (slots + 1, k)."""
    table = trainer.learner.table
    slots = np.arange(SLOTS + 1)
    return table.tensors(slots)["squares"].astype(np.float64) * table.scales(slots)[:, None].astype(np.float64) ** 2


def problem(n=300, d=6, k=3, seed=0):
    random = np.random.default_rng(seed)
    X = (random.normal(size=(n, d)) * (random.random((n, d)) < 0.7) * 10.0 ** np.arange(d)).astype(np.float32)
    scores = (X / 10.0 ** np.arange(d)) @ random.normal(size=(d, k)) + 0.3 * random.normal(size=(n, k))
    return X, scores


def of_kind(scores, kind):
    if kind == NUMBERS:
        return scores[:, 0]
    if kind == SETS:
        return sparse.csr_array((scores > 0.0).astype(np.int8))
    return scores.argmax(axis=1)


KINDS = [
    (NUMBERS, None, {}), (NUMBERS, None, {"l1": 1e-3, "l2": 1e-3}), (CLASSES, np.arange(3), {}),
    (CLASSES, np.arange(3), {"l1": 1e-4}), (SETS, np.arange(3), {}), (NUMBERS, None, {"power_t": 0.3}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "classes", "options"), KINDS, ids=str)
def test_the_formula(kind, classes, options):
    X, scores = problem()
    X[:100, 2] = 0.0  # a feature that one learner has not seen
    y, cut = of_kind(scores, kind), 100
    parts = [trained(X[:cut], y[:cut], kind, classes, **options), trained(X[cut:], y[cut:], kind, classes, **options)]
    found = averaged(parts, kind, classes)
    weights, sums = (np.stack([read(one) for one in parts]) for read in (weights_of, true_sums))
    total = np.where(sums.sum(axis=0) > 0.0, sums.sum(axis=0), 1.0)
    np.testing.assert_allclose(weights_of(found), (sums * weights).sum(axis=0) / total, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(true_sums(found), (sums**2).sum(axis=0) / total, rtol=1e-5)
    scales = np.stack([one.learner.table.scales() for one in parts])
    np.testing.assert_array_equal(found.learner.table.scales(), scales.max(axis=0))
    np.testing.assert_allclose(weights_of(found)[2], weights_of(parts[1])[2], rtol=1e-6)
    assert found.learner.examples == 300
    np.testing.assert_array_equal(found.learner.sums, parts[0].learner.sums + parts[1].learner.sums)


def weights_of(trainer):
    return trainer.learner.weights().astype(np.float64)


def test_without_adaptive_those_who_have_seen_a_feature_count_alike():
    X, scores = problem()
    X[:100, 2] = 0.0
    given = {"kind": NUMBERS, "adaptive": False}
    parts = [trained(X[:100], scores[:100, 0], **given), trained(X[100:], scores[100:, 0], **given)]
    weights = np.stack([weights_of(one) for one in parts])
    expected = weights.mean(axis=0)
    expected[2] = weights[1][2]
    np.testing.assert_allclose(weights_of(averaged(parts, NUMBERS)), expected, rtol=1e-5, atol=1e-30)


def test_equal_learners_are_their_own_average():
    X, scores = problem()
    for kind, classes in ((NUMBERS, None), (CLASSES, np.arange(3))):
        one = trained(X, of_kind(scores, kind), kind, classes)
        found = averaged([one, one, one], kind, classes).learner.table
        np.testing.assert_array_equal(found.inverse_scales(), one.learner.table.inverse_scales())
        np.testing.assert_array_equal(found.weights(), one.learner.table.weights())
        np.testing.assert_allclose(found.totals, one.learner.table.totals, rtol=1e-12)


def test_a_learner_without_rows_changes_nothing():
    X, scores = problem()
    one, none = trained(X, scores[:, 0], NUMBERS), trained(X[:0], scores[:0, 0], NUMBERS)
    for pair in ([one, none], [none, one]):
        found = averaged(pair, NUMBERS)
        np.testing.assert_array_equal(found.learner.weights(), one.learner.weights())
        np.testing.assert_allclose(found.learner.table.totals, one.learner.table.totals, rtol=1e-12)


def test_scales_that_differ_by_far_do_not_overflow():
    X = np.array([[1e-28, 1.0], [1e-28, -1.0], [1e28, 1.0], [1e28, -1.0]], np.float32)
    y = np.array([1.0, -1.0, 1.0, -1.0])
    found = averaged([trained(X[:2], y[:2], NUMBERS), trained(X[2:], y[2:], NUMBERS)], NUMBERS)
    assert np.isfinite(found.learner.weights()).all()
    for block in array_blocks(sparse.csr_array(X), y):
        assert np.isfinite(found.feed(block)).all()
    found.check_finite()


def test_totals():
    X, scores = problem()
    parts = [trained(X[:100], scores[:100, 0], NUMBERS), trained(X[100:], scores[100:, 0], NUMBERS)]
    first, second = (one.learner.table.totals[0] for one in parts)
    totals = averaged(parts, NUMBERS).learner.table.totals[0]
    for entry in (IMPORTANCE, NORMS, SEEN):
        assert totals[entry] == pytest.approx((first[SEEN] * first[entry] + second[SEEN] * second[entry]) / 300)
    assert totals[LOWEST] == min(first[LOWEST], second[LOWEST])
    assert totals[HIGHEST] == max(first[HIGHEST], second[HIGHEST])


# --- classes


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[], []], []), ([["b"], []], ["b"]), ([["b"], ["a"]], ["a", "b"]), ([["a", "b"], ["b"]], ["a", "b"]),
        ([["b", "c"], ["a"]], ["b", "c", "a"]), ([["a"], ["zebra"], ["b", "zebra"]], ["a", "zebra", "b"]),
    ],
)  # fmt: skip
def test_classes_are_united(labels, expected):
    assert united([np.array(one) for one in labels]).tolist() == expected


def test_texts_and_numbers_are_refused():
    with pytest.raises(DataError, match="texts for labels and some have met numbers"):
        united([np.array(["a"]), np.array([1.0])])


def test_scores_of_classes():
    classes = np.array(["a", "b", "c"])
    assert columns_of(np.array(["a", "b"]), classes, 1, 3) == [(0, -1.0, 0), (0, 1.0, 1)]
    assert columns_of(np.array(["c"]), classes, 1, 3) == [(0, 1.0, 2)]
    assert columns_of(np.array(["c", "b", "a"]), classes, 3, 3) == [(0, 1.0, 2), (1, 1.0, 1), (2, 1.0, 0)]
    assert columns_of(np.array(["a"]), classes[:2], 1, 1) == [(0, -1.0, 0)]
    assert columns_of(np.array(["b"]), classes[:2], 1, 1) == [(0, 1.0, 0)]
    assert columns_of(np.empty(0), classes[:2], 1, 1) == []


def test_classes_that_one_learner_has_alone():
    X, scores = problem()
    y = np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]
    has_cedar = y == "cedar"
    two, three = trained(X[~has_cedar], y[~has_cedar]), trained(X, y)
    found = averaged([two, three])
    assert found.learner.k == 3
    own = {label: weights_of(three)[:, column] for column, label in enumerate(three.classes.tolist())}
    columns = {label: weights_of(found)[:, column] for column, label in enumerate(found.classes.tolist())}
    assert columns.keys() == {"ash", "birch", "cedar"}
    np.testing.assert_allclose(columns["cedar"], own["cedar"], rtol=1e-6)  # the other learner has no vote
    sums = np.stack([true_sums(two)[:, 0], true_sums(three)[:, three.classes.tolist().index("birch")]])
    both = np.stack([weights_of(two)[:, 0], own["birch"]])
    expected = (sums * both).sum(axis=0) / np.maximum(sums.sum(axis=0), 1e-300)
    np.testing.assert_allclose(columns["birch"], expected, rtol=1e-5, atol=1e-30)


def test_learners_with_one_class_each():
    X, _ = problem()
    first, second = trained(X[:100], np.full(100, "b")), trained(X[100:200], np.full(100, "a"))
    found = averaged([first, second])
    assert found.classes.tolist() == ["a", "b"]
    a, b = (averaged([one], classes=None) for one in (second, first))
    scores = found.learner.scores(_rows(X[:5]))
    assert (a.learner.scores(_rows(X[:5])) > 0).all()
    assert (b.learner.scores(_rows(X[:5])) > 0).all()
    assert np.abs(scores).max() < np.abs(b.learner.scores(_rows(X[:5]))).max()


def _rows(X):
    from lineal.online.rows import rows_of

    return rows_of(sparse.csr_array(X))


# --- products


def test_parents_are_united_and_named_by_the_first_that_makes_them():
    X, scores = problem(n=600, d=5)
    X /= 10.0 ** np.arange(5)
    given = {"kind": NUMBERS, "expansion": "adaptive", "schedule": "equal", "epochs": 4}
    parts = [trained(X[:300], scores[:300, 0], **given), trained(X[300:], scores[300:, 0], **given)]
    found = averaged(parts, NUMBERS)
    union = dict.fromkeys([*parts[0].learner.parents.monomials, *parts[1].learner.parents.monomials])
    assert found.learner.parents.monomials == list(union)
    assert len(union) > len(parts[0].learner.parents)  # the learners differ
    assert found.learner.products.next_growth() == 0
    names = [names_of(one) for one in (*parts, found)]
    assert names[2] == {**names[1], **names[0]}
    before = found.learner.products.origin.copy()
    clashes = found.learner.products.clashes.copy()
    for block in array_blocks(sparse.csr_array(X), scores[:, 0]):
        found.feed(block)
    met = np.flatnonzero(before)
    np.testing.assert_array_equal(found.learner.products.origin[met], before[met])
    share = (found.learner.products.clashes - clashes)[0] / max(1, (found.learner.products.clashes - clashes)[1])
    assert share < 0.25  # 2^10 slots: some collide; a monomial under another name would clash every time
    weights, sums = (np.stack([read(one) for one in parts]) for read in (weights_of, true_sums))
    again = averaged(parts, NUMBERS)
    expected = (sums * weights).sum(axis=0) / np.maximum(sums.sum(axis=0), 1e-300)
    np.testing.assert_allclose(weights_of(again), expected, rtol=1e-5, atol=1e-30)


def names_of(trainer):
    learner = trainer.learner
    slots = np.flatnonzero(learner.products.origin)
    return {int(slot): learner.parents.monomial_of(int(learner.products.origin[slot])) for slot in slots}


def test_the_first_origin_of_a_product_by_hand():
    parents = Parents([(1,), (0,), (0, 1), (2,)])
    origin = np.array([0, 3, (2 << 32) | 2, (1 << 32) | 1, (4 << 32) | 2, (3 << 32) | 3], np.int64)
    # nothing; column 2; 0·1 by the second parent; 0·1 by the first; 2·1 by the fourth; (0·1)·2 by the third
    found = parents.first_origins(origin)
    assert found.tolist() == [0, 3, (1 << 32) | 1, (1 << 32) | 1, (1 << 32) | 3, (3 << 32) | 3]
    for old, new in zip(origin[1:].tolist(), found[1:].tolist()):
        assert parents.monomial_of(old) == parents.monomial_of(new)
