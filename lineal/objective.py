"""The objective of every solver, and the certificate of every answer.

    F(W, b) = (1/Σs) Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α·Ω(W)

Sample and class weights are in s, offsets o are base scores, the intercept b is never penalised.

Its Fenchel dual, over one vector u_i in the domain of ℓ* a row, is

    D(u) = (1/Σs) Σ_i s_i [u_i·o_i − ℓ*(u_i)] − (αΩ)*(−C),   C = (1/Σs) Σ_i s_i x_i u_i',

and with a free intercept only u with Σ_i s_i u_i = 0 count. u_i = ∇ℓ(z_i) is nearly such a point near the optimum;
the loss repairs the rest (`repair`), the penalty may ask to scale it (`dual_scale`), and D(u) ≤ F* ≤ F(W, b) holds for
whatever W and b, optimal or not. Certificates are computed in float64 also for float32 data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.products import column_norms, matmul, rmatmul
from lineal.engine.base import Block, Engine
from lineal.errors import DataError
from lineal.penalties.regulariser import Regulariser
from lineal.solution import Certificate, Solution

#: n·k² beyond which the intercept's k × k curvature is not worth computing for a certificate.
MAX_INTERCEPT_WORK = 2e9

#: Relative rounding error that a certificate allows for in a sum of float64 products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)

#: Scores below which a second thread is not worth its start.
WORTH_A_THREAD = 1 << 18

#: Features of a piece of the rounding bounds.
ROUNDING_ROWS = 8192

#: Rows of a chunk; sums over chunks are added in order, so they do not depend on the number of threads.
CHUNK_ROWS = 2048


class _DualSums(NamedTuple):
    """Loss term, Σ s(u·o − ℓ*(u)), C, Σ s u and Σ s u²."""

    primal: float
    dual: float
    correlation: np.ndarray
    balance: np.ndarray
    squares: np.ndarray


@dataclass(frozen=True)
class Objective:
    """Loss, penalty and data together. Parameters are one array θ: the rows of W, and b as a last row if there is one.

    Memory: two blocks of scores (see the engine) and one θ of gradients.
    """

    engine: Engine
    loss: Any
    regulariser: Regulariser
    fit_intercept: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Of θ."""
        return (self.engine.shape[1] + self.fit_intercept, self.engine.n_columns)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """θ as weights (d, k) and intercept (k,): views, or zeros for an intercept that is not fitted."""
        d = self.engine.shape[1]
        return theta[:d], theta[d] if self.fit_intercept else np.zeros(self.shape[1], theta.dtype)

    def with_alpha(self, alpha: float) -> Objective:
        """The same rows and loss with another strength of the penalty; what is known of the columns is kept."""
        other = replace(self, regulariser=self.regulariser.with_alpha(alpha))
        if "moments" in self.__dict__:
            other.__dict__["moments"] = self.moments
        return other

    def class_weights(self) -> np.ndarray:
        """Share of the weight on each label column."""
        k = self.engine.n_columns
        return self.engine.sum(lambda block: (_label_weights(block.targets, block.weights, k),))[0]

    def start(self, dtype: Any = None) -> np.ndarray:
        """θ of the model without features: zero weights and the loss's best intercept for them, where it knows one."""
        theta = np.zeros(self.shape, dtype or self.engine.dtype)
        if self.fit_intercept:
            theta[-1] = self.loss.start_intercept(self.class_weights())
        return theta

    def theta_of(self, start: np.ndarray | Solution | None) -> np.ndarray:
        """A new θ to start from, in the precision of the data: of an array, a solution or, for None, `start()`."""
        if start is None:
            return self.start()
        if not isinstance(start, np.ndarray):
            start = self._joined(start.weights, start.intercept)
        return np.array(start, self.engine.dtype, order="C")

    # --- primal

    def value(self, theta: np.ndarray) -> float:
        """F(θ)."""
        W, b = self.split(theta)

        def step(block: Block) -> tuple[float]:
            Z = scores(block, W, b)
            return (_over_rows(block, Z, lambda a, c: _values(self.loss, block.targets, block.weights, Z, a, c)),)

        return float(self.engine.sum(step)[0]) + self.regulariser.value(W)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """F(θ) and ∇F(θ), for a smooth loss and penalty; with another penalty, use `loss_and_gradient`."""
        value, gradient = self.loss_and_gradient(theta)
        W, _ = self.split(theta)
        gradient[: len(W)] += self.regulariser.gradient(W)
        return value + self.regulariser.value(W), gradient

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss term and its gradient (a subgradient for non-smooth losses), in the shape of θ."""
        W, b = self.split(theta)

        def step(block: Block) -> tuple[float, np.ndarray]:
            Z = scores(block, W, b)
            R = np.empty_like(Z)
            value = _over_rows(block, Z, lambda a, c: _gradients(self.loss, block.targets, block.weights, Z, R, a, c))
            return value, self._pull_back(block, R)

        value, gradient = self.engine.sum(step)
        return float(value), gradient

    def gradients_into(self, theta: np.ndarray, U: np.ndarray) -> None:
        """Write ∇ℓ (a subgradient for non-smooth losses) of every row at θ to U, (n, k)."""
        W, b = self.split(theta)

        def step(block: Block) -> tuple[float]:
            rows = U[block.first : block.first + block.X.shape[0]]
            ones = np.ones(len(rows))
            Z = scores(block, W, b)
            return (_over_rows(block, Z, lambda a, c: _gradients(self.loss, block.targets, ones, Z, rows, a, c)),)

        self.engine.sum(step)

    def hessian_vector(self, theta: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """∇²F(θ)·direction, a generalised Hessian where second derivatives jump; smooth losses and penalties."""
        W, b = self.split(theta)
        V, v = self.split(direction)

        def step(block: Block) -> tuple[np.ndarray]:
            Z, Y = scores(block, W, b), matmul(block.X, V, threads=block.threads)
            Y += v
            R = np.empty_like(Z)
            _over_rows(block, Z, lambda a, c: _curvatures(self.loss, block.targets, block.weights, Z, Y, R, a, c))
            return (self._pull_back(block, R),)

        (product,) = self.engine.sum(step)
        product[: len(V)] += self.regulariser.curvature(V)
        return product

    def _pull_back(self, block: Block, R: np.ndarray) -> np.ndarray:
        """X'R with the column sums of R below, in the shape of θ."""
        out = np.empty(self.shape, R.dtype)
        d = block.X.shape[1]
        rmatmul(block.X, R, out=out[:d], threads=block.threads)
        if self.fit_intercept:
            out[d] = R.sum(axis=0, dtype=np.float64)
        return out

    # --- dual

    def certificate(self, theta: np.ndarray, tol: float = 0.0, dual_point: np.ndarray | None = None) -> Certificate:
        """A relative duality gap, or a relative violation where some weights are not penalised.

        A solver that has dual variables gives them as `dual_point`: (n, k), a u_i in the domain of ℓ* a row. Without,
        the dual point is ∇ℓ, and where its gap exceeds `tol` also ∇ℓ at an intercept one Newton step nearer to the
        best one for these weights: a gap is as sensitive to the balance of the intercept as its logarithm.
        """
        W, b = (part.astype(np.float64) for part in self.split(theta))
        if not np.all(self.regulariser.strengths > 0.0):
            return self._violation(W, b)
        if dual_point is not None:
            primal = self.value(self._joined(W, b))
            dual = self.dual_value(dual_point, W, b, primal)
            if math.isfinite(dual):
                return _gap_certificate(primal, dual)
        primal, dual = self.primal_and_dual(W, b)
        if primal - dual > tol * primal and self.fit_intercept and self.loss.is_smooth:
            nearer = self.newton_intercept(W, b)
            if nearer is not None:
                dual = max(dual, self.primal_and_dual(W, nearer)[1])
        return _gap_certificate(primal, dual) if math.isfinite(dual) else self._violation(W, b)

    def dual_value(self, U: np.ndarray, W: np.ndarray, b: np.ndarray, primal: float) -> float:
        """D(u) of given dual variables, repaired where an intercept asks for it; −∞ where they are infeasible.

        W and b are the answer they belong to, `primal` its objective: rounding is judged by them.
        """
        repair = self.loss.identity_repair(self.engine.n_columns)
        if self.fit_intercept:
            class_weights = self.class_weights()
            hub = self.loss.hub(class_weights)

            def balance(block: Block) -> tuple[np.ndarray]:
                sums = np.zeros((self.loss.n_sums, len(class_weights)))
                rows = U[block.first : block.first + block.X.shape[0]]
                _dual_balances(self.loss, block.targets, block.weights, rows, hub, sums)
                return (sums,)

            found = self.loss.repair(self.engine.sum(balance)[0], class_weights, hub)
            if found is None:
                return -math.inf
            repair = found

        def sums_at(scale: float) -> _DualSums:
            def step(block: Block) -> tuple[Any, ...]:
                rows = U[block.first : block.first + block.X.shape[0]]
                out = np.empty(rows.shape)
                dual = _over_rows(
                    block,
                    rows,
                    lambda a, c: _repairs(self.loss, block.targets, block.weights, rows, repair, scale, out, a, c),
                )
                return self._pulled(block, out, dual)

            dual, correlation, total, squares = self.engine.sum(step)
            return _DualSums(primal, float(dual), correlation, total, squares)

        sums = sums_at(1.0)
        slack, bound = self._rounding(W, b, sums)
        scale = self.regulariser.dual_scale(bound)
        dual = sums.dual if scale == 1.0 else sums_at(scale).dual
        return dual - slack - self.regulariser.conjugate(bound, scale)

    def primal_and_dual(self, W: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        """F(W, b) and a lower bound of the minimum; −∞ where no feasible dual point was found. W, b in float64."""
        repair = self.loss.identity_repair(self.engine.n_columns)
        if self.fit_intercept:
            found = self._balance(W, b)
            if found is None:
                return self.value(self._joined(W, b)), -math.inf
            repair = found
        sums = self._dual_sums(W, b, repair, 1.0)
        slack, bound = self._rounding(W, b, sums)
        scale = self.regulariser.dual_scale(bound)
        dual = sums.dual if scale == 1.0 else self._dual_sums(W, b, repair, scale).dual
        return sums.primal + self.regulariser.value(W), dual - slack - self.regulariser.conjugate(bound, scale)

    def _rounding(self, W: np.ndarray, b: np.ndarray, sums: _DualSums) -> tuple[float, np.ndarray]:
        """What rounding may hide: an error of the two sums, and −C moved away from zero by its own error.

        The balance Σ s u is zero only to rounding. It is taken off C as if every u had its share: C −= x̄(Σ s u)',
        so that the rest multiplies an intercept of the centred features, not one that makes up for a large mean.
        """
        means, squares = self.moments
        dual_size = np.sqrt(sums.squares)  # Σ s|x||u| is at most its product with that of x
        bound, sizes = sums.correlation, np.sqrt(squares[:, 0])
        errors = ROUNDING * sizes
        shift = sums.balance if self.fit_intercept else np.zeros(len(b))
        tasks = [
            partial(_away_from_zero, bound, means[:, 0], shift, errors, dual_size, sizes, W, *piece)
            for piece in pool.ranges(len(W), max(1, len(W) // ROUNDING_ROWS))
        ]
        spread = np.sum(pool.run(tasks, self.engine.threads), axis=0) if tasks else np.zeros((2, len(b)))
        rest = float(np.abs(shift) @ np.abs(b + spread[1]))
        slack = ROUNDING * (abs(sums.dual) + sums.primal + float((spread[0] + np.abs(b)) @ dual_size)) + rest
        return slack, bound

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ s·x and Σ s·x² of every column, (d, 1) each."""
        return self.engine.sum(
            lambda block: (rmatmul(block.X, block.weights[:, None]), column_norms(block.X, block.weights)[:, None])
        )

    def _balance(self, W: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """What makes the gradients at (W, b) a dual point that a free intercept allows."""
        class_weights = self.class_weights()
        hub = self.loss.hub(class_weights)

        def step(block: Block) -> tuple[np.ndarray]:
            sums = np.zeros((self.loss.n_sums, len(class_weights)))
            _balances(self.loss, block.targets, block.weights, scores(block, W, b), hub, sums)
            return (sums,)

        (sums,) = self.engine.sum(step)
        return self.loss.repair(sums, class_weights, hub)

    def newton_intercept(self, W: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """b after one Newton step with W held; None where that costs too much or leads nowhere."""
        k = len(b)
        if self.loss.is_direct and k * k * self.engine.shape[0] > MAX_INTERCEPT_WORK:
            return None

        def step(block: Block) -> tuple[np.ndarray, np.ndarray]:
            slope, bend = np.zeros(k), np.zeros((k, k))
            Z = scores(block, W, b)
            _intercept_curvature(self.loss, block.targets, block.weights, Z, self.loss.is_direct, slope, bend)
            return slope, bend

        slope, bend = self.engine.sum(step)
        bend[np.diag_indices(k)] += 1e-12 * np.trace(bend) + np.finfo(np.float64).tiny
        nearer = b - np.linalg.solve(bend, slope)
        return nearer if np.isfinite(nearer).all() else None

    def _dual_sums(self, W: np.ndarray, b: np.ndarray, repair: np.ndarray, scale: float) -> _DualSums:
        def step(block: Block) -> tuple[Any, ...]:
            Z = scores(block, W, b)
            U = np.empty_like(Z)
            primal = _over_rows(block, Z, lambda a, c: _values(self.loss, block.targets, block.weights, Z, a, c))
            dual = _over_rows(
                block, Z, lambda a, c: _duals(self.loss, block.targets, block.weights, Z, repair, scale, U, a, c)
            )
            return primal, *self._pulled(block, U, dual)

        primal, dual, correlation, balance, squares = self.engine.sum(step)
        return _DualSums(float(primal), float(dual), correlation, balance, squares)

    def _pulled(self, block: Block, U: np.ndarray, dual: float) -> tuple[Any, ...]:
        """What a block adds to the dual sums, for U = s·u."""
        if block.offsets is not None:
            dual += float(np.einsum("ir,ir->", U, block.offsets, dtype=np.float64))
        squares = np.einsum("ir,ir,i->r", U, U, 1.0 / np.where(block.weights > 0.0, block.weights, 1.0))
        return dual, rmatmul(block.X, U, threads=block.threads), U.sum(axis=0), squares

    def _violation(self, W: np.ndarray, b: np.ndarray) -> Certificate:
        here = self._joined(W, b)
        zero = self.start(np.float64)
        primal = self.value(here)
        found, reference = self._largest_violation(here), self._largest_violation(zero)
        return Certificate("violation", found / reference if reference > 0.0 else found, primal)

    def _largest_violation(self, theta: np.ndarray) -> float:
        _, gradient = self.loss_and_gradient(theta)
        W, _ = self.split(theta)
        largest = float(np.max(self.regulariser.violation(W, gradient[: len(W)]), initial=0.0))
        if self.fit_intercept:
            largest = max(largest, float(np.linalg.norm(gradient[-1])))
        return largest

    def _joined(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.vstack([W, b[None, :]]) if self.fit_intercept else W


def _gap_certificate(primal: float, dual: float) -> Certificate:
    return Certificate("gap", max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0, primal, dual)


def scores(block: Block, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Z = XW + b + o of a block, in the precision of W."""
    Z = matmul(block.X, W, threads=block.threads)
    Z += b
    if block.offsets is not None:
        Z += block.offsets
    return Z


def check_finite(value: float, what: str) -> None:
    """Refuse to go on from an overflow."""
    if not math.isfinite(value):
        raise DataError(f"{what} is not finite: X has NaN or values too large for its precision; scale the features")


def _over_rows(block: Block, Z: np.ndarray, task: Callable[[int, int], float]) -> float:
    """Σ of a task over chunks of the rows of Z, which are those of the block."""
    n, threads = len(Z), block.threads if Z.size >= WORTH_A_THREAD else 1
    chunks = [(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]
    parts = pool.run([partial(task, *chunk) for chunk in chunks], threads)
    return math.fsum(parts) if np.all(np.isfinite(parts)) else math.inf


@kernel
def _values(loss, targets, weights, Z, start, stop):
    work = np.empty(Z.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_value(targets.labels(i), Z[i], work)
    return total


@kernel
def _gradients(loss, targets, weights, Z, R, start, stop):
    work = np.empty(Z.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_gradient(targets.labels(i), Z[i], work, R[i])
        for r in range(Z.shape[1]):
            R[i, r] *= weights[i]
    return total


@kernel
def _curvatures(loss, targets, weights, Z, Y, R, start, stop):
    work = np.empty(Z.shape[1], np.float64)
    for i in range(start, stop):
        loss.row_curvature(targets.labels(i), Z[i], Y[i], work, R[i])
        for r in range(Z.shape[1]):
            R[i, r] *= weights[i]
    return 0.0


@kernel
def _balances(loss, targets, weights, Z, hub, sums):
    work = np.empty(Z.shape[1], np.float64)
    for i in range(Z.shape[0]):
        loss.row_balance(targets.labels(i), Z[i], weights[i], hub, work, sums)


@kernel
def _intercept_curvature(loss, targets, weights, Z, is_direct, slope, bend):
    """Σ s·∇ℓ and Σ s·∇²ℓ; of losses that treat each column alone only the diagonal, from one product."""
    k = Z.shape[1]
    work, unit, out = np.empty(k), np.ones(k), np.empty(k)
    for i in range(Z.shape[0]):
        labels = targets.labels(i)
        loss.row_gradient(labels, Z[i], work, out)
        for q in range(k):
            slope[q] += weights[i] * out[q]
        for r in range(k if is_direct else 1):
            if is_direct:
                unit[:] = 0.0
                unit[r] = 1.0
            loss.row_curvature(labels, Z[i], unit, work, out)
            for q in range(k):
                bend[q, r if is_direct else q] += weights[i] * out[q]


@kernel
def _duals(loss, targets, weights, Z, repair, scale, U, start, stop):
    """Σ −s·ℓ*(u), and s·u in U."""
    work = np.empty(Z.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_dual(targets.labels(i), Z[i], repair, scale, work, U[i])
        for r in range(Z.shape[1]):
            U[i, r] *= weights[i]
    return total


@kernel
def _away_from_zero(correlation, means, shift, errors, dual_size, sizes, W, start, stop):
    """Make −C with its mean part taken off and its error added out of C, in place; Σ ‖x_j‖|w_j| and Σ x̄_j w_j."""
    out = np.zeros((2, W.shape[1]))
    for j in range(start, stop):
        for r in range(W.shape[1]):
            value = means[j] * shift[r] - correlation[j, r]
            error = errors[j] * dual_size[r]
            correlation[j, r] = value + (error if value >= 0.0 else -error)
            out[0, r] += sizes[j] * abs(W[j, r])
            out[1, r] += means[j] * W[j, r]
    return out


@kernel
def _dual_balances(loss, targets, weights, U, hub, sums):
    work = np.empty(U.shape[1], np.float64)
    for i in range(U.shape[0]):
        loss.row_dual_balance(targets.labels(i), U[i], weights[i], hub, work, sums)


@kernel
def _repairs(loss, targets, weights, U, repair, scale, out, start, stop):
    """Σ −s·ℓ*(u) of repaired dual variables, and s·u in `out`."""
    work = np.empty(U.shape[1], np.float64)
    total = 0.0
    for i in range(start, stop):
        total += weights[i] * loss.row_dual_repair(targets.labels(i), U[i], repair, scale, work, out[i])
        for r in range(U.shape[1]):
            out[i, r] *= weights[i]
    return total


@kernel
def _label_weights(targets, weights, k):
    total = np.zeros(k, np.float64)
    for i in range(weights.shape[0]):
        labels = targets.labels(i)
        for p in range(labels.shape[0]):
            if labels[p] >= 0:
                total[labels[p]] += weights[i]
    return total
