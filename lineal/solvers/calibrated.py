"""Calibrated least squares: weights and the link function learnt together, by two least-squares fits per iteration.

    W_t = argmin_W Σ s_i‖y_i − ŷ_i − W'x_i‖² + α‖W‖²,   ỹ = ŷ + W_t'x      (fit the residual)
    V_t = argmin_V Σ s_i‖y_i − V'u_i‖²,   u = [g₁(ỹ), …, g_m(ỹ)],   ŷ ← Π(V_t'u)      (calibrate)

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), Algorithm 2. V_t is a whole mk × k matrix: the prediction for
a class may depend on those for all others. Π projects onto the simplex (one label per row) or the cube (label sets, two
classes). Predictions depend on the previous ones, so a model replays all iterations. No convex objective is minimised,
hence there is no certificate. Iterations end when one of them decreases the mean squared error by less than `min_gain`
of it, or when almost none of the first error is left.

The predictions ŷ are row state, which the iterations so far rebuild; everything else is a sum over rows.

Memory: 16d² bytes for Σ̂ and its factor, T·(d + mk)·k weights after T iterations; two n × k arrays where the rows are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.errors import DataError, Unanswered
from lineal.numerics.basis import Function, expand
from lineal.numerics.factorisation import Factor
from lineal.numerics.label_residuals import labels_of, residuals, squared_error
from lineal.numerics.projections import PROJECTIONS
from lineal.numerics.ridge import Moments, Ridge
from lineal.problem import steps
from lineal.problem.budget import Budget
from lineal.problem.checkpoint import Checkpoint
from lineal.problem.loop_state import LoopState
from lineal.problem.monitor import Callback, Monitor
from lineal.problem.solution import Run

#: Relative decrease of the mean squared error that is worth another iteration.
MIN_GAIN = 1e-4

#: Iterations end when the error is at most this much of the first one.
NOTHING_LEFT = 1e-10

#: Entries of u at a time.
CHUNK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Calibrated(Run):
    """T iterations: weights (T, d, k), intercepts (T, k), maps (T, mk, k), and how the fit went."""

    weights: np.ndarray
    intercepts: np.ndarray
    maps: np.ndarray


def solve(
    engine: Engine,
    *,
    alpha: float,
    basis: Sequence[Function],
    onto: str,
    fit_intercept: bool = True,
    max_iter: int = 50,
    min_gain: float = MIN_GAIN,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | None = None,
) -> Calibrated:
    """Learn to predict the labels of the rows of an engine."""
    (d, k), dtype = (engine.shape[1], engine.n_columns), engine.dtype
    replayed = Replayed(Calibration(tuple(basis), onto), k)
    ridge = Ridge(Moments.of_rows(engine, fit_intercept), alpha, rounding=float(np.finfo(dtype).eps))
    run = _Run(0.0)
    predictions = engine.state(replayed, *run.iterations)
    run.error = first = float(engine.sum(error_of, states=(predictions,))[0])
    budget = Budget(max_iter=max_iter, max_time=max_time, callbacks=tuple(callbacks), checkpoint=checkpoint)
    with Monitor(budget) as monitor:
        if monitor.resume(run):
            predictions = engine.state(replayed, *run.iterations)
            W, b = run.weights[-1], run.intercepts[-1]
        else:
            W, b = np.zeros((d, k)), np.zeros(k)

        def iterate() -> str | None:
            W_all, b_all, V_all = run.iterations
            W, b = ridge.solve(*engine.sum(residual_products, states=(predictions,)))
            moved = predictions.to((*W_all, W), (*b_all, b), V_all)
            squares, products = engine.sum(AddScores(replayed.calibration), W, b, states=(moved,))
            V = best_map(squares, products, dtype)
            moved = predictions.to((*W_all, W), (*b_all, b), (*V_all, V))
            (error,) = engine.sum(Project(replayed.calibration), V, states=(moved,))
            if not error < run.error:  # the ridge prevents any further gain: this iteration is not kept
                return "converged"
            run.add(W, b, V, float(error))
            return monitor.record(len(run.weights), run.error, np.nan, W, b)

        status, why = monitor.record(len(run.weights), run.error, np.nan, W, b), ""
        try:
            while status is None and run.error > NOTHING_LEFT * first and not run.gains_less_than(min_gain):
                status = iterate()
        except Unanswered as unanswered:
            if not run.weights:  # there is no model yet
                raise
            status, why = monitor.must_end(0) or "max_time", f": {unanswered}"
            monitor.save()
    W_all, b_all, V_all = run.iterations
    status = status or "converged"
    if not W_all:
        W_all, b_all, V_all = _constant(engine, len(basis))
    message, parts = _explain(status, max_iter, min_gain) + why, (W_all, b_all, V_all)
    return Calibrated(monitor.history, status, message, *map(np.stack, parts), is_answered=not why)


class _Run(LoopState):
    """The iterations so far, their last mean squared error, and the one before."""

    state_names = ("weights", "intercepts", "maps", "error", "error_before")

    def __init__(self, error: float) -> None:
        self.error, self.error_before = error, math.inf
        self.weights: tuple[np.ndarray, ...] = ()
        self.intercepts: tuple[np.ndarray, ...] = ()
        self.maps: tuple[np.ndarray, ...] = ()

    @property
    def iterations(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """Weights, intercepts and maps."""
        return self.weights, self.intercepts, self.maps

    def add(self, W: np.ndarray, b: np.ndarray, V: np.ndarray, error: float) -> None:
        """Add an iteration."""
        self.weights, self.intercepts, self.maps = (*self.weights, W), (*self.intercepts, b), (*self.maps, V)
        self.error_before, self.error = self.error, error

    def gains_less_than(self, fraction: float) -> bool:
        """Whether the last iteration gained less than this fraction of the error before."""
        return self.error_before < math.inf and self.error_before - self.error < fraction * self.error_before


def best_map(squares: np.ndarray, products: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """V of Σ s·u·u' and Σ s·u·y'."""
    if not np.isfinite(squares).all():
        raise DataError("the calibrated predictions overflow: scale the features or raise alpha")
    return Factor(squares, 0.0).solve(products).astype(dtype)


def replay(
    XW: np.ndarray, intercepts: np.ndarray, maps: np.ndarray, basis: Sequence[Function], onto: str
) -> np.ndarray:
    """Predictions of rows whose products with the weights of all iterations are XW, (n, T, k)."""
    predictions, calibration = np.zeros_like(XW[:, 0]), Calibration(tuple(basis), onto)
    for t in range(XW.shape[1]):
        predictions += XW[:, t]
        predictions += intercepts[t]
        calibration.project(predictions, maps[t])
    return predictions


@dataclass(frozen=True)
class Calibration:
    """The functions g of predictions, and the set onto which Π projects."""

    basis: tuple[Function, ...]
    onto: str

    def expanded(self, P: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Chunks of the rows of P, with their u."""
        rows = max(1, CHUNK_ENTRIES // max(len(self.basis) * P.shape[1], 1))
        for start in range(0, len(P), rows):
            part = slice(start, start + rows)
            yield part, expand(self.basis, P[part])

    def project(self, P: np.ndarray, V: np.ndarray) -> None:
        """Replace ỹ by Π(V'u)."""
        for part, U in self.expanded(P):
            P[part] = PROJECTIONS[self.onto](U @ V)


# --- steps over rows. A piece has the predictions P: ŷ, or ỹ between the two fits of an iteration.


@dataclass(frozen=True)
class Replayed:
    """Rebuilds the predictions from all iterations; the last one may still be without its map."""

    calibration: Calibration
    k: int

    def __call__(
        self,
        block: Block,
        weights: tuple[np.ndarray, ...],
        intercepts: tuple[np.ndarray, ...],
        maps: tuple[np.ndarray, ...],
    ) -> Piece:
        P = np.zeros((block.n, self.k), block.X.dtype)
        for t, (W, b) in enumerate(zip(weights, intercepts, strict=True)):
            _add_scores(block, P, W, b)
            if t < len(maps):
                self.calibration.project(P, maps[t])
        return {"P": P}


def error_of(block: Block, piece: Piece) -> tuple[float]:
    """Σ s‖y − ŷ‖²."""
    return (squared_error(block, piece["P"]),)


def residual_products(block: Block, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
    """Σ s·x·r' and Σ s·r of the residuals r = y − ŷ."""
    R = residuals(block, piece["P"])
    R *= block.weights[:, None].astype(R.dtype)
    return rmatmul(block.X, R, threads=block.threads), R.sum(axis=0, dtype=np.float64)


@dataclass(frozen=True)
class AddScores:
    """Moves the predictions to ỹ = ŷ + W'x + b; Σ s·u·u' and Σ s·u·y' there."""

    calibration: Calibration

    def __call__(self, block: Block, piece: Piece, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P = piece["P"]
        _add_scores(block, P, W, b)
        k = P.shape[1]
        size = len(self.calibration.basis) * k
        Y = labels_of(block, k, P.dtype)
        squares, products = np.zeros((size, size)), np.zeros((size, k))
        for part, U in self.calibration.expanded(P):
            wide = U.astype(np.float64)
            scaled = wide * block.weights[part, None]
            squares += scaled.T @ wide
            products += scaled.T @ Y[part]
        return squares, products


@dataclass(frozen=True)
class Project:
    """Moves the predictions from ỹ to Π(V'u); Σ s‖y − ŷ‖² there."""

    calibration: Calibration

    def __call__(self, block: Block, piece: Piece, V: np.ndarray) -> tuple[float]:
        self.calibration.project(piece["P"], V)
        return error_of(block, piece)


def _add_scores(block: Block, P: np.ndarray, W: np.ndarray, b: np.ndarray) -> None:
    P += matmul(block.X, W, threads=block.threads)
    P += b


def _constant(engine: Engine, m: int) -> tuple[tuple[np.ndarray], tuple[np.ndarray], tuple[np.ndarray]]:
    """The iteration of the model that predicts the mean of the labels."""
    d, k, dtype = engine.shape[1], engine.n_columns, engine.dtype
    V = np.zeros((m * k, k), dtype)
    V[:k] = np.eye(k)
    (means,) = engine.sum(steps.LabelWeights(k))
    return (np.zeros((d, k), dtype),), (means.astype(dtype),), (V,)


def _explain(status: str, max_iter: int, min_gain: float) -> str:
    return {
        "converged": f"converged: the last iteration gained less than {min_gain:g} of the mean squared error",
        "max_iter": f"stopped after max_iter={max_iter} iterations, which still gained: raise max_iter",
        "max_time": "stopped by max_time",
        "stopped": "stopped by a callback",
        "interrupted": "interrupted: the iterations so far are kept",
    }[status]
