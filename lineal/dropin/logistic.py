"""`LogisticRegression`: scikit-learn's, fitted by lineal.

    two classes         min C Σ_i s_i log(1 + exp(−t_i(w'x_i + b))) + Ω(w)
    more classes        min C Σ_i s_i (log Σ_r exp(z_ir) − z_{i y_i}) + Ω(W),   z_i = W'x_i + b

with Ω = ρ‖W‖₁ + (1 − ρ)/2·‖W‖² and ρ = `l1_ratio`. The bias b is not penalised, except for solver="liblinear", whose
bias is the penalised weight of a constant feature. All of scikit-learn's solvers minimise this; the one that is named
only decides which options are allowed, as there.

A softmax does not change when the same weights are added to all classes. With an l2 penalty the best weights add up to
zero over the classes; intercepts, and weights without a penalty, are shifted to that form too, as in scikit-learn.

Memory: X (for solver="liblinear" with one more column), and what lineal's solver for the loss and penalty needs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.base import _fit_context
from sklearn.linear_model._logistic import _check_solver
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from lineal.dropin.problem import (
    ChecksInput,
    checked_weights,
    class_factors,
    iterations,
    liblinear_gap,
    minimise,
    problem_of,
    warn_unless_converged,
    with_bias,
)  # fmt: skip
from lineal.errors import DataError, OptionError
from lineal.linear.options import TrainOptions
from lineal.problem.objective import Objective
from lineal.problem.targets import Encoded, encode
from lineal.problem.validation import validated


class LogisticRegression(ChecksInput, linear_model.LogisticRegression):
    """scikit-learn's `LogisticRegression` with lineal's solvers: same parameters, same answer.

    Parameters and attributes are those of `sklearn.linear_model.LogisticRegression`, from version 1.8 on. `solver` and
    `dual` are checked as there and choose among objectives (solver="liblinear" penalises the bias), not algorithms.
    `max_iter` bounds the iterations of lineal's solver, `n_iter_` counts them; `n_jobs` is a number of threads.

    `tol` becomes a relative duality gap. For the l2 penalty the gap is ‖gradient‖²/(2α), so that scikit-learn's rule, a
    largest gradient entry of `tol`, is met at tol²·C·Σs/2. This is divided by the objective of the zero model to be
    relative, and never looser than `tol`. With solver="liblinear" or an l1 penalty the gap is `tol`/100, at most 1e-4.

    Attributes
    ----------
    certificate_ : bound on the distance of the objective from its minimum.
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Train on X (n, d), dense or sparse, float32 or float64, and labels y (n,)."""
        penalty, C = self._checked_penalty()
        X, y = validated(
            self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], order=None,
            accept_large_sparse=True,
        )  # fmt: skip
        check_classification_targets(y)
        encoded = encode(y, direct=len(np.unique(y)) > 2)
        self.classes_ = encoded.classes
        if self.solver == "liblinear" and encoded.n_columns > 1:
            raise ValueError(
                "Only binary classification is supported. The 'liblinear' solver does not support multiclass "
                "classification (n_classes >= 3): use another solver, or wrap the estimator in a OneVsRestClassifier"
            )
        has_bias = self.solver == "liblinear" and self.fit_intercept
        draws = self.solver in ("liblinear", "sag", "saga")
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max) if draws else 0
        options = TrainOptions(
            **penalty, loss="softmax" if encoded.n_columns > 1 else "logistic",
            fit_intercept=self.fit_intercept and not has_bias,
            max_iter=self.max_iter, n_jobs=self.n_jobs, random_state=int(seed), verbose=int(self.verbose),
        )  # fmt: skip
        features = with_bias(X, self.intercept_scaling) if has_bias else X
        problem = problem_of(features, encoded, self._weights(X, y, encoded, sample_weight), C, options)
        objective = problem.objective
        problem = replace(problem, options=replace(problem.options, tol=self._gap(objective)))
        solution = minimise(problem, self._start(objective))
        W, b = solution.weights, solution.intercept
        if has_bias:
            W, b = W[:-1], self.intercept_scaling * W[-1]
        if encoded.n_columns > 1:
            b = b - b.mean()
            W = W - W.mean(axis=1, keepdims=True) if objective.regulariser.penalty.is_smooth else W
        self.coef_ = np.ascontiguousarray(W.T)
        self.intercept_ = b if self.fit_intercept or self.solver != "liblinear" else 0.0
        self.n_iter_ = np.array([iterations(solution, self.max_iter)], np.int32)
        self.certificate_ = solution.certificate
        warn_unless_converged([solution])
        return self

    def _checked_penalty(self) -> tuple[dict[str, Any], float]:
        """The penalty, as lineal's options name it, and C, after the warnings and refusals of scikit-learn."""
        if vars(self).get("_skl_callbacks"):
            raise OptionError("lineal.dropin.LogisticRegression does not call scikit-learn's callbacks: remove them")
        name = self._penalty_name()
        _check_solver(self.solver, name, self.dual)
        ratio = self.l1_ratio
        if name != "elasticnet" and ratio is not None and 0 < ratio < 1:
            warnings.warn(
                f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={name})", stacklevel=4
            )
        if (self.penalty == "l2" and ratio != 0) or (self.penalty == "l1" and ratio != 1):
            warnings.warn(
                f"Inconsistent values: penalty={self.penalty} with l1_ratio={ratio}; leave penalty out",
                stacklevel=4,
            )
        if name == "elasticnet" and ratio is None:
            raise ValueError("l1_ratio must be specified when penalty is elasticnet.")
        if self.penalty is None and self.C != 1.0:
            warnings.warn("Setting penalty=None will ignore the C and l1_ratio parameters", stacklevel=4)
        if self.n_jobs is not None:
            warnings.warn(
                f"'n_jobs' has no effect since 1.8 of scikit-learn and will be removed in 1.10; here "
                f"n_jobs={self.n_jobs} is the number of threads",
                FutureWarning,
                stacklevel=4,
            )
        C = math.inf if self.penalty is None else float(self.C)
        l1 = 0.0 if math.isinf(C) else {"l1": 1.0, "elasticnet": ratio}.get(name or "l2", 0.0)
        if l1 in (0.0, 1.0):
            return {"penalty": "l1" if l1 else "l2"}, C
        return {"penalty": "elastic_net", "l1_ratio": float(l1)}, C

    def _penalty_name(self) -> str | None:
        if self.penalty != "deprecated":
            warnings.warn(
                "'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in 1.10. Use l1_ratio=0 "
                "instead of penalty='l2', l1_ratio=1 instead of penalty='l1', l1_ratio between 0 and 1 instead of "
                "penalty='elasticnet', and C=np.inf instead of penalty=None.",
                FutureWarning,
                stacklevel=5,
            )
            return self.penalty
        if self.l1_ratio is None:
            warnings.warn(
                "'l1_ratio=None' was deprecated in version 1.8 of scikit-learn and will be an error in 1.10. Use "
                "0<=l1_ratio<=1 instead.",
                FutureWarning,
                stacklevel=5,
            )
        if np.inf == self.C:
            return None
        return {0: "l2", 1: "l1"}.get(self.l1_ratio or 0, "elasticnet")

    def _weights(self, X: Any, y: np.ndarray, encoded: Encoded, sample_weight: Any) -> np.ndarray:
        weights = checked_weights(sample_weight, X)
        numbers = encoded.class_numbers
        if self.class_weight is not None:
            weights = weights * class_factors(self.class_weight, self.classes_, y, sample_weight)[numbers]
        empty = np.flatnonzero(np.bincount(numbers, weights, minlength=len(self.classes_)) <= 0.0)
        if empty.size and self.fit_intercept and self.solver != "liblinear":  # there the bias is penalised
            label = self.classes_[empty[:1]].tolist()[0]
            raise DataError(f"class {label!r} has no weight, so that its best intercept is infinite: remove its rows")
        return weights

    def _gap(self, objective: Objective) -> float:
        """`tol` as a relative gap, or without a penalty as a violation relative to that of the zero model."""
        penalty = objective.regulariser.penalty
        if not penalty.is_smooth or self.solver == "liblinear":
            return liblinear_gap(self.tol)
        alpha, k = objective.regulariser.alpha, objective.shape[1]
        if alpha == 0.0:
            _, gradient = objective.loss_and_gradient(objective.start())
            largest = float(np.linalg.norm(gradient, axis=1).max(initial=0.0))
            return self.tol / max(largest, 1.0)
        return min(self.tol, self.tol**2 / (2.0 * alpha * math.log(max(k, 2))))

    def _start(self, objective: Objective) -> np.ndarray | None:
        if not self.warm_start or self.solver == "liblinear" or "coef_" not in vars(self):
            return None
        theta = np.asarray(self.coef_).T
        if self.fit_intercept:
            theta = np.vstack([theta, np.asarray(self.intercept_)[None, :]])
        if theta.shape != objective.shape:
            raise ValueError(
                f"Initialization coef is of shape {theta.T.shape}, expected shape {objective.shape[::-1]}: warm_start "
                "needs data of the same shape and classes"
            )
        return np.array(theta, objective.engine.dtype, order="C")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags
