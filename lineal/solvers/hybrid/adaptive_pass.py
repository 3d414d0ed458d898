"""One online pass over the rows of a shard, with adaptive step sizes per weight (AdaGrad: Duchi, Hazan & Singer 2011).

Every row with scores z and derivatives g = ∇ℓ(z) does, for each of its features and every column r,

    G_jr ← G_jr + (s·g_r·x_j/c_j)²,   w_jr ← w_jr − η·s·g_r·x_j/(c_j²·√G_jr),

where s is the weight of the row (one on average) and c_j = √(a_j·ā), with a_j the root mean square of the stored
entries of feature j, and ā that of all entries. With c_j = a_j, steps would not depend on the unit of a feature, but
features that are tiny because they hardly matter, such as the pixels at the border of an image, would get huge weights;
with c_j = ā, features in small units would hardly be learned. After a pass over MNIST and over kddcup99, c_j = a_j left
the objective 1.05 and 15 times as high as √(a_j·ā) did. The intercept is the weight of a feature that is one
everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel

#: What √G is at least: it keeps the first step of a weight finite.
TINY = 1e-20


class PassRows(NamedTuple):
    """Labels, weights and base scores (or an empty array) of the rows."""

    targets: Any
    weights: Any
    offsets: Any


class Learner(NamedTuple):
    """What a pass changes: parameters θ and the sums G, in the same shape.

    `inverses` are 1/c_j, zero for a feature without entries.
    """

    theta: Any
    squares: Any
    inverses: Any
    fit_intercept: bool


@kernel
def learn(loss, layout, order, rows, learner, rate):
    """Learn from the rows in this order; returns the weighted sum of their losses before each was learned from."""
    theta, squares, inverses, fit_intercept = learner
    k = np.uintp(theta.shape[1])
    d = np.uintp(inverses.shape[0])
    flat, sums = theta.reshape(-1), squares.reshape(-1)
    z, g, work = np.empty(k, theta.dtype), np.empty(k, theta.dtype), np.empty(k, np.float64)
    tiny, one = theta.dtype.type(TINY), theta.dtype.type(1.0)
    total = 0.0
    for position in range(order.shape[0]):
        i = np.uintp(order[position])
        layout.row_scores(i, flat, k, z, 0)
        for r in range(k):
            if fit_intercept:
                z[r] += flat[d * k + r]
            if rows.offsets.shape[0] > 0:
                z[r] += rows.offsets[i, r]
        weight = rows.weights[i]
        total += weight * loss.row_gradient(rows.targets.labels(i), z, work, g)
        for r in range(k):
            g[r] *= weight
        for at in range(layout.row_length(i)):
            x = layout.row_entry(i, at)
            if x != 0.0:
                j = layout.row_index(i, at)
                _update(flat, sums, j * k, k, g, x * inverses[j], theta.dtype.type(rate) * inverses[j], tiny)
        if fit_intercept:
            _update(flat, sums, d * k, k, g, one, theta.dtype.type(rate), tiny)
    return total


@kernel(inline="always")
def _update(flat, sums, first, k, g, x, rate, tiny):
    """Update the k weights of a feature with the scaled entry x."""
    for r in range(k):
        change = g[r] * x
        square = sums[first + r] + change * change
        sums[first + r] = square
        flat[first + r] -= rate * change / np.sqrt(square + tiny)


@kernel
def entry_sums(layout, n, squares, counts):
    """Add the squares of the stored entries of every column to `squares`, and their number to `counts`."""
    for i in range(np.uintp(n)):
        for at in range(layout.row_length(i)):
            x = np.float64(layout.row_entry(i, at))
            if x != 0.0:
                j = layout.row_index(i, at)
                squares[j] += x * x
                counts[j] += 1.0
