"""`AdaptivePolynomial`: products of columns chosen by an online learner, as features for any other solver.

An online learner with adaptive expansion (Agarwal et al. 2014; see `lineal.online.monomials`) goes over the rows once
or a few times and multiplies the features with the largest weights. This transformer keeps the resulting monomials,
those with the largest weights first, and computes their exact values, without hashing: the online learner selects
features, and a batch solver fits them.

In sparse rows, a monomial is computed only where its rarest column occurs. With m_c monomials whose rarest column is c,
a row takes time Σ_c m_c over its entries. Memory: the result, and 8 bytes per column for every thread.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core import threads
from lineal.core.inputs import checked_labels
from lineal.core.scikit import (
    BaseEstimator,
    TransformerMixin,
    _check_feature_names_in,
    check_array,
    check_consistent_length,
    check_is_fitted,
    check_random_state,
    column_or_1d,
    type_of_target,
)
from lineal.design.matrix import summed
from lineal.errors import DataError, OptionError
from lineal.models.estimator import column_names
from lineal.online.fit import array_blocks, fit_online
from lineal.online.monomial_values import (
    Monomials,
    SparseRows,
    count_products,
    products_of_dense,
    products_of_sparse,
)
from lineal.online.options import OnlineOptions
from lineal.online.trainer import CLASSES, NUMBERS, SETS
from lineal.problem.labels import check_present, find_classes, has_columns, label_sets
from lineal.problem.validation import validated, validated_weights
from lineal.system import memory

#: Rows per task of a thread.
ROWS = 4096


class AdaptivePolynomial(TransformerMixin, BaseEstimator):
    """Products of columns that an online learner chose.

    Parameters
    ----------
    growth : every epoch but the last ends with (mean features per example)**growth new parents, each of which is
        multiplied by every column.
    epochs : number of epochs.
    schedule : epochs end at …, a quarter, a half of the rows ("halving", the meaning of "auto"), or at equal distances
        ("equal").
    heuristic : how parents are chosen: "weight" for the largest weights, "ssm" for the largest residuals.
    fallback : whether one of the new parents is a monomial of the lowest degree left.
    loss : loss of the online learner; None means logistic for classes, squared for numbers.
    rate : its learning rate; "tune" tries several.
    passes : its passes over the rows.
    bits : it has 2**bits weights.
    n_monomials : keep at most this many products, those with the largest weights; None for all.
    include_linear : whether the columns themselves come first.
    shuffle : learn from the rows in random order. Without it, the rows must already be in random order.
    random_state : seed of the order.
    n_jobs : threads; None means all cores.

    Attributes
    ----------
    monomials_ : tuples of column numbers, such as (0, 2, 2) for x0*x2^2, in the order of the output.
    weights_ : (number of monomials, k) weights of the online learner; NaN for columns without a value.
    model_ : the `lineal.OnlineModel`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(
        self,
        growth: float = 1.0,
        epochs: int = 6,
        schedule: str = "auto",
        heuristic: str = "weight",
        fallback: bool = False,
        loss: str | None = None,
        rate: float | str = 0.5,
        passes: int = 1,
        bits: int = 18,
        n_monomials: int | None = None,
        include_linear: bool = True,
        shuffle: bool = True,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.growth = growth
        self.epochs = epochs
        self.schedule = schedule
        self.heuristic = heuristic
        self.fallback = fallback
        self.loss = loss
        self.rate = rate
        self.passes = passes
        self.bits = bits
        self.n_monomials = n_monomials
        self.include_linear = include_linear
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdaptivePolynomial:
        """Choose monomials for y: labels (n,), an indicator matrix (n, k), or numbers (n,)."""
        options = self._options()
        if y is None:
            raise DataError("AdaptivePolynomial requires y to be passed, but the target y is None")
        X = self._checked(X, reset=True)
        y, kind, classes = _target(y)
        check_consistent_length(X, y)
        weights = validated_weights(sample_weight, X)
        X = X if sparse.issparse(X) else sparse.csr_array(X)
        self._check_room(X.shape[1])
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(X.shape[0])
            X, y = X[order], y[order]
            weights = None if weights is None else weights[order]
        trainer, run = fit_online(
            lambda: array_blocks(X, y, weights), options, kind, classes=classes, n_examples=X.shape[0],
            width=X.shape[1],
        )  # fmt: skip
        self.model_ = trainer.model(run.status, feature_names=column_names(self))
        self.history_ = run.history
        self._keep(np.bincount(X.indices, minlength=X.shape[1]))
        return self

    def _check_room(self, d: int) -> None:
        """Refuse X if memory does not suffice for the counts and linear monomials of its columns."""
        needed = (32 + (200 if self.include_linear else 0)) * d
        what = f"AdaptivePolynomial needs {memory.size(needed)} of memory for {d} columns"
        memory.check_room(what, needed, "use fewer columns, or set include_linear=False")

    def _options(self) -> OnlineOptions:
        for name in ("include_linear", "shuffle"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise OptionError(f"{name}={getattr(self, name)!r} is neither True nor False")
        if self.n_monomials is not None:
            try:
                is_count = operator.index(self.n_monomials) >= 0
            except TypeError:
                is_count = False
            if not is_count:
                raise OptionError(f"n_monomials={self.n_monomials!r} is neither None nor an integer ≥ 0")
        return OnlineOptions(
            expansion="adaptive", growth=self.growth, epochs=self.epochs, heuristic=self.heuristic,
            fallback=self.fallback, loss=self.loss, rate=self.rate, passes=self.passes, bits=self.bits,
            n_jobs=self.n_jobs, schedule=self.schedule,
        ).checked()  # fmt: skip

    def _keep(self, counts: np.ndarray) -> None:
        """Set the monomials and, for the kernels, their factors and rarest columns."""
        found = self.model_.monomials()
        products = [(monomial, weights) for monomial, weights in found if len(monomial) > 1][: self.n_monomials]
        k = self.model_.learner.k
        if self.include_linear:
            linear = {monomial[0]: weights for monomial, weights in found if len(monomial) == 1}
            products = [((c,), linear.get(c, np.full(k, np.nan))) for c in range(len(counts))] + products
        if not products:
            raise DataError("no product of columns has a weight: there is nothing to transform to (set include_linear)")
        self.monomials_ = [monomial for monomial, _ in products]
        self.weights_: np.ndarray = np.array([weights for _, weights in products]).reshape(len(products), k)
        lengths = np.array([len(monomial) for monomial in self.monomials_])
        self._factors: np.ndarray = np.full((len(products), int(lengths.max())), -1, np.int32)
        for place, monomial in enumerate(self.monomials_):
            self._factors[place, : len(monomial)] = monomial
        rarity = np.where(self._factors >= 0, counts[self._factors], np.iinfo(np.int64).max)
        rarest = np.take_along_axis(self._factors, rarity.argmin(axis=1)[:, None], axis=1)[:, 0]
        self._members: np.ndarray = np.argsort(rarest, kind="stable").astype(np.int32)
        self._member_starts: np.ndarray = np.searchsorted(rarest[self._members], np.arange(len(counts) + 1))

    def transform(self, X: Any) -> Any:
        """Values of the monomials, (n, number of monomials): CSR if X is sparse, float32 if X is float32."""
        check_is_fitted(self, "monomials_")
        X = self._checked(X, reset=False)
        jobs = threads.thread_count(self.n_jobs)
        ranges = [(first, min(first + ROWS, X.shape[0])) for first in range(0, X.shape[0], ROWS)]
        if sparse.issparse(X):
            return self._sparse(X, ranges, jobs)
        out: np.ndarray = np.empty((X.shape[0], len(self.monomials_)), X.dtype)
        threads.run([partial(products_of_dense, X, first, last, self._factors, out) for first, last in ranges], jobs)
        _check_finite(out)
        return out

    def _sparse(self, X: Any, ranges: list[tuple[int, int]], jobs: int) -> Any:
        X = summed(X)
        rows = SparseRows(X.indices, X.data, X.indptr, X.shape[1])
        monomials = Monomials(self._factors, self._members, self._member_starts)
        counts: np.ndarray = np.zeros(X.shape[0] + 1, np.int64)
        threads.run([partial(count_products, rows, first, last, monomials, counts) for first, last in ranges], jobs)
        starts = np.cumsum(counts)
        total = int(starts[-1])
        out = SparseRows(np.empty(total, np.int32), np.empty(total, X.dtype), starts, len(self.monomials_))
        threads.run([partial(products_of_sparse, rows, first, last, monomials, out) for first, last in ranges], jobs)
        _check_finite(out.values)
        kind = sparse.csr_matrix if sparse.isspmatrix(X) else sparse.csr_array
        if total < 2**31:
            starts = starts.astype(np.int32)
        result = kind((out.values, out.columns, starts), shape=(X.shape[0], out.width))
        result.sort_indices()
        return result

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the monomials, such as "a*b^2"."""
        check_is_fitted(self, "monomials_")
        known = _check_feature_names_in(self, input_features)
        return np.array([_named(known, monomial) for monomial in self.monomials_], dtype=object)

    def _checked(self, X: Any, reset: bool) -> Any:
        return validated(
            self, X, reset=reset, accept_sparse="csr", accept_large_sparse=True, dtype=(np.float64, np.float32),
            order="C",
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _target(y: Any) -> tuple[Any, str, Any]:
    """Labels in the form of the online learner, their kind, and the classes."""
    y = checked_labels(y)
    y = y if sparse.issparse(y) else np.asarray(y)
    if has_columns(y):
        sets = label_sets(y)
        return sets, SETS, np.arange(sets.shape[1])
    y = column_or_1d(y, warn=True)
    check_present(y)
    if type_of_target(y, input_name="y") == "continuous":
        return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), NUMBERS, None
    return y, CLASSES, find_classes(y)[0]


def _check_finite(values: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(values).all():
        raise DataError("a product of columns is beyond floating-point numbers: scale the columns")


def _named(known: np.ndarray, monomial: tuple[int, ...]) -> str:
    powers = {column: monomial.count(column) for column in monomial}
    return "*".join(known[c] if power == 1 else f"{known[c]}^{power}" for c, power in powers.items())
