"""Preparation of generators for rows that are in files or on a cluster: from a sample of the rows, and from sums.

A generator that was prepared with all rows in one array would have the same rows here if they fit: the sample has up to
SAMPLED_NUMBERS numbers, is uniform over all rows and keeps their order. Of more rows, what a generator adds up (counts,
norms, means, second moments) is still exact: it is summed where the rows are. Bandwidths, filters, principal components
of very many columns, and steps that are not lineal's own learn from the sample alone.

Memory: the sample, twice while its parts are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.engine.base import Block, Engine
from lineal.features.base import transform_rows
from lineal.features.contracts import LearnsFromSums
from lineal.features.rows import in_precision, matrix_of, sample

#: Stored numbers of a sample of rows at most: 256 MB in float32.
SAMPLED_NUMBERS = 1 << 26

#: Part of the bytes that an engine allows for parameters which one copy of the sample may take.
SAMPLES_PER_ROOM = 4

#: Stream of the random numbers that choose the sample.
_STREAM = -13


def prepare(generator: Any, engine: Engine, seed: int, dtype: Any) -> Any:
    """Prepare a generator for features of this precision of the rows of an engine."""
    n, most = engine.shape[0], sampled_rows(engine)
    X = stacked(engine.gather(ChosenRows(), chosen_rows(engine, most, seed, _STREAM), dtype))
    if n > most and isinstance(generator, LearnsFromSums):
        generator.prepare_from(EngineSums(engine, np.dtype(dtype)), X, seed)
    else:
        generator.prepare(X, seed)
    return generator


def sampled_rows(engine: Engine) -> int:
    """Largest number of rows of a sample.

    A limit by the memory of an engine is a power of two, so that it is the same if a little more or less is available.
    """
    n, numbers = max(engine.shape[0], 1), SAMPLED_NUMBERS
    if engine.room is not None:
        room = max(1, engine.room // (SAMPLES_PER_ROOM * engine.dtype.itemsize))
        numbers = min(numbers, 1 << (room.bit_length() - 1))
    return max(1, numbers * n // max(engine.stored, 1))


def chosen_rows(engine: Engine, most: int, seed: int, stream: int) -> np.ndarray | None:
    """Numbers of at most so many random rows, ascending; None for all rows, where one process holds them in one block.

    Numbers of all rows make a step copy them: the memory of a block that was read from a file is used again.
    """
    n = engine.shape[0]
    return None if n <= most and engine.largest_block >= n else sample(n, most, seed, stream)


def among(block: Block, chosen: np.ndarray | None) -> Any:
    """The chosen rows of a block, as an index of its rows."""
    if chosen is None:
        return slice(None)
    first, last = np.searchsorted(chosen, [block.first, block.first + block.n])
    return chosen[first:last] - block.first


@dataclass(frozen=True)
class ChosenRows:
    """Step of `Engine.gather`: the chosen rows of a block."""

    def __call__(self, block: Block, chosen: np.ndarray | None, dtype: Any) -> Any:
        return in_precision(matrix_of(block.X)[among(block, chosen)], dtype)


def stacked(parts: list[Any]) -> Any:
    """Rows of all blocks, one below the other."""
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


@dataclass(frozen=True)
class EngineSums:
    """Sums over the rows of an engine as a generator sees them (see `contracts.RowSums`).

    Attributes
    ----------
    engine, dtype : the rows, and the precision of the features.
    firsts : batches of the steps that the rows go through before.
    """

    engine: Engine
    dtype: np.dtype[Any]
    firsts: tuple[Any, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.engine.shape[0]

    def total(self, step: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        """Sum of step(X, *arguments) over parts X of the rows."""
        return self.engine.sum(OnRows(step), self.dtype, self.firsts, *arguments)

    def after(self, batch: Any) -> EngineSums:
        """Sums over the features of a batch."""
        return replace(self, firsts=(*self.firsts, batch))


@dataclass(frozen=True)
class OnRows:
    """Step of an engine: a function of the rows of a block, after they have gone through some batches."""

    step: Callable[..., tuple[Any, ...]]

    def __call__(self, block: Block, dtype: Any, firsts: tuple[Any, ...], *arguments: Any) -> tuple[Any, ...]:
        X = in_precision(matrix_of(block.X), dtype)
        for batch in firsts:
            X = transform_rows(batch, X, "a chain's")
        return self.step(X, *arguments)
