"""Dense rows of any numeric type, kept as they are: products convert some rows at a time (`products.py`).

For solvers that see X through products alone; kernels read float32 and float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lineal.design.dense import Dense
from lineal.design.matrix import Design, wrap


def wrap_any(X: Any) -> Design:
    """`wrap`, for numbers of other types too: products are float32 where their type has up to two bytes, else float64.

    Dense X is not copied, unless its numbers are wider than float64; of a sparse matrix, stored entries are converted.
    """
    if isinstance(X, Design) or X.dtype in (np.float32, np.float64) or X.dtype.kind not in "fiub":
        return wrap(X)
    dtype = np.dtype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    if sparse.issparse(X) or X.dtype.itemsize > dtype.itemsize:
        return wrap(X.astype(dtype))
    return Design(Dense(np.asarray(X)), X.shape, dtype) if X.ndim == 2 else wrap(X)
