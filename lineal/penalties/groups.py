"""Feature groups as the user gives them, checked and turned into two arrays for kernels."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lineal.errors import OptionError


class Groups(NamedTuple):
    """Group g holds the rows ``features[offsets[g]:offsets[g + 1]]``; without features every row is its own group."""

    offsets: np.ndarray
    features: np.ndarray


def rows_as_groups() -> Groups:
    """Every row of W is a group: this needs no arrays of that length, and no copies in the kernels."""
    return Groups(np.zeros(1, np.int64), np.zeros(0, np.int64))


def parse_groups(groups: Any, n_features: int) -> Groups:
    """Check groups, given as a list of index lists or as one group number per feature: a partition of the features."""
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype != object:
        return _from_numbers(groups, n_features)
    if not isinstance(groups, (Sequence, np.ndarray)) or isinstance(groups, str):
        raise OptionError(
            f"feature_groups={groups!r}: expected a list of lists of feature numbers, or one number per feature"
        )
    if len(groups) and all(isinstance(entry, numbers.Integral) for entry in groups):
        return _from_numbers(np.asarray(groups), n_features)
    return _from_lists(groups, n_features)


def _from_numbers(numbers_: np.ndarray, n_features: int) -> Groups:
    if not np.issubdtype(numbers_.dtype, np.integer):
        raise OptionError(f"feature_groups: group numbers must be integers, not {numbers_.dtype}")
    if numbers_.shape[0] != n_features:
        raise OptionError(
            f"feature_groups holds {numbers_.shape[0]} group numbers, but there are {n_features} features"
        )
    bad = np.flatnonzero((numbers_ < 0) | (numbers_ >= n_features))
    if bad.size:
        raise OptionError(
            f"feature_groups: feature {bad[0]} has group number {numbers_[bad[0]]}; groups are numbered 0, 1, 2, … "
            f"and there are at most {n_features}, one per feature"
        )
    sizes = np.bincount(numbers_)
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        later = np.flatnonzero(numbers_ > empty[0])[0]
        raise OptionError(
            f"feature_groups: group {empty[0]} is empty, but feature {later} has group number {numbers_[later]}; "
            "number the groups without holes"
        )
    return Groups(_offsets(sizes), np.argsort(numbers_, kind="stable").astype(np.int64))


def _from_lists(groups: Any, n_features: int) -> Groups:
    members = [_indices(group, g) for g, group in enumerate(groups)]
    sizes = np.array([len(member) for member in members], np.int64)
    features = np.concatenate([np.zeros(0, np.int64), *members])
    owners = np.repeat(np.arange(len(members)), sizes)

    bad = np.flatnonzero((features < 0) | (features >= n_features))
    if bad.size:
        raise OptionError(
            f"feature_groups: group {owners[bad[0]]} holds feature {features[bad[0]]}, "
            f"but the {n_features} features are numbered 0 to {n_features - 1}"
        )
    _, first, inverse = np.unique(features, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(features.shape[0]))
    if repeated.size:
        again = repeated[0]
        raise OptionError(
            f"feature_groups: feature {features[again]} is in group {owners[first[inverse[again]]]} and again in group "
            f"{owners[again]}; groups may not overlap"
        )
    missing = np.setdiff1d(np.arange(n_features), features, assume_unique=True)
    if missing.size:
        raise OptionError(
            f"feature_groups: feature {missing[0]} is in no group ({missing.size} such); add the group [{missing[0]}]"
        )
    return Groups(_offsets(sizes), features)


def _indices(group: Any, g: int) -> np.ndarray:
    try:
        indices = np.asarray(group)
    except ValueError:  # a ragged list inside the list
        indices = np.zeros((0, 0))
    if indices.ndim != 1:
        raise OptionError(f"feature_groups: group {g} is {group!r}, expected a list of feature numbers")
    if indices.shape[0] == 0:
        raise OptionError(f"feature_groups: group {g} is empty")
    if not np.issubdtype(indices.dtype, np.integer):
        raise OptionError(
            f"feature_groups: group {g} holds {indices.tolist()[0]!r}, expected feature numbers (integers)"
        )
    return indices.astype(np.int64)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
