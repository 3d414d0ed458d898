"""Scores and curvatures of all rows, kept while a Newton method works: Z, Y = X·s, R = s∘∇ℓ and D = s∘ℓ''.

With Z and Y at hand a trial step costs O(n·k) and no pass over X, and a product with the Hessian one pass there and one
back. Losses that see one score at a time (one-vs-rest) are k separate problems that share the passes, and have D as an
array; those that couple the columns are one problem, whose curvature the loss applies to a row (`row_curvature`).

Memory: 4·n·k numbers in the precision of the data (3·n·k for coupled columns).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.csr import CSR
from lineal.design.products import matmul, rmatmul
from lineal.numerics.centred import Centred
from lineal.numerics.cg import column_dots, total_dot

#: Rows of a chunk of the loss's work; sums over chunks are added in order.
CHUNK_ROWS = 8192

#: Stored numbers below which a second thread is not worth its start.
WORTH_A_THREAD = 200_000

_U = np.uintp


def is_worth_threads(objective: Any) -> bool:
    """Whether a pass over the rows takes longer than waking a thread up."""
    (stored,) = objective.engine.sum(lambda block: (block.X.stored,))
    return stored * objective.engine.n_columns >= 4 * WORTH_A_THREAD


class ScoreRows:
    """All rows of a local engine seen from θ = (W, b̃). Arrays have the `columns` that still take part."""

    def __init__(self, centred: Centred, threads: int) -> None:
        self.centred, self.objective = centred, centred.objective
        engine: Any = self.objective.engine
        self.engine = engine
        self.loss, self.threads = self.objective.loss, threads
        n, k = self.engine.shape[0], self.engine.n_columns
        self.is_coupled = self.loss.is_direct
        self.dots = total_dot if self.is_coupled else column_dots
        self.columns = np.arange(k)
        self.blocks = engine.blocks()
        X = engine.X
        self.is_fused = k == 1 and isinstance(X.layout, CSR) and not self.is_coupled
        self.pieces = threads if X.stored >= WORTH_A_THREAD else 1
        shape, dtype = (n, k), self.engine.dtype
        self.Z, self.R = np.empty(shape, dtype), np.empty(shape, dtype)
        self.Y = np.zeros(shape, dtype)
        self.D = np.empty(shape if not self.is_coupled else (0, 0), dtype)
        self.active: np.ndarray | None = None

    @property
    def groups(self) -> int:
        """Number of separate problems."""
        return 1 if self.is_coupled else len(self.columns)

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Scores of θ from scratch; loss of every problem."""
        self._scores(theta, self.Z)
        if self.engine.offsets is not None:
            self.Z += self.engine.offsets if self.is_coupled else self.engine.offsets[:, self.columns]
        self.Y[:] = 0.0
        return self.trial(np.zeros(self.groups))[0]

    def look_along(self, direction: np.ndarray) -> None:
        """Y = X·direction."""
        self._scores(direction, self.Y)

    def _scores(self, theta: np.ndarray, out: np.ndarray) -> None:
        W, b = self.objective.split(self.centred.outside(theta))
        if W.any():
            matmul(self.engine.X, W, out=out, threads=self.threads)
        else:  # the usual start
            out[:] = 0.0
        if self.objective.fit_intercept:
            out += b

    def trial(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss and slope along Y of every problem at Z + steps·Y; R and D are then those of that point."""
        n = len(self.Z)
        chunks = [(a, min(a + CHUNK_ROWS, n)) for a in range(0, n, CHUNK_ROWS)]
        given = (self.loss, self.engine.targets, self.engine.weights, self.Z, self.Y, steps, self.R)
        if self.is_coupled:
            tasks = [partial(_coupled_trial, *given, *chunk) for chunk in chunks]
        else:
            whole = (self.columns, self.engine.n_columns, self.D)
            tasks = [partial(_separate_trial, *given, *whole, *chunk) for chunk in chunks]
        sums = np.sum(pool.run(tasks, self.threads), axis=0) if chunks else np.zeros((2, self.groups))
        self.active = None
        return sums[0], sums[1]

    def accept(self, steps: np.ndarray) -> None:
        """Move Z; `trial` must have seen these steps last."""
        _move(self.Z, self.Y, np.broadcast_to(steps, (self.Z.shape[1],)))

    def gradient(self) -> np.ndarray:
        """Of the loss term, by W and b̃."""
        if self.is_fused:
            return self._inside(*self._spread(_pull, self.R))
        return self._inside(rmatmul(self.engine.X, self.R, threads=self.threads), self.R.sum(axis=0, dtype=np.float64))

    def product(self, V: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Hessian of the loss term times V; D are the curvatures of V's columns."""
        W, b = self.objective.split(self.centred.outside(V))
        if self.is_fused:
            if self.active is None:
                self.active = np.flatnonzero(self.D[:, 0])
            return self._inside(*self._spread(_there_and_back, self.active, D, np.ascontiguousarray(W[:, 0]), b[0]))
        correlation, total = np.zeros(W.shape, W.dtype), np.zeros(W.shape[1])
        for block in self.blocks:
            Y = matmul(block.X, W, threads=self.threads)
            if self.objective.fit_intercept:
                Y += b
            rows = slice(block.first, block.first + len(Y))
            if self.is_coupled:
                cuts = pool.ranges(len(Y), 4 * self.threads)
                given = (self.loss, block.targets, block.weights, self.Z[rows], Y)
                pool.run([partial(_curve, *given, *cut) for cut in cuts], self.threads)
            else:
                Y *= D[rows]
            correlation += rmatmul(block.X, Y, threads=self.threads)
            total += Y.sum(axis=0, dtype=np.float64)
        return self._inside(correlation, total)

    def mean_curvature(self, seed: int) -> np.ndarray:
        """Σ_i s_i ∂²ℓ_i/∂z_r² of every column r; where columns are coupled, estimated with random signs."""
        if not self.is_coupled:
            return self.D.sum(axis=0, dtype=np.float64)
        signs = np.random.default_rng(seed).integers(0, 2, self.Z.shape, np.int8)
        Y = (2 * signs - 1).astype(self.Z.dtype)
        curved = Y.copy()
        _curve(self.loss, self.engine.targets, self.engine.weights, self.Z, curved, 0, len(Y))
        found = np.einsum("ir,ir->r", Y, curved, dtype=np.float64)
        return np.maximum(found, 1e-3 * max(float(found.max(initial=0.0)), 0.0))

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the columns only."""
        self.columns = self.columns[kept]
        self.Z, self.Y, self.R, self.D = (np.ascontiguousarray(A[:, kept]) for A in (self.Z, self.Y, self.R, self.D))
        self.active = None

    def _inside(self, correlation: np.ndarray, total: np.ndarray) -> np.ndarray:
        if self.centred.means is None:
            return correlation
        out = np.empty((len(correlation) + 1, correlation.shape[1]), correlation.dtype)
        np.subtract(correlation, self.centred.means.astype(out.dtype) * total.astype(out.dtype), out=out[:-1])
        out[-1] = total
        return out

    def _spread(self, task: Any, *given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Run a kernel over ranges of rows, each with its own sums, which are added in order."""
        layout = self.engine.X.layout
        outs = np.zeros((self.pieces, self.engine.shape[1]), self.engine.dtype)
        cuts = pool.ranges(len(given[0]), self.pieces)
        totals = pool.run([partial(task, layout, *given, out, *cut) for out, cut in zip(outs, cuts)], self.threads)
        for other in outs[1:]:
            outs[0] += other
        return outs[0][:, None], np.array([sum(totals)])


class PassedRows:
    """The same without anything kept: every question is a pass over the rows, all columns are one problem."""

    is_coupled, groups, dots = True, 1, staticmethod(total_dot)

    def __init__(self, centred: Centred) -> None:
        self.centred, self.objective = centred, centred.objective
        self.columns = np.arange(self.objective.engine.n_columns)
        self.D: np.ndarray | None = None
        d = self.objective.engine.shape[1]
        self.ridge = np.zeros((self.objective.shape[0], 1))
        self.ridge[:d, 0] = self.objective.regulariser.strengths

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Loss at θ."""
        self.theta, self.direction = theta, np.zeros_like(theta)
        return self.trial(np.zeros(1))[0]

    def look_along(self, direction: np.ndarray) -> None:
        """Remember the direction."""
        self.direction = direction

    def trial(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss and slope at θ + steps·direction, whose gradient is remembered."""
        self.seen = self.theta + steps.astype(self.theta.dtype) * self.direction
        value, gradient = self.objective.loss_and_gradient(self.centred.outside(self.seen))
        self._gradient = self._inside(gradient)
        return np.array([value]), self.dots(self._gradient, self.direction)

    def accept(self, steps: np.ndarray) -> None:
        """Move to the point seen last."""
        self.theta = self.seen

    def gradient(self) -> np.ndarray:
        """Of the loss term, by W and b̃."""
        return self._gradient.copy()

    def product(self, V: np.ndarray, D: np.ndarray | None) -> np.ndarray:
        """Hessian of the loss term times V."""
        outside = self.centred.outside(V)
        product = self.objective.hessian_vector(self.centred.outside(self.theta), outside)
        product -= self.ridge.astype(V.dtype) * outside
        return self._inside(product)

    def mean_curvature(self, seed: int) -> np.ndarray:
        """What is typical of the loss."""
        k = len(self.columns)
        return np.full(k, self.objective.loss.typical_curvature(k))

    def _inside(self, gradient: np.ndarray) -> np.ndarray:
        if self.centred.means is not None:
            gradient[:-1] -= self.centred.means.astype(gradient.dtype) * gradient[-1]
        return gradient


@kernel
def _separate_trial(loss, targets, weights, Z, Y, steps, R, columns, k, D, start, stop):
    signs = np.empty(k)
    m = Z.shape[1]
    sums = np.zeros((2, m))
    for i in range(_U(start), _U(stop)):
        loss.signs(targets.labels(i), signs)
        weight = weights[i]
        for r in range(_U(m)):
            t = signs[columns[r]]
            y = wide(Y[i, r])
            z = wide(Z[i, r]) + steps[r] * y
            value, derivative = loss.value_and_derivative(t, z)
            R[i, r] = weight * derivative
            D[i, r] = weight * loss.curvature_beside(t, z, derivative)
            sums[0, r] += weight * value
            sums[1, r] += weight * derivative * y
    return sums


@kernel
def _coupled_trial(loss, targets, weights, Z, Y, steps, R, start, stop):
    k = Z.shape[1]
    work, z = np.empty(k), np.empty(k)
    sums = np.zeros((2, 1))
    for i in range(_U(start), _U(stop)):
        for r in range(_U(k)):
            z[r] = wide(Z[i, r]) + steps[0] * wide(Y[i, r])
        sums[0, 0] += weights[i] * loss.row_gradient(targets.labels(i), z, work, R[i])
        for r in range(_U(k)):
            R[i, r] *= weights[i]
            sums[1, 0] += wide(R[i, r]) * wide(Y[i, r])
    return sums


@kernel
def _move(Z, Y, steps):
    for i in range(_U(Z.shape[0])):
        for r in range(_U(Z.shape[1])):
            Z[i, r] += steps[r] * Y[i, r]


@kernel
def _curve(loss, targets, weights, Z, Y, start, stop):
    """Y ← s·∇²ℓ(Z)·Y, row by row."""
    k = Z.shape[1]
    work, out = np.empty(k), np.empty(k)
    for i in range(start, stop):
        loss.row_curvature(targets.labels(i), Z[i], Y[i], work, out)
        for r in range(k):
            Y[i, r] = weights[i] * out[r]


@kernel
def _pull(layout, R, out, start, stop):
    """out += X'R over some rows of one column; the sum of R."""
    total = 0.0
    flat = R.reshape(-1)
    for i in range(_U(start), _U(stop)):
        if flat[i] != 0.0:
            layout.row_update(i, flat, i, 1, out)
            total += wide(flat[i])
    return total


@kernel
def _there_and_back(layout, rows, D, v, shift, out, start, stop):
    """out += X'D(Xv + shift) over the listed rows, each read once; the sum of what multiplies the rows."""
    total = 0.0
    work = np.empty(1, v.dtype)
    for p in range(_U(start), _U(stop)):
        i = _U(rows[p])
        layout.row_scores(i, v, 1, work, 0)
        work[0] = (work[0] + shift) * D[i, 0]
        layout.row_update(i, work, 0, 1, out)
        total += wide(work[0])
    return total
