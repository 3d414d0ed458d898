"""Proximal Newton steps of one score column on a working set of blocks, whose Hessian is kept as a small matrix.

    min_δ  g'δ + ½ δ'Hδ + αΩ(w + δ),   H = X_S' D X_S

For few features and many rows H costs about as much as a few visits of each, and the model is then minimised by block
coordinate descent without any row: a block is left when its own small model is solved. The intercept is eliminated
from the model. A search along δ sees to it that the objective itself falls.

Memory: X_S by rows, 8|S|² bytes, and n numbers of X_S·δ.
"""

from __future__ import annotations

import numpy as np

from lineal.core.jit import kernel
from lineal.design.products import gram, rmatmul
from lineal.problem.objective import Objective
from lineal.solvers.block_cd.chosen_features import ChosenFeatures

#: Features of a working set at most, and entries of one of its sparse rows, in the mean.
MAX_FEATURES, MAX_ENTRIES = 1024, 60

#: The model is good enough once its largest violation is this share of the one it began with; sweeps to get there.
MODEL_SHARE, MAX_SWEEPS = 0.03, 200

#: Steps of one block on its own model.
BLOCK_STEPS = 20

#: Share of the decrease that the model promises, and halvings of a step.
DECREASE, MAX_HALVINGS = 0.01, 20


def is_worthwhile(objective: Objective, n_features: int, entries: int) -> bool:
    """Whether the matrix costs less than it saves: one column, few features, rows that are short or dense."""
    n = max(1, objective.engine.shape[0])
    if objective.loss.is_direct or objective.engine.n_columns > 1 or not 0 < n_features <= MAX_FEATURES:
        return False
    return entries >= 0.5 * n * n_features or entries <= MAX_ENTRIES * n


class GramNewton(ChosenFeatures):
    """Steps on the features of a working set."""

    def run(self, steps: int, share: float) -> np.ndarray:
        """Newton steps until the largest violation is a `share` of the first; the rows of θ for `chosen`."""
        value, goal = self.value(0.0, self.theta), 0.0
        for number in range(steps):
            direction, promise, violation = self._direction()
            if violation <= goal or not promise < 0.0:
                break
            if number == 0:
                goal = share * violation
            lengths = [0.5**halvings for halvings in range(MAX_HALVINGS)]
            found = self.search(direction, DECREASE * promise, value, lengths)
            if found is None:
                break
            value = found
        return self.answer()

    def _direction(self) -> tuple[np.ndarray, float, float]:
        """Where the model is least, the decrease that it promises, and the largest violation here."""
        gradient, p = self.rows.gradient()[:, 0].astype(np.float64), self.d
        X, threads, D = self.X, self.part.engine.threads, self.piece["D"]
        means = None if self.rows.centred.means is None else self.rows.centred.means[:, 0]
        H = gram(X, D[:, 0], threads, means)
        slope = gradient[:p].copy()
        total, cross = 0.0, np.zeros(p)
        if means is not None:
            total = float(D.sum(dtype=np.float64))
            cross = rmatmul(X, D, threads=threads)[:, 0] - means * total
        if total > 0.0:
            H -= np.outer(cross, cross / total)
            slope -= cross * (gradient[p] / total)
        W = np.ascontiguousarray(self.theta[:p], np.float64)
        w, regulariser = W[:, 0].copy(), self.regulariser
        blocks = regulariser.groups
        violation = minimise(
            regulariser.penalty, blocks.offsets, blocks.features, regulariser.strengths, H, slope.copy(), w,
            MODEL_SHARE, MAX_SWEEPS,
        )  # fmt: skip
        direction = np.zeros(self.theta.shape)
        direction[:p, 0] = w - W[:, 0]
        if means is not None:
            violation = max(violation, self.part.unit * abs(gradient[p]))
            direction[p, 0] = -(gradient[p] + float(cross @ direction[:p, 0])) / total if total > 0.0 else 0.0
        promise = float(gradient @ direction[:, 0]) + regulariser.value(W + direction[:p]) - regulariser.value(W)
        return direction.astype(self.theta.dtype), promise, violation


@kernel
def minimise(penalty, offsets, features, strengths, H, slope, w, share, sweeps):
    """Block coordinate descent on slope'δ + ½δ'Hδ + αΩ(w + δ), w and the slope moved.

    Ends when the largest violation that a sweep meets is a `share` of that of the first, which is returned.
    """
    grouped = features.shape[0] > 0
    n_blocks = strengths.shape[0]
    longest = 1
    for g in range(n_blocks):
        if grouped:
            longest = max(longest, offsets[g + 1] - offsets[g])
    scratch = np.empty((4, longest))
    members = np.empty(longest, np.int64)
    first, enough = 0.0, 0.0
    for sweep in range(sweeps):
        worst = 0.0
        for g in range(n_blocks):
            size = offsets[g + 1] - offsets[g] if grouped else 1
            for f in range(size):
                members[f] = features[offsets[g] + f] if grouped else g
            worst = max(worst, _visit(penalty, strengths[g], H, slope, w, members[:size], scratch, 0.1 * enough))
        if sweep == 0:
            first, enough = worst, share * worst
        if worst <= enough:
            break
    return first


@kernel
def _visit(penalty, strength, H, slope, w, members, scratch, enough):
    """Solve the model of one block; returns its violation before."""
    size = members.shape[0]
    old, new, pull, trial = scratch[0][:size], scratch[1][:size], scratch[2][:size], scratch[3][:size]
    bound = 0.0
    for f in range(size):
        old[f] = w[members[f]]
        new[f] = old[f]
        pull[f] = slope[members[f]]
        row = 0.0
        for other in range(size):
            row += abs(H[members[f], members[other]])
        bound = max(bound, row)  # of the largest eigenvalue
    violation = penalty.group_violation(old, pull, strength)
    if violation <= enough or not bound > 0.0:
        return violation
    for _ in range(BLOCK_STEPS):
        for f in range(size):
            trial[f] = new[f] - pull[f] / bound
        penalty.group_prox(trial, strength / bound, trial)
        moved = 0.0
        for f in range(size):
            moved = max(moved, abs(trial[f] - new[f]))
            trial[f] -= new[f]
            new[f] += trial[f]
        for f in range(size):
            for other in range(size):
                pull[f] += H[members[f], members[other]] * trial[other]
        if moved * bound <= 0.1 * violation:
            break
    for f in range(size):
        step = new[f] - old[f]
        if step != 0.0:
            j = members[f]
            w[j] = new[f]
            for a in range(w.shape[0]):
                slope[a] += step * H[j, a]
    return violation
