"""Calibrated and stagewise least squares: the same answers wherever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from served_rows import ServedRows
from sklearn.datasets import load_digits, make_multilabel_classification

from lineal import features
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.features.rows import design_of, matrix_of
from lineal.numerics.basis import functions
from lineal.problem.targets import encode
from lineal.solvers import calibrated
from lineal.solvers.stagewise import UPDATES, stagewise

ROWS = 90

#: Rows in one, three and seven blocks, of which one is empty.
SIZES = ((90,), (40, 0, 50), (1, 19, 0, 31, 2, 17, 20))

#: A generator of each kind, and one that needs all that a chain can need.
GENERATORS = (
    "fourier", "fourier:variant=orthogonal", "fourier:variant=hadamard", "frequency", "subset", "greedy", "polynomial",
    "pca", "patches:patch=3,n_filters=4,image_shape=8x8", "pca:n_components=6+fourier", "pca:n_components=9+greedy",
)  # fmt: skip


def weights() -> np.ndarray:
    given = np.random.default_rng(0).random(ROWS) + 0.2
    return given / given.sum()


def digits(kind: str = "classes"):
    """Rows and encoded labels."""
    X, y = load_digits(return_X_y=True)
    if kind == "label sets":
        return make_multilabel_classification(ROWS, n_features=8, n_classes=3, random_state=0)
    labels = y[y < (2 if kind == "two classes" else 4)][:ROWS]
    return X[y < (2 if kind == "two classes" else 4)][:ROWS], labels


def engine_of(X, y, **options) -> LocalEngine:
    encoded = encode(y, direct=False)
    return LocalEngine(design_of(X), encoded.targets, weights(), encoded.n_columns, threads=2, **options)


# --- calibrated


def calibrate(engine, onto):
    return calibrated.solve(
        engine, alpha=1e-3, basis=functions("polynomial"), onto=onto, max_iter=4, min_gain=0.0
    )  # fmt: skip


def calibrated_rows(kind: str, layout: str = "dense"):
    X, y = digits(kind)
    X = X[:, ::5] if kind != "label sets" else X
    encoded = encode(y, direct=False)
    rows = wrap(np.ascontiguousarray(X) if layout == "dense" else sparse.csr_array(X))
    return LocalEngine(rows, encoded.targets, weights(), encoded.n_columns)


def predictions(fit, engine, kind):
    """What is compared in place of the maps: powers of predictions near 0 and 1 are nearly the same columns."""
    X = engine.X.layout.values if engine.is_dense else matrix_of(engine.X)
    XW = np.stack([X @ W for W in fit.weights], axis=1)
    return calibrated.replay(XW, fit.intercepts, fit.maps, functions("polynomial"), KINDS[kind])


KINDS = {"classes": "simplex", "two classes": "cube", "label sets": "cube"}


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_calibrated_fits_are_those_of_local_rows(kind, layout):
    local = calibrated_rows(kind, layout)
    wanted = calibrate(local, KINDS[kind])
    assert len(wanted.weights) == 4
    for number, sizes in enumerate(SIZES):
        found = calibrate(ServedRows(local, sizes, forgets=0.2, seed=number), KINDS[kind])
        for name in ("weights", "intercepts"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-10)
        np.testing.assert_allclose(
            predictions(found, local, kind), predictions(wanted, local, kind), rtol=0, atol=1e-10
        )
        objectives = [[row["objective"] for row in fit.history] for fit in (found, wanted)]
        np.testing.assert_allclose(*objectives, rtol=0, atol=1e-12)


@pytest.mark.parametrize("forgets", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["classes", "two classes"])
def test_calibrated_fits_have_the_same_bits_in_any_number_of_processes(kind, forgets):
    local = calibrated_rows(kind)
    fits = [calibrate(ServedRows(local, SIZES[2], n, forgets), KINDS[kind]) for n in (1, 2)]
    for name in ("weights", "intercepts", "maps"):
        np.testing.assert_array_equal(getattr(fits[0], name), getattr(fits[1], name))
    here = calibrate(ServedRows(local, SIZES[2], 0, forgets), KINDS[kind])
    np.testing.assert_allclose(here.weights, fits[0].weights, rtol=0, atol=1e-10)


def test_calibrated_steps_are_small():
    served = ServedRows(calibrated_rows("classes"), SIZES[1])
    calibrate(served, "simplex")
    assert 0 < served.traffic.step < 4096


# --- stagewise


def fit_stages(engine, X, text, update, **options):
    """Stages of a generator that was prepared with X."""
    generator = features.parse(text).prepare(X, 3)
    k = engine.n_columns
    given = {
        "update": update, "alpha": 1e-2, "stage_size": 16, "n_stages": 3, "inner_iter": 5, "is_independent": k < 3,
    }  # fmt: skip
    return stagewise.solve(engine, generator, np.full(k, 1.0 / k, engine.dtype), **{**given, **options})


def same(found, wanted, exact=False):
    assert len(found.stages) == len(wanted.stages) > 0
    for one, other in zip(found.stages, wanted.stages):
        assert (one.number, one.size) == (other.number, other.size)
        for name in ("weights", "intercept"):
            pair = getattr(one, name), getattr(other, name)
            if exact:
                np.testing.assert_array_equal(*pair)
            else:
                np.testing.assert_allclose(*pair, rtol=1e-8, atol=1e-10)
    objectives = [[row["objective"] for row in fit.history] for fit in (found, wanted)]
    np.testing.assert_allclose(*objectives, rtol=1e-10)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("text", GENERATORS)
def test_stages_are_those_of_local_rows(text, update):
    X, y = digits()
    X = X / 16.0
    local = engine_of(X, y)
    wanted = fit_stages(local, X, text, update)
    for number, sizes in enumerate(SIZES):
        same(fit_stages(ServedRows(local, sizes, forgets=0.1, seed=number), X, text, update), wanted)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("kind", ["two classes", "label sets"])
def test_stages_of_independent_columns(kind, update):
    X, y = digits(kind)
    local = engine_of(X, y)
    wanted = fit_stages(local, X, "fourier", update, is_independent=True)
    served = ServedRows(local, SIZES[2], forgets=0.2)
    same(fit_stages(served, X, "fourier", update, is_independent=True), wanted)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("text", ["fourier", "pca:n_components=6+fourier", "greedy"])
def test_stages_have_the_same_bits_in_any_number_of_processes(text, update):
    X, y = digits()
    local = engine_of(X / 16.0, y)
    fits = [fit_stages(ServedRows(local, SIZES[2], n, 0.2), X / 16.0, text, update) for n in (1, 2)]
    same(fits[0], fits[1], exact=True)
    same(fit_stages(local, X / 16.0, text, update), fits[0])


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("text", ["frequency", "greedy", "polynomial", "fourier"])
def test_sparse_rows_and_bytes(text, update):
    X, y = digits()
    for rows in (sparse.csr_matrix(X), X.astype(np.uint8)):
        local = engine_of(rows, y)
        wanted = fit_stages(local, rows, text, update, n_stages=2)
        found = fit_stages(ServedRows(local, SIZES[1], forgets=0.2), rows, text, update, n_stages=2)
        for one, other in zip(found.stages, wanted.stages, strict=True):
            tolerance = 1e-8 if local.dtype == np.float64 else 2e-2 * np.abs(other.weights).max()
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_features_that_are_made_again_and_held_out_rows(update, memory):
    X, y = digits()
    held = np.zeros(ROWS)
    held[::3] = 1.0 / 30
    local = engine_of(X / 16.0, y)
    training = np.where(held > 0.0, 0.0, local.weights)
    local = local.with_weights(training / training.sum())
    options = {"held_out": held, "patience": 2, "feature_memory": memory}
    wanted = fit_stages(local, X / 16.0, "fourier", update, **options)
    found = fit_stages(ServedRows(local, SIZES[2], forgets=0.2), X / 16.0, "fourier", update, **options)
    same(found, wanted)
    errors = [[row["validation"] for row in fit.history] for fit in (found, wanted)]
    np.testing.assert_allclose(*errors, rtol=1e-12)


@pytest.mark.parametrize("update", UPDATES)
def test_features_far_from_zero_in_blocks(update):
    X, y = digits()
    X = X[:, 18:30] + 1e5
    local = engine_of(X, y)
    wanted = fit_stages(local, X, "frequency", update, stage_size=12, n_stages=1)
    found = fit_stages(ServedRows(local, SIZES[2]), X, "frequency", update, stage_size=12, n_stages=1)
    for one, other in zip(found.stages, wanted.stages, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("update", UPDATES)
def test_stages_can_be_added_to_stages(update):
    X, y = digits()
    local = engine_of(X / 16.0, y)
    whole = fit_stages(local, X / 16.0, "fourier", update, n_stages=3)
    served = ServedRows(local, SIZES[2], forgets=0.2)
    rest = fit_stages(
        served, X / 16.0, "fourier", update, n_stages=2, first_stage=1, before=whole.stages[:1]
    )  # fmt: skip
    for one, other in zip(rest.stages, whole.stages[1:], strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-8, atol=1e-10)


class ChosenByResidual:
    """A generator of a user's own, which sees rows and residuals: columns by their correlation."""

    needs_residual = True

    def prepare(self, X, seed):
        return self

    def make(self, number, size, residual=None):
        X, R = residual
        assert len(R) == X.shape[0] == ROWS
        return Columns(np.argsort(-np.abs(X.T @ R).sum(axis=1), kind="stable")[:size])

    def remake(self, number, size, state):
        return Columns(state["columns"])


class Columns:
    def __init__(self, columns):
        self.columns, self.width = columns, len(columns)

    def transform(self, X):
        return np.ascontiguousarray(X[:, self.columns])

    def state(self):
        return {"columns": self.columns}


def test_generators_of_ones_own_see_the_rows_and_the_residual():
    X, y = digits()
    local = engine_of(X, y)
    start, options = np.full(4, 0.25), {"stage_size": 6, "n_stages": 2, "alpha": 1e-2}
    wanted = stagewise.solve(local, ChosenByResidual(), start, **options)
    same(stagewise.solve(ServedRows(local, SIZES[2], forgets=0.2), ChosenByResidual(), start, **options), wanted)


@pytest.mark.parametrize("update", UPDATES)
def test_stagewise_steps_are_small(update):
    X, y = digits()
    served = ServedRows(engine_of(X, y), SIZES[1])
    fit_stages(served, X, "fourier", update)
    assert 0 < served.traffic.step < 4096
