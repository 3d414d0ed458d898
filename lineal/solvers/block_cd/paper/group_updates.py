"""Updates of groups as in Blondel, Seki & Uehara (2013), algorithms 2 and 3: one after the other, or many at once."""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.solvers.block_cd.group_descent import (
    add_to_scores,
    add_to_weights,
    expand_group,
    expand_unvisited,
    feature,
    group_gradient,
    is_first_visit,
    load_weights,
    members,
)

#: Line search: required fraction of the predicted decrease, factor of the step size, smallest curvature, and trials.
SIGMA, OMEGA, EPSILON, MAX_TRIALS = 0.01, 0.5, 1e-12, 30


@kernel
def _measure(problem, rows, W, g):
    """Weights of group g, the gradient with respect to them, and the violation of their optimality condition."""
    first, last = members(problem.groups, g)
    size = (last - first) * W.shape[1]
    old, gradient = np.empty(size), np.empty(size)
    load_weights(problem.groups, g, W, old)
    group_gradient(problem, rows, g, gradient)
    return old, gradient, problem.penalty.group_violation(old, gradient, problem.strengths[g])


@kernel
def _model_update(penalty, old, gradient, strength, curvature, step):
    """Write the update to the minimum of the quadratic model; returns its squared norm."""
    new = np.empty(old.shape[0])
    for r in range(old.shape[0]):
        new[r] = old[r] - gradient[r] / curvature
    penalty.group_prox(new, strength / curvature, new)
    square = 0.0
    for r in range(old.shape[0]):
        step[r] = new[r] - old[r]
        square += np.float64(step[r]) * np.float64(step[r])
    return square


@kernel
def _largest_diagonal(problem, rows, g):
    """Largest second derivative max ∂²f/∂W_jr² over the weights of a group."""
    k, layout = np.uintp(rows.k), problem.layout
    diagonal, largest = np.empty(k), 0.0
    first, last = members(problem.groups, g)
    for f in range(first, last):
        j = feature(problem.groups, f)
        diagonal[:] = 0.0
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            x = np.float64(layout.column_value(j, p))
            problem.loss.add_diagonal(rows.targets.labels(i), rows.Z, i * k, k, rows.weights[i] * x * x, diagonal)
        for r in range(k):
            largest = max(largest, diagonal[r])
    return largest


@kernel
def _group_loss(problem, rows, g):
    """Sum of s·ℓ over the rows that have some feature of a group."""
    k, layout = np.uintp(rows.k), problem.layout
    grouped = problem.groups.features.shape[0] > 0
    work, total = np.empty(k), 0.0
    rows.stamps[0] += 1
    first, last = members(problem.groups, g)
    for f in range(first, last):
        j = feature(problem.groups, f)
        for p in range(layout.column_length(j)):
            i = layout.column_index(j, p)
            if not is_first_visit(rows, i, grouped):
                continue
            total += rows.weights[i] * problem.loss.row_value(rows.targets.labels(i), rows.Z[i * k : i * k + k], work)
    return total


@kernel
def sweep(problem, rows, parameters, order, searches, slack, active):
    """Visit the groups in the given order; returns the sum and the largest of their violations.

    Groups that are zero, and would be even if their gradient changed by `slack`, become inactive.
    """
    penalty, strengths, W = problem.penalty, problem.strengths, parameters.W
    total, largest = 0.0, 0.0
    for position in range(order.shape[0]):
        g = order[position]
        old, gradient, violation = _measure(problem, rows, W, g)
        total += violation
        largest = max(largest, violation)
        if violation == 0.0:
            room = strengths[g] - penalty.group_critical_strength(gradient)
            if room > slack and penalty.group_is_zero(old):
                active[g] = False
            continue
        curvature = parameters.curvatures[g]
        if searches:
            curvature = max(_largest_diagonal(problem, rows, g), EPSILON)
        step = np.empty(old.shape[0], W.dtype)
        if curvature <= 0.0 or _model_update(penalty, old, gradient, strengths[g], curvature, step) == 0.0:
            continue
        if searches and not _search(problem, rows, g, old, gradient, step):
            continue
        if not searches:
            add_to_scores(problem, rows, g, step)
        expand_group(problem, rows, g)
        add_to_weights(problem.groups, g, step, W)
    return total, largest


@kernel
def _search(problem, rows, g, old, gradient, step):
    """Shorten the update until the objective decreases enough, and add it to the scores; False if it never does."""
    penalty, strength = problem.penalty, problem.strengths[g]
    old_loss, old_penalty = _group_loss(problem, rows, g), penalty.group_value(old)
    predicted, new = 0.0, np.empty(old.shape[0])
    for r in range(old.shape[0]):
        new[r] = old[r] + step[r]
        predicted += gradient[r] * step[r]
    predicted += strength * (penalty.group_value(new) - old_penalty)
    step_size, change = 1.0, np.empty_like(step)
    add_to_scores(problem, rows, g, step)
    for _ in range(MAX_TRIALS):
        for r in range(old.shape[0]):
            new[r] = old[r] + step[r]
        growth = _group_loss(problem, rows, g) - old_loss
        if growth + strength * (penalty.group_value(new) - old_penalty) <= SIGMA * step_size * predicted:
            return True
        for r in range(old.shape[0]):
            change[r] = (OMEGA - 1.0) * step[r]
            step[r] += change[r]
        step_size *= OMEGA
        add_to_scores(problem, rows, g, change)
    for r in range(old.shape[0]):
        change[r] = -step[r]
    add_to_scores(problem, rows, g, change)
    return False


@kernel
def compute_updates(problem, rows, parameters, chosen, steps, start, stop):
    """Write the updates of a range of the chosen groups, all computed from the same gradients of the rows.

    Returns the sum and the largest of their violations.
    """
    total, largest = 0.0, 0.0
    for position in range(start, stop):
        g = chosen[position]
        old, gradient, violation = _measure(problem, rows, parameters.W, g)
        total += violation
        largest = max(largest, violation)
        curvature = parameters.curvatures[g]
        if violation > 0.0 and curvature > 0.0:
            step = steps[position][: old.shape[0]]
            _model_update(problem.penalty, old, gradient, problem.strengths[g], curvature, step)
    return total, largest


@kernel
def apply_updates(problem, rows, W, chosen, steps):
    """Apply the updates of all chosen groups, then compute new gradients of the rows that have their features."""
    for position in range(chosen.shape[0]):
        if steps[position].any():
            add_to_scores(problem, rows, chosen[position], steps[position])
            add_to_weights(problem.groups, chosen[position], steps[position], W)
    rows.stamps[0] += 1
    for position in range(chosen.shape[0]):
        if steps[position].any():
            expand_unvisited(problem, rows, chosen[position], True)
