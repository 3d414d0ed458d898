"""What engines share that read their blocks into this process, in any order."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence

from lineal.engine.base import Block
from lineal.engine.in_process import InProcess
from lineal.engine.scratch import Scratch, ScratchCache


class Streamed(InProcess):
    """Base of an engine whose blocks are read one after the other, in an order that the caller chooses."""

    cache: ScratchCache

    @property
    def scratch(self) -> Scratch:
        """Where numbers per row are kept between passes: in memory, and in a temporary file beyond the budget."""
        return self.cache.scratch

    @property
    @abc.abstractmethod
    def bounds(self) -> Sequence[tuple[int, int]]:
        """First row and number of rows of every block."""

    @abc.abstractmethod
    def visit(self, order: Sequence[int]) -> Iterator[Block]:
        """The blocks with these numbers, in this order; each one is valid until the next one is requested."""
