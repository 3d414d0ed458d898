"""Small objectives with known facts, their minima by an independent solver, and rows in unequal blocks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import twin
from conftest import random_problem
from scipy import optimize, sparse

from lineal import losses, penalties
from lineal.design import wrap
from lineal.engine.base import add_in_order
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.targets import LabelSets, OneLabel, encode


@dataclass(frozen=True)
class UnequalBlocks:
    """A test engine: the same rows, served as blocks of the given sizes."""

    local: LocalEngine
    sizes: tuple[int, ...]

    def __getattr__(self, name):
        return getattr(self.local, name)

    def sum(self, step, rows=1):
        (whole,) = replace(self.local, block_rows=10**9).blocks()
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        assert starts[-1] == self.shape[0]
        one_row = replace(self.local, block_rows=1).blocks()

        def parts():
            for start, stop in itertools.pairwise(starts):
                block = replace(self.local, block_rows=int(stop - start))
                piece = replace(
                    block,
                    X=whole.X.rows(start, stop),
                    targets=_join([b.targets for b in one_row[start:stop]]),
                    weights=whole.weights[start:stop],
                    offsets=None if whole.offsets is None else whole.offsets[start:stop],
                )
                yield step(replace(piece.blocks()[0], first=int(start)))

        return add_in_order(parts())


def _join(targets):
    if isinstance(targets[0], OneLabel):
        return OneLabel(np.concatenate([t.columns for t in targets]))
    lengths = [len(t.columns) for t in targets]
    return LabelSets(np.concatenate([t.columns for t in targets]), np.concatenate([[0], np.cumsum(lengths)]))


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
