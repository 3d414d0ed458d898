"""The contract between solvers and rows.

A solver never indexes rows. It passes a step to the engine, and the engine returns the sum of the step's results over
all blocks:

    value, gradient = engine.sum(LossGradient(loss), W, b)

Numbers per row that a solver needs again, such as scores, are kept where the rows are, as row state (`state.py`):

    scores = engine.state(Scores(), W, b)
    (value,) = engine.sum(LossAt(loss), states=(scores,))

Arrays in memory, a memory-mapped file and a cluster differ only in which process holds which block.

The rules for a step:

- It is a module-level function or a frozen dataclass with `__call__(block, *pieces, *arguments)`: picklable, a few
  kilobytes, without a reference to the objective, the solver or an engine. Large arrays are passed as arguments, which
  an engine sends to each worker once.
- It returns a tuple of arrays, numbers and objects with `+`. The tuples of all blocks are added entry by entry.
- It may change the pieces of states that it updates (`RowState.to`). To other pieces it may only add entries that can
  be computed from them. It writes to nothing else: all arrays of the block and all arguments may be read-only.
- It may run twice on the same block, in another process, or on a block without rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from lineal.design import Design
from lineal.engine.state import RowState, States
from lineal.engine.tree import Summands

if TYPE_CHECKING:
    from lineal.engine.time_limit import TimeLimit

E = TypeVar("E", bound="Engine")


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their labels, weights and offsets.

    Attributes
    ----------
    X : the rows.
    targets : the labels of the rows (`lineal.problem.targets`).
    weights : the weights of the rows; over all blocks they add up to one.
    offsets : (rows, k) base scores, or None.
    threads : number of threads that a step may use on this block.
    first : index of the first row of the block among all rows of the engine.
    """

    X: Design
    targets: Any
    weights: np.ndarray
    offsets: np.ndarray | None
    threads: int
    first: int = 0

    @property
    def n(self) -> int:
        """Number of rows of the block."""
        return self.X.shape[0]


class Step(Protocol):
    """Work on one block of rows, which follows the rules above."""

    def __call__(self, block: Block, *pieces_and_arguments: Any) -> Summands:
        """Return the summands of this block."""
        ...


class Engine(Protocol):
    """Holds all rows and runs steps on them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of X."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of score columns, k."""
        ...

    @property
    def threads(self) -> int:
        """Number of threads for work on parameters instead of rows."""
        ...

    @property
    def is_dense(self) -> bool:
        """Whether X is stored with its zeros."""
        ...

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether the rows are on other machines, so that a pass may never be answered (`engine/overdue.py`)."""
        ...

    @property
    def room(self) -> int | None:
        """Number of bytes that a solver may use in this process besides rows; None without such a limit."""
        ...

    @property
    def largest_block(self) -> int:
        """Largest number of rows of which a solver holds row state in this process."""
        ...

    def with_threads(self: E, threads: int) -> E:
        """An engine with the same rows and this many threads per block."""
        ...

    def with_weights(self: E, weights: np.ndarray) -> E:
        """An engine with the same rows and other weights, (n,), which add up to one."""
        ...

    def with_features(self: E, change: Callable[[Design], Design]) -> E:
        """An engine with the same rows in other coordinates: the features of every block are changed by a function.

        The function is picklable, and keeps the shape, the precision and the layout of the features.
        """
        ...

    def shards(self, count: int | None = None, seed: int = 0) -> Shards:
        """An engine with the same rows in shards: blocks that a step can solve a problem of their own on.

        Shards are worked on side by side where there are threads for it. Rows in this process and in files are dealt
        out at random; on a cluster, a shard is a partition. `count` is the number of shards. By default it is a small
        fixed number, as many as memory requires, or the number of partitions; another number than the last is refused.
        The same count and seed give the same shards, in any process and for any number of threads. Rows can be in
        another order, so that arrays cannot be cut.
        """
        ...

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Sum of step(block, *pieces of the states, *arguments) over all blocks, along a tree fixed by their number.

        A step with a large result (d × d) can request blocks of at least `rows` rows, which an engine provides if it
        can. Such a step has no states.
        """
        ...

    def update(self, step: Any, *arguments: Any, states: States) -> None:
        """Run a step only to update states. An engine that does not keep these states skips it."""
        ...

    def gather(self, step: Any, *arguments: Any, states: States = ()) -> list[Any]:
        """Results of a step, one per block, in order: for small results, such as the scores of a sample of rows."""
        ...

    def warm_up(self, function: Callable[[], Any]) -> None:
        """Run a function in all processes that hold rows, now and in those that come later: it loads kernels."""
        ...

    def remark(self) -> str:
        """What a progress line should say about those who hold the rows, such as a slow one; usually nothing."""
        ...

    def notify(self, tell: Callable[[str], None] | None) -> None:
        """Pass remarks to a function while the engine waits for those who hold the rows."""
        ...

    def state(self, rebuild: Any, *arguments: Any, max_bytes: float = math.inf, is_exact: bool = True) -> RowState:
        """Row state that `rebuild(block, *arguments)` computes when it is first needed (see `RowState`).

        With `is_exact=False`, what steps made of the state cannot be rebuilt but only approximated. An engine then
        never gives up pieces that it has; where there is no room for them, it raises an error. State that would take
        more than `max_bytes` for all rows together is not kept but rebuilt for every step.
        """
        ...

    def cut(self, array: Any) -> RowState:
        """Row state of an array (n, …): each block gets its slice of the array as ``piece["rows"]``."""
        ...


class Shards(Engine, Protocol):
    """An engine whose blocks are shards of the rows."""

    @property
    def partition(self) -> np.ndarray:
        """Numbers that tell which rows are in which shard: those of other shards of the same rows differ."""
        ...

    def time_per_shard(self, seconds: float | None) -> TimeLimit | None:
        """Limit of the time of a step on each shard, so that all shards take at most so many seconds from now on."""
        ...
