"""The labels of text formats: numbers, one or several a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

#: Larger whole numbers are not exact as doubles.
MAX_EXACT_INTEGER = 2.0**53


def is_integral(labels: np.ndarray) -> bool:
    """Whether all labels are whole numbers that a double holds exactly."""
    return bool(np.all((labels == np.floor(labels)) & (np.abs(labels) <= MAX_EXACT_INTEGER)))


def label_settings(distinct: np.ndarray, most_labels: int) -> dict[str, Any]:
    """What a schema keeps of labels, given their distinct values and the most that a row has."""
    names = distinct.astype(np.int64) if is_integral(distinct) else distinct
    if most_labels > 1:
        return {"labels": "multi", "class_names": names.tolist()}
    if most_labels == 0:
        return {"labels": "none"}
    return {"labels": "int" if is_integral(distinct) else "float"}


def one_label(labels: np.ndarray, kind: str) -> np.ndarray:
    """y for one label a row: int64 where all are whole numbers (and no earlier file had others)."""
    return labels.astype(np.int64) if kind != "float" and is_integral(labels) else labels


def label_sets(labels: np.ndarray, label_end: np.ndarray, class_names: list[Any]) -> Any:
    """y for any number of labels a row, over sorted `class_names`; labels unseen in training are left out."""
    names = np.asarray(class_names, np.float64)
    columns = np.searchsorted(names, labels)
    known = columns < names.size
    known[known] = names[columns[known]] == labels[known]
    rows = np.repeat(np.arange(label_end.size), np.diff(label_end, prepend=0))
    ones = np.ones(int(known.sum()), dtype=bool)
    y = sparse.csr_array((ones, (rows[known], columns[known])), shape=(label_end.size, names.size), dtype=bool)
    y.sum_duplicates()
    return y
