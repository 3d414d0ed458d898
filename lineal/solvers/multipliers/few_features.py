"""Method of multipliers for few features: the penalty is smoothed as well, and Newton's method does the rest.

    W, b ← argmin  Σ_i s_i ℓ_μ(z_i + μu_i) + E(W),    u_i ← ∇ℓ_μ(z_i + μu_i),    y ← ∇E(W)

E is the Moreau envelope of the penalty around y (`smoothed_penalty.py`), and y are multipliers of W = V, where V is the
answer. All steps are solutions of dense linear systems, so the units of the features and the correlations between them
hardly matter, and the minimum of a smooth problem, which is piecewise quadratic for most penalties, is found exactly
after a few steps.

Memory: X in float64 with its zeros, and matrices of (d·k)² numbers; all columns are centred and scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from lineal.design.odd_columns import is_constant
from lineal.design.products import matmul
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.problem import row_sums
from lineal.problem.loop_state import LoopState
from lineal.problem.objective import Objective
from lineal.solvers.multipliers.smoothed_penalty import SmoothedPenalty, by_feature, has_hessian

#: Largest number of parameters, of entries of X with its zeros, and of products for a Hessian.
MAX_PARAMETERS, MAX_ENTRIES, MAX_PRODUCTS = 1000, 1 << 24, 1e9

#: Largest width of a smoothed penalty, in the units of the scaled columns.
MAX_WIDTH = 1e8

#: Newton steps per smooth problem, and fraction of the first gradient at which it is solved.
MAX_STEPS, SOLVED = 200, 1e-13

#: Smallest ridge of a Newton system, relative to its diagonal, and the ridge relative to the gradient.
LEAST_RIDGE, RIDGE = 1e-14, 1e-4

#: The line search ends where the derivative is this fraction of the first one; and its largest number of trials.
FLAT, MAX_TRIALS = 0.1, 60


def is_worthwhile(objective: Objective, engine: LocalEngine) -> bool:
    """Whether the Hessian of all parameters costs little."""
    (n, d), k = engine.shape, engine.n_columns
    if not has_hessian(objective.regulariser):
        return False
    products = n * (d + 1.0) ** 2 * (k * k if objective.loss.is_direct else k)
    return (d + 1) * k <= MAX_PARAMETERS and n * d <= MAX_ENTRIES and products <= MAX_PRODUCTS


class FewFeatures(LoopState):
    """The rows with centred and scaled columns, and Newton's method on smooth problems.

    The state is the last point, which has the weights and the intercept of these columns, and the multipliers y.
    """

    state_names = ("point", "multipliers")

    def __init__(
        self, objective: Objective, engine: LocalEngine, smoothed: Callable[[float, float], Any], theta: np.ndarray
    ) -> None:
        self.objective, self.engine, self.smoothed = objective, engine, smoothed
        (n, d), k = engine.shape, engine.n_columns
        self.d, self.k = d, k
        X = matmul(engine.X, np.eye(d), dtype=np.float64)
        s = engine.weights
        self.means = s @ X if objective.fit_intercept else np.zeros(d)
        squares = s @ X**2
        X -= self.means
        variances = s @ X**2
        if objective.fit_intercept:
            X[:, is_constant(variances, self.means, from_moments=False)] = 0.0
            variances[is_constant(variances, self.means, from_moments=False)] = 0.0
        own = np.sqrt(np.where(variances > 0.0, variances, np.where(squares > 0.0, squares, 1.0)))
        regulariser, largest = objective.regulariser, own
        if regulariser.groups.features.size:
            largest = np.maximum.reduceat(own[regulariser.groups.features], regulariser.groups.offsets[:-1])
        # A penalty treats the features of a group alike, so they have one unit. Those without a penalty have their own.
        shared, strengths = by_feature(regulariser, largest), by_feature(regulariser, regulariser.strengths)
        self.scales = np.where(strengths > 0.0, shared, own)
        X /= self.scales
        self.A = np.hstack([X, np.ones((n, 1))]) if objective.fit_intercept else X
        self.block = Block(engine.X, engine.targets, s, None, 1)
        # Smoothing changes weights by about the width times the strength, which should be neither much more than their
        # unit nor lost in rounding.
        ratio = largest / np.maximum(regulariser.strengths, 1e-300)
        self.unit_widths = np.clip(ratio, 1.0, MAX_WIDTH) / largest**2
        self.point, self.multipliers = self.inside(theta), np.zeros((d, k))

    def improve(
        self, dual: np.ndarray, width: float, must_end: Callable[[], str | None]
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Solve the smooth problem around dual variables; returns parameters, the new dual variables and the status."""
        loss, offsets = self.smoothed(width, 0.0), width * dual
        if self.engine.offsets is not None:
            offsets += self.engine.offsets
        penalty = SmoothedPenalty(self.objective.regulariser, width * self.unit_widths, self.multipliers)
        point, cut = self.minimise(loss, offsets, penalty, self.point, must_end)
        V, multipliers = penalty.point(self.weights(point))
        Z = self.A @ point + offsets
        U = np.empty_like(Z)
        row_sums.gradients(loss, self.block, np.ones(self.block.n), Z, U)
        if cut is None:
            self.point, self.multipliers = point, multipliers
        return self.outside(V, point), U, cut or "converged"

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """θ in the units of the scaled columns."""
        out = theta.astype(np.float64)
        if self.objective.fit_intercept:
            out[-1] += self.means @ out[: self.d]
        out[: self.d] *= self.scales[:, None]
        return out

    def outside(self, V: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Weights V with the intercept of a point, as θ."""
        out = np.empty(self.objective.shape)
        out[: self.d] = V
        if self.objective.fit_intercept:
            out[-1] = point[-1] - self.means @ V
        return out.astype(self.engine.dtype)

    def weights(self, point: np.ndarray) -> np.ndarray:
        """W of a point, in the units of the rows."""
        return np.ascontiguousarray(point[: self.d] / self.scales[:, None])

    def minimise(
        self, loss: Any, offsets: np.ndarray, penalty: SmoothedPenalty, point: np.ndarray,
        must_end: Callable[[], str | None],
    ) -> tuple[np.ndarray, str | None]:  # fmt: skip
        """Newton's method from a point; returns the last point, and the status of a fit that must end before that."""
        Z = self.A @ point + offsets
        gradient = self._gradient(loss, penalty, Z, point)
        first = 0.0
        for _ in range(MAX_STEPS):
            size = float(np.abs(gradient).max(initial=0.0))
            first = max(first, size)
            if not 0.0 < size < math.inf or size <= SOLVED * first:
                break
            cut = must_end()
            if cut is not None:
                return point, cut
            P = self._direction(loss, penalty, Z, point, gradient, size)
            step = self._search(loss, penalty, point, Z, P, float(np.vdot(gradient, P)))
            if step == 0.0:
                break
            point = point + step * P
            Z = self.A @ point + offsets
            gradient = self._gradient(loss, penalty, Z, point)
        return point, None

    def _gradient(self, loss: Any, penalty: SmoothedPenalty, Z: np.ndarray, point: np.ndarray) -> np.ndarray:
        R = np.empty_like(Z)
        row_sums.gradients(loss, self.block, self.block.weights, Z, R)
        gradient = self.A.T @ R
        gradient[: self.d] += penalty.point(self.weights(point))[1] / self.scales[:, None]
        return gradient

    def _direction(
        self, loss: Any, penalty: SmoothedPenalty, Z: np.ndarray, point: np.ndarray, gradient: np.ndarray, size: float
    ) -> np.ndarray:
        """Newton direction, with a ridge that vanishes with the gradient."""
        H = self._hessian(loss, penalty, Z, point)
        diagonal = np.einsum("ii->i", H)
        ridge = RIDGE * min(size, 1.0) + 1e-300
        g = gradient.ravel()
        scale = 1.0 / np.sqrt(diagonal + ridge)
        H *= scale[:, None] * scale
        for tries in range(40):
            np.einsum("ii->i", H)[:] += ridge * scale**2 + LEAST_RIDGE if tries == 0 else LEAST_RIDGE * 10.0**tries
            try:
                factor = linalg.cho_factor(H, lower=True, check_finite=False)
            except linalg.LinAlgError:
                continue
            P = -scale * linalg.cho_solve(factor, scale * g, check_finite=False)
            if np.isfinite(P).all() and P @ g < 0.0:
                return P.reshape(gradient.shape)
        return -gradient

    def _hessian(self, loss: Any, penalty: SmoothedPenalty, Z: np.ndarray, point: np.ndarray) -> np.ndarray:
        A, k, m = self.A, self.k, len(point)
        H = np.zeros((m, k, m, k))
        for q in range(k if loss.is_direct else 1):
            D = np.zeros_like(Z)
            if loss.is_direct:
                D[:, q] = 1.0
            else:
                D[:] = 1.0
            row_sums.curvatures(loss, self.block, Z, D)
            for r in range(k):
                used = np.flatnonzero(D[:, r])
                if len(used):
                    H[:, r, :, q if loss.is_direct else r] = A[used].T @ (D[used, r][:, None] * A[used])
        matrix = H.reshape(m * k, m * k)
        flat = self.scales.repeat(k)
        for where, matrices in penalty.hessians(self.weights(point)):
            units = flat[where]
            matrix[where[:, :, None], where[:, None, :]] += matrices / (units[:, :, None] * units[:, None, :])
        return matrix

    def _search(
        self, loss: Any, penalty: SmoothedPenalty, point: np.ndarray, Z: np.ndarray, P: np.ndarray, first: float
    ) -> float:
        """Step size at which the derivative of the convex objective along P is nearly zero."""
        if not first < 0.0:
            return 0.0
        Y, R = self.A @ P, np.empty_like(Z)
        W, V = self.weights(point), self.weights(P)

        def derivative(t: float) -> float:
            row_sums.gradients(loss, self.block, self.block.weights, Z + t * Y, R)
            return float(np.vdot(R, Y)) + float(np.vdot(penalty.point(W + t * V)[1], V))

        low, high, at_low, at_high = 0.0, math.inf, first, math.inf
        t = 1.0
        for trial in range(MAX_TRIALS):
            slope = derivative(t)
            if abs(slope) <= FLAT * abs(first):
                return t
            if slope < 0.0:
                low, at_low = t, slope
            else:
                high, at_high = t, slope
            if high == math.inf:
                t *= 4.0
            elif trial % 2 and math.isfinite(at_high):
                share = min(max(at_low / (at_low - at_high), 0.05), 0.95)
                t = low + share * (high - low)
            elif low == 0.0:
                t = 0.03 * high
            else:
                t = math.sqrt(low * high)
        return low
