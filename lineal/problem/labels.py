"""From labels to classes in three steps, which never need all labels at once.

1. Whoever holds some of the rows finds their different labels: `LabelPart.of(y)`.
2. Summaries of all parts are added up, in any grouping: `part.summary + …`, which says what score columns there are.
3. Each part numbers its labels by those columns (`lineal.problem.targets`).

Labels of one part and of the whole have the same classes however the rows are cut: lists of integers, of truth
values and of real numbers meet in the type that NumPy would give to the whole list, and what cannot be told apart or
put in order is refused.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.inputs import EXACT, checked, checked_labels, is_missing
from lineal.design.matrix import summed
from lineal.errors import DataError

SETS_NEEDED = "a 2-D y must be an indicator matrix of 0 and 1 (one column per label)"


class LabelColumns(NamedTuple):
    """Meaning of the score columns.

    Attributes
    ----------
    classes : the labels; for binary problems two of them and one column, whose positive label is the second.
    n_columns : k, the number of score columns.
    is_multilabel : whether rows have label sets.
    """

    classes: np.ndarray
    n_columns: int
    is_multilabel: bool


@dataclass(frozen=True)
class LabelSummary:
    """Summary of the labels of some rows. Summaries of several parts are added up with `+`.

    Attributes
    ----------
    classes : the distinct labels, sorted; empty for label sets and without rows.
    n_sets : number of columns of the indicator matrix; None for one label per row.
    n_rows : number of rows.
    """

    classes: np.ndarray
    n_sets: int | None
    n_rows: int

    def __add__(self, other: LabelSummary) -> LabelSummary:
        if self.n_sets != other.n_sets:
            if self.n_sets is not None and other.n_sets is not None:
                raise DataError(f"parts of y have {self.n_sets} and {other.n_sets} label columns")
            if self.n_rows and other.n_rows:
                raise DataError("some parts of y have one label per row, others are indicator matrices")
            return self if self.n_rows else other
        classes = _merged(self.classes, other.classes)
        return LabelSummary(classes, self.n_sets, self.n_rows + other.n_rows)

    def columns(self, *, direct: bool, class_names: list[Any] | None = None) -> LabelColumns:
        """The score columns of all rows together; refuses labels of fewer than two classes.

        `direct` losses (softmax and its kin) need one column per class; the others treat two classes with one column.
        `class_names` are those of the columns of an indicator matrix.
        """
        if self.n_sets is not None:
            names = np.arange(self.n_sets) if class_names is None else np.asarray(class_names)
            return LabelColumns(names, self.n_sets, True)
        k = len(self.at_least_two())
        return LabelColumns(self.classes, 1 if k == 2 and not direct else k, False)

    def at_least_two(self) -> np.ndarray:
        """The classes, of which a classifier needs two."""
        if len(self.classes) == 0:
            raise DataError("y is empty")
        if len(self.classes) == 1:
            raise DataError(
                f"y has only one class ({self.classes.tolist()[0]!r}): a classifier needs at least two classes"
            )
        return self.classes


@dataclass(frozen=True)
class LabelPart:
    """The labels of some consecutive rows.

    Attributes
    ----------
    summary : what others need to know of them.
    numbers : for each row, the position of its label among the labels of this part; None for label sets.
    sets : the label sets as a boolean matrix; None for one label per row.
    """

    summary: LabelSummary
    numbers: np.ndarray | None
    sets: sparse.csr_array | None

    @staticmethod
    def of(y: Any, first_row: int = 0) -> LabelPart:
        """Find the labels of a vector of any label type, or of an (m, k) indicator matrix (dense or sparse).

        `first_row` is the number of its first row among all rows, for messages.
        """
        y = checked_labels(y)
        if sparse.issparse(y) or np.ndim(y) == 2:
            sets = label_sets(y, first_row)
            return LabelPart(LabelSummary(np.empty(0), sets.shape[1], sets.shape[0]), None, sets)
        classes, numbers = _different(y, first_row)
        return LabelPart(LabelSummary(classes, None, len(numbers)), numbers, None)

    def numbers_among(self, classes: np.ndarray) -> np.ndarray:
        """For each row, the position of its label among the classes of all rows."""
        own = self.summary.classes
        assert self.numbers is not None
        if own is classes or not len(own):
            return self.numbers
        own = own.astype(classes.dtype, copy=False)
        places = np.minimum(np.searchsorted(classes, own), len(classes) - 1)
        unknown = np.flatnonzero(classes[places] != own)
        if len(unknown):
            raise DataError(f"y has the label {own[unknown[0]]!r}, which it did not have before: it has changed")
        return places.astype(np.int32)[self.numbers]


def merged(parts: Iterable[LabelSummary]) -> LabelSummary:
    """The summary of all rows, from those of at least one part."""
    return functools.reduce(operator.add, parts)


def find_classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The different labels of a vector, at least two of them, and for each row the position of its label."""
    classes, numbers = _different(checked_labels(y), 0)
    return LabelSummary(classes, None, len(numbers)).at_least_two(), numbers


