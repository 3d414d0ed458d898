"""Smoothed losses against their definition: max_u u·z − ℓ*(u) − ½μ‖u‖², for the conjugate ℓ* of the loss with kinks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import twin

from lineal import losses
from lineal.numerics.projections import onto_simplex
from lineal.solvers.multipliers.smoothed_crammer_singer import SmoothedCrammerSinger
from lineal.solvers.multipliers.smoothed_hinge import SmoothedHinge

WIDTHS = [1e-6, 0.3, 1.0, 50.0]


def rows_of(loss, Z, labels):
    """Value, gradient and conjugate of the gradient for every row, by the loss."""
    values, U, conjugates = [], np.empty_like(Z), []
    for i, z in enumerate(Z):
        work = np.empty(len(z))
        values.append(loss.row_gradient(labels[i : i + 1], z, work, U[i]))
        assert loss.row_value(labels[i : i + 1], z, work) == pytest.approx(values[-1], rel=1e-12)
        conjugates.append(loss.row_conjugate(labels[i : i + 1], U[i], work))
    return np.array(values), U, np.array(conjugates)


@pytest.fixture(scope="module")
def points():
    """Scores, labels and which row has which."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(60, 4)) * 10.0 ** rng.uniform(-3, 2, (60, 1))
    Z[0] = 0.0
    labels = rng.integers(0, 4, 60)
    return Z, labels, np.arange(4) == labels[:, None]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("kind", "name"), [(SmoothedHinge, "hinge"), (SmoothedCrammerSinger, "crammer_singer")])
def test_value_gradient_and_conjugate_belong_together(kind, name, width, points):
    Z, labels, Y = points
    loss, sharp = kind(width), losses.get(name)
    values, U, conjugates = rows_of(loss, Z, labels)
    np.testing.assert_allclose(conjugates, (U * Z).sum(1) - values, rtol=1e-9, atol=1e-9 * (1 + width))
    work = np.empty(4)
    of_sharp = np.array([sharp.row_conjugate(labels[i : i + 1], U[i], work) for i in range(60)])
    np.testing.assert_allclose(conjugates, of_sharp + 0.5 * width * (U**2).sum(1), rtol=1e-12, atol=1e-12)
    # between the loss with kinks and the same less half the width times the largest ‖u‖²
    exact = twin.losses(name, Y, Z)
    largest = 4.0 if name == "hinge" else 2.0
    assert (values <= exact * (1 + 1e-12) + 1e-12).all()
    assert (values >= exact - 0.5 * width * largest - 1e-12).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_gradient_of_the_smoothed_crammer_singer_loss_is_a_projection(width, points):
    Z, labels, Y = points
    _, U, _ = rows_of(SmoothedCrammerSinger(width), Z, labels)
    np.testing.assert_allclose(U, onto_simplex((Z + 1 - Y) / width + Y) - Y, atol=1e-7)


@pytest.mark.parametrize("width", [0.3, 1.0])
@pytest.mark.parametrize("kind", [SmoothedHinge, SmoothedCrammerSinger])
def test_curvatures_are_those_of_the_gradient(kind, width, points):
    Z, labels, _ = points
    loss, v, h = kind(width), np.array([0.3, -1.0, 0.7, 0.2]), 1e-7
    for i, z in enumerate(Z[1:30]):
        label, work, out = labels[i + 1 : i + 2], np.empty(4), np.empty(4)
        ahead, behind, diagonal = np.empty(4), np.empty(4), np.zeros(4)
        loss.row_curvature(label, z, v, work, out)
        loss.row_gradient(label, z + h * v, work, ahead)
        loss.row_gradient(label, z - h * v, work, behind)
        np.testing.assert_allclose(out, (ahead - behind) / (2 * h), atol=1e-6 / width)
        loss.add_diagonal(label, z, 0, 4, 2.0, diagonal)
        for r in range(4):
            loss.row_curvature(label, z, np.eye(4)[r], work, out)
            assert diagonal[r] == pytest.approx(2.0 * out[r], rel=1e-12)
            assert out[r] <= loss.lipschitz(4) * (1 + 1e-12)


def test_nan_stays_nan():
    U = np.empty(3)
    value = SmoothedCrammerSinger(0.1).row_gradient(np.array([1]), np.array([0.0, math.nan, 1.0]), np.empty(3), U)
    assert math.isnan(value)
    assert np.isnan(U).any()
