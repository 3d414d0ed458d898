"""Kernels that turn new documents into rows by a vocabulary. They write finished rows, sorted and weighed."""

from __future__ import annotations

from typing import Any, NamedTuple

from lineal.core.jit import kernel
from lineal.core.protocol import protocol
from lineal.core.simd import prefetch
from lineal.data.terms.analysis import NO_ROW
from lineal.data.terms.counting import span_after
from lineal.data.terms.hash_table import U32, key_of, key_of_pair, place_of, slot_of_pair, slot_of_text
from lineal.data.terms.normalise import cut_words, normalise_characters, normalise_words
from lineal.data.terms.rows import merge_row, sort_row, write_row
from lineal.data.terms.state import BATCH, DONE, ENTRY, FIRST, LAST, NEEDS_ENTRIES, NEEDS_SORTING, NOWHERE, ROW
from lineal.data.text.byte_words import U0, U1, U

U2 = U(2)
FULL = U(BATCH)
UNKNOWN = U(0xFFFFFFFF)


@protocol
class Lookup(NamedTuple):
    """A vocabulary for kernels: tables of terms, and the columns of their numbers (NOWHERE for parts of terms only)."""

    terms: Any
    pairs: Any
    term_columns: Any
    pair_columns: Any

    def has_signs(self) -> bool:
        """Whether counts are signed."""
        return False

    def stage(self, scratch: Any, size: Any, start: Any, stop: Any) -> None:
        """Add a text to the batch."""
        key = key_of(scratch.text, start, stop)
        scratch.keys[size], scratch.starts[size], scratch.stops[size] = key, start, stop
        prefetch(self.terms.slots, place_of(key, self.terms.shift) * U2)

    def find(self, scratch: Any, size: Any, keys: Any, n: Any) -> Any:
        """Append the entries of the batch; how many there are then."""
        return find_texts(self, scratch, size, keys, n)


class Rows(NamedTuple):
    """Finished rows: row i ends at ends[i]."""

    indices: Any
    values: Any
    ends: Any


@kernel(borrows=True)
def find_texts(lookup: Any, scratch: Any, size: Any, keys: Any, n: Any) -> Any:
    """Append the entries of a batch of texts that are in the vocabulary; how many there are then."""
    terms = lookup.terms
    for i in range(size):
        s = slot_of_text(terms, scratch.keys[i], scratch.text, scratch.starts[i], scratch.stops[i])
        if terms.slots[s] != U0:
            column = lookup.term_columns[terms.slots[s + U1] >> U32]
            if column != NOWHERE:
                keys[n] = U(column) << U32 | U1
                n += U1
    return n


@kernel(borrows=True)
def finish_row(rows: Any, sorting: Any, n: Any, weights: Any, is_signed: bool, progress: Any) -> Any:
    """Sort, add up, weigh and write the n entries of a row; what lacks, or DONE."""
    sort_row(sorting, n)
    n = merge_row(sorting.keys, n)
    entry = progress[ENTRY]
    if entry + n > U(rows.indices.shape[0]):
        return NEEDS_ENTRIES
    write_row(sorting.keys, n, weights, is_signed, rows.indices, rows.values, entry)
    progress[ENTRY] = entry + n
    rows.ends[progress[ROW] - progress[FIRST]] = entry + n
    progress[ROW] += U1
    return DONE


@kernel(borrows=True)
def find_words(lookup: Any, rules: Any, scratch: Any, m: Any, sorting: Any) -> Any:
    """The columns of the m words of a document as entries: (number of words kept, number of entries)."""
    terms, edges, nodes, keys = lookup.terms, scratch.edges, scratch.nodes, scratch.keys
    kept, n = U0, U0
    for first in range(U0, m, FULL):
        size = min(FULL, m - first)
        for i in range(size):
            at = (first + i) * U2
            keys[i] = key_of(scratch.text, U(edges[at]), U(edges[at + U1]))
            prefetch(terms.slots, place_of(keys[i], terms.shift) * U2)
        for i in range(size):
            at = (first + i) * U2
            s = slot_of_text(terms, keys[i], scratch.text, U(edges[at]), U(edges[at + U1]))
            found = UNKNOWN if terms.slots[s] == U0 else terms.slots[s + U1] >> U32
            if found >= rules.n_stop:
                nodes[kept] = found
                kept += U1
                if found != UNKNOWN and lookup.term_columns[found] != NOWHERE:
                    sorting.keys[n] = U(lookup.term_columns[found]) << U32 | U1
                    n += U1
    return kept, n


