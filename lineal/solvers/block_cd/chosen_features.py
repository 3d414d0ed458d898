"""An objective as a function of the weights of some features, and searches along a direction of theirs.

What Newton steps on the features in use (`support_newton.py`) and on a working set (`gram_newton.py`) share. Scores
and weighted gradients of all rows are kept, so that a trial step costs no pass over X.
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
    """F by the weights of some features, whole blocks, and by b̃.

    X_S are these features by rows; Z and R, scores and weighted gradients of all rows, are changed in place.
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

    def answer(self) -> np.ndarray:
        """The rows of θ for `chosen`."""
        return self.rows.centred.outside(self.theta)

    def value(self, length: float, theta: np.ndarray) -> float:
        """F at θ, which is `length` along the direction looked at; the rows are then seen from there."""
        losses, _ = self.rows.trial(np.full(self.rows.n_problems, length))
        return float(losses.sum()) + self.regulariser.value(np.ascontiguousarray(theta[: self.d]))

    def search(self, direction: np.ndarray, decrease: float, value: float, lengths: Iterable[float]) -> float | None:
        """Go the first of the lengths at which F falls by this much a unit; F there, or None where it never does."""
        self.rows.set_direction(direction)
        noise = 4.0 * float(np.finfo(direction.dtype).eps) * abs(value)
        for length in lengths:
            theta = self.theta + direction.dtype.type(length) * direction
            found = self.value(length, theta)
            if math.isfinite(found) and found <= value + length * decrease + noise:
                self.rows.accept(np.full(self.rows.n_problems, length), theta)
                self.theta = theta
                return found
        self.value(0.0, self.theta)
        return None
