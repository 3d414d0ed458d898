"""Block coordinate descent on a working set: one proximal gradient update per group, each with its own step size.

    W_g ← prox_{λ_g ω/L_g}(W_g − G_g/L_g),   G_g = Σ_i s_i x_ig ∇ℓ(z_i)'

Blondel, Seki & Uehara (2013), algorithms 1 to 3, after Tseng & Yun (2009). The weighted gradients R_i = s_i∇ℓ(z_i) of
all rows are kept up to date. So a group that does not change costs one product, and an update costs new gradients of
only those rows that have features of the group.

L_g is not an upper bound of the curvature: it follows the curvature that the updates observe. An update δ is accepted
if the gradient along it has grown by δ'(G⁺ − G) ≤ L_g‖δ‖². The objective has then decreased, since a convex loss grows
by at most δ'G⁺, and δ'G plus the growth of the penalty is at most −L_g‖δ‖². Otherwise L_g is increased. In float32,
differences of gradients are still accurate long after differences of losses are only rounding errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel

#: Smallest ratio of L_g to its previous value, and ratio of L_g to the observed curvature.
SMALLEST_RATIO, MARGIN = 0.3, 1.2

#: Rounding error of a gradient, relative to the gradient.
NOISE = 1e-6

#: Sweeps over the groups whose violation is too large, between two sweeps over all chosen groups.
REPEATED_SWEEPS = 5

#: Maximum number of increases of L_g per update.
MAX_INCREASES = 40


class GroupProblem(NamedTuple):
    """The objective as kernels see it: loss, penalty, X by columns, the groups of features and α·f_g per group."""

    loss: Any
    penalty: Any
    layout: Any
    groups: Any
    strengths: Any


class RowState(NamedTuple):
    """Labels and weights s of the rows, k scores per row in the flat Z (n·k), and weighted gradients in the flat R.

    `stamps` has the number of the current round, then per row the round in which it was last visited: a row that has
    several features of a group is visited once (`is_first_visit`).
    """

    targets: Any
    weights: Any
    Z: Any
    R: Any
    stamps: Any
    k: int


class Parameters(NamedTuple):
    """Weights W, the intercept b or an empty array, L_g per group, and L of the intercept in an array of one number."""

    W: Any
    b: Any
    curvatures: Any
    intercept_curvature: Any


@kernel
def expand(loss, rows, start, stop):
    """Compute the gradients of a range of rows from their scores."""
    k = np.uintp(rows.k)
    for i in range(np.uintp(start), np.uintp(stop)):
        loss.gradient_at(rows.targets.labels(i), rows.Z, i * k, k, rows.weights[i], rows.R)


@kernel
def descend(problem, rows, parameters, chosen, unit, goal, max_sweeps):
    """Sweep over the chosen groups and update the intercept, until no violation exceeds the goal.

    Groups that exceed it are visited several times before all the others are. The violation of the intercept is
    multiplied by `unit`. Returns the largest violation of the last sweep.
    """
    W, b = parameters.W, parameters.b
    largest = 1
    for c in range(chosen.shape[0]):
        first, last = members(problem.groups, chosen[c])
        largest = max(largest, last - first)
    size = largest * W.shape[1]
    scratch, step = np.empty((4, size)), np.empty(size, W.dtype)
    remaining = np.empty(chosen.shape[0], chosen.dtype)
    worst = 0.0
    for _ in range(max_sweeps):
        worst, count = 0.0, chosen.shape[0]
        for c in range(count):  # not remaining[:] = chosen, whose error message Numba compiles for two seconds
            remaining[c] = chosen[c]
        if b.shape[0] > 0:
            worst = unit * update_intercept(problem.loss, rows, parameters)
        for repetition in range(1 + REPEATED_SWEEPS):
            kept = 0
            for c in range(count):
                violation = _update(problem, rows, parameters, remaining[c], scratch, step, 0.1 * goal)
                if repetition == 0:
                    worst = max(worst, violation)
                if violation > goal:
                    remaining[kept] = remaining[c]
                    kept += 1
            count = kept
            if count == 0:
                break
        if worst <= goal:
            break
    return worst


@kernel(borrows=True)
def _update(problem, rows, parameters, g, scratch, step, enough):
    """Update the weights of group g once, unless its violation is small enough; returns the violation before."""
    penalty, strength = problem.penalty, problem.strengths[g]
    W, curvatures = parameters.W, parameters.curvatures
    first, last = members(problem.groups, g)
    size = np.uintp(last - first) * np.uintp(W.shape[1])
    gradient, old, new = scratch[0][:size], scratch[1][:size], scratch[2][:size]
    group_gradient(problem, rows, g, gradient)
    load_weights(problem.groups, g, W, old)
    violation = penalty.group_violation(old, gradient, strength)
    if violation <= enough or curvatures[g] == 0.0:
        return violation
    new_gradient = scratch[3][:size]
    for _ in range(MAX_INCREASES):
        step_size = 1.0 / curvatures[g]
        for r in range(size):
            new[r] = old[r] - step_size * gradient[r]
        penalty.group_prox(new, step_size * strength, new)
        square = 0.0
        for r in range(size):
            step[r] = new[r] - old[r]  # rounded as it will be added
            square += np.float64(step[r]) * np.float64(step[r])
        if square == 0.0:
            return violation
        add_to_scores(problem, rows, g, step)
        expand_group(problem, rows, g)
        growth, noise = 0.0, 0.0
        group_gradient(problem, rows, g, new_gradient)
        for r in range(size):
            growth += (new_gradient[r] - gradient[r]) * np.float64(step[r])
            noise += abs(gradient[r] * step[r])
        if growth <= curvatures[g] * square + NOISE * noise:
            curvatures[g] = max(min(MARGIN * growth / square, curvatures[g]), SMALLEST_RATIO * curvatures[g])
            add_to_weights(problem.groups, g, step, W)
            return violation
        for r in range(size):
            step[r] = -step[r]
        add_to_scores(problem, rows, g, step)
        expand_group(problem, rows, g)
        curvatures[g] = max(2.0 * curvatures[g], min(growth / square, 10.0 * curvatures[g]))
    return violation


@kernel(borrows=True)
def members(groups, g):
    """Range of the positions of group g; `feature` gives the feature at a position."""
    if groups.features.shape[0] == 0:
        return g, g + 1
    return groups.offsets[g], groups.offsets[g + 1]


@kernel(borrows=True)
def feature(groups, position):
    """Feature at a position: the position itself if every feature is one group."""
    return groups.features[position] if groups.features.shape[0] > 0 else position


@kernel(borrows=True)
def load_weights(groups, g, W, out):
    """Copy the weights of a group to a vector."""
    k = np.uintp(W.shape[1])
    first, last = members(groups, g)
    for f in range(first, last):
        j = feature(groups, f)
        for r in range(k):
            out[np.uintp(f - first) * k + r] = W[j, r]


@kernel(borrows=True)
def add_to_weights(groups, g, step, W):
    """Add an update to the weights of a group."""
    k = np.uintp(W.shape[1])
    first, last = members(groups, g)
    for f in range(first, last):
        for r in range(k):
            W[feature(groups, f), r] += step[np.uintp(f - first) * k + r]


@kernel(borrows=True)
def group_gradient(problem, rows, g, out):
    """Gradient of the loss term with respect to the weights of a group."""
    k = np.uintp(rows.k)
    first, last = members(problem.groups, g)
    for f in range(first, last):
        problem.layout.column_products(feature(problem.groups, f), rows.R, k, out, np.uintp(f - first) * k)


@kernel(borrows=True)
def add_to_scores(problem, rows, g, step):
    """Change the scores of the rows by an update of a group."""
    k = np.uintp(rows.k)
    first, last = members(problem.groups, g)
    for f in range(first, last):
        problem.layout.column_update(feature(problem.groups, f), step, np.uintp(f - first) * k, k, rows.Z)


@kernel(borrows=True)
def is_first_visit(rows, i, grouped):
    """Whether row i has not been visited in this round, which begins when `stamps[0]` is increased.

    A column contains every row at most once, so nothing is noted unless groups have several features.
    """
    if not grouped:
        return True
    if rows.stamps[i + np.uintp(1)] == rows.stamps[0]:
        return False
    rows.stamps[i + np.uintp(1)] = rows.stamps[0]
    return True


@kernel(borrows=True)
def expand_group(problem, rows, g):
    """Compute new gradients of the rows that have some feature of a group."""
    rows.stamps[0] += 1
    expand_unvisited(problem, rows, g, problem.groups.features.shape[0] > 0)


@kernel
def expand_unvisited(problem, rows, g, grouped):
    """Compute new gradients of those rows with features of a group that were not visited in this round."""
    k, layout = np.uintp(rows.k), problem.layout
    first, last = members(problem.groups, g)
    for f in range(first, last):
        j = feature(problem.groups, f)
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if is_first_visit(rows, i, grouped):
                problem.loss.gradient_at(rows.targets.labels(i), rows.Z, i * k, k, rows.weights[i], rows.R)


@kernel
def update_intercept(loss, rows, parameters):
    """Update the intercept once; returns the norm of its gradient before."""
    b, curvature = parameters.b, parameters.intercept_curvature
    k, n = np.uintp(rows.k), np.uintp(rows.weights.shape[0])
    gradient, new_gradient, step = np.empty(k), np.empty(k), np.empty(k, b.dtype)
    squares = _sum_gradients(rows, gradient)
    square = 0.0
    for r in range(k):
        square += gradient[r] * gradient[r]
    eps = np.finfo(rows.R.dtype).eps
    is_noise = square <= eps * eps * squares  # then no curvature can be observed along the gradient
    for _ in range(0 if is_noise else MAX_INCREASES):
        length, noise, growth = 0.0, 0.0, 0.0
        for r in range(k):
            step[r] = -gradient[r] / curvature[0]
            length += np.float64(step[r]) * np.float64(step[r])
            noise += abs(gradient[r] * step[r])
        for i in range(n):
            for r in range(k):
                rows.Z[i * k + r] += step[r]
        expand(loss, rows, 0, n)
        _sum_gradients(rows, new_gradient)
        for r in range(k):
            growth += (new_gradient[r] - gradient[r]) * np.float64(step[r])
        if growth <= curvature[0] * length + NOISE * noise:
            if length > 0.0:
                curvature[0] = max(min(MARGIN * growth / length, curvature[0]), SMALLEST_RATIO * curvature[0])
            for r in range(k):
                b[r] += step[r]
            break
        for i in range(n):
            for r in range(k):
                rows.Z[i * k + r] -= step[r]
        expand(loss, rows, 0, n)
        curvature[0] = max(2.0 * curvature[0], min(growth / length, 10.0 * curvature[0]))
    return np.sqrt(square)


@kernel(borrows=True)
def _sum_gradients(rows, out):
    """Write Σ R_i to `out`; returns the sum of the squares of all entries of R."""
    k, squares = np.uintp(rows.k), 0.0
    for r in range(k):
        out[r] = 0.0
    for i in range(np.uintp(rows.weights.shape[0])):
        for r in range(k):
            gradient = np.float64(rows.R[i * k + r])
            out[r] += gradient
            squares += gradient * gradient
    return squares
