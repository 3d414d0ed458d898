"""`PrincipalComponents`: coordinates of centred rows along their leading directions, weighted by variance.

    z_j = v_j'(x − x̄) · λ_j^stress,      Σ v_j = λ_j v_j,   Σ = (1/n) Σ_i (x_i − x̄)(x_i − x̄)'

A first step for chains. Kernel features of images do best with the leading directions stressed a little (0.15);
−½ would whiten them.

Up to 2500 columns the covariance is summed over chunks of rows (products in the precision of the features, sums in
float64) and factorised. Beyond, a subspace is iterated (Halko, Martinsson & Tropp 2011), without a d × d matrix; where
rows are not in one array, over a sample of them.
Memory: 8d² bytes and one chunk of dense rows, or 24d(k + 10) bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse

from lineal.core import blas, rng
from lineal.errors import DataError
from lineal.features import rows
from lineal.features.base import Generator
from lineal.features.contracts import FeatureBatch

#: Columns up to which the covariance is kept.
COVARIANCE_COLUMNS = 2500

#: Further directions and passes of the subspace iteration.
OVERSAMPLING, PASSES = 10, 7


class PrincipalComponents(Generator):
    """Projection onto principal components.

    Parameters
    ----------
    n_components : directions; those without variance are left out.
    stress : exponent of a component's variance in its scale: 0 for plain components, −0.5 to whiten.
    random_state : seed of the subspace iteration (None: 0).

    Attributes
    ----------
    mean_ : (d,). components_ : (d, k), unscaled, the largest entry of each positive. variances_ : (k,), descending.
    """

    name: ClassVar[str] = "pca"
    learnt: ClassVar[tuple[str, ...]] = ("mean_", "components_", "variances_")

    mean_: np.ndarray
    components_: np.ndarray
    variances_: np.ndarray

    def __init__(self, n_components: int = 50, stress: float = 0.15, random_state: int | None = None) -> None:
        self.n_components = n_components
        self.stress = stress
        self.random_state = random_state

    def _check_params(self) -> None:
        self.need_option("n_components", self.n_components, 1)
        self.need_within("stress", lambda value: abs(value) <= 4.0, "a number between −4 and 4")

    def _check_state(self) -> None:
        k = self.need_array("variances_", (None,)).shape[0]
        self.need_array("mean_", (self.n_columns_,))
        self.need_array("components_", (self.n_columns_, k))
        if k == 0 or (self.variances_ < 0.0).any():
            raise ValueError("variances_ of pca features must be non-negative, one per component")

    def _size(self) -> int:
        return len(self.variances_)

    def _learn(self, X: Any) -> None:
        self._learn_from(rows.SumsHere(X), X)

    def _learn_from(self, sums: Any, sample: Any) -> None:
        wanted, dtype = min(int(self.n_components), sample.shape[1]), rows.precision(sample)
        if sample.shape[1] <= COVARIANCE_COLUMNS:
            total, largest = sums.total(column_totals)
            mean = total / sums.n_rows
            variances, V = _by_covariance(sums, mean.astype(dtype), largest.value, wanted)
        else:
            mean = column_totals(sample)[0] / sample.shape[0]
            variances, V = _by_iteration(sample, mean, wanted, self.seed_)
        if not np.isfinite(variances).all():
            raise DataError("the variances of the rows are too large for floating-point numbers: scale the columns")
        variances = np.maximum(variances, 0.0)
        # Smaller variances are rounding errors of the products.
        floor = variances[0] * (1e-6 if dtype == np.float32 else 1e-13)
        kept = max(1, int(np.count_nonzero(variances > floor)))
        signs = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
        V = V * np.where(signs < 0.0, -1.0, 1.0)
        self.mean_, self.variances_ = mean.astype(dtype), variances[:kept]
        self.components_ = np.ascontiguousarray(V[:, :kept], dtype)

    def _bytes_to_learn(self) -> int:
        d = self.n_columns_
        return 8 * d * d if d <= COVARIANCE_COLUMNS else 24 * d * (int(self.n_components) + OVERSAMPLING)

    def width_of(self, number: int, size: int) -> int:
        """Number of components of a batch."""
        return max(0, min(size, len(self.variances_) - number * size))

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        part = slice(number * size, (number + 1) * size)
        variances = self.variances_[part]
        scales = np.where(variances > 0.0, np.where(variances > 0.0, variances, 1.0) ** float(self.stress), 1.0)
        V = np.ascontiguousarray(self.components_[:, part] * scales.astype(self.components_.dtype))
        return ComponentBatch(self.mean_, V)


class ComponentBatch:
    """Projection of centred rows."""

    def __init__(self, mean: np.ndarray, V: np.ndarray) -> None:
        self.mean, self.V, self.width = mean, V, V.shape[1]

    def transform(self, X: Any) -> np.ndarray:
        """Components of the rows, (m, width)."""
        dtype = rows.precision(X)
        mean, V = self.mean.astype(dtype, copy=False), self.V.astype(dtype, copy=False)
        if sparse.issparse(X):
            return rows.project(X, V) - mean @ V
        return (rows.dense(X) - mean) @ V  # centred first: nothing cancels

    def state(self) -> dict[str, Any]:
        """Empty state, because the generator has the components."""
        return {}


@dataclass(frozen=True)
class Largest:
    """The larger one of two numbers is their sum."""

    value: float

    def __add__(self, other: Largest) -> Largest:
        return self if self.value >= other.value else other


def column_totals(X: Any) -> tuple[np.ndarray, Largest]:
    """Sums of the columns, and the largest magnitude of all numbers."""
    total, largest = np.zeros(X.shape[1]), 0.0
    for start, stop in rows.chunks(X, 1):
        part = X[start:stop]
        total += np.asarray(part.sum(axis=0, dtype=np.float64)).reshape(-1)
        largest = max(largest, float(part.max()), -float(part.min()))
    return total, Largest(largest)


def centred_products(X: Any, mean: np.ndarray, unit: Any) -> tuple[np.ndarray]:
    """Σ (x − x̄)(x − x̄)'/unit²: products in the precision of x̄, sums of chunks in float64."""
    d = X.shape[1]
    total: np.ndarray = np.zeros((d, d), order="F")  # as LAPACK takes it
    for start, stop in rows.chunks(X, 1, made_dense=True):
        centred = rows.dense(X[start:stop]) - mean
        total += blas.gram(centred if unit == 1.0 else centred / unit)
    return (total,)


