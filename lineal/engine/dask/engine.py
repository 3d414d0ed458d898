"""`DaskEngine`: rows on the workers of a Dask cluster.

A pass over the rows is one share of work per worker, a task or a call, and the client gets one sum. The blocks, and so
the sums, depend on the partitions only: they have the same bits for any number of workers, and if workers are lost and
replaced during a fit.

Memory on a worker: its partitions, their targets and weights, row state, and the sums of a pass. On the client: the
parameters, and up to 512 MB per row state of what was done to it (`lineage.py`).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from distributed import Client

from lineal.design import Design
from lineal.engine.dask.holder import Request, StateUse
from lineal.engine.dask.lineage import After, Change, Event, Node, Origin, Variant, new_version
from lineal.engine.dask.parcels import aligned
from lineal.engine.dask.rounds import Pass, Rounds
from lineal.engine.dask.shares import Result, drop
from lineal.engine.local import rows_per_block
from lineal.engine.state import Changing, RowState, States, commit, cut_rows, no_entries
from lineal.engine.time_limit import EqualShare
from lineal.engine.tree import Summands
from lineal.errors import OptionError

_changes = itertools.count()


class RemoteState(RowState):
    """Row state that workers keep.

    Attributes
    ----------
    node : how its pieces came about.
    is_kept : whether workers keep its pieces; they rebuild those that are too large for every step.
    is_made : whether the pieces have been computed.
    change : how the features were changed of the engine that made it, or None.
    is_exact : whether `rebuild` gives the pieces that steps have made, or only approximates them.
    holders : which worker has the pieces of which partition, as far as the client knows.
    """

    def __init__(
        self, rebuild: Any, arguments: tuple[Any, ...], bytes_per_row: float, is_exact: bool = True,
        change: Change | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rebuild, arguments, bytes_per_row, is_exact)
        self.change = change
        self.node: Node = Origin(rebuild, arguments, change)
        self.is_kept = bytes_per_row > 0.0
        self.is_made = False
        self.holders: dict[int, str] = {}

    @property
    def is_cut(self) -> bool:
        """Whether this is an array that is cut by blocks."""
        return self.rebuild is cut_rows

    def forget_history(self, version: int) -> None:
        """Stop remembering how the pieces of this version came about, because that has become too much.

        All workers rebuild the pieces, so that it does not matter which of them are lost later. Where they could only
        be approximated, workers keep what they have, and only what is lost later is approximated.
        """
        if self.is_exact:
            self.start_again()
        else:
            self.node = Origin(self.rebuild, self.arguments, self.change)
            self.node.version = version

    def start_again(self) -> None:
        """Let all workers rebuild the pieces from the present parameters."""
        self.node, self.holders = Origin(self.rebuild, self.arguments, self.change), {}


@dataclass
class Family:
    """What engines share that have the same rows but other threads or weights."""

    rounds: Rounds
    n_columns: int
    states: weakref.WeakSet[RemoteState] = field(default_factory=weakref.WeakSet)
    variants: weakref.WeakSet[Variant] = field(default_factory=weakref.WeakSet)


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Engine whose rows are on the workers of a Dask cluster.

    Attributes
    ----------
    family : the rows.
    threads : number of threads for work on parameters, on the client.
    variant : the weights of the rows.
    threads_per_block : largest number of threads that a worker uses for a block; None means all that it has.
    change : how the features of all blocks are changed, or None.
    is_whole : whether every partition is one block.
    """

    family: Family
    threads: int
    variant: Variant
    threads_per_block: int | None = None
    change: Change | None = None
    is_whole: bool = False

    @staticmethod
    def of(rounds: Rounds, n_columns: int, threads: int) -> DaskEngine:
        """The engine of some partitions."""
        family, variant = Family(rounds, n_columns), Variant()
        family.variants.add(variant)
        weakref.finalize(family, _drop_soon, weakref.ref(rounds.client), rounds.id).atexit = False
        return DaskEngine(family, threads, variant)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X."""
        return self.family.rounds.first_rows[-1], max(one.n_features for one in self.family.rounds.facts)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of X."""
        return self.family.rounds.dtype

    @property
    def n_columns(self) -> int:
        """Number of score columns, k."""
        return self.family.n_columns

    @property
    def is_dense(self) -> bool:
        """Whether X is stored with its zeros."""
        return all(one.is_dense for one in self.family.rounds.facts if one.n_rows)

    @property
    def stored(self) -> int:
        """Number of stored entries of X."""
        return sum(one.stored for one in self.family.rounds.facts)

    def with_threads(self, threads: int) -> DaskEngine:
        """An engine with the same rows and this many threads per block, where workers have them.

        As many threads as the client has mean all that a worker has.
        """
        if threads == self.threads:
            return self
        return replace(self, threads=threads, threads_per_block=threads if threads < self.threads else None)

    def with_weights(self, weights: np.ndarray) -> DaskEngine:
        """An engine with the same rows and other weights, (n,), which add up to one."""
        variant = Variant(weights)
        self.family.variants.add(variant)
        return replace(self, variant=variant)

    def with_features(self, change: Callable[[Design], Design]) -> DaskEngine:
        """An engine with the same rows in other coordinates: workers change the features of every block once."""
        return replace(self, change=Change(next(_changes), change))

    def shards(self, count: int | None = None, seed: int = 0) -> DaskEngine:
        """An engine with the same rows, whose blocks are the partitions."""
        parts = len(self.family.rounds.facts)
        if count is not None and count != parts:
            raise OptionError(
                f"shards={count!r}: on a cluster the shards are the partitions, of which there are {parts}; leave it "
                "out, or cut the rows into other partitions"
            )
        return replace(self, is_whole=True)

    @property
    def partition(self) -> np.ndarray:
        """Numbers that tell which rows are in which shard: the first rows of the partitions."""
        return np.array(self.family.rounds.first_rows, np.int64)

    def time_per_shard(self, seconds: float | None) -> EqualShare | None:
        """Limit of the time of a step on each shard, so that all shards take at most so many seconds."""
        return None if seconds is None else EqualShare(seconds / self.family.rounds.turns(self.threads_per_block))

    @property
    def is_remote(self) -> bool:
        """True: workers may hang."""
        return True

    @property
    def room(self) -> None:
        """Parameters are limited by the available memory only."""

    @property
    def largest_block(self) -> int:
        """No rows: row state is on the workers."""
        return 0

    def sum(self, step: Any, *arguments: Any, states: States = (), rows: int = 1) -> Summands:
        """Sum of step(block, *pieces of the states, *arguments) over all blocks (see `TreeSum`)."""
        block_rows = max(rows, self._usual_rows) if not states else self._usual_rows
        result = self._run("sum", step, arguments, states, block_rows)
        assert result.tree is not None
        total = result.tree.total(sum(self.family.rounds.n_blocks(block_rows)))
        return tuple(_writable(term) for term in total)

    def update(self, step: Any, *arguments: Any, states: States) -> None:
        """Run a step only to update states; skipped where these are not kept or not computed yet."""
        changing = [entry.state for entry in states if isinstance(entry, Changing)]
        if all(_remote(state).is_kept and (_remote(state).is_made or not state.arguments) for state in changing):
            self._run("update", step, arguments, states, self._usual_rows)
            return
        commit(states)
        for state in changing:
            _remote(state).start_again()

    def gather(self, step: Any, *arguments: Any, states: States = ()) -> list[Any]:
        """Results of a step, one per block, in order."""
        results = self._run("gather", step, arguments, states, self._usual_rows).results
        return [aligned(results[number]) for number in sorted(results)]

    def state(self, rebuild: Any, *arguments: Any, max_bytes: float = math.inf, is_exact: bool = True) -> RowState:
        """Row state that `rebuild(block, *arguments)` computes, kept up to `max_bytes` for all rows together."""
        state = RemoteState(rebuild, arguments, max_bytes / max(self.shape[0], 1), is_exact, self.change)
        self.family.states.add(state)
        return state

    def cut(self, array: Any) -> RowState:
        """Row state of an array (n, …): a worker gets its rows for every step."""
        return RemoteState(cut_rows, (array,), -1.0)

    def warm_up(self, function: Callable[[], Any]) -> None:
        """Run a function on all workers now, and on those that come later before they get rows.

        It loads kernels, which takes seconds in a new process. The function can be pickled. One worker per machine
        runs it first: it compiles what no cache on the disk has, and the others load that. Workers that compile side
        by side could get machine code that rounds differently.
        """
        rounds = self.family.rounds
        rounds.warm_up = (*rounds.warm_up, function)
        rounds.warm_machines()
        self._run("update", _nothing, (), (), self._usual_rows, (function,))

    def notify(self, tell: Callable[[str], None] | None) -> None:
        """Pass remarks to a function while a pass waits for workers."""
        self.family.rounds.told = tell

    def remark(self) -> str:
        """What a progress line should say about the cluster: no workers, or a slow one; empty if there is nothing."""
        return self.family.rounds.remark()

    @property
    def _usual_rows(self) -> int:
        if self.is_whole:
            return max(1, *(one.n_rows for one in self.family.rounds.facts))
        return rows_per_block(self.shape[1], self.dtype.itemsize, self.is_dense, self.n_columns)

    def _run(
        self, mode: str, step: Any, arguments: tuple[Any, ...], states: States, block_rows: int,
        functions: Sequence[Callable[[], Any]] = (),
    ) -> Result:  # fmt: skip
        used = [_remote(entry.state if isinstance(entry, Changing) else entry) for entry in states]
        changes = tuple(isinstance(entry, Changing) for entry in states)
        kept = [state for state in used if not state.is_cut]
        uses = tuple(
            StateUse(
                state.key, state.node.version, new_version(), changing, state.bytes_per_row, state.is_kept, state.is_cut
            )
            for state, changing in zip(used, changes, strict=True)
        )
        live = frozenset(variant.number for variant in self.family.variants)
        request = Request(
            self.family.rounds.id, mode, step, uses, block_rows, self._usual_rows, self.variant.number,
            frozenset(state.key for state in self.family.states), live, self.threads_per_block,
            None if self.change is None else self.change.number, _float_errors(), tuple(functions),
        )  # fmt: skip
        work = Pass(
            request, arguments, tuple(state.node for state in kept),
            tuple(state.holders if state.is_kept else None for state in kept),
            tuple(np.asarray(state.arguments[0]) for state in used if state.is_cut), self.variant,
            self.change,
        )  # fmt: skip
        result = self.family.rounds.run(work)
        self._commit(work, states, used, changes, result)
        return result

    def _commit(
        self, work: Pass, states: States, used: list[RemoteState], changes: tuple[bool, ...], result: Result
    ) -> None:
        """Record what a pass has done to the states."""
        too_large = {position for report in result.reports for position in report.too_large}
        grown = {position for report in result.reports for position in report.grown
                 if used[position].rebuild is not no_entries}  # fmt: skip
        for position in too_large:
            used[position].is_kept = False
        events = [position for position, state in enumerate(used)
                  if state.is_kept and (changes[position] or position in grown)]  # fmt: skip
        event = None
        if events:
            befores = [state.node for state in used]
            event = Event.of(work.request.step, work.arguments, befores, changes, self.variant, self.change)
        commit(states)
        for position, (state, use) in enumerate(zip(used, work.request.uses, strict=True)):
            state.is_made = True
            if event is not None and position in events:
                after = After(event, position, use.next_version if changes[position] else None)
                state.node = after
                if after.is_too_long:
                    state.forget_history(after.version)
            elif changes[position] or position in too_large:
                state.start_again()


def _remote(state: RowState) -> RemoteState:
    if not isinstance(state, RemoteState):
        raise TypeError("the state belongs to another engine")
    return state


def _nothing(block: Any) -> tuple[()]:
    """Step: do nothing."""
    return ()


def _float_errors() -> dict[str, Any]:
    """How the client wants floating-point errors handled; calls and logs are for the client only."""
    return {kind: how if how in ("ignore", "raise") else "warn" for kind, how in np.geterr().items()}


def _writable(term: Any) -> Any:
    """A sum that solvers can change in place: what arrives can be read-only memory, or unaligned (see `aligned`)."""
    return aligned(term.copy() if isinstance(term, np.ndarray) and not term.flags.writeable else term)


def _drop_soon(client: Any, engine: str) -> None:
    """Tell workers to drop what they keep for an engine that is gone. Nothing waits for them."""
    found: Client | None = client()
    loop = None if found is None else found.loop
    if found is None or loop is None or sys.is_finalizing() or found.status != "running":
        return

    async def tell() -> None:
        with suppress(Exception):
            await found.run(drop, engine, on_error="ignore")

    with suppress(Exception):
        loop.add_callback(lambda: asyncio.ensure_future(tell()) and None)
