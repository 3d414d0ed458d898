"""Row state: numbers per row, such as scores, that are kept where the rows are.

Row state is a cache. Each state names a step that rebuilds the piece of a block from parameters, and has a version
number that grows with every step that changes its pieces. A process that does not hold the version that a step needs
rebuilds it. This one rule handles lost workers, repeated steps and limited memory.

    scores = engine.state(Scores(), W, b)                          # computes nothing yet
    engine.sum(LossAt(loss), states=(scores,))                     # computes the pieces and keeps them
    engine.update(Advance(), t, states=(scores.to(W2, b2), along)) # changes them to the scores of W2, b2

A state without parameters has empty pieces, which the first step fills.
"""

from __future__ import annotations

import itertools
import math
import os
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: Part of a state that belongs to one block: arrays by name.
Piece = dict[str, np.ndarray]

_numbers = itertools.count()


class RowState:
    """Handle of a row state: how to rebuild it, the parameters it was computed from, and its version.

    A piece is kept if it takes at most `bytes_per_row`. `is_exact` says whether `rebuild` gives the pieces that steps
    have made, or only approximates them, so that they must not be lost.
    """

    def __init__(
        self, rebuild: Any, arguments: tuple[Any, ...], bytes_per_row: float = math.inf, is_exact: bool = True
    ) -> None:  # fmt: skip
        self.key = f"{os.getpid()}-{next(_numbers)}"
        self.rebuild, self.arguments, self.bytes_per_row = rebuild, arguments, bytes_per_row
        self.is_exact = is_exact
        self.version = 0

    def to(self, *arguments: Any) -> Changing:
        """Declare that a step changes this state to the one that `rebuild` computes from these arguments."""
        return Changing(self, arguments)

    def use(self) -> Use:
        """What an engine sends to the process that holds the rows, to find or rebuild the pieces."""
        return Use(self.key, self.version, self.rebuild, self.arguments, self.bytes_per_row, is_exact=self.is_exact)


class Changing(NamedTuple):
    """State that a step changes in place, and the arguments of `rebuild` that describe it afterwards."""

    state: RowState
    arguments: tuple[Any, ...]

    def use(self) -> Use:
        """What an engine sends, marked so that the pieces get the next version after the step."""
        return self.state.use()._replace(changes=True)

    def commit(self) -> None:
        """Record that the step has run on all blocks."""
        self.state.version += 1
        self.state.arguments = self.arguments


class ShardPoint(NamedTuple):
    """Dual points of all rows as row state of shards: ``piece["rows"]`` is (rows of the shard, k).

    `number` and `seed` are those of the shards that have the state.
    """

    state: RowState
    number: int | None
    seed: int


#: States that a step uses.
States = tuple[RowState | Changing, ...]


def commit(states: States) -> None:
    """Record that a step has run on all blocks, so that the states it changed have their new parameters."""
    for entry in states:
        if isinstance(entry, Changing):
            entry.commit()


class Use(NamedTuple):
    """Use of a state by a step, as it is sent to the process that holds the rows."""

    key: str
    version: int
    rebuild: Any
    arguments: tuple[Any, ...]
    bytes_per_row: float
    changes: bool = False
    is_exact: bool = True

    def for_rows(self, first: int, n: int) -> Use:
        """Use by one block, which gets only its own rows of an array that is cut by blocks."""
        if self.rebuild is not cut_rows:
            return self
        return self._replace(arguments=(np.asarray(self.arguments[0][first : first + n]),))


def cut_rows(block: Any, rows: np.ndarray) -> Piece:
    """Rebuild the piece of an array that is cut by blocks."""
    return {"rows": rows}


def no_entries(block: Any) -> Piece:
    """Rebuild the pieces of a state to which steps add what they can compute again: entries may get lost at any time.

    An engine that remembers how the pieces of other states came about need not remember these.
    """
    return {}


class StateCache:
    """Pieces that a process keeps, by state and block, with their versions."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], tuple[int, Piece]] = {}

    def run(self, step: Any, number: int, block: Any, uses: Sequence[Use], arguments: tuple[Any, ...]) -> Any:
        """Result of a step for a block, whose pieces are found or rebuilt before and kept afterwards.

        Pieces that the step changes leave the cache until it is done, so that they are rebuilt if it fails.
        """
        pieces = [self._take(number, use, block) for use in uses]
        result = step(block, *pieces, *arguments)
        for use, piece in zip(uses, pieces):
            if sum(array.nbytes for array in piece.values()) <= use.bytes_per_row * max(block.n, 1):
                self.put(number, use, piece)
        return result

    def _take(self, number: int, use: Use, block: Any) -> Piece:
        """Piece of a block in the version that the step needs: from the cache, or rebuilt."""
        place = use.key, number
        version, piece = self.kept.pop(place, (-1, {})) if use.changes else self.kept.get(place, (-1, {}))
        if version == use.version:
            return piece
        return use.rebuild(block, *use.arguments) if use.arguments else {}

    def put(self, number: int, use: Use, piece: Piece) -> None:
        """Keep the piece of a block with the version that it has after this use."""
        self.kept[use.key, number] = use.version + use.changes, piece

    def holds(self, state: RowState) -> bool:
        """Whether pieces of the state are kept, or will be as soon as a step fills them."""
        return not state.arguments or any(key == state.key for key, _ in self.kept)

    def drop(self, key: str) -> None:
        """Delete all pieces of a state."""
        for place in [place for place in self.kept if place[0] == key]:
            del self.kept[place]

    def drop_with(self, state: RowState) -> RowState:
        """Delete the pieces of the state when its handle is garbage collected."""
        weakref.finalize(state, self.drop, state.key).atexit = False
        return state
