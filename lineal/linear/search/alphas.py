"""Where a path of α begins and how it goes on.

A penalty that sets weights to zero has a smallest α at which all of them are zero: the dual norm of the loss's gradient
at W = 0 and the best intercept for it. A path begins at this α.

l2 has no such α. Its optimum obeys ‖w_r‖ ≤ ‖g_r‖/α, with g_r column r of the same gradient, so that the root mean
square of the scores w_r'x, less what an intercept takes up, is at most σ‖g_r‖/α, σ² = Σ_j Var x_j. A path begins at
the α where that bound is `NEGLIGIBLE` for every class, so that the model is almost constant.
The unit of the scores is that of a margin, so the number means the same for all data; scaling X by c scales α by c².
"""

from __future__ import annotations

import numpy as np

from lineal.design.odd_columns import is_constant
from lineal.problem.certificate import scores_of
from lineal.problem.objective import Objective

#: Root mean square of scores that change hardly any decision.
NEGLIGIBLE = 0.1

#: Newton steps for the intercept of the model without features; near the end they converge quadratically.
INTERCEPT_STEPS = 30

#: LIBLINEAR's largest C.
QUICK_MAX_C = 1024.0


def constant_model(objective: Objective) -> np.ndarray:
    """θ in float64 with zero weights and, where an intercept is fitted, the best one for them."""
    theta = objective.start(np.float64)
    if not (objective.fit_intercept and objective.loss.is_smooth):
        return theta
    value, gradient = objective.loss_and_gradient(theta)
    scores = scores_of(objective, objective.split(theta)[0])
    for _ in range(INTERCEPT_STEPS):
        if np.abs(gradient[-1]).max() <= 1e-14 * max(1.0, abs(value)):
            break
        _, b = objective.split(theta)
        nearer = objective.newton_intercept(b, scores)
        if nearer is None:
            break
        step, best = nearer - b, theta
        for _ in range(20):
            trial = theta.copy()
            trial[-1] += step
            trial_value, trial_gradient = objective.loss_and_gradient(trial)
            if trial_value < value or np.abs(trial_gradient[-1]).max() < np.abs(gradient[-1]).max():
                best, value, gradient = trial, trial_value, trial_gradient
                break
            step = 0.5 * step
        if best is theta:  # rounding
            break
        theta = best
    return theta


def has_critical_alpha(objective: Objective) -> bool:
    """Whether `largest_alpha` is the smallest α at which all weights are zero.

    A non-smooth loss has many subgradients at the constant model; the one at hand need not be the smallest.
    """
    return not objective.regulariser.penalty.is_smooth and objective.loss.is_smooth


@np.errstate(over="ignore", invalid="ignore")  # features too large to be squared tell nothing
def largest_alpha(objective: Objective, constant: np.ndarray | None = None) -> float:
    """The α where a path begins: all weights are zero there, or negligible for a penalty that sets none to zero.

    `constant` is θ of `constant_model`, where it is at hand.
    """
    d = objective.engine.shape[1]
    means, squares = objective.moments
    _, gradient = objective.loss_and_gradient(constant_model(objective) if constant is None else constant)
    G = np.ascontiguousarray(gradient[:d])
    regulariser = objective.regulariser
    if not regulariser.penalty.is_smooth:
        alpha = regulariser.critical_alpha(G)
    else:
        variances = squares
        if objective.fit_intercept:
            variances = squares - means**2
            variances[is_constant(variances, means)] = 0.0
        variances = np.where(np.isfinite(variances), variances, 0.0)
        # Weights √f·w with features x/√f have the plain penalty; features without a penalty have no say.
        inverse = np.divide(1.0, regulariser.factors, where=regulariser.factors > 0.0, out=np.zeros(d))
        largest = float(np.sqrt(inverse @ G**2).max(initial=0.0))
        alpha = float(np.sqrt(inverse @ variances[:, 0])) * largest / NEGLIGIBLE
    least = 1e-14 * float(np.sqrt(squares).max(initial=0.0))
    return alpha if alpha > least and np.isfinite(alpha) else 1.0  # features that tell nothing: any α will do


@np.errstate(over="ignore", invalid="ignore")
def typical_alpha(objective: Objective, constant: np.ndarray | None = None) -> float:
    """The α at which the scores of half of the columns, each by itself, are no longer `NEGLIGIBLE`; 0 if none are.

    It is near `largest_alpha` if the columns have one scale, and far below it if a few columns have a larger one.
    """
    d = objective.engine.shape[1]
    means, squares = objective.moments
    _, gradient = objective.loss_and_gradient(constant_model(objective) if constant is None else constant)
    variances = np.maximum(squares - means**2, 0.0)[:, 0] if objective.fit_intercept else squares[:, 0]
    alone = np.sqrt(variances) * np.abs(gradient[:d]).max(axis=1) / NEGLIGIBLE
    alone = alone[np.isfinite(alone) & (alone > 0.0)]
    return float(np.median(alone)) if len(alone) else 0.0


def path_alphas(objective: Objective, n_alphas: int, min_ratio: float | None, start: float | None = None) -> np.ndarray:
    """`n_alphas` strengths from `start` (`largest_alpha`) downwards, evenly spaced on a logarithmic scale."""
    ratio = min_ratio if min_ratio is not None else 1e-6 if objective.regulariser.penalty.is_smooth else 1e-3
    start = largest_alpha(objective) if start is None else start
    if n_alphas == 1:
        return np.array([start])
    alphas = start * ratio ** (np.arange(n_alphas) / (n_alphas - 1))
    alphas[0] = start
    return alphas


def least_alpha(total_weight: float) -> float:
    """The α of LIBLINEAR's largest C = 1/(αΣs)."""
    return 1.0 / (QUICK_MAX_C * total_weight)


def quick_alphas(objective: Objective, total_weight: float, start: float | None = None) -> np.ndarray:
    """The α of LIBLINEAR's search for C: from a strong one, halved while C = 1/(αΣs) is at most 1024.

    Chu, Ho, Tsai, Lin & Lin, "Warm start for parameter selection of linear classifiers", KDD 2015. They start where
    the zero model is provably close to the optimum, by a bound on the largest row. Here that is `largest_alpha`, or
    what a scan has found.
    """
    start, least = largest_alpha(objective) if start is None else start, least_alpha(total_weight)
    count = int(np.floor(np.log2(max(start / least, 1.0)))) + 1
    return start * 0.5 ** np.arange(count)
