"""`RidgeClassifier`: scikit-learn's, fitted by lineal.

    min Σ_i s_i ‖t_i − W'x_i − b‖² + Σ_r α_r ‖w_r‖²,   t_i of ±1, one entry per class (a single one for two classes)

The bias is not penalised, b = t̄ − W'x̄, and drops out of the problem for centred rows and targets, which has three
solutions:

    (X'SX + α)W = X'ST            d × d, one factorisation for all classes of the same α
    W = X'√S(√SXX'√S + α)⁻¹√ST    n × n, where rows are fewer than features
    conjugate gradients on the first, all classes in one product, for sparse rows with many features.

All give the same minimum, so that `solver` only decides which options are allowed, as in the other drop-in classifiers.

Memory: 16·min(n, d)² bytes, and for dense rows that are fewer than their features a copy of X; 6·d·k numbers for
conjugate gradients.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning

from lineal.core.inputs import checked_labels, checked_numbers
from lineal.core.threads import blas_limit, thread_count
from lineal.design import Design, wrap
from lineal.design.products import column_moments, gram, matmul, rmatmul
from lineal.dropin.problem import ChecksInput, checked_weights
from lineal.errors import DataError, OptionError
from lineal.numerics.cg import System, truncated_cg
from lineal.numerics.factorisation import Factor
from lineal.numerics.ridge import Moments
from lineal.numerics.vectors import column_dots
from lineal.problem.labels import check_present, has_columns, label_sets
from lineal.problem.solution import Certificate
from lineal.problem.validation import explained
from lineal.system import memory

#: Rows or columns of a sparse X up to which a matrix of their products is cheaper than iterations.
FEW = 512

#: Solvers of scikit-learn that set `n_iter_`.
_COUNTED = ("lsqr", "sag", "saga")


class RidgeClassifier(ChecksInput, linear_model.RidgeClassifier):
    """scikit-learn's `RidgeClassifier` with lineal's least squares: same parameters, same answer.

    Parameters and attributes are those of `sklearn.linear_model.RidgeClassifier`. `solver` is checked as there, and
    `solver_` is what it would have been; `positive=True` is refused. `tol` and `max_iter` are for sparse X with more
    than some hundred features, which is solved by conjugate gradients: as for solver "sparse_cg", `tol` bounds the
    residual of the normal equations. Otherwise the answer is exact. X is never overwritten, whatever `copy_X` says.

    Attributes
    ----------
    certificate_ : bound on the distance of the objective from its minimum.
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeClassifier:
        """Train on X (n, d), dense or sparse, and y: labels (n,), or an indicator matrix (n, k)."""
        X, y = checked_numbers(X, "X"), checked_labels(y)
        sample_weight = checked_numbers(sample_weight, "sample_weight")
        if has_columns(y):
            y = label_sets(y).toarray().astype(np.int64)
        elif isinstance(y, np.ndarray) and y.dtype.kind in "OmM":
            check_present(y.ravel())
        name = self._checked_solver(sparse.issparse(X))
        with explained(X):
            X, y, sample_weight, Y = self._prepare_data(X, y, sample_weight, self.solver)
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        memory.check_fit("RidgeClassifier", (24 * Y.shape[1] + 16) * X.shape[1], X.shape, Y.shape[1])
        rows = _Rows.of(wrap(X), checked_weights(sample_weight, X), Y, self.fit_intercept)
        alphas = self._alphas(Y.shape[1]) / rows.total
        with blas_limit(thread_count(None) if rows.X.is_dense else 1):
            W, iterations = self._solved(rows, alphas)
            self.certificate_ = rows.certificate(W, alphas)
        k = W.shape[1]
        self.coef_ = W.ravel() if k == 1 else np.ascontiguousarray(W).T
        self.intercept_ = (rows.level - rows.means @ W).astype(W.dtype) if self.fit_intercept else 0.0
        self.n_iter_ = np.full(k, iterations, np.int32) if name in _COUNTED else None
        self.solver_ = name
        return self

    def _checked_solver(self, is_sparse: bool) -> str:
        """The solver that scikit-learn would take; refuses what it refuses."""
        if self.positive:
            raise OptionError("lineal.dropin.RidgeClassifier does not support positive=True: leave it out")
        if self.solver == "lbfgs":
            raise ValueError("solver 'lbfgs' is for positive=True only: use another one")
        if not is_sparse:
            return "cholesky" if self.solver == "auto" else self.solver
        if self.fit_intercept and self.solver in ("svd", "cholesky", "saga"):
            raise ValueError(
                f"solver {self.solver!r} fits no intercept to sparse X: use 'auto', or fit_intercept=False"
            )
        if self.solver == "svd":
            raise TypeError("solver 'svd' does not take sparse X")
        if self.solver == "sag" and self.fit_intercept:  # as scikit-learn has it
            return "sag" if self.max_iter is None and self.tol > 1e-4 else "sparse_cg"
        return "sparse_cg" if self.solver == "auto" else self.solver

    def _alphas(self, k: int) -> np.ndarray:
        alphas = np.ravel(np.asarray(self.alpha, np.float64))
        if len(alphas) not in (1, k):
            raise ValueError(f"alpha has {len(alphas)} entries for {k} targets: pass one number, or one per target")
        if not (np.isfinite(alphas).all() and (alphas >= 0.0).all()):
            raise ValueError(f"alpha={self.alpha!r} must not be negative")
        return np.broadcast_to(alphas, k)

    def _solved(self, rows: _Rows, alphas: np.ndarray) -> tuple[np.ndarray, int]:
        """Weights, and the number of iterations (1 where the answer is exact)."""
        n, d = rows.X.shape
        if rows.X.is_dense or min(n, d) <= FEW:
            return (rows.by_columns(alphas) if d <= n else rows.by_rows(alphas)), 1
        most = 10 * min(n, d) if self.max_iter is None else self.max_iter
        W, iterations = rows.by_iteration(alphas, self.tol, most)
        if iterations >= most:
            warnings.warn(
                f"stopped after max_iter={most} iterations, before a residual of tol={self.tol:g}: raise max_iter",
                ConvergenceWarning,
                stacklevel=4,
            )
        return W, iterations

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags


