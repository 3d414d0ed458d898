"""The terms of fitted `TextFeatures`: their names, the tables to look them up, and checks of those from files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lineal.data.terms.analysis import Analysis
from lineal.data.terms.lookup import Lookup
from lineal.data.terms.tables import lookup_of
from lineal.data.terms.vocabulary import Names


class Terms:
    """Names of terms, written when they are first needed, and tables to look them up, which are not pickled."""

    def __init__(self, n_terms: int, find_names: Callable[[], Names], lookup: Lookup | None = None) -> None:
        self.n_terms, self._find_names, self._lookup = n_terms, find_names, lookup

    @classmethod
    def of(cls, names: Names) -> Terms:
        """Terms with these names."""
        return cls(len(names), lambda: names)

    @functools.cached_property
    def names(self) -> Names:
        """Names in the order of the columns."""
        return self._find_names()

    def lookup(self, analysis: Analysis) -> Lookup:
        """Tables to look up the terms, which are always cut in the same way."""
        if self._lookup is None:
            self._lookup = lookup_of(self.names, analysis)
        return self._lookup

    def __reduce__(self) -> Any:
        return Terms.of, (self.names,)


def stored_names(data: Any, stops: Any) -> Names:
    """Names from a file; raises a ValueError if they are damaged."""
    is_valid = (
        isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 1
        and isinstance(stops, np.ndarray) and stops.dtype == np.int64 and stops.ndim == 1 and len(stops) > 1
        and stops[0] == 0 and stops[-1] == len(data) and bool((np.diff(stops) >= 0).all())
    )  # fmt: skip
    if not is_valid:
        raise ValueError("the terms of text features are damaged")
    data.tobytes().decode("utf-8", "surrogatepass")  # raises a ValueError
    starts = stops[stops < len(data)]
    if (data[starts] >> 6 == 2).any():
        raise ValueError("the terms of text features are damaged: one begins within a character")
    return Names(data, stops)


def stored_idf(idf: Any, n_columns: int) -> np.ndarray:
    """The idf from a file; raises a ValueError if it is damaged. Infinite is that of a term that no document has."""
    if not (isinstance(idf, np.ndarray) and idf.dtype == np.float64 and idf.shape == (n_columns,) and (idf >= 0).all()):
        raise ValueError("the idf of text features is damaged")
    return idf
