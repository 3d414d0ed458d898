"""The common parts of the drop-in classifiers: from C and a penalised bias to lineal's objective, and back.

scikit-learn minimises C·Σ_i s_i ℓ_i + Ω(w), lineal (1/Σs)·Σ_i s_i ℓ_i + α·Ω(w): the same with α = 1/(C·Σs).
LIBLINEAR penalises the bias: it is the weight of a constant feature, here a last column of X without an intercept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight

from lineal.core.inputs import checked_numbers
from lineal.core.scikit import ConvergenceWarning, _check_sample_weight
from lineal.design import wrap
from lineal.errors import DataError
from lineal.linear.fit import Problem, assemble, blas_threads
from lineal.linear.options import TrainOptions
from lineal.models.predictor import finite_scores
from lineal.problem.progress import Progress
from lineal.problem.solution import Certificate, Solution
from lineal.problem.targets import Encoded, encode
from lineal.problem.validation import ScoresChecked, explained


class ChecksInput(ScoresChecked):
    """First base of the drop-in classifiers: scikit-learn's predictions, after a check of the rows."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, else (n, k). All other predictions of scikit-learn are made from these."""
        with explained(X), np.errstate(over="ignore", invalid="ignore"):
            return finite_scores(super().decision_function(checked_numbers(X, "X")))  # type: ignore[misc]


#: `tol` is raised to this relative gap: smaller ones are below rounding errors.
SMALLEST_GAP = {"f4": 1e-6, "f8": 1e-13}

#: A fit that rounding stopped at this gap is as good as a converged one: scikit-learn's solvers do not warn either.
SILENT_GAP = 1e-6


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Row weights, one each by default."""
    weights = _check_sample_weight(checked_numbers(sample_weight, "sample_weight"), X, dtype=np.float64)
    bad = np.flatnonzero(weights < 0.0)
    if bad.size:
        raise DataError(f"sample_weight of row {bad[0]} is {weights[bad[0]]}: weights must not be negative")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not 0.0 < total < math.inf:
        raise DataError(
            "sample_weight is zero for every row: some weights must be positive"
            if total == 0.0
            else "sample_weight adds up to more than a floating-point number can hold: divide the weights"
        )
    return weights


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, sample_weight: Any) -> np.ndarray:
    """One factor per class. "balanced" counts rows, or their weights where given, as scikit-learn does."""
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=sample_weight)
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise DataError(f"class_weight={class_weight!r} has a weight that is negative or not finite")
    return factors


def with_bias(X: Any, value: float) -> Any:
    """A copy of X with a last column of this value, in the layout of X."""
    if not sparse.issparse(X):
        is_f = X.flags.f_contiguous and not X.flags.c_contiguous
        out = np.empty((X.shape[0], X.shape[1] + 1), X.dtype, "F" if is_f else "C")
        out[:, :-1] = X
        out[:, -1] = value
        return out
    column = sparse.csr_array(np.full((X.shape[0], 1), value, X.dtype))
    return sparse.hstack([X, column], format=X.format, dtype=X.dtype)


def problem_of(X: Any, encoded: Encoded, weights: np.ndarray, C: float, options: TrainOptions) -> Problem:
    """The problem C·Σ s ℓ + Ω, divided by C·Σs; C may be infinite. `options.alpha` is not used."""
    total = float(weights.sum())
    alpha = 0.0 if math.isinf(C) else 1.0 / (C * total)
    return assemble(wrap(X), encoded, weights / total, replace(options, alpha=alpha))


def minimise(problem: Problem, start: np.ndarray | None = None) -> Solution:
    """The solution by the solver that lineal chooses for this problem."""
    objective, options = problem.objective, problem.options
    if options.max_iter == 0 and start is None:
        start = np.zeros(objective.shape, objective.engine.dtype)  # the answer of scikit-learn without iterations
    options = replace(options, tol=max(options.tol, SMALLEST_GAP[objective.engine.dtype.str[1:]]))
    with blas_threads(problem), Progress(options.verbose, options.tol) as progress:
        return replace(problem, options=options).solve(callbacks=progress.callbacks, start=start)


def one_vs_rest(
    encoded: Encoded, weights: np.ndarray, factors: np.ndarray, is_direct: bool = False
) -> Iterator[tuple[Encoded, np.ndarray]]:
    """Labels and row weights of each fit: a single fit for all classes where they have the same row weights.

    With more than two classes, LIBLINEAR and stochastic gradient descent apply the weight of class r only to the rows
    of class r, in the problem of class r; then every class is a fit of its own.
    """
    numbers = encoded.class_numbers
    if is_direct or encoded.n_columns == 1 or (factors == 1.0).all():
        yield encoded, weights * factors[numbers]
        return
    for r, factor in enumerate(factors):
        is_own = numbers == r
        yield encode(is_own.astype(np.int32), direct=False), weights * np.where(is_own, factor, 1.0)


def liblinear_gap(tol: float) -> float:
    """The relative duality gap that replaces LIBLINEAR's `tol`: a hundredth of it, at most 1e-4.

    LIBLINEAR bounds a gradient, which says little about the objective. Measured at its default tol = 1e-4, it ends
    between 1e-10 and 1e-6 above the minimum, relative to the minimum. A gap of 1e-6 guarantees that much, and the
    answer is usually better.
    """
    return min(0.01 * tol, 1e-4)


def iterations(solution: Solution, max_iter: int) -> int:
    """Number of iterations, as scikit-learn counts them: at least one, unless none was allowed."""
    return min(max(1, len(solution.history) - 1), max_iter)


def worst(solutions: list[Solution]) -> Certificate:
    """The certificate of the least certain of several fits."""
    return max((solution.certificate for solution in solutions), key=lambda certificate: certificate.value)


def warn_unless_converged(solutions: list[Solution]) -> None:
    """One ConvergenceWarning, for the fit that is furthest from its tolerance."""
    short = [
        solution
        for solution in solutions
        if solution.needs_warning and not (solution.status == "stalled" and solution.certificate.meets(SILENT_GAP))
    ]
    if short:
        furthest = max(short, key=lambda solution: solution.certificate.value)
        warnings.warn(furthest.message, ConvergenceWarning, stacklevel=4)
