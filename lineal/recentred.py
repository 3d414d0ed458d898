"""An objective whose far columns are moved to zero, which a free intercept makes the same problem.

With m the shift of the columns, W'x + b = W'(x − m) + b̃ for b̃ = b + m'W: weights, objective, certificate and dual
variables stay as they are, and only the intercept changes. Solvers see the shifted rows, so that adding a constant to a
column changes no fit by more than rounding; everybody else sees the intercept of the rows as they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal import memory
from lineal.design.shift import Shifted, far_columns, shift_columns
from lineal.engine.local import LocalEngine
from lineal.objective import Objective
from lineal.solution import Snapshot, Solution

#: The name under which a `Design` keeps its shifted copy.
COPY = "shifted"


@dataclass(frozen=True)
class Recentred:
    """An objective as solvers see it (`inside`), and the way back to the one that was given (`outside`)."""

    outside: Objective
    inside: Objective
    shift: np.ndarray
    is_exact: bool

    def start(self, start: np.ndarray | Solution | None) -> np.ndarray | Solution | None:
        """A starting point of the given rows as one of the shifted rows."""
        if start is None:
            return None
        if isinstance(start, Solution):
            return replace(start, intercept=self._moved(start.weights, start.intercept, 1.0))
        theta = start.astype(np.float64)
        theta[-1] = self._moved(theta[:-1], theta[-1], 1.0)
        return theta

    def callback(self, callback: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Any]:
        """A callback that is shown the intercept of the given rows."""

        def shown(snapshot: Snapshot) -> Any:
            return callback(replace(snapshot, intercept=self._moved(snapshot.weights, snapshot.intercept, -1.0)))

        return shown

    def solution(self, found: Solution, tol: float) -> Solution:
        """A solution of the shifted rows as one of the given rows; its intercept is float64.

        Where rounding changed an entry of the shifted rows, the certificate is computed for the given ones.
        """
        b = self._moved(found.weights, found.intercept, -1.0)
        found = replace(found, intercept=b)
        if self.is_exact:
            return found
        theta = np.vstack([found.weights, b[None, :]]).astype(np.float64)
        certificate = self.outside.certificate(theta, tol, found.dual_point)
        status = found.status
        if status == "converged" and not certificate.meets(tol):
            status = "stalled"
        return replace(found, certificate=certificate, status=status)

    def _moved(self, W: np.ndarray, b: np.ndarray, sign: float) -> np.ndarray:
        return b + sign * np.einsum("j,jr->r", self.shift, W, dtype=np.float64)


def recentred(objective: Objective) -> Recentred | None:
    """The objective with its far columns moved to zero; None where no column is far, or no intercept is free.

    The shifted copy of X is kept by X, like those of `lineal.design.orders`. Memory: the size of X; where that much is
    not available, solvers get the rows as they are.
    """
    engine = objective.engine
    if not (objective.fit_intercept and isinstance(engine, LocalEngine)):
        return None
    far = _far(objective)
    if not len(far):
        return None
    kept: Shifted | None = engine.X.copies.get(COPY)
    if kept is None or len(_far(_on(objective, kept))):  # it may have been made for other weights of the rows
        if not memory.has_room(engine.X.nbytes):
            return None
        kept = engine.X.copies[COPY] = shift_columns(engine.X, far, objective.moments[0][:, 0])
    return Recentred(objective, _on(objective, kept), kept.shift, kept.is_exact)


def _far(objective: Objective) -> np.ndarray:
    means, squares = objective.moments
    return far_columns(means[:, 0], squares[:, 0])


def _on(objective: Objective, shifted: Shifted) -> Objective:
    """The objective on the shifted rows."""
    engine: Any = objective.engine
    return replace(objective, engine=replace(engine, X=shifted.X))
