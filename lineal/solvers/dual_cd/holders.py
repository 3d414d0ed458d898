"""Who holds the rows and their dual variables: this process, or a file that is loaded part by part.

Both hand out `RowSet`s to run passes over. Rows in memory are one `RowSet`, which lasts as long as the fit. Of a file,
every row is loaded once per iteration, with others from random places; dual variables come from the engine's scratch
and go back there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.design import Design
from lineal.design.orders import by_rows
from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.engine.streamed import Streamed
from lineal.numerics.dual_start import given_point
from lineal.numerics.vectors import dot
from lineal.problem.loop_state import Later, put
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.steps import RowGradients
from lineal.solvers.dual_cd.column_groups import ColumnGroups
from lineal.solvers.dual_cd.geometry import Geometry
from lineal.solvers.dual_cd.row_set import RowSet
from lineal.solvers.dual_cd.rows import PassRows
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES
from lineal.solvers.dual_cd.stored import StoredDuals

#: Called with some rows, their weights, and their dual variables.
AddRows = Callable[[Design, np.ndarray, ColumnGroups], None]

#: Number of runs of consecutive rows per load, at least. The more, the more a load resembles all rows.
RUNS_PER_LOAD = 16


class Holder(Protocol):
    """Holds rows and dual variables.

    Attributes
    ----------
    geometry : what updates of all rows have in common.
    objective : the objective, with the rows in the order that certificates read fastest.
    is_one_set : whether all rows are in one row set.
    """

    geometry: Geometry
    objective: Objective
    is_one_set: bool

    @property
    def U(self) -> Any:
        """Dual variables of all rows, from which certificates and other fits can start."""
        ...

    def start(self, add: AddRows, start: np.ndarray | Solution | None) -> None:
        """Find the first dual variables, those of a solution, gradients at given parameters, or zero, and add them."""
        ...

    def visits(self) -> Generator[RowSet]:
        """The row sets of one iteration. Their dual variables can be changed."""
        ...

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        ...

    def changing(self) -> dict[str, Any]:
        """What passes change, for a checkpoint."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `changing`. With another number of threads there are other groups, which begin with all rows."""
        ...


def keeps_classes(objective: Objective) -> bool:
    """Whether passes over the few classes that matter per row are worth it (see `simplex.py`)."""
    loss = objective.loss
    return bool(loss.is_direct and loss.has_sparse_duals and objective.engine.n_columns > 2 * KEPT_CLASSES)


