"""Labels as kernels see them: the set of label columns of each row.

Three cases, one protocol: binary problems have one column and rows with that label or none; multi-class rows have
one label; multi-label rows have any number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.inputs import checked, checked_labels, is_missing
from lineal.core.protocol import protocol
from lineal.design.matrix import summed
from lineal.errors import DataError


@protocol
class OneLabel(NamedTuple):
    """At most one label a row: its column, or -1 for none."""

    columns: Any

    def labels(self, i):
        """Label columns of row i."""
        return self.columns[i : i + 1]

    def rows(self, start, stop):
        """Targets of rows start … stop − 1, without copying labels."""
        return OneLabel(self.columns[start:stop])


@protocol
class LabelSets(NamedTuple):
    """Any number of labels a row, as sorted columns in CSR form."""

    columns: Any
    starts: Any

    def labels(self, i):
        """Label columns of row i."""
        return self.columns[self.starts[i] : self.starts[i + 1]]

    def rows(self, start, stop):
        """Targets of rows start … stop − 1, without copying labels."""
        starts = self.starts[start : stop + 1]
        return LabelSets(self.columns[starts[0] : starts[-1]], starts - starts[0])


@dataclass(frozen=True)
class Encoded:
    """Targets with the meaning of their columns.

    Attributes
    ----------
    targets : what kernels read.
    classes : the labels; for binary problems two of them and one column, whose positive label is the second.
    n_columns : k, the number of score columns.
    is_multilabel : whether rows have label sets.
    """

    targets: Any
    classes: np.ndarray
    n_columns: int
    is_multilabel: bool

    @property
    def class_numbers(self) -> np.ndarray:
        """Class number of every row: the position of its label in `classes`. Label sets have none: a TypeError."""
        if self.is_multilabel:
            raise TypeError("rows with label sets have no class numbers")
        columns = self.targets.columns
        return columns + 1 if self.n_columns == 1 else columns  # binary: −1 and 0


def indicator(encoded: Encoded, rows: np.ndarray | None = None) -> sparse.csr_array:
    """Label sets as a boolean matrix; of these rows, or of all."""
    columns, starts = encoded.targets
    shape = (len(starts) - 1, encoded.n_columns)
    whole = sparse.csr_array((np.ones(len(columns), bool), columns, starts), shape=shape)
    return whole if rows is None else whole[rows]


def zeros_and_ones(encoded: Encoded, dtype: Any) -> np.ndarray:
    """Labels as a dense (n, k) array: one where a row has the label of the column."""
    if encoded.is_multilabel:
        return indicator(encoded).toarray().astype(dtype)
    columns = encoded.targets.columns
    Y = np.zeros((len(columns), encoded.n_columns), dtype)
    rows = np.flatnonzero(columns >= 0)
    Y[rows, columns[rows]] = 1.0
    return Y


def encode(y: Any, *, direct: bool, class_names: list[Any] | None = None) -> Encoded:
    """Targets of labels `y`: a vector of any label type, or an (n, k) indicator matrix (dense or sparse).

    `direct` losses (softmax and its kin) need one column a class; the others treat two classes with one column.
    """
    y = checked_labels(y)
    if sparse.issparse(y) or np.ndim(y) == 2:
        sets = label_sets(y)
        classes = np.asarray(class_names) if class_names is not None else np.arange(sets.shape[1])
        targets = LabelSets(sets.indices.astype(np.int32), sets.indptr.astype(np.int64))
        return Encoded(targets, classes, sets.shape[1], True)
    classes, columns = find_classes(y)
    if len(classes) == 2 and not direct:
        return Encoded(OneLabel(columns - np.int32(1)), classes, 1, False)
    return Encoded(OneLabel(columns), classes, len(classes), False)


def find_classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The different labels of a vector, at least two of them, and for each row the position of its label."""
    values = np.asarray(checked_labels(y))
    if values.ndim != 1:
        raise DataError(f"y has {values.ndim} dimensions: give one label per row, or an indicator matrix of 0 and 1")
    check_present(values)
    try:
        classes, found = _unique(values)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise DataError(f"y mixes labels of types {', '.join(kinds)}: convert them to one type") from None
    if len(classes) < 2:
        raise DataError(
            f"y has only one class ({classes.tolist()[0]!r}): a classifier needs at least two classes"
            if len(classes)
            else "y is empty"
        )
    return classes, found.astype(np.int32).reshape(-1)


def check_present(labels: np.ndarray) -> None:
    """Refuse labels that are missing, and real or complex numbers that are infinite."""
    if labels.dtype.kind in "fc":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind in "mM":
        missing = np.isnat(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in labels.tolist()], bool)
    else:
        return
    if missing.any():
        raise DataError(f"y has a missing or infinite label at row {int(missing.argmax())}")


def _unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`np.unique` with inverse; small whole numbers, the usual labels, are counted instead of sorted."""
    if values.dtype.kind in "iuf" and values.ndim == 1 and len(values):
        low, high = float(values.min()), float(values.max())
        if max(abs(low), abs(high)) < 2**31 and high - low < 65_536:
            whole = values.astype(np.int64)
            if values.dtype.kind in "iu" or np.array_equal(whole, values):
                numbers = whole - int(low)
                present = np.bincount(numbers) > 0
                return (np.flatnonzero(present) + int(low)).astype(values.dtype), (np.cumsum(present) - 1)[numbers]
    return np.unique(values, return_inverse=True)


def has_columns(y: Any) -> bool:
    """Whether labels come as a matrix of several columns."""
    return sparse.issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1)


SETS_NEEDED = "a 2-D y must be an indicator matrix of 0 and 1 (one column per label)"


def label_sets(y: Any) -> sparse.csr_array:
    """Label sets as a boolean matrix, one column per label, from an indicator matrix of 0 and 1; others are refused.

    Entries that are stored in several parts are added up first: two ones in one place are no indicator.
    """
    y = checked(y, "y")
    try:
        given = sparse.csr_array(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"{SETS_NEEDED}: {error}") from None
    if given.dtype.kind not in "biuf":
        raise DataError(f"{SETS_NEEDED}, found {given.dtype}")
    if given.dtype.kind != "b":
        given = summed(given)
    values = given.data
    if values.dtype.kind != "b" and not ((values == 0) | (values == 1)).all():
        row = int(np.searchsorted(given.indptr, np.flatnonzero((values != 0) & (values != 1))[0], side="right")) - 1
        raise DataError(f"{SETS_NEEDED}, but row {row} has another number")
    if given.shape[1] == 0:
        raise DataError("y has no label columns")
    sets = sparse.csr_array((values.astype(bool), given.indices, given.indptr), shape=given.shape, copy=True)
    sets.eliminate_zeros()
    sets.sum_duplicates()
    return sets
