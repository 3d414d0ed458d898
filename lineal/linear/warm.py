"""A small fit like a given one, with which the processes that hold rows load their kernels before the first pass."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import LinealError
from lineal.linear.options import TrainOptions
from lineal.problem.targets import LabelSets, OneLabel

#: Largest number of columns of the small fit: methods for many columns are not those for few.
MOST_COLUMNS = 600

#: Number of iterations: all steps of a solver have run by then.
ITERATIONS = 3


@dataclass(frozen=True)
class WarmUp:
    """Fits a few random rows with a solver, and forgets the result.

    Attributes
    ----------
    options : those of the fit, with the solver that it uses.
    n_columns, is_multilabel : kind of its targets.
    n_features, dtype, is_dense : kind of its rows.
    """

    options: TrainOptions
    n_columns: int
    is_multilabel: bool
    n_features: int
    dtype: np.dtype[Any]
    is_dense: bool

    def __call__(self) -> None:
        """Run the fit. Nothing depends on its result, so nothing is said if it fails."""
        from lineal.linear.fit import Problem, objective_on
        from lineal.problem.targets import Encoded

        k = self.n_columns
        targets, n = small_targets(k, self.is_multilabel)
        encoded = Encoded(targets, np.arange(max(k, 2)), k, self.is_multilabel)
        X = small_rows(n, min(self.n_features, MOST_COLUMNS), self.dtype, self.is_dense)
        weights = np.full(encoded.n_rows, 1.0 / encoded.n_rows)
        engine = LocalEngine(wrap(X), encoded.targets, weights, k)
        options = replace(
            self.options, feature_groups=None, penalty_factors=None, max_iter=ITERATIONS, tol=1e-12, n_jobs=1,
            verbose=0, checkpoint=None, engine="local", memory_budget=None,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                Problem(objective_on(engine, options), encoded, options).solve()
            except (LinealError, ArithmeticError, np.linalg.LinAlgError):
                return


def small_targets(k: int, is_multilabel: bool) -> tuple[Any, int]:
    """Targets of a few rows with all labels of k columns, and the number of rows."""
    if is_multilabel:
        targets = LabelSets(np.arange(k, dtype=np.int32), np.arange(k + 1, dtype=np.int64).repeat(2)[1:])
        return targets, len(targets.starts) - 1
    columns = np.tile(np.arange(k, dtype=np.int32) if k > 1 else np.array([-1, 0], np.int32), 2)
    return OneLabel(columns), len(columns)


def small_rows(n: int, d: int, dtype: Any, is_dense: bool) -> Any:
    """A few random rows."""
    random = np.random.default_rng(0)
    if is_dense:
        return random.normal(size=(n, d)).astype(dtype)
    entries = sparse.random_array((n, d), density=min(1.0, 4.0 / d), rng=random, format="csr")
    return sparse.csr_array(entries, dtype=dtype)
