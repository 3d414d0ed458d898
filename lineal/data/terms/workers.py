"""Run kernels over the rows of documents, and give them the room and the pages of characters that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.characters import tables_for
from lineal.data.terms.counting import count_characters, count_words
from lineal.data.terms.hash_table import (
    Terms,
    add_text,
    key_of,
    more_arena,
    more_pairs,
    more_terms,
    new_pairs,
    new_terms,
    slot_of_text,
)
from lineal.data.terms.hashing import Hashing, hash_words
from lineal.data.terms.lookup import Lookup, Rows, look_up_words, rows_of_characters
from lineal.data.terms.rows import Weights, sorting_for
from lineal.data.terms.state import (
    ARENA,
    DONE,
    ENTRY,
    FIRST,
    LAST,
    LONGEST,
    N_PAIRS,
    N_TERMS,
    NEEDS_ARENA,
    NEEDS_ENTRIES,
    NEEDS_PAGE,
    NEEDS_PAIRS,
    NEEDS_SCRATCH,
    NEEDS_SORTING,
    NEEDS_TERMS,
    PAGE,
    PROGRESS,
    ROW,
    Entries,
    Text,
    scratch_for,
)
from lineal.data.terms.vocabulary import Store
from lineal.data.text.byte_words import U
from lineal.errors import DataError

#: Bytes of a document that there is room for at first.
SCRATCH = 1 << 14

#: Entries that there is room for at first, in a piece.
ENTRIES = 1 << 18

#: Rows of a vocabulary or hashed are sorted in this much room at first.
SORTING = 1 << 12

#: Terms of a table at most: their codes have 32 bits.
MOST_TERMS = (1 << 31) - 1


class Worker:
    """State of one thread, and the loop that gives a kernel what it lacks."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.rules = analysis, analysis.rules()
        self.n_node_rows = analysis.n_node_rows
        self.pages = tables_for(analysis.lowercase, analysis.strip_accents)
        self.characters = self.pages.tables
        self.scratch = scratch_for(SCRATCH, self.n_node_rows)
        self.progress: np.ndarray = np.zeros(PROGRESS, np.uint64)

    def run(self, step: Callable[[], Any], first: int, last: int, more: dict[int, Callable[[], None]]) -> None:
        """Repeat a kernel until the rows first … last are done."""
        self.progress[ROW] = self.progress[FIRST] = first
        self.progress[LAST], self.progress[ENTRY] = last, 0
        more = {int(NEEDS_PAGE): self._add_page, int(NEEDS_SCRATCH): self._more_scratch, **more}
        while (why := int(step())) != DONE:
            more[why]()

    def _add_page(self) -> None:
        self.characters = self.pages.with_page(int(self.progress[PAGE]))

    def _more_scratch(self) -> None:
        size = 4 * len(self.scratch.text)
        if size > LONGEST:
            raise DataError(f"row {int(self.progress[ROW])} of a chunk is a text of more than 1 GB: cut it into parts")
        self.scratch = scratch_for(size, self.n_node_rows)