class LocalHolder:
    """Rows in this process."""

    is_one_set = True

    def __init__(self, objective: Objective, ranges: list[tuple[int, int]], threads: int) -> None:
        self.outside, self.ranges = objective, ranges
        engine: Any = objective.engine
        geometry, by_row = Geometry.of(objective), by_rows(engine.X)
        X = geometry.stretched(by_row)
        squares, dots = geometry.distances(X, threads)
        self.geometry = geometry.with_spread(dot(engine.weights, squares))
        given = self.geometry.pass_rows(X.dtype, engine, squares, dots)
        is_same = by_row is engine.X
        self.objective = objective if is_same else replace(objective, engine=replace(engine, X=by_row))
        zeros = ColumnGroups.zeros(X.shape[0], ranges, X.dtype)
        self.rows = RowSet(X, given, engine.weights, zeros, keeps_classes(objective))

    @property
    def U(self) -> ColumnGroups:
        """Dual variables of all rows."""
        return self.rows.U

    def start(self, add: AddRows, start: np.ndarray | Solution | None) -> None:
        """Find the first dual variables, and add them."""
        if start is None:
            return
        point = given_point(self.outside, start)
        if point is None:
            theta = self.outside.split(self.outside.theta_of(start))
            point = np.concatenate(self.outside.engine.gather(RowGradients(self.outside.loss), *theta))
        rows = self.rows
        rows.U = ColumnGroups.split(point, self.ranges, rows.X.dtype)
        add(rows.X, rows.weights, rows.U)

    def visits(self) -> Generator[RowSet]:
        """All rows."""
        yield self.rows

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        return self.rows.reactivate()

    def changing(self) -> dict[str, Any]:
        """What passes change, for a checkpoint."""
        rows = self.rows
        return {"U": list(rows.U.groups), "active": list(rows.active), "slack": list(rows.slack), "kept": rows.kept}

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `changing`."""
        rows = self.rows
        put(rows.kept, saved["kept"])
        if [part.shape for part in saved["U"]] == [part.shape for part in rows.U.groups]:
            for target, part in zip(rows.U.groups, saved["U"]):
                put(target, part)
            rows.active, rows.slack = list(saved["active"]), list(saved["slack"])
        else:
            rows.U = ColumnGroups.split(np.concatenate(saved["U"], axis=1), self.ranges, rows.X.dtype)
            rows.reactivate()


class StreamHolder:
    """Rows in a file, of which one load of runs from random places is in memory. Each visit begins with all its rows.

    The slack of the first pass over a load is the largest violation in the first passes of the iteration before.
    """

    def __init__(self, objective: Objective, ranges: list[tuple[int, int]], seed: int) -> None:
        engine = objective.engine
        assert isinstance(engine, Streamed)
        self.objective, self.engine, self.ranges = objective, engine, ranges
        geometry = Geometry.of(objective)
        if objective.fit_intercept:
            geometry = geometry.with_spread(geometry.spread(objective.moments))
        self.geometry, self.runs = geometry, engine.runs(RUNS_PER_LOAD)
        self.order, self.state = np.arange(len(self.runs)), generator(seed, 1)
        self.is_one_set = len(engine.loads(self.runs)) == 1
        bounds = [(run.first, run.n) for run in self.runs]
        self.U = StoredDuals(engine.scratch, bounds, ranges, engine.dtype)
        self.slack = [math.inf for _ in ranges]

    def start(self, add: AddRows, start: np.ndarray | Solution | None) -> None:
        """Find the first dual variables, and add them: one pass over the file, unless they are zero."""
        if start is None:
            return
        point = given_point(self.objective, start)
        theta = None if point is not None else self.objective.split(self.objective.theta_of(start))
        gradients = RowGradients(self.objective.loss)
        for number, block in enumerate(self.engine.visit([[run] for run in self.runs], lambda block: block)):
            rows = gradients(block, *theta) if theta else np.asarray(point[block.first : block.first + block.n])
            U = ColumnGroups.split(rows, self.ranges, self.engine.dtype)
            add(self.geometry.stretched(block.X), block.weights, U)
            self.U.put([number], U)

    def visits(self) -> Generator[RowSet]:
        """Loads of runs in random order."""
        if not self.is_one_set:
            shuffle(self.state, self.order)
        loads = self.engine.loads([self.runs[number] for number in self.order.tolist()])
        ends = np.cumsum([len(load) for load in loads]).tolist()
        known, self.slack = self.slack, [0.0 for _ in self.ranges]
        keeps = keeps_classes(self.objective)
        for end, load, (block, given) in zip(ends, loads, self.engine.visit(loads, self._prepared)):
            numbers = self.order[end - len(load) : end].tolist()
            X = self.geometry.stretched(block.X)
            given = given or self._given(X, block, block.threads)
            rows = RowSet(X, given, block.weights, self.U.take(numbers), keeps)
            rows.slack = list(known)
            try:
                yield rows
            finally:
                self.U.put(numbers, rows.U)
                self.slack = [max(pair) for pair in zip(self.slack, rows.slack)]

    def _prepared(self, block: Block) -> tuple[Block, PassRows | None]:
        """A block with what passes read of its rows, while passes run over the one before.

        If columns are divided, that is left for later: copies of three blocks would take too much memory.
        """
        return block, self._given(by_rows(block.X), block, 1) if self.geometry.stretch is None else None

    def _given(self, X: Design, block: Block, threads: int) -> PassRows:
        return self.geometry.pass_rows(X.dtype, block, *self.geometry.distances(X, threads))

    def reactivate(self) -> bool:
        """Nothing to do: each visit begins with all rows."""
        return False

    def changing(self) -> dict[str, Any]:
        """What passes change, for a checkpoint, and the runs that the dual variables belong to."""
        return {"runs": np.array(self.U.bounds), "U": Later(self._points), "order": self.order, "state": self.state,
                "slack": list(self.slack)}  # fmt: skip

    def _points(self) -> dict[str, list[np.ndarray]]:
        """Dual variables of all runs that have some: they are in memory for a moment."""
        return {str(number): self.U.take([number]).groups for number in self.U.kept}

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `changing`."""
        if not np.array_equal(saved["runs"], self.U.bounds):
            raise ValueError("its rows are in other runs: give the same files and the same memory_budget")
        put(self.order, saved["order"])
        put(self.state, saved["state"])
        for number, groups in saved["U"].items():
            U = ColumnGroups.split(np.concatenate(groups, axis=1), self.ranges, self.engine.dtype)
            self.U.put([int(number)], U)
        if len(saved["slack"]) == len(self.ranges):
            self.slack = list(saved["slack"])


def holder_of(objective: Objective, ranges: list[tuple[int, int]], threads: int, seed: int) -> Holder:
    """Who holds the rows of an objective."""
    if isinstance(objective.engine, LocalEngine):
        return LocalHolder(objective, ranges, threads)
    return StreamHolder(objective, ranges, seed)
