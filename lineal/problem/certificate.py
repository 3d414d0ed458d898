"""Certificates: the duality gap of a solution, or its violation of optimality where no finite gap exists.

The Fenchel dual of F (`objective.py`), with one vector u_i in the domain of ℓ* per row, is

    D(u) = (1/Σs) Σ_i s_i [u_i·o_i − ℓ*(u_i)] − (αΩ)*(−C),   C = (1/Σs) Σ_i s_i x_i u_i',

and with an intercept only points with Σ_i s_i u_i = 0 are feasible. Near the optimum, u_i = ∇ℓ(z_i) is almost feasible.
The loss adjusts it for the intercept (`repair`), and the penalty scales it into the domain of its conjugate
(`dual_scale`). Then D(u) ≤ F* ≤ F(W, b) holds for any W and b, optimal or not. Certificates are computed in float64,
also for float32 data.

Memory: C with d·k numbers, and two blocks of scores (see the engine) or the scores of all rows if they take at most
64 MB, all in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.norms import norm_of
from lineal.engine.base import Engine
from lineal.engine.state import RowState, ShardPoint
from lineal.problem import steps
from lineal.problem.row_sums import DualSums
from lineal.problem.solution import Certificate

if TYPE_CHECKING:
    from lineal.problem.objective import Objective

#: Bound of the relative rounding error of a sum of float64 products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)

#: Largest number of bytes of the scores of all rows that are kept between passes over the rows.
KEPT_BYTES = 64 << 20

#: An objective below this fraction of that of the model without features counts as zero for the relative size of a
#: Fenchel–Young residual: where weights without a penalty separate the classes, the smallest objective is zero.
NEGLIGIBLE = 1e-6

#: Number of features per task when rounding errors are bounded.
ROUNDING_ROWS = 8192


def certify(objective: Objective, theta: np.ndarray, tol: float, dual_point: Any) -> Certificate:
    """Compute a certificate (see `Objective.certificate`)."""
    W, b = objective.split(theta)
    b = b.astype(np.float64)
    if not objective.has_gap:
        return _violation(objective, theta, dual_point)
    if dual_point is not None:
        primal, dual = primal_and_dual(objective, dual_point, W, b)
        if math.isfinite(dual):
            return Certificate.of_gap(primal, dual)
    scores = scores_of(objective, W)
    primal, bound = primal_and_bound(objective, W, b, scores)
    dual = bound.value
    if not math.isfinite(dual):
        return _violation(objective, theta)
    if primal - dual > tol * primal and objective.fit_intercept and objective.loss.is_smooth:
        updated = objective.newton_intercept(b, scores)
        if updated is not None:
            dual = max(dual, primal_and_bound(objective, W, updated, scores)[1].value)
    return Certificate.of_gap(primal, dual) if math.isfinite(dual) else _violation(objective, theta)


def scores_of(objective: Objective, W: np.ndarray) -> RowState:
    """Scores XW + o in float64, without an intercept, as row state."""
    return objective.engine.state(steps.Scores(np.float64), W, np.zeros(W.shape[1]), max_bytes=KEPT_BYTES)


class DualBound(NamedTuple):
    """Lower bound of the minimum, and the argument −scale·C of the penalty's conjugate that gives it.

    `correlation` is −C, each entry moved away from zero by a bound of its rounding error; None if the penalty did
    not need it.
    """

    value: float
    correlation: np.ndarray | None
    scale: float


def primal_and_bound(
    objective: Objective, W: np.ndarray, b: np.ndarray, scores: RowState | None = None
) -> tuple[float, DualBound]:
    """Objective F(W, b) and a lower bound of the minimum; `scores` are `scores_of` W if they are known."""
    loss, engine = objective.loss, objective.engine
    states = (scores or scores_of(objective, W),)

    def balance(references: np.ndarray) -> np.ndarray:
        return engine.sum(steps.GradientBalance(loss), b, references, states=states)[0]

    def sums_of(repair: np.ndarray, scale: float) -> DualSums:
        return DualSums(*engine.sum(steps.GradientDual(loss), b, repair, scale, states=states))

    repair = _repair(objective, balance)
    if repair is None:
        return math.nan, DualBound(-math.inf, None, 0.0)
    sums, bound = _dual_bound(objective, sums_of, repair, W, b)
    return sums.primal + objective.regulariser.value(W), bound


def primal_and_dual(objective: Objective, U: Any, W: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Objective F(W, b), and the dual objective of given dual variables, adjusted for the intercept.

    The dual objective is −∞ if the dual variables are infeasible. W and b are the solution that belongs to them: they
    determine the bound of the rounding errors.
    """
    loss, (engine, states) = objective.loss, _with_rows(objective.engine, U)

    def balance(references: np.ndarray) -> np.ndarray:
        return engine.sum(steps.GivenBalance(loss), references, states=states)[0]

    def sums_of(repair: np.ndarray, scale: float) -> DualSums:
        sums = DualSums(*engine.sum(steps.GivenDual(loss), W, b, repair, scale, states=states))
        return sums._replace(primal=float(sums.primal) + penalty)

    penalty, repair = objective.regulariser.value(W), _repair(objective, balance)
    if repair is None:
        return math.nan, -math.inf
    sums, bound = _dual_bound(objective, sums_of, repair, W, b)
    return sums.primal, bound.value


