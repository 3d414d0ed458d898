"""Crammer–Singer loss, ℓ(y, z) = max_r (1 − [r = y] + z_r) − z_y: the direct multi-class hinge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.simplex import SimplexLoss


@protocol
class CrammerSinger(SimplexLoss, Fieldless):
    """ℓ*(u) = −(1 − p_y) for p = u + e_y in the simplex. Not smooth: a subgradient puts all of p on one worst class."""

    __slots__ = ()
    name: ClassVar[str] = "crammer_singer"
    is_smooth: ClassVar[bool] = False

    def row_choice(self, labels, z, p):
        """Write the indicator of the first worst class (the label itself in a tie with it) and return the loss."""
        y = labels[0]
        worst = y
        top = wide(z[y])
        for r in range(z.shape[0]):
            p[r] = 0.0
            if r != y and 1.0 + wide(z[r]) > top:
                top = 1.0 + wide(z[r])
                worst = r
        p[worst] = 1.0
        return top - wide(z[y])

    def row_curvature(self, labels, z, v, work, out):
        """Zero wherever it exists."""
        for r in range(z.shape[0]):
            out[r] = 0.0

    def conjugate_term(self, u, is_label):
        """−p of every class but the label."""
        return 0.0 if is_label else -u

    def lipschitz(self, k: int) -> float | None:
        """The gradient jumps: there is none."""
        return None

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Zeros."""
        return np.zeros(len(class_weights))


LOSS = CrammerSinger()
