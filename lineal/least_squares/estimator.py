"""`LeastSquaresClassifier`: generalised and calibrated least squares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.least_squares.fit import fit_least_squares, fit_least_squares_rows
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.model import Model
from lineal.linear.rows import rows_of
from lineal.models.estimator import ModelClassifier
from lineal.system.options import describe


class LeastSquaresClassifier(ModelClassifier):
    __doc__ = f"""Classifier by a few least-squares solves with one d × d matrix: for dense, ill-conditioned features.

    Neither the conditioning nor the scales of the features matter, and there is no step size. Takes binary and
    multi-class labels of any type and (n, k) indicator matrices; dense X of any numeric type (converted some rows at a
    time: to float32 where a number has up to two bytes, else to float64) or sparse X. Memory grows with d²: for more
    than some ten thousand features use `StagewiseClassifier` or `LinearClassifier`.

    Parameters
    ----------
{describe(LeastSquaresOptions)}
    callbacks : default ()
        Functions called with a `Snapshot` each iteration; returning True ends the fit.

    Attributes
    ----------
    classes_ : the labels.
    coef_, intercept_ : (1, d) and (1,) for two classes, else (k, d) and (k,); not for calibrated models, which replay
        their iterations.
    certificate_ : how far the objective can be from its minimum; of kind "none" for calibrated models.
    history_ : one dict per iteration; objectives are mean squared errors for calibrated models. Where the number of
        iterations was chosen, `validation` is the error of held-out rows after as many iterations on the others.
    n_iter_, status_, model_ : number of iterations, how the fit ended, the model.
    """

    _dtypes = "numeric"

    def __init__(
        self,
        link: Any = None,
        calibration: Any = None,
        accelerated: bool | str | None = None,
        alpha: float = 1e-6,
        tol: float | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int | None = None,
        validation_fraction: float | str | None = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        engine: str = "auto",
        memory_budget: str | int | None = None,
        verbose: int = 0,
        checkpoint: str | None = None,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.link = link
        self.calibration = calibration
        self.accelerated = accelerated
        self.alpha = alpha
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.engine = engine
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LeastSquaresClassifier:
        """Train on X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix.

        X and y can also be Dask collections; or X is a path, a glob or a list of files, which have the labels, and y
        is left out.
        """
        options = self._options(LeastSquaresOptions)
        rows = rows_of(X, y, self.engine, self.memory_budget, sample_weight=sample_weight)
        if rows is not None:
            model, solution = fit_least_squares_rows(rows, options, callbacks=self.callbacks)
            self._keep_from(rows, model, solution)
            self._warn(solution)
            return self
        X, y, sample_weight = self._validated(X, y, sample_weight)
        model, solution = fit_least_squares(X, y, options, sample_weight=sample_weight, callbacks=self.callbacks)
        self._keep(model, solution)
        self._warn(solution)
        return self

    @property
    def coef_(self) -> np.ndarray:
        """Weights, one row per class; one row for two classes."""
        return np.asarray(self._linear().weights).T

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one per class; one for two classes."""
        return self._linear().intercept

    def _linear(self) -> Any:
        model = self._fitted()
        if not isinstance(model, Model):
            raise AttributeError("a calibrated model replays its iterations: model_ has the weights of each of them")
        return model

    def _why_no_probabilities(self) -> str | None:
        if self.calibration is not None or self.link in (None, "softmax", "sigmoid"):
            return None
        return (
            f"link {self.link!r} gives scores, not probabilities: use 'softmax', 'sigmoid' or calibration='polynomial'"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
