"""`RandomFourier`: random features whose inner products approximate a kernel.

A kernel k(x − x') of variance one is the mean of cos ω'(x − x') over frequencies ω from its spectrum (Bochner), so that

    k(x, x') ≈ (1/D) Σ_j cos ω_j'(x − x') = Σ_j f_j(x) f_j(x'),   f = D^(−½) (cos ω_j'x, sin ω_j'x)

(Rahimi & Recht 2007). With bandwidth s, frequencies and kernels are

    gaussian    exp(−‖x − x'‖²/s)                  ω ~ N(0, 2/s)
    matern      of smoothness ν, length √(s/2)     ω ~ N(0, 2/s)/√(χ²₂ᵥ/2ν), Student's t; ν → ∞ is the gaussian
    laplacian   exp(−‖x − x'‖₁/s)                  ω_i ~ Cauchy(1/s), each by itself

Frequencies of one batch can be made orthogonal, which lowers the error of the mean (Yu et al. 2016, "Orthogonal random
features"), by QR or, without any matrix, by three Hadamard transforms with random signs in between.

Memory of a batch: (d × size/2) float32 frequencies, O(d + size) for "hadamard"; of a chunk: its features.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, special

from lineal.core import rng
from lineal.errors import DataError, OptionError
from lineal.features import hadamard, rows
from lineal.features.base import Generator, thread_count
from lineal.features.contracts import FeatureBatch
from lineal.features.waves import waves

#: Pairs of rows whose distances decide the bandwidth.
PAIRS = 4096

#: Bandwidths between which float32 frequencies neither vanish nor overflow.
SMALLEST, LARGEST = 1e-60, 1e60

# Streams of random numbers: one per batch and purpose. Distances have a stream of their own.
_DISTANCES, _PURPOSES = -1, 4
_DIRECTIONS, _LENGTHS, _TAILS, _PHASES = range(_PURPOSES)


class RandomFourier(Generator):
    """Random Fourier features of a shift-invariant kernel.

    Parameters
    ----------
    kernel : "gaussian", "laplacian" or "matern".
    nu : smoothness of the Matérn kernel; ½ is exp(−‖·‖/length), large values are nearly gaussian.
    bandwidth : s in the formulae of `lineal.features.fourier`; "median" takes that of the squared distances between
        rows (of their l1 distances for "laplacian"), from 4096 random pairs of different rows.
    scale : factor of the median, for "median".
    variant : "iid", "orthogonal" or "hadamard" frequencies (the latter two not for "laplacian").
    pairs : cos and sin of size/2 frequencies; otherwise √2·cos(ω'x + phase) of size frequencies.
    n_features : features as a scikit-learn transformer.
    n_jobs, random_state : threads (None: all cores) and seed (None: 0).

    Attributes
    ----------
    bandwidth_ : s. Rows without any distance between them have s = 1.
    """

    name: ClassVar[str] = "fourier"
    learnt: ClassVar[tuple[str, ...]] = ("bandwidth_",)

    bandwidth_: float

    def __init__(
        self,
        kernel: str = "gaussian",
        nu: float = 1.5,
        bandwidth: float | str = "median",
        scale: float = 1.0,
        variant: str = "iid",
        pairs: bool = True,
        n_features: int = 1024,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.bandwidth = bandwidth
        self.scale = scale
        self.variant = variant
        self.pairs = pairs
        self.n_features = n_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        self.need_choice("kernel", ("gaussian", "laplacian", "matern"))
        self.need_choice("variant", ("iid", "orthogonal", "hadamard"))
        self.need_flag("pairs")
        self.need_positive("nu")
        self.need_positive("scale")
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "median":
                raise OptionError(f"bandwidth={self.bandwidth!r} must be a number > 0 or 'median'")
        else:
            self.need_positive("bandwidth")
        if self.kernel == "laplacian" and self.variant != "iid":
            raise OptionError(
                f"variant {self.variant!r} needs frequencies whose direction does not matter; those of the laplacian "
                "kernel have one: use variant 'iid' or kernel 'matern'"
            )

    def _check_state(self) -> None:
        self.need_float("bandwidth_", 0.0)
        _check_bandwidth(self.bandwidth_)

    def _learn(self, X: Any) -> None:
        if isinstance(self.bandwidth, str):
            self.bandwidth_ = float(self.scale) * median_distance(X, self.seed_, 1 if self.kernel == "laplacian" else 2)
        else:
            self.bandwidth_ = float(self.bandwidth)
        _check_bandwidth(self.bandwidth_)

    def with_bandwidth(self, bandwidth: float) -> RandomFourier:
        """A prepared copy with another bandwidth s: same seed, same random numbers."""
        other = copy.copy(self)
        other.bandwidth = other.bandwidth_ = float(bandwidth)
        other._check_params()
        _check_bandwidth(other.bandwidth_)
        return other

    def _bytes_to_make(self, size: int) -> int:
        d, half = self.n_columns_, (size + 1) // 2 if self.pairs else size
        if self.variant == "hadamard":
            p = hadamard.order(d)
            return 12 * 3 * p * -(-half // p)  # float64 draws, and signs
        return (32 if self.kernel == "laplacian" else 8) * d * half

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        half = (size + 1) // 2 if self.pairs else size
        phases = None
        if not self.pairs:
            phases = _uniform(self.seed_, number, _PHASES, half).astype(np.float32)
        frequencies = self._structured(number, half) if self.variant == "hadamard" else self._matrix(number, half)
        return FourierBatch(frequencies, phases, size, thread_count(self))

    def _matrix(self, number: int, half: int) -> Matrix:
        """Frequencies (d, half) in turns."""
        d = self.n_columns_
        if self.kernel == "laplacian":
            cauchy = np.tan(np.pi * (_uniform(self.seed_, number, _DIRECTIONS, d * half) - 0.5)).reshape(d, half)
            return Matrix((cauchy / (2.0 * np.pi * self.bandwidth_)).astype(np.float32))
        normal = np.empty(d * half, np.float32)
        rng.fill_normal(rng.generator(self.seed_, number * _PURPOSES + _DIRECTIONS), normal)
        V = normal.reshape(d, half)
        lengths = self._lengths(number, half)
        if self.variant == "orthogonal":
            V = _orthogonal(V)
            lengths = lengths * _chi(self.seed_, number, half, d)
        return Matrix(np.ascontiguousarray(V * lengths.astype(np.float32)))

    def _structured(self, number: int, half: int) -> hadamard.Structured:
        p = hadamard.order(self.n_columns_)
        lengths = self._lengths(number, half) * _chi(self.seed_, number, half, p)
        signs = hadamard.signs(rng.generator(self.seed_, number * _PURPOSES + _DIRECTIONS), half, p)
        return hadamard.Structured(signs, lengths)

    def _lengths(self, number: int, half: int) -> np.ndarray:
        """Standard deviations of the frequencies, in turns."""
        lengths: np.ndarray = np.full(half, np.sqrt(2.0 / self.bandwidth_) / (2.0 * np.pi))
        if self.kernel == "matern":
            u = _uniform(self.seed_, number, _TAILS, half)
            lengths /= np.sqrt(np.maximum(special.gammaincinv(float(self.nu), u) / float(self.nu), 1e-30))
        return lengths


class Matrix:
    """Frequencies as a (d, half) float32 matrix, in turns."""

    def __init__(self, V: np.ndarray) -> None:
        self.V, self.count = V, V.shape[1]

    def turns(self, X: Any, out: np.ndarray, threads: int) -> None:
        """Write X @ V to `out`."""
        rows.project(X, self.V, threads, out)


class FourierBatch:
    """Batch of cosines and sines for some frequencies."""

    def __init__(self, frequencies: Any, phases: np.ndarray | None, width: int, threads: int) -> None:
        self.frequencies, self.phases, self.width, self.threads = frequencies, phases, width, threads

    def transform(self, X: Any) -> np.ndarray:
        """Features of the rows, (m, width)."""
        half = self.frequencies.count
        F = np.empty((X.shape[0], self.width), rows.precision(X))
        self.frequencies.turns(X, F[:, :half], self.threads)
        return waves(F, half, self.phases, np.sqrt(2.0 / self.width), self.threads)

    def state(self) -> dict[str, Any]:
        """Empty state, because seed and number determine the batch."""
        return {}


def median_distance(X: Any, seed: int, power: int) -> float:
    """Median over random pairs of different rows of Σ_j |x_j − x'_j|^power; of the positive ones if it is zero.

    1 where all rows are the same.
    """
    n = X.shape[0]
    draws = np.empty(2 * PAIRS)
    rng.fill_uniform(rng.generator(seed, _DISTANCES), draws)
    first = (draws[:PAIRS] * n).astype(np.int64)
    second = (first + 1 + (draws[PAIRS:] * max(1, n - 1)).astype(np.int64)) % n
    found = rows.distances(X, first, second, power)
    middle = float(np.median(found))
    if middle > 0.0:
        return middle
    positive = found[found > 0.0]
    return float(np.median(positive)) if len(positive) else 1.0


def _check_bandwidth(bandwidth: float) -> None:
    if not SMALLEST < bandwidth < LARGEST:
        raise DataError(f"a bandwidth of {bandwidth:.3g} is out of range: scale the columns to values near one")


def _uniform(seed: int, number: int, purpose: int, count: int) -> np.ndarray:
    """Uniform numbers in (0, 1)."""
    draws = np.empty(count)
    rng.fill_uniform(rng.generator(seed, number * _PURPOSES + purpose), draws)
    return draws + 2.0**-54


def _chi(seed: int, number: int, count: int, d: int) -> np.ndarray:
    """Lengths of normal vectors in d dimensions."""
    return np.sqrt(2.0 * special.gammaincinv(0.5 * d, _uniform(seed, number, _LENGTHS, count)))


def _orthogonal(V: np.ndarray) -> np.ndarray:
    """Columns of unit length, orthogonal within each d of them, whose directions are uniform."""
    d, count = V.shape
    out = np.empty((d, count), np.float32)
    for start in range(0, count, d):
        Q, R = linalg.qr(V[:, start : start + d].astype(np.float64), mode="economic", check_finite=False)
        out[:, start : start + d] = Q * np.where(np.diag(R) < 0.0, -1.0, 1.0)
    return out
