"""Kernels that turn documents into rows by hashing: nothing is learned, and nothing but the rows takes memory.

A term's column is made of the absolute value of its MurmurHash3 as a signed integer, and its sign can go to the counts:
that is what scikit-learn's `HashingVectorizer` does. The hash of an n-gram is that of its words with blanks in between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lineal.core.jit import kernel
from lineal.core.protocol import protocol
from lineal.data.terms.hash_table import LOW_32, U32, key_of, slot_of_text
from lineal.data.terms.lookup import finish_row
from lineal.data.terms.normalise import cut_words, normalise_words
from lineal.data.terms.state import DONE, LAST, NEEDS_SCRATCH, NEEDS_SORTING, ROW
from lineal.data.text.byte_words import U0, U1, U
from lineal.data.text.murmur import murmur3_32

U2 = U(2)
HIGH_BIT, PAST_HASH = U(1 << 31), U(1 << 32)
BLANK = U(32)


@protocol
class Hashing(NamedTuple):
    """Terms to columns: the low bits of the hash, and its sign if counts are signed. Words in `terms` are left out."""

    terms: Any
    mask: Any
    is_signed: Any

    def has_signs(self) -> bool:
        """Whether counts are signed."""
        return self.is_signed

    def stage(self, scratch: Any, size: Any, start: Any, stop: Any) -> None:
        """Add a text to the batch."""
        scratch.starts[size], scratch.stops[size] = start, stop

    def find(self, scratch: Any, size: Any, keys: Any, n: Any) -> Any:
        """Append the entries of the batch; how many there are then."""
        for i in range(size):
            keys[n + U(i)] = entry_of_text(self, scratch.text, scratch.starts[i], scratch.stops[i])
        return n + size


@kernel(borrows=True)
def entry_of_text(hashing: Any, text: Any, start: Any, stop: Any) -> Any:
    """The entry of a term: its column, and the count 1 or −1."""
    h = murmur3_32(text, start, stop, U0)
    is_negative = h >= HIGH_BIT
    column = (PAST_HASH - h if is_negative else h) & hashing.mask
    return column << U32 | (LOW_32 if is_negative and hashing.is_signed else U1)


@kernel(borrows=True)
def compact_words(hashing: Any, rules: Any, scratch: Any, m: Any) -> Any:
    """Leave out stop words, and move the others together, with one blank in between: (their number, their bytes)."""
    text, edges = scratch.text, scratch.edges
    kept, q = U0, U0
    for i in range(m):
        start, stop = U(edges[U(i) * U2]), U(edges[U(i) * U2 + U1])
        if rules.n_stop:
            s = slot_of_text(hashing.terms, key_of(text, start, stop), text, start, stop)
            if hashing.terms.slots[s] != U0:
                continue
        edges[kept * U2] = q
        for p in range(start, stop):
            text[q] = text[p]
            q += U1
        edges[kept * U2 + U1] = q
        kept += U1
        text[q] = BLANK
        q += U1
    return kept, q


@kernel(borrows=True)
def join_words(scratch: Any, rules: Any, i: Any, g: Any, free: Any) -> Any:
    """Write n-gram g of word i at text[free:]; returns its end."""
    text, edges = scratch.text, scratch.edges
    q, word = free, i
    for k in range(rules.lengths[g] + U1):
        for p in range(U(edges[word * U2]), U(edges[word * U2 + U1])):
            text[q] = text[p]
            q += U1
        text[q] = BLANK
        q += U1
        if k < rules.lengths[g]:
            word = i + rules.steps[g, k]
    return q - U1


@kernel(borrows=True)
def hash_words(
    text: Any, characters: Any, rules: Any, hashing: Any, weights: Any, rows: Any, scratch: Any, sorting: Any,
    progress: Any,
) -> Any:  # fmt: skip
    """Write the rows in `progress` by hashed words and n-grams of words; what lacks, or DONE."""
    words, edges, keys = scratch.text, scratch.edges, sorting.keys
    n_patterns = U(rules.parents.shape[0])
    while progress[ROW] < progress[LAST]:
        q, status = normalise_words(text, progress[ROW], characters, rules.fold, scratch, progress)
        if status != DONE:
            return status
        m = cut_words(scratch, q)
        if m * (n_patterns + U1) > U(keys.shape[0]):
            return NEEDS_SORTING
        if n_patterns or rules.n_stop:
            m, q = compact_words(hashing, rules, scratch, m)
        if rules.has_skips and q + q + U(16) > U(words.shape[0]):
            return NEEDS_SCRATCH
        n = U0
        if rules.low == U1:
            for i in range(m):
                keys[n] = entry_of_text(hashing, words, U(edges[U(i) * U2]), U(edges[U(i) * U2 + U1]))
                n += U1
        for g in range(n_patterns):
            place = rules.places[g]
            if not rules.is_counted[g] or m <= place:
                continue
            for i in range(m - place):
                start, stop = U(edges[U(i) * U2]), U(edges[(U(i) + place) * U2 + U1])
                if place != rules.lengths[g]:
                    start, stop = q, join_words(scratch, rules, U(i), g, q)
                keys[n] = entry_of_text(hashing, words, start, stop)
                n += U1
        status = finish_row(rows, sorting, n, weights, hashing.is_signed, progress)
        if status != DONE:
            return status
    return DONE
