"""Sizes, ridges and bandwidths that a stagewise model chooses by itself, and fits that end on held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.preprocessing import StandardScaler

import lineal
from lineal.errors import OptionError
from lineal.stagewise import plan
from lineal.stagewise.options import StagewiseOptions

DIGITS, NUMBERS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16


def test_stages_grow_with_rows_and_columns_within_bounds():
    widths = [plan.width(n, 50, False) for n in (10, 400, 4000, 20_000, 10**6)]
    assert widths == [32, 128, 1024, 1024, 2048]
    assert plan.width(10**6, 3, False) < plan.width(10**6, 16, False) == 1024
    assert plan.width(10**6, 10**5, True) == 2048
    for n in (10, 100, 3000, 50_000, 10**7):
        for d in (1, 7, 60, 800):
            size = plan.width(n, d, False)
            assert size & (size - 1) == 0
            assert plan.LEAST_WIDTH <= size <= plan.MOST_WIDTH_OF_MANY
            assert size <= max(plan.LEAST_WIDTH, n / 2)  # never nearly as many features as rows
            assert plan.LEAST_STAGES <= plan.stages(n, size, 2) <= plan.stages(n, size, 10) <= plan.MOST_STAGES


def test_what_is_chosen_is_told_and_makes_the_same_model_again():
    X, y = DIGITS[:900], NUMBERS[:900]
    model = lineal.StagewiseClassifier(random_state=3).fit(X, y)
    assert model.block_size_ == plan.width(810, 64, False)
    assert model.alpha_ in plan.RIDGES
    assert model.n_iter_ <= model.n_blocks_ == plan.stages(810, model.block_size_, 10)
    assert model.score(DIGITS[900:], NUMBERS[900:]) > 0.94
    errors = [row["validation"] for row in model.history_]
    assert errors[model.n_iter_] <= min(errors) + 0.01
    assert all(row["validation_loss"] >= 0.0 for row in model.history_)
    told = lineal.StagewiseClassifier(
        model.generator_, block_size=model.block_size_, n_blocks=model.n_blocks_, alpha=model.alpha_, random_state=3
    ).fit(X, y)
    np.testing.assert_array_equal(told.decision_function(X), model.decision_function(X))


def test_what_is_given_stays():
    X, y = DIGITS[:300], NUMBERS[:300]
    model = lineal.StagewiseClassifier("fourier:scale=3", block_size=40, n_blocks=2, alpha=1e-3).fit(X, y)
    assert (model.block_size_, model.n_blocks_, model.alpha_) == (40, 2, 1e-3)
    assert model.generator_.scale == 3.0


def test_the_ridge_has_the_least_held_out_loss_of_the_first_stage():
    X, y = DIGITS[:600], NUMBERS[:600]
    given = {"generator": "fourier", "block_size": 256, "n_blocks": 1, "precision": "float64"}
    losses = {
        alpha: lineal.StagewiseClassifier(alpha=alpha, patience=9, **given).fit(X, y).history_[1]["validation_loss"]
        for alpha in plan.RIDGES
    }
    model = lineal.StagewiseClassifier(**given).fit(X, y)
    assert model.alpha_ == min(losses, key=losses.__getitem__)
    assert model.history_[1]["validation_loss"] == pytest.approx(min(losses.values()), rel=1e-9)


@pytest.mark.parametrize("update", ["linear", "calibrated", "softmax"])
def test_defaults_with_every_update_and_kind_of_labels(update):
    X, Y = make_multilabel_classification(n_samples=200, n_features=12, n_classes=4, random_state=0)
    X = StandardScaler().fit_transform(X)
    options = {"inner_iter": 5} if update == "softmax" else {}
    for y in (Y, Y[:, 0], Y[:, 0] + Y[:, 1]):
        model = lineal.StagewiseClassifier(update=update, **options).fit(X, y)
        baseline = (y == (y.mean(axis=0) > 0.5)).mean() if y.ndim == 2 else np.bincount(y).max() / len(y)
        found = (model.predict(X) == y).mean()
        assert found >= baseline - 0.02


def test_the_scale_of_the_distances_is_found():
    """Classes on a fine checkerboard need a bandwidth far below the median distance."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (3000, 2))
    y = (np.floor(X).sum(axis=1) % 2).astype(int)
    model = lineal.StagewiseClassifier().fit(X[:2000], y[:2000])
    assert model.generator_.scale < plan.FIRST_SCALE
    assert model.score(X[2000:], y[2000:]) > 0.85


def test_few_rows_hold_none_out():
    model = lineal.StagewiseClassifier().fit(DIGITS[:60], NUMBERS[:60])
    assert all("validation" not in row for row in model.history_)
    assert model.alpha_ == plan.RIDGE
    assert np.isfinite(model.decision_function(DIGITS)).all()


def test_nothing_is_held_out_if_told():
    for off in (None, 0):
        model = lineal.StagewiseClassifier(validation_fraction=off, block_size=64, n_blocks=2).fit(DIGITS, NUMBERS)
        assert all("validation" not in row for row in model.history_)
        assert model.n_iter_ == 2


def test_stages_are_added_to_a_model_that_chose_by_itself():
    X, y = DIGITS[:500], NUMBERS[:500]
    model = lineal.StagewiseClassifier(block_size=32, n_blocks=1, warm_start=True).fit(X, y)
    before = model.model_.members[0][0].weights
    model.set_params(n_blocks=3).fit(X, y)
    np.testing.assert_array_equal(model.model_.members[0][0].weights, before)
    assert model.n_iter_ > 1


def test_rare_classes_are_not_lost():
    y = NUMBERS[:400].copy()
    y[:1] = 77
    model = lineal.StagewiseClassifier().fit(DIGITS[:400], y)
    assert 77 in model.classes_
    assert model.predict(DIGITS[:1])[0] == 77 or model.n_iter_ >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size=0"),
        ({"n_blocks": -1}, "n_blocks=-1"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0"),
        ({"validation_fraction": "atuo"}, "'auto'"),
        ({"validation_fraction": None, "patience": 2}, "needs rows to measure on"),
    ],
)
def test_options_that_cannot_be_honoured(options, message):
    with pytest.raises(OptionError, match=message):
        StagewiseOptions(**options).checked()
