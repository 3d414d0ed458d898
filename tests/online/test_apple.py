"""Products of features made on the fly: each once, parents by their scores, what is proved and what is found."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from lineal.errors import OptionError
from lineal.online.learner import Learner
from lineal.online.monomial_keys import column_key, slot_of
from lineal.online.monomials import expand
from lineal.online.options import OnlineOptions
from lineal.online.parents import Parents
from lineal.online.state import G, Rows
from lineal.online.trainer import Block, Trainer

BITS = 18


def options(**given):
    return OnlineOptions(**{"loss": "squared", "bits": BITS, **given}).checked()


def rows_of(X, y=None):
    X = sparse.csr_matrix(X, dtype=np.float32)
    n = X.shape[0]
    labels = np.zeros(n) if y is None else np.asarray(y, np.float64)
    return Rows(
        X.indices.astype(np.int32), X.data, X.indptr.astype(np.int64), np.zeros(0, np.uint8), labels, np.ones(n), 0
    )


def mixed_rows(n=12, d=7, seed=0):
    """Some entries are 1, some are other numbers, some are none; a column can have all three."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, 1.0, rng.normal(size=(n, d)).round(2) + 3.0)
    return X * (rng.random((n, d)) < 0.7)


def slot(monomial, learner):
    if len(monomial) == 1:
        return monomial[0]
    with np.errstate(over="ignore"):
        key = np.array([column_key(np.int32(column)) for column in monomial], np.uint64).sum(dtype=np.uint64)
    return int(slot_of(key, np.int32(learner.table.slots - 1)))


def features_of(learner, rows, i):
    """Slots and values of a row after its expansion, without the constant."""
    scratch = learner._room(rows)
    count = expand(rows, i, learner.products.arrays, scratch) - 1
    assert scratch.slots[count] == learner.table.slots
    return sorted(zip(scratch.slots[:count].tolist(), scratch.values[:count].tolist()))


def value(monomial, row):
    return float(np.prod([row[column] for column in monomial]))


def expected(monomials, row, learner):
    return sorted((slot(monomial, learner), value(monomial, row)) for monomial in monomials)


def agree(found, wanted):
    assert [slot for slot, _ in found] == [slot for slot, _ in wanted]
    np.testing.assert_allclose([v for _, v in found], [v for _, v in wanted], rtol=1e-5)


def grown(row, parents):
    """Columns of a row, and parents times columns: as slowly as can be."""
    present = [j for j in range(len(row)) if row[j] != 0.0]
    found = {(j,) for j in present}
    waiting = [monomial for monomial in found if monomial in parents]
    while waiting:
        parent = waiting.pop()
        for j in present:
            if row[j] == 1.0 and j in parent:
                continue
            child = tuple(sorted((*parent, j)))
            if child not in found:
                found.add(child)
                if child in parents:
                    waiting.append(child)
    return found


def random_parents(rng, d, count):
    """Each is a column, or an earlier parent times a column."""
    parents = []
    while len(parents) < count:
        base = () if not parents or rng.random() < 0.4 else parents[rng.integers(len(parents))]
        monomial = tuple(sorted((*base, int(rng.integers(d)))))
        if monomial not in parents and len(monomial) < 6:
            parents.append(monomial)
    return parents


@pytest.mark.parametrize("seed", range(6))
def test_every_monomial_exactly_once(seed):
    X = mixed_rows(seed=seed)
    parents = random_parents(np.random.default_rng(seed), X.shape[1], 15)
    learner = Learner(options(expansion="adaptive"), n_examples=10**6)
    learner.products.parents = Parents(parents)
    rows = rows_of(X)
    for i, row in enumerate(X):
        monomials = grown(row, set(parents))
        agree(features_of(learner, rows, i), expected(monomials, row, learner))
    assert learner.count_features(rows) == sum(len(grown(row, set(parents))) for row in X)


