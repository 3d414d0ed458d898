"""A slow, obvious twin of the objective and its certificate: plain NumPy, float64, whole matrices, no kernels.

Everything is recomputed from weights, intercept, rows and labels, for the objective as the documentation states it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize


def signs(Y: np.ndarray) -> np.ndarray:
    return np.where(Y, 1.0, -1.0)


def indicator(y: np.ndarray, k: int) -> np.ndarray:
    """(n, k) boolean; one column for binary one-vs-rest losses."""
    return (y == 1)[:, None] if k == 1 else y[:, None] == np.arange(k)


def pair_gaps(Y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """max(1 − (z_r − z_q), 0) for r in Y and q not in Y, else 0; (n, r, q)."""
    gaps = np.maximum(1.0 - Z[:, :, None] + Z[:, None, :], 0.0)
    return gaps * (Y[:, :, None] & ~Y[:, None, :])


#: Losses that are sums over pairs of a label and a non-label.
PAIR_LOSSES = ("label_ranking", "multiclass_squared_hinge")


def pairs_of(name: str, Y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """`pair_gaps`, for the losses of pairs only: a loss that the twin does not know must not pass for one of them."""
    if name not in PAIR_LOSSES:
        raise ValueError(f"the twin does not know the loss {name!r}: add its formulas to tests/twin.py")
    return pair_gaps(Y, Z)


def losses(name: str, Y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Loss of every row."""
    T = signs(Y)
    if name == "hinge":
        return np.maximum(1 - T * Z, 0).sum(1)
    if name == "squared_hinge":
        return (np.maximum(1 - T * Z, 0) ** 2).sum(1)
    if name == "logistic":
        return np.logaddexp(0.0, -T * Z).sum(1)
    if name == "squared":
        return 0.5 * ((Z - T) ** 2).sum(1)
    if name == "softmax":
        return np.logaddexp.reduce(Z, axis=1) - Z[Y]
    if name == "crammer_singer":
        return (1.0 - Y + Z).max(1) - Z[Y]
    return (pairs_of(name, Y, Z) ** 2).sum((1, 2))


