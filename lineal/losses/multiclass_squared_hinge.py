"""Multi-class squared hinge, ℓ(y, z) = Σ_{r ≠ y} max(1 − (z_y − z_r), 0)².

Eq. 2 of Blondel, Seki & Uehara, "Block coordinate descent algorithms for large-scale sparse multiclass
classification" (2013).
"""

from __future__ import annotations

import math
from typing import ClassVar

from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.pairs import PairLoss


@protocol
class MulticlassSquaredHinge(PairLoss, Fieldless):
    """With one label the pair variables are the entries of u: ℓ*(u) = Σ_{r ≠ y} (u_r²/4 − u_r), u_r ≥ 0, Σu = 0."""

    __slots__ = ()
    name: ClassVar[str] = "multiclass_squared_hinge"
    takes_label_sets: ClassVar[bool] = False
    has_conjugate: ClassVar[bool] = True

    def row_conjugate(self, labels, u, work):
        """ℓ*(u), infinite outside of its domain."""
        total = 0.0
        value = 0.0
        size = 0.0
        for r in range(u.shape[0]):
            a = wide(u[r])
            total += a
            size += abs(a)
            if r != labels[0]:
                if a < 0.0:
                    return math.inf
                value += 0.25 * a * a - a
        return value if abs(total) <= 1e-5 * size else math.inf


LOSS = MulticlassSquaredHinge()
