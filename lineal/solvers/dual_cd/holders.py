"""Who holds the rows and their dual variables: this process, or a file whose blocks are loaded one after the other.

Both hand out `RowSet`s to run passes over. Rows in memory are one `RowSet`, which lasts as long as the fit. Of a file,
each block is loaded once per iteration, in random order; its dual variables come from the engine's scratch and go back
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.design import Design
from lineal.design.orders import by_rows
from lineal.engine.local import LocalEngine
from lineal.engine.streamed import Streamed
from lineal.numerics.vectors import dot
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.steps import RowGradients
from lineal.solvers.dual_cd.column_groups import ColumnGroups
from lineal.solvers.dual_cd.geometry import Geometry
from lineal.solvers.dual_cd.row_set import RowSet
from lineal.solvers.dual_cd.simplex import KEPT_CLASSES
from lineal.solvers.dual_cd.stored import StoredDuals

#: Called with the number of a set of rows, its rows, their weights, and their dual variables.
AddRows = Callable[[int, Design, np.ndarray, ColumnGroups], None]


class Holder(Protocol):
    """Holds rows and dual variables.

    Attributes
    ----------
    geometry : what updates of all rows have in common.
    objective : the objective, with the rows in the order that certificates read fastest.
    n_blocks : number of row sets per iteration.
    U : dual variables of all rows, which certificates and other fits can start from.
    """

    geometry: Geometry
    objective: Objective
    n_blocks: int
    U: Any

    def start(self, add: AddRows, start: np.ndarray | Solution | None) -> None:
        """Find the first dual variables, those of a solution, gradients at given parameters, or zero, and add them."""
        ...

    def visits(self) -> Iterator[tuple[int, RowSet]]:
        """The row sets of one iteration, each with its number. Their dual variables can be changed."""
        ...

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        ...


def given_point(objective: Objective, start: np.ndarray | Solution | None) -> Any:
    """The dual point of a solution, if it fits."""
    given = start.dual_point if isinstance(start, Solution) else None
    return given if given is not None and given.shape == (objective.engine.shape[0], objective.shape[1]) else None


def keeps_classes(objective: Objective) -> bool:
    """Whether passes over the few classes that matter per row are worth it (see `simplex.py`)."""
    loss = objective.loss
    return bool(loss.is_direct and loss.has_sparse_duals and objective.engine.n_columns > 2 * KEPT_CLASSES)


class LocalHolder:
    """Rows in this process."""

    n_blocks = 1

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
        add(0, rows.X, rows.weights, rows.U)

    def visits(self) -> Iterator[tuple[int, RowSet]]:
        """All rows."""
        yield 0, self.rows

    def reactivate(self) -> bool:
        """Make all rows active again; returns whether some were inactive."""
        return self.rows.reactivate()


class StreamHolder:
    """Rows in a file, of which one block at a time is in memory. Each visit to a block begins with all of its rows."""

    def __init__(self, objective: Objective, ranges: list[tuple[int, int]], seed: int) -> None:
        engine = objective.engine
        assert isinstance(engine, Streamed)
        self.objective, self.engine, self.ranges = objective, engine, ranges
        geometry = Geometry.of(objective)
        if objective.fit_intercept:
            geometry = geometry.with_spread(geometry.spread(objective.moments))
        self.geometry, self.n_blocks = geometry, len(engine.bounds)
        self.U = StoredDuals(engine.scratch, engine.bounds, ranges, objective.engine.dtype)
        self.order, self.state = np.arange(self.n_blocks), generator(seed, 1)
        self.slack: dict[int, list[float]] = {}

    def start(self, add: AddRows, start: np.ndarray | Solution | None) -> None:
        """Find the first dual variables, and add them: one pass over the file, unless they are zero."""
        if start is None:
            return
        point = given_point(self.objective, start)
        theta = None if point is not None else self.objective.split(self.objective.theta_of(start))
        gradients = RowGradients(self.objective.loss)
        for number, block in enumerate(self.engine.visit(self.order.tolist())):
            rows = gradients(block, *theta) if theta else np.asarray(point[block.first : block.first + block.n])
            U = ColumnGroups.split(rows, self.ranges, self.engine.dtype)
            add(number, self.geometry.stretched(block.X), block.weights, U)
            self.U.put(number, U)

    def visits(self) -> Iterator[tuple[int, RowSet]]:
        """The blocks in random order."""
        shuffle(self.state, self.order)
        numbers, keeps = self.order.tolist(), keeps_classes(self.objective)
        for number, block in zip(numbers, self.engine.visit(numbers)):
            rows = RowSet.of(self.geometry, block, self.U.take(number), keeps)
            rows.slack = self.slack.get(number, rows.slack)
            try:
                yield number, rows
            finally:
                self.U.put(number, rows.U)
                self.slack[number] = rows.slack

    def reactivate(self) -> bool:
        """Nothing to do: each visit begins with all rows."""
        return False


def holder_of(objective: Objective, ranges: list[tuple[int, int]], threads: int, seed: int) -> Holder:
    """Who holds the rows of an objective."""
    if isinstance(objective.engine, LocalEngine):
        return LocalHolder(objective, ranges, threads)
    return StreamHolder(objective, ranges, seed)
