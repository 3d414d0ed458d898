"""The minimum by a solver that shares nothing with ours: cvxpy with Clarabel.

Its answer is only one more candidate: whoever asks evaluates the objective there. An inaccurate answer can make the
judge milder, never wrong.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from judge_objective import Stated, Wide

#: Scores and weights up to which it is asked: larger problems take it seconds.
MAX_SCORES, MAX_WEIGHTS = 240, 60


def candidate(stated: Stated) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and intercept that are nearly the best, or None where the problem is too large or was not solved."""
    (n, k), d = stated.has.shape, stated.X.shape[1]
    if n * k > MAX_SCORES or d * k > MAX_WEIGHTS:
        return None
    means, scales, rows = _standardised(stated)
    import cvxpy as cp

    V, c = cp.Variable((d, k)), cp.Variable((1, k))
    Z = rows @ V + stated.offsets
    if stated.fit_intercept:
        Z = Z + np.ones((n, 1)) @ c
    shares = (stated.weights / stated.weights.sum()).astype(np.float64)
    kept = shares > 0
    problem = cp.Problem(cp.Minimize(_loss(cp, stated, Z, shares, kept) + _penalty(cp, stated, V, scales)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL", time_limit=2.0)
    except (cp.SolverError, ValueError, ArithmeticError):
        return None
    if V.value is None or not np.isfinite(V.value).all():
        return None
    W = V.value.astype(Wide) / scales[:, None]
    b = np.zeros(k, Wide)
    if stated.fit_intercept:
        b = c.value.astype(Wide)[0] - means @ W
    return (W, b) if np.isfinite(W).all() and np.isfinite(b).all() else None


def _standardised(stated: Stated) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and scales of the columns, and rows of mean zero (with an intercept) and size one: the same problem."""
    X = stated.X.astype(Wide)
    s = stated.weights.astype(Wide) / stated.weights.astype(Wide).sum()
    means = s @ X if stated.fit_intercept else np.zeros(X.shape[1], Wide)
    centred = X - means
    scales = np.sqrt(s @ centred**2)
    sizes = np.sqrt(s @ X**2)
    scales = np.where(scales > 1e-17 * sizes, scales, np.where(sizes > 0, sizes, 1))
    return means, scales, (centred / scales).astype(np.float64)


def _loss(cp: Any, stated: Stated, Z: Any, shares: np.ndarray, kept: np.ndarray) -> Any:
    has, loss = stated.has[kept], stated.loss
    Z, s = Z[np.flatnonzero(kept)], shares[kept]
    T = np.where(has, 1.0, -1.0)
    each = np.repeat(s[:, None], has.shape[1], axis=1)
    if loss == "hinge":
        return cp.sum(cp.multiply(each, cp.pos(1 - cp.multiply(T, Z))))
    if loss == "squared_hinge":
        return cp.sum(cp.multiply(each, cp.square(cp.pos(1 - cp.multiply(T, Z)))))
    if loss == "logistic":
        return cp.sum(cp.multiply(each, cp.logistic(-cp.multiply(T, Z))))
    if loss == "squared":
        return cp.sum_squares(cp.multiply(np.sqrt(each), Z - T)) / 2
    if loss == "softmax":
        return s @ cp.log_sum_exp(Z, axis=1) - cp.sum(cp.multiply(each * has, Z))
    if loss == "crammer_singer":
        return s @ cp.max(Z + (1.0 - has), axis=1) - cp.sum(cp.multiply(each * has, Z))
    rows, of, others = np.nonzero(has[:, :, None] & ~has[:, None, :])
    if not len(rows):
        return 0.0
    n, k = has.shape
    flat = cp.reshape(Z, (n * k,), order="C")
    return s[rows] @ cp.square(cp.pos(1 - (flat[rows * k + of] - flat[rows * k + others])))


def _penalty(cp: Any, stated: Stated, V: Any, scales: np.ndarray) -> Any:
    total: Any = 0.0
    for strength, block in zip(stated.strengths, stated.blocks):
        if strength == 0.0:
            continue
        shape = len(block), V.shape[1]
        inverse = np.broadcast_to((strength / scales[block])[:, None].astype(np.float64), shape)
        root = np.broadcast_to((np.sqrt(Wide(strength)) / scales[block])[:, None].astype(np.float64), shape)
        W, R = cp.multiply(inverse, V[block]), cp.multiply(root, V[block])  # in a square, the strength counts once
        l1, l2, squares = cp.sum(cp.abs(W)), cp.norm(W, "fro"), cp.sum_squares(R)
        total = (
            total
            + {
                "l1": l1,
                "l2": squares / 2,
                "elastic_net": stated.ratio * l1 + (1 - stated.ratio) / 2 * squares,
                "l1/l2": l2,
                "l1/linf": cp.max(cp.abs(W)),
                "sparse_group": stated.ratio * l1 + (1 - stated.ratio) * l2,
            }[stated.penalty]
        )
    return total