def gradients(name: str, Y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """∇ℓ of every row."""
    T = signs(Y)
    if name == "hinge":
        return np.where(T * Z < 1, -T, 0.0)
    if name == "squared_hinge":
        return -2 * T * np.maximum(1 - T * Z, 0)
    if name == "logistic":
        return -T * np.exp(-np.logaddexp(0.0, T * Z))
    if name == "squared":
        return Z - T
    if name == "softmax":
        return np.exp(Z - np.logaddexp.reduce(Z, axis=1)[:, None]) - Y
    if name == "crammer_singer":
        worst = (1.0 - Y + Z).argmax(1)
        return np.eye(Z.shape[1])[worst] - Y
    A = 2 * pairs_of(name, Y, Z)
    return A.sum(1) - A.sum(2)


def objective(
    name: str, Y: np.ndarray, X: Any, W: np.ndarray, b: np.ndarray, s: np.ndarray, alpha: float, o: Any = 0.0
):
    """F(W, b) with the l2 penalty."""
    return float(s @ losses(name, Y, X @ W + b + o) / s.sum() + 0.5 * alpha * (W**2).sum())


def objective_gradient(name, Y, X, W, b, s, alpha, o=0.0):
    """∇F by W and by b."""
    U = s[:, None] / s.sum() * gradients(name, Y, X @ W + b + o)
    return X.T @ U + alpha * W, U.sum(0)


def balanced(name: str, Y: np.ndarray, Z: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A dual point with Σ s u = 0, and −ℓ* of every row there."""
    s = s / s.sum()
    T = signs(Y)
    U = gradients(name, Y, Z)
    if name == "squared":
        U = U - s @ U
        return U, -(0.5 * U**2 + T * U).sum(1)
    if name in ("hinge", "squared_hinge", "logistic"):
        up, down = s @ np.maximum(U, 0), s @ np.maximum(-U, 0)
        U = np.where(
            U > 0, U * np.minimum(1, down / np.maximum(up, 1e-300)), U * np.minimum(1, up / np.maximum(down, 1e-300))
        )
        a = -T * U
        if name == "hinge":
            return U, a.sum(1)
        if name == "squared_hinge":
            return U, (a - a**2 / 4).sum(1)
        xlogx = lambda x: np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0)  # noqa: E731
        return U, -(xlogx(a) + xlogx(1 - a)).sum(1)
    if name in ("softmax", "crammer_singer"):
        P = U + Y
        found, wanted = s @ P, s @ Y
        share = min(1.0, np.min(wanted / np.maximum(found, 1e-300)))
        P = share * P + (wanted - share * found)
        if name == "crammer_singer":
            return P - Y, (P * ~Y).sum(1)
        return P - Y, -np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0).sum(1)
    A = 2 * pairs_of(name, Y, Z)
    net = s @ (A.sum(1) - A.sum(2))
    weight = s @ Y
    reference = int(np.argmax(weight * (1 - weight)))
    for r in range(Y.shape[1]):
        if r == reference or net[r] == 0:
            continue
        carriers = (Y[:, r] & ~Y[:, reference]) if net[r] > 0 else (Y[:, reference] & ~Y[:, r])
        pair = (r, reference) if net[r] > 0 else (reference, r)
        A[carriers, pair[0], pair[1]] += abs(net[r]) / s[carriers].sum()
    return A.sum(1) - A.sum(2), (A - A**2 / 4).sum((1, 2))


def best_intercept(name, Y, X, W, b, s, alpha, o=0.0):
    """The b that minimises F(W, ·): the root of its gradient, next to the given one (which is near it)."""
    first = 0 if name in ("logistic", "squared_hinge", "squared") else 1  # others ignore a shift of all columns

    def gradient(rest):
        return objective_gradient(name, Y, X, W, np.concatenate([b[:first], rest]), s, alpha, o)[1][first:]

    found = optimize.root(gradient, b[first:], tol=1e-15)
    return np.concatenate([b[:first], found.x])


def gap(name, Y, X, W, b, s, alpha, o=0.0, fit_intercept=True, polish=False):
    """Primal, dual and relative gap of the l2-penalised objective; the dual point from the best intercept if asked."""
    at = best_intercept(name, Y, X, W, b, s, alpha, o) if polish else b
    Z = X @ W + at + o
    s = s / s.sum()
    if fit_intercept:
        U, values = balanced(name, Y, Z, s)
        assert np.abs(s @ U).max() < 1e-12 * max(1.0, np.abs(U).max()), "the dual point is not feasible"
    else:
        U = gradients(name, Y, Z)
        values = (U * Z).sum(1) - losses(name, Y, Z)  # ℓ*(∇ℓ(z)) = ∇ℓ(z)·z − ℓ(z)
        values = -values
    C = X.T @ (s[:, None] * U)
    dual = s @ (values + (U * (o + np.zeros_like(Z))).sum(1)) - (C**2).sum() / (2 * alpha)
    primal = objective(name, Y, X, W, b, s, alpha, o)
    return primal, float(dual), (primal - dual) / primal if primal > 0 else 0.0


# --- penalties, group by group, and their minimiser by plain proximal gradient steps


def soft(v, threshold):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def penalty(name: str, w: np.ndarray, ratio: float = 0.5) -> float:
    """ω of one group."""
    l1, l2 = np.abs(w).sum(), np.sqrt((w**2).sum())
    return {
        "l1": l1,
        "l2": 0.5 * l2**2,
        "elastic_net": ratio * l1 + 0.5 * (1 - ratio) * l2**2,
        "l1/l2": l2,
        "l1/linf": np.abs(w).max(),
        "sparse_group": ratio * l1 + (1 - ratio) * l2,
    }[name]


def prox(name: str, v: np.ndarray, s: float, ratio: float = 0.5) -> np.ndarray:
    """argmin ½‖x − v‖² + s·ω(x) for one group."""
    if name == "l1":
        return soft(v, s)
    if name == "l2":
        return v / (1 + s)
    if name == "elastic_net":
        return soft(v, ratio * s) / (1 + (1 - ratio) * s)
    if name == "l1/linf":  # v without its projection onto the l1 ball, by sorting
        if np.abs(v).sum() <= s:
            return np.zeros_like(v)
        a = np.sort(np.abs(v).ravel())[::-1]
        level = ((np.cumsum(a) - s) / np.arange(1, a.size + 1)).max()
        return np.clip(v, -level, level)
    if name not in ("l1/l2", "sparse_group"):
        raise ValueError(f"the twin does not know the penalty {name!r}: add its formulas to tests/twin.py")
    u = v if name == "l1/l2" else soft(v, ratio * s)
    s = s if name == "l1/l2" else (1 - ratio) * s
    size = np.sqrt((u**2).sum())
    return u * max(1 - s / size, 0.0) if size > 0 else u


def is_optimal(name: str, w: np.ndarray, g: np.ndarray, s: float, error: float, ratio: float = 0.5) -> bool:
    """Whether −g is in s·∂ω(w), up to an error, for one group."""
    w, g = w.ravel(), g.ravel()
    live, size = w != 0, np.sqrt((w**2).sum())
    if name == "l2":
        return bool(np.abs(g + s * w).max() <= error)
    if name == "l1/l2":
        return np.sqrt(((g + s * w / size) ** 2).sum()) <= error if live.any() else np.sqrt((g**2).sum()) <= s + error
    if name == "l1/linf":  # a norm: −g in the dual ball, on its face that touches w
        return np.abs(g).sum() <= s + error and abs(g @ w + s * np.abs(w).max()) <= error * (1 + size)
    if name == "sparse_group" and not live.any():
        return np.sqrt((soft(g, ratio * s) ** 2).sum()) <= (1 - ratio) * s + error
    l1 = s if name == "l1" else ratio * s
    smooth = {"l1": 0 * w, "elastic_net": (1 - ratio) * s * w, "sparse_group": (1 - ratio) * s * w / max(size, 1e-300)}
    rest = g + smooth[name]
    return bool((np.abs(rest + l1 * np.sign(w))[live] <= error).all() and (np.abs(rest)[~live] <= l1 + error).all())


CURVATURES = {"squared_hinge": 2.0, "logistic": 0.25, "squared": 1.0, "softmax": 0.5}


def proximal_gradient(name, Y, X, s, rule, strengths, groups, o=0.0, fit_intercept=True, steps=200_000, error=1e-12):
    """W, b and F of the minimum: accelerated steps of constant length until they no longer lead anywhere.

    `strengths` has α·f of every group of `groups`, lists of features.
    """
    s = s / s.sum()
    X = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    k = Y.shape[1]
    curvature = CURVATURES.get(name, 2.0 * k) * np.linalg.eigvalsh(X.T @ (s[:, None] * X))[-1]
    theta = y = np.zeros((X.shape[1], k))
    momentum = 1.0
    for _ in range(steps):
        new = y - X.T @ (s[:, None] * gradients(name, Y, X @ y + o)) / curvature
        for strength, group in zip(strengths, groups):
            new[group] = prox(rule, new[group], strength / curvature)
        if ((y - new) * (new - theta)).sum() > 0:
            momentum = 1.0
        moved = np.abs(new - y).max()
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        y, theta, momentum = new + (momentum - 1) / following * (new - theta), new, following
        if moved <= error * (1 + np.abs(new).max()):
            break
    value = s @ losses(name, Y, X @ theta + o)
    value += sum(strength * penalty(rule, theta[group]) for strength, group in zip(strengths, groups))
    d = theta.shape[0] - fit_intercept
    return theta[:d], theta[d] if fit_intercept else np.zeros(k), float(value)
