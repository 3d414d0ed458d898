"""Penalties: convex-analysis facts that hold for any ω, so that a new file in `penalties/` is tested by itself."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lineal import penalties
from lineal.errors import OptionError

pytestmark = pytest.mark.core


def _variants():
    for name in penalties.names():
        if "l1_ratio" in penalties.get(name)._fields:
            for ratio in (0.2, 0.7, 1.0):
                yield pytest.param(penalties.get(name, l1_ratio=ratio), id=f"{name}-{ratio}")
        else:
            yield pytest.param(penalties.get(name), id=name)


every_penalty = pytest.mark.parametrize("penalty", list(_variants()))
every_name = pytest.mark.parametrize("name", penalties.names())
quick = settings(max_examples=40, deadline=None)

# Quarters make exact ties and zeros common; the other values make them rare.
weight = st.integers(-8, 8).map(lambda i: i / 4) | st.floats(1e-6, 5) | st.floats(-5, -1e-6)
strength = st.sampled_from([0.0, 0.25, 1.0]) | st.floats(0.01, 4)


@st.composite
def vectors(draw, count=1, elements=weight):
    size = draw(st.integers(1, 6))
    drawn = [np.array(draw(st.lists(elements, min_size=size, max_size=size))) for _ in range(count)]
    return drawn[0] if count == 1 else drawn


def prox(penalty, v, s):
    out = np.full_like(v, np.nan)
    penalty.group_prox(v, s, out)
    return out


def prox_objective(penalty, x, v, s):
    return 0.5 * np.sum((x - v) ** 2) + s * penalty.group_value(x)


VALUES = {
    "l2": lambda w, rho: 0.5 * np.sum(w**2),
    "l1": lambda w, rho: np.sum(abs(w)),
    "elastic_net": lambda w, rho: rho * np.sum(abs(w)) + (1 - rho) / 2 * np.sum(w**2),
    "l1/l2": lambda w, rho: np.linalg.norm(w),
    "l1/linf": lambda w, rho: np.max(abs(w)),
    "sparse_group": lambda w, rho: rho * np.sum(abs(w)) + (1 - rho) * np.linalg.norm(w),
}


@every_penalty
@quick
@given(w=vectors(), c=st.floats(0, 3))
def test_value_and_flags(penalty, w, c):
    value = penalty.group_value(w)
    rho = getattr(penalty, "l1_ratio", None)
    if penalty.name in VALUES:
        assert value == pytest.approx(VALUES[penalty.name](w, rho), rel=1e-13)
    assert penalty.group_is_zero(w) == (not w.any()) == (value == 0)
    if penalty.is_norm:
        assert penalty.group_value(c * w) == pytest.approx(c * value, rel=1e-12)
    if penalty.is_separable:
        assert value == pytest.approx(sum(penalty.group_value(w[i : i + 1]) for i in range(len(w))), rel=1e-12)
        mixed = penalty.l1_weight * np.abs(w).sum() + 0.5 * (1.0 - penalty.l1_weight) * (w * w).sum()
        assert value == pytest.approx(mixed, rel=1e-12)


@every_penalty
@quick
@given(vx=vectors(2), s=strength)
def test_prox_is_the_minimiser(penalty, vx, s):
    """F is 1-strongly convex, so p minimises it exactly if F(x) ≥ F(p) + ½‖x − p‖² for every x."""
    v, far = vx
    p = prox(penalty, v, s)
    lowest = prox_objective(penalty, p, v, s)
    for shrink in (1.0, 1e-2, 1e-4):
        for x in (p + shrink * far, p - shrink * far, p + shrink * (v - p), (1 - shrink) * p):
            gain = prox_objective(penalty, x, v, s) - lowest - 0.5 * np.sum((x - p) ** 2)
            assert gain >= -1e-12 * (1 + lowest)
    in_place = v.copy()
    penalty.group_prox(in_place, s, in_place)
    np.testing.assert_array_equal(in_place, p)


@every_penalty
@pytest.mark.parametrize("seed", range(4))
def test_prox_against_a_numeric_minimiser(penalty, seed):
    rng = np.random.default_rng(seed)
    v, s = rng.normal(size=3), rng.uniform(0.1, 1.5)
    p = prox(penalty, v, s)
    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000}
    found = minimize(lambda x: prox_objective(penalty, x, v, s), v, method="Nelder-Mead", options=options)
    assert prox_objective(penalty, p, v, s) <= found.fun + 1e-12
    np.testing.assert_allclose(p, found.x, atol=1e-4)


@every_penalty
@quick
@given(uv=vectors(2), s=strength)
def test_prox_is_non_expansive(penalty, uv, s):
    u, v = uv
    distance = np.linalg.norm(prox(penalty, u, s) - prox(penalty, v, s))
    assert distance <= np.linalg.norm(u - v) * (1 + 1e-12) + 1e-14


@every_penalty
@quick
@given(uw=vectors(2), s=strength)
def test_fenchel_young(penalty, uw, s):
    """(sω)*(v) + sω(w) ≥ v'w, with equality where v is a subgradient, such as u − prox(u) at prox(u) (Moreau)."""
    u, w = uw
    assert penalty.group_conjugate(u, s) + s * penalty.group_value(w) >= u @ w - 1e-12
    p = prox(penalty, u, s)
    v = u - p
    if s == 0.0:
        np.testing.assert_array_equal(p, u)
        assert penalty.group_conjugate(v, s) == 0.0
    conjugate = penalty.group_conjugate(v * (1 - 1e-12), s)  # u − p rounds: a hair inside the bound
    assert conjugate + s * penalty.group_value(p) == pytest.approx(v @ p, rel=1e-9, abs=1e-9)


