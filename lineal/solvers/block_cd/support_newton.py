"""Newton steps on the weights that are not zero, where the objective with a sparse penalty is smooth.

    H p = −∇F,   H = X_S' D X_S + ∇²(αΩ)(W_S)

S are the features in use. Once coordinate descent has found them, its updates become small, because features that occur
together undo each other's updates. A Newton step changes all of S at once: truncated conjugate gradients give the
direction, and a line search the step size. Only coordinate descent adds features to S and removes them.

Memory: X_S by rows, four matrices of the size of W_S, and n·k numbers for X_S·p.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.numerics.cg import System, truncated_cg
from lineal.numerics.vectors import total_dot
from lineal.solvers.block_cd.chosen_features import ChosenFeatures

#: Relative residual of a direction, and maximum of products with the Hessian. More exact directions do not pay, since
#: the set of non-zero groups still changes.
FORCING, MAX_PRODUCTS = 0.3, 20

#: Trials of the line search, and further trials that begin where the first weight becomes zero.
MAX_TRIALS, MAX_FURTHER_TRIALS = 12, 6

#: Required fraction of the decrease that the gradient predicts.
DECREASE = 1e-4


class SupportNewton(ChosenFeatures):
    """Newton steps on features whose groups are not zero."""

    def run(self, max_steps: int, goal: float) -> np.ndarray:
        """Do Newton steps until the norm of the gradient is at most `goal`; returns the rows `chosen` of θ."""
        value, unit = self.value(0.0, self.theta), self.part.unit
        for _ in range(max_steps):
            W = np.ascontiguousarray(self.theta[: self.d])
            if self.regulariser.zero_groups(W).any():  # after the last step the objective is not smooth
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
            derivative = float(total_dot(gradient, p)[0])
            step_sizes = self._step_sizes(p) if derivative < 0.0 else ()
            new_value = self.search(p, DECREASE * derivative, value, step_sizes)
            if new_value is None:
                break
            value = new_value
        return self.solution()

    def _direction(self, W: np.ndarray, free: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Approximate Newton direction of the free weights."""
        rows, d = self.rows, self.d
        squares = self.part.moments[1][:, 0]
        squares = np.append(squares, 1.0) if self.part.fit_intercept else squares
        diagonal = np.outer(squares, rows.mean_curvature(0))
        diagonal[:d] += self.regulariser.typical_curvatures(W)[:, None]
        if not diagonal.any():  # neither the loss nor the penalty has curvature
            return np.zeros_like(gradient)
        units = np.where(squares > 0.0, squares, 1.0)[:, None]
        least = 1e-12 * units * float((diagonal / units).max())  # in the units of the features
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

    def _step_sizes(self, p: np.ndarray) -> list[float]:
        """Step sizes to try: 1, ½, ¼, …, and then smaller ones from where the first weight becomes zero.

        If the loss has little curvature along p, as direct losses and few rows have, p is long. The objective then
        decreases only until a weight changes its sign or the loss of another row becomes positive, after a short way.
        """
        step_sizes = [0.5**halvings for halvings in range(MAX_TRIALS)]
        if self.regulariser.penalty.frees_all:
            return step_sizes
        W, V = self.theta[: self.d].astype(np.float64), p[: self.d].astype(np.float64)
        shrinks = W * V < 0.0
        nearest = float(np.min(-W[shrinks] / V[shrinks], initial=math.inf))
        if nearest >= step_sizes[-1]:
            return step_sizes
        return [*step_sizes, *(nearest * 0.5**halvings for halvings in range(MAX_FURTHER_TRIALS))]


def _whole(keep: np.ndarray) -> Any:
    """Raise an error: a single system is never reduced to some of its columns."""
    raise AssertionError("a single system cannot be reduced to some of its columns")
