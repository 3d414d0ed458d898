"""`LinearClassifier`: any loss and penalty, fitted by any solver that supports them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal import losses
from lineal.linear.fit import fit, fit_rows
from lineal.linear.model import LINKS
from lineal.linear.options import THRESHOLDS, TrainOptions
from lineal.linear.rows import rows_of
from lineal.models.estimator import ModelClassifier
from lineal.solvers.options import describe_all
from lineal.system.options import describe


class LinearClassifier(ModelClassifier):
    __doc__ = f"""Linear classifier: a mean loss plus a penalty, minimised to a certified tolerance.

    Takes binary and multi-class labels of any type and, for losses that allow it, (n, k) indicator matrices; dense
    or sparse X in float32 or float64, which is neither copied nor converted.

    Parameters
    ----------
{describe(TrainOptions)}
    warm_start : default False
        Start from the last fit's weights where they fit the data.
    callbacks : default ()
        Functions called with a `Snapshot` each iteration; returning True ends the fit.

    Attributes
    ----------
    classes_ : the labels.
    coef_, intercept_ : (1, d) and (1,) for two classes, else (k, d) and (k,). Always an ndarray; where `model_` keeps
        its weights row-sparse, each look at `coef_` builds one.
    certificate_ : how far the objective can be from its minimum.
    history_ : one dict per iteration: iteration, seconds, objective, gap (running estimate; the last is certified),
        nonzero_rows, and the name of the solver.
    n_iter_ : number of iterations.
    status_ : how the fit ended.
    solver_ : the solver that found the model; with solver="auto" the ones that ran, and why.
    model_ : the `lineal.Model`, to save or to predict with.

    Notes
    -----
    Options of the solvers, for `solver_options`:

{describe_all()}
    """

    def __init__(
        self,
        loss: str = "squared_hinge",
        penalty: str = "l2",
        alpha: float = 1e-4,
        l1_ratio: float | None = None,
        feature_groups: Any = None,
        penalty_factors: Any = None,
        solver: str = "auto",
        solver_options: dict[str, Any] | None = None,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        class_weight: Any = None,
        probability: bool = False,
        threshold: Any = None,
        fbr: float | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        engine: str = "auto",
        memory_budget: str | int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
        checkpoint: str | None = None,
        warm_start: bool = False,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.feature_groups = feature_groups
        self.penalty_factors = penalty_factors
        self.solver = solver
        self.solver_options = solver_options
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.threshold = threshold
        self.fbr = fbr
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.engine = engine
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offsets: Any = None) -> LinearClassifier:
        """Train on X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix.

        X and y can also be Dask collections; or X is a path, a glob or a list of files, which have the labels, and y
        is left out. `offsets` are base scores, (n,) or (n, k), added to those of the model.
        """
        options = self._options(TrainOptions)
        start = self._model_or_none() if self.warm_start else None
        rows = rows_of(X, y, self.engine, self.memory_budget, sample_weight=sample_weight, offsets=offsets)
        if rows is not None:
            model, solution = fit_rows(rows, options, start=start, callbacks=self.callbacks)
            self._keep_from(rows, model, solution)
            self._warn(solution)
            return self
        X, y, sample_weight = self._validated(X, y, sample_weight)
        model, solution = fit(
            X, y, options, sample_weight=sample_weight, offsets=offsets, start=start, callbacks=self.callbacks
        )
        self._keep(model, solution)
        self._warn(solution)
        return self

    def _keep(self, model: Any, solution: Any) -> None:
        """Set the attributes of a fit."""
        super()._keep(model, solution)
        self.solver_ = solution.took

    @property
    def coef_(self) -> np.ndarray:
        """Weights, one row per class, or one row for two classes. A dense copy if `model_` keeps them row-sparse."""
        return self._fitted().coef_

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one per class, or one for two classes."""
        return self._fitted().intercept_

    def _why_no_probabilities(self) -> str | None:
        if self.loss in LINKS or self.probability:
            return None
        return (
            f"loss {self.loss!r} gives scores, not probabilities: set probability=True, or use 'logistic' or 'softmax'"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        loss = losses.get(self.loss) if self.loss in losses.names() else None
        is_for_sets = self.threshold is None or (isinstance(self.threshold, str) and self.threshold in THRESHOLDS)
        tags.classifier_tags.multi_label = loss is not None and loss.takes_label_sets and is_for_sets
        return tags
