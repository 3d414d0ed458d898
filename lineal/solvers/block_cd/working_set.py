"""Working sets: the features that violate their optimality conditions most.

A set has every weight that is not zero or has no l1 penalty, and those with the largest violations. Its size is counted
in stored entries, not in features: in text, a hundred frequent words are most of X, and another thousand rare ones cost
almost nothing. The smallest violation of the set comes from a histogram on a logarithmic scale: it takes one pass, no
sorting, and gives the same result on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import soft_threshold, wide
from lineal.penalties.base import l1_residual
from lineal.solvers.block_cd.proximal_newton import penalty_derivative, penalty_value

#: Bins of the histogram: four per power of two.
BINS = 128


@kernel
def survey(penalty, r, G, c, W, violations, is_free):
    """Write the violation of every weight of score column r, and which of them are free (not held at zero).

    Column c of G is the gradient of the loss term. `choose` reads the results, because the numbers of one column of W
    are far apart in memory and should be read once. Returns the largest violation, the largest ratio |G|/λ1, and the
    value of the penalty.
    """
    largest, excess, total = 0.0, 0.0, 0.0
    for j in range(W.shape[0]):
        w, g = wide(W[j, r]), wide(G[j, c])
        threshold = penalty.absolute[j]
        violation = abs(l1_residual(w, g + penalty_derivative(penalty, j, r, w), threshold))
        violations[j] = violation
        is_free[j] = w != 0.0 or threshold == 0.0
        largest = max(largest, violation)
        if threshold > 0.0 and penalty.square[j] == 0.0:
            excess = max(excess, abs(g) / threshold)
        if w != 0.0 or penalty.centres.shape[0] > 0:
            total += penalty_value(penalty, j, r, w)
    return largest, excess, total


@kernel
def conjugate(penalty, r, G, c, scale):
    """Conjugate of the penalty of column r at −scale·G, which must be feasible for the l1 parts."""
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
    """The working set of a column: feature (or group) numbers, ascending. `sizes` are their numbers of stored entries.

    Besides the free ones, the set may have `least` entries, or `growth` times the entries of the free ones.
    """
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
    last = 1  # the largest violations are always in the set
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
    """Bin of a violation: 0 for the largest, and a quarter of a power of two per bin."""
    return int(min(-4.0 * math.log2(max(violation / largest, 1e-300)), BINS - 1.0))
