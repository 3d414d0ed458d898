"""Contracts of generators: the methods and attributes that a chain, a stagewise fit and a model file need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class FeatureBatch(Protocol):
    """Batch of features: their number, and their values for given rows."""

    width: int

    def transform(self, X: Any) -> np.ndarray:
        """Features of the rows: C-ordered (m, width), float32, or float64 where X is float64."""


@runtime_checkable
class KeepsState(Protocol):
    """Batch or generator with a state for model files."""

    def state(self) -> dict[str, Any]:
        """What cannot be computed again, as arrays and JSON values; of most batches {}."""


@runtime_checkable
class Prepares(Protocol):
    """A step that learns from rows and a seed."""

    def prepare(self, X: Any, seed: int = 0) -> Any:
        """Learn from the rows what all batches have in common."""


class RowSums(Protocol):
    """Sums over rows, wherever they are."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def total(self, step: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        """Sum of step(X, *arguments) over parts X of the rows, entry by entry.

        The step is a module-level function that returns a tuple of arrays and objects with `+`, also for no rows.
        """


@runtime_checkable
class LearnsFromSums(Protocol):
    """A step that can learn from sums over all rows and from a sample of them, where they are not in one array."""

    def prepare_from(self, sums: Any, sample: Any, seed: int = 0) -> Any:
        """Learn the same as `prepare`; `sums` are `RowSums`."""


@runtime_checkable
class Makes(Protocol):
    """A step that makes batches of features."""

    def make(self, number: int, size: int) -> FeatureBatch:
        """Batch `number` of at most `size` features."""


@runtime_checkable
class Remakes(Protocol):
    """A generator whose batches can be made again from their state."""

    def remake(self, number: int, size: int, state: dict[str, Any]) -> FeatureBatch:
        """The batch that `make` gave, from its `state()`."""


@runtime_checkable
class KnowsWidth(Protocol):
    """A generator that knows how many features a batch has without making it."""

    def width_of(self, number: int, size: int) -> int:
        """Number of features of batch `number`."""


@runtime_checkable
class PreparedForColumns(Protocol):
    """A generator that says how many columns of X it was prepared with."""

    n_columns_: int


@runtime_checkable
class Seeded(Protocol):
    """A generator that says which seed it was prepared with."""

    seed_: int


@runtime_checkable
class Transformer(Protocol):
    """A step with scikit-learn's `fit` and `transform`."""

    def fit(self, X: Any) -> Any:
        """Learn from the rows."""

    def transform(self, X: Any) -> Any:
        """Features of the rows."""


@runtime_checkable
class HasParameters(Protocol):
    """A step with scikit-learn's parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""


@runtime_checkable
class TakesParameters(HasParameters, Protocol):
    """A step whose parameters can be changed, as in scikit-learn."""

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name."""


@runtime_checkable
class Named(Protocol):
    """A generator that model files can refer to."""

    name: str


@runtime_checkable
class NeedsResidual(Protocol):
    """A generator that says whether `make` needs the residual of a fit."""

    needs_residual: bool


@runtime_checkable
class ChoosesByProducts(PreparedForColumns, Protocol):
    """A generator that chooses features by a residual R, and needs no more of the rows than the sum X'R."""

    def make_by_products(self, number: int, size: int, products: np.ndarray) -> FeatureBatch:
        """Batch `number` of at most `size` features, for products X'R, (d, k)."""


@runtime_checkable
class Restorable(Named, KeepsState, HasParameters, Protocol):
    """A generator that model files can hold."""

    def restored(self, params: dict[str, Any], state: dict[str, Any]) -> Any:
        """The generator that had these parameters and this state."""
