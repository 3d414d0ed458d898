"""Patches of images: where they are, a sample of them, their whitening and filters, and the kernels of convolution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from lineal.core import rng
from lineal.core.jit import kernel
from lineal.errors import DataError, OptionError
from lineal.features import rows

#: Patches that filters are learned from, and passes of k-means.
SAMPLE, PASSES = 50_000, 10

#: Added to the variances before whitening, as a share of their mean: directions of noise are not blown up.
SMOOTHING = 0.01


class Grid(NamedTuple):
    """Where the patches of an image are, and which region of the image each belongs to."""

    height: int
    width: int
    channels: int
    patch: int
    stride: int
    pool: int

    @property
    def down(self) -> int:
        """Number of patches from top to bottom."""
        return _fitting(self.height, self)

    @property
    def across(self) -> int:
        """Number of patches from left to right."""
        return _fitting(self.width, self)

    @property
    def places(self) -> int:
        """Number of patches per image."""
        return self.down * self.across

    @property
    def length(self) -> int:
        """Number of entries per patch."""
        return self.patch * self.patch * self.channels

    def region_sizes(self) -> np.ndarray:
        """Number of patches per region."""
        down = np.bincount(np.arange(self.down) * self.pool // self.down, minlength=self.pool)
        across = np.bincount(np.arange(self.across) * self.pool // self.across, minlength=self.pool)
        return np.outer(down, across).reshape(-1)


def _fitting(length: int, grid: Grid) -> int:
    count = (length - grid.patch) // grid.stride + 1
    if length < grid.patch or count < grid.pool:
        raise OptionError(
            f"patches of side {grid.patch} with stride {grid.stride} do not fill {grid.pool} regions of images of "
            f"{grid.height} × {grid.width}: make patch, stride or pool smaller"
        )
    return count


def images(X: Any, grid: Grid) -> np.ndarray:
    """Images of some rows, (m, height, width·channels), as floats."""
    pixels = rows.dense(X)
    return pixels.reshape(len(pixels), grid.height, grid.width * grid.channels)


def sampled(X: Any, grid: Grid, state: np.ndarray) -> np.ndarray:
    """Patches at random places of random images, float64."""
    draws = np.empty(3 * SAMPLE)
    rng.fill_uniform(state, draws)
    which, down, across = draws.reshape(3, SAMPLE)
    image = np.sort((which * X.shape[0]).astype(np.int64))
    top = (down * grid.down).astype(np.int64) * grid.stride
    left = (across * grid.across).astype(np.int64) * grid.stride
    row, column = np.arange(grid.patch), np.arange(grid.patch * grid.channels)
    P = np.empty((SAMPLE, grid.length))
    step = max(1, rows.CHUNK // X.shape[1])
    for start in range(0, SAMPLE, step):
        part = slice(start, start + step)
        different, at = np.unique(image[part], return_inverse=True)
        pixels = images(X[different], grid)
        y = (top[part, None] + row)[:, :, None]
        x = (left[part, None] * grid.channels + column)[:, None, :]
        P[part] = pixels[at[:, None, None], y, x].reshape(-1, grid.length)
    return P


def whitening(P: np.ndarray, level: float = 0.0) -> np.ndarray:
    """The symmetric matrix that makes centred patches uncorrelated, up to smoothing; `level` is the mean's largest."""
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = P.T @ P / len(P)
    if not np.isfinite(covariance).all():
        raise DataError("the variances of the patches are too large for floating-point numbers: scale the columns")
    variances, V = linalg.eigh(covariance)
    mean = float(variances.mean())
    if mean <= 1e-12 * level**2:  # patches of one colour, but for rounding: there is nothing to whiten
        return np.eye(P.shape[1])
    return (V / np.sqrt(np.maximum(variances, 0.0) + SMOOTHING * mean)) @ V.T


def normalised(D: np.ndarray) -> np.ndarray:
    """Rows scaled to length one; rows of zeros stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", D, D))
    return D / np.where(lengths > 0.0, lengths, 1.0)[:, None]


def chosen(Z: np.ndarray, count: int, state: np.ndarray) -> np.ndarray:
    """Directions of randomly chosen patches; patches of zeros only if there are not enough others."""
    order = np.arange(len(Z))
    rng.shuffle(state, order)
    is_zero = ~Z[order].any(axis=1)
    order = order[np.argsort(is_zero, kind="stable")]
    return normalised(Z[order[np.arange(count) % len(order)]])


def spherical_means(Z: np.ndarray, count: int, state: np.ndarray) -> np.ndarray:
    """Cluster centres of the patches by k-means on the sphere, as directions D.

    Each patch z belongs to the direction with the largest |D_j'z|; D_j becomes the direction of Σ (D_j'z) z.
    """
    D = np.empty(count * Z.shape[1], np.float32)
    rng.fill_normal(state, D)
    D = normalised(D.reshape(count, -1))
    nearest, value = np.empty(len(Z), np.int64), np.empty(len(Z), np.float32)
    step = max(1, rows.CHUNK // count)
    for _ in range(PASSES):
        for start in range(0, len(Z), step):
            products = Z[start : start + step] @ D.T
            best = np.abs(products).argmax(axis=1)
            nearest[start : start + step] = best
            value[start : start + step] = products[np.arange(len(best)), best]
        sums = sparse.csr_array((value, (nearest, np.arange(len(Z)))), shape=(count, len(Z))) @ Z
        D = normalised(sums + D)  # its old place counts a little: a direction without patches stays
    return D


def gather(grid: Grid, images: np.ndarray, out: np.ndarray) -> None:
    """Write all patches of some images to `out`, one per row."""
    _gather(images, grid.patch, grid.stride, grid.channels, grid.down, grid.across, out)


@kernel
def _gather(images: Any, patch: int, stride: int, channels: int, down: int, across: int, out: Any) -> None:
    run = patch * channels
    place = 0
    for i in range(images.shape[0]):
        for y in range(down):
            for x in range(across):
                left = x * stride * channels
                for dy in range(patch):
                    source = images[i, y * stride + dy, left : left + run]
                    target = out[place, dy * run : (dy + 1) * run]
                    for j in range(run):
                        target[j] = source[j]
                place += 1


def threshold_and_pool(grid: Grid, shifts: np.ndarray, threshold: float, R: np.ndarray, out: np.ndarray) -> None:
    """Add the thresholded responses to the regions in `out`: by region, sign and filter."""
    _threshold_and_pool(R, shifts, shifts.dtype.type(threshold), grid.down, grid.across, grid.pool, out)


@kernel
def _threshold_and_pool(R: Any, shifts: Any, threshold: Any, down: int, across: int, pool: int, out: Any) -> None:
    count = shifts.shape[0]
    place = 0
    for i in range(R.shape[0] // (down * across)):
        for y in range(down):
            for x in range(across):
                first = 2 * count * ((y * pool // down) * pool + x * pool // across)
                above, below = out[i, first : first + count], out[i, first + count : first + 2 * count]
                response = R[place]
                for j in range(count):
                    r = response[j] + shifts[j]
                    a, b = r - threshold, -r - threshold
                    above[j] += a if a > 0 else a - a  # 0, but NaN for NaN
                    below[j] += b if b > 0 else b - b
                place += 1
