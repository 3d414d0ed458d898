"""Estimators of all batch families that are killed and continue from their checkpoint."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

import lineal
from lineal.problem.checkpoint import EVERY_VARIABLE


class Killed(Exception):
    """What a kill is in these tests: an exception right after a checkpoint was written."""


@pytest.fixture(autouse=True)
def after_every_iteration(monkeypatch):
    """Checkpoints are written after every iteration."""
    monkeypatch.setenv(EVERY_VARIABLE, "0")


def dying(count):
    """A callback that ends the process at its `count`-th call."""
    calls = []

    def callback(snapshot):
        calls.append(snapshot.iteration)
        if len(calls) == count:
            raise Killed

    return callback


X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)

ESTIMATORS = {
    "linear": lambda **known: lineal.LinearClassifier("softmax", tol=1e-8, **known),
    "probability": lambda **known: lineal.LinearClassifier(
        "squared_hinge", solver="lbfgs", tol=1e-8, probability=True, **known
    ),
    "least squares": lambda **known: lineal.LeastSquaresClassifier(tol=1e-3, accelerated=True, **known),
    "calibrated": lambda **known: lineal.LeastSquaresClassifier(calibration="polynomial", max_iter=12, **known),
    "stagewise": lambda **known: lineal.StagewiseClassifier(block_size=16, n_blocks=6, **known),
    "members": lambda **known: lineal.StagewiseClassifier(
        "fourier", "calibrated", block_size=8, n_blocks=3, n_models=3, validation_fraction=0.2, **known
    ),
    "softmax stages": lambda **known: lineal.StagewiseClassifier(
        "pca:n_components=3+fourier",
        "softmax",
        block_size=8,
        n_blocks=6,
        inner_iter=5,
        validation_fraction=None,
        **known,
    ),
}


def parts_of(estimator):
    own, tensors = estimator.model_.to_parts()
    return own, tensors


def fitted(make, **known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(**known).fit(X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_killed_estimator_ends_with_the_same_model(tmp_path, name):
    make, path = ESTIMATORS[name], str(tmp_path / "c")
    wanted = fitted(make)
    calls = len(wanted.history_)
    assert calls >= 4
    for count in (1, 3, 2):  # calls of the callback since the last kill
        with pytest.raises(Killed):
            fitted(make, checkpoint=path, callbacks=[dying(count)])
        assert os.path.exists(path)
    found = fitted(make, checkpoint=path)
    assert os.path.exists(path) == (found.status_ == "max_iter")
    (own, tensors), (wanted_own, wanted_tensors) = parts_of(found), parts_of(wanted)
    assert own == wanted_own
    assert tensors.keys() == wanted_tensors.keys()
    for key, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, wanted_tensors[key])
    shown = [{key: value for key, value in row.items() if key != "seconds"} for row in found.history_]
    assert shown == [{key: value for key, value in row.items() if key != "seconds"} for row in wanted.history_]
