"""Rows as solvers see them: far columns moved to zero, features in an ordinary unit, and the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from served_rows import ServedRows

from lineal import losses, penalties
from lineal.design import wrap
from lineal.design.odd_columns import far_columns
from lineal.design.shift import shift_columns
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.conditioned import COPY, conditioned
from lineal.problem.minimise import minimise
from lineal.problem.objective import Objective
from lineal.problem.targets import encode
from lineal.solvers import fista
from lineal.solvers.lbfgs import lbfgs

KINDS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sparse.csr_array, "csc": sparse.csc_array}


def rows(n=60, d=4, seed=0):
    """Columns near zero, with some zeros."""
    rng = np.random.default_rng(seed)
    X = np.round(8 * rng.standard_normal((n, d))) / 8
    return X, (X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def objective(X, y, loss="logistic", penalty="l2", alpha=1e-2, fit_intercept=True, weights=None):
    kind = losses.get(loss)
    encoded = encode(y, direct=kind.is_direct)
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, None, 1)
    return Objective(engine, kind, Regulariser(penalties.get(penalty), alpha, X.shape[1]), fit_intercept)


def dense(design):
    layout = design.layout
    if design.is_dense:
        return np.asarray(layout.values, np.float64)
    kind = sparse.csc_array if type(layout).__name__ == "CSC" else sparse.csr_array
    return kind((layout.data, layout.indices, layout.indptr), shape=design.shape).toarray().astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_far_columns_are_moved_and_others_are_not(kind, dtype):
    X, _ = rows()
    X[:, 1] += 1e3
    X[:, 3] = 7.25  # constant
    X[5, 1] = 1003.0
    design = wrap(KINDS[kind](X.astype(dtype)))
    means, squares = X.mean(0), (X**2).mean(0)
    far = far_columns(means, squares)
    assert far.tolist() == [1, 3]
    moved = shift_columns(design, far, means)
    assert type(moved.X.layout) is type(design.layout)
    assert moved.X.dtype == dtype
    assert moved.is_exact
    assert moved.shift[[0, 2]].tolist() == [0.0, 0.0]
    assert moved.shift[3] == 7.25
    assert np.array_equal(dense(moved.X), X - moved.shift)
    assert np.array_equal(dense(design), X)  # the given rows are as they were


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_entries_that_are_not_stored_are_moved_as_well(kind):
    X, _ = rows(n=2000)
    X[:, 1] = 100.0 + 0.125 * np.sign(X[:, 0])
    X[7, 1] = 0.0
    design = wrap(KINDS[kind](X))
    assert design.stored < X.size
    means, squares = X.mean(0), (X**2).mean(0)
    assert far_columns(means, squares).tolist() == [1]
    moved = shift_columns(design, np.array([1]), means)
    np.testing.assert_allclose(dense(moved.X), X - moved.shift, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "distance"), [(1.0, 1e5), (1e-7, 0.0), (1e7, 0.0), (1e6, 1e12)])
def test_it_is_the_same_problem(kind, scale, distance):
    X, y = rows()
    X = X * scale
    X[:, 2] += distance
    outside = objective(KINDS[kind](X), y, alpha=1e-2 * scale**2)
    moved = conditioned(outside)
    assert moved is not None
    theta = np.random.default_rng(1).standard_normal(outside.shape) / scale
    theta[-1] -= moved.coordinates.shift @ theta[:-1]
    inside = moved.start(theta)
    np.testing.assert_allclose(moved.inside.value(inside, np.float64), outside.value(theta, np.float64), rtol=1e-6)
    W, b = moved.inside.split(inside)
    back_W, back_b = moved._outside(W, b)
    np.testing.assert_allclose(back_W, theta[:-1], rtol=1e-12)
    np.testing.assert_allclose(back_b, theta[-1], rtol=1e-9)


def test_ordinary_rows_are_left_alone():
    X, y = rows()
    assert conditioned(objective(X, y)) is None
    far = X + 1e6
    assert conditioned(objective(far, y, fit_intercept=False)) is not None  # a unit, but no shift
    assert not conditioned(objective(far, y, fit_intercept=False)).coordinates.shift.any()


@pytest.mark.parametrize("penalty", ["l1", "l2", "l1/l2", "l1/linf", "sparse_group"])
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_another_unit_of_all_features_changes_nothing(penalty, scale):
    X, y = rows()
    power = 2 if penalty == "l2" else 1
    solver = lbfgs if penalty == "l2" else fista
    found = [
        minimise(solver.solve, objective(c * X, y, "squared", penalty, 1e-2 * c**power), tol=1e-6) for c in (1.0, scale)
    ]
    assert [one.status for one in found] == ["converged", "converged"]
    np.testing.assert_allclose(scale * found[1].weights, found[0].weights, rtol=1e-9, atol=1e-12)
    assert found[0].certificate.primal == pytest.approx(found[1].certificate.primal, rel=1e-9)


def test_callbacks_and_starts_are_those_of_the_given_rows():
    X, y = rows()
    X[:, 1] += 2.0**20
    seen = []
    outside = objective(X, y)
    first = minimise(lbfgs.solve, outside, tol=1e-8, callbacks=[seen.append])
    last = seen[-1]
    np.testing.assert_array_equal(last.weights, first.weights)
    np.testing.assert_array_equal(last.intercept, first.intercept)
    assert abs(last.intercept[0]) > 1e5  # it takes up the shift
    with pytest.raises(ValueError, match="read-only"):
        last.weights[0, 0] = 1.0
    again = minimise(lbfgs.solve, outside, tol=1e-8, start=first)
    assert len(again.history) == 1
    theta = np.vstack([first.weights, first.intercept[None, :]])
    assert len(minimise(lbfgs.solve, outside, tol=1e-8, start=theta).history) == 1


def test_the_copy_is_kept_and_made_anew_for_other_weights_of_the_rows():
    X, y = rows()
    X[:, 1] += 1e6
    X[:30, 0] += 1e6  # far only for those who see no other rows
    outside = objective(X, y)
    first = conditioned(outside).rows
    assert conditioned(outside).rows.engine.X is first.engine.X is outside.engine.X.copies[COPY][1]
    weights = np.where(np.arange(60) < 30, 1.0, 1e-300)
    heavy = replace(outside, engine=replace(outside.engine, weights=weights / weights.sum()))
    other = conditioned(heavy).rows
    assert other is not first
    assert other.coordinates.shift[0] != 0.0
    assert first.coordinates.shift[0] == 0.0


def test_rounded_rows_have_the_certificate_of_the_given_ones():
    X, y = rows()
    X = X.astype(np.float32)
    X[:, 1] = 1000.0 + X[:, 1] / 1024
    X[0, 1] = 0.1  # 0.1 − 1000 is no float32
    weights = np.where(np.arange(60) == 0, 1e-9, 1.0)
    outside = objective(X, y, alpha=1e-3, weights=weights)
    rows_ = conditioned(outside).rows
    assert not rows_.is_exact
    found = minimise(lbfgs.solve, outside, tol=1e-4)
    theta = np.vstack([found.weights, found.intercept[None, :]]).astype(np.float64)
    assert found.certificate.primal == pytest.approx(outside.value(theta, np.float64), rel=1e-12)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize(("dtype", "scale", "alpha"), [
    ("f8", 2.0**-60, 1e300), ("f8", 2.0**60, 1e-300), ("f4", 2.0**-60, 1e20),
])  # fmt: skip
def test_a_unit_leaves_the_strength_of_the_penalty_finite_and_positive(penalty, dtype, scale, alpha):
    X, y = rows()
    outside = objective((scale * X).astype(dtype), y, "squared", penalty, alpha)
    moved = conditioned(outside)
    strengths = outside.regulariser.strengths if moved is None else moved.inside.regulariser.strengths
    assert np.isfinite(strengths.astype(dtype)).all() or moved is None
    assert (strengths > 0.0).all()
    found = minimise(fista.solve, outside, tol=1e-3, max_iter=10)
    assert np.isfinite(found.certificate.primal)


@pytest.mark.parametrize("kind", ["C", "csr"])
@pytest.mark.parametrize("sizes", [(60,), (20, 0, 40), (1, 9, 0, 17, 2, 8, 23)])
def test_rows_elsewhere_are_seen_in_the_same_coordinates(kind, sizes):
    X, y = rows()
    X[:, 1] += 1e5
    X[:, 3] = 7.25  # constant over all rows, and far
    X *= 1e-9
    outside = objective(KINDS[kind](X), y)
    elsewhere = replace(outside, engine=ServedRows(outside.engine, sizes, forgets=0.2))
    here, there = conditioned(outside).coordinates, conditioned(elsewhere).coordinates
    np.testing.assert_array_equal(there.columns, here.columns)
    np.testing.assert_allclose(there.shift, here.shift, rtol=1e-14)
    assert there.unit == here.unit != 1.0
    found, wanted = (minimise(lbfgs.solve, problem, tol=1e-10) for problem in (elsewhere, outside))
    assert found.status == wanted.status == "converged"
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(X @ found.weights + found.intercept, X @ wanted.weights + wanted.intercept, atol=1e-4)
