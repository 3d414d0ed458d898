"""What Python's `str` says about characters, as tables for kernels: lower case, accents, words, white space.

A table covers 256 characters (a page). Pages are made when a text first has one of their characters, so ASCII text
needs one, and most languages need a few. A page takes about a millisecond.

An entry is a code point with flags. Characters that become none or several are entries with `MANY`, whose low bits
point into a pool. Lower case depends on the context for one character only, the Greek capital sigma: it becomes a final
sigma at the end of a word. `CASED` and `IGNORABLE` are what that rule needs of the characters around it (Unicode,
section 3.13). Both are asked of `str.lower` itself, so that they are those of this Python.
"""

from __future__ import annotations

import functools
import threading
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

CODE_POINT = 0x1FFFFF
WORD, SPACE, MANY, SIGMA, CASED, IGNORABLE = (1 << bit for bit in range(21, 27))

N_PAGES = 0x110000 >> 8
CAPITAL_SIGMA, SMALL_SIGMA, FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"

#: How accents are stripped: characters of the decomposed text that stay.
ACCENTS: dict[str | None, Callable[[str], str]] = {
    None: lambda text: text,
    "unicode": lambda text: "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)),
    "ascii": lambda text: unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii"),
}


class Characters(NamedTuple):
    """Tables for kernels: the entry of character c is entries[pages[c >> 8] * 256 + (c & 255)], if that page is ≥ 0."""

    pages: Any
    entries: Any
    pool_starts: Any
    pool: Any


class CharacterTables:
    """The tables for one choice of options, which grow by pages; used by several threads."""

    def __init__(self, lowercase: bool, strip_accents: str | None) -> None:
        self._lowercase, self._strip = lowercase, ACCENTS[strip_accents]
        self._lock = threading.Lock()
        self._pages = np.full(N_PAGES, -1, np.int32)
        self._entries: list[int] = []
        self._pool: list[int] = []
        self._pool_starts = [0]
        for sigma in (SMALL_SIGMA, FINAL_SIGMA):  # the first two in the pool
            self._pooled(sigma)
        self.tables = self._add(0)

    def with_page(self, page: int) -> Characters:
        """The tables with this page."""
        with self._lock:
            if self._pages[page] < 0:
                self.tables = self._add(page)
            return self.tables

    def _add(self, page: int) -> Characters:
        place = len(self._entries) >> 8
        self._entries += [self._entry(chr(page * 256 + low)) for low in range(256)]
        pages = self._pages.copy()  # threads may be reading the old one
        pages[page] = place
        self._pages = pages
        return Characters(
            pages,
            np.array(self._entries, np.uint32),
            np.array(self._pool_starts, np.uint32),
            np.array(self._pool or [0], np.uint32),
        )

    def _entry(self, c: str) -> int:
        found = 0
        if self._lowercase:
            if c == CAPITAL_SIGMA:
                found = MANY | SIGMA
            found |= _sigma_flags(c)
        if not found & SIGMA:
            made = self._strip(c.lower() if self._lowercase else c)
            found |= _flagged(made) if len(made) == 1 else MANY | self._pooled(made)
        return found

    def _pooled(self, made: str) -> int:
        """Place in the pool of several characters, or of none."""
        made = self._strip(made)
        self._pool += map(_flagged, made)
        self._pool_starts.append(len(self._pool))
        return len(self._pool_starts) - 2


def _flagged(c: str) -> int:
    """A character that is written to the result."""
    is_word = c.isalnum() or c == "_"
    return ord(c) | (WORD if is_word else 0) | (SPACE if c.isspace() else 0)


def _sigma_flags(c: str) -> int:
    """What `str.lower` thinks of a character before a capital sigma."""
    if c == CAPITAL_SIGMA:
        return CASED
    after_letter = ("A" + c + CAPITAL_SIGMA).lower()[-1] == FINAL_SIGMA
    if not after_letter:
        return 0
    is_cased = (c + CAPITAL_SIGMA).lower()[-1] == FINAL_SIGMA
    return CASED if is_cased else IGNORABLE


@functools.cache
def tables_for(lowercase: bool, strip_accents: str | None) -> CharacterTables:
    """The tables for these options, shared by all that use them in this process."""
    return CharacterTables(lowercase, strip_accents)
