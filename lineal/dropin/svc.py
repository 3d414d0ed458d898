"""`LinearSVC`: scikit-learn's linear support vector classifier, fitted by lineal.

    one-vs-rest         min ½‖w‖² + C Σ_i s_i max(0, 1 − t_i w'x_i)^p   (or ‖w‖₁ with p = 2), for every class
    Crammer–Singer      min ½ Σ_r ‖w_r‖² + C Σ_i s_i max_r ([r ≠ y_i] − (w_{y_i} − w_r)'x_i)

with p = 1 for "hinge" and 2 for "squared_hinge", and x with a last entry `intercept_scaling` where an intercept is
fitted: as in LIBLINEAR, the bias is penalised. LIBLINEAR's class weights also have a meaning of their own with more
than two classes: the problem of class r applies them only to its positive rows. Then every class is a fit of its own;
without class weights all classes are fitted at once.

Memory: X in float64 with one more column, and what lineal's solver for the loss and penalty needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import svm
from sklearn.base import _fit_context
from sklearn.svm._base import _get_liblinear_solver_type
from sklearn.svm._classes import _validate_dual_parameter
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from lineal.dropin import problem
from lineal.linear.options import TrainOptions
from lineal.problem.targets import encode
from lineal.problem.validation import validated


class LinearSVC(problem.ChecksInput, svm.LinearSVC):
    """scikit-learn's `LinearSVC` with lineal's solvers: same parameters, same answer.

    Parameters and attributes are those of `sklearn.svm.LinearSVC`. `dual` is checked, but lineal chooses the solver by
    itself. `tol` becomes a relative duality gap of `tol`/100, 1e-4 at most, which bounds the distance of the objective
    from its minimum; LIBLINEAR's stopping rules bound a gradient. `max_iter` bounds the iterations of lineal's solver,
    `n_iter_` counts them. `verbose` shows lineal's progress.

    Attributes
    ----------
    certificate_ : bound on the distance of the objective from its minimum; the largest one where each class has its
        own fit.
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Train on X (n, d), dense or sparse, and labels y (n,)."""
        X, y = validated(
            self, X, y, accept_sparse=["csr", "csc"], dtype=np.float64, order=None, accept_large_sparse=True
        )
        check_classification_targets(y)
        dual = _validate_dual_parameter(self.dual, self.loss, self.penalty, self.multi_class, X)
        _get_liblinear_solver_type(self.multi_class, self.penalty, self.loss, dual)  # refuses what LIBLINEAR refuses
        joint = self.multi_class == "crammer_singer"
        encoded = encode(y, direct=joint)
        self.classes_ = encoded.classes
        weights = problem.checked_weights(sample_weight, X)
        factors = problem.class_factors(self.class_weight, self.classes_, y, sample_weight)
        features = problem.with_bias(X, self.intercept_scaling) if self.fit_intercept else X
        options = TrainOptions(
            loss="crammer_singer" if joint else self.loss, penalty="l2" if joint else self.penalty,
            tol=problem.liblinear_gap(self.tol), fit_intercept=False, max_iter=self.max_iter, verbose=int(self.verbose),
            random_state=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
        )  # fmt: skip
        solutions = [
            problem.minimise(problem.problem_of(features, part, s, float(self.C), options))
            for part, s in problem.one_vs_rest(encoded, weights, factors, joint)
        ]
        self._keep(np.hstack([solution.weights for solution in solutions]))
        self.certificate_ = problem.worst(solutions)
        self.n_iter_ = max(problem.iterations(solution, self.max_iter) for solution in solutions)
        problem.warn_unless_converged(solutions)
        return self

    def _keep(self, W: np.ndarray) -> None:
        if len(self.classes_) == 2 and W.shape[1] == 2:  # Crammer–Singer has one column per class
            W = W[:, 1:] - W[:, :1]
        if self.fit_intercept:
            self.intercept_ = self.intercept_scaling * W[-1]
            W = W[:-1]
        else:
            self.intercept_ = 0.0
        self.coef_ = W.T
