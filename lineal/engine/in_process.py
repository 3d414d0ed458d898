"""Base class of engines that run their steps in this process: sums and row state over their blocks."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lineal.engine.base import Block
from lineal.engine.state import Changing, RowState, StateCache, States, commit, cut_rows
from lineal.engine.tree import Summands, add_along_tree


class InProcess(abc.ABC):
    """Base of engines that provide their blocks one after the other, again for each step."""

    cache: StateCache

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X."""

    @property
    def is_remote(self) -> bool:
        """False: the rows are in this process, or in its files."""
        return False

    @property
    def room(self) -> int | None:
        """Number of bytes that a solver may use besides rows; None without such a limit."""
        return None

    @property
    def largest_block(self) -> int:
        """Largest number of rows of which a solver holds row state: all rows, unless an engine says otherwise."""
        return self.shape[0]

    @abc.abstractmethod
    def blocks(self, at_least: int = 1) -> Iterable[Block]:
        """All blocks in order, of at least `at_least` rows each if that is possible."""

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Sum of step(block, *pieces of the states, *arguments) over all blocks (see `add_along_tree`)."""
        if not states:
            return add_along_tree(step(block, *arguments) for block in self.blocks(rows))
        return add_along_tree(self._results(step, arguments, states))

    def update(self, step: Any, *arguments: Any, states: States) -> None:
        """Run a step only to update states; skipped where these are not kept."""
        if all(self.cache.holds(entry.state) for entry in states if isinstance(entry, Changing)):
            for _ in self._results(step, arguments, states):
                pass
        else:
            commit(states)

    def gather(self, step: Any, *arguments: Any, states: States = ()) -> list[Any]:
        """Results of a step, one per block, in order."""
        return list(self._results(step, arguments, states))

    def _results(self, step: Any, arguments: tuple[Any, ...], states: States) -> Iterator[Any]:
        uses = [entry.use() for entry in states]
        for number, block in enumerate(self.blocks()):
            block_uses = [use.for_rows(block.first, block.n) for use in uses]
            yield self.cache.run(step, number, block, block_uses, arguments)
        commit(states)

    def warm_up(self, function: Callable[[], Any]) -> None:  # noqa: B027
        """Do nothing: the rows are in this process, which loads kernels when it needs them."""

    def remark(self) -> str:
        """Nothing to say."""
        return ""

    def notify(self, tell: Callable[[str], None] | None) -> None:  # noqa: B027
        """Do nothing: there is nobody to wait for."""

    def state(self, rebuild: Any, *arguments: Any, max_bytes: float = math.inf, is_exact: bool = True) -> RowState:
        """Row state that `rebuild(block, *arguments)` computes, kept up to `max_bytes` for all rows together.

        If it is not exact, a lack of room for it is an error.
        """
        return self.cache.drop_with(RowState(rebuild, arguments, max_bytes / max(self.shape[0], 1), is_exact))

    def cut(self, array: Any) -> RowState:
        """Row state of an array (n, …), without a copy."""
        return RowState(cut_rows, (array,), -1.0)
