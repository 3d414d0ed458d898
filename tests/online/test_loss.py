"""Losses of online learning: values are those of `lineal.losses`, updates follow the loss and stop at the label."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lineal import losses
from lineal.online import loss as online_losses
from lineal.online.loss import each_derivative, each_update, small_logistic_updates, update_of
from lineal.online.options import LOSSES

pytestmark = pytest.mark.core


def update(loss, t, z, a, q):
    return update_of(loss, t, z, loss.derivative(t, z), a, q)


@pytest.mark.parametrize(("name", "factor"), [("logistic", 1.0), ("hinge", 1.0), ("squared", 2.0)])
def test_values_and_derivatives_are_those_of_the_batch_losses(name, factor):
    batch, online = losses.get(name), online_losses.get(name, 0.5)
    for t in (-1.0, 1.0):
        for z in (-30.0, -1.0, -0.25, 0.0, 0.5, 1.0, 40.0):
            assert online.value(t, z) == factor * batch.value(t, z)
            assert online.derivative(t, z) == factor * batch.derivative(t, z)


def test_the_quantile_loss_is_least_at_the_quantile():
    rng = np.random.default_rng(0)
    labels = rng.normal(size=2001)
    loss = online_losses.get("quantile", 0.3)
    means = {level: np.mean([loss.value(y, np.quantile(labels, level)) for y in labels]) for level in (0.2, 0.3, 0.4)}
    assert min(means, key=means.get) == 0.3
    assert abs(sum(loss.derivative(y, np.quantile(labels, 0.3)) for y in labels)) <= 1.0


@pytest.mark.parametrize("name", LOSSES)
def test_updates_follow_the_loss_and_stop_at_the_label(name):
    loss, rng = online_losses.get(name, 0.3), np.random.default_rng(0)
    for _ in range(200):
        z, q, a = rng.normal() * 3, 10.0 ** rng.uniform(-6, 3), 10.0 ** rng.uniform(-6, 4)
        t = rng.choice([-1.0, 1.0])
        u = update(loss, t, z, a, q)
        half = update(loss, t, z, 0.5 * a, q)
        again = half + update(loss, t, z + q * half, 0.5 * a, q)
        assert u == pytest.approx(again, rel=1e-6, abs=1e-9 * abs(t - z) / q)  # two halves are one whole
        assert loss.value(t, z + q * u) <= loss.value(t, z) * (1 + 1e-12)
        tiny = update(loss, t, z, 1e-9 / q, q)
        assert tiny == pytest.approx(-1e-9 / q * loss.derivative(t, z), rel=1e-4, abs=1e-22 / q)


def test_without_sensitivity_updates_are_gradient_steps():
    for name in LOSSES:
        loss = online_losses.get(name, 0.3)
        assert update(loss, 1.0, -2.0, 0.25, 0.0) == -0.25 * loss.derivative(1.0, -2.0)


def test_logistic_updates_are_finite_at_the_extremes():
    loss = online_losses.get("logistic", 0.5)
    for z in (-700.0, -50.0, 0.0, 50.0, 700.0, 1e4):
        for aq in (1e-30, 1e-3, 1.0, 1e3, 1e30):
            u = update(loss, 1.0, z, aq, 1.0)
            assert math.isfinite(u)
            assert u >= 0.0


def test_logistic_updates_of_all_columns_are_those_of_one():
    loss, a, n = online_losses.get("logistic", 0.5), 0.7, 40
    scores = np.linspace(-20.0, 20.0, n).astype(np.float32)
    labels = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    labels[-1] = 0.0  # fills up a vector
    derivatives, updates, small = np.empty(n), np.empty(n), np.empty(n)
    loss.column_derivatives(scores, labels, n - 1, derivatives)
    one_by_one = np.zeros(n)
    each_derivative(loss, scores, labels, n - 1, one_by_one)
    np.testing.assert_allclose(derivatives, one_by_one, rtol=1e-12)
    made = 0
    for q in (1e-9, 1e-4, 0.03, 1.0, 5.0):
        sensitivities = np.full(n, q, np.float32)
        loss.column_updates(scores, labels, sensitivities, 2.0, a, updates)
        small_logistic_updates(scores, labels, sensitivities, 2.0, a, small)
        expected = np.zeros(n)
        each_update(loss, scores, labels, sensitivities, 2.0, a, expected)
        np.testing.assert_allclose(updates, expected, rtol=1e-10)
        assert updates[-1] == 0.0
        made += np.count_nonzero(small)
    assert 100 < made < 5 * (n - 1)  # the others were computed one by one
