"""Weights and intercepts of dual coordinate descent, and passes over rows; `dual_cd.py` explains the method."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.rng import generator
from lineal.design import Design
from lineal.problem.loop_state import LoopState, put
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.solvers.dual_cd.column_groups import ColumnGroups
from lineal.solvers.dual_cd.holders import holder_of
from lineal.solvers.dual_cd.margin import GROUP_COLUMNS, aligned_zeros, margin_pass, stored_columns
from lineal.solvers.dual_cd.row_set import RowSet
from lineal.solvers.dual_cd.rows import PassColumns
from lineal.solvers.dual_cd.simplex import kept_pass, simplex_pass

#: Largest number of passes over the kept classes after each pass over all classes. They end if the gain of one is below
#: this fraction of the gain of the pass over all classes.
KEPT_PASSES, KEPT_GAIN = 10, 0.1

#: Rows of W that are changed at a time, which limits the memory of temporary arrays.
WEIGHT_ROWS = 4096


class Group:
    """A group of columns with its own weights and intercepts.

    `gain` is the gain of the last pass over all classes, and `extra` that of the following passes over kept classes;
    `visited` is the number of rows that the last pass visited.
    `total` is the weighted sum Σ s u of all dual variables, and `others` that of rows outside of the current set.
    """

    def __init__(self, at: int, first: int, last: int, W: np.ndarray, b: np.ndarray) -> None:
        self.at, self.first, self.last = at, first, last
        self.W, self.b, self.M = W, b.copy(), np.zeros_like(b)
        self.total, self.others = np.zeros(last - first), np.zeros(last - first)
        self.gain, self.extra, self.visited = 0.0, 0.0, 0

    @property
    def k(self) -> int:
        """Number of columns."""
        return self.last - self.first

    def changing(self) -> dict[str, Any]:
        """What passes change, for a checkpoint."""
        arrays = {"W": self.W, "b": self.b, "M": self.M, "total": self.total}
        return {"range": (self.first, self.last), "gain": self.gain, "extra": self.extra, **arrays}

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `changing`."""
        for name in ("W", "b", "M", "total"):
            put(getattr(self, name), saved[name])
        self.gain, self.extra = saved["gain"], saved["extra"]


