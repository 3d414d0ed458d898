"""What kernels of this folder share: the state of a pass over documents, and why a kernel stops before the end.

A kernel works through the rows from `progress[ROW]` to `progress[LAST]`. Where it lacks room or a page of characters,
it takes back what it has counted of the row and returns what it lacks; its caller provides it, and calls again. So
kernels make no arrays, and memory grows with what is found, not with a bound on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.data.text.byte_words import U

#: Places in the array `progress` of 64-bit integers without sign.
ROW, LAST, ENTRY, N_TERMS, ARENA, N_PAIRS, PAGE, FIRST = (U(place) for place in range(8))
PROGRESS = 8

#: Why a kernel stops: the end of the rows, or what it lacks.
DONE, NEEDS_PAGE, NEEDS_SCRATCH, NEEDS_TERMS, NEEDS_ARENA, NEEDS_PAIRS, NEEDS_ENTRIES, NEEDS_SORTING = (
    U(why) for why in range(8)
)

#: Terms that are looked up together: their places in the table are on their way from memory at the same time.
BATCH = 64

#: Most bytes of a document after lower-casing and the like.
LONGEST = (1 << 32) - 1

#: Room for what one character, or one block of text, can become.
MARGIN = 256

#: No column.
NOWHERE = np.uint32(0xFFFFFFFF)


class Text(NamedTuple):
    """Documents: document i is data[offsets[i]:offsets[i + 1]], in UTF-8."""

    data: Any
    offsets: Any


class Scratch(NamedTuple):
    """Work space for one document: its text, the bits of its words, the ends of terms, numbers of terms, a batch."""

    text: Any
    bits: Any
    edges: Any
    nodes: Any
    keys: Any
    starts: Any
    stops: Any


class Entries(NamedTuple):
    """Entries of rows: numbers of terms with counts; row i ends at ends[i]."""

    codes: Any
    counts: Any
    ends: Any


def scratch_for(size: int, n_node_rows: int) -> Scratch:
    """Work space for documents of up to `size` bytes, of words with that many rows of numbered n-grams."""
    return Scratch(
        np.empty(size, np.uint8),
        np.empty(size // 64 + 2, np.uint64),
        np.empty(size + 2, np.uint32),
        np.empty(n_node_rows * (size // 2 + 1), np.uint32),
        *(np.empty(BATCH, np.uint64) for _ in range(3)),
    )
