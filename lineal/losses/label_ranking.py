"""Label ranking, ℓ(Y, z) = Σ_{r ∈ Y, q ∉ Y} max(1 − (z_r − z_q), 0)²: every label above every non-label.

The multi-label extension (section 4.7) of the multi-class squared hinge; the same with one label a row.

With the floors f_r = z_r − 1 of the labels in ascending order, the labels that non-label q is too close to are the
first t_q of them, f_r < z_q, found by bisection. What q adds to the loss and to its own gradient follows from the mean
and the squares of the first t floors, and what a label loses from sums over the non-labels with larger t: O(k log m) a
row with m labels and k columns, instead of O(m·k).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.pairs import PairLoss


@protocol
class LabelRanking(PairLoss, Fieldless):
    """Several pair variables give the same u, so there is no cheap conjugate: dual values come from the pairs."""

    __slots__ = ()
    name: ClassVar[str] = "label_ranking"
    takes_label_sets: ClassVar[bool] = True
    has_conjugate: ClassVar[bool] = False

    def row_value(self, labels, z, work):
        """Loss of one row."""
        _, floors, means, spreads = sorted_floors(labels, z)
        mark_labels(labels, work)
        total = 0.0
        for q in range(z.shape[0]):
            if work[q] == 0.0:
                t = count_below(floors, wide(z[q]))
                above = wide(z[q]) - means[t]
                total += spreads[t] + t * above * above
        return total

    def row_gradient(self, labels, z, work, gradient):
        """Write u = Σ 2·max(1 − z_r + z_q, 0)(e_q − e_r) and return the loss of the row."""
        who, floors, means, spreads = sorted_floors(labels, z)
        mark_labels(labels, work)
        m = labels.shape[0]
        numbers, scores = np.zeros(m + 1), np.zeros(m + 1)
        total, lowest = 0.0, means[0]  # scores are seen from the lowest floor: a large common score hides differences
        for q in range(z.shape[0]):
            if work[q] == 0.0:
                t = count_below(floors, wide(z[q]))
                above = wide(z[q]) - means[t]
                total += spreads[t] + t * above * above
                numbers[t] += 1.0
                scores[t] += wide(z[q]) - lowest
                gradient[q] = 2.0 * t * above
        count, sum_ = 0.0, 0.0
        for s in range(m - 1, -1, -1):
            count += numbers[s + 1]
            sum_ += scores[s + 1]
            gradient[who[s]] = 2.0 * ((floors[s] - lowest) * count - sum_)
        return total

    def row_curvature(self, labels, z, v, work, out):
        """Generalised Hessian times v: Σ over active pairs of 2(v_q − v_r)(e_q − e_r)."""
        who, floors, _, _ = sorted_floors(labels, z)
        mark_labels(labels, work)
        m = labels.shape[0]
        ahead = np.zeros(m + 1)
        for s in range(m):
            ahead[s + 1] = ahead[s] + wide(v[who[s]])
        numbers, pulls = np.zeros(m + 1), np.zeros(m + 1)
        for q in range(z.shape[0]):
            if work[q] == 0.0:
                t = count_below(floors, wide(z[q]))
                out[q] = 2.0 * (t * wide(v[q]) - ahead[t])
                numbers[t] += 1.0
                pulls[t] += wide(v[q])
        count, sum_ = 0.0, 0.0
        for s in range(m - 1, -1, -1):
            count += numbers[s + 1]
            sum_ += pulls[s + 1]
            out[who[s]] = 2.0 * (wide(v[who[s]]) * count - sum_)

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write the mended dual point of the row to `u`; returns ℓ(z) and its pair-variable dual value.

        Pair variables are scale·2·max(1 − z_r + z_q, 0), so that without the hub the dual value is 2·scale·Σ max(…) −
        scale²·ℓ; the pairs that carry something to or from the hub are put right one by one.
        """
        value = self.row_gradient(labels, z, work, u)
        hub = int(repair[2, 0])
        mark_labels(labels, work)
        flow = 0.0
        for q in range(z.shape[0]):
            if work[q] == 0.0:
                flow += u[q]
        total = scale * flow - scale * scale * value
        for q in range(z.shape[0]):
            u[q] *= scale
        if work[hub] != 0.0:
            for q in range(z.shape[0]):
                if work[q] == 0.0 and repair[1, q] > 0.0:
                    total += carried(z, hub, q, repair[1, q], scale, u)
        else:
            for p in range(labels.shape[0]):
                if repair[0, labels[p]] > 0.0:
                    total += carried(z, labels[p], hub, repair[0, labels[p]], scale, u)
        return value, total


@kernel
def sorted_floors(labels, z):
    """Labels by ascending score, and their floors z_r − 1; mean of the first t floors and their squares around it.

    The mean of none is the lowest floor. Means and squares by Welford's recurrence, which loses nothing to rounding.
    """
    m = labels.shape[0]
    given = np.empty(m)
    for p in range(m):
        given[p] = wide(z[labels[p]]) - 1.0
    order = np.argsort(given)
    who, floors, means, spreads = np.empty(m, np.int64), np.empty(m), np.zeros(m + 1), np.zeros(m + 1)
    if m > 0:
        means[0] = given[order[0]]
    for s in range(m):
        who[s] = labels[order[s]]
        floors[s] = given[order[s]]
        step = floors[s] - means[s]
        means[s + 1] = means[s] + step / (s + 1)
        spreads[s + 1] = spreads[s] + step * (floors[s] - means[s + 1])
    return who, floors, means, spreads


@kernel
def mark_labels(labels, work):
    """One for labels, zero for others."""
    for q in range(work.shape[0]):
        work[q] = 0.0
    for p in range(labels.shape[0]):
        work[labels[p]] = 1.0


@kernel
def count_below(floors, score):
    """How many of the ascending floors are below the score."""
    low, high = 0, floors.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if floors[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def carried(z, r, q, amount, scale, u):
    """Add what is carried from label r to non-label q to `u`; returns by how much the dual value changes."""
    a = scale * 2.0 * max(1.0 - wide(z[r]) + wide(z[q]), 0.0)
    more = scale * amount
    u[q] += more
    u[r] -= more
    return more - 0.25 * (more * more + 2.0 * a * more)


LOSS = LabelRanking()
