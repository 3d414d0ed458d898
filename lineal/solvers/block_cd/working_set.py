"""Working sets: the features worth visiting, by how much they violate optimality.

A set holds every weight that is not zero or not held at zero by its penalty, and the largest violators beside them. How
many is counted in stored entries, not in features: in text a hundred frequent words are most of X, and a thousand rare
ones beside them cost next to nothing. The cut is taken from a histogram of the violations on a logarithmic scale: one
pass, no sorting, and the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import soft_threshold, wide
from lineal.penalties.base import l1_residual
from lineal.solvers.block_cd.proximal_newton import penalty_slope, penalty_value

#: Bins of the histogram, four to a power of two.
BINS = 128


@kernel
def survey(penalty, r, G, c, W, violations, is_free):
    """Violation of every weight of score column r, from column c of the loss gradient G, and which are free to move.

    `choose` reads what is written here: the numbers of one column of W lie far apart, and are read once. Returns the
    largest violation, the most that G exceeds λ1 by as a factor, and the penalty's value.
    """
    largest, excess, total = 0.0, 0.0, 0.0
    for j in range(W.shape[0]):
        w, g = wide(W[j, r]), wide(G[j, c])
        threshold = penalty.absolute[j]
        found = abs(l1_residual(w, g + penalty_slope(penalty, j, r, w), threshold))
        violations[j] = found
        is_free[j] = w != 0.0 or threshold == 0.0
        largest = max(largest, found)
        if threshold > 0.0 and penalty.square[j] == 0.0:
            excess = max(excess, abs(g) / threshold)
        if w != 0.0 or penalty.centres.shape[0] > 0:
            total += penalty_value(penalty, j, r, w)
    return largest, excess, total


@kernel
def conjugate(penalty, r, G, c, scale):
    """Conjugate of the penalty of column r at −scale·G, its l1 parts taken as feasible."""
    total = 0.0
    for j in range(G.shape[0]):
        if penalty.square[j] > 0.0:
            g = -scale * wide(G[j, c])
            size = soft_threshold(g, penalty.absolute[j])
            total += 0.5 * size * size / penalty.square[j]
            if penalty.centres.shape[0] > 0:
                total += g * penalty.centres[j, r]
    return total


@kernel
def choose(violations, is_free, largest, sizes, least, growth):
    """The working set of a column: feature numbers, ascending. `sizes` are the stored entries of the features."""
    counts = np.zeros(BINS, np.int64)
    entries = np.zeros(BINS, np.int64)
    free, filled = 0, 0
    for j in range(sizes.shape[0]):
        if is_free[j]:
            free += 1
            filled += sizes[j]
        elif violations[j] > 0.0:
            at = _bin(violations[j], largest)
            counts[at] += 1
            entries[at] += sizes[j]
    room = max(least, int(growth * filled))
    last = 1  # the largest violators are never left out
    room -= entries[0]
    while last < BINS and entries[last] <= room:
        room -= entries[last]
        last += 1
    total = free
    for bin_ in range(last):
        total += counts[bin_]
    out = np.empty(total, np.int64)
    at = 0
    for j in range(sizes.shape[0]):
        if is_free[j] or (violations[j] > 0.0 and _bin(violations[j], largest) < last):
            out[at] = j
            at += 1
    return out


@kernel
def _bin(violation, largest):
    """0 for the largest violations, a quarter of a power of two a bin."""
    return int(min(-4.0 * math.log2(max(violation / largest, 1e-300)), BINS - 1.0))