def _with_rows(engine: Engine, U: Any) -> tuple[Engine, tuple[RowState]]:
    """The engine whose blocks have given dual points as row state: an array is cut, shards keep theirs."""
    if isinstance(U, ShardPoint):
        return engine.shards(U.number, U.seed), (U.state,)
    return engine, (engine.cut(U),)


def _repair(objective: Objective, balance: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Adjustment that makes a dual point feasible for a free intercept; None if there is none.

    `balance` sums the dual point over all rows, given the reference classes through which imbalances are moved.
    """
    loss = objective.loss
    if not objective.fit_intercept:
        return loss.identity_repair(objective.engine.n_columns)
    class_weights = objective.class_weights()
    references = loss.reference_classes(class_weights)
    return loss.repair(balance(references), class_weights, references)


def _dual_bound(
    objective: Objective,
    sums_of: Callable[[np.ndarray, float], DualSums],
    repair: np.ndarray,
    W: np.ndarray,
    b: np.ndarray,
) -> tuple[DualSums, DualBound]:
    """Sums over rows of an adjusted dual point, and the lower bound of the minimum that it gives."""
    sums = sums_of(repair, 1.0)
    if objective.regulariser.is_radial and not objective.fit_intercept:
        conjugate = _radial_conjugate(objective, W, sums)
        return sums, DualBound(sums.dual - conjugate, None, 1.0)
    slack, correlation = _rounding(objective, W, b, sums)
    scale = objective.regulariser.dual_scale(correlation)
    dual = sums.dual if scale == 1.0 else sums_of(repair, scale).dual
    conjugate = objective.regulariser.conjugate(correlation, scale)
    return sums, DualBound(dual - slack - conjugate, correlation, scale)


def _radial_conjugate(objective: Objective, W: np.ndarray, sums: DualSums) -> float:
    """Conjugate (αΩ)*(C) of a penalty that depends only on norms, plus a bound of all rounding errors.

    Only the total error of C is then needed, (Σ s|x||u|)² ≤ Σ s‖x‖² · Σ s u², and a pass over the rows gives that
    without sums per column.
    """
    sizes = math.sqrt(objective.mean_square * float(sums.squares.sum()))
    slack = ROUNDING * (abs(sums.dual) + sums.primal + sizes * norm_of(W))
    return objective.regulariser.radial_conjugate(norm_of(sums.correlation) + ROUNDING * sizes) + slack


def _rounding(objective: Objective, W: np.ndarray, b: np.ndarray, sums: DualSums) -> tuple[float, np.ndarray]:
    """Bounds of the rounding errors: of the two sums, and −C moved away from zero by its own error.

    The balance Σ s u is zero only up to rounding. It is subtracted from C as if it were spread over all rows,
    C −= x̄(Σ s u)', so that the rest is multiplied by the intercept of the centred features instead of one that
    compensates for a large mean.
    """
    means, squares = (moment[:, 0] for moment in objective.moments)
    dual_size = np.sqrt(sums.squares)  # by Cauchy-Schwarz, Σ s|x||u| is at most √(Σ s x²) times this
    bound, sizes = sums.correlation, np.sqrt(squares)
    shift = sums.balance if objective.fit_intercept else np.zeros(len(b))
    tasks = [
        partial(_away_from_zero, bound, means, shift, dual_size, sizes, W, *piece)
        for piece in pool.ranges(len(W), max(1, len(W) // ROUNDING_ROWS))
    ]
    spread = np.sum(pool.run(tasks, objective.engine.threads), axis=0) if tasks else np.zeros((2, len(b)))
    rest = float(np.abs(shift) @ np.abs(b + spread[1]))
    slack = ROUNDING * (abs(sums.dual) + sums.primal + float((spread[0] + np.abs(b)) @ dual_size)) + rest
    return slack, bound


def _violation(objective: Objective, theta: np.ndarray, dual_point: Any = None) -> Certificate:
    """Certificate by the largest violation of optimality, relative to that of the model without features.

    With a dual point u, W and b are optimal if C is in −α∂Ω(W), Σ s u is zero, and every u_i is in ∂ℓ(z_i). The last
    condition holds for ∇ℓ. For other points the Fenchel–Young residual Σ s(ℓ(z) + ℓ*(u) − u·z) measures it: zero where
    the condition holds, positive elsewhere. It is taken relative to the objective.
    """
    theta = theta.astype(np.float64)
    reference = reference_violation(objective)
    if dual_point is not None:
        step = steps.GivenGradient(objective.loss, objective.fit_intercept)
        (W, b), (engine, states) = objective.split(theta), _with_rows(objective.engine, dual_point)
        loss, residual, gradient = engine.sum(step, W, b, states=states)
        if math.isfinite(residual):
            primal = float(loss) + objective.regulariser.value(W)
            of_loss = _relative(float(residual), max(primal, NEGLIGIBLE * objective.value(objective.start(np.float64))))
            largest = _relative(_largest_violation(objective, theta, gradient), reference)
            return Certificate("violation", max(largest, of_loss), primal)
    _, gradient = objective.loss_and_gradient(theta)
    largest = _relative(_largest_violation(objective, theta, gradient), reference)
    return Certificate("violation", largest, objective.value(theta))


def reference_violation(objective: Objective) -> float:
    """Largest violation of the model without features, to which violations are relative."""
    start = objective.start(np.float64)
    return _largest_violation(objective, start, objective.loss_and_gradient(start)[1])


def _relative(size: float, reference: float) -> float:
    return size / reference if reference > 0.0 else size


def _largest_violation(objective: Objective, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Largest distance of the negative gradient of the loss term to the subdifferential of the penalty at θ."""
    W, _ = objective.split(theta)
    largest = float(np.max(objective.regulariser.violation(W, gradient[: len(W)]), initial=0.0))
    if objective.fit_intercept:
        largest = max(largest, objective.unit * float(np.linalg.norm(gradient[-1])))
    return largest


def _away_from_zero(
    correlation: np.ndarray, means: np.ndarray, shift: np.ndarray, dual_size: np.ndarray, sizes: np.ndarray,
    W: np.ndarray, start: int, stop: int,
) -> np.ndarray:  # fmt: skip
    """Replace C by x̄·shift' − C, moved away from zero by its rounding error; returns Σ ‖x_j‖|w_j| and Σ x̄_j w_j."""
    rows = slice(start, stop)
    C, V, mean, size = correlation[rows], W[rows], means[rows], sizes[rows]
    np.subtract(np.outer(mean, shift), C, out=C)
    C += np.copysign(np.outer(ROUNDING * size, dual_size), C)
    return np.stack([np.einsum("j,jr->r", size, np.abs(V)), np.einsum("j,jr->r", mean, V)])
