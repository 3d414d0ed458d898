"""Calibrated least squares: weights and the link function learnt together, by two least-squares fits an iteration.

    W_t = argmin_W Σ s_i‖y_i − ŷ_i − W'x_i‖² + α‖W‖²,   ỹ = ŷ + W_t'x      (fit the residual)
    V_t = argmin_V Σ s_i‖y_i − V'u_i‖²,   u = [g₁(ỹ), …, g_m(ỹ)],   ŷ ← Π(V_t'u)      (calibrate)

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), Algorithm 2. V_t is a whole mk × k matrix: the prediction for
a class may draw on those for all others; Π projects onto the simplex (one label a row) or the cube (label sets, two
classes). Predictions depend on those before: a model replays all iterations. No convex objective is minimised, hence
there is no certificate; iterations end when one of them decreases the mean squared error by less than `min_gain` of it,
or when next to nothing of the error is left: predictions that are labels, but for rounding, have nothing to calibrate.

Memory: 16d² bytes for Σ̂ and its factor, T·(d + mk)·k weights after T iterations, three n × k arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.core.threads import thread_count
from lineal.design import Design
from lineal.design.products import column_moments, gram, matmul, rmatmul
from lineal.errors import DataError
from lineal.numerics.basis import Function, expand
from lineal.numerics.projections import PROJECTIONS
from lineal.numerics.second_moment import Factor, without_constants
from lineal.problem.budget import Budget
from lineal.problem.monitor import Callback, Monitor
from lineal.problem.solution import Run

#: Relative decrease of the mean squared error that is worth another iteration.
MIN_GAIN = 1e-4

#: Share of the first error that is as good as none.
NOTHING_LEFT = 1e-10

#: Entries of u at a time.
CHUNK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Calibrated(Run):
    """T iterations: weights (T, d, k), intercepts (T, k), maps (T, mk, k), and how they came about."""

    weights: np.ndarray
    intercepts: np.ndarray
    maps: np.ndarray


def solve(
    X: Design,
    Y: np.ndarray,
    weights: np.ndarray,
    *,
    alpha: float,
    basis: Sequence[Function],
    onto: str,
    fit_intercept: bool = True,
    max_iter: int = 50,
    min_gain: float = MIN_GAIN,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    n_jobs: int | None = None,
) -> Calibrated:
    """Learn to predict Y, (n, k) in the precision of X; `weights` of the rows add up to one."""
    step = _Residual(X, weights, alpha, fit_intercept, thread_count(n_jobs))
    predictions = np.zeros_like(Y)
    error = first = _error(Y, predictions, weights)
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    with Monitor(Budget(max_iter=max_iter, max_time=max_time, callbacks=tuple(callbacks))) as monitor:
        status = monitor.record(0, error, np.nan, np.zeros((X.shape[1], Y.shape[1])), np.zeros(Y.shape[1]))
        while status is None and error > NOTHING_LEFT * first:
            W, b = step.fit(Y - predictions)
            predictions += matmul(X, W, threads=step.threads)
            predictions += b
            V = _calibrate(predictions, Y, weights, basis, onto)
            before, error = error, _error(Y, predictions, weights)
            if not error < before:  # the ridge has had its say: this iteration is not kept
                break
            kept.append((W, b, V))
            status = monitor.record(len(kept), error, np.nan, W, b)
            if before - error < min_gain * before:
                break
    status = status or "converged"
    if not kept:
        kept.append((np.zeros((X.shape[1], Y.shape[1]), Y.dtype), *_constant(Y, weights, len(basis))))
    W_all, b_all, V_all = (np.stack(parts) for parts in zip(*kept))
    return Calibrated(monitor.history, status, _explain(status, max_iter, min_gain), W_all, b_all, V_all)


def replay(
    XW: np.ndarray, intercepts: np.ndarray, maps: np.ndarray, basis: Sequence[Function], onto: str
) -> np.ndarray:
    """Predictions of rows whose products with the weights of all iterations are XW, (n, T, k)."""
    predictions = np.zeros_like(XW[:, 0])
    for t in range(XW.shape[1]):
        tilde = predictions + XW[:, t] + intercepts[t]
        predictions = PROJECTIONS[onto](expand(basis, tilde) @ maps[t])
    return predictions


class _Residual:
    """Ridge regression on X, with a free intercept, for one target after another."""

    def __init__(self, X: Design, weights: np.ndarray, alpha: float, fit_intercept: bool, threads: int) -> None:
        self.X, self.row_weights, self.threads = X, weights, threads
        self.means = column_moments(X, weights)[:, 0] if fit_intercept else None
        moment = gram(X, weights, threads, self.means)
        self.constant = np.zeros(0, np.intp)
        if self.means is not None:
            self.constant = without_constants(moment, self.means, X.dtype, not X.is_dense)
        self.factor = Factor(moment, alpha, rounding=float(np.finfo(X.dtype).eps))

    def fit(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercept for targets R, which are overwritten."""
        R *= self.row_weights[:, None].astype(R.dtype)
        products, totals = rmatmul(self.X, R, threads=self.threads), R.sum(axis=0, dtype=np.float64)
        if self.means is None:
            return self.factor.solve(products), np.zeros(R.shape[1], R.dtype)
        products -= np.outer(self.means, totals).astype(R.dtype)
        products[self.constant] = 0.0
        W = self.factor.solve(products)
        return W, (totals - self.means @ W).astype(R.dtype)


def _calibrate(P: np.ndarray, Y: np.ndarray, weights: np.ndarray, basis: Sequence[Function], onto: str) -> np.ndarray:
    """The map V of ỹ = P; P becomes Π(V'u)."""
    size = len(basis) * P.shape[1]
    squares, products = np.zeros((size, size)), np.zeros((size, P.shape[1]))
    for rows in _chunks(P, size):
        U = expand(basis, P[rows]).astype(np.float64)
        scaled = U * weights[rows, None]
        squares += scaled.T @ U
        products += scaled.T @ Y[rows]
    if not np.isfinite(squares).all():
        raise DataError("the calibrated predictions overflow: scale the features or raise alpha")
    V = Factor(squares, 0.0).solve(products).astype(P.dtype)
    for rows in _chunks(P, size):
        P[rows] = PROJECTIONS[onto](expand(basis, P[rows]) @ V)
    return V


def _chunks(P: np.ndarray, width: int) -> Iterator[slice]:
    rows = max(1, CHUNK_ENTRIES // max(width, 1))
    for start in range(0, len(P), rows):
        yield slice(start, start + rows)


def _error(Y: np.ndarray, P: np.ndarray, weights: np.ndarray) -> float:
    total = 0.0
    for rows in _chunks(P, P.shape[1]):
        difference = Y[rows] - P[rows]
        total += float(weights[rows] @ np.einsum("ir,ir->i", difference, difference, dtype=np.float64))
    return total


def _constant(Y: np.ndarray, weights: np.ndarray, m: int) -> tuple[Any, Any]:
    """Intercept and map of the model that predicts the mean of Y."""
    k = Y.shape[1]
    V = np.zeros((m * k, k), Y.dtype)
    V[:k] = np.eye(k)
    return (weights @ Y).astype(Y.dtype), V


def _explain(status: str, max_iter: int, min_gain: float) -> str:
    return {
        "converged": f"converged: the last iteration gained less than {min_gain:g} of the mean squared error",
        "max_iter": f"stopped after max_iter={max_iter} iterations, which still gained: raise max_iter",
        "max_time": "stopped by max_time",
        "stopped": "stopped by a callback",
        "interrupted": "interrupted: the iterations so far are kept",
    }[status]
