"""Rows in random order: arrays by a permutation, streams through a buffer.

The first rows fill the buffer. Each further row takes the place of a random row of the buffer, which goes on to the
learner; at the end, the rest follows in random order. So a buffer that holds all rows gives them in any order with
equal probability, and a smaller one moves rows by about its size: it cannot mix rows that are sorted over longer
distances.

The order depends on the seed, the pass and the learner, not on threads, nor on how the stream is cut into blocks.
Messages about rows number them as they are in the data, so rows are checked before their order is changed.

Memory of the buffer: the rows that it holds three times (those that it holds, those that come, and the next buffer).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.rng import fill_uniform, generator, shuffle
from lineal.online.arrival import Arrival
from lineal.online.options import OnlineOptions
from lineal.online.rows import check_values, importances, numbers_of
from lineal.online.trainer import NUMBERS, Block, Trainer, check_together
from lineal.system import memory

#: Rows that are given to the learner at a time.
PIECE_ROWS = 8192

#: Stream of random numbers for what is drawn once per fit; passes have the numbers from 0.
ONCE = -1


class Shuffle(NamedTuple):
    """How the rows of one learner in one pass are shuffled.

    size : rows of the buffer.
    stream : number of the sequence of random numbers.
    kind : kind of the labels, as of `Trainer`.
    arrival : the order in which rows come to the buffer.
    """

    size: int
    seed: int
    stream: int
    kind: str
    arrival: Arrival

    @staticmethod
    def of(options: OnlineOptions, kind: str, stream: int) -> Shuffle:
        """As the options say."""
        return Shuffle(int(options.shuffle_buffer), int(options.random_state or 0), stream, kind, Arrival(kind))

    def tell(self, trainer: Trainer) -> None:
        """Let a trainer know in which order the rows have come, if they went through a buffer."""
        if self.arrival.order.rows:
            self.arrival.tell(trainer)

    def permutation(self, n: int) -> np.ndarray:
        """The numbers below n in random order."""
        order = np.arange(n)
        shuffle(generator(self.seed, self.stream), order)
        return order


def check_rows(block: Block, first_row: int, kind: str) -> None:
    """Refuse values, importances and numbers to predict that a learner would refuse."""
    n = block.X.shape[0]
    check_values(block.X, first_row)
    importances(block.weights, n, first_row)
    if kind == NUMBERS:
        numbers_of(block.y, n, first_row)


def through_buffer(blocks: Iterable[Block], how: Shuffle) -> Iterator[Block]:
    """The rows of a stream in random order. The stream is closed when the result is."""
    with ExitStack() as stack:
        if isinstance(blocks, Generator):
            stack.enter_context(closing(blocks))
        yield from _through_buffer(blocks, how)


def _through_buffer(blocks: Iterable[Block], how: Shuffle) -> Iterator[Block]:
    state = generator(how.seed, how.stream)
    held: Block | None = None
    coming: list[Block] = []
    n_coming, first_row = 0, 0
    for block in blocks:
        block = replace(block, X=_as_rows(block.X))
        check_rows(block, first_row, how.kind)
        how.arrival.add(block)
        first_row += len(block)
        coming.append(block)
        n_coming += len(block)
        if n_coming >= how.size + how.size // 2 - (0 if held is None else len(held)):
            pool = stacked([*([] if held is None else [held]), *coming])
            coming, n_coming = [], 0
            if held is None:
                _check_room(pool, how.size)
            held = None  # the pool has its rows
            leaving, kept = _exchanged(len(pool), how.size, state)
            yield from _pieces(pool, leaving)
            held = pool.taken(kept)
            del pool
    if held is None and not coming:
        return
    pool = stacked([*([] if held is None else [held]), *coming])
    leaving, kept = _exchanged(len(pool), how.size, state)
    shuffle(state, kept)
    yield from _pieces(pool, np.concatenate((leaving, kept)))


def _exchanged(n: int, size: int, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of n rows leave a buffer and which ones it holds then; the first `size` are in it.

    Each further row takes a random place. The row that leaves is the last one that has taken this place before.
    """
    n_held = min(n, size)
    kept, leaving = np.arange(n_held), np.empty(n - n_held, np.int64)
    if not len(leaving):
        return leaving, kept
    drawn: np.ndarray = np.empty(n - n_held)
    fill_uniform(state, drawn)
    places = (drawn * size).astype(np.int64)
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    is_first = np.append(True, sorted_places[1:] != sorted_places[:-1])
    leaving[order] = np.where(is_first, sorted_places, n_held + np.append(0, order[:-1]))
    is_last = np.append(is_first[1:], True)
    kept[sorted_places[is_last]] = n_held + order[is_last]
    return leaving, kept


def _pieces(pool: Block, rows: np.ndarray) -> Iterator[Block]:
    for first in range(0, len(rows), PIECE_ROWS):
        yield pool.taken(rows[first : first + PIECE_ROWS])


def _check_room(pool: Block, size: int) -> None:
    """Refuse a buffer that does not fit into memory as often as it is needed."""
    X = pool.X
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes
    memory.check_room(
        f"shuffle_buffer={size} rows need {memory.size(3 * stored)} of memory", stored, "lower shuffle_buffer"
    )


def _as_rows(X: Any) -> Any:
    """An array, or a CSR matrix."""
    return X if not sparse.issparse(X) or X.format == "csr" else sparse.csr_array(X)


def stacked(blocks: list[Block]) -> Block:
    """The rows of blocks, one after the other."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    for block in blocks[1:]:
        if not sparse.issparse(first.y) and first.y.ndim == 1:
            check_together(block.y, first.y)
    weights = kinds = None
    if any(block.weights is not None for block in blocks):
        weights = np.concatenate([importances(block.weights, len(block)) for block in blocks])
    if any(block.kinds is not None for block in blocks):
        kinds = np.concatenate([block.kinds for block in blocks])
    return Block(
        _joined([block.X for block in blocks]), _joined([block.y for block in blocks]), weights, kinds,
        first.column_kinds,
    )  # fmt: skip


def _joined(parts: list[Any]) -> Any:
    if any(map(sparse.issparse, parts)):
        return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
    return np.concatenate(parts)
