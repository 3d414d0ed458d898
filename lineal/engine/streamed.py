"""What engines share that read rows into this process in any order: not only block by block, but run by run.

A run is a few consecutive rows. Methods that visit rows at random load several runs from random places at once: rows
that are always loaded together would be a biased sample, again and again.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from lineal.engine.base import Block
from lineal.engine.in_process import InProcess
from lineal.engine.scratch import Scratch, ScratchCache

T = TypeVar("T")


class Span(NamedTuple):
    """Consecutive rows of one file; `first` is the number of the first one among all rows."""

    file: int
    start: int
    stop: int
    first: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.stop - self.start


class Streamed(InProcess):
    """Base of an engine that reads rows when they are needed, in an order that the caller chooses."""

    cache: ScratchCache

    @property
    def scratch(self) -> Scratch:
        """Where numbers per row are kept between passes: in memory, and in a temporary file beyond the budget."""
        return self.cache.scratch

    @abc.abstractmethod
    def runs(self, per_block: int) -> Sequence[Span]:
        """All rows in order, cut into runs, of which at least `per_block` fit into a block if its rows are small."""

    @abc.abstractmethod
    def loads(self, runs: Iterable[Span]) -> list[list[Span]]:
        """Runs in the given order, put together into as few loads as the memory of one block allows."""

    @abc.abstractmethod
    def visit(self, loads: Iterable[Sequence[Span]], prepare: Callable[[Block], T]) -> Iterator[T]:
        """What `prepare` makes of one block per load, which has the rows of its runs.

        It is called while the caller works on the result before, and is valid until the next one is requested.
        """
