"""Labels as kernels see them: the set of label columns of each row.

Three cases, one protocol: binary problems have one column and rows with that label or none; multi-class rows have
one label; multi-label rows have any number. What the columns mean is found in `labels.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.protocol import protocol
from lineal.problem.labels import LabelColumns, LabelPart


@protocol
class OneLabel(NamedTuple):
    """At most one label per row: its column, or -1 for none."""

    columns: Any

    def labels(self, i):
        """Label columns of row i."""
        return self.columns[i : i + 1]

    def rows(self, start, stop):
        """Targets of rows start … stop − 1, without copying labels."""
        return OneLabel(self.columns[start:stop])

    def take(self, order):
        """Targets of the rows with these numbers."""
        return OneLabel(self.columns[order])

    def joined(self, others):
        """These targets, and below them the others, which are of the same kind."""
        return OneLabel(np.concatenate([self.columns, *(other.columns for other in others)]))


@protocol
class LabelSets(NamedTuple):
    """Any number of labels per row, as sorted columns in CSR form."""

    columns: Any
    starts: Any

    def labels(self, i):
        """Label columns of row i."""
        return self.columns[self.starts[i] : self.starts[i + 1]]

    def rows(self, start, stop):
        """Targets of rows start … stop − 1, without copying labels."""
        starts = self.starts[start : stop + 1]
        return LabelSets(self.columns[starts[0] : starts[-1]], starts - starts[0])

    def take(self, order):
        """Targets of the rows with these numbers."""
        lengths = np.diff(self.starts)[order]
        starts = np.append(0, np.cumsum(lengths))
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1][order] - starts[:-1], lengths)
        return LabelSets(self.columns[places], starts)

    def joined(self, others):
        """These targets, and below them the others, which are of the same kind."""
        parts = [self, *others]
        lengths = np.concatenate([np.diff(part.starts) for part in parts])
        return LabelSets(np.concatenate([part.columns for part in parts]), np.append(0, np.cumsum(lengths)))


@dataclass(frozen=True)
class Encoded:
    """Targets with the meaning of their columns.

    Attributes
    ----------
    targets : what kernels read.
    classes, n_columns, is_multilabel : as of `LabelColumns`.
    """

    targets: Any
    classes: np.ndarray
    n_columns: int
    is_multilabel: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.targets.starts) - 1 if self.is_multilabel else len(self.targets.columns)

    @property
    def class_numbers(self) -> np.ndarray:
        """Class number of every row: the position of its label in `classes`. Label sets have none: a TypeError."""
        if self.is_multilabel:
            raise TypeError("rows with label sets have no class numbers")
        return class_numbers(self.targets, self.n_columns)


def class_numbers(targets: OneLabel, k: int) -> np.ndarray:
    """Class number of every row, where rows have one label: the position of its label among the classes."""
    columns: np.ndarray = targets.columns
    return columns + 1 if k == 1 else columns  # binary: −1 and 0


def indicator(targets: LabelSets, k: int) -> sparse.csr_array:
    """Label sets as a boolean matrix of k columns."""
    columns, starts = targets
    return sparse.csr_array((np.ones(len(columns), bool), columns, starts), shape=(len(starts) - 1, k))


def true_labels(targets: OneLabel | LabelSets, k: int) -> np.ndarray | sparse.csr_array:
    """What measures compare predictions with: class numbers (n,), or label sets as a boolean (n, k) matrix."""
    return indicator(targets, k) if isinstance(targets, LabelSets) else class_numbers(targets, k)


def label_entries(targets: OneLabel | LabelSets) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of all labels."""
    if isinstance(targets, OneLabel):
        rows = np.flatnonzero(targets.columns >= 0)
        return rows, targets.columns[rows]
    return np.repeat(np.arange(len(targets.starts) - 1), np.diff(targets.starts)), targets.columns


def zeros_and_ones(targets: OneLabel | LabelSets, n: int, k: int, dtype: Any) -> np.ndarray:
    """Labels of n rows as a dense (n, k) array: one where a row has the label of the column."""
    Y = np.zeros((n, k), dtype)
    Y[label_entries(targets)] = 1.0
    return Y


def encode(y: Any, *, direct: bool, class_names: list[Any] | None = None) -> Encoded:
    """Targets of labels `y`: a vector of any label type, or an (n, k) indicator matrix (dense or sparse).

    `direct` losses (softmax and its kin) need one column per class; the others treat two classes with one column.
    """
    part = LabelPart.of(y)
    columns = part.summary.columns(direct=direct, class_names=class_names)
    return Encoded(targets_of(part, columns), *columns)


def targets_of(part: LabelPart, columns: LabelColumns) -> OneLabel | LabelSets:
    """Targets of some rows, given what the columns of all rows mean."""
    if part.sets is not None:
        return LabelSets(part.sets.indices.astype(np.int32), part.sets.indptr.astype(np.int64))
    numbers = part.numbers_among(columns.classes)
    return OneLabel(numbers - np.int32(1) if columns.n_columns == 1 else numbers)
