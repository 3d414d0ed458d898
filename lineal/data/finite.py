"""The check that every value is finite, by blocks: no boolean array of the size of X."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lineal.errors import DataError

#: Values looked at together.
STEP = 1 << 20


def check_finite(X: Any, feature_names: list[str] | None = None, first_row: int = 0, name: str | None = None) -> None:
    """Raise a DataError that names the row (counted from `first_row`) and the column of the first NaN or infinity."""
    if sparse.issparse(X):
        for start in range(0, len(X.data), STEP):
            bad = ~np.isfinite(X.data[start : start + STEP])
            if bad.any():
                entry = start + int(bad.argmax())
                row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
                raise _not_finite(X.data[entry], row + first_row, int(X.indices[entry]), feature_names, name)
        return
    rows = max(1, STEP // max(1, X.shape[1]))
    for start in range(0, X.shape[0], rows):
        bad = ~np.isfinite(X[start : start + rows])
        if bad.any():
            row, column = divmod(int(bad.argmax()), X.shape[1])
            raise _not_finite(X[start + row, column], start + row + first_row, column, feature_names, name)


def _not_finite(value: Any, row: int, column: int, feature_names: list[str] | None, name: str | None) -> DataError:
    shown = f"column {column}" if feature_names is None else f"column {feature_names[column]!r}"
    prefix = "" if name is None else f"{name}: "
    return DataError(f"{prefix}row {row} (counted from 0), {shown} is {value}: only finite numbers can be used")
