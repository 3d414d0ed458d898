"""What the ranking losses share: ℓ(Y, z) = Σ_{r ∈ Y, q ∉ Y} max(1 − (z_r − z_q), 0)², a sum over pairs.

Dual variables live on the pairs: a_rq = 2·max(1 − (z_r − z_q), 0) ≥ 0 sends a_rq from label r to non-label q,
u = Σ a_rq (e_q − e_r), and the dual value is Σ (a_rq − a_rq²/4). Balance with a free intercept means that what flows
into a class flows out of it. A hub class mends the rest: rows that have r but not the hub carry r's surplus to the hub,
rows that have the hub but not q carry q's deficit from it. Pair variables have no upper bound, so adding is safe.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.maths import wide


class PairLoss:
    """Mixin of the pairwise squared hinge losses. Labels of a row are sorted."""

    __slots__ = ()

    is_smooth: ClassVar[bool] = True
    is_direct: ClassVar[bool] = True
    n_sums: ClassVar[int] = 3
    link: ClassVar[str | None] = None

    def mask_labels(self, labels, z, work):
        """Scores of the non-labels; those of the labels so low that no pair with them is active."""
        for r in range(z.shape[0]):
            work[r] = wide(z[r])
        for p in range(labels.shape[0]):
            work[labels[p]] = -np.inf

    def row_value(self, labels, z, work):
        """Loss of one row, O(labels × columns)."""
        self.mask_labels(labels, z, work)
        total = 0.0
        for p in range(labels.shape[0]):
            short = 1.0 - wide(z[labels[p]])
            for q in range(z.shape[0]):
                gap = max(short + work[q], 0.0)
                total += gap * gap
        return total

    def row_gradient(self, labels, z, work, gradient):
        """Write u = Σ 2·max(1 − z_r + z_q, 0)(e_q − e_r) and return the loss of the row."""
        self.mask_labels(labels, z, work)
        total = 0.0
        for q in range(z.shape[0]):
            gradient[q] = 0.0
        for p in range(labels.shape[0]):
            short = 1.0 - wide(z[labels[p]])
            out = 0.0
            for q in range(z.shape[0]):
                gap = max(short + work[q], 0.0)
                gradient[q] += 2.0 * gap
                out += gap
                total += gap * gap
            gradient[labels[p]] = -2.0 * out
        return total

    def slopes_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        work = np.empty(k)
        self.row_gradient(labels, Z[at : at + k], work, R[at : at + k])
        for r in range(k):
            R[at + r] *= weight

    def row_curvature(self, labels, z, v, work, out):
        """Generalised Hessian times v: Σ over active pairs of 2(v_q − v_r)(e_q − e_r)."""
        self.mask_labels(labels, z, work)
        for q in range(z.shape[0]):
            out[q] = 0.0
        for p in range(labels.shape[0]):
            r = labels[p]
            short = 1.0 - wide(z[r])
            for q in range(z.shape[0]):
                if short + work[q] > 0.0:
                    flow = 2.0 * (wide(v[q]) - wide(v[r]))
                    out[q] += flow
                    out[r] -= flow

    def row_balance(self, labels, u, weight, hub, work, sums):
        """Add the weighted net inflow u of each class, and the weight of rows that can carry to and from the hub."""
        for q in range(u.shape[0]):
            work[q] = 1.0
            sums[0, q] += weight * wide(u[q])
        for p in range(labels.shape[0]):
            work[labels[p]] = 0.0
        if work[hub] == 0.0:
            for q in range(u.shape[0]):
                sums[2, q] += weight * work[q]
        else:
            for p in range(labels.shape[0]):
                sums[1, labels[p]] += weight

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write the mended dual point of the row to `u`; returns ℓ(z) and its pair-variable dual value."""
        self.mask_labels(labels, z, work)
        hub = int(repair[2, 0])
        hub_is_label = work[hub] == -np.inf
        value, total = 0.0, 0.0
        for q in range(z.shape[0]):
            u[q] = 0.0
        for p in range(labels.shape[0]):
            r = labels[p]
            short = 1.0 - wide(z[r])
            out = 0.0
            for q in range(z.shape[0]):
                a = 2.0 * max(short + work[q], 0.0)
                value += 0.25 * a * a
                if hub_is_label:
                    if r == hub and work[q] != -np.inf:
                        a += repair[1, q]
                elif q == hub:
                    a += repair[0, r]
                a *= scale
                u[q] += a
                out += a
                total += a - 0.25 * a * a
            u[r] = -out
        return value, total

    def hub(self, class_weights: np.ndarray) -> int:
        """The class that splits the rows most evenly, so that it can carry for most others."""
        return int(np.argmax(class_weights * (1.0 - class_weights)))

    def identity_repair(self, k: int) -> np.ndarray:
        """Nothing carried."""
        return np.zeros((3, k))

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, hub: int) -> np.ndarray | None:
        """Amounts carried to (row 0) and from (row 1) the hub (row 2); None where no row can carry one."""
        net, to_hub, from_hub = sums
        surplus, deficit = np.maximum(net, 0.0), np.maximum(-net, 0.0)
        surplus[hub] = deficit[hub] = 0.0
        if np.any((surplus > 0) & (to_hub <= 0)) or np.any((deficit > 0) & (from_hub <= 0)):
            return None
        tiny = np.finfo(np.float64).tiny
        return np.stack(
            [surplus / np.maximum(to_hub, tiny), deficit / np.maximum(from_hub, tiny), np.full_like(net, hub)]
        )

    def typical_curvature(self, k: int) -> float:
        """Mean of the diagonal at the start: every pair is active, labels are in all of theirs."""
        return 4.0 * (k - 1) / k

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Zeros."""
        return np.zeros(len(class_weights))

    def lipschitz(self, k: int) -> float | None:
        """Of the gradient of a row in its scores: 2k, reached when every pair is active."""
        return 2.0 * k

    def pairwise_lipschitz(self, k: int) -> float:
        """The same with every pair bounded by itself, for one label a row: 4(k − 1)."""
        return 4.0 * (k - 1)
