"""Which columns of X are constant, and which are far from zero: the only such rules of the package.

A constant column must be told from one that varies little, because rounding makes its computed variance a small number
instead of zero. A solver that took this number for curvature would divide rounding errors by it, and a weak penalty
would not prevent huge weights. So a column counts as constant if its standard deviation is at most a small multiple of
its mean, which depends on how the variance was computed:

* **From centred rows**, Σ s(x − x̄)². Every difference is rounded to the precision of the numbers, so a constant column
  seems to have a standard deviation of about ε·|x̄|. The limit is 4ε, but at least 1e-10, because in float64 the mean is
  a sum over all rows, and its rounding error is larger than ε.
* **From moments**, Σ s·x² − x̄². Both terms are about x̄², so the error of their difference is a few ε·x̄², and
  that of its root is about √ε·|x̄|. The limit is √(8ε), but at least 1e-6, again because long sums are rounded.

A column with such a small standard deviation carries no information that this precision could use. If a small variation
is real, a shift of the column (`lineal.design.shift`) makes it usable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Number of standard deviations beyond which a mean is far from zero.
FAR = 16.0

#: Largest ratio of the variance to x̄² (or to Σ s·x², which is the same for such columns) that counts as rounding, if
#: the variance was computed from moments in float64. For kernels, which see one column at a time.
ROUNDING = 1e-12


def is_constant(variances: Any, means: Any, dtype: Any = np.float64, from_moments: bool = True) -> np.ndarray:
    """Mask of the columns whose variance is only rounding. Columns whose variance overflowed are not constant.

    `dtype` is the precision in which squares or differences were computed. With `from_moments`, variances are mean
    squares minus squared means; otherwise the rows were centred first.
    """
    eps = float(np.finfo(dtype).eps)
    limit = max(ROUNDING**0.5, (8.0 * eps) ** 0.5) if from_moments else max(1e-10, 4.0 * eps)
    with np.errstate(over="ignore"):
        return np.isfinite(variances) & (variances <= (limit * means) ** 2)


def far_columns(means: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Indices of the columns that are far from zero, given Σ s·x and Σ s·x² for weights s that add up to one."""
    with np.errstate(over="ignore", invalid="ignore"):
        variances = np.maximum(squares - means**2, 0.0)
        return np.flatnonzero(np.isfinite(squares) & (means**2 > FAR**2 * variances))
