"""State of dual coordinate descent, and its passes over the rows; `dual_cd.py` explains the method."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.rng import generator, shuffle
from lineal.design.orders import by_rows
from lineal.design.products import matmul, row_norms, scale_columns
from lineal.engine.local import LocalEngine
from lineal.numerics.local_only import local_rows
from lineal.numerics.vectors import dot
from lineal.problem.loop_state import LoopState, put
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.problem.steps import RowGradients
from lineal.problem.targets import OneLabel
from lineal.solvers.dual_cd.column_groups import ColumnGroups
from lineal.solvers.dual_cd.margin import GROUP_COLUMNS, aligned_zeros, margin_pass, stored_columns
from lineal.solvers.dual_cd.rows import PassColumns, PassRows
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES, kept_pass, simplex_pass

#: Lengths of runs of neighbouring rows that are visited together: (number of passes, rows per run); then one row per
#: run. Neighbours share cache lines, but the last digits converge many times faster in a completely random order.
RUN_ROWS = ((4, 64), (10, 8))

#: Largest number of passes over the kept classes after each pass over all classes. They end if the gain of one is below
#: this fraction of the gain of the pass over all classes.
KEPT_PASSES, KEPT_GAIN = 10, 0.1

#: Rows of W that are changed at a time, which limits the memory of temporary arrays.
WEIGHT_ROWS = 4096

#: β in units of mean‖x‖²/α. Larger values balance the intercept sooner, and make the updates smaller.
BALANCE = 0.1


class Group:
    """A group of columns with its own weights, intercepts, dual variables and active rows.

    `gain` is the gain of the last pass over all classes, and `extra` that of the following passes over kept classes.
    """

    def __init__(self, first: int, last: int, W: np.ndarray, b: np.ndarray, U: np.ndarray, active: np.ndarray) -> None:
        self.first, self.last, self.U = first, last, U
        self.W, self.b, self.M, self.active = W, b.copy(), np.zeros_like(b), active.copy()
        self.slack, self.gain, self.extra = math.inf, 0.0, 0.0

    @property
    def k(self) -> int:
        """Number of columns."""
        return self.last - self.first

    def changing(self) -> dict[str, Any]:
        """What passes change, for a checkpoint."""
        numbers = {"slack": self.slack, "gain": self.gain, "extra": self.extra}
        arrays = {"W": self.W, "U": self.U, "b": self.b, "M": self.M, "active": self.active}
        return {"range": (self.first, self.last), **numbers, **arrays}

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `changing`."""
        for name in ("W", "U", "b", "M"):
            put(getattr(self, name), saved[name])
        self.active, self.slack, self.gain, self.extra = (saved[name] for name in ("active", "slack", "gain", "extra"))


