"""Dual points from a Newton direction, which give far better bounds than gradients where the penalty is weak.

With u = ∇ℓ(z), the duality gap has the term ‖∇_W F‖²/(2α), which is large for a small α unless the gradient is tiny.
Let D be a direction, and y the change of the scores along it. The point

    u' = ∇ℓ(z) + ∇²ℓ(z)·y

belongs to the gradient of the quadratic model at W + D: αF(W + D) + X'Su' = ∇F + ∇²F·D, the residual of the Newton
system, however far from quadratic the loss is. The rest of the gap at W + D is the Fenchel–Young residual of u' and
z + y, of the fourth order in y. Where u' is outside the domain of the
conjugate, the loss moves it there if it can, otherwise ∇ℓ(z + y) takes its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.design.products import matmul
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.problem import row_sums

_U = np.uintp


def serves(loss: Any) -> bool:
    """Whether certificates take dual points of this loss."""
    return bool(loss.takes_dual_points and loss.has_conjugate)


@dataclass(frozen=True)
class NewtonDuals:
    """Rebuild dual points, in float64, from parameters (W, b) and a direction (V, v)."""

    loss: Any

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray, V: np.ndarray, v: np.ndarray) -> Piece:
        Z = row_sums.scores(block, W, b, np.float64)
        Y = matmul(block.X, V, threads=block.threads, dtype=np.float64)
        Y += v
        bounds = [
            (start, min(start + row_sums.RANGE_ROWS, block.n)) for start in range(0, block.n, row_sums.RANGE_ROWS)
        ]
        given = (self.loss, block.targets, self.loss.identity_repair(Z.shape[1]), Z, Y)
        pool.run([partial(_duals, *given, *bound) for bound in bounds], block.threads)
        return {"rows": Y}


@kernel
def _duals(loss, targets, unchanged, Z, Y, start, stop):
    """Replace the changes Y of the scores Z of some rows by dual points."""
    k = Z.shape[1]
    work, curved, u = np.empty(k), np.empty(k), np.empty(k)
    for i in range(_U(start), _U(stop)):
        labels = targets.labels(i)
        for attempt in range(2):
            loss.row_gradient(labels, Z[i], work, u)
            if attempt == 0:
                loss.row_curvature(labels, Z[i], Y[i], work, curved)
                for r in range(k):
                    u[r] += curved[r]
                if loss.row_dual_repair(labels, u, unchanged, 1.0, work, u) > -math.inf:
                    break
                for r in range(k):
                    Z[i, r] += Y[i, r]
        for r in range(k):
            Y[i, r] = u[r]
