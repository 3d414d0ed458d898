"""Newton steps on the weights that are not zero, where the objective with a sparse penalty is smooth.

    H p = −∇F,   H = X_S' D X_S + ∇²(αΩ)(W_S)

S are the features in use. Once coordinate descent has found them, its steps become small: features that occur together
hold each other back. Here all of S moves at once, along a direction from truncated conjugate gradients, as far as a
search along it allows. Features enter and leave by coordinate descent alone.

Memory: X_S by rows, four matrices of the size of W_S, and n·k numbers of X_S·p.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.numerics.cg import System, total_dot, truncated_cg
from lineal.solvers.block_cd.chosen_features import ChosenFeatures

#: Relative residual of a direction, and products with the Hessian that it may cost: blocks come and go, and what is
#: exact for the ones of today is not worth much more.
FORCING, MAX_PRODUCTS = 0.3, 20

#: Halvings of a step, and of one that ends where a weight becomes zero.
MAX_HALVINGS, MAX_MORE = 12, 6

#: Share of the decrease that the slope promises, which a step must bring.
DECREASE = 1e-4


class SupportNewton(ChosenFeatures):
    """Steps on features none of whose blocks is zero."""

    def run(self, steps: int, goal: float) -> np.ndarray:
        """Newton steps until the gradient's norm is at most `goal`; returns the rows of θ for `chosen`."""
        value, unit = self.value(0.0, self.theta), self.part.unit
        for _ in range(steps):
            W = np.ascontiguousarray(self.theta[: self.d])
            if self.regulariser.zero_groups(W).any():  # the last step ended there, and nothing is smooth any more
                break
            free = self.regulariser.free_weights(W)
            gradient = self.rows.gradient()
            gradient[: self.d] += self.regulariser.free_gradient(W)
            gradient[: self.d] *= free
            measured = gradient.astype(np.float64)
            measured[self.d :] *= unit
            if float(np.vdot(measured, measured)) <= goal**2:
                break
            p = self._direction(W, free, gradient)
            slope = float(total_dot(gradient, p)[0])
            found = self.search(p, DECREASE * slope, value, self._lengths(p) if slope < 0.0 else ())
            if found is None:
                break
            value = found
        return self.answer()

    def _direction(self, W: np.ndarray, free: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        rows, d = self.rows, self.d
        squares = self.part.moments[1][:, 0]
        squares = np.append(squares, 1.0) if self.part.fit_intercept else squares
        diagonal = np.outer(squares, rows.mean_curvature(0))
        diagonal[:d] += self.regulariser.typical_curvatures(W)[:, None]
        if not diagonal.any():  # no row counts, and nothing else bends
            return np.zeros_like(gradient)
        units = np.where(squares > 0.0, squares, 1.0)[:, None]
        least = 1e-12 * units * float((diagonal / units).max())  # whatever the units of the features are
        inverse = (1.0 / np.maximum(diagonal, least)).astype(gradient.dtype)

        def product(V: np.ndarray) -> np.ndarray:
            out = rows.product(V)
            out[:d] += self.regulariser.free_curvature(W, np.ascontiguousarray(V[:d]))
            out[:d] *= free
            return out

        system = System(product, lambda r: r * inverse, _whole)
        step = truncated_cg(
            system, gradient, total_dot, np.array([FORCING]), np.array([math.inf]), most=MAX_PRODUCTS
        )  # fmt: skip
        return step.direction

    def _lengths(self, p: np.ndarray) -> list[float]:
        """Lengths to try: halved, and at last from the one on at which the first weight becomes zero.

        Where the loss is flat along p, as it is for direct losses and for few rows, p is long, and what ends the fall
        are weights that change their sign and rows that begin to count: that may be near.
        """
        lengths = [0.5**halvings for halvings in range(MAX_HALVINGS)]
        if self.regulariser.penalty.frees_all:
            return lengths
        W, V = self.theta[: self.d].astype(np.float64), p[: self.d].astype(np.float64)
        falls = W * V < 0.0
        nearest = float(np.min(-W[falls] / V[falls], initial=math.inf))
        return [*lengths, *(nearest * 0.5**halvings for halvings in range(MAX_MORE) if nearest < lengths[-1])]


def _whole(keep: np.ndarray) -> Any:
    raise AssertionError("one system is never cut")
