"""Proximal Newton steps for one score column on a working set of features, by coordinate descent on the model.

    min over w, b   Σ_i s_i ℓ(t_i, z_i) + Σ_j λ1_j|w_j| + ½λ2_j(w_j − v_j)²,   z = Xw + b + o

Each step fixes the derivatives ρ_i = s_i ℓ' and the curvatures D_i = s_i ℓ'' (generalised where ℓ'' jumps), minimises
the quadratic model by coordinate descent, and does a line search for the objective itself along the direction to that
minimum (Yuan, Ho & Lin, 2012: newGLMNET). The loop over coordinates computes no exponentials. Two things differ:

* ρ has the derivatives of the *model*, ρ_i + D_i(Xd)_i, so a visit of a coordinate reads one vector instead of two;
* the intercept is eliminated. The model depends on b only through S = Σρ and ΣD, so b takes its best value after every
  update, for one multiplication. A column with a large mean is then as easy as a centred one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import soft_threshold, wide
from lineal.design.odd_columns import ROUNDING
from lineal.penalties.base import l1_residual

#: Required fraction of the decrease that the model predicts.
DECREASE = 0.01

#: Sweeps per cycle over the active coordinates of a model, cycles (each begins with all coordinates), and halvings of
#: the step size.
MAX_SWEEPS, MAX_CYCLES, MAX_HALVINGS = 20, 2, 30

#: Updates of only the intercept at the end.
MAX_INTERCEPT_UPDATES = 4

#: The model has converged when its largest violation is this fraction of the first one.
MODEL_FRACTION = 0.1

#: A zero weight is inactive in the rest of a cycle if its derivative is below this fraction of its threshold, ...
FAR = 0.7

#: ... and so is a weight whose update is below this fraction of the goal (this saves a quarter of the time on text).
SETTLED = 0.3


class WeightPenalty(NamedTuple):
    """Penalty per feature: λ1|w| + ½λ2(w − v)²; `centres` has v, (d, k), or is (0, 0) for zeros."""

    absolute: Any
    square: Any
    centres: Any


class ColumnProblem(NamedTuple):
    """Objective of score column r as a function of the weights of the chosen features."""

    layout: Any
    loss: Any
    penalty: Any
    r: int
    chosen: Any


class ColumnRows(NamedTuple):
    """Weights, signs and scores z of the rows for one column, and three scratch vectors in the precision of X.

    The scratch vectors have the derivatives ρ, the curvatures D and the change of the scores along a direction.
    """

    weights: Any
    signs: Any
    z: Any
    derivatives: Any
    curvatures: Any
    change: Any


class Model(NamedTuple):
    """Quadratic model of the chosen features: numbers per feature, and sums over the rows.

    `gradients` are at the start of the step. `means` and `curvatures` have D as row weights, and the intercept is
    eliminated from `curvatures`. `active` has the positions of the active features. `sums` has Σρ, and 1/ΣD or zero
    without an intercept.
    """

    gradients: Any
    means: Any
    curvatures: Any
    active: Any
    sums: Any


@kernel
def penalty_derivative(penalty, j, r, w):
    """Derivative of the smooth part of the penalty."""
    centre = penalty.centres[j, r] if penalty.centres.shape[0] > 0 else 0.0
    return penalty.square[j] * (wide(w) - centre)


@kernel
def penalty_value(penalty, j, r, w):
    """Penalty λ1|w| + ½λ2(w − v)² of one weight."""
    centre = penalty.centres[j, r] if penalty.centres.shape[0] > 0 else 0.0
    away = wide(w) - centre
    return penalty.absolute[j] * abs(wide(w)) + 0.5 * penalty.square[j] * away * away


@kernel
def _expand(loss, rows, step_size):
    """Compute ρ and D of the rows at z + step_size·change; returns the loss, Σρ and ΣD."""
    z, total, derivative_sum, curvature_sum = rows.z, 0.0, 0.0, 0.0
    step_size = z.dtype.type(step_size)
    for i in range(np.uintp(z.shape[0])):
        value, derivative, curvature = loss.expansion(rows.signs[i], wide(z[i] + step_size * rows.change[i]))
        s = rows.weights[i]
        rows.derivatives[i] = s * derivative
        rows.curvatures[i] = s * curvature
        total += s * value
        derivative_sum += s * derivative
        curvature_sum += s * curvature
    return total, derivative_sum, curvature_sum


@kernel
def _sweep(problem, rows, model, w, count, settled):
    """Update the first `count` active coordinates; returns the largest violation and how many are still active."""
    layout, penalty, means, sums, active = problem.layout, problem.penalty, model.means, model.sums, model.active
    largest = 0.0
    kept = 0
    for position in range(count):
        a = active[position]
        j = problem.chosen[a]
        curvature = model.curvatures[a] + penalty.square[j]
        if curvature <= 0.0:
            continue
        derivative = layout.column_dot(j, rows.derivatives) - means[a] * sums[0] * sums[1]
        derivative += penalty_derivative(penalty, j, problem.r, w[a])
        threshold = penalty.absolute[j]
        before = w[a]
        if before == 0.0 and abs(derivative) < FAR * threshold:
            continue
        after = soft_threshold(before * curvature - derivative, threshold) / curvature
        step = after - before
        if abs(step) * curvature > settled:
            active[kept] = a
            kept += 1
        if step != 0.0:
            largest = max(largest, abs(step) * curvature)
            w[a] = after
            sums[0] += step * means[a]
            layout.column_add_scaled(j, step, rows.curvatures, rows.derivatives)
    return largest, kept


@kernel
def _minimise(problem, rows, model, w, enough):
    """Minimise the model: sweeps over fewer and fewer coordinates, then again over all, until no violation is large.

    The best values of inactive weights change with the other weights: without a second cycle over all of them, the
    largest violation only halves.
    """
    for _ in range(MAX_CYCLES):
        count = problem.chosen.shape[0]
        for a in range(count):
            model.active[a] = a
        first = 0.0
        for number in range(MAX_SWEEPS):
            largest, count = _sweep(problem, rows, model, w, count, SETTLED * enough)
            if number == 0:
                first = largest
            if largest <= enough:
                break
        if first <= enough:
            break


@kernel
def _build(problem, rows, model, w):
    """Compute gradient, mean and curvature of every chosen feature; returns the largest violation."""
    penalty, sums, curvatures = problem.penalty, model.sums, model.curvatures
    largest = 0.0
    for a in range(problem.chosen.shape[0]):
        j = problem.chosen[a]
        gradient, mean, curvature = problem.layout.column_moments(j, rows.derivatives, rows.curvatures)
        model.gradients[a] = gradient
        model.means[a] = mean
        own = curvature - mean * mean * sums[1]
        curvatures[a] = own if own > ROUNDING * curvature else 0.0
        gradient += penalty_derivative(penalty, j, problem.r, w[a]) - mean * sums[0] * sums[1]
        if curvatures[a] == 0.0 and penalty.square[j] == 0.0 and penalty.absolute[j] > 0.0:
            curvatures[a] = 1e-12 * (curvature + 1.0)  # only the penalty depends on this weight
        largest = max(largest, abs(l1_residual(w[a], gradient, penalty.absolute[j])))
    return largest


@kernel
def descend(problem, rows, w, intercept, goal, fraction, max_steps):
    """Do proximal Newton steps on the chosen features until their largest violation is `goal`, or no step helps.

    The goal is at most `fraction` of the largest violation at the start. Changes w, rows.z and intercept[0]; the
    intercept is an empty array if none is fitted. Returns the loss at the end.
    """
    layout, loss, penalty, r, chosen = problem
    z, p = rows.z, chosen.shape[0]
    model = Model(np.empty(p), np.empty(p), np.empty(p), np.empty(p, np.int64), np.zeros(2))
    old, sums = np.empty(p), model.sums
    has_intercept = intercept.shape[0] > 0
    rows.change[:] = 0.0
    value, derivative_sum, curvature_sum = _expand(loss, rows, 0.0)
    for number in range(max_steps):
        first_sum = derivative_sum
        sums[0] = derivative_sum
        sums[1] = 1.0 / curvature_sum if has_intercept and curvature_sum > 0.0 else 0.0
        largest = _build(problem, rows, model, w)
        of_intercept = abs(derivative_sum) if has_intercept else 0.0
        if number == 0:  # the violations of the caller are of another intercept: the goal is relative to these, too
            goal = min(goal, fraction * max(largest, of_intercept))
        if max(largest, of_intercept) <= goal:
            break
        for a in range(p):
            old[a] = w[a]
        _minimise(problem, rows, model, w, max(MODEL_FRACTION * largest, 0.3 * goal))
        shift = -sums[0] * sums[1]
        predicted = first_sum * shift
        rows.change[:] = shift
        for a in range(p):
            step = w[a] - old[a]
            if step != 0.0:
                j = chosen[a]
                layout.column_add(j, step, rows.change)
                predicted += model.gradients[a] * step
                predicted += penalty_value(penalty, j, r, w[a]) - penalty_value(penalty, j, r, old[a])
        step_size, value, derivative_sum, curvature_sum = _search(problem, rows, w, old, value, predicted)
        if step_size == 0.0:  # the direction may not even be finite
            for a in range(p):
                w[a] = old[a]
            break
        for a in range(p):
            w[a] = w[a] if step_size == 1.0 else old[a] + step_size * (w[a] - old[a])
        if has_intercept:
            intercept[0] += step_size * shift
        for i in range(np.uintp(z.shape[0])):
            z[i] += step_size * rows.change[i]
    if has_intercept:
        value = _update_intercept(loss, rows, intercept, value, derivative_sum, curvature_sum)
    return value


@kernel
def _update_intercept(loss, rows, intercept, value, derivative_sum, curvature_sum):
    """Do Newton steps on the intercept alone, since a dual point needs Σρ = 0; returns the loss."""
    z = rows.z
    for _ in range(MAX_INTERCEPT_UPDATES):
        if curvature_sum <= 0.0 or abs(derivative_sum) <= 1e-14:
            break
        shift = -derivative_sum / curvature_sum
        rows.change[:] = shift
        new_value, derivative_sum, curvature_sum = _expand(loss, rows, 1.0)
        if not new_value <= value * (1.0 + 4.0 * np.finfo(z.dtype).eps) or shift == 0.0:
            break
        for i in range(np.uintp(z.shape[0])):
            z[i] += rows.change[i]
        intercept[0] += shift
        value = new_value
    return value


@kernel
def _search(problem, rows, w, old, value, predicted):
    """Find the largest step size 1, ½, ¼, … at which the objective decreases enough; zero if there is none.

    `predicted` is the change that the model predicts, a negative number. Returns the step size, and the results of
    `_expand` at that point.
    """
    penalty, r, chosen = problem.penalty, problem.r, problem.chosen
    old_penalty = 0.0
    for a in range(chosen.shape[0]):
        old_penalty += penalty_value(penalty, chosen[a], r, old[a])
    noise = 4.0 * np.finfo(rows.z.dtype).eps * (value + old_penalty)
    # Near the optimum the predicted decrease is smaller than rounding errors, and steps are still good.
    step_size = 1.0 if predicted < noise else 0.0
    for halvings in range(MAX_HALVINGS + 1):
        step_size = step_size if halvings < MAX_HALVINGS else 0.0
        new_value, derivative_sum, curvature_sum = _expand(problem.loss, rows, step_size)
        total = new_value
        for a in range(chosen.shape[0]):
            total += penalty_value(penalty, chosen[a], r, old[a] + step_size * (w[a] - old[a]))
        if step_size == 0.0 or total <= value + old_penalty + DECREASE * step_size * predicted + noise:
            break
        step_size *= 0.5
    return step_size, new_value, derivative_sum, curvature_sum
