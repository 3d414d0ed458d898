"""Calibrated probabilities: they agree with `predict`, add up to one, are honest, and survive a file."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from edited_models import rewrite
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification

import lineal
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.linear import calibration
from lineal.linear.estimator import LinearClassifier
from lineal.linear.fit import fit
from lineal.linear.held_out import HeldOutScores, fold_numbers
from lineal.linear.options import TrainOptions
from lineal.problem.monitor import Monitor
from lineal.problem.targets import encode

IRIS, SPECIES = load_iris(return_X_y=True)
LOSSES = [
    "squared_hinge",
    "squared",
    "multiclass_squared_hinge",
    "label_ranking",
    "hinge",
    "crammer_singer",
]


def draws(seed, n, d=30, k=3, scale=2.0):
    """Rows whose classes are drawn from the softmax of linear scores."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(1).normal(size=(d, k)) * scale / np.sqrt(d)
    X = rng.normal(size=(n, d))
    return X, (X @ truth + rng.gumbel(size=(n, k))).argmax(1)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 3])
def test_the_likeliest_class_is_the_predicted_one(loss, k):
    X, y = draws(0, 400, k=k)
    classifier = LinearClassifier(loss=loss, alpha=1e-2, probability=True).fit(X, y)
    new = draws(7, 2000, k=k)[0]
    P = classifier.predict_proba(new)
    assert P.shape == (2000, k)
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(classifier.classes_[P.argmax(1)], classifier.predict(new))
    assert classifier.model_.calibration.shape == (1,)
    assert classifier.model_.calibration[0] > 0.0


@pytest.mark.parametrize("loss", ["squared_hinge", "multiclass_squared_hinge"])
def test_probabilities_are_honest(loss):
    """On new rows the slope is about the best one, and rows said to be p sure are right about p of the time."""
    X, y = draws(0, 3000)
    model, _ = fit(X, y, TrainOptions(loss=loss, alpha=1e-2, probability=True))
    new, truth = draws(1, 20000)
    scores = model.decision_function(new)

    def log_loss(slope):
        P = dataclasses.replace(model, calibration=np.array([slope])).probabilities_of(scores)
        return -np.log(P[np.arange(len(P)), truth]).mean()

    best = minimize_scalar(log_loss, bounds=(0.01, 100.0), method="bounded").x
    assert log_loss(model.calibration[0]) < log_loss(best) + 1e-3
    P = model.probabilities_of(scores)
    assert abs(P.max(1).mean() - (P.argmax(1) == truth).mean()) < 0.03


