"""The number of iterations of a least-squares fit, chosen on held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification, make_multilabel_classification

import lineal
from lineal.errors import OptionError
from lineal.features import RandomFourier
from lineal.least_squares.options import LeastSquaresOptions
from lineal.problem.checkpoint import EVERY_VARIABLE

DIGITS, NUMBERS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16


def noisy(n=400, d=150, seed=0):
    """Few informative columns among many, and wrong labels: the minimum of the loss is far from the best model."""
    return make_classification(n, d, n_informative=5, n_redundant=0, flip_y=0.2, random_state=seed)


def test_fits_that_learn_noise_end_early():
    X, y = noisy(1400)
    train, test = slice(0, 400), slice(400, None)
    early = lineal.LeastSquaresClassifier(alpha=0.0).fit(X[train], y[train])
    full = lineal.LeastSquaresClassifier(alpha=0.0, validation_fraction=None, tol=1e-4).fit(X[train], y[train])
    assert early.status_ == "converged"
    assert early.n_iter_ < 20
    assert early.certificate_.value > 1e-3  # of an objective that it did not mean to minimise
    assert early.score(X[test], y[test]) > full.score(X[test], y[test])


def test_the_fit_is_that_of_all_rows_with_the_chosen_number():
    X, y = noisy()
    chosen = lineal.LeastSquaresClassifier().fit(X, y)
    told = None
    with pytest.warns(Warning, match="max_iter"):
        told = lineal.LeastSquaresClassifier(accelerated=True, max_iter=chosen.n_iter_).fit(X, y)
    np.testing.assert_array_equal(chosen.coef_, told.coef_)
    assert len(chosen.history_) == chosen.n_iter_ + 1
    assert all("validation" in row for row in chosen.history_)
    again = lineal.LeastSquaresClassifier().fit(X, y)
    np.testing.assert_array_equal(chosen.coef_, again.coef_)


def test_held_out_errors_are_those_of_a_fit_to_the_other_rows():
    from lineal.problem.drawn_rows import drawn
    from lineal.problem.targets import encode

    X, y = noisy()
    chosen = lineal.LeastSquaresClassifier().fit(X, y)
    held = drawn(0.1, np.ones(len(y)), encode(y, direct=False), 0)
    others = np.delete(np.arange(len(y)), held)
    with pytest.warns(Warning, match="max_iter"):
        alone = lineal.LeastSquaresClassifier(accelerated=True, max_iter=chosen.n_iter_).fit(X[others], y[others])
    assert chosen.history_[-1]["validation"] == pytest.approx(1.0 - alone.score(X[held], y[held]), abs=1e-9)


def test_fits_that_need_all_iterations_get_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (rng.random(4000) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5]))).astype(int)
    found = lineal.LeastSquaresClassifier().fit(X, y)
    best = lineal.LeastSquaresClassifier(tol=1e-6).fit(X, y)
    assert found.certificate_.primal <= best.certificate_.primal * 1.01


@pytest.mark.parametrize("kind", ["two classes", "classes", "label sets"])
def test_kinds_of_labels(kind):
    X, Y = make_multilabel_classification(n_samples=300, n_features=10, n_classes=3, random_state=0)
    y = {"two classes": Y[:, 0], "classes": Y[:, 0] + Y[:, 1], "label sets": Y}[kind]
    model = lineal.LeastSquaresClassifier().fit(X, y)
    assert 0.0 <= model.history_[-1]["validation"] <= 1.0
    baseline = max((y == value).mean() for value in np.unique(y))
    assert (model.predict(X) == y).mean() > baseline


@pytest.mark.slow
def test_wide_features_of_digits():
    F = RandomFourier(n_features=1500, random_state=0).fit(DIGITS).transform(DIGITS)
    model = lineal.LeastSquaresClassifier(alpha=1e-8).fit(F[:1200], NUMBERS[:1200])
    assert model.score(F[1200:], NUMBERS[1200:]) > 0.93


def test_links_of_users():
    cauchit = lineal.Link(mean=lambda Z: 0.5 + np.arctan(Z) / np.pi, lipschitz=1 / np.pi, name="cauchit")
    X, y = noisy(300, 20)
    model = lineal.LeastSquaresClassifier(link=cauchit).fit(X, y)
    assert "validation" in model.history_[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"validation_fraction": None}, {"validation_fraction": 0}, {"tol": 1e-3}, {"max_iter": 30},
        {"accelerated": "quasi_newton"}, {"link": "identity"}, {"calibration": "polynomial"},
    ],
)  # fmt: skip
def test_nothing_is_held_out_if_told_or_where_there_is_nothing_to_choose(options):
    X, y = noisy(150, 8)
    model = lineal.LeastSquaresClassifier(**options).fit(X, y)
    assert all("validation" not in row for row in model.history_)


def test_few_rows_hold_none_out():
    X, y = noisy(90, 8)
    model = lineal.LeastSquaresClassifier().fit(X, y)
    assert all("validation" not in row for row in model.history_)
    assert model.certificate_.meets(1e-3)


def test_callbacks_and_time_end_the_choice():
    X, y = noisy()
    with pytest.warns(Warning, match="callback"):
        stopped = lineal.LeastSquaresClassifier(callbacks=[lambda snapshot: snapshot.iteration == 2]).fit(X, y)
    assert stopped.status_ == "stopped"
    limited = lineal.LeastSquaresClassifier(max_time=30.0).fit(X, y)
    np.testing.assert_array_equal(limited.coef_, lineal.LeastSquaresClassifier().fit(X, y).coef_)


def test_a_fit_that_is_killed_after_the_choice_continues(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    X, y = noisy()
    whole = lineal.LeastSquaresClassifier().fit(X, y)
    monkeypatch.setenv(EVERY_VARIABLE, "0")
    starts: list[int] = []

    def kill(snapshot):
        starts.append(snapshot.iteration)
        if starts.count(0) == 2 and snapshot.iteration == 1:  # in the fit to all rows
            raise Killed

    path = tmp_path / "state"
    with pytest.raises(Killed):
        lineal.LeastSquaresClassifier(checkpoint=path, callbacks=[kill]).fit(X, y)
    assert path.exists()
    again = lineal.LeastSquaresClassifier(checkpoint=path).fit(X, y)
    assert not path.exists()
    np.testing.assert_array_equal(again.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_fraction": 0.1, "tol": 1e-3}, "tol=0.001 says when to end"),
        ({"validation_fraction": 0.1, "max_iter": 5}, "max_iter=5 gives it"),
        ({"validation_fraction": 0.1, "calibration": "polynomial"}, "calibrated"),
        ({"validation_fraction": 0.1, "link": "identity"}, "identity"),
        ({"validation_fraction": 1.5}, "validation_fraction=1.5"),
        ({"accelerated": "fast"}, "accelerated='fast'"),
    ],
)
def test_options_that_cannot_be_honoured(options, message):
    with pytest.raises(OptionError, match=message):
        LeastSquaresOptions(**options).checked()