def _by_covariance(sums: Any, mean: np.ndarray, largest: float, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues and vectors of the covariance."""
    d = len(mean)
    unit = mean.dtype.type(1.0 if 1e-12 < largest < 1e12 or largest == 0.0 else largest)  # of which squares are safe
    (total,) = sums.total(centred_products, mean, unit)
    total /= sums.n_rows
    variances, V = linalg.eigh(total, lower=False, subset_by_index=(d - wanted, d - 1), overwrite_a=True)
    with np.errstate(over="ignore"):
        return variances[::-1] * float(unit) ** 2 if unit < 1e150 else np.full(wanted, np.inf), V[:, ::-1]


def _by_iteration(X: Any, mean: np.ndarray, wanted: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues and vectors by subspace iteration with Rayleigh–Ritz vectors."""
    d = X.shape[1]
    size = min(d, wanted + OVERSAMPLING)
    V = np.empty(d * size)
    rng.fill_normal(rng.generator(seed), V)
    V = linalg.qr(V.reshape(d, size), mode="economic")[0]
    for _ in range(PASSES):
        CV = _covariance_times(X, mean, V)
        V = linalg.qr(CV, mode="economic", check_finite=False)[0]
    variances, turn = linalg.eigh(V.T @ _covariance_times(X, mean, V))
    order = np.argsort(-variances)[:wanted]
    return variances[order], V @ turn[:, order]


def _covariance_times(X: Any, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    n = X.shape[0]
    out, shift = np.zeros_like(V), mean @ V
    for start, stop in rows.chunks(X, V.shape[1]):
        part = X[start:stop]
        if not sparse.issparse(part):
            part = rows.dense(part, np.float64)
        is_sparse = sparse.issparse(part)
        Z = (part @ V if is_sparse else blas.matmul(part, V)) - shift
        out += (part.T @ Z if is_sparse else blas.rmatmul(part, Z)) - np.outer(mean, Z.sum(axis=0))
    return out / n
