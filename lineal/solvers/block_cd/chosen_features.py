"""The objective as a function of the weights of some features, with a line search.

Newton steps on the features in use (`support_newton.py`) and on a working set (`gram_newton.py`) share it. The scores
and weighted gradients of all rows are kept, so a trial of the line search needs no pass over X.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lineal.design.matrix import Design
from lineal.engine.local import LocalEngine
from lineal.numerics.centred import Centred
from lineal.numerics.score_rows import ScoreRows
from lineal.problem.objective import Objective


class ChosenFeatures:
    """The objective as a function of b̃ and the weights of some features, which are whole groups.

    X_S has these features by rows. Z and R, the scores and weighted gradients of all rows, are changed in place.
    """

    def __init__(
        self, objective: Objective, features: np.ndarray, X_S: Design, theta: np.ndarray, Z: np.ndarray, R: np.ndarray,
        threads: int,
    ) -> None:  # fmt: skip
        engine: Any = objective.engine
        inner: LocalEngine = replace(engine, X=X_S, threads=threads, block_rows=max(engine.shape[0], 1))
        self.regulariser, self.d = objective.regulariser.restricted(features), len(features)
        self.X = X_S
        self.part = replace(objective, engine=inner, regulariser=self.regulariser)
        self.rows = ScoreRows(Centred(self.part))
        self.chosen = np.append(features, len(theta) - 1) if objective.fit_intercept else features
        self.theta = self.rows.centred.inside(np.ascontiguousarray(theta[self.chosen]))
        self.piece = self.rows.begin(self.theta, Z, R)

    def solution(self) -> np.ndarray:
        """Rows `chosen` of θ."""
        return self.rows.centred.outside(self.theta)

    def value(self, step_size: float, theta: np.ndarray) -> float:
        """Objective at θ, which is `step_size` along the current direction; the rows then have its derivatives."""
        losses, _ = self.rows.trial(np.full(self.rows.n_problems, step_size))
        return float(losses.sum()) + self.regulariser.value(np.ascontiguousarray(theta[: self.d]))

    def search(self, direction: np.ndarray, decrease: float, value: float, step_sizes: Iterable[float]) -> float | None:
        """Take the first step size t at which the objective changes by at most t·decrease, which is negative.

        Returns the new objective, or None if no step size is good enough.
        """
        self.rows.set_direction(direction)
        noise = 4.0 * float(np.finfo(direction.dtype).eps) * abs(value)
        for step_size in step_sizes:
            theta = self.theta + direction.dtype.type(step_size) * direction
            new_value = self.value(step_size, theta)
            if math.isfinite(new_value) and new_value <= value + step_size * decrease + noise:
                self.rows.accept(np.full(self.rows.n_problems, step_size), theta)
                self.theta = theta
                return new_value
        self.value(0.0, self.theta)
        return None
