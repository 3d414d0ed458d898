"""Small objectives with known facts, their minima by an independent solver."""

from __future__ import annotations

import numpy as np
import twin
from conftest import random_problem
from scipy import optimize, sparse

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import encode


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