class Ascent(LoopState):
    """Weights of all columns, and passes over the rows that improve the dual variables.

    `inner_passes` is the number of passes over a set of rows before the next set, for rows in a file.
    """

    state_names = ("columns", "rows", "state", "gain", "gained", "passes", "visited")

    def __init__(
        self,
        objective: Objective,
        start: np.ndarray | Solution | None,
        threads: int,
        seed: int,
        shrinking: bool,
        inner_passes: int = 1,
    ) -> None:
        self.objective, self.threads, self.shrinking = objective, threads, shrinking
        k, self.inner_passes = objective.engine.n_columns, inner_passes
        self.ranges = pool.ranges(k, 1 if objective.loss.is_direct else _pieces(k, threads))
        self.holder = holder_of(objective, self.ranges, threads, seed)
        self.geometry = self.holder.geometry
        self.alpha, self.beta = self.geometry.alpha, self.geometry.beta
        _, b = objective.split(objective.theta_of(start))
        self.groups = [
            Group(at, first, last, self._zeros(last - first), b[first:last])
            for at, (first, last) in enumerate(self.ranges)
        ]
        self.holder.start(self._add, start)
        for group in self.groups:
            self._add_centre(group)
            if self.beta > 0.0:
                group.M[:] = group.total / self.alpha
                group.b += (self.geometry.mean_square * group.M.astype(np.float64)).astype(group.b.dtype)
        self.state = generator(seed)
        self.gain, self.gained, self.passes, self.visited = math.inf, 0.0, 0, 0

    @property
    def columns(self) -> list[dict[str, Any]]:
        """What passes change, by groups of columns."""
        return [group.changing() for group in self.groups]

    @property
    def rows(self) -> dict[str, Any]:
        """What passes change per row."""
        return self.holder.changing()

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "columns":
            self._restore_columns(value)
        elif name == "rows":
            self.holder.restore(value)
        else:
            super().restore_part(name, value)

    def _restore_columns(self, saved: list[dict[str, Any]]) -> None:
        """Restore all groups, which are others if the number of threads is another one."""
        if [one["range"] for one in saved] == [(group.first, group.last) for group in self.groups]:
            for group, one in zip(self.groups, saved):
                group.restore(one)
            return
        for name in ("W", "b", "M", "total"):
            parts = [one[name][..., : one["range"][1] - one["range"][0]] for one in saved]
            joined = np.concatenate(parts, axis=-1)
            for group in self.groups:
                put(getattr(group, name)[..., : group.k], joined[..., group.first : group.last])

    def _zeros(self, k: int) -> np.ndarray:
        width = k if self.objective.loss.is_direct else stored_columns(k)
        return aligned_zeros(self.geometry.mean.shape[0], width, self.objective.engine.dtype)

    def _add(self, X: Design, weights: np.ndarray, U: ColumnGroups) -> None:
        """Subtract (1/α) X'SU of some rows from the weights, and add up their sums Σ s u."""
        scale = (weights / self.alpha).astype(X.dtype)
        for group, points in zip(self.groups, U.groups):
            if points.any():
                _add_rows(X.layout, scale, points, group.W.shape[1], group.W.reshape(-1))
            group.total += _weighted_sums(weights, points)

    def _add_centre(self, group: Group) -> None:
        """Add the point V towards which the penalty shrinks."""
        centre, stretch = self.objective.regulariser.centre, self.geometry.stretch
        if centre is None:
            return
        for start in range(0, len(group.W), WEIGHT_ROWS):
            rows = slice(start, start + WEIGHT_ROWS)
            part = centre[rows, group.first : group.last]
            group.W[rows, : group.k] += part if stretch is None else part * stretch[rows, None]

    def run_pass(self, must_end: Callable[[], bool] = lambda: False) -> None:
        """Visit every active row of every group, set by set; `must_end` can end the pass after a set of rows."""
        gains: list[float] = []
        with closing(self.holder.visits()) as visits:
            for rows in visits:
                gains.append(self._visit(rows))
                if must_end():
                    break
        self.gain = math.fsum(gains)
        self.passes += 1

    def _visit(self, rows: RowSet) -> float:
        """Passes over one set of rows; returns the gain of the first one, which is what one pass gains."""
        first, slack, share = 0.0, rows.slack, 1.0
        if not self.holder.is_one_set:
            share = float(rows.weights.sum())
            for group in self.groups:
                group.others = group.total - _weighted_sums(rows.weights, rows.U.groups[group.at])
        for inner in range(self.inner_passes):
            order = rows.shuffled(self.state, self.passes * self.inner_passes + inner)
            pool.run([partial(self._update, group, rows, order, share) for group in self.groups], self.threads)
            gain = 0.5 * self.alpha * math.fsum(group.gain for group in self.groups)
            self.visited += sum(group.visited for group in self.groups)
            self.gained += gain + 0.5 * self.alpha * math.fsum(group.extra for group in self.groups)
            if inner == 0:
                first, slack = gain, list(rows.slack)
        rows.slack = slack
        return first

    @property
    def imbalance(self) -> float:
        """Largest |Σ s u| of all columns, which is zero at a solution with an intercept."""
        if self.beta == 0.0:
            return 0.0
        return self.alpha * max(float(np.abs(group.M).max(initial=0.0)) for group in self.groups)

    @property
    def relative_gain(self) -> float:
        """Gain of the last pass, relative to the gain of all passes."""
        return self.gain / self.gained if self.gained > 0.0 else 0.0 if self.passes else math.inf

    def _update(self, group: Group, rows: RowSet, order: np.ndarray, share: float) -> None:
        """Update the dual variables of the active rows of a group, then the multiplier of its intercept.

        The multiplier takes the part of its update that the rows have in the weight of all rows.
        """
        loss, at, U = self.objective.loss, group.at, rows.U.groups[group.at]
        visited = order[rows.active[at][order]]
        group.visited = len(visited)
        slack = rows.slack[at] if self.shrinking else math.inf
        columns = PassColumns(
            group.W.reshape(-1), group.b, group.M, U, rows.active[at], group.first, group.k, group.W.shape[1]
        )
        given = (loss, loss.dual_curvature, rows.X.layout)
        if not loss.is_direct:
            group.gain, rows.slack[at] = margin_pass(*given, visited, rows.given, columns, slack)
        else:
            group.gain, rows.slack[at] = simplex_pass(*given, visited, rows.given, columns, slack, rows.kept)
            group.extra = 0.0
            for _ in range(KEPT_PASSES if len(rows.kept) else 0):
                order = rows.shuffled(self.state, self.passes)
                gain = kept_pass(*given, order, rows.given, columns, rows.kept)
                group.extra += gain
                if gain < KEPT_GAIN * group.gain:
                    break
        if self.beta > 0.0:
            group.total = group.others + _weighted_sums(rows.weights, U)
            group.M[:] = group.total / self.alpha
            group.b -= (share * self.beta * group.total).astype(group.b.dtype)

    @property
    def work(self) -> float:
        """Visits of rows by all groups of columns so far, in units of passes over all rows."""
        return self.visited / max(1, self.objective.engine.shape[0] * len(self.groups))

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        return self.holder.reactivate()

    def theta(self) -> np.ndarray:
        """Weights and intercepts of all groups, joined."""
        mean, stretch = self.geometry.mean, self.geometry.stretch
        theta = np.zeros(self.objective.shape, self.objective.engine.dtype)
        W, b = self.objective.split(theta)
        for group in self.groups:
            W[:, group.first : group.last] = group.W[:, : group.k]
            if self.beta > 0.0:
                for start in range(0, len(W), WEIGHT_ROWS):
                    rows = slice(start, start + WEIGHT_ROWS)
                    W[rows, group.first : group.last] += np.outer(mean[rows], group.M)
                b[group.first : group.last] = group.b - self.geometry.mean_square * group.M
        if stretch is not None:
            W /= stretch[:, None].astype(W.dtype)
        return theta


def _pieces(k: int, threads: int) -> int:
    """Number of groups of at most GROUP_COLUMNS columns: a multiple of the number of threads."""
    pieces = -(-k // GROUP_COLUMNS)
    return min(k, -(-pieces // threads) * threads)


@kernel
def _weighted_sums(weights, U):
    """Weighted sum Σ_i weights_i·u_i of the rows of U, in float64."""
    total = np.zeros(U.shape[1])
    for i in range(U.shape[0]):
        for r in range(U.shape[1]):
            total[r] += weights[i] * np.float64(U[i, r])
    return total


@kernel
def _add_rows(layout, scale, U, width, W):
    """Subtract Σ_i scale_i·x_i·u_i' from W, which has `width` columns."""
    step = np.zeros(width, W.dtype)
    for i in range(U.shape[0]):
        for r in range(U.shape[1]):
            step[r] = -scale[i] * U[i, r]
        layout.row_update(i, step, 0, width, W)