@every_penalty
@quick
@given(v=vectors(), s=strength)
def test_infinite_conjugates_have_a_witness(penalty, v, s):
    """With p = prox(v), v'p = sω(p) + ‖p‖² for a norm: along p the supremum of v'w − sω(w) is infinite."""
    if penalty.group_conjugate(v * (1 - 1e-9), s) == math.inf:
        p = prox(penalty, v, s)
        direction = p / np.linalg.norm(p)  # p itself is tiny near the bound
        assert v @ direction > s * penalty.group_value(direction)
        assert s == 0.0 or penalty.is_norm or penalty.l1_ratio == 1.0


@every_penalty
@quick
@given(v=vectors(), s=strength)
@example(v=np.zeros(3), s=0.0)
@example(v=np.array([1.0, 1.0, -1.0]), s=1.0)
def test_dual_scale_is_feasible_and_largest(penalty, v, s):
    c = penalty.group_dual_scale(v, s)
    assert 0.0 <= c <= 1.0
    assert penalty.group_conjugate(c * v, s) < math.inf
    if c < 1.0:
        assert v.any()
        longer = c * (1 + 1e-9) if c > 0 else 1e-9
        assert penalty.group_conjugate(longer * v, s) == math.inf
        assert (c == 0.0) == (s == 0.0)


@every_penalty
@quick
@given(vx=vectors(2), s=strength)
def test_violation_is_zero_at_the_prox_and_only_there(penalty, vx, s):
    """The subgradients of the 1-strongly convex prox objective at x are at least ‖x − prox(v)‖ long."""
    v, x = vx
    p = prox(penalty, v, s)
    assert penalty.group_violation(p, p - v, s) <= 1e-13 * (1 + s + np.linalg.norm(v))
    assert penalty.group_violation(x, x - v, s) >= np.linalg.norm(x - p) * (1 - 1e-9) - 1e-13


@every_penalty
@quick
@given(wg=vectors(2, st.integers(-8, 8).map(lambda i: i / 4)), s=strength)
def test_violation_is_the_limit_of_prox_steps(penalty, wg, s):
    """The shortest subgradient is lim ‖w − prox_{ts}(w − t·g)‖ / t, t → 0."""
    w, g = wg
    t = 1e-7
    step = np.linalg.norm(w - prox(penalty, w - t * g, t * s)) / t
    assert penalty.group_violation(w, g, s) == pytest.approx(step, rel=1e-5, abs=1e-5)


def subdifferential_distance(penalty, w, g, s):
    """min ‖g + s·u‖ over ∂ω(w) by SLSQP; u = a (an element of ∂‖w‖₁ or ∂‖w‖∞) and b (of ∂‖w‖₂) mixed."""
    m, rho, name = len(w), getattr(penalty, "l1_ratio", 1.0), penalty.name
    ridge = {"l2": 1.0, "elastic_net": 1 - rho}.get(name, 0.0)
    one = {"l1": 1.0, "elastic_net": rho, "sparse_group": rho, "l1/linf": 1.0}.get(name, 0.0)
    two = {"l1/l2": 1.0, "sparse_group": 1 - rho}.get(name, 0.0)
    start = np.sign(w)
    bounds = [(sign, sign) if sign else (-1, 1) for sign in start]
    constraints = []
    if name == "l1/linf":
        face = abs(w) == abs(w).max()
        signs = np.sign(w) if w.any() else np.ones(m)
        start = np.where(face, signs, 0.0) / face.sum()
        if w.any():
            bounds = [((0, 1) if sign > 0 else (-1, 0)) if on else (0, 0) for on, sign in zip(face, signs)]
            constraints.append({"type": "eq", "fun": lambda z: signs[face] @ z[:m][face] - 1})
        else:  # split into positive and negative parts: one more vector
            bounds = [(0, 1)] * m + [(0, 1)] * m
            constraints.append({"type": "ineq", "fun": lambda z: 1 - z.sum()})
            solve = lambda z: g + s * (z[:m] - z[m:])  # noqa: E731
            return _shortest(solve, np.full(2 * m, 0.5 / m), bounds, constraints)
    unit = w / np.linalg.norm(w) if w.any() else np.zeros(m)
    bounds = bounds + ([(u, u) for u in unit] if w.any() else [(-1, 1)] * m)
    if not w.any():
        constraints.append({"type": "ineq", "fun": lambda z: 1 - z[m:] @ z[m:]})
    return _shortest(lambda z: g + s * (ridge * w + one * z[:m] + two * z[m:]), np.r_[start, unit], bounds, constraints)