class Ascent(LoopState):
    """Dual variables and weights of all columns, and passes over the rows that improve them."""

    state_names = ("columns", "kept", "state", "gain", "gained", "passes")

    def __init__(
        self, objective: Objective, start: np.ndarray | Solution | None, threads: int, seed: int, shrinking: bool
    ) -> None:
        engine, self.objective = local_rows("dual_cd", objective), objective
        self.threads, self.shrinking = threads, shrinking
        strengths = objective.regulariser.strengths if engine.shape[1] else np.array([objective.regulariser.alpha])
        self.alpha = float(strengths.max())
        self.stretch = np.sqrt(strengths / self.alpha) if strengths.min() < self.alpha else None
        X = by_rows(engine.X)
        self.X = X if self.stretch is None else scale_columns(X, 1.0 / self.stretch)
        self.by_rows = objective if X is engine.X else replace(objective, engine=replace(engine, X=X))
        self.rows = self._rows(engine)
        self.weights, self.active = engine.weights, engine.weights > 0.0
        k = engine.n_columns
        self.ranges = pool.ranges(k, 1 if objective.loss.is_direct else _pieces(k, threads))
        self.U = self._first_dual_point(start)
        self.groups = self._first_groups(objective.theta_of(start))
        keeps = objective.loss.is_direct and objective.loss.has_sparse_duals and k > 2 * KEPT_CLASSES
        self.kept = np.zeros((self.X.shape[0], 1 + KEPT_CLASSES) if keeps else (0, 0), np.int32)
        self.state, self.is_sorted = generator(seed), _is_sorted(self.rows.columns, self.rows.starts)
        self.gain, self.gained, self.passes = math.inf, 0.0, 0

    @property
    def columns(self) -> list[dict[str, Any]]:
        """What passes change, by groups of columns."""
        return [group.changing() for group in self.groups]

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "columns":
            self._restore_columns(value)
        else:
            super().restore_part(name, value)

    def _restore_columns(self, saved: list[dict[str, Any]]) -> None:
        """Restore all groups. With another number of threads there are other groups, which begin with all rows."""
        if [one["range"] for one in saved] == [(group.first, group.last) for group in self.groups]:
            for group, one in zip(self.groups, saved):
                group.restore(one)
            return
        for name in ("W", "U", "b", "M"):
            parts = [one[name][..., : one["range"][1] - one["range"][0]] for one in saved]
            joined = np.concatenate(parts, axis=-1)
            for group in self.groups:
                put(getattr(group, name)[..., : group.k], joined[..., group.first : group.last])

    def _rows(self, engine: LocalEngine) -> PassRows:
        """Labels of the rows and the factors of their updates, after the mean of the rows is subtracted."""
        weights, squares, dots = engine.weights, row_norms(self.X), np.zeros(self.X.shape[0])
        self.mean, self.mean_square = np.zeros(self.X.shape[1]), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.objective.fit_intercept:
                self.mean = self.objective.moments[0][:, 0] / (1.0 if self.stretch is None else self.stretch)
                self.mean_square = dot(self.mean, self.mean)
                dots = matmul(self.X, self.mean[:, None], threads=self.threads)[:, 0]
                squares = np.maximum(squares - 2.0 * dots + self.mean_square, 0.0)
            spread = dot(weights, squares)
            self.beta = BALANCE * spread / self.alpha + 1.0 if self.objective.fit_intercept else 0.0
            scale = self._narrow(weights / self.alpha)
            shift = self._narrow(weights * (self.beta - dots / self.alpha))
            tilt = self._narrow(dots - self.mean_square)
            q = self._narrow(weights * (squares / self.alpha + self.beta))
        q = np.maximum(q, self.X.dtype.type(1e-12))  # the score of an empty row does not change
        offsets = np.empty((0, 0), self.X.dtype) if engine.offsets is None else engine.offsets
        return PassRows(*_labels(engine.targets, self.X.shape[0]), scale, q, shift, tilt, offsets)

    def _narrow(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers in the precision of X; an error if that overflows."""
        narrow = numbers.astype(self.X.dtype)
        check_finite(float(np.abs(narrow).max(initial=0.0)), "the squared norm of a row over α")
        return narrow

    def _first_dual_point(self, start: np.ndarray | Solution | None) -> ColumnGroups:
        """Dual variables at the start: those of a solution, the gradients of the loss at given parameters, or zero."""
        n, k = self.X.shape[0], self.objective.engine.n_columns
        given = start.dual_point if isinstance(start, Solution) else None
        if start is None:
            return ColumnGroups.zeros(n, self.ranges, self.X.dtype)
        if given is None or given.shape != (n, k):
            theta = self.objective.split(self.objective.theta_of(start))
            given = np.concatenate(self.objective.engine.gather(RowGradients(self.objective.loss), *theta))
        return ColumnGroups.split(given, self.ranges, self.X.dtype)

    def _first_groups(self, theta: np.ndarray) -> list[Group]:
        """Groups of columns with the weights that belong to the dual variables."""
        _, b = self.objective.split(theta)
        groups = [
            Group(first, last, self._weights(first, last, U), b[first:last], U, self.active)
            for (first, last), U in zip(self.ranges, self.U.groups)
        ]
        for group in groups if self.beta > 0.0 else []:
            self._balance(group)
            group.b += (self.mean_square * group.M.astype(np.float64)).astype(group.b.dtype)
        return groups

    def _weights(self, first: int, last: int, U: np.ndarray) -> np.ndarray:
        """Weights V − (1/α) X'SU of a range of columns."""
        centre = self.objective.regulariser.centre
        k = last - first
        width = k if self.objective.loss.is_direct else stored_columns(k)
        W = aligned_zeros(self.X.shape[1], width, self.X.dtype)
        if U.any():
            _add_rows(self.X.layout, self.rows.scale, U, width, W.reshape(-1))
        if centre is not None:
            for start in range(0, len(W), WEIGHT_ROWS):
                rows = slice(start, start + WEIGHT_ROWS)
                part = centre[rows, first:last]
                W[rows, :k] += part if self.stretch is None else part * self.stretch[rows, None]
        return W

    def _balance(self, group: Group) -> np.ndarray:
        """Weighted sum Σ s u of the dual variables of a group; updates its M = (1/α) Σ s u."""
        total = _weighted_sums(self.weights, group.U)
        group.M[:] = total / self.alpha
        return total

    def run_pass(self) -> None:
        """Visit every active row of every group once."""
        order = np.empty(self.X.shape[0], np.int64)
        _random_order(self.state, self.run_rows, order)
        pool.run([partial(self._visit, group, order) for group in self.groups], self.threads)
        self.gain = 0.5 * self.alpha * math.fsum(group.gain for group in self.groups)
        self.gained += self.gain + 0.5 * self.alpha * math.fsum(group.extra for group in self.groups)
        self.passes += 1

    @property
    def run_rows(self) -> int:
        """Number of neighbouring rows that the next pass visits together."""
        return 1 if self.is_sorted else next((rows for until, rows in RUN_ROWS if self.passes < until), 1)

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

    def _visit(self, group: Group, order: np.ndarray) -> None:
        """Update the dual variables of the active rows of a group, then the multiplier of its intercept."""
        loss, rows = self.objective.loss, order[group.active[order]]
        slack = group.slack if self.shrinking else math.inf
        columns = PassColumns(
            group.W.reshape(-1), group.b, group.M, group.U, group.active, group.first, group.k, group.W.shape[1]
        )
        given = (loss, loss.dual_curvature, self.X.layout)
        if not loss.is_direct:
            group.gain, group.slack = margin_pass(*given, rows, self.rows, columns, slack)
        else:
            group.gain, group.slack = simplex_pass(*given, rows, self.rows, columns, slack, self.kept)
            group.extra = 0.0
            for _ in range(KEPT_PASSES if len(self.kept) else 0):
                _random_order(self.state, self.run_rows, order)
                gain = kept_pass(*given, order, self.rows, columns, self.kept)
                group.extra += gain
                if gain < KEPT_GAIN * group.gain:
                    break
        if self.beta > 0.0:
            group.b -= (self.beta * self._balance(group)).astype(group.b.dtype)

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        shrunk = any(np.count_nonzero(group.active) < np.count_nonzero(self.active) for group in self.groups)
        for group in self.groups:
            group.active, group.slack = self.active.copy(), math.inf
        return shrunk

    def theta(self) -> np.ndarray:
        """Weights and intercepts of all groups, joined."""
        theta = np.zeros(self.objective.shape, self.X.dtype)
        W, b = self.objective.split(theta)
        for group in self.groups:
            W[:, group.first : group.last] = group.W[:, : group.k]
            if self.beta > 0.0:
                for start in range(0, len(W), WEIGHT_ROWS):
                    rows = slice(start, start + WEIGHT_ROWS)
                    W[rows, group.first : group.last] += np.outer(self.mean[rows], group.M)
                b[group.first : group.last] = group.b - self.mean_square * group.M
        if self.stretch is not None:
            W /= self.stretch[:, None].astype(W.dtype)
        return theta


def _pieces(k: int, threads: int) -> int:
    """Number of groups of at most GROUP_COLUMNS columns: a multiple of the number of threads."""
    pieces = -(-k // GROUP_COLUMNS)
    return min(k, -(-pieces // threads) * threads)


def _labels(targets: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Label columns of all rows, and the position of the first one of each row."""
    if isinstance(targets, OneLabel):
        return targets.columns, np.arange(n + 1)
    return targets.columns, targets.starts


def _is_sorted(columns: np.ndarray, starts: np.ndarray) -> bool:
    """Whether neighbouring rows often have the same label, so that they must not be visited together."""
    firsts = columns[np.minimum(starts[:-1], max(len(columns) - 1, 0))] if len(columns) else columns
    if len(firsts) < 2:
        return False
    fractions = np.unique(firsts, return_counts=True)[1] / len(firsts)
    expected, observed = float(fractions @ fractions), float(np.mean(firsts[1:] == firsts[:-1]))
    return observed > expected + 0.25 * (1.0 - expected)


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


@kernel
def _random_order(state, length, order):
    """Write a random order of runs of neighbouring rows, with the rows of each run in random order."""
    n = order.shape[0]
    runs = np.arange((n + length - 1) // length)
    shuffle(state, runs)
    at = 0
    for position in range(runs.shape[0]):
        start = runs[position] * length
        stop = min(start + length, n)
        for i in range(start, stop):
            order[at + i - start] = i
        shuffle(state, order[at : at + stop - start])
        at += stop - start
