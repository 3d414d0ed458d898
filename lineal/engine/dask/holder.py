"""What a worker keeps of the rows of an engine between tasks, all of which can be made again.

Blocks are made from partitions, pieces of row state by rebuild steps or by repeating what was done to them
(`lineage.py`). Nothing here knows of Dask.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.design import Design, wrap
from lineal.engine.base import Block
from lineal.engine.dask.lineage import GIVEN_BY_PARTITIONS, Change, Place, Script, Start
from lineal.engine.dask.parcels import aligned
from lineal.engine.source import Encode, RawRows
from lineal.engine.state import Piece, cut_rows
from lineal.errors import DataError, LinealError

#: Partitions that no task has asked for during this many tasks are dropped: they are held elsewhere by now.
UNUSED_TASKS = 32


class Placed(NamedTuple):
    """A partition in one pass over the rows: its rows among all rows, its blocks among all blocks, and its name."""

    number: int
    first_row: int
    n_rows: int
    first_block: int
    name: str


class StateUse(NamedTuple):
    """Use of a row state by a step: the version that is needed, the one that it has afterwards, and what is kept.

    `is_cut` marks an array (n, …) that is cut by blocks.
    """

    key: str
    version: int
    next_version: int
    changes: bool
    bytes_per_row: float
    is_kept: bool
    is_cut: bool


class Request(NamedTuple):
    """What is done in one pass over the rows, the same for all workers."""

    engine: str
    mode: str
    step: Any
    uses: tuple[StateUse, ...]
    block_rows: int
    usual_rows: int
    variant: int
    live_states: frozenset[str]
    live_variants: frozenset[int]
    threads: int | None
    change: int | None
    float_errors: dict[str, Any]
    first_of_all: tuple[Callable[[], Any], ...] = ()


class Recipe(NamedTuple):
    """What it takes to make blocks from partitions: how labels become targets, and row weights by variant.

    `weights` has one array per partition and variant with given weights; `dtype` is that of X. `change` is how their
    features are changed afterwards, and `keys` are what Dask calls the partitions.
    """

    encode: Encode
    weights: dict[tuple[int, int], np.ndarray]
    dtype: np.dtype[Any]
    change: Change | None = None
    keys: tuple[str, ...] = ()


class NeedsMore(Exception):
    """A task cannot run with what it was sent: the worker does not hold the rows or the row state."""


@dataclass
class Rows:
    """Rows of a partition, and their parts of `block_rows` rows."""

    X: Design
    targets: Any
    weights: np.ndarray
    offsets: np.ndarray | None
    parts: dict[tuple[int, int], list[tuple[Design, Any]]] = field(default_factory=dict)

    def cuts(self, block_rows: int) -> list[Place]:
        """Ranges of rows of the blocks: at least one, so that every partition takes part in a sum."""
        n = self.X.shape[0]
        return [(start, min(start + block_rows, n)) for start in range(0, max(n, 1), block_rows)]

    def blocks(
        self, block_rows: int, weights: np.ndarray, threads: int, first_row: int, is_usual: bool,
        change: Change | None = None,
    ) -> Iterator[Block]:  # fmt: skip
        """The blocks. Those of the usual size are kept, since kernels may keep copies of X in other orders.

        Of features that are changed, those of the last change are kept.
        """
        cuts, place = self.cuts(block_rows), (block_rows, -1 if change is None else change.number)
        parts = self.parts.get(place)
        if parts is None:
            parts = [(self.X.rows(*cut), self.targets.rows(*cut)) for cut in cuts]
            if change is not None:
                parts = [(change.function(X), targets) for X, targets in parts]
            if is_usual:
                self.parts = {other: kept for other, kept in self.parts.items() if other[1] in (-1, place[1])}
                self.parts[place] = parts
        for (start, stop), (X, targets) in zip(cuts, parts, strict=True):
            offsets = None if self.offsets is None else self.offsets[start:stop]
            yield Block(X, targets, weights[start:stop], offsets, threads, first_row + start)


def made_rows(raw: RawRows, placed: Placed, recipe: Recipe) -> Rows:
    """Rows of a partition with their targets; an error names the partition."""
    try:
        X, y, given, offsets = map(aligned, raw[:4])
        raw = RawRows(X, y, given, offsets, raw.first)
        if X.shape[0] == 0 and X.dtype != recipe.dtype:
            X = X.astype(recipe.dtype)
        if X.shape[0] != placed.n_rows:
            raise DataError(f"has {X.shape[0]} rows now, but had {placed.n_rows}: it changed during the fit")
        found = recipe.encode(raw._replace(X=X, first=placed.first_row))
        if len(found.weights) != placed.n_rows:
            raise DataError(f"{len(found.weights)} labels for {placed.n_rows} rows")
        return Rows(wrap(X), found.targets, found.weights, found.offsets)
    except LinealError as error:
        raise DataError(f"{placed.name}: {error}") from None


@dataclass
class Outcome:
    """What a step did to the states of some blocks: those too large to keep, and those that got new entries."""

    too_large: set[int] = field(default_factory=set)
    grown: set[int] = field(default_factory=set)
    n_rebuilt: int = 0

    def join(self, other: Outcome) -> None:
        """Add what a step did to the states of other blocks."""
        self.too_large |= other.too_large
        self.grown |= other.grown
        self.n_rebuilt += other.n_rebuilt


class Holder:
    """Rows and pieces of row state of one engine on one worker."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[int, Rows] = {}
        self.weights: dict[tuple[int, int], np.ndarray] = {}
        self.change: Change | None = None
        self.pieces: dict[tuple[str, int, int], tuple[int, Piece]] = {}
        self.last_use: dict[int, int] = {}
        self.n_tasks = 0
        self.keys: set[str] = set()

    def is_orphan(self, known: Container[Any]) -> bool:
        """Whether Dask knows none of the partitions any more: the client is gone, and could not say so."""
        return bool(self.keys) and not any(key in known for key in tuple(self.keys))

    def forget(self, request: Request, mine: Sequence[Placed]) -> None:
        """Drop states and weights that nobody uses any more, and partitions that are held elsewhere by now."""
        self.n_tasks += 1
        self.last_use.update((placed.number, self.n_tasks) for placed in mine)
        unused = {number for number, last in self.last_use.items() if self.n_tasks - last > UNUSED_TASKS}
        for number in unused:
            self.rows.pop(number, None)
            del self.last_use[number]
        self.pieces = {
            place: kept for place, kept in self.pieces.items()
            if place[0] in request.live_states and place[1] not in unused
        }  # fmt: skip
        self.weights = {
            place: kept for place, kept in self.weights.items()
            if place[0] in request.live_variants and place[1] not in unused
        }  # fmt: skip

    def take_rows(self, mine: Sequence[Placed], recipe: Recipe | None, parts: Sequence[RawRows]) -> int:
        """Make the rows that are not held; returns the number of partitions that were made."""
        missing = [position for position, placed in enumerate(mine) if placed.number not in self.rows]
        if recipe is not None:
            self.weights.update(aligned(recipe.weights))
            self.keys.update(recipe.keys)
            self.change = recipe.change or self.change
        if missing and (recipe is None or not parts):
            raise NeedsMore
        for position in missing:
            assert recipe is not None
            self.rows[mine[position].number] = made_rows(parts[position], mine[position], recipe)
        return len(missing)

    def check_states(self, request: Request, mine: Sequence[Placed], script: Script | None) -> None:
        """Make sure that all pieces are there or can be made, before a step changes any of them."""
        if request.change is not None and (self.change is None or self.change.number != request.change):
            raise NeedsMore
        variants = {request.variant} | (set() if script is None else script.variants)
        if any((v, placed.number) not in self.weights for v in variants - {GIVEN_BY_PARTITIONS} for placed in mine):
            raise NeedsMore
        for use, place in zip(_not_cut(request), _places(request, script), strict=True):
            if place is None and not (use.is_kept and self._holds(use, mine, request.block_rows)):
                raise NeedsMore

    def _holds(self, use: StateUse, mine: Sequence[Placed], block_rows: int) -> bool:
        """Whether all pieces of a state are there in the version that a step needs."""
        return all(
            self.pieces.get((use.key, placed.number, number), (-1,))[0] == use.version
            for placed in mine
            for number in range(len(self.rows[placed.number].cuts(block_rows)))
        )

    def blocks(
        self, placed: Placed, request: Request, variant: int, change: Change | None, threads: int
    ) -> Iterator[Block]:
        """The blocks of a partition with the weights of a variant, their features changed."""
        rows = self.rows[placed.number]
        weights = rows.weights
        if variant != GIVEN_BY_PARTITIONS:
            weights = self.weights[variant, placed.number]
        number = None if change is None else change.number
        is_usual = request.block_rows == request.usual_rows and number == request.change
        return rows.blocks(request.block_rows, weights, threads, placed.first_row, is_usual, change)

    def run(
        self, request: Request, placed: Placed, arguments: tuple[Any, ...], script: Script | None,
        cut_arrays: Sequence[np.ndarray], threads: int, outcome: Outcome,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """Results of the step for the blocks of a partition, with their numbers."""
        change = None if request.change is None else self.change
        for local, block in enumerate(self.blocks(placed, request, request.variant, change, threads)):
            pieces, remade = self._pieces(request, placed, local, block, script, cut_arrays, threads)
            outcome.n_rebuilt += remade
            known = [frozenset(piece) for piece in pieces]
            result = request.step(block, *pieces, *arguments)
            for position, (use, piece) in enumerate(zip(request.uses, pieces, strict=True)):
                if use.is_cut or not use.is_kept:
                    continue
                size = sum(array.nbytes for array in piece.values())
                if size > use.bytes_per_row * max(block.n, 1):
                    outcome.too_large.add(position)
                    continue
                if not use.changes and frozenset(piece) != known[position]:
                    outcome.grown.add(position)
                version = use.next_version if use.changes else use.version
                self.pieces[use.key, placed.number, local] = version, piece
            yield placed.first_block + local, result

    def _pieces(
        self, request: Request, placed: Placed, local: int, block: Block, script: Script | None,
        cut_arrays: Sequence[np.ndarray], threads: int,
    ) -> tuple[list[Piece], int]:  # fmt: skip
        """Pieces of a block; those that the step changes leave the cache, so that they are made again if it fails."""
        found: list[Piece | None] = []
        cuts = iter(cut_arrays)
        for use in request.uses:
            if use.is_cut:
                start = block.first - placed.first_row
                found.append({"rows": next(cuts)[start : start + block.n]})
                continue
            place = use.key, placed.number, local
            version, piece = self.pieces.pop(place, (-1, {})) if use.changes else self.pieces.get(place, (-1, {}))
            found.append(piece if use.is_kept and version == use.version else None)
        missing = [position for position, piece in enumerate(found) if piece is None]
        if missing:
            assert script is not None
            positions = [position for position, use in enumerate(request.uses) if not use.is_cut]
            places = dict(zip(positions, script.wanted, strict=True))
            wanted = [known for position in missing if (known := places[position]) is not None]
            made = self._replay(request, placed, local, script, wanted, threads)
            for position, piece in zip(missing, made, strict=True):
                found[position] = piece
        return [piece for piece in found if piece is not None], len(missing)

    def _replay(
        self, request: Request, placed: Placed, local: int, script: Script, wanted: Sequence[Place],
        threads: int,
    ) -> list[Piece]:  # fmt: skip
        """Make pieces of a block by the entries of a script that they need.

        A piece that a step changes is copied before, since another entry may need it as it was. Each is dropped after
        its last use. Every entry runs on the features of the engine that it comes from.
        """
        needed, uses = _needed(script, wanted)
        blocks: dict[tuple[int, int], Block] = {}

        def block_of(variant: int, change: Change | None) -> Block:
            key = variant, -1 if change is None else change.number
            if key not in blocks:
                blocks[key] = list(self.blocks(placed, request, variant, change, threads))[local]
            return blocks[key]

        made: dict[Place, Piece] = {}
        for number, entry in enumerate(script.entries):
            if number not in needed:
                continue
            if isinstance(entry, Start):
                block, arguments = block_of(request.variant, entry.change), aligned(entry.arguments)
                if entry.rebuild is cut_rows:
                    arguments = (np.asarray(arguments[0][block.first : block.first + block.n]),)
                pieces = [entry.rebuild(block, *arguments) if arguments else {}]
            else:
                pieces = []
                for before, changes in zip(entry.befores, entry.changes, strict=True):
                    uses[before] -= 1
                    piece = made[before] if uses[before] else made.pop(before)
                    pieces.append(copy.deepcopy(piece) if changes else dict(piece))
                entry.step(block_of(entry.variant, entry.change), *pieces, *aligned(entry.arguments))
            for position, piece in enumerate(pieces):
                if uses.get((number, position), 0):
                    made[number, position] = piece
        is_fresh = [uses[place] == 1 and isinstance(script.entries[place[0]], Start) for place in wanted]
        return [made[place] if fresh else copy.deepcopy(made[place]) for place, fresh in zip(wanted, is_fresh)]


def _not_cut(request: Request) -> list[StateUse]:
    return [use for use in request.uses if not use.is_cut]


def _places(request: Request, script: Script | None) -> Sequence[Place | None]:
    return [None] * len(_not_cut(request)) if script is None else script.wanted


def _needed(script: Script, wanted: Sequence[Place]) -> tuple[set[int], dict[Place, int]]:
    """Entries that some pieces need, and how often each piece is used."""
    needed = {number for number, _ in wanted}
    uses: dict[Place, int] = {}
    for place in wanted:
        uses[place] = uses.get(place, 0) + 1
    for number in range(len(script.entries) - 1, -1, -1):
        entry = script.entries[number]
        if number in needed and not isinstance(entry, Start):
            for before in entry.befores:
                needed.add(before[0])
                uses[before] = uses.get(before, 0) + 1
    return needed, uses


def usable(X: Any) -> Any:
    """Features as solvers read them: a C-contiguous float32 or float64 array, or CSR; integers become float64."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
    else:
        X = np.asarray(X)
        if X.dtype == object:
            raise DataError("X is of type object: convert its columns to numbers")
    if X.ndim != 2:
        raise DataError(f"X has {X.ndim} dimensions instead of 2")
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise DataError(f"X is of type {X.dtype}: convert its columns to numbers")
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return X if sparse.issparse(X) else aligned(np.ascontiguousarray(X))