@kernel(borrows=True)
def find_ngrams(lookup: Any, rules: Any, scratch: Any, m: Any, sorting: Any, n: Any) -> Any:
    """Append the columns of the n-grams of m words to the entries; how many there are then."""
    pairs, nodes, keys = lookup.pairs, scratch.nodes, scratch.keys
    stride = U(scratch.text.shape[0]) // U2 + U1
    for g in range(U(rules.parents.shape[0])):
        from_row, place, to_row = rules.parents[g] * stride, rules.places[g], rules.rows[g]
        up = U0 if rules.parents[g] else U1
        for first in range(U0, m - place if m > place else U0, FULL):
            size = min(FULL, m - place - first)
            for i in range(size):
                node, word = U(nodes[from_row + first + i]), U(nodes[first + i + place])
                is_known = node != UNKNOWN and word != UNKNOWN
                keys[i] = key_of_pair(node << up, word) if is_known else U0
                prefetch(pairs.slots, place_of(keys[i], pairs.shift) * U2)
            for i in range(size):
                code = UNKNOWN
                if keys[i] != U0:
                    s = slot_of_pair(pairs.slots, pairs.shift, keys[i])
                    if pairs.slots[s] != U0:
                        number = pairs.slots[s + U1] >> U32
                        code = number << U1 | U1
                        column = lookup.pair_columns[number]
                        if column != NOWHERE and rules.is_counted[g]:
                            sorting.keys[n] = U(column) << U32 | U1
                            n += U1
                if to_row != NO_ROW:
                    nodes[to_row * stride + first + i] = code
    return n


@kernel(borrows=True)
def look_up_words(
    text: Any, characters: Any, rules: Any, lookup: Any, weights: Any, rows: Any, scratch: Any, sorting: Any,
    progress: Any,
) -> Any:  # fmt: skip
    """Write the rows in `progress` by words and n-grams of words of a vocabulary; what lacks, or DONE."""
    n_patterns = U(rules.parents.shape[0]) + U1
    while progress[ROW] < progress[LAST]:
        q, status = normalise_words(text, progress[ROW], characters, rules.fold, scratch, progress)
        if status == DONE:
            m = cut_words(scratch, q)
            if m * n_patterns > U(sorting.keys.shape[0]):
                return NEEDS_SORTING
            m, n = find_words(lookup, rules, scratch, m, sorting)
            n = find_ngrams(lookup, rules, scratch, m, sorting, n)
            status = finish_row(rows, sorting, n, weights, False, progress)
        if status != DONE:
            return status
    return DONE


@kernel(borrows=True)
def rows_of_characters(
    text: Any, characters: Any, rules: Any, target: Any, weights: Any, rows: Any, scratch: Any, sorting: Any,
    progress: Any,
) -> Any:  # fmt: skip
    """Write the rows in `progress` by the n-grams of characters, looked up or hashed; what lacks, or DONE."""
    edges = scratch.edges
    while progress[ROW] < progress[LAST]:
        n, status = normalise_characters(text, progress[ROW], characters, rules.between_words, scratch, progress)
        if status == DONE and U2 * n * (rules.high - rules.low + U1) > U(sorting.keys.shape[0]):
            return NEEDS_SORTING
        first, size, found = U0, U0, U0
        while status == DONE and first + U1 < n + (U0 if rules.between_words else U1):
            last = span_after(scratch, rules, first, n)
            for length in range(rules.low, rules.high + U1):
                is_short = length > last - first
                if is_short and not rules.between_words:
                    break
                stop = first + U1 if is_short else last - length + U1
                for i in range(first, stop):
                    target.stage(scratch, size, U(edges[i]), U(edges[last if is_short else i + length]))
                    size += U1
                    if size == FULL:
                        found = target.find(scratch, size, sorting.keys, found)
                        size = U0
                if stop == first + U1:
                    break
            first = last - U1 if rules.between_words else last
        if status == DONE:
            found = target.find(scratch, size, sorting.keys, found)
            status = finish_row(rows, sorting, found, weights, target.has_signs(), progress)
        if status != DONE:
            return status
    return DONE
