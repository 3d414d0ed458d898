"""The labels of text formats: numbers, one or several per row, compared by value.

Doubles hold most of them. Whole numbers from 2**53 on, of which several can be the same double, are held as int64 or
uint64; a file that has such labels and others with a fraction is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lineal.data.text.lines import DOUBLES, SIGNED, UNSIGNED
from lineal.errors import DataError

#: Larger whole numbers are not exact as doubles.
MAX_EXACT_INTEGER = 2.0**53

#: The types of labels, by how a kernel stores them.
STORED_AS = {DOUBLES: np.float64, SIGNED: np.int64, UNSIGNED: np.uint64}

#: What a schema calls whole numbers of each type.
WHOLE = {"int": np.int64, "uint": np.uint64}


def is_integral(labels: np.ndarray) -> bool:
    """Whether all labels are whole numbers that are held exactly."""
    if labels.dtype.kind != "f":
        return True
    return bool(np.all((labels == np.floor(labels)) & (np.abs(labels) <= MAX_EXACT_INTEGER)))


def _is_beyond_doubles(labels: np.ndarray) -> bool:
    """Whether some whole numbers could not be told apart as doubles."""
    if labels.dtype.kind == "f" or not labels.size:
        return False
    return int(labels.max()) >= MAX_EXACT_INTEGER or int(labels.min()) <= -MAX_EXACT_INTEGER


def whole_type(arrays: list[np.ndarray]) -> Any:
    """The integer type that holds whole numbers of all arrays; an error where there is none."""
    is_unsigned = any(array.dtype == np.uint64 and (array >> np.uint64(63)).any() for array in arrays)
    if not is_unsigned:
        return np.int64
    if any(array.dtype != np.uint64 and (array < 0).any() for array in arrays):
        raise DataError("some labels are negative and some are 2**63 or more: no integer type holds both")
    return np.uint64


def join_labels(arrays: list[np.ndarray]) -> np.ndarray:
    """Labels one after the other, none of them rounded."""
    if all(array.dtype == arrays[0].dtype for array in arrays):
        return np.concatenate(arrays)
    has_doubles = any(array.dtype.kind == "f" for array in arrays)
    if has_doubles and not any(map(_is_beyond_doubles, arrays)):
        return np.concatenate(arrays)
    if not all(map(is_integral, arrays)):
        raise DataError(
            "some labels are whole numbers beyond 2**53 and some have a fraction: doubles, which hold fractions, would "
            "merge the large ones; write all labels as whole numbers"
        )
    dtype = whole_type(arrays)
    return np.concatenate([array.astype(dtype) for array in arrays])


def label_settings(distinct: np.ndarray, most_labels: int) -> dict[str, Any]:
    """What a schema keeps of labels, given their distinct values and the most that a row has."""
    kind = "float"
    if is_integral(distinct):
        kind = "uint" if whole_type([distinct]) is np.uint64 else "int"
    if most_labels > 1:
        return {"labels": "multi", "class_names": distinct.astype(WHOLE.get(kind, np.float64)).tolist()}
    return {"labels": kind if most_labels else "none"}


def one_label(labels: np.ndarray, kind: str) -> np.ndarray:
    """y for one label per row: integers where all are whole numbers (and no earlier file had others)."""
    if kind == "float" or not is_integral(labels):
        return labels.astype(np.float64, copy=False)
    return labels.astype(np.uint64 if kind == "uint" and (labels >= 0).all() else whole_type([labels]), copy=False)


def label_sets(labels: np.ndarray, label_end: np.ndarray, class_names: list[Any]) -> Any:
    """y for any number of labels per row, over sorted `class_names`; labels unseen in training are left out."""
    names = np.asarray(class_names) if class_names else np.empty(0)
    known = np.ones(labels.size, dtype=bool)
    if names.dtype.kind in "iu" and is_integral(labels):  # compared as integers, not as doubles
        bounds = np.iinfo(names.dtype)
        wide = labels.astype(object) if labels.dtype.kind in "iu" and labels.dtype != names.dtype else labels
        known = np.asarray((wide >= bounds.min) & (wide <= bounds.max), dtype=bool)
        labels = np.where(known, labels, 0).astype(names.dtype)
    columns = np.searchsorted(names, labels)
    known &= columns < names.size
    known[known] = names[columns[known]] == labels[known]
    rows = np.repeat(np.arange(label_end.size), np.diff(label_end, prepend=0))
    ones = np.ones(int(known.sum()), dtype=bool)
    y = sparse.csr_array((ones, (rows[known], columns[known])), shape=(label_end.size, names.size), dtype=bool)
    y.sum_duplicates()
    return y
