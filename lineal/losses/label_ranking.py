"""Label ranking, ℓ(Y, z) = Σ_{r ∈ Y, q ∉ Y} max(1 − (z_r − z_q), 0)²: every label above every non-label.

The multi-label extension of the multi-class squared hinge (Blondel, Seki & Uehara 2013, section 4.7), and the same with
one label per row.

With the floors f_r = z_r − 1 of the labels in ascending order, the labels that non-label q is too close to are the
first t_q of them, f_r < z_q, found by bisection. What q adds to the loss and to its own gradient follows from sums of
the distances of the first t floors from the t-th; the gradient of a label follows from the distances of the non-labels
above its floor. This costs O(k log m) per row with m labels and k columns, instead of O(m·k). All sums are over
distances, which are not negative: nothing cancels, however large or far apart the scores are.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.protocol import Fieldless, protocol
from lineal.losses.pairs import PairLoss

#: Labels up to which an insertion sort is faster than one that needs arrays of its own.
FEW_LABELS = 24

#: Rows of the table that `sorted_floors` makes.
FLOORS, SUMS, SQUARES, NUMBERS, DISTANCES, N_TABLE = range(6)


@protocol
class LabelRanking(PairLoss, Fieldless):
    """Different pair variables can give the same u, so there is no cheap conjugate: dual values come from the pairs."""

    __slots__ = ()
    name: ClassVar[str] = "label_ranking"
    takes_label_sets: ClassVar[bool] = True
    has_conjugate: ClassVar[bool] = False

    def row_value(self, labels, z, work):
        """Loss of one row."""
        who, table = sorted_floors(labels, z)
        total, p = 0.0, 0
        for q in range(z.shape[0]):
            if p < labels.shape[0] and labels[p] == q:
                p += 1
                continue
            t = count_below(table[FLOORS], who.shape[0], wide(z[q]))
            if t > 0:
                total += squares_below(table, t, wide(z[q]) - table[FLOORS, t - 1])
        return total

    def row_gradient(self, labels, z, work, gradient):
        """Write u = Σ 2·max(1 − z_r + z_q, 0)(e_q − e_r) and return the loss of the row."""
        who, table = sorted_floors(labels, z)
        m = who.shape[0]
        total, p = 0.0, 0
        for q in range(z.shape[0]):
            if p < m and labels[p] == q:
                p += 1
                continue
            gradient[q] = 0.0
            t = count_below(table[FLOORS], m, wide(z[q]))
            if t > 0:
                above = wide(z[q]) - table[FLOORS, t - 1]
                total += squares_below(table, t, above)
                gradient[q] = 2.0 * (t * above + table[SUMS, t])
                table[NUMBERS, t] += 1.0
                table[DISTANCES, t] += above
        count, sum_ = 0.0, 0.0
        for s in range(m - 1, -1, -1):
            if count > 0.0:  # the next floor is lower by this step, so every distance to it is larger by as much
                sum_ += count * (table[FLOORS, s + 1] - table[FLOORS, s])
            count += table[NUMBERS, s + 1]
            sum_ += table[DISTANCES, s + 1]
            gradient[who[s]] = -2.0 * sum_
        return total

    def add_diagonal(self, labels, Z, at, k, scale, out):
        """Add scale·∂²ℓ/∂z_r² of the scores Z[at : at+k] to every out[r]: twice its active pairs."""
        z = Z[at : at + k]
        who, table = sorted_floors(labels, z)
        m = who.shape[0]
        p = 0
        for q in range(z.shape[0]):
            if p < m and labels[p] == q:
                p += 1
                continue
            t = count_below(table[FLOORS], m, wide(z[q]))
            out[q] += 2.0 * scale * t
            table[NUMBERS, t] += 1.0
        count = 0.0
        for s in range(m - 1, -1, -1):
            count += table[NUMBERS, s + 1]
            out[who[s]] += 2.0 * scale * count

    def row_curvature(self, labels, z, v, work, out):
        """Generalised Hessian times v: Σ over active pairs of 2(v_q − v_r)(e_q − e_r)."""
        who, table = sorted_floors(labels, z)
        p, m = 0, who.shape[0]
        table[SUMS, 0] = 0.0
        for s in range(m):
            table[SUMS, s + 1] = table[SUMS, s] + wide(v[who[s]])
        for q in range(z.shape[0]):
            if p < m and labels[p] == q:
                p += 1
                continue
            t = count_below(table[FLOORS], m, wide(z[q]))
            out[q] = 2.0 * (t * wide(v[q]) - table[SUMS, t])
            table[NUMBERS, t] += 1.0
            table[DISTANCES, t] += wide(v[q])
        count, sum_ = 0.0, 0.0
        for s in range(m - 1, -1, -1):
            count += table[NUMBERS, s + 1]
            sum_ += table[DISTANCES, s + 1]
            out[who[s]] = 2.0 * (wide(v[who[s]]) * count - sum_)


@kernel
def sorted_floors(labels, z):
    """Labels by ascending score, and a table over t = 0 … m of their number.

    FLOORS: the t-th floor z_r − 1 (from 0). SUMS and SQUARES: of the distances of the first t floors from the last of
    them. NUMBERS and DISTANCES: zeros, for the caller to fill. One table, because every array costs an allocation.
    """
    m = labels.shape[0]
    who, table = np.empty(m, np.int64), np.zeros((N_TABLE, m + 1))
    for p in range(m):
        floor = wide(z[labels[p]]) - 1.0
        s = p
        while m <= FEW_LABELS and s > 0 and table[FLOORS, s - 1] > floor:
            table[FLOORS, s] = table[FLOORS, s - 1]
            who[s] = who[s - 1]
            s -= 1
        table[FLOORS, s] = floor
        who[s] = labels[p]
    if m > FEW_LABELS:
        order = np.argsort(table[FLOORS, :m])
        for s in range(m):
            who[s] = labels[order[s]]
            table[FLOORS, s] = wide(z[who[s]]) - 1.0
    for t in range(2, m + 1):
        step = table[FLOORS, t - 1] - table[FLOORS, t - 2]
        table[SUMS, t] = table[SUMS, t - 1] + (t - 1) * step
        table[SQUARES, t] = table[SQUARES, t - 1] + step * (2.0 * table[SUMS, t - 1] + (t - 1) * step)
    return who, table


@kernel
def squares_below(table, t, above):
    """Sum of the squared distances from a score to the first t floors; it is `above` the last of them by that much."""
    return table[SQUARES, t] + above * (2.0 * table[SUMS, t] + t * above)


@kernel
def count_below(floors, m, score):
    """How many of the m ascending floors are below the score. At the optimum most scores are below all of them, so
    that this case is tested first."""
    low, high = 0, m
    if m > 0 and score <= floors[0]:
        high = 0
    while low < high:
        middle = (low + high) >> 1
        if floors[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


LOSS = LabelRanking()
