"""`PatchConvolution`: responses of small filters all over an image, thresholded and pooled.

For a patch p at each place of an image and a filter D_j (of length one, after whitening)

    r = D_j'P(p − p̄),    a = max(r − τ, 0),   b = max(−r − τ, 0)

and the features are the means (or sums) of a and b over each of pool × pool regions, and with `squares` their squares
(Coates, Lee & Ng 2011; Coates & Ng 2011 for the two-sided threshold and the spherical k-means). The whitening P is
folded into the filters: it costs nothing.

Memory of a transform: a chunk's features, and about 16 MB of patches and responses a step; of the generator: bank and
whitening, 4q(n_filters + q) bytes for patches of q = patch²·channels numbers; of `prepare`: 8q bytes for each of 50 000
patches.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lineal.core import rng
from lineal.core import threads as pool
from lineal.errors import DataError, OptionError
from lineal.features import patches, rows
from lineal.features.base import Generator, thread_count
from lineal.features.contracts import FeatureBatch

#: Filters whose responses decide the threshold.
THRESHOLD_FILTERS = 64

#: Numbers of patches and of responses that are computed at once.
STEP = 1 << 21

_FILTERS = 1  # stream of the first batch's random filters; 0 and below are taken by `prepare`


class PatchConvolution(Generator):
    """Convolution features of images, which are rows of height × width × channels numbers in this order.

    Numbers are taken as they are, whatever their type: train and predict on images of the same range. Without
    whitening, which takes scales out, the filters of a generator that was prepared with uint8 divide by 255.

    Parameters
    ----------
    image_shape : (height, width) or (height, width, channels); None for square images of one or three channels.
    filters : "kmeans" (centres of the patches), "patches" (some of them) or "random" (directions, without end).
    patch, stride : side of a patch and step between patches.
    pool : regions a side; features are pooled over pool × pool regions.
    pooling : "mean" or "sum".
    whiten : whether patches are whitened.
    threshold : τ, or "quantile" for that of the absolute responses of the sampled patches.
    quantile : fraction of the responses that are below the threshold.
    squares : add the squares of the pooled responses.
    n_filters : filters of all batches together, for "kmeans" and "patches"; then there are no more features.
    n_features : features as a scikit-learn transformer; a filter makes 2·pool² of them, or 4·pool² with squares.
    n_jobs, random_state : threads (None: all cores) and seed (None: 0).

    Attributes
    ----------
    image_shape_, mean_, whitening_, bank_, threshold_ : what the batches share.
    """

    name: ClassVar[str] = "patches"
    learnt: ClassVar[tuple[str, ...]] = ("image_shape_", "mean_", "whitening_", "bank_", "threshold_")

    image_shape_: list[int]
    mean_: np.ndarray
    whitening_: np.ndarray | None
    bank_: np.ndarray | None
    threshold_: float

    def __init__(
        self,
        image_shape: Any = None,
        filters: str = "kmeans",
        patch: int = 6,
        stride: int = 1,
        pool: int = 2,
        pooling: str = "mean",
        whiten: bool = True,
        threshold: float | str = "quantile",
        quantile: float = 0.5,
        squares: bool = False,
        n_filters: int = 800,
        n_features: int = 1024,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.image_shape = image_shape
        self.filters = filters
        self.patch = patch
        self.stride = stride
        self.pool = pool
        self.pooling = pooling
        self.whiten = whiten
        self.threshold = threshold
        self.quantile = quantile
        self.squares = squares
        self.n_filters = n_filters
        self.n_features = n_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        self.need_choice("filters", ("kmeans", "patches", "random"))
        self.need_choice("pooling", ("mean", "sum"))
        for name in ("patch", "stride", "pool", "n_filters"):
            self.need_option(name, getattr(self, name), 1)
        for name in ("whiten", "squares"):
            self.need_flag(name)
        if not (isinstance(self.threshold, str) and self.threshold == "quantile"):
            self.need_within("threshold", lambda value: 0.0 <= value < math.inf, "a number ≥ 0 or 'quantile'")
        self.need_within("quantile", lambda value: 0.0 <= value < 1.0, "a number in [0, 1)")

    def _learn(self, X: Any) -> None:
        shape = image_shape(self.image_shape, X.shape[1])
        self.image_shape_ = list(shape)
        grid = self._grid()
        P = patches.sampled(X, grid, rng.generator(self.seed_, -1))
        mean = P.mean(axis=0)
        P -= mean
        if self.whiten:
            whitening = patches.whitening(P, float(np.abs(mean).max()))
        else:  # in the filters, since rows to predict may be the same numbers in another type
            whitening = np.eye(grid.length) / (255.0 if X.dtype == np.uint8 else 1.0)
        Z = (P @ whitening).astype(np.float32)
        state = rng.generator(self.seed_, -2)
        if self.filters == "random":
            D = _directions(rng.generator(self.seed_, 0), THRESHOLD_FILTERS, grid.length)
            bank = None
        else:
            choose = patches.chosen if self.filters == "patches" else patches.spherical_means
            D = choose(Z, int(self.n_filters), state)
            bank = (D @ whitening).astype(np.float32)
        self.mean_, self.bank_ = mean.astype(np.float32), bank
        self.whitening_ = whitening.astype(np.float32) if bank is None else None
        self.threshold_ = self._chosen_threshold(Z, D)

    def _chosen_threshold(self, Z: np.ndarray, D: np.ndarray) -> float:
        if not isinstance(self.threshold, str):
            return float(self.threshold)
        responses = np.abs(Z[: STEP // THRESHOLD_FILTERS] @ D[:THRESHOLD_FILTERS].T)
        return float(np.quantile(responses, float(self.quantile)))

    def _check_state(self) -> None:
        if not isinstance(self.image_shape_, (list, tuple)):
            raise ValueError("image_shape_ of patches features is not a list")
        if image_shape(self.image_shape_, self.n_columns_) != tuple(self.image_shape_):
            raise ValueError(f"image_shape_={self.image_shape_!r} of patches features should have three lengths")
        length = self._grid().length
        self.need_array("mean_", (length,))
        given, other = ("whitening_", "bank_") if self.filters == "random" else ("bank_", "whitening_")
        self.need_array(given, (length if given == "whitening_" else int(self.n_filters), length))
        if getattr(self, other) is not None:
            raise ValueError(f"patches features with {self.filters} filters have no {other}")
        self.need_float("threshold_", -1e-300)

    def _grid(self) -> patches.Grid:
        height, width, channels = self.image_shape_
        return patches.Grid(height, width, channels, int(self.patch), int(self.stride), int(self.pool))

    def width_of(self, number: int, size: int) -> int:
        """Number of features of the filters that fit into `size` and have not been used."""
        count = size // self._each
        left = count if self.bank_ is None else max(0, min(count, len(self.bank_) - number * count))
        return left * self._each

    @property
    def _each(self) -> int:
        """Number of features per filter."""
        return 2 * int(self.pool) ** 2 * (2 if self.squares else 1)

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        each = self._each
        count = size // each
        if count == 0:
            raise OptionError(f"batches of {size} patches features are too small: a filter makes {each}")
        if self.bank_ is not None:
            D = self.bank_[number * count : (number + 1) * count]
        else:
            state = rng.generator(self.seed_, _FILTERS + number)
            D = _directions(state, count, self._grid().length) @ self.whitening_
        return PatchBatch(self, D)


class PatchBatch:
    """Pooled responses of some filters."""

    def __init__(self, generator: PatchConvolution, D: np.ndarray) -> None:
        self.grid, self.threshold, self.threads = generator._grid(), generator.threshold_, thread_count(generator)
        self.pooling, self.squares = generator.pooling, generator.squares
        self.filters: np.ndarray = np.ascontiguousarray(D.T)
        self.shifts = -(D.astype(np.float64) @ generator.mean_)
        self.plain = 2 * self.grid.pool**2 * len(D)
        self.width = self.plain * (2 if self.squares else 1)

    def transform(self, X: Any) -> np.ndarray:
        """Features (m, width), ordered by kind, region, sign and filter."""
        dtype, grid = rows.precision(X), self.grid
        F: np.ndarray = np.zeros((X.shape[0], self.width), dtype)
        if self.width == 0:
            return F
        filters, shifts = self.filters.astype(dtype, copy=False), self.shifts.astype(dtype)
        step = max(1, STEP // (grid.places * max(grid.length, filters.shape[1])))
        for start in range(0, len(F), step):
            images, pooled = patches.images(X[start : start + step], grid), F[start : start + step]
            P = np.empty((len(images) * grid.places, grid.length), dtype)
            self._run(partial(patches.gather, grid), images, P)
            self._run(partial(patches.threshold_and_pool, grid, shifts, self.threshold), P @ filters, pooled)
        if self.pooling == "mean":
            F[:, : self.plain] /= np.repeat(grid.region_sizes(), 2 * filters.shape[1]).astype(dtype)
        if self.squares:
            np.square(F[:, : self.plain], out=F[:, self.plain :])
        return F

    def _run(self, work: Any, source: np.ndarray, out: np.ndarray) -> None:
        """Run work(source, out) on threads, each for some images; every image has the same number of rows in both."""
        count = min(len(source), len(out))
        a, b = len(source) // max(1, count), len(out) // max(1, count)
        pieces = pool.ranges(count, self.threads)
        pool.run([partial(work, source[i * a : j * a], out[i * b : j * b]) for i, j in pieces], self.threads)

    def state(self) -> dict[str, Any]:
        """Empty state, because the generator has the filters or the seed that determines them."""
        return {}


def image_shape(given: Any, d: int) -> tuple[int, int, int]:
    """Height, width and channels of images of d numbers."""
    if given is None:
        for channels in (1, 3):
            side = math.isqrt(d // channels)
            if side * side * channels == d:
                return side, side, channels
        raise OptionError(f"rows of {d} numbers are not square images: set image_shape=(height, width, channels)")
    try:
        shape = tuple(int(length) for length in given)
    except (TypeError, ValueError):
        shape = ()
    shape = (*shape, 1) if len(shape) == 2 else shape
    if len(shape) != 3 or min(shape) < 1 or shape != tuple(given)[:3] + (1,) * (3 - len(given)):
        raise OptionError(f"image_shape={given!r} must be (height, width) or (height, width, channels)")
    if math.prod(shape) != d:
        raise DataError(f"image_shape={given!r} has {math.prod(shape)} numbers, but rows have {d}")
    return shape[0], shape[1], shape[2]


def _directions(state: np.ndarray, count: int, length: int) -> np.ndarray:
    """Random directions."""
    D = np.empty(count * length, np.float32)
    rng.fill_normal(state, D)
    return patches.normalised(D.reshape(count, length))
