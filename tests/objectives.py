"""Small objectives: of given rows, or with known facts and their minima by an independent solver."""

from __future__ import annotations

import numpy as np
import twin
from conftest import random_problem
from scipy import optimize, sparse

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.linear.search.alphas import largest_alpha
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import encode


def objective_on(
    X,
    y,
    loss,
    penalty="l1/l2",
    alpha=None,
    *,
    fraction=0.1,
    intercept=True,
    weights=None,
    offsets=None,
    threads=1,
    **options,
):
    """The objective of these rows; without alpha, that `fraction` of the largest one (0.05 for l2)."""
    kind = losses.get(loss)
    encoded = encode(y, direct=kind.is_direct)
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, offsets, threads)
    regulariser = Regulariser(penalties.get(penalty), 1.0, X.shape[1], **options)
    objective = Objective(engine, kind, regulariser, intercept)
    if alpha is None:
        alpha = 0.05 if penalty == "l2" else fraction * largest_alpha(objective)
    return objective.with_alpha(alpha)


def telling_rows(seed, n=60, d=8, k=3, density=0.6):
    """Rows whose first features tell the labels, with noise; no column twice, so that the answer is unique."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[0], X[:, d - 1] = 0.0, 1.0
    V = np.zeros((d, k))
    V[: d // 2] = rng.normal(size=(d // 2, k))
    y = np.argmax(X @ V + 0.5 * rng.normal(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return sparse.csr_array(X), y


def label_sets(seed, n, k):
    """Label sets, one of them full and one empty."""
    Y = np.random.default_rng(seed).random((n, k)) < 0.4
    Y[0], Y[1] = True, False
    return Y


def text_like(seed, n=250, d=300, k=5):
    """Sparse rows of length one, in which some features are far more frequent than others."""
    rng = np.random.default_rng(seed)
    frequency = 0.5 / (1 + np.arange(d)) ** 0.7
    X = np.abs(rng.normal(size=(n, d))) * (rng.random((n, d)) < frequency)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    y = np.argmax(X @ rng.normal(size=(d, k)) + 0.05 * rng.normal(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return sparse.csr_array(X), y


def build(name, seed=0, *, n=40, k=3, alpha=0.05, fit_intercept=True, weighted=True, offset=False, dtype=np.float64):
    """An objective, and what the twin needs for the same problem."""
    X, y = random_problem(seed, n=n, k=k)
    loss = losses.get(name)
    rng = np.random.default_rng(seed + 1)
    if name == "label_ranking":
        Y = rng.random((n, k)) < 0.4
        Y[:k] = np.eye(k, dtype=bool)
        encoded = encode(sparse.csr_array(Y), direct=True)
    else:
        encoded = encode(y, direct=loss.is_direct)
        Y = twin.indicator(y, encoded.n_columns)
    s = rng.random(n) + 0.1 if weighted else np.ones(n)
    o = rng.normal(size=Y.shape) if offset else None
    X = X.astype(dtype)
    engine = LocalEngine(wrap(X), encoded.targets, s / s.sum(), encoded.n_columns, o)
    objective = Objective(engine, loss, Regulariser(penalties.get("l2"), alpha, X.shape[1]), fit_intercept)
    facts = {
        "name": name,
        "Y": Y,
        "X": X.astype(np.float64).toarray(),
        "s": s,
        "alpha": alpha,
        "o": 0.0 if o is None else o,
    }
    return objective, facts


def best_objective(objective, facts):
    """The minimum by an independent solver: SciPy's L-BFGS-B on the twin, in tiny steps of tolerance."""
    shape = objective.shape
    d = facts["X"].shape[1]

    def fun(x):
        theta = x.reshape(shape)
        W, b = theta[:d], theta[d]
        by_W, by_b = twin.objective_gradient(W=W, b=b, **facts)
        return twin.objective(W=W, b=b, **facts), np.vstack([by_W, by_b]).ravel()

    x = np.zeros(shape[0] * shape[1])
    for _ in range(3):
        x = optimize.minimize(
            fun, x, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 0, "gtol": 1e-12}
        ).x
    return fun(x)[0]