def _shortest(residual, start, bounds, constraints):
    options = {"maxiter": 500, "ftol": 1e-15}
    found = minimize(lambda z: residual(z) @ residual(z), start, method="SLSQP", bounds=bounds,
                     constraints=constraints, options=options)  # fmt: skip
    return math.sqrt(found.fun)


@every_penalty
@pytest.mark.parametrize("w", [[0, 0, 0], [1, -1, 1], [2, 0, -2], [0.5, -1, 0], [0.3, 0.1, -0.2]], ids=str)
def test_violation_against_a_quadratic_program(penalty, w):
    if penalty.name not in VALUES:
        pytest.skip("no independent form of its subdifferential here; the prox-step limit has tested it")
    w = np.array(w, float)
    rng = np.random.default_rng(5)
    for _ in range(4):
        g, s = rng.normal(size=3), rng.uniform(0.2, 2)
        expected = subdifferential_distance(penalty, w, g, s)
        assert penalty.group_violation(w, g, s) == pytest.approx(expected, rel=1e-4, abs=2e-5)


EXTREME = [0.0, -0.0, 1e15, -1e15, 1e-300, -1e-300, 5e-324, 1.0]


@every_penalty
@settings(max_examples=60, deadline=None)
@given(wg=vectors(2, st.sampled_from(EXTREME)), s=st.sampled_from([0.0, 1e-300, 1.0, 1e15]))
def test_extreme_values_stay_finite(penalty, wg, s):
    w, g = wg
    assert math.isfinite(penalty.group_value(w))
    assert np.isfinite(prox(penalty, w, s)).all()
    assert (prox(penalty, w, s) * w >= 0).all()
    assert (abs(prox(penalty, w, s)) <= abs(w)).all()
    assert math.isfinite(penalty.group_violation(w, g, s))
    assert not math.isnan(penalty.group_conjugate(g, s))
    assert 0 <= penalty.group_dual_scale(g, s) <= 1
    if w.any():
        assert penalty.group_value(w) > 0 or not penalty.is_norm or abs(w).max() < 1e-320


@every_penalty
@quick
@given(wg=vectors(2), s=strength)
def test_float32_computes_in_float64(penalty, wg, s):
    w, g = (vector.astype(np.float32) for vector in wg)
    W, G = w.astype(float), g.astype(float)
    assert penalty.group_value(w) == penalty.group_value(W)
    assert penalty.group_violation(w, g, s) == penalty.group_violation(W, G, s)
    assert penalty.group_conjugate(w, s) == penalty.group_conjugate(W, s)
    np.testing.assert_array_equal(prox(penalty, w, s), prox(penalty, W, s).astype(np.float32))


@every_name
def test_names_and_lookup(name):
    assert not inspect.isabstract(type(penalties.get(name)))
    penalty = penalties.get(name)
    assert penalty.name == name
    with pytest.raises(OptionError, match=f"penalty='{name}x' is unknown: did you mean '{name}'"):
        penalties.get(name + "x")
    wanted = "did you mean 'l1_ratio'" if "l1_ratio" in penalty._fields else f"'{name}' takes no parameters"
    with pytest.raises(OptionError, match=wanted):
        penalties.get(name, l1_ration=0.5)


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, math.nan, "half"])
@pytest.mark.parametrize("name", ["elastic_net", "sparse_group"])
def test_l1_ratio_out_of_range(name, ratio):
    with pytest.raises(OptionError, match=r"l1_ratio=.* is not in \(0, 1\]"):
        penalties.get(name, l1_ratio=ratio)


def test_listing_names_does_not_import_numba():
    code = "import sys, lineal.penalties as p; assert 'l1/linf' in p.names(); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