def test_overfitted_scores_are_not_believed():
    """Labels without any relation to X: training rows are told apart perfectly, and nothing follows from it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 600)), rng.integers(0, 2, 300)
    model, _ = fit(X, y, TrainOptions(alpha=1e-3, probability=True))
    assert (model.predict(X) == y).all()
    P = model.predict_proba(rng.normal(size=(1000, 600)))
    assert np.abs(P - 0.5).mean() < 0.12


def test_the_slope_minimises_the_smoothed_log_loss():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(200, 4)), rng.integers(0, 4, 200)
    Z[np.arange(200), y] += 1.0
    weights = rng.random(200)
    found = calibration.slopes_of(HeldOutScores(Z, y, weights, np.zeros(200)))[0]
    counts = 200 * np.bincount(y, weights) / weights.sum()
    T = np.repeat(1.0 / (counts[y] + 2.0) / 3.0, 4).reshape(200, 4)
    T[np.arange(200), y] = (counts[y] + 1.0) / (counts[y] + 2.0)

    def log_loss(a):
        L = a * Z - np.log(np.exp(a * Z).sum(1, keepdims=True))
        return -(weights @ (T * L).sum(1)) / weights.sum()

    best = minimize_scalar(log_loss, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-10}).x
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("scores", "what"),
    [([[-1.0], [-2.0], [1.0], [2.0]], "separated"), ([[1.0], [2.0], [-1.0], [-2.0]], "upside down"), ([[0.0]] * 4, "")],
)
def test_slopes_are_positive_and_finite_whatever_the_scores(scores, what):
    labels = np.array([0, 0, 1, 1])
    slope = calibration.slopes_of(HeldOutScores(np.array(scores), labels, np.full(4, 0.25), np.zeros(4)))[0]
    assert 0.0 < slope < 1e3
    if what == "upside down":
        assert slope < 1e-5


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("k", [2, 3])
def test_ties_and_nearly_ties_follow_predict(k, calibrated):
    """Scores whose difference vanishes in the exponential still decide, and so do scores that saturate it."""
    X, y = draws(0, 200, k=k)
    options = TrainOptions(probability=True) if calibrated else TrainOptions(loss="logistic")
    model, _ = fit(X, y, options)
    one = np.nextafter(1.0, 2.0)
    rows = [-1e-17, 0.0, 1e-17, 1e300] if k == 2 else [[1.0, one, 1.0], [0.0, 1e-20, 0.0], [50.0, 60.0, 0.0], [2, 2, 2]]
    scores = np.array(rows)
    P = model.probabilities_of(scores)
    np.testing.assert_array_equal(model.classes[P.argmax(1)], model.labels_of(scores))
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)


def test_label_sets_have_a_slope_a_label(tmp_path):
    X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    Y[:, 3] = 0  # a label that no row has
    model, _ = fit(X, Y, TrainOptions(alpha=1e-2, probability=True))
    assert model.calibration.shape == (4,)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P > 0.5, model.predict(X).astype(bool))
    assert ((P >= 0.0) & (P <= 1.0)).all()
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(lineal.load(tmp_path / "m").predict_proba(X), P)


def test_label_ranking_of_label_sets_is_refused_by_name():
    X, Y = make_multilabel_classification(n_samples=50, random_state=0)
    with pytest.raises(OptionError, match=r"probability=True: label_ranking"):
        fit(X, Y, TrainOptions(loss="label_ranking", probability=True))


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_natural_probabilities_stay_as_they_are(loss):
    plain, _ = fit(IRIS, SPECIES, TrainOptions(loss=loss))
    asked, _ = fit(IRIS, SPECIES, TrainOptions(loss=loss, probability=True))
    assert asked.calibration is None
    np.testing.assert_array_equal(asked.predict_proba(IRIS), plain.predict_proba(IRIS))


def test_calibrating_leaves_the_model_alone():
    plain, _ = fit(IRIS, SPECIES, TrainOptions())
    asked, _ = fit(IRIS, SPECIES, TrainOptions(probability=True))
    np.testing.assert_array_equal(asked.weights, plain.weights)


def test_the_seed_decides_the_folds_and_the_layout_does_not():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    options = TrainOptions(alpha=1e-2, tol=1e-8, probability=True, random_state=3)
    first = fit(X, y, options)[0].calibration
    np.testing.assert_array_equal(fit(X, y, options)[0].calibration, first)
    for other in (sparse.csr_array(X), sparse.csc_array(X)):
        np.testing.assert_allclose(fit(other, y, options)[0].calibration, first, rtol=1e-5)
    assert fit(X, y, dataclasses.replace(options, random_state=4))[0].calibration != first


def test_folds_hold_every_class_and_leave_out_rows_without_weight():
    y = np.repeat([0, 1, 2], [53, 20, 7])
    weights = np.ones(80)
    weights[::10] = 0.0
    folds = fold_numbers(encode(y, direct=True), weights, 0, "this")
    np.testing.assert_array_equal(folds < 0, weights == 0.0)
    assert set(folds) == {-1, 0, 1, 2, 3, 4}
    sizes = [[np.sum((folds == f) & (y == c)) for c in range(3)] for f in range(5)]
    assert np.ptp(sizes, axis=0).max() <= 1
    few = fold_numbers(encode(np.repeat([0, 1], [30, 3]), direct=False), np.ones(33), 0, "this")
    assert few.max() == 2


def test_a_class_of_one_row_is_refused_by_name():
    y = np.array(["a"] * 10 + ["b"] * 9 + ["c"])
    with pytest.raises(DataError, match=r"two rows of every class.*'c' has 1"):
        fit(np.random.default_rng(0).normal(size=(20, 3)), y, TrainOptions(probability=True))


def test_scores_beyond_the_limit_are_sampled(monkeypatch):
    X, y = draws(0, 3000)
    whole = fit(X, y, TrainOptions(alpha=1e-2, probability=True))[0].calibration
    monkeypatch.setattr(calibration, "MAX_SCORES", 3000)
    part = fit(X, y, TrainOptions(alpha=1e-2, probability=True))[0].calibration
    assert part != whole
    np.testing.assert_allclose(part, whole, rtol=0.2)


def test_an_interrupt_between_fits_leaves_a_model_without_probabilities(monkeypatch):
    entered = Monitor.__enter__

    def interrupted_later(self):
        seen.append(self)
        self = entered(self)
        self._interrupted = len(seen) > 2
        return self

    seen: list[Monitor] = []
    monkeypatch.setattr(Monitor, "__enter__", interrupted_later)
    model, solution = fit(IRIS, SPECIES, TrainOptions(probability=True))
    assert (solution.status, model.status) == ("interrupted", "interrupted")
    assert "probabilities" in solution.message
    with pytest.raises(OptionError, match="probability=True"):
        model.predict_proba(IRIS)


def test_the_time_limit_holds_for_all_fits_together(monkeypatch):
    limits, started = [], Monitor.__init__

    def noted(self, budget):
        limits.append(budget.max_time)
        started(self, budget)

    monkeypatch.setattr(Monitor, "__init__", noted)
    fit(IRIS, SPECIES, TrainOptions(probability=True, max_time=1000.0))
    assert limits[0] == 500.0
    assert len(limits) == 6
    assert max(limits[1:3]) < 1000.0 / 4


def test_the_estimator_offers_them_where_asked_for():
    assert not hasattr(LinearClassifier(), "predict_proba")
    assert hasattr(LinearClassifier(probability=True), "predict_proba")
    with pytest.raises(OptionError, match="probability=1 is neither"):
        LinearClassifier(probability=1).fit(IRIS, SPECIES)


def test_files_keep_them_and_tampering_is_found(tmp_path):
    model, _ = fit(IRIS, SPECIES, TrainOptions(probability=True))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(lineal.load(tmp_path / "m").calibration, model.calibration)
    rewrite(tmp_path / "m", lambda d, t: d.pop("calibration"))  # as files were before there was any
    old = lineal.load(tmp_path / "m")
    assert old.calibration is None
    for wrong in ([1.0, 2.0], [-1.0], [0.0], "x", 3.0, ["a"], [float("inf")]):
        model.save(tmp_path / "m")
        rewrite(tmp_path / "m", lambda d, t, wrong=wrong: d.update(calibration=wrong))
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(tmp_path / "m")