@dataclass(frozen=True)
class _Rows:
    """X, row weights divided by their sum `total`, centred targets, and the means of columns and targets."""

    X: Design
    weights: np.ndarray
    total: float
    T: np.ndarray
    means: np.ndarray
    level: np.ndarray
    is_centred: bool

    @staticmethod
    def of(X: Design, weights: np.ndarray, Y: np.ndarray, is_centred: bool) -> _Rows:
        total = float(weights.sum())
        s, T = weights / total, Y.astype(X.dtype)
        level = s @ T if is_centred else np.zeros(T.shape[1])
        means = column_moments(X, s)[:, 0] if is_centred else np.zeros(X.shape[1])
        if not np.isfinite(means).all():
            raise DataError("the means of the features overflow: scale them")
        return _Rows(X, s, total, T - level.astype(T.dtype), means, level, is_centred)

    @property
    def rounding(self) -> float:
        return float(np.finfo(self.X.dtype).eps)

    def correlations(self) -> np.ndarray:
        """X'ST."""
        return rmatmul(self.X, self.T * self.weights[:, None].astype(self.T.dtype), threads=thread_count(None))

    def product(self, V: np.ndarray) -> np.ndarray:
        """X'SX·V for centred rows."""
        P = matmul(self.X, V, threads=thread_count(None))
        P -= (self.means @ V).astype(P.dtype)
        P *= self.weights[:, None].astype(P.dtype)
        return rmatmul(self.X, P, threads=thread_count(None))

    def by_columns(self, alphas: np.ndarray) -> np.ndarray:
        """Solution by a factorisation of the d × d matrix."""
        means = self.means if self.is_centred else None
        square = gram(self.X, self.weights, thread_count(None), means)
        moments = Moments.of(means, square, self.X.dtype, not self.X.is_dense)
        products = self.correlations()
        products[moments.constant] = 0.0
        return _factorised(moments.square, products, alphas, self.rounding)

    def by_rows(self, alphas: np.ndarray) -> np.ndarray:
        """Solution by a factorisation of the n × n matrix."""
        root = np.sqrt(self.weights)
        if self.X.is_dense:
            Z = self.X.layout.values - self.means.astype(self.X.dtype)
            Z *= root[:, None].astype(Z.dtype)
            kernel = (Z @ Z.T).astype(np.float64)
            A = _factorised(kernel, self.T * root[:, None].astype(self.T.dtype), alphas, self.rounding)
            return Z.T @ A
        Z = _as_scipy(self.X).astype(np.float64)
        shift = Z @ self.means
        kernel = (Z @ Z.T).toarray() - shift[:, None] - shift + float(self.means @ self.means)
        kernel *= root * root[:, None]
        A = _factorised(kernel, self.T.astype(np.float64) * root[:, None], alphas, self.rounding) * root[:, None]
        return (Z.T @ A - np.outer(self.means, A.sum(axis=0))).astype(self.X.dtype)

    def by_iteration(self, alphas: np.ndarray, tol: float, most: int) -> tuple[np.ndarray, int]:
        """Solution by conjugate gradients, each column to a residual of tol; and the number of iterations."""

        def system(strengths: np.ndarray) -> System:
            return System(
                lambda V: self.product(V) + V * strengths.astype(V.dtype),
                lambda R: R.copy(),
                lambda keep: system(strengths[keep]),
            )

        k = len(alphas)
        ends = np.full(k, max(tol, self.rounding))
        step = truncated_cg(
            system(alphas), -self.correlations(), column_dots, ends, np.full(k, math.inf), most=most
        )  # fmt: skip
        return step.direction, step.products

    def certificate(self, W: np.ndarray, alphas: np.ndarray) -> Certificate:
        """The duality gap, which is ‖∇‖²/(2α) at the best bias; without a ridge, a relative violation."""
        residual = matmul(self.X, W, threads=thread_count(None)) - (self.means @ W).astype(W.dtype) - self.T
        weighted = residual * self.weights[:, None].astype(W.dtype)
        gradient = rmatmul(self.X, weighted, threads=thread_count(None)) + W * alphas.astype(W.dtype)
        squares = np.einsum("ir,ir,i->", residual, residual, self.weights, dtype=np.float64)
        primal = 0.5 * float(squares + alphas @ np.einsum("jr,jr->r", W, W, dtype=np.float64))
        sizes = np.einsum("jr,jr->r", gradient, gradient, dtype=np.float64)
        if (alphas > 0.0).all():
            gap = float((sizes / (2.0 * alphas)).sum())
            return Certificate.of_gap(primal, primal - gap)
        largest = float(np.linalg.norm(self.correlations(), axis=1).max(initial=0.0)) or 1.0
        return Certificate("violation", float(np.linalg.norm(gradient, axis=1).max(initial=0.0)) / largest, primal)


def _factorised(M: np.ndarray, R: np.ndarray, alphas: np.ndarray, rounding: float) -> np.ndarray:
    """(M + α)⁻¹R, each column with its own α."""
    out = np.empty_like(R)
    for alpha in np.unique(alphas):
        columns = np.flatnonzero(alphas == alpha)
        out[:, columns] = Factor(M, alpha, rounding=rounding).solve(np.ascontiguousarray(R[:, columns]))
    return out


def _as_scipy(X: Design) -> Any:
    kind = sparse.csr_array if X.has_rows else sparse.csc_array
    return kind((X.layout.data, X.layout.indices, X.layout.indptr), shape=X.shape)
