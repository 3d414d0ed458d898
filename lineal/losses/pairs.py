"""Common part of the ranking losses, ℓ(Y, z) = Σ_{r ∈ Y, q ∉ Y} max(1 − (z_r − z_q), 0)², a sum over pairs.

Dual variables live on the pairs: a_rq = 2·max(1 − (z_r − z_q), 0) ≥ 0 sends a_rq from label r to non-label q,
u = Σ a_rq (e_q − e_r), and the dual value is Σ (a_rq − a_rq²/4). With a free intercept a dual point is feasible if the
sum over rows is zero for every class: what flows into a class flows out of it. Imbalances are moved through a reference
class: rows that have label r but not the reference move r's surplus to the reference, and rows that have the reference
but not q move q's deficit from it. Pair variables have no upper bound, so adding to them is safe.

A label may occur only together with the reference class, or the other way round. So there are a few reference classes:
a row moves surplus to the first of them that it lacks and deficit from the first that it has. The other reference
classes are then balanced through the first one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.losses.base import Loss

#: Number of reference classes: each further one serves labels that always occur together with all those before it.
N_REFERENCES = 4


class PairLoss(Loss):
    """Base of the pairwise squared hinge losses. The labels of a row are sorted."""

    __slots__ = ()
    is_direct: ClassVar[bool] = True
    takes_dual_points: ClassVar[bool] = False
    n_sums: ClassVar[int] = 1 + 2 * N_REFERENCES

    def mask_labels(self, labels, z, work):
        """Write the scores of the non-labels to `work`, and −∞ for the labels: no pair with them is active."""
        for r in range(z.shape[0]):
            work[r] = wide(z[r])
        for p in range(labels.shape[0]):
            work[labels[p]] = -np.inf

    def row_value(self, labels, z, work):
        """Loss of one row, in O(labels × columns)."""
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

    def row_balance(self, labels, u, weight, references, work, sums):
        """Add the weighted net inflow of each class, and the weight of the rows that can move
        something to and from each reference class."""
        for q in range(u.shape[0]):
            sums[0, q] += weight * wide(u[q])
        mark_absent(labels, work)
        to, origin = first_with(references, work, 1.0), first_with(references, work, 0.0)
        for r in range(u.shape[0]):
            here = to if work[r] == 0.0 else origin
            if here < references.shape[0] and (here == 0 or not is_among(references, r)):
                sums[1 + here + (0 if work[r] == 0.0 else N_REFERENCES), r] += weight

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write scale times the repaired dual point to `u`; returns ℓ(z) and the dual value of its pair variables.

        Pair variables are scale·2·max(1 − z_r + z_q, 0), so that without the reference classes the dual value is
        2·scale·Σ max(…) − scale²·ℓ; the pairs with a reference class are then corrected one by one.
        """
        value = self.row_gradient(labels, z, work, u)
        mark_absent(labels, work)
        flow = 0.0
        for q in range(z.shape[0]):
            flow += work[q] * wide(u[q])
            u[q] *= scale
        total = scale * flow - scale * scale * value
        references = repair[2, : min(N_REFERENCES, z.shape[0])].astype(np.int64)
        to, origin = first_with(references, work, 1.0), first_with(references, work, 0.0)
        for r in range(z.shape[0]):
            is_label = work[r] == 0.0
            place, amount = (to, repair[0, r]) if is_label else (origin, repair[1, r])
            if amount > 0.0 and place < references.shape[0] and (place == 0 or not is_among(references, r)):
                source, sink = (r, references[place]) if is_label else (references[place], r)
                total += carried(z, source, sink, amount, scale, u)
        return value, total

    def reference_classes(self, class_weights: np.ndarray) -> np.ndarray:
        """Classes that split the rows most evenly, because they can balance most other classes."""
        k = len(class_weights)
        return np.argsort(-class_weights * (1.0 - class_weights), kind="stable")[: min(N_REFERENCES, k)]

    def identity_repair(self, k: int) -> np.ndarray:
        """Repair that changes nothing."""
        return np.zeros((3, k))

    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Amount per row that goes to (row 0) and comes from (row 1) the reference classes (row 2), for every class.

        None if no row can move what must be moved. The reference classes after the first come last: what they
        received goes on to the first one, and what they gave comes from it.
        """
        n_references = len(references)
        net, to, origin = sums[0].copy(), sums[1 : 1 + n_references], sums[1 + N_REFERENCES :][:n_references]
        repair = self.identity_repair(len(net))
        repair[2, :n_references] = references
        for part in (np.setdiff1d(np.arange(len(net)), references), references[1:]):
            left = net[part]
            for row, amounts, carriers in ((0, left, to[:, part]), (1, -left, origin[:, part])):
                amounts, weights = np.maximum(amounts, 0.0), carriers.sum(axis=0)
                if np.any((amounts > 0.0) & (weights <= 0.0)):
                    return None
                repair[row, part] = amounts / np.where(amounts > 0.0, weights, 1.0)
                net[references] += (1.0 - 2.0 * row) * (carriers @ repair[row, part])
        return repair

    def typical_curvature(self, k: int) -> float:
        """Mean of the diagonal at the start: every pair is active, and the label is in k − 1 of them."""
        return 4.0 * (k - 1) / k

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Intercept of zeros."""
        return np.zeros(len(class_weights))

    def lipschitz(self, k: int) -> float | None:
        """Lipschitz constant 2k, reached if every pair is active."""
        return 2.0 * k

    def pairwise_lipschitz(self, k: int) -> float | None:
        """Looser constant 4(k − 1), which bounds every pair separately, for one label per row."""
        return 4.0 * (k - 1)


@kernel
def mark_absent(labels, work):
    """Write zero for labels and one for all other columns."""
    for q in range(work.shape[0]):
        work[q] = 1.0
    for p in range(labels.shape[0]):
        work[labels[p]] = 0.0


@kernel
def first_with(references, absent, mark):
    """Position of the first reference class that a row lacks (mark 1) or has (mark 0); their number if none."""
    for j in range(references.shape[0]):
        if absent[references[j]] == mark:
            return j
    return references.shape[0]


@kernel
def is_among(references, column):
    """Whether the column is a reference class."""
    found = False
    for j in range(references.shape[0]):
        found |= references[j] == column
    return found


@kernel
def carried(z, r, q, amount, scale, u):
    """Move an amount from label r to non-label q in `u`; returns by how much the dual value changes."""
    a = scale * 2.0 * max(1.0 - wide(z[r]) + wide(z[q]), 0.0)
    more = scale * amount
    u[q] += more
    u[r] -= more
    return more - 0.25 * (more * more + 2.0 * a * more)
