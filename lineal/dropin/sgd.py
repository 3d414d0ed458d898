"""`SGDClassifier`: scikit-learn's, fitted by lineal.

    min (1/n) Σ_i s_i ℓ(t_i, w'x_i + b) + α·(ρ‖w‖₁ + (1 − ρ)/2·‖w‖²),   for every class against the rest

with n the number of rows, whatever their weights s, and ρ = 0 for "l2", 1 for "l1", `l1_ratio` for "elasticnet".
Stochastic gradient descent approaches the minimum at a learning rate that must be chosen. lineal's solvers find it for
the hinge loss with the l2 penalty, and for the log loss, the squared hinge and the squared error with every penalty,
and certify how close they are. Other losses, and options that describe a procedure rather than an objective (early
stopping, passive-aggressive updates, `partial_fit`), use stochastic gradient descent by scikit-learn's own rules, all
classes in one pass over the rows: see `lineal.dropin.descent`.

Memory: X, and what lineal's solver needs; for descent X as CSR and 8·d·k bytes, twice that with an l1 penalty.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from lineal.dropin import losses
from lineal.dropin.descent import RATES, SPARSE_DECAY, Descent, Rule
from lineal.dropin.problem import (
    ChecksInput,
    checked_weights,
    class_factors,
    iterations,
    minimise,
    one_vs_rest,
    problem_of,
    warn_unless_converged,
    worst,
)
from lineal.errors import DataError, OptionError
from lineal.linear.options import TrainOptions
from lineal.problem.labels import check_present
from lineal.problem.solution import NO_CERTIFICATE
from lineal.problem.targets import encode
from lineal.problem.validation import validated
from lineal.system import memory

#: Losses that lineal's solvers minimise, by its names for them.
_SOLVED = {"hinge": "hinge", "log_loss": "logistic", "squared_hinge": "squared_hinge", "squared_error": "squared"}

#: `tol` is lowered to this relative gap.
_LARGEST_GAP = 1e-2


class SGDClassifier(ChecksInput, linear_model.SGDClassifier):
    """scikit-learn's `SGDClassifier` with lineal's solvers: same parameters, same objective, its minimum.

    Parameters and attributes are those of `sklearn.linear_model.SGDClassifier`. What `fit` does:

    - "hinge" with penalty "l2" and alpha > 0; "log_loss", "squared_hinge", "squared_error" with any penalty: the
      objective is minimised. `tol` is a relative duality gap, 1e-2 at most (None: as small as rounding allows), and
      `max_iter` bounds the solver's iterations. `shuffle`, `learning_rate`, `eta0`, `power_t`, `n_iter_no_change` and
      `average` are checked, but do not change the minimum.
    - other losses, "hinge" with another penalty, early_stopping=True, learning_rate="pa1" or "pa2", a class whose rows
      have no weight (no intercept is best then): stochastic gradient descent by scikit-learn's rules, where all
      parameters count. All classes stop together, by their mean objective or by their score on the rows set aside.
      average=True is refused.

    `partial_fit` is stochastic gradient descent, too: the same updates as in scikit-learn, but rows are shuffled by
    another generator. `n_jobs` is the number of threads of the solver, `verbose` shows its progress.

    Attributes
    ----------
    certificate_ : bound on the distance of the objective from its minimum; the largest one where each class has its
        own fit. Its kind is "none" after stochastic gradient descent.
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, coef_init: Any = None, intercept_init: Any = None, sample_weight: Any = None
    ) -> SGDClassifier:
        """Train on X (n, d), dense or sparse, float32 or float64, and labels y (n,)."""
        self._more_validate_params()
        if self.power_t < 0:
            warnings.warn(
                "Negative values for `power_t` are deprecated in version 1.8 of scikit-learn and will raise an error "
                "in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
                stacklevel=3,
            )
        X, y = self._rows(X, y, reset=True)
        check_classification_targets(y)
        encoded = encode(y, direct=False)
        if self.warm_start and "coef_" in vars(self):
            coef_init = self.coef_ if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        self.classes_ = encoded.classes
        weights = checked_weights(sample_weight, X)
        factors = class_factors(self.class_weight, self.classes_, y, sample_weight)
        W, b = self._start(coef_init, intercept_init, X.shape[1], encoded.n_columns)
        self.t_ = 1.0
        totals = np.bincount(encoded.class_numbers, weights * factors[encoded.class_numbers], len(self.classes_))
        if self._is_solved() and ((totals > 0.0).all() or not self.fit_intercept):
            has_start = coef_init is not None or intercept_init is not None
            self._minimised(X, encoded, weights, factors, np.vstack([W, b]) if has_start else None)
        else:
            self._descended(X, encoded.class_numbers, weights, factors, W, b)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SGDClassifier:
        """One pass of descent over some rows. The first call needs all `classes`, unless `fit` was called before."""
        self._more_validate_params(for_partial_fit=True)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight {self.class_weight!r} is not supported for partial_fit, which does not know all rows: "
                "pass a dict of weights, for example from sklearn.utils.class_weight.compute_class_weight"
            )
        X, y = self._rows(X, y, reset="classes_" not in vars(self))
        check_present(y)
        check_classification_targets(y)
        _check_partial_fit_first_call(self, classes)
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        if len(self.classes_) < 2:
            raise DataError("The number of classes has to be greater than one; got 1 class")
        numbers = np.searchsorted(self.classes_, y)
        unknown = np.flatnonzero(self.classes_[np.minimum(numbers, len(self.classes_) - 1)] != y)
        if len(unknown):
            raise DataError(f"y[{unknown[0]}] is {y[unknown[0]]!r}, which is not among the classes")
        weights = checked_weights(sample_weight, X)
        factors = class_factors(self.class_weight, self.classes_, y, sample_weight)
        known = vars(self)
        W, b = self._start(known.get("coef_"), known.get("intercept_"), X.shape[1], k)
        self.t_ = known.get("t_", 1.0)
        run = self._descent(X, numbers, weights, factors, W, b)
        run.run_pass(np.arange(len(y)))
        self._keep_descent(run, 1, len(y))
        return self

    # --- minimising

    def _is_solved(self) -> bool:
        """Whether a solver minimises the objective, and no option asks for a certain procedure."""
        if self.early_stopping or self.learning_rate in ("pa1", "pa2") or self.loss not in _SOLVED:
            return False
        return self.loss != "hinge" or (self._l1_fraction() == 0.0 and self._strength() > 0.0)

    def _strength(self) -> float:
        return 0.0 if self.penalty is None else float(self.alpha)

    def _l1_fraction(self) -> float:
        return {"l1": 1.0, "elasticnet": self.l1_ratio}.get(self.penalty, 0.0)

    def _minimised(self, X: Any, encoded: Any, weights: np.ndarray, factors: np.ndarray, start: Any) -> None:
        l1, strength = self._l1_fraction(), self._strength()
        penalty: dict[str, Any] = {"penalty": {0.0: "l2", 1.0: "l1"}.get(l1, "elastic_net")}
        if 0.0 < l1 < 1.0:
            penalty["l1_ratio"] = l1
        options = TrainOptions(
            **penalty, loss=_SOLVED[self.loss], tol=0.0 if self.tol is None else min(self.tol, _LARGEST_GAP),
            fit_intercept=self.fit_intercept, max_iter=self.max_iter, n_jobs=self.n_jobs, verbose=int(self.verbose),
            random_state=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
        )  # fmt: skip
        C = math.inf if strength == 0.0 else 1.0 / (strength * X.shape[0])
        problems = list(one_vs_rest(encoded, weights, factors))
        solutions = []
        for r, (part, s) in enumerate(problems):
            problem = problem_of(X, part, s, C, options)
            own = None if start is None else start if len(problems) == 1 else start[:, [r]]
            if own is not None:
                own = np.ascontiguousarray(own if self.fit_intercept else own[:-1], X.dtype)
            solutions.append(minimise(problem, own))
        self.n_iter_ = max(iterations(solution, self.max_iter) for solution in solutions)
        W = np.hstack([solution.weights for solution in solutions])
        self._keep(W, np.concatenate([solution.intercept for solution in solutions]), X.dtype, X.shape[0])
        self.certificate_ = worst(solutions)
        if self.tol is not None:
            warn_unless_converged(solutions)

    # --- descending

    def _descent(
        self, X: Any, numbers: np.ndarray, weights: np.ndarray, factors: np.ndarray, W: np.ndarray, b: np.ndarray
    ) -> Descent:
        if self.average:
            raise OptionError(
                f"average={self.average!r} is not supported in partial_fit, nor where fit uses stochastic gradient "
                "descent: use average=False, or a loss and penalty that fit minimises"
            )
        l1, alpha = self._l1_fraction(), float(self.alpha)
        rule = Rule(
            losses.get(self.loss, self.epsilon), RATES.index(self.learning_rate), eta=float(self.eta0),
            power_t=float(self.power_t), offset=0.0 if alpha == 0.0 else alpha**-0.75, alpha=alpha,
            l2=float(1.0 - l1) * (self._strength() > 0.0), l1=float(l1), fit_intercept=bool(self.fit_intercept),
            decay=SPARSE_DECAY if sparse.issparse(X) else 1.0,
        )  # fmt: skip
        random = check_random_state(self.random_state) if self.shuffle else None
        return Descent(rule, X, numbers, weights, factors, W, b, self.t_, random)

    def _descended(self, X: Any, numbers: np.ndarray, weights: np.ndarray, factors: np.ndarray, W: Any, b: Any) -> None:
        held = self._make_validation_split(numbers, sample_mask=weights > 0)
        run = self._descent(X, numbers, weights, factors, W, b)
        rows, is_over = np.flatnonzero(~held), False
        best, since, epoch = math.inf, 0, 0
        least = math.inf if self.tol is None else float(self.tol)  # without tol nothing counts as "no change"
        while epoch < self.max_iter and not is_over:
            run.run_pass(rows)
            epoch += 1
            badness = run.error(held) if self.early_stopping else run.objective(len(rows))
            since = since + 1 if badness > best - least and self.tol is not None else 0
            best = min(best, badness)
            if self.verbose:
                print(f"epoch {epoch}: {'held-out error' if self.early_stopping else 'objective'} {badness:.6g}")
            if since >= self.n_iter_no_change:
                since = 0
                is_over = not run.lower_rate()
        self._keep_descent(run, epoch, X.shape[0])
        if not is_over and self.tol is not None:
            warnings.warn(
                f"stopped after max_iter={self.max_iter} passes, while the objective was still falling: raise max_iter",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep_descent(self, run: Descent, epochs: int, n: int) -> None:
        W, b = run.settled()
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(
                "Floating-point under-/overflow occurred in descent: scale the features with StandardScaler or "
                "MinMaxScaler, or lower the learning rate (eta0)"
            )
        self.n_iter_, self.certificate_ = epochs, NO_CERTIFICATE
        self._keep(W, b, run.dtype, n)

    # --- for both

    def _rows(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        return validated(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", accept_large_sparse=True,
            reset=reset,
        )  # fmt: skip

    def _start(self, coef: Any, intercept: Any, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(d, k) weights and (k,) intercepts to start from, zeros if none are given."""
        memory.check_room(
            f"SGDClassifier needs {memory.size(24 * d * k)} of memory for {d} features × {k} classes", 24 * d * k,
            "use fewer features",
        )  # fmt: skip
        W, b = np.zeros((d, k)), np.zeros(k)
        if coef is not None:
            coef = coef.toarray() if sparse.issparse(coef) else np.asarray(coef, np.float64)
            if coef.shape != (k, d) and not (k == 1 and coef.shape == (d,)):
                raise ValueError(f"Provided coef_init does not match dataset: {coef.shape}, expected {(k, d)}")
            W[:] = coef.reshape(k, d).T
        if intercept is not None:
            intercept = np.asarray(intercept, np.float64)
            if intercept.shape != (k,) and not (k == 1 and intercept.shape == ()):
                raise ValueError(f"Provided intercept_init does not match dataset: {intercept.shape}, expected {(k,)}")
            b[:] = intercept
        return W, b

    def _keep(self, W: np.ndarray, b: np.ndarray, dtype: Any, n: int) -> None:
        self.coef_ = np.ascontiguousarray(W.T, dtype)
        self.intercept_ = np.ascontiguousarray(b, dtype)
        self.t_ += float(self.n_iter_) * n

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags
