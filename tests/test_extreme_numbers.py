"""Columns far from zero, of extreme scale, or constant: a usable answer with an honest certificate, in any solver.

The objective is recomputed in plain NumPy (`judge_objective.py`).
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from judge_objective import DIRECT, Stated
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import lineal
from lineal import LinearClassifier


@dataclass(frozen=True)
class Fitted:
    """A fit, its message (empty where it converged) and the objective of its answer and of the model of zeros."""

    classifier: LinearClassifier
    message: str
    objective: float
    of_zeros: float

    @property
    def gap(self) -> float:
        """The certificate's value."""
        return self.classifier.certificate_.value


def stated(classifier: LinearClassifier, X: Any, y: Any) -> Stated:
    """The objective of a classifier for rows without weights and offsets, of one label each."""
    X, y = np.asarray(X, np.float64), np.asarray(y)
    classes = np.unique(y)
    has = y[:, None] == classes
    has = has if len(classes) > 2 or classifier.loss in DIRECT else has[:, 1:]
    d = X.shape[1]
    factors = np.ones(d) if classifier.penalty_factors is None else np.asarray(classifier.penalty_factors)
    return Stated(
        loss=classifier.loss,
        penalty=classifier.penalty,
        ratio=0.5,
        X=X,
        has=has,
        weights=np.ones(len(X)),
        offsets=np.zeros(has.shape),
        blocks=[np.array([j]) for j in range(d)],
        strengths=classifier.alpha * factors,
        fit_intercept=classifier.fit_intercept,
    )


def checked_fit(classifier: LinearClassifier, X: Any, y: Any) -> Fitted:
    """Fit, and assert what holds for every fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(X, y)
    others = [warning for warning in caught if warning.category is not ConvergenceWarning]
    assert not others, f"{others[0].category.__name__}: {others[0].message}"
    message = str(caught[0].message) if caught else ""
    assert (classifier.status_ == "converged") == (not message or "minimum is at infinity" in message)
    assert classifier.status_ in ("converged", "max_iter", "stalled")
    if message:
        assert any(word in message for word in ("use ", "raise ", "scale ", "centre ", "give ", "subtract ")), message

    W, b = np.asarray(classifier.model_.weights), classifier.model_.intercept
    certificate = classifier.certificate_
    assert np.isfinite(W).all()
    assert np.isfinite(b).all()
    assert np.isfinite([certificate.value, certificate.primal]).all(), certificate
    objective = stated(classifier, X, y)
    value = objective.value(W, b)
    assert abs(certificate.primal - value) <= objective.rounding(W, b)
    of_zeros = objective.value(np.zeros(W.shape), np.zeros(b.shape))
    assert value <= of_zeros * (1 + 1e-6)
    if certificate.dual is not None:
        assert certificate.dual <= min(value, of_zeros) * (1 + 1e-12)
    assert np.isfinite(classifier.decision_function(X)).all()
    return Fitted(classifier, message, value, of_zeros)


def iris() -> tuple[np.ndarray, np.ndarray]:
    """150 × 4, three classes."""
    return load_iris(return_X_y=True)


def three_rows_far_from_zero() -> tuple[np.ndarray, list[int]]:
    """Nearly equal rows: one part in a million tells them apart."""
    return np.random.default_rng(0).standard_normal((3, 3)) + 1e6, [0, 1, 0]


def three_large_numbers() -> tuple[np.ndarray, list[int]]:
    """One column of 1e5, float32."""
    return np.array([[-7e4], [8e4], [8e4]], "f4"), [0, 1, 0]


def constant_column() -> tuple[np.ndarray, np.ndarray]:
    """200 × 5 in float32, the first column 1e4 everywhere."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)).astype("f4")
    X[:, 0] = 1e4
    return X, rng.integers(0, 2, 200)


def ranked_rows() -> tuple[list[list[float]], list[int]]:
    """Three rows, three classes, columns of thousands."""
    return [[-2000.0, -6e4], [-800, 2e4], [-1000, -3000]], [0, 1, 2]


def large_column() -> tuple[np.ndarray, list[int]]:
    """One column of millions, float32."""
    return np.array([[0], [3e6], [0], [-2e6], [6e5], [-1e6]], "f4"), [1, 2, 1, 2, 2, 0]


def one_column_far(mean: float, dtype: str, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """200 rows of standard normal columns, one of them moved."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, d))
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(200) > 0).astype(int)
    X[:, 0] += mean
    return X.astype(dtype), y


PROBLEMS = {
    "newton, no penalty, no intercept": (
        {"loss": "logistic", "alpha": 0, "fit_intercept": False, "solver": "newton"},
        iris,
    ),
    "block_cd, rows far from zero": (
        {"loss": "squared", "alpha": 1e-3, "solver": "block_cd"},
        three_rows_far_from_zero,
    ),
    "block_cd, large float32": ({"loss": "squared_hinge", "penalty": "l1", "alpha": 1e-5}, three_large_numbers),
    "dual_cd, constant column": ({"loss": "squared_hinge", "alpha": 1e-2, "solver": "dual_cd"}, constant_column),
    "kinks and a free feature": ({"loss": "hinge", "alpha": 1e-3, "penalty_factors": [0, 1, 1, 1]}, iris),
    "block_cd, ranking": (
        {"loss": "label_ranking", "penalty": "l1", "alpha": 1.0, "fit_intercept": False},
        ranked_rows,
    ),
    "fobos, large float32": ({"loss": "label_ranking", "alpha": 1.0, "solver": "fobos"}, large_column),
    "l1, float32, mean 1e4": ({"penalty": "l1"}, lambda: one_column_far(1e4, "float32")),
    "dual_cd, float64, mean 1e9": ({"solver": "dual_cd"}, lambda: one_column_far(1e9, "float64")),
    "dual_cd, float32, mean 1e6": ({"solver": "dual_cd"}, lambda: one_column_far(1e6, "float32")),
    "block_cd, no penalty": ({"loss": "logistic", "alpha": 0, "solver": "block_cd"}, iris),
    "block_cd, no penalty, far from zero": (
        {"loss": "squared_hinge", "alpha": 0, "solver": "block_cd"},
        lambda: one_column_far(1e6, "float32"),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_fits_that_have_failed(name):
    options, make = PROBLEMS[name]
    checked_fit(LinearClassifier(**options), *make())


#: A loss and a penalty for every solver.
SOLVERS = {
    "dual_cd": {"loss": "squared_hinge"},
    "newton": {"loss": "logistic"},
    "lbfgs": {"loss": "logistic"},
    "least_squares": {"loss": "squared_hinge"},
    "block_cd": {"loss": "logistic", "penalty": "l1"},
    "fista": {"loss": "logistic", "penalty": "l1"},
    "sparsa": {"loss": "squared_hinge", "penalty": "l1/l2"},
    "multipliers": {"loss": "hinge", "penalty": "l1"},
    "admm": {"loss": "hinge"},
    "hybrid": {"loss": "logistic"},
    "averaging": {"loss": "squared_hinge"},
    "fobos": {"loss": "squared_hinge"},
    "auto": {"loss": "hinge"},
}

#: Those that end at the minimum.
EXACT = [solver for solver in SOLVERS if solver != "averaging"]


def test_every_solver_is_here():
    assert set(SOLVERS) == {"auto", *lineal.solvers.names()}


def rows_with_exact_shifts(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """120 × 4 rows of few bits, so that adding 2^20 is exact in both precisions."""
    rng = np.random.default_rng(1)
    X = np.clip(np.round(8 * rng.standard_normal((120, 4))) / 8, -3, 3)
    y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.7 * rng.standard_normal(120) > 0).astype(int)
    return X.astype(dtype), y


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("distance", [1e3, 1e6])
@pytest.mark.parametrize("solver", EXACT)
def test_adding_a_constant_to_a_column_changes_nothing(solver, distance, dtype):
    X, y = rows_with_exact_shifts(dtype)
    constant = 2.0 ** round(np.log2(distance))
    far = X.copy()
    far[:, [0, 2]] += np.array([constant, -constant], dtype)
    assert np.array_equal(far[:, 0] - X.dtype.type(constant), X[:, 0])

    tol = 1e-3 if solver == "fobos" else 1e-4
    options = {**SOLVERS[solver], "alpha": 1e-2, "tol": tol, "solver": solver}
    near, moved = (checked_fit(LinearClassifier(**options), rows, y) for rows in (X, far))
    assert near.classifier.status_ == "converged"
    # An intercept near the constant, rounded to the precision of the data, moves all scores by this much. The slope of
    # the objective by the intercept is zero, and its curvature at most 2.
    step = float(np.spacing(np.abs(moved.classifier.intercept_))[0])
    room = tol + step**2 / near.objective
    assert moved.gap <= room, moved.message
    assert moved.objective <= near.objective * (1 + near.gap) * (1 + room)
    error = float(np.finfo(dtype).eps) * constant * np.abs(moved.classifier.coef_).sum()
    scores, others = near.classifier.decision_function(X), moved.classifier.decision_function(far)
    sure = np.abs(scores) > 0.1 + 4 * error
    assert np.array_equal(scores[sure] > 0, others[sure] > 0)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "softmax"])
def test_newton_in_float32_reaches_its_tolerance_whatever_the_scale_of_each_column(loss):
    rng = np.random.default_rng(2)
    for _ in range(10):
        n, d = int(rng.integers(5, 60)), int(rng.integers(1, 8))
        X = rng.standard_normal((n, d))
        y = (X @ rng.standard_normal(d) + rng.standard_normal(n) > 0).astype(int)
        y[:2] = 0, 1
        X = (X * 10.0 ** rng.uniform(-6, 6, d)).astype("f4")
        alpha = 10.0 ** rng.uniform(-6, 1)
        fitted = checked_fit(LinearClassifier(loss, alpha=alpha, solver="newton"), X, y)
        assert fitted.classifier.status_ == "converged", (X, y, alpha)


@pytest.mark.parametrize(
    ("dtype", "scale"), [("f4", 1e-42), ("f4", 1e37), ("f8", 1e-300), ("f8", 1e150), ("f8", 1e160)]
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_numbers_at_the_ends_of_a_precision_are_fitted_or_refused(solver, dtype, scale):
    X, y = rows_with_exact_shifts("float64")
    for columns in ([1], [0, 1, 2, 3]):
        scaled = X.copy()
        scaled[:, columns] *= scale
        classifier = LinearClassifier(**SOLVERS[solver], alpha=1e-2, solver=solver, max_iter=20)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                classifier.fit(scaled.astype(dtype), y)
            except lineal.errors.DataError as error:
                refusal = str(error)
            else:
                refusal = ""
        if refusal:
            assert re.search("scale the features|divide it", refusal)
            continue
        assert np.isfinite(classifier.coef_).all()
        assert np.isfinite(classifier.intercept_).all()
        assert np.isfinite([classifier.certificate_.value, classifier.certificate_.primal]).all()
