"""One monomial of degree four among 200 features that are 0 or 1 (section 2.3): the stage at which it is found.

With squared loss and scores within the labels, the products of two of its factors explain nearly everything, so that
weights of products of three stay small: parents by weight end there. The residual, which SSM looks at, does not.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.apple import ours, problems
from benchmarks.apple.problems import Plan
from benchmarks.sparse_multiclass.problems import Table
from lineal.online.learner import Learner
from lineal.online.options import OnlineOptions

ROWS, QUICK_ROWS, COLUMNS, DEGREE = 50_000, 10_000, 200, 4
METHODS: dict[str, dict[str, Any]] = {
    "apple(0.5)": {"expansion": "adaptive", "growth": 0.5},
    "published(0.5)": {**ours.PUBLISHED, "growth": 0.5},
    "ssm(0.5)": {"expansion": "adaptive", "growth": 0.5, "heuristic": "ssm"},
}


def rows_of_target(n: int, seed: int = 0) -> tuple[Any, np.ndarray, tuple[int, ...]]:
    """Rows, labels 0 and 1, and the monomial."""
    rng = np.random.default_rng(seed)
    target = tuple(sorted(rng.choice(COLUMNS, DEGREE, replace=False).tolist()))
    X = rng.random((n, COLUMNS)) < 0.5
    return sparse.csr_matrix(X, dtype=np.float32), X[:, target].all(axis=1).astype(np.float64), target


def stages_of(learner: Learner, target: tuple[int, ...], sizes: list[int]) -> list[int | None]:
    """For every degree up to that of the target, the stage after which a factor of it of that degree is a feature."""
    place = {monomial: number for number, monomial in enumerate(learner.parents.monomials)}
    found: list[int | None] = []
    for degree in range(2, len(target) + 1):
        numbers = [place[part] for part in combinations(target, degree - 1) if part in place]
        found.append(int(np.searchsorted(sizes, min(numbers), side="right")) + 1 if numbers else None)
    return found


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file the same."""
    X, y, target = rows_of_target(QUICK_ROWS if plan.is_quick else ROWS)
    rows = []
    for name, options in METHODS.items():
        learner = Learner(OnlineOptions(loss="squared", **options).checked(), 1, False, len(y), True)
        sizes = []
        for piece in _pieces(X, y, 100):
            learner.learn(piece)
            if not sizes or len(learner.parents) > sizes[-1]:
                sizes.append(len(learner.parents))
        rows.append([name, *stages_of(learner, target, [size for size in sizes if size > 0]), learner.sums[0] / len(y)])
    columns = ("method", *(f"degree {degree}" for degree in range(2, DEGREE + 1)), "progressive loss")
    title = f"One monomial of degree {DEGREE} of {COLUMNS} features, {len(y)} rows: found after the stage"
    return [Table("target", title, columns, rows)], {"rows": rows}


def _pieces(X: Any, y: np.ndarray, size: int) -> Any:
    """Blocks of rows: a learner does not know the difference."""
    for at in range(0, len(y), size):
        yield problems.rows_of(X[at : at + size], y[at : at + size])
