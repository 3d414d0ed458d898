"""Which columns of X are constant: the one rule of the package.

A constant column must be told from one that varies little, because rounding makes its computed variance a small number
instead of zero. A solver that took this number for curvature would divide rounding errors by it, and a weak penalty
would not prevent huge weights. So a column counts as constant if its standard deviation is at most a small multiple of
its mean, which depends on how the variance was computed:

* **From centred rows**, Σ s(x − x̄)². Every difference is rounded to the precision of the numbers, so that a constant
  column seems to have a standard deviation of about ε·|x̄|. The limit is 4ε, and at least 1e-10: in float64 the mean is
  a sum over all rows, whose own rounding is larger than ε.
* **From moments**, Σ s·x² − x̄². Both terms are about x̄², so that their difference is wrong by some ε·x̄² and its root by
  √ε·|x̄|. The limit is √(8ε), and at least 1e-6, again for the rounding of long sums.

A column whose standard deviation is that small carries no information that this precision could use: a shift of the
column (`lineal.design.shift`) is what makes a small but real variation usable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Largest variance over x̄² (or over Σ s·x², which is the same for such columns) that is taken for rounding, where the
#: variance was computed from moments in float64. For kernels, which see one column at a time.
ROUNDING = 1e-12


def is_constant(variances: Any, means: Any, dtype: Any = np.float64, from_moments: bool = True) -> np.ndarray:
    """Mask of the columns whose variance is only rounding. Variances that overflowed are not constant.

    `dtype` is the precision in which squares or differences were computed. `from_moments` says that the squares of
    means were subtracted from mean squares; otherwise rows were centred first.
    """
    eps = float(np.finfo(dtype).eps)
    limit = max(ROUNDING**0.5, (8.0 * eps) ** 0.5) if from_moments else max(1e-10, 4.0 * eps)
    with np.errstate(over="ignore"):
        return np.isfinite(variances) & (variances <= (limit * means) ** 2)