@pytest.mark.parametrize(("expansion", "degree"), [("quadratic", 2), ("cubic", 3)])
def test_all_products_up_to_a_degree(expansion, degree):
    X = mixed_rows()
    learner = Learner(options(expansion=expansion))
    rows = rows_of(X)
    for i, row in enumerate(X):
        present = [j for j in range(len(row)) if row[j] != 0.0]
        monomials = [
            monomial
            for size in range(1, degree + 1)
            for monomial in combinations_with_replacement(present, size)
            if all(row[j] != 1.0 or monomial.count(j) == 1 for j in monomial)
        ]
        agree(features_of(learner, rows, i), expected(monomials, row, learner))


def product_problem(n=600, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** np.arange(-2, d - 2)
    Z = X / 10.0 ** np.arange(-2, d - 2)
    return X, 0.3 * Z[:, 0] + Z[:, 1] * Z[:, 2] - 0.5 * Z[:, 3]


def test_parents_have_the_largest_scaled_weights():
    X, y = product_problem()
    n = len(y)
    given = {"heuristic": "weight", "schedule": "equal", "caution": 0.0, "epochs": 2, "growth": 0.5}
    apple = Learner(options(expansion="adaptive", **given), n_examples=n, is_number=True)
    apple.learn(rows_of(X, y))
    linear = Learner(options(), is_number=True)
    linear.learn(rows_of(X[: n // 2], y[: n // 2]))
    scores = np.abs(linear.weights()[:6, 0]) * np.abs(X[: n // 2]).max(axis=0)
    assert apple.parents.monomials == [(j,) for j in np.argsort(-scores)[: int(6**0.5)]]


def test_parents_by_ssm():
    X, y = product_problem()
    n = len(y)
    given = {"heuristic": "ssm", "schedule": "equal", "epochs": 2, "growth": 0.5}
    learner = Learner(options(expansion="adaptive", **given), n_examples=n, is_number=True)
    said = learner.learn(rows_of(X, y))[: n // 2]
    squares = (X[: n // 2] ** 2).astype(np.float64)
    scores = (((y[: n // 2] - said) ** 2)[:, None] * squares).sum(axis=0) / squares.sum(axis=0)
    assert learner.parents.monomials == [(j,) for j in np.argsort(-scores)[:2]]


def test_scores_of_several_classes_are_lengths():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 5)), rng.integers(0, 3, 400).astype(np.int32)
    X[np.arange(400), labels] += 1.0
    starts = np.arange(401)
    given = {"schedule": "equal", "epochs": 2, "growth": 0.5}
    apple = Learner(options(expansion="adaptive", **given), 3, n_examples=400)
    apple.learn(rows_of(X), labels, starts)
    linear = Learner(options(), 3)
    linear.learn(rows_of(X[:200]), labels[:200], starts[:201])
    scores = np.linalg.norm(linear.weights()[:5], axis=1) * np.abs(X[:200]).max(axis=0)
    assert apple.parents.monomials == [(j,) for j in np.argsort(-scores)[:2]]


def test_fallback_reaches_all_columns():
    X, y = product_problem()
    given = {"fallback": True, "growth": 0.0, "schedule": "equal", "epochs": 8}
    learner = Learner(options(expansion="adaptive", **given), n_examples=len(y), is_number=True)
    learner.learn(rows_of(X, y))
    assert len(learner.parents) == 7
    assert sorted(learner.parents.monomials[:6]) == [(j,) for j in range(6)]
    assert len(learner.parents.monomials[6]) == 2


@pytest.mark.parametrize(
    ("schedule", "ends"),
    [("equal", [32, 64, 96, 128, 160]), ("halving", [6, 12, 24, 48, 96]), ("auto", [6, 12, 24, 48, 96])],
)
def test_when_epochs_end(schedule, ends):
    X, y = product_problem(n=192)
    learner = Learner(options(expansion="adaptive", schedule=schedule), n_examples=192, is_number=True)
    seen, sizes = [], [0]
    for i in range(192):
        learner.learn(rows_of(X[i : i + 1], y[i : i + 1]))
        if len(learner.parents) > sizes[-1]:
            seen.append(i + 1)
            sizes.append(len(learner.parents))
    assert seen == ends


def test_doubling_epochs_of_a_stream():
    X, y = product_problem(n=2500)
    learner = Learner(options(expansion="adaptive", growth=0.0), is_number=True)
    learner.learn(rows_of(X, y))
    assert (learner.products.epoch, len(learner.parents)) == (3, 2)
    with pytest.raises(OptionError, match=r"halving.*doubling"):
        Learner(options(expansion="adaptive", schedule="halving"))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("caution", [0.0, 0.3])
def test_sums_of_new_monomials_start_at_a_share_of_the_constants(k, caution):
    X = np.array([[2.0, 3.0]] * 7)
    labels, starts = np.zeros(7, np.int32), np.arange(8)
    given = {"schedule": "equal", "epochs": 2, "growth": 0.0, "caution": caution, "rate": 0.01}
    learner = Learner(options(expansion="adaptive", **given), k, n_examples=12)

    def sums():
        table = learner.table
        first = G if k == 1 else table.width
        return table.rows[:, first : first + k]

    def learn(first, last):
        rows = rows_of(X[first:last], np.ones(last - first))
        learner.learn(rows, *((labels[first:last], starts[: last - first + 1]) if k > 1 else ()))

    learn(0, 6)
    assert len(learner.parents) == 1
    before = sums()[learner.table.slots].copy()
    learn(6, 7)
    after = sums()[learner.table.slots]
    new = slot((*learner.parents.monomials[0], 1 - learner.parents.monomials[0][0]), learner)
    np.testing.assert_allclose(sums()[new], caution * before + (after - before), rtol=1e-5)


def test_caution_leaves_other_features_alone():
    X, y = product_problem(n=300)
    tables = []
    for caution in (0.0, 1.0):
        given = {"schedule": "equal", "epochs": 2, "caution": caution}
        learner = Learner(options(expansion="adaptive", **given), n_examples=600, is_number=True)
        learner.learn(rows_of(X, y))  # to the end of the first epoch
        tables.append(learner.table.cells.copy())
    np.testing.assert_array_equal(*tables)


def test_picky_stays_with_two_classes():
    trainer = Trainer(options(expansion="adaptive", picky=True), "classes")
    with pytest.raises(OptionError, match="picky"):
        trainer.feed(Block(np.eye(3), np.array([0, 1, 2])))


def test_epochs_of_a_stream_cannot_be_counted():
    with pytest.raises(OptionError, match="epochs=3"):
        Learner(options(expansion="adaptive", epochs=3))


def test_picky_admits_few_and_finds_the_product():
    rng = np.random.default_rng(0)
    X = (rng.random((6000, 12)) < 0.5).astype(np.float64)
    y = X[:, 0] * X[:, 1]
    given = {"picky": True, "growth": 0.5, "schedule": "equal", "epochs": 4}
    learner = Learner(options(expansion="adaptive", **given), n_examples=len(y), is_number=True)
    sizes = []
    for at in range(0, len(y), 1500):
        learner.learn(rows_of(X[at : at + 1500], y[at : at + 1500]))
        sizes.append(int(learner.products.active.sum()))
    assert sizes[0] == 0  # candidates must first be seen
    assert max(np.diff(sizes)) <= 2
    assert learner.products.active[slot((0, 1), learner)] == 1
    with pytest.raises(OptionError, match="picky"):
        Learner(options(expansion="adaptive", picky=True), 3)


@pytest.mark.parametrize("picky", [False, True])
@pytest.mark.parametrize("heuristic", ["weight", "ssm"])
def test_rescaled_columns_lead_to_the_same_monomials(heuristic, picky):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] * X[:, 3] + 0.5 * X[:, 4]
    found = []
    for scales in (np.ones(6), 2.0 ** np.array([10, -7, 0, 12, -9, 3]), 2.0 ** np.array([-9, 8, 11, -4, 2, -12])):
        given = options(expansion="adaptive", heuristic=heuristic, picky=picky, growth=0.5)
        learner = Learner(given, n_examples=3000, is_number=True)
        learner.learn(rows_of(X * scales, y))
        found.append((learner.parents.monomials, np.flatnonzero(learner.products.active).tolist()))
    assert len(found[0][0]) > 4
    assert (len(found[0][1]) > 0) == picky
    assert found[1:] == found[:1] * 2


def test_picky_parents_by_ssm_are_among_what_counts():
    """Products that were not admitted have an SSM score, too, but cannot be parents."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 8))
    y = X[:, 0] * X[:, 1] * X[:, 2]
    given = {"picky": True, "heuristic": "ssm", "growth": 0.5, "schedule": "equal", "epochs": 5}
    learner = Learner(options(expansion="adaptive", **given), n_examples=len(y), is_number=True)
    for at in range(0, len(y), 800):
        learner.learn(rows_of(X[at : at + 799], y[at : at + 799]))
        before, known = learner.products.active.copy(), len(learner.parents)
        learner.learn(rows_of(X[at + 799 : at + 800], y[at + 799 : at + 800]))
        for monomial in learner.parents.monomials[known:]:
            assert len(monomial) == 1 or before[slot(monomial, learner)] == 1
    assert len(learner.parents) == 8  # two after each of four epochs


def test_picky_parents_by_ssm_have_the_largest_scores():
    X, y = product_problem()
    n = len(y)
    given = {"heuristic": "ssm", "picky": True, "schedule": "equal", "epochs": 2, "growth": 0.5}
    learner = Learner(options(expansion="adaptive", **given), n_examples=n, is_number=True)
    predicted = learner.learn(rows_of(X, y))[: n // 2]
    squares = (X[: n // 2] ** 2).astype(np.float64)
    scores = (((y[: n // 2] - predicted) ** 2)[:, None] * squares).sum(axis=0) / squares.sum(axis=0)
    assert learner.parents.monomials == [(j,) for j in np.argsort(-scores)[:2]]


def test_shorter_rows_with_more_parents_have_the_room_they_need():
    rng = np.random.default_rng(0)
    X = np.zeros((4200, 14))
    X[:, :3] = rng.uniform(0.5, 1.5, size=(4200, 3))
    X[1500] = rng.uniform(0.5, 1.5, size=14)
    y = np.where(X[:, 0] * X[:, 1] > X[:, 2], 1.0, -1.0)
    learner = Learner(options(expansion="adaptive", schedule="doubling", growth=2.0))
    for at in range(0, 4200, 700):
        rows = rows_of(X[at : at + 700], y[at : at + 700])
        learner.learn(rows)
        needed = learner.products.room(rows, 0)
        learner.learn(rows_of(X[at : at + 1], y[at : at + 1])._replace(importance=np.zeros(1)))
        for name in ("slots", "values", "entry_keys", "waiting", "waiting_values"):
            assert len(getattr(learner._scratch, name)) >= len(getattr(needed, name)), name
    assert len(learner.parents) > 14


def test_a_target_of_degree_four_is_found_within_five_stages():
    rng = np.random.default_rng(0)
    target = tuple(sorted(rng.choice(200, 4, replace=False).tolist()))
    X = rng.random((50_000, 200)) < 0.5
    y = X[:, target].all(axis=1)
    learner = Learner(
        options(expansion="adaptive", heuristic="ssm", growth=0.5), n_examples=len(y), is_number=True
    )  # fmt: skip
    learner.learn(rows_of(X, y))
    assert learner.products.epoch == 6  # five stages
    assert any(part in learner.parents.monomials for part in combinations(target, 3))
    weights = learner.weights()[: learner.table.slots, 0]
    assert learner.parents.monomial_of(int(learner.products.origin[slot(target, learner)])) == target
    assert weights[slot(target, learner)] > 0.0


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("heuristic", ["weight", "ssm"])
def test_blocks_cut_anywhere_give_the_same_learner(k, heuristic):
    X, y = product_problem(n=500)
    labels, starts = (np.abs(y * 10).astype(np.int32) % k).astype(np.int32), np.arange(501)
    rng = np.random.default_rng(1)
    learners = []
    for cuts in ([], sorted(rng.choice(np.arange(1, 500), 40, replace=False).tolist()), list(range(1, 500))):
        learner = Learner(options(expansion="adaptive", heuristic=heuristic), k, n_examples=500, is_number=k == 1)
        for first, last in zip([0, *cuts], [*cuts, 500]):
            rows = rows_of(X[first:last], y[first:last])
            learner.learn(rows, *((labels[first:last], starts[: last - first + 1]) if k > 1 else ()))
        learners.append(learner)
    for other in learners[1:]:
        assert other.parents.monomials == learners[0].parents.monomials
        np.testing.assert_array_equal(other.table.cells, learners[0].table.cells)
        np.testing.assert_array_equal(other.table.totals, learners[0].table.totals)


def test_the_theorem_bounds_the_regret():
    """Theorem 1 of Agarwal et al. (2014) with logistic loss, on a distribution of few points, where f is known.

    Comparators are the best weights of the features of their time; expectations are means over samples.
    """
    rng = np.random.default_rng(0)
    points, strength, steps = rng.choice([-1.0, 0.0, 1.0, 0.5], (8, 3)), 0.3, 240
    y = np.where(points[:, 0] * points[:, 1] + 0.2 * points[:, 2] > 0.1, 1.0, -1.0)
    gaps, bounds = [], []
    for seed in range(5):
        chosen = np.random.default_rng(seed).integers(0, len(y), steps)
        learner = Learner(
            options(
                loss="logistic", bits=12, theorem=True, l2=strength, adaptive=False, normalised=False, invariant=False,
                expansion="adaptive", schedule="equal", epochs=3, growth=0.0,
            ),
            n_examples=steps,
        )  # fmt: skip
        best, lengths = np.zeros(steps), []
        for t, i in enumerate(chosen):
            value_now, length = best_of(points, y, set(learner.parents.monomials), strength)
            best[t] = value_now
            learner.learn(rows_of(points[i : i + 1], y[i : i + 1]))
            lengths += [length, float(np.linalg.norm(learner.weights()))]
        shares = np.arange(1, steps + 1) + 2.0
        final = np.logaddexp(0.0, -y * learner.scores(rows_of(points))[:, 0]).mean()
        final += strength * float((learner.weights() ** 2).sum()) / 2.0
        gaps.append(final - (shares * best).sum() / shares.sum())
        parents = set(learner.parents.monomials)
        X = max(np.sqrt(1.0 + sum(value(m, row) ** 2 for m in grown(row, parents))) for row in points)
        bounds.append((X**2 + strength) * (X + strength * max(lengths)) ** 2 / (2.0 * strength**2) / (steps + 1))
        assert len(learner.parents) == 2
    assert np.mean(gaps) <= min(bounds)
    assert np.mean(gaps) < 0.05  # and more than that: it has converged


_BEST: dict = {}


def best_of(points, y, parents, strength):
    """The least regularised loss with the features of these parents, and the length of its weights."""
    key = frozenset(parents)
    if key not in _BEST:
        names = sorted({monomial for row in points for monomial in grown(row, parents)})
        A = np.array([[value(m, row) if m in grown(row, parents) else 0.0 for m in names] + [1.0] for row in points])
        found = minimize(
            lambda w: np.logaddexp(0.0, -y * (A @ w)).mean() + strength * w @ w / 2.0, np.zeros(A.shape[1]), tol=1e-12
        )
        _BEST[key] = float(found.fun), float(np.linalg.norm(found.x))
    return _BEST[key]
