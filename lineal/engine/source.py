"""Rows that are not arrays in this process, before their labels have become targets.

A source hands out its rows in parts, each of which is a pure function of its input: it can be loaded again, by any
process. Training on a source takes two steps:

1. `survey` runs a function on all parts: it finds the labels, and what would end a fit later.
2. `engine` gives the rows to solvers. `Encode` turns labels into targets wherever the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from lineal.engine.base import Engine

T = TypeVar("T")


class RawRows(NamedTuple):
    """Consecutive rows as they are stored.

    Attributes
    ----------
    X : the rows: a float32 or float64 ndarray or `scipy.sparse.csr_array`; None where only labels were asked for.
    y : labels (m,), or label sets as an (m, k) indicator matrix.
    weights : (m,) sample weights, or None.
    offsets : (m,) or (m, k) base scores, or None.
    first : number of the first row among all rows, for messages; 0 where it is not known.
    """

    X: Any
    y: Any
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    first: int = 0


class Labelled(NamedTuple):
    """What `Encode` makes of the labels of some rows: targets, weights of the rows, and base scores (m, k) or None."""

    targets: Any
    weights: np.ndarray
    offsets: np.ndarray | None


#: Turns labels and weights of some rows into targets and weights that add up to one over all rows. It can be pickled.
Encode = Callable[[RawRows], Labelled]


class Source(Protocol):
    """Rows in a file or on a cluster."""

    @property
    def is_finite(self) -> bool:
        """Whether all values of X are known to be finite, as those of converted files are."""
        ...

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X, if they have any."""
        ...

    @property
    def class_names(self) -> list[Any] | None:
        """Names of the columns of an indicator matrix, if they have any."""
        ...

    @property
    def schema(self) -> Any:
        """How columns were made (`lineal.data.schema.Schema`), or None."""
        ...

    def survey(self, step: Callable[[RawRows], T]) -> list[tuple[str, T]]:
        """Results of a step on the rows of every part, in order, each with the name of the part for messages.

        A file that is read in blocks has a part for each block. The results are small. An error of the step is raised
        with the name of the part.
        """
        ...

    def engine(self, encode: Encode, n_columns: int, threads: int) -> Engine:
        """The rows with their targets, for solvers; `n_columns` is the number of score columns."""
        ...