class CountingWorker(Worker):
    """Numbers and counts the terms of the documents of one thread."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.terms, self.pairs = new_terms(0, 1 << 15), new_pairs(0)
        self.kernel = count_words if analysis.is_word else count_characters
        self.terms = with_words(self.terms, analysis.stop_words)
        self.progress[N_TERMS] = len(analysis.stop_words)
        self.progress[ARENA] = self.terms.stops[len(analysis.stop_words)]
        self.room = Entries(np.empty(0, np.uint32), np.empty(0, np.uint32), None)
        self.used = 0

    @property
    def store(self) -> Store:
        """The terms that were found."""
        return Store(self.terms, self.pairs, int(self.progress[N_TERMS]), int(self.progress[N_PAIRS]))

    def release(self) -> None:
        """Give the tables back, which are merged now."""
        self.terms, self.pairs = new_terms(0, 0), new_pairs(0)
        self.room = Entries(np.empty(0, np.uint32), np.empty(0, np.uint32), None)

    def count(self, text: Text, first: int, last: int) -> list[Entries]:
        """Entries of the rows, in pieces."""
        pieces: list[Entries] = []
        begun = first
        ends = np.empty(last - first, np.uint64)

        def step() -> Any:
            entries = Entries(self.room.codes[self.used :], self.room.counts[self.used :], ends)
            return self.kernel(
                text, self.characters, self.rules, self.terms, self.pairs, entries, self.scratch, self.progress
            )

        def close() -> None:
            nonlocal begun, ends
            row, n = int(self.progress[ROW]), int(self.progress[ENTRY])
            if row > begun:
                part = slice(self.used, self.used + n)
                pieces.append(Entries(self.room.codes[part], self.room.counts[part], ends[: row - begun]))
                self.used += n
            begun, ends = row, np.empty(last - row, np.uint64)
            self.progress[FIRST], self.progress[ENTRY] = row, 0

        def more_entries() -> None:
            size = len(self.room.codes)
            is_alone = self.used == 0 and int(self.progress[ROW]) == begun  # the row does not fit into all of it
            close()
            size = 4 * size if is_alone and size else ENTRIES
            self.room, self.used = Entries(np.empty(size, np.uint32), np.empty(size, np.uint32), None), 0

        self.run(step, first, last, {
            int(NEEDS_TERMS): self._more_terms, int(NEEDS_ARENA): self._more_arena,
            int(NEEDS_PAIRS): self._more_pairs, int(NEEDS_ENTRIES): more_entries,
        })  # fmt: skip
        close()
        return pieces

    def _more_terms(self) -> None:
        self.terms = more_terms(self.terms, _next_size(self.terms.df))

    def _more_arena(self) -> None:
        self.terms = more_arena(self.terms, 2 * len(self.terms.arena))

    def _more_pairs(self) -> None:
        self.pairs = more_pairs(self.pairs, _next_size(self.pairs.df))


def _next_size(df: np.ndarray) -> int:
    if len(df) >= MOST_TERMS // 2:
        raise DataError("the documents have too many different terms: use fewer n-grams, or hash them")
    return 4 * len(df) if len(df) < 1 << 18 else 2 * len(df)


class RowsWorker(Worker):
    """Turns the documents of one thread into finished rows, by a vocabulary or by hashing."""

    def __init__(
        self, analysis: Analysis, target: Lookup | Hashing, weights: Weights, n_columns: int, dtype: Any
    ) -> None:
        super().__init__(analysis)
        self.target, self.weights, self.n_columns, self.dtype = target, weights, n_columns, dtype
        self.sorting = sorting_for(SORTING, n_columns)
        words = look_up_words if isinstance(target, Lookup) else hash_words
        self.kernel: Any = words if analysis.is_word else rows_of_characters
        self.size = ENTRIES

    def rows(self, text: Text, first: int, last: int) -> list[Rows]:
        """The rows, in pieces."""
        pieces: list[Rows] = []
        room = self._room(last - first)

        def step() -> Any:
            return self.kernel(
                text, self.characters, self.rules, self.target, self.weights, room, self.scratch, self.sorting,
                self.progress,
            )  # fmt: skip

        def close() -> None:
            nonlocal room
            row, begun, n = (int(self.progress[place]) for place in (ROW, FIRST, ENTRY))
            if row > begun:
                pieces.append(Rows(room.indices[:n], room.values[:n], room.ends[: row - begun]))
            elif row < last:
                self.size *= 4
            room = self._room(last - row)
            self.progress[FIRST], self.progress[ENTRY] = row, 0

        self.run(step, first, last, {int(NEEDS_ENTRIES): close, int(NEEDS_SORTING): self._more_sorting})
        close()
        return pieces

    def _room(self, n_rows: int) -> Rows:
        return Rows(np.empty(self.size, np.int32), np.empty(self.size, self.dtype), np.empty(n_rows, np.uint64))

    def _more_sorting(self) -> None:
        self.sorting = sorting_for(4 * len(self.sorting.keys), self.n_columns)


@kernel(borrows=True)
def add_words(terms: Any, text: Any, stops: Any) -> None:
    """Give texts, all of which differ, the numbers from 0 on in an empty table."""
    for i in range(stops.shape[0] - 1):
        start, stop = stops[i], stops[i + 1]
        key = key_of(text, start, stop)
        add_text(terms, slot_of_text(terms, key, text, start, stop), key, text, start, stop, U(i))


def with_words(terms: Terms, words: Sequence[str]) -> Terms:
    """An empty table with these words as its first texts."""
    if not words:
        return terms
    data = [word.encode("utf-8", "surrogatepass") for word in words]
    stops: np.ndarray = np.zeros(len(data) + 1, np.uint64)
    np.cumsum([len(word) for word in data], out=stops[1:])
    terms = more_arena(more_terms(terms, len(data)), max(len(terms.arena), int(stops[-1])))
    add_words(terms, np.frombuffer(b"".join(data) + b"\0" * 8, np.uint8), stops)
    return terms
