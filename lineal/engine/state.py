"""Numbers per row that are kept where the rows are, such as scores.

Row state is a cache. Each state names a step that rebuilds a block's piece from parameters, and has a version number
that grows with every step that changes its pieces. Whoever does not hold the version that a step needs rebuilds it: a
lost worker, a step that is tried again and a memory budget are all dealt with by this one rule.

    scores = engine.state(Scores(), W, b)                          # nothing happens yet
    engine.sum(LossAt(loss), states=(scores,))                     # builds the pieces, and keeps them
    engine.update(Advance(), t, states=(scores.to(W2, b2), along)) # writes to them: they are now those of W2, b2

A state without parameters has empty pieces, for a first step to fill.
"""

from __future__ import annotations

import itertools
import math
import os
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: The part of a state that belongs to one block: arrays by name.
Piece = dict[str, np.ndarray]

_numbers = itertools.count()


class RowState:
    """Handle of a row state: how it is rebuilt, the parameters that it belongs to, and its version.

    A piece is kept where it has at most `bytes_per_row`.
    """

    def __init__(self, rebuild: Any, arguments: tuple[Any, ...], bytes_per_row: float = math.inf) -> None:
        self.key = f"{os.getpid()}-{next(_numbers)}"
        self.rebuild, self.arguments, self.bytes_per_row = rebuild, arguments, bytes_per_row
        self.version = 0

    def to(self, *arguments: Any) -> Moving:
        """This state, to be changed by a step: afterwards its pieces are those of these arguments of `rebuild`."""
        return Moving(self, arguments)

    def use(self) -> Use:
        """What is sent to whoever holds the rows, for him to find or rebuild the pieces."""
        return Use(self.key, self.version, self.rebuild, self.arguments, self.bytes_per_row)


class Moving(NamedTuple):
    """A state that a step changes in place, and the arguments of `rebuild` that it belongs to afterwards."""

    state: RowState
    arguments: tuple[Any, ...]

    def use(self) -> Use:
        """The same of a state whose pieces have the next version after the step."""
        return self.state.use()._replace(moves=True)

    def arrive(self) -> None:
        """Say that the step has been run on all blocks."""
        self.state.version += 1
        self.state.arguments = self.arguments


#: The states that a step uses.
States = tuple[RowState | Moving, ...]


def arrive(states: States) -> None:
    """Say that a step has been run on all blocks: the states that it moved have their new parameters."""
    for entry in states:
        if isinstance(entry, Moving):
            entry.arrive()


class Use(NamedTuple):
    """One use of a state by a step, as it is sent to whoever holds the rows."""

    key: str
    version: int
    rebuild: Any
    arguments: tuple[Any, ...]
    bytes_per_row: float
    moves: bool = False

    def for_rows(self, first: int, n: int) -> Use:
        """The use by one block: of an array that is cut, the block gets its own rows alone."""
        if self.rebuild is not cut_rows:
            return self
        return self._replace(arguments=(np.asarray(self.arguments[0][first : first + n]),))


def cut_rows(block: Any, rows: np.ndarray) -> Piece:
    """Rebuilds the pieces of an array that is cut by blocks."""
    return {"rows": rows}


class StateCache:
    """The pieces that a process keeps: by state and block, with the version that they have."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], tuple[int, Piece]] = {}

    def run(self, step: Any, number: int, block: Any, uses: Sequence[Use], arguments: tuple[Any, ...]) -> Any:
        """The answer of a step for a block; its pieces are found or rebuilt before, and kept afterwards.

        Pieces that the step will change leave the cache until it is done: if it fails, they are rebuilt.
        """
        pieces = [self._take(number, use, block) for use in uses]
        answer = step(block, *pieces, *arguments)
        for use, piece in zip(uses, pieces):
            if sum(array.nbytes for array in piece.values()) <= use.bytes_per_row * max(block.n, 1):
                self.put(number, use, piece)
        return answer

    def _take(self, number: int, use: Use, block: Any) -> Piece:
        place = use.key, number
        version, piece = self.kept.pop(place, (-1, {})) if use.moves else self.kept.get(place, (-1, {}))
        if version == use.version:
            return piece
        return use.rebuild(block, *use.arguments) if use.arguments else {}

    def put(self, number: int, use: Use, piece: Piece) -> None:
        """Keep the piece of a block, in the version that it has after this use."""
        self.kept[use.key, number] = use.version + use.moves, piece

    def holds(self, state: RowState) -> bool:
        """Whether pieces of the state are kept, or will be as soon as a step fills them."""
        return not state.arguments or any(key == state.key for key, _ in self.kept)

    def drop(self, key: str) -> None:
        """Forget a state."""
        for place in [place for place in self.kept if place[0] == key]:
            del self.kept[place]

    def drop_with(self, state: RowState) -> RowState:
        """Forget the state as soon as nobody holds its handle."""
        weakref.finalize(state, self.drop, state.key).atexit = False
        return state
