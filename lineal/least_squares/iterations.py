"""The number of iterations of a least-squares fit, chosen on held-out rows.

Iterations with Nesterov's momentum learn all directions at the same rate at first, the useful ones before the noise.
Ended early they regularise, often better than any ridge. So a tenth of the rows is held out, the others are fitted, and
the number of iterations with the least error of the held-out rows is taken; of errors that can hardly be told apart,
the one with the least loss. Then all rows are fitted with that number. Where more iterations only help, the fit ends at
its tolerance.

Cost: a second matrix Σ̂ and its factorisation, and the scores of all rows once more in each iteration of the first fit.
Memory: 28 bytes per row. A checkpoint has the fit to all rows; a fit that continues makes the choice again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.least_squares.links import LinkObjective
from lineal.linear.fit import Problem
from lineal.numerics.held_out_choice import best_of, effective_rows
from lineal.numerics.label_residuals import labels_of
from lineal.problem import row_sums
from lineal.problem.drawn_rows import drawn, training_and_held_out
from lineal.problem.solution import Snapshot, Solution

#: Iterations without a lower error, or a loss that is lower by `GAIN` of it, after which the first fit ends.
PATIENCE, GAIN = 10, 0.01

#: Seed of the rows that are held out: least squares has no other random numbers to seed.
SEED = 0


@dataclass
class HeldOut:
    """Callback that measures every iterate on held-out rows, and ends the fit when they no longer gain.

    Attributes
    ----------
    errors, losses : of all iterations so far, the first ones of the start.
    has_ended : whether this has ended the fit.
    """

    engine: Engine
    weights: np.ndarray
    loss: Any
    is_independent: bool

    def __post_init__(self) -> None:
        self.errors: list[float] = []
        self.losses: list[float] = []
        self.has_ended = False
        self._least_loss, self._last_gain = math.inf, 0

    @property
    def best(self) -> int:
        """The number of iterations that is best on the held-out rows."""
        return best_of(self.errors, self.losses, effective_rows(self.weights))

    def __call__(self, snapshot: Snapshot) -> bool:
        """Measure an iterate; True where the fit should end."""
        step = HeldOutError(self.is_independent, self.loss)
        sums = self.engine.sum(step, snapshot.weights, snapshot.intercept, states=(self.engine.cut(self.weights),))
        error, loss = map(float, sums)
        t = len(self.errors)
        if error < min(self.errors, default=math.inf) or loss < (1.0 - GAIN) * self._least_loss:
            self._last_gain, self._least_loss = t, min(loss, self._least_loss)
        self.errors.append(error)
        self.losses.append(loss)
        self.has_ended = t - self._last_gain >= PATIENCE
        return self.has_ended


def held_out(problem: Problem, share: float) -> tuple[Problem, HeldOut]:
    """The problem without a share of its rows, and what measures fits of it on these."""
    weights, encoded = problem.row_weights(), problem.encoded
    training, held = training_and_held_out(weights, drawn(share, weights, encoded, SEED))
    objective = problem.objective
    loss = None if isinstance(objective, LinkObjective) else objective.loss
    is_independent = encoded.is_multilabel or encoded.n_columns == 1
    return problem.with_weights(training), HeldOut(objective.engine, held, loss, is_independent)


def chosen(solution: Solution, held: HeldOut) -> Solution:
    """The fit of all rows with the number of iterations that `held` has chosen, as a solution that says so."""
    history = [{**row, "validation": error} for row, error in zip(solution.history, held.errors, strict=False)]
    history += solution.history[len(history) :]
    if solution.status != "max_iter":
        return replace(solution, history=history)
    message = f"ended after {max(1, held.best)} iterations, the number with the least error of held-out rows"
    return replace(solution, history=history, status="converged", message=message)


@dataclass(frozen=True)
class HeldOutError:
    """Sums over held-out rows: their weight where the label is wrong (its share, for label sets), and their loss.

    `loss` is None for links of users, whose loss is not measured.
    """

    is_independent: bool
    loss: Any

    def __call__(self, block: Block, held_out: Piece, W: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        weights = held_out["rows"]
        held = np.flatnonzero(weights)
        if not len(held):
            return 0.0, 0.0
        scores = row_sums.scores(block, W, b)
        Z, Y = scores[held], labels_of(block, scores.shape[1], scores.dtype)[held] > 0.5
        if self.is_independent:
            error = float(weights[held] @ ((Z > 0.0) != Y).mean(axis=1))
        else:
            error = float(weights[held] @ (Z.argmax(axis=1) != Y.argmax(axis=1)))
        loss = 0.0 if self.loss is None else row_sums.values(self.loss, replace(block, weights=weights), scores)
        return error, loss
