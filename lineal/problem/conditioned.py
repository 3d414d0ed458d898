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
from lineal.design.shift import shift_columns
from lineal.engine.local import LocalEngine
from lineal.errors import DataError
from lineal.problem.objective import Objective
from lineal.problem.solution import Snapshot, Solution
from lineal.system import memory

#: The name under which a `Design` keeps its conditioned copy.
COPY = "conditioned"

#: Largest standard deviation of a column, and its inverse, up to which features are left in their unit.
ORDINARY = 2.0**12

#: Largest exponent of the unit, a power of two: α times its square must not overflow.
MAX_EXPONENT = 200


@dataclass(frozen=True)
class Rows:
    """(X − 1·shift')/unit as a `Design`, and whether every entry is exact."""

    X: Design
    shift: np.ndarray
    unit: float
    is_exact: bool

    @property
    def exponent(self) -> int:
        """Exponent of the unit, which is a power of two."""
        return round(math.log2(self.unit))


@dataclass(frozen=True)
class Conditioned:
    """An objective as solvers see it (`inside`), and the way back to the one that was given (`outside`)."""

    outside: Objective
    inside: Objective
    rows: Rows

    def start(self, start: np.ndarray | Solution | None) -> np.ndarray | Solution | None:
        """A starting point of the given rows as one of the conditioned rows."""
        if start is None:
            return None
        if isinstance(start, Solution):
            W, b = self._inside(start.weights, start.intercept)
            return replace(start, weights=W, intercept=b)
        theta = start.astype(np.float64)
        theta[: len(self.rows.shift)], b = self._inside(*self.outside.split(theta))
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
        W, b = self._outside(found.weights, found.intercept)
        if not np.isfinite(W).all():
            raise DataError(
                f"the features are so small that their weights overflow in {W.dtype}: scale the features, or use "
                "float64"
            )
        found = replace(found, weights=W, intercept=b)
        if self.rows.is_exact:
            return found
        theta = np.vstack([W, b[None, :]])[: self.outside.shape[0]].astype(np.float64)
        certificate = self.outside.certificate(theta, tol, found.dual_point)
        is_lost = found.status == "converged" and not certificate.meets(tol)
        return replace(found, certificate=certificate, status="stalled" if is_lost else found.status)

    def _inside(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ldexp(W, self.rows.exponent), b + self._taken_up(W) if self.rows.shift.any() else b

    def _outside(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        W = np.ldexp(W, -self.rows.exponent)
        return W, b - self._taken_up(W) if self.rows.shift.any() else b

    def _taken_up(self, W: np.ndarray) -> np.ndarray:
        """Difference m'W between the intercepts of the given and of the conditioned rows."""
        taken: np.ndarray = np.einsum("j,jr->r", self.rows.shift, W, dtype=np.float64)
        return taken


def conditioned(objective: Objective) -> Conditioned | None:
    """The objective in better coordinates; None if those of the given rows are good enough.

    The copy of X is kept by X, like those of `lineal.design.orders`. Memory: the size of X; where that much is not
    available, solvers get the rows as they are.
    """
    engine = objective.engine
    if not isinstance(engine, LocalEngine):
        return None
    far, unit = _needs(objective)
    if not len(far) and unit == 1.0:
        return None
    rows: Rows | None = engine.X.copies.get(COPY)
    if rows is None or not _suits(objective, rows):  # it may have been made for other weights of the rows
        if not memory.has_room(engine.X.nbytes):
            return None
        rows = engine.X.copies[COPY] = _rows(engine.X, far, objective.moments[0][:, 0], unit)
    return Conditioned(objective, _on(objective, rows), rows)


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


def _rows(X: Design, far: np.ndarray, means: np.ndarray, unit: float) -> Rows:
    shift, is_exact = np.zeros(X.shape[1]), True
    if len(far):
        X, shift, is_exact = shift_columns(X, far, means)
    return Rows(X if unit == 1.0 else scale_entries(X, -round(math.log2(unit))), shift, unit, is_exact)


def _suits(objective: Objective, rows: Rows) -> bool:
    inside = _on(objective, rows)
    far, unit = _needs(inside)
    return not len(far) and unit == 1.0 and (objective.fit_intercept or not rows.shift.any())


def _on(objective: Objective, rows: Rows) -> Objective:
    """The objective on the conditioned rows."""
    engine: Any = objective.engine
    regulariser = objective.regulariser.in_unit(rows.unit)
    return replace(objective, engine=replace(engine, X=rows.X), regulariser=regulariser)
