"""Proximal Newton steps for one score column on a working set, with the Hessian as a small dense matrix.

    min_δ  g'δ + ½ δ'Hδ + αΩ(w + δ),   H = X_S' D X_S

With few features and many rows, H costs about as much as a few visits per feature. The model is then minimised by block
coordinate descent without any access to rows. The intercept is eliminated from the model. A line search along δ ensures
that the objective itself decreases.

Memory: X_S by rows, 8|S|² bytes, and n numbers for X_S·δ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.design.products import gram, rmatmul
from lineal.problem.objective import Objective
from lineal.solvers.block_cd.chosen_features import ChosenFeatures
from lineal.solvers.block_cd.group_descent import feature, members

#: Largest number of features of a working set, and of stored entries per sparse row (on average).
MAX_FEATURES, MAX_ENTRIES = 1024, 60

#: The model has converged when its largest violation is this fraction of the first one; and the maximum of sweeps.
MODEL_FRACTION, MAX_SWEEPS = 0.03, 200

#: Maximum number of updates of one group on its own model.
MAX_UPDATES = 20

#: Required fraction of the decrease that the model predicts, and trials of the line search.
DECREASE, MAX_TRIALS = 0.01, 20


def is_worthwhile(objective: Objective, n_features: int, entries: int) -> bool:
    """Whether the matrix costs less than it saves: one score column, few features, and rows that are short or dense."""
    n = max(1, objective.engine.shape[0])
    if objective.loss.is_direct or objective.engine.n_columns > 1 or not 0 < n_features <= MAX_FEATURES:
        return False
    return entries >= 0.5 * n * n_features or entries <= MAX_ENTRIES * n


class GramNewton(ChosenFeatures):
    """Proximal Newton steps on the features of a working set."""

    def run(self, max_steps: int, fraction: float) -> np.ndarray:
        """Do steps until the largest violation is this fraction of the first; returns the rows `chosen` of θ."""
        value, goal = self.value(0.0, self.theta), 0.0
        for number in range(max_steps):
            direction, predicted_decrease, violation = self._direction()
            if violation <= goal or not predicted_decrease < 0.0:
                break
            if number == 0:
                goal = fraction * violation
            step_sizes = [0.5**halvings for halvings in range(MAX_TRIALS)]
            new_value = self.search(direction, DECREASE * predicted_decrease, value, step_sizes)
            if new_value is None:
                break
            value = new_value
        return self.solution()

    def _direction(self) -> tuple[np.ndarray, float, float]:
        """Direction to the minimum of the model, the (negative) change that it predicts, and the largest violation."""
        gradient, p = self.rows.gradient()[:, 0].astype(np.float64), self.d
        X, threads, D = self.X, self.part.engine.threads, self.piece["D"]
        means = None if self.rows.centred.means is None else self.rows.centred.means[:, 0]
        H = gram(X, D[:, 0], threads, means)
        reduced = gradient[:p].copy()  # after the elimination of the intercept
        total, cross = 0.0, np.zeros(p)
        if means is not None:
            total = float(D.sum(dtype=np.float64))
            cross = rmatmul(X, D, threads=threads)[:, 0] - means * total
        if total > 0.0:
            H -= np.outer(cross, cross / total)
            reduced -= cross * (gradient[p] / total)
        W = np.ascontiguousarray(self.theta[:p], np.float64)
        w, regulariser = W[:, 0].copy(), self.regulariser
        violation = minimise(
            regulariser.penalty, regulariser.groups, regulariser.strengths, QuadraticModel(H, reduced, w),
            MODEL_FRACTION, MAX_SWEEPS,
        )  # fmt: skip
        direction = np.zeros(self.theta.shape)
        direction[:p, 0] = w - W[:, 0]
        if means is not None:
            violation = max(violation, self.part.unit * abs(gradient[p]))
            direction[p, 0] = -(gradient[p] + float(cross @ direction[:p, 0])) / total if total > 0.0 else 0.0
        predicted = float(gradient @ direction[:, 0]) + regulariser.value(W + direction[:p]) - regulariser.value(W)
        return direction.astype(self.theta.dtype), predicted, violation


class QuadraticModel(NamedTuple):
    """Hessian of a quadratic model, its gradient at w, and the weights w; updates change the last two."""

    H: Any
    gradient: Any
    w: Any


@kernel
def minimise(penalty, groups, strengths, model, fraction, max_sweeps):
    """Minimise a quadratic model plus αΩ(w) by block coordinate descent; changes w and the gradient of the model.

    Stops when the largest violation of a sweep is this fraction of that of the first sweep, which is returned.
    """
    n_groups = strengths.shape[0]
    longest = 1
    for g in range(n_groups):
        start, stop = members(groups, g)
        longest = max(longest, stop - start)
    scratch = np.empty((4, longest))
    features = np.empty(longest, np.int64)
    first, goal = 0.0, 0.0
    for sweep in range(max_sweeps):
        worst = 0.0
        for g in range(n_groups):
            start, stop = members(groups, g)
            for f in range(start, stop):
                features[f - start] = feature(groups, f)
            violation = _update(penalty, strengths[g], model, features[: stop - start], scratch, 0.1 * goal)
            worst = max(worst, violation)
        if sweep == 0:
            first, goal = worst, fraction * worst
        if worst <= goal:
            break
    return first


@kernel
def _update(penalty, strength, model, features, scratch, enough):
    """Minimise the model with respect to one group, unless its violation is small; returns the violation before."""
    H, size = model.H, features.shape[0]
    old, new, gradient, step = scratch[0][:size], scratch[1][:size], scratch[2][:size], scratch[3][:size]
    bound = 0.0  # of the largest eigenvalue
    for f in range(size):
        old[f] = model.w[features[f]]
        new[f] = old[f]
        gradient[f] = model.gradient[features[f]]
        row = 0.0
        for other in range(size):
            row += abs(H[features[f], features[other]])
        bound = max(bound, row)
    violation = penalty.group_violation(old, gradient, strength)
    if violation <= enough or not bound > 0.0:
        return violation
    for _ in range(MAX_UPDATES):
        for f in range(size):
            step[f] = new[f] - gradient[f] / bound
        penalty.group_prox(step, strength / bound, step)
        largest = 0.0
        for f in range(size):
            largest = max(largest, abs(step[f] - new[f]))
            step[f] -= new[f]
            new[f] += step[f]
        for f in range(size):
            for other in range(size):
                gradient[f] += H[features[f], features[other]] * step[other]
        if largest * bound <= 0.1 * violation:
            break
    for f in range(size):
        change = new[f] - old[f]
        if change != 0.0:
            j = features[f]
            model.w[j] = new[f]
            for a in range(model.w.shape[0]):
                model.gradient[a] += change * H[j, a]
    return violation
