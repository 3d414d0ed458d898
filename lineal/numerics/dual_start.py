"""Dual variables from which a fit can start: those of another solution, where they fit the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.engine.state import ShardPoint
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution


def given_point(objective: Objective, start: np.ndarray | Solution | None) -> Any:
    """The dual point of a solution, if it fits; shards keep theirs in another order."""
    given = start.dual_point if isinstance(start, Solution) else None
    if given is None or isinstance(given, ShardPoint):
        return None
    return given if given.shape == (objective.engine.shape[0], objective.shape[1]) else None
