"""Rows and labels in the form that an online learner uses: CSR in float32, numbers or label columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lineal.errors import DataError
from lineal.online.state import Rows

#: Bound of values, labels and importances: the inverse of a value must be a normal number in float32.
LARGEST_VALUE = 1e30


def rows_of(X: Any, first_row: int = 0, kinds: Any = None, column_kinds: Any = None) -> Rows:
    """Rows without labels. Copies nothing where X is CSR in float32 with int32 columns and no stored zeros.

    Namespaces are given for the stored entries of X (`kinds`) or for its columns (`column_kinds`).
    """
    X = X if sparse.issparse(X) and X.format == "csr" else sparse.csr_array(X)
    check_values(X, first_row)
    values = X.data
    if column_kinds is not None:
        kinds = column_kinds[X.indices]
    entry_kinds: np.ndarray = np.empty(0, np.uint8) if kinds is None else np.asarray(kinds, np.uint8)
    columns, starts = X.indices, X.indptr
    values = values.astype(np.float32, copy=False)
    if not values.all():
        kept = values != 0.0
        starts = np.concatenate(([0], np.cumsum(kept)))[starts]
        columns, values = columns[kept], values[kept]
        entry_kinds = entry_kinds[kept] if len(entry_kinds) else entry_kinds
    n = X.shape[0]
    return Rows(
        np.ascontiguousarray(columns, np.int32), np.ascontiguousarray(values), np.ascontiguousarray(starts, np.int64),
        entry_kinds, np.full(n, np.nan), np.ones(n), 0,
    )  # fmt: skip


def check_values(X: Any, first_row: int = 0) -> None:
    """Refuse values of a CSR matrix or an array that are not finite or too large; the message names the row."""
    values = X.data if sparse.issparse(X) else X
    if values.size and not max(values.max(), -values.min()) <= LARGEST_VALUE:  # NaN compares false
        bad = int(np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))[0])
        if sparse.issparse(X):
            row, column = int(np.searchsorted(X.indptr, bad, side="right")) - 1, int(X.indices[bad])
        else:
            row, column = divmod(bad, X.shape[1])
        raise DataError(
            f"row {first_row + row} of X has the value {values.reshape(-1)[bad]:g} in column {column}: online learning "
            f"needs finite numbers up to ±{LARGEST_VALUE:g}; scale the column"
        )


def numbers_of(y: Any, n: int, first_row: int) -> np.ndarray:
    """Numbers to predict (n,), up to ±`LARGEST_VALUE`; NaN where a row has none."""
    labels = np.ascontiguousarray(y, np.float64)
    if labels.shape != (n,):
        raise DataError(f"y has shape {labels.shape}, X has {n} rows")
    wrong = np.flatnonzero(np.abs(labels) > LARGEST_VALUE)
    if len(wrong):
        raise DataError(
            f"y[{first_row + wrong[0]}] is {labels[wrong[0]]:g}: online learning needs finite numbers up to "
            f"±{LARGEST_VALUE:g}"
        )
    return labels


def importances(weights: Any, n: int, first_row: int = 0) -> np.ndarray:
    """Importances (n,), from 0 to `LARGEST_VALUE`; ones if none are given."""
    if weights is None:
        return np.ones(n)
    found = np.ascontiguousarray(weights, np.float64)
    if found.shape != (n,):
        raise DataError(f"sample_weight has shape {found.shape}, X has {n} rows")
    wrong = np.flatnonzero(~((found >= 0.0) & (found <= LARGEST_VALUE)))
    if len(wrong):
        raise DataError(
            f"sample_weight[{first_row + wrong[0]}] is {found[wrong[0]]:g}: importances must be finite, not negative "
            f"and at most {LARGEST_VALUE:g}"
        )
    return found


def label_columns(y: Any, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of an (n, k) indicator matrix in CSR form, or of (n,) labels that are all among `classes`."""
    if sparse.issparse(y) or np.ndim(y) == 2:
        matrix = sparse.csr_array(y)
        if not matrix.data.all():
            matrix = matrix.copy()
            matrix.eliminate_zeros()
        return matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)
    order = np.argsort(classes, kind="stable")
    columns = order[np.searchsorted(classes, y, sorter=order)]
    return columns.astype(np.int32), np.arange(len(y) + 1, dtype=np.int64)
