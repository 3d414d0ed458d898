"""The contract between solvers and rows.

A solver never indexes rows. It hands the engine a step, and the engine returns the sum of its answers over all blocks:

    value, gradient = engine.sum(LossGradient(loss), W, b)

Numbers per row that a solver needs again, such as scores, stay where the rows are, as row state (`state.py`):

    scores = engine.state(Scores(), W, b)
    (value,) = engine.sum(LossAt(loss), states=(scores,))

Arrays in memory, a memory-mapped file and a cluster differ only in who holds which block.

The rules for a step:

- It is a module-level function or a frozen dataclass with `__call__(block, *pieces, *arguments)`: picklable, a few
  kilobytes, without a reference to the objective, the solver or an engine. Large arrays are passed as arguments, which
  an engine sends to each worker once.
- It returns a tuple of arrays, numbers and objects with `+`, which are added entry by entry. It may change the pieces
  of states that move (`RowState.to`), add to other pieces what follows from them, and write to nothing else. All
  arrays of the block and all arguments may be read-only.
- It may be run twice on a block, in another process, or on a block without rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from lineal.design import Design
from lineal.engine.state import RowState, States

#: What a step returns: arrays and numbers that are added up entry by entry.
Summands = tuple[Any, ...]

E = TypeVar("E", bound="Engine")


@dataclass(frozen=True)
class Block:
    """Some consecutive rows with all that belongs to them.

    Attributes
    ----------
    X : the rows.
    targets : their labels (`lineal.problem.targets`).
    weights : their weights; over all blocks they add up to one.
    offsets : (rows, k) base scores, or None.
    threads : how many threads the step may use on this block.
    first : number of its first row among all rows of the engine.
    """

    X: Design
    targets: Any
    weights: np.ndarray
    offsets: np.ndarray | None
    threads: int
    first: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]


class Step(Protocol):
    """What is done to a block of rows (see the rules above)."""

    def __call__(self, block: Block, *pieces_and_arguments: Any) -> Summands:
        """Summands of this block."""
        ...


class Engine(Protocol):
    """Holder of all rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X."""
        ...

    @property
    def n_columns(self) -> int:
        """k, the number of score columns."""
        ...

    @property
    def threads(self) -> int:
        """Threads for work that is not over rows."""
        ...

    @property
    def is_dense(self) -> bool:
        """Whether the rows store all of their entries."""
        ...

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        ...

    def with_threads(self: E, threads: int) -> E:
        """The same rows, with this many threads per block."""
        ...

    def with_weights(self: E, weights: np.ndarray) -> E:
        """The same rows with other weights, (n,), which add up to one."""
        ...

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Σ over blocks of step(block, *pieces of the states, *arguments), along a fixed tree over the block numbers.

        A step whose answer is large (d × d) asks for blocks of at least so many `rows`, if they can be had; such a
        step has no states.
        """
        ...

    def update(self, step: Any, *arguments: Any, states: States) -> None:
        """Run a step for what it writes to the states that move. An engine that does not keep these skips it."""
        ...

    def gather(self, step: Any, *arguments: Any, states: States = ()) -> list[Any]:
        """The answer of each block, in order: for few numbers, such as the scores of a sample of the rows."""
        ...

    def state(self, rebuild: Any, *arguments: Any, max_bytes: float = math.inf) -> RowState:
        """Row state that `rebuild(block, *arguments)` makes (see `RowState`). Nothing is computed before it is needed.

        Beyond `max_bytes` for all rows together, rebuilding costs less than keeping it.
        """
        ...

    def cut(self, array: Any) -> RowState:
        """The rows of an array, (n, …), as row state: each block gets its own slice, as ``piece["rows"]``."""
        ...


def add_along_tree(parts: Iterable[Summands]) -> Summands:
    """Entrywise sum of the summands of all blocks, in float64, along one binary tree over the block numbers.

    The tree depends on the number of blocks alone, so that sums do not depend on who adds which part of it. Arrays of
    float32 are added in float64 and rounded at the end. Memory: log₂(blocks) + 1 summands.
    """
    waiting: list[tuple[int, Summands]] = []  # one subtree per level, the highest first
    for part in parts:
        level = 0
        while waiting and waiting[-1][0] == level:
            part = _added(waiting.pop()[1], part)
            level += 1
        waiting.append((level, part))
    if len(waiting) == 1 and waiting[0][0] == 0:
        return waiting[0][1]
    total = waiting.pop()[1]
    while waiting:
        total = _added(waiting.pop()[1], total)
    return tuple(term.value() if isinstance(term, _Wide) else term for term in total)


class _Wide:
    """A sum of arrays in float64, and the precision that it is rounded to at the end."""

    def __init__(self, total: np.ndarray, dtype: np.dtype[Any]) -> None:
        self.total, self.dtype = total, dtype

    def value(self) -> np.ndarray:
        return self.total.astype(self.dtype, copy=False)


def _added(left: Summands, right: Summands) -> Summands:
    return tuple(_sum(a, b) for a, b in zip(left, right, strict=True))


def _sum(a: Any, b: Any) -> Any:
    if isinstance(a, _Wide):
        a.total += b.total if isinstance(b, _Wide) else b
        return a
    if isinstance(b, _Wide):  # the last blocks are in smaller subtrees than those before
        b.total += a
        return b
    if isinstance(a, np.ndarray) and a.dtype.kind == "f":
        return _Wide(np.add(a, b, dtype=np.float64), a.dtype)
    return a + b
