"""The penalty of a whole matrix: compiled loops against plain ones, groups, factors, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lineal import penalties
from lineal.errors import DataError, OptionError
from lineal.penalties.regulariser import Regulariser

pytestmark = pytest.mark.core

every_name = pytest.mark.parametrize("name", penalties.names())
GROUP_NAMES = [name for name in penalties.names() if penalties.get(name).is_group]
every_group_name = pytest.mark.parametrize("name", GROUP_NAMES)

D, K = 7, 3
GROUPS = [[5, 0, 2], [1], [6, 3, 4]]
FACTORS = np.array([1.0, 0.5, 0.0, 2.0, 1.5, 1.0, 0.25])


def weights(seed=0, dtype=np.float64):
    """Rows with ties, zeros and one zero row."""
    W = np.random.default_rng(seed).integers(-6, 7, size=(D, K)) / 4
    W[4] = 0.0
    W[5] = [1.0, -1.0, 1.0]
    return W.astype(dtype)


def naive(penalty, strengths, blocks, W, G, step=0.7):
    """Every quantity by a plain Python loop over blocks, each a list of rows."""
    out = np.empty_like(W)
    vectors = [W[rows].ravel() for rows in blocks]
    for rows, w, s in zip(blocks, vectors, strengths):
        block = np.empty_like(w)
        penalty.group_prox(w, step * s, block)
        out[rows] = block.reshape(len(rows), -1)
    return {
        "value": sum(s * penalty.group_value(w) for w, s in zip(vectors, strengths)),
        "prox": out,
        "conjugate": sum(penalty.group_conjugate(w, s) for w, s in zip(vectors, strengths)),
        "dual_scale": min(penalty.group_dual_scale(w, s) for w, s in zip(vectors, strengths)),
        "violation": [penalty.group_violation(w, G[rows].ravel(), s) for w, rows, s in zip(vectors, blocks, strengths)],
        "zero": [penalty.group_is_zero(w) for w in vectors],
    }


def assert_agrees(regulariser, expected, W, G, step=0.7):
    precision = 1e-12 if W.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(regulariser.prox(W, step), expected["prox"], rtol=precision, atol=1e-15)
    np.testing.assert_allclose(regulariser.violation(W, G), expected["violation"], rtol=1e-12, atol=1e-14)
    if W.dtype == np.float64:  # the others are compiled for one precision only, to keep the suite short
        assert regulariser.value(W) == pytest.approx(expected["value"], rel=1e-12)
        assert regulariser.conjugate(W) == pytest.approx(expected["conjugate"], rel=1e-12)
        assert regulariser.dual_scale(W) == pytest.approx(expected["dual_scale"], rel=1e-12)
    np.testing.assert_array_equal(regulariser.zero_groups(W), expected["zero"])


@every_name
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factors", [None, FACTORS], ids=["plain", "factors"])
def test_rows(name, dtype, factors):
    penalty, W, G = penalties.get(name), weights(0, dtype), weights(1, dtype)
    regulariser = Regulariser(penalty, 0.6, D, factors)
    strengths = 0.6 * (np.ones(D) if factors is None else factors)
    np.testing.assert_array_equal(regulariser.strengths, strengths)
    assert_agrees(regulariser, naive(penalty, strengths, [[j] for j in range(D)], W, G), W, G)
    assert regulariser.prox(W, 0.7).dtype == dtype


@every_group_name
@pytest.mark.parametrize("given", [GROUPS, np.array([0, 1, 0, 2, 2, 0, 2])], ids=["lists", "numbers"])
@pytest.mark.parametrize("factors", [None, [0.5, 0.0, 2.0]], ids=["plain", "factors"])
def test_groups(name, given, factors):
    penalty, W, G = penalties.get(name), weights(2), weights(3)
    regulariser = Regulariser(penalty, 0.6, D, factors, given)
    strengths = 0.6 * np.array(factors or [1.0, 1.0, 1.0])
    assert_agrees(regulariser, naive(penalty, strengths, GROUPS, W, G), W, G)


@every_group_name
def test_groups_of_one_row_are_rows_in_any_order(name):
    penalty, W, G = penalties.get(name), weights(4), weights(5)
    rows = Regulariser(penalty, 0.6, D, FACTORS)
    order = np.array([3, 1, 0, 6, 5, 2, 4])
    groups = Regulariser(penalty, 0.6, D, FACTORS[order], [[j] for j in order])
    assert groups.value(W) == pytest.approx(rows.value(W), rel=1e-14)
    assert groups.dual_scale(W) == rows.dual_scale(W)
    np.testing.assert_allclose(groups.prox(W, 0.7), rows.prox(W, 0.7), rtol=1e-14)
    np.testing.assert_allclose(groups.violation(W, G), rows.violation(W, G)[order], rtol=1e-14)
    np.testing.assert_array_equal(groups.zero_groups(W), rows.zero_groups(W)[order])


@every_name
def test_permuting_classes_and_features_changes_nothing(name):
    W, G = weights(6), weights(7)
    features, classes = np.array([2, 0, 1, 6, 3, 5, 4]), np.array([2, 0, 1])
    V, H = (np.ascontiguousarray(M[features][:, classes]) for M in (W, G))
    one = Regulariser(penalties.get(name), 0.6, D, FACTORS)
    other = Regulariser(penalties.get(name), 0.6, D, FACTORS[features])
    assert other.value(V) == pytest.approx(one.value(W), rel=1e-14)
    np.testing.assert_allclose(other.prox(V, 0.7), one.prox(W, 0.7)[features][:, classes], rtol=1e-13)
    np.testing.assert_allclose(other.violation(V, H), one.violation(W, G)[features], rtol=1e-13, atol=1e-15)


@every_name
def test_prox_in_place_and_into_the_rest_of_a_matrix(name):
    W = weights(8)
    regulariser = Regulariser(penalties.get(name), 0.6, D, FACTORS)
    expected = regulariser.prox(W, 0.7)
    assert regulariser.prox(W, 0.7, out=W) is W
    np.testing.assert_array_equal(W, expected)


@every_group_name
def test_prox_of_groups_in_place(name):
    W = weights(8)
    regulariser = Regulariser(penalties.get(name), 0.6, D, groups=GROUPS)
    expected = regulariser.prox(W, 0.7)
    regulariser.prox(W, 0.7, out=W)
    np.testing.assert_array_equal(W, expected)


@every_name
def test_the_conjugate_at_a_scaled_point(name):
    V = weights(9) + 2.0
    regulariser = Regulariser(penalties.get(name), 0.6, D)
    for scale in (0.0, 1e-3, regulariser.dual_scale(V)):
        assert regulariser.conjugate(V, scale) == pytest.approx(regulariser.conjugate(scale * V), rel=1e-12)
    assert regulariser.conjugate(V, regulariser.dual_scale(V)) < math.inf


@every_name
def test_alpha_zero_penalises_nothing(name):
    W, G = weights(0), weights(1)
    regulariser = Regulariser(penalties.get(name), 0.0, D)
    assert regulariser.value(W) == 0.0
    np.testing.assert_array_equal(regulariser.prox(W, 1.0), W)
    np.testing.assert_allclose(regulariser.violation(W, G), np.linalg.norm(G, axis=1), rtol=1e-14)
    assert regulariser.conjugate(W) == math.inf
    assert regulariser.conjugate(np.zeros_like(W)) == 0.0
    assert regulariser.dual_scale(W) == 0.0


@every_name
def test_critical_alpha(name):
    penalty, G, zero = penalties.get(name), weights(1), np.zeros((D, K))
    regulariser = Regulariser(penalty, 0.0, D, FACTORS)
    if penalty.is_smooth:
        with pytest.raises(OptionError, match=f"'{name}' sets no weights to zero"):
            regulariser.critical_alpha(G)
        return
    alpha = regulariser.critical_alpha(G)
    penalised = FACTORS > 0
    at = Regulariser(penalty, alpha, D, FACTORS).violation(zero, G)
    below = Regulariser(penalty, 0.999 * alpha, D, FACTORS).violation(zero, G)
    assert at[penalised].max() <= 1e-12 * alpha
    assert below[penalised].max() > 1e-5 * alpha


@every_name
def test_gradient(name):
    W = weights(0)
    regulariser = Regulariser(penalties.get(name), 0.6, D, FACTORS)
    if not regulariser.penalty.is_smooth:
        with pytest.raises(OptionError, match=f"'{name}' is not smooth"):
            regulariser.gradient(W)
        return
    gradient = regulariser.gradient(W, out=np.empty_like(W))
    np.testing.assert_allclose(regulariser.violation(W, -gradient), 0.0, atol=1e-15)
    direction = weights(1)
    derivative = (regulariser.value(W + 1e-5 * direction) - regulariser.value(W - 1e-5 * direction)) / 2e-5
    assert np.sum(gradient * direction) == pytest.approx(derivative, rel=1e-8)


def test_read_only_weights_are_read():
    W = weights(0)
    expected = Regulariser(penalties.get("l1"), 0.6, D).value(W)
    W.flags.writeable = False
    assert Regulariser(penalties.get("l1"), 0.6, D).value(W) == expected


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 1], [2, 3], [4, 5, 6, 1]], "feature 1 is in group 0 and again in group 2; groups may not overlap"),
        ([[0, 1, 0], [2, 3, 4, 5, 6]], "feature 0 is in group 0 and again in group 0"),
        ([[0, 1], [2, 4, 5, 6]], r"feature 3 is in no group \(1 such\); add the group \[3\]"),
        ([[0, 1], [], [2, 3, 4, 5, 6]], "group 1 is empty"),
        ([[0, 1], [2, 3, 4, 5, 7]], "group 1 holds feature 7, but the 7 features are numbered 0 to 6"),
        ([[0, -1], [2, 3, 4, 5, 6]], "group 0 holds feature -1"),
        ([[0, 1], [2, 3.5]], "group 1 holds 2.0, expected feature numbers"),
        ([[0, 1], ["a"]], "group 1 holds 'a', expected feature numbers"),
        ([[0, 1], 2], "group 1 is 2, expected a list of feature numbers"),
        ([0, 0, 1], "groups holds 3 group numbers, but there are 7 features"),
        ([0, 0, 1, 1, 3, 3, 3], "group 2 is empty, but feature 4 has group number 3"),
        ([0, 0, 1, 1, -1, 0, 0], "feature 4 has group number -1"),
        (np.array([0, 0, 1, 1, 10**12, 0, 0]), "feature 4 has group number 1000000000000"),
        (np.zeros(7), "group numbers must be integers, not float64"),
        ("all", "expected a list of lists"),
        (3, "expected a list of lists"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(OptionError, match=message):
        Regulariser(penalties.get("l1/l2"), 1.0, 7, groups=groups)


@every_name
def test_groups_are_refused_by_penalties_without_them(name):
    if name not in GROUP_NAMES:
        with pytest.raises(
            OptionError, match=f"penalty '{name}' does not take feature_groups: 'l1/l2', 'l1/linf', .* do"
        ):
            Regulariser(penalties.get(name), 1.0, 7, groups=[[0, 1], [2, 3, 4, 5, 6]])


@pytest.mark.parametrize(
    ("factors", "groups", "message"),
    [
        ([1, 2], None, r"factors has shape \(2,\), expected one per feature: \(7,\)"),
        ([1] * 7, [[0, 1, 2], [3, 4, 5, 6]], r"expected one per group: \(2,\)"),
        ([1, 1, -2, 1, 1, 1, 1], None, "feature 2 has -2.0, expected a finite number ≥ 0"),
        ([1, math.nan], [[0, 1, 2], [3, 4, 5, 6]], "group 1 has nan"),
        (["a"] * 7, None, "are not numbers"),
    ],
)
def test_factors_that_are_refused(factors, groups, message):
    with pytest.raises(OptionError, match=message):
        Regulariser(penalties.get("l1/l2"), 1.0, 7, factors, groups)


@pytest.mark.parametrize("alpha", [-1.0, math.inf, math.nan, "big"])
def test_alphas_that_are_refused(alpha):
    with pytest.raises(OptionError, match=r"alpha=.* is not a finite number ≥ 0"):
        Regulariser(penalties.get("l2"), alpha, 7)


@pytest.mark.parametrize(
    "W", [np.zeros((6, 3)), np.zeros(7), np.zeros((7, 3), order="F"), np.zeros((7, 3), int)], ids=str
)
def test_matrices_that_are_refused(W):
    with pytest.raises(DataError, match=r"expected (\(7, k\) weights|weights in C order)"):
        Regulariser(penalties.get("l2"), 1.0, 7).value(W)


def test_features_of_blocks():
    W = np.zeros((D, 2))
    W[5, 1] = 1.0
    sparse_group = Regulariser(penalties.get("sparse_group"), 0.6, D, None, np.array([0, 1, 0, 2, 2, 0, 2]))
    np.testing.assert_array_equal(np.flatnonzero(sparse_group.nonzero_features(W)), [0, 2, 5])
    np.testing.assert_array_equal(np.flatnonzero(sparse_group.free_weights(W)), [11])
    rows = Regulariser(penalties.get("l1"), 0.6, D)
    np.testing.assert_array_equal(np.flatnonzero(rows.nonzero_features(W)), [5])
    assert Regulariser(penalties.get("l2"), 0.6, D).nonzero_features(W).all()


def test_strengths_that_overflow_are_refused():
    with pytest.raises(OptionError, match=r"alpha=1e\+200 times the largest of penalty_factors overflows"):
        Regulariser(penalties.get("l2"), 1e200, 2, factors=[1.0, 1e200])
