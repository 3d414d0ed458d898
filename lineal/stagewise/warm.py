"""A small stage like those of a fit, with which processes that hold rows load their kernels before the first pass."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.engine.local import LocalEngine
from lineal.features.rows import design_of
from lineal.linear.warm import small_rows, small_targets
from lineal.problem.fingerprint import of_rows
from lineal.solvers.stagewise import stagewise

#: Features of the small stage at most.
MOST_FEATURES = 256


@dataclass(frozen=True)
class WarmUp:
    """Fits one stage to a few random rows, and forgets the result.

    Attributes
    ----------
    generator : prepared.
    start, update, stage_size, is_independent : as of the fit.
    n_columns, is_multilabel : kind of its targets.
    n_features, dtype, is_dense : kind of its rows.
    """

    generator: Any
    start: np.ndarray
    update: str
    stage_size: int
    is_independent: bool
    n_columns: int
    is_multilabel: bool
    n_features: int
    dtype: np.dtype[Any]
    is_dense: bool

    def __call__(self) -> None:
        """Run the fit. Nothing depends on its result, so nothing is said if it fails."""
        k = self.n_columns
        targets, n = small_targets(k, self.is_multilabel)
        X = small_rows(n, self.n_features, self.dtype, self.is_dense)
        engine = LocalEngine(design_of(X), targets, np.full(n, 1.0 / n), k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                of_rows(engine)
                stagewise.solve(
                    engine, copy.deepcopy(self.generator), self.start, update=self.update, alpha=1e-3, n_stages=1,
                    stage_size=min(self.stage_size, MOST_FEATURES), is_independent=self.is_independent, inner_iter=2,
                )  # fmt: skip
            except Exception:  # a generator can be anybody's
                return