def check_present(labels: np.ndarray, first_row: int = 0) -> None:
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
        raise DataError(f"y has a missing or infinite label at row {first_row + int(missing.argmax())}")


def has_columns(y: Any) -> bool:
    """Whether labels come as a matrix of several columns."""
    return sparse.issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1)


def label_sets(y: Any, first_row: int = 0) -> sparse.csr_array:
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
        raise DataError(f"{SETS_NEEDED}, but row {first_row + row} has another number")
    if given.shape[1] == 0:
        raise DataError("y has no label columns")
    sets = sparse.csr_array((values.astype(bool), given.indices, given.indptr), shape=given.shape, copy=True)
    sets.eliminate_zeros()
    sets.sum_duplicates()
    return sets


def _different(y: Any, first_row: int) -> tuple[np.ndarray, np.ndarray]:
    """The different labels of a vector, in order, and for each row the position of its label."""
    values = np.asarray(y)
    if values.ndim != 1:
        raise DataError(f"y has {values.ndim} dimensions: give one label per row, or an indicator matrix of 0 and 1")
    check_present(values, first_row)
    try:
        classes, numbers = _unique(values)
    except TypeError:
        raise _mixed(values) from None
    return classes, numbers.astype(np.int32).reshape(-1)


def _unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`np.unique` with inverse; small integers, the usual labels, are counted instead of sorted."""
    if values.dtype.kind in "iuf" and values.ndim == 1 and len(values):
        low, high = float(values.min()), float(values.max())
        if max(abs(low), abs(high)) < 2**31 and high - low < 65_536:
            whole = values.astype(np.int64)
            if values.dtype.kind in "iu" or np.array_equal(whole, values):
                numbers = whole - int(low)
                present = np.bincount(numbers) > 0
                return (np.flatnonzero(present) + int(low)).astype(values.dtype), (np.cumsum(present) - 1)[numbers]
    return np.unique(values, return_inverse=True)


def _merged(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The classes of two parts together, in the type that NumPy would give to the list of all their labels."""
    if not len(others):
        return some
    if not len(some):
        return others
    dtype = _common_type(some, others)
    both = np.concatenate([some.astype(dtype, copy=False), others.astype(dtype, copy=False)])
    try:
        return np.unique(both)
    except TypeError:
        raise _mixed(both) from None


def _common_type(some: np.ndarray, others: np.ndarray) -> np.dtype[Any]:
    kinds = {some.dtype.kind, others.dtype.kind}
    if some.dtype == others.dtype:
        return some.dtype
    if "O" in kinds:
        return np.dtype(object)
    if len(kinds) > 1 and not kinds <= set("biufc"):
        raise _mixed(np.array([*some.tolist(), *others.tolist()], object))
    dtype = np.result_type(some, others)
    if dtype.kind not in "fc" or kinds == {"f"}:
        return dtype
    whole = [int(label) for part in (some, others) if part.dtype.kind in "iu" for label in part.tolist()]
    rounded = [label for label in whole if abs(label) > EXACT]
    if rounded:
        raise DataError(
            f"y has the label {rounded[0]}, which would be rounded, because the labels do not fit into one type of "
            "64-bit integers: use strings"
        )
    return dtype


def _mixed(labels: np.ndarray) -> DataError:
    kinds = sorted({type(label).__name__ for label in labels.tolist()})
    return DataError(f"y mixes labels of types {', '.join(kinds)}: convert them to one type")
