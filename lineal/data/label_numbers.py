"""Labels that are numbers: which type holds them so that no two different labels become equal.

Doubles hold most labels. Integers from 2**53 on, of which several can be the same double, are held as int64 or
uint64; labels of which some are so large and others have a fraction are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.errors import DataError

#: From here on, integers that differ can be the same double.
INEXACT = 2**53


def is_integral(labels: np.ndarray) -> bool:
    """Whether all labels are integers that are held exactly."""
    if labels.dtype.kind != "f":
        return True
    return bool(np.all((labels == np.floor(labels)) & (np.abs(labels) <= INEXACT)))


def _is_beyond_doubles(labels: np.ndarray) -> bool:
    """Whether some integers could become equal as doubles."""
    if labels.dtype.kind == "f" or not labels.size:
        return False
    return int(labels.max()) >= INEXACT or int(labels.min()) <= -INEXACT


def whole_type(arrays: list[np.ndarray]) -> Any:
    """The integer type that holds the integers of all arrays; an error if there is none."""
    is_unsigned = any(array.dtype == np.uint64 and (array >> np.uint64(63)).any() for array in arrays)
    if not is_unsigned:
        return np.int64
    if any(array.dtype != np.uint64 and (array < 0).any() for array in arrays):
        raise DataError("some labels are negative and some are 2**63 or more: no integer type holds both")
    return np.uint64


def join_labels(arrays: list[np.ndarray]) -> np.ndarray:
    """Labels one after the other, in a type that rounds none of them."""
    if all(array.dtype == arrays[0].dtype for array in arrays):
        return np.concatenate(arrays)
    has_doubles = any(array.dtype.kind == "f" for array in arrays)
    if has_doubles and not any(map(_is_beyond_doubles, arrays)):
        return np.concatenate(arrays)
    if not all(map(is_integral, arrays)):
        raise large_and_fractional()
    dtype = whole_type(arrays)
    return np.concatenate([array.astype(dtype) for array in arrays])


def whole_kind(lowest: int, highest: int, name: str) -> str:
    """The kind of the labels of column `name`, integers between two bounds: "integer" or "unsigned"."""
    if lowest < -(2**63) or highest >= 2**64 or (lowest < 0 and highest >= 2**63):
        wrong = lowest if lowest < -(2**63) else highest
        raise DataError(
            f"the label {name!r} holds {wrong}: integers are kept from -2**63 to 2**63 - 1, or from 0 to "
            "2**64 - 1; make the labels text, for example with a letter before them"
        )
    return "integer" if highest < 2**63 else "unsigned"


def large_and_fractional(column: str | None = None) -> DataError:
    """The error for labels that no type of number holds, with the name of their column if they have one."""
    large, fractional = "integers beyond 2**53", "a fraction"
    if column is None:
        what = f"some labels are {large} and some have {fractional}"
    else:
        what = f"the label {column!r} has {large} and numbers with {fractional}"
    return DataError(
        f"{what}: as doubles, which hold fractions, different large numbers would become equal; write all labels as "
        "integers"
    )
