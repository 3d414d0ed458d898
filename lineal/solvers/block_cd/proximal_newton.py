"""Proximal Newton steps for one score column on a working set of features, by coordinate descent on the model.

    min over w, b   Σ_i s_i ℓ(t_i, z_i) + Σ_j λ1_j|w_j| + ½λ2_j(w_j − v_j)²,   z = Xw + b + o

Each step freezes the slopes ρ_i = s_i ℓ' and the bends D_i = s_i ℓ'' (generalised where ℓ'' jumps), minimises the
quadratic model by coordinate descent, and goes along the direction found as far as the true objective falls (Yuan, Ho
& Lin, 2012: newGLMNET). No exponential is computed inside the coordinate loop. Two things are done differently:

* ρ is kept at the slopes of the *model*, ρ_i + D_i(Xd)_i, so a visit of a coordinate gathers one vector, not two;
* the intercept is eliminated: of the model in b only S = Σρ and ΣD are needed, so b sits at its best after every
  coordinate step, for one multiplication. A column with a large mean is then as easy as a centred one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import soft_threshold, wide
from lineal.design.constant_columns import ROUNDING
from lineal.penalties.base import l1_residual

#: Share of the decrease that the model's slope promises.
DECREASE = 0.01

#: Sweeps over the coordinates of one model before those left alone are looked at again, how often that is done, and
#: halvings of one step.
MAX_SWEEPS, MAX_CYCLES, MAX_HALVINGS = 20, 2, 30

#: Steps of the intercept alone at the end.
MAX_BALANCE = 4

#: The model is good enough once its largest violation has fallen to this share.
MODEL_SHARE = 0.1

#: A zero weight whose slope is below this share of its threshold is left alone by the rest of a cycle's sweeps, ...
FAR = 0.7

#: ... and so is a weight that moved by less than this share of what is good enough (a quarter of the time on text).
SETTLED = 0.3


class Scalars(NamedTuple):
    """The penalty of every feature: λ1|w| + ½λ2(w − v)²; `centres` is (d, k), or (0, 0) for zeros."""

    absolute: Any
    square: Any
    centres: Any


class Rows(NamedTuple):
    """What a score column needs of the rows: weights s, and scratch vectors of n in the precision of the data."""

    weights: Any
    signs: Any
    slopes: Any
    bends: Any
    change: Any


@kernel
def penalty_slope(penalty, j, r, w):
    """Derivative of the smooth part of the penalty."""
    centre = penalty.centres[j, r] if penalty.centres.shape[0] > 0 else 0.0
    return penalty.square[j] * (wide(w) - centre)


@kernel
def penalty_value(penalty, j, r, w):
    """λ1|w| + ½λ2(w − v)²."""
    centre = penalty.centres[j, r] if penalty.centres.shape[0] > 0 else 0.0
    away = wide(w) - centre
    return penalty.absolute[j] * abs(wide(w)) + 0.5 * penalty.square[j] * away * away


@kernel
def _expand(loss, rows, z, step):
    """Slopes and bends of the rows at z + step·change; returns the loss, Σρ and ΣD."""
    value, slope_sum, bend_sum = 0.0, 0.0, 0.0
    step = z.dtype.type(step)
    for i in range(np.uintp(z.shape[0])):
        here, slope, bend = loss.expansion(rows.signs[i], wide(z[i] + step * rows.change[i]))
        s = rows.weights[i]
        rows.slopes[i] = s * slope
        rows.bends[i] = s * bend
        value += s * here
        slope_sum += s * slope
        bend_sum += s * bend
    return value, slope_sum, bend_sum


@kernel
def _sweep(layout, penalty, r, chosen, live, count, w, means, bends, rows, sums, settled):
    """One pass over the live coordinates of the model; returns the largest violation, and how many are still live.

    sums holds Σρ and 1/ΣD (zero without an intercept).
    """
    largest = 0.0
    kept = 0
    for at in range(count):
        a = live[at]
        j = chosen[a]
        bend = bends[a] + penalty.square[j]
        if bend <= 0.0:
            continue
        slope = layout.column_dot(j, rows.slopes) - means[a] * sums[0] * sums[1] + penalty_slope(penalty, j, r, w[a])
        threshold = penalty.absolute[j]
        before = w[a]
        if before == 0.0 and abs(slope) < FAR * threshold:
            continue  # far from moving: looked at again by the next cycle
        after = soft_threshold(before * bend - slope, threshold) / bend
        step = after - before
        if abs(step) * bend > settled:
            live[kept] = a
            kept += 1
        if step != 0.0:
            largest = max(largest, abs(step) * bend)
            w[a] = after
            sums[0] += step * means[a]
            layout.column_add_scaled(j, step, rows.bends, rows.slopes)
    return largest, kept


@kernel
def _minimise(layout, penalty, r, chosen, live, w, means, bends, rows, sums, enough):
    """Sweeps until no coordinate moves by more than `enough`, over fewer and fewer, then again over all.

    The weights left alone move out of place while the others do: without a second look at them the largest violation
    only halves.
    """
    for _ in range(MAX_CYCLES):
        count = chosen.shape[0]
        for a in range(count):
            live[a] = a
        first = 0.0
        for number in range(MAX_SWEEPS):
            moved, count = _sweep(
                layout, penalty, r, chosen, live, count, w, means, bends, rows, sums, SETTLED * enough
            )
            if number == 0:
                first = moved
            if moved <= enough:
                break
        if first <= enough:
            break


@kernel
def _prepare(layout, penalty, r, chosen, w, slopes, means, bends, rows, sums):
    """Slope, mean and curvature of every chosen column, the intercept eliminated; returns the largest violation."""
    largest = 0.0
    for a in range(chosen.shape[0]):
        j = chosen[a]
        slope, mean, bend = layout.column_moments(j, rows.slopes, rows.bends)
        slopes[a] = slope
        means[a] = mean
        own = bend - mean * mean * sums[1]
        bends[a] = own if own > ROUNDING * bend else 0.0
        slope += penalty_slope(penalty, j, r, w[a]) - mean * sums[0] * sums[1]
        if bends[a] == 0.0 and penalty.square[j] == 0.0 and penalty.absolute[j] > 0.0:
            bends[a] = 1e-12 * (bend + 1.0)  # nothing but the penalty acts on it
        largest = max(largest, abs(l1_residual(w[a], slope, penalty.absolute[j])))
    return largest


@kernel
def descend(layout, loss, penalty, r, rows, z, chosen, w, intercept, goal, share, max_steps):
    """Proximal Newton steps on the chosen columns until their largest violation is `goal`, or no step helps.

    `goal` is also at most `share` of the largest violation at the start.
    w, z and intercept[0] are moved; intercept is empty where none is fitted. Returns the loss at the end.
    """
    p = chosen.shape[0]
    slopes, means, bends = np.empty(p), np.empty(p), np.empty(p)
    old = np.empty(p)
    live = np.empty(p, np.int64)
    sums = np.zeros(2)
    has_intercept = intercept.shape[0] > 0
    noise = 4.0 * np.finfo(z.dtype).eps
    rows.change[:] = 0.0
    value, slope_sum, bend_sum = _expand(loss, rows, z, 0.0)
    for number in range(max_steps):
        first_sum = slope_sum
        sums[0] = slope_sum
        sums[1] = 1.0 / bend_sum if has_intercept and bend_sum > 0.0 else 0.0
        largest = _prepare(layout, penalty, r, chosen, w, slopes, means, bends, rows, sums)
        off_balance = abs(slope_sum) if has_intercept else 0.0
        if number == 0:  # violations from outside know a less balanced intercept: relative to these, too
            goal = min(goal, share * max(largest, off_balance))
        if max(largest, off_balance) <= goal:
            break
        old[:] = w
        _minimise(layout, penalty, r, chosen, live, w, means, bends, rows, sums, max(MODEL_SHARE * largest, 0.3 * goal))
        shift = -sums[0] * sums[1]
        promise = first_sum * shift
        rows.change[:] = shift
        for a in range(p):
            step = w[a] - old[a]
            if step != 0.0:
                j = chosen[a]
                layout.column_add(j, step, rows.change)
                promise += slopes[a] * step + penalty_value(penalty, j, r, w[a]) - penalty_value(penalty, j, r, old[a])
        length, value, slope_sum, bend_sum = _search(loss, penalty, r, chosen, rows, z, w, old, value, promise, noise)
        if length == 0.0:  # the step may not even be finite
            w[:] = old
            break
        for a in range(p):
            w[a] = w[a] if length == 1.0 else old[a] + length * (w[a] - old[a])
        if has_intercept:
            intercept[0] += length * shift
        for i in range(np.uintp(z.shape[0])):
            z[i] += length * rows.change[i]
    if has_intercept:
        value = _balance(loss, rows, z, intercept, value, slope_sum, bend_sum)
    return value


@kernel
def _balance(loss, rows, z, intercept, value, slope_sum, bend_sum):
    """Newton steps of the intercept alone: a dual point needs Σρ = 0, and every score is off by the same otherwise."""
    for _ in range(MAX_BALANCE):
        if bend_sum <= 0.0 or abs(slope_sum) <= 1e-14:
            break
        shift = -slope_sum / bend_sum
        rows.change[:] = shift
        there, slope_sum, bend_sum = _expand(loss, rows, z, 1.0)
        if not there <= value * (1.0 + 4.0 * np.finfo(z.dtype).eps) or shift == 0.0:
            break
        for i in range(np.uintp(z.shape[0])):
            z[i] += rows.change[i]
        intercept[0] += shift
        value = there
    return value


@kernel
def _search(loss, penalty, r, chosen, rows, z, w, old, value, promise, noise):
    """The longest of the steps 1, ½, ¼, … to which the objective falls as promised; zero where none does.

    Returns also what `_expand` does, of the point that the step leads to.
    """
    here = 0.0
    for a in range(chosen.shape[0]):
        here += penalty_value(penalty, chosen[a], r, old[a])
    noise *= value + here
    length = 1.0 if promise < noise else 0.0  # near the optimum promises are lost in rounding; steps are still good
    for halvings in range(MAX_HALVINGS + 1):
        length = length if halvings < MAX_HALVINGS else 0.0
        there, slope_sum, bend_sum = _expand(loss, rows, z, length)
        total = there
        for a in range(chosen.shape[0]):
            total += penalty_value(penalty, chosen[a], r, old[a] + length * (w[a] - old[a]))
        if length == 0.0 or total <= value + here + DECREASE * length * promise + noise:
            break
        length *= 0.5
    return length, there, slope_sum, bend_sum
