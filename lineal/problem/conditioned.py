"""An objective in better coordinates: far columns are moved to zero, and features are neither huge nor tiny.

With m the shift of the columns and c a unit, W'x + b = (cW)'((x − m)/c) + b̃ for b̃ = b + m'W. A free intercept takes up
the shift, and the penalty of weights that are c times as large is known, so this is the same problem: objective,
certificate and dual variables stay as they are. The unit is a power of two, which rounds nothing. Solvers see these
rows; all others see weights and intercepts of the rows as they were given. Hence adding a constant to a column, or
another unit of all features, changes no fit by more than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.design.matrix import Design
from lineal.design.odd_columns import far_columns
from lineal.design.products import scale_entries
from lineal.design.shift import extremes, shift_of, subtract
from lineal.engine.base import Block, Engine
from lineal.engine.local import LocalEngine
from lineal.errors import DataError
from lineal.problem.objective import Objective
from lineal.problem.solution import Members, Snapshot, Solution
from lineal.system import memory

#: The name under which a `Design` keeps its conditioned copy.
COPY = "conditioned"

#: Largest standard deviation of a column, and its inverse, up to which features are left in their unit.
ORDINARY = 2.0**12

#: Largest exponent of the unit, a power of two: α times its square must not overflow.
MAX_EXPONENT = 200


@dataclass(frozen=True)
class Coordinates:
    """How features are seen: (X − 1·shift')/unit.

    Attributes
    ----------
    columns : the columns with a shift.
    values : their shifts, in the precision of X.
    d : number of columns of X.
    unit : a power of two.
    """

    columns: np.ndarray
    values: np.ndarray
    d: int
    unit: float

    @property
    def shift(self) -> np.ndarray:
        """Shift of every column, (d,)."""
        shift = np.zeros(self.d, self.values.dtype)
        shift[self.columns] = self.values
        return shift

    @property
    def exponent(self) -> int:
        """Exponent of the unit, which is a power of two."""
        return round(math.log2(self.unit))

    def apply(self, X: Design) -> tuple[Design, bool]:
        """Some rows in these coordinates, and whether every entry is exact."""
        is_exact = True
        if len(self.columns):
            X, _, is_exact = subtract(X, self.columns, self.shift)
        return (X if self.unit == 1.0 else scale_entries(X, -self.exponent)), is_exact

    def __call__(self, X: Design) -> Design:
        """Some rows in these coordinates (see `Engine.with_features`)."""
        return self.apply(X)[0]


@dataclass(frozen=True)
class Rows:
    """Rows in other coordinates, and whether every entry is known to be exact."""

    coordinates: Coordinates
    engine: Engine
    is_exact: bool


@dataclass(frozen=True)
class Conditioned:
    """An objective as solvers see it (`inside`), and the way back to the one that was given (`outside`)."""

    outside: Objective
    inside: Objective
    rows: Rows

    @property
    def coordinates(self) -> Coordinates:
        """Those of the conditioned rows."""
        return self.rows.coordinates

    def start(self, start: np.ndarray | Solution | None) -> np.ndarray | Solution | None:
        """A starting point of the given rows as one of the conditioned rows."""
        if start is None:
            return None
        if isinstance(start, Solution):
            W, b = self._inside(start.weights, start.intercept)
            return replace(start, weights=W, intercept=b)
        theta = start.astype(np.float64)
        theta[: self.coordinates.d], b = self._inside(*self.outside.split(theta))
        if self.outside.fit_intercept:
            theta[-1] = b
        return theta

    def callback(self, callback: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Any]:
        """A callback that is shown weights and intercept of the given rows."""

        def shown(snapshot: Snapshot) -> Any:
            W, b = self._outside(snapshot.weights, snapshot.intercept)
            W.flags.writeable = b.flags.writeable = False
            return callback(replace(snapshot, weights=W, intercept=b))

        return shown

    def solution(self, found: Solution, tol: float) -> Solution:
        """A solution of the conditioned rows as one of the given rows; an intercept that took up a shift is float64.

        Where rounding changed an entry of the conditioned rows, the certificate is computed for the given ones.
        """
        found = self.given_up(found)
        if self.rows.is_exact:
            return found
        theta = np.vstack([found.weights, found.intercept[None, :]])[: self.outside.shape[0]].astype(np.float64)
        certificate = self.outside.certificate(theta, tol, found.dual_point)
        is_lost = found.status == "converged" and not certificate.meets(tol)
        return replace(found, certificate=certificate, status="stalled" if is_lost else found.status)

    def given_up(self, found: Solution) -> Solution:
        """The same without a pass over the rows, which would not be answered."""
        W, b = self._outside(found.weights, found.intercept)
        if not np.isfinite(W).all():
            raise DataError(
                f"the features are so small that their weights overflow in {W.dtype}: scale the features, or use "
                "float64"
            )
        return replace(found, weights=W, intercept=b, members=self._members(found.members))

    def _members(self, members: Members | None) -> Members | None:
        if members is None:
            return None
        pairs = [self._outside(W, b) for W, b in zip(*members, strict=True)]
        return Members(np.stack([W for W, _ in pairs]), np.stack([b for _, b in pairs]))

    def _inside(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ldexp(W, self.coordinates.exponent), b + self._taken_up(W) if len(self.coordinates.columns) else b

    def _outside(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        W = np.ldexp(W, -self.coordinates.exponent)
        return W, b - self._taken_up(W) if len(self.coordinates.columns) else b

    def _taken_up(self, W: np.ndarray) -> np.ndarray:
        """Difference m'W between the intercepts of the given and of the conditioned rows."""
        taken: np.ndarray = np.einsum("j,jr->r", self.coordinates.shift, W, dtype=np.float64)
        return taken


def conditioned(objective: Objective) -> Conditioned | None:
    """The objective in better coordinates; None if those of the given rows are good enough.

    Rows in this process are copied once, and X keeps the copy, like those of `lineal.design.orders`. Memory: the size
    of X; where that much is not available, solvers get the rows as they are. Other engines change the features of a
    block whenever they provide it.
    """
    engine = objective.engine
    far, unit = _needs(objective)
    if not len(far) and unit == 1.0:
        return None
    rows = _local_rows(objective, engine, far, unit) if isinstance(engine, LocalEngine) else None
    if rows is None:
        if isinstance(engine, LocalEngine):
            return None
        coordinates = _coordinates(objective, far, unit)
        rows = Rows(coordinates, engine.with_features(coordinates), is_exact=False)
    return Conditioned(objective, _on(objective, rows), rows)


def _local_rows(objective: Objective, engine: LocalEngine, far: np.ndarray, unit: float) -> Rows | None:
    """Rows in this process in better coordinates: the copy that X keeps, or a new one; None without room for it."""
    known = engine.X.copies.get(COPY)
    if known is not None:
        rows = _rows(engine, *known)
        if _suits(objective, rows):  # it may have been made for other weights of the rows
            return rows
    if not memory.has_room(engine.X.nbytes):
        return None
    coordinates = _coordinates(objective, far, unit)
    known = engine.X.copies[COPY] = (coordinates, *coordinates.apply(engine.X))
    return _rows(engine, *known)


def _rows(engine: LocalEngine, coordinates: Coordinates, X: Design, is_exact: bool) -> Rows:
    return Rows(coordinates, replace(engine, X=X), is_exact)


def _coordinates(objective: Objective, far: np.ndarray, unit: float) -> Coordinates:
    engine, means = objective.engine, objective.moments[0][:, 0]
    if not len(far):
        return Coordinates(far, np.zeros(0, engine.dtype), len(means), unit)
    parts = np.array(engine.gather(_Extremes(far)))
    found = np.array([parts[:, 0].min(axis=0), parts[:, 1].max(axis=0)])
    return Coordinates(far, shift_of(far, means, found, engine.dtype)[far], len(means), unit)


@dataclass(frozen=True)
class _Extremes:
    """Step for `Engine.gather`: smallest and largest entries of some columns."""

    columns: np.ndarray

    def __call__(self, block: Block) -> np.ndarray:
        return extremes(block.X, self.columns)


def _needs(objective: Objective) -> tuple[np.ndarray, float]:
    """Far columns, and the unit that features should have; 1 where they can keep theirs."""
    means, squares = (moment[:, 0] for moment in objective.moments)
    far = far_columns(means, squares) if objective.fit_intercept else np.empty(0, np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.maximum(squares - means**2, 0.0) if objective.fit_intercept else squares
        size = math.sqrt(float(np.max(spread, initial=0.0)))
    is_ordinary = not 0.0 < size < math.inf or 1.0 / ORDINARY <= size <= ORDINARY
    if is_ordinary or not objective.regulariser.has_units:
        return far, 1.0
    unit = 2.0 ** min(max(round(math.log2(size)), -MAX_EXPONENT), MAX_EXPONENT)
    with np.errstate(over="ignore", invalid="ignore"):
        before, after = objective.regulariser.strengths, objective.regulariser.in_unit(unit).strengths
        is_finite = bool(np.isfinite(after.astype(objective.engine.dtype)).all())
    is_kept = is_finite and np.array_equal(after > 0.0, before > 0.0)
    return far, unit if is_kept else 1.0  # extreme strengths would overflow, or vanish


def _suits(objective: Objective, rows: Rows) -> bool:
    inside = _on(objective, rows)
    far, unit = _needs(inside)
    return not len(far) and unit == 1.0 and (objective.fit_intercept or not rows.coordinates.shift.any())


def _on(objective: Objective, rows: Rows) -> Objective:
    """The objective on the conditioned rows."""
    regulariser = objective.regulariser.in_unit(rows.coordinates.unit)
    return replace(objective, engine=rows.engine, regulariser=regulariser)
