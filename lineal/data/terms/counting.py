"""Kernels that number the terms of documents and count them: one for words and n-grams of words, one for characters.

A term's code is ``number << 1`` for a text and ``number << 1 | 1`` for an n-gram of words. An entry is the code of a
term of a row, with its count. A table's slot has the place of the term's last entry; the term is new in a row if that
entry is not one of this row's.
"""

from __future__ import annotations

from typing import Any

from lineal.core.jit import kernel
from lineal.core.simd import prefetch
from lineal.data.terms.analysis import NO_ROW
from lineal.data.terms.hash_table import (
    LOW_32,
    U32,
    add_text,
    key_of,
    key_of_pair,
    place_of,
    slot_of_pair,
    slot_of_text,
)
from lineal.data.terms.normalise import cut_words, normalise_characters, normalise_words
from lineal.data.terms.state import (
    ARENA,
    BATCH,
    DONE,
    ENTRY,
    FIRST,
    LAST,
    N_PAIRS,
    N_TERMS,
    NEEDS_ARENA,
    NEEDS_ENTRIES,
    NEEDS_PAIRS,
    NEEDS_TERMS,
    ROW,
)
from lineal.data.text.byte_words import U0, U1, U

U2 = U(2)
FULL = U(BATCH)
PADDING = U(8)


@kernel(forceinline=True, borrows=True)
def count(slots: Any, s: Any, code: Any, df: Any, entries: Any, begin: Any, entry: Any) -> Any:
    """Count a term of the row whose entries begin at `begin`; returns the place of the next entry."""
    info = slots[s + U1]
    last = info & LOW_32
    if last >= begin and last < entry and U(entries.codes[last]) == code:
        entries.counts[last] += U1
        return entry
    entries.codes[entry] = code
    entries.counts[entry] = U1
    slots[s + U1] = (info & ~LOW_32) | entry
    df[info >> U32] += U1
    return entry + U1


@kernel(borrows=True)
def take_back(terms: Any, pairs: Any, entries: Any, begin: Any, progress: Any) -> None:
    """Forget the entries of a row that is counted again later."""
    for i in range(begin, progress[ENTRY]):
        code = U(entries.codes[i])
        if code & U1:
            pairs.df[code >> U1] -= U1
        else:
            terms.df[code >> U1] -= U1
    progress[ENTRY] = begin


@kernel(borrows=True)
def count_batch(terms: Any, entries: Any, scratch: Any, size: Any, begin: Any, progress: Any) -> Any:
    """Number and count the texts of a batch: keys, starts and stops in `scratch`; what lacks, or DONE."""
    if U(progress[N_TERMS]) + size > U(terms.df.shape[0]):
        return NEEDS_TERMS
    if progress[ENTRY] + size > U(entries.codes.shape[0]):
        return NEEDS_ENTRIES
    length = U0
    for i in range(size):
        length += scratch.stops[i] - scratch.starts[i]
    if progress[ARENA] + length + PADDING > U(terms.arena.shape[0]):
        return NEEDS_ARENA
    entry, number = progress[ENTRY], progress[N_TERMS]
    for i in range(size):
        key, start, stop = scratch.keys[i], scratch.starts[i], scratch.stops[i]
        s = slot_of_text(terms, key, scratch.text, start, stop)
        if terms.slots[s] == U0:
            add_text(terms, s, key, scratch.text, start, stop, number)
            number += U1
        code = terms.slots[s + U1] >> U32 << U1
        entry = count(terms.slots, s, code, terms.df, entries, begin, entry)
    progress[ENTRY], progress[N_TERMS], progress[ARENA] = entry, number, terms.stops[number]
    return DONE


@kernel(borrows=True)
def number_words(terms: Any, rules: Any, entries: Any, scratch: Any, m: Any, begin: Any, progress: Any) -> Any:
    """Number the m words of a document, and count them if they are terms: (number of words kept, what lacks)."""
    edges, nodes, keys = scratch.edges, scratch.nodes, scratch.keys
    kept = U0
    is_counted = rules.low == U1
    for first in range(U0, m, FULL):
        size = min(FULL, m - first)
        if U(progress[N_TERMS]) + size > U(terms.df.shape[0]):
            return kept, NEEDS_TERMS
        if progress[ENTRY] + size > U(entries.codes.shape[0]):
            return kept, NEEDS_ENTRIES
        length = U(edges[(first + size) * U2 - U1]) - U(edges[first * U2])
        if progress[ARENA] + length + PADDING > U(terms.arena.shape[0]):
            return kept, NEEDS_ARENA
        for i in range(size):
            at = (first + i) * U2
            keys[i] = key_of(scratch.text, U(edges[at]), U(edges[at + U1]))
            prefetch(terms.slots, place_of(keys[i], terms.shift) * U2)
        entry, number = progress[ENTRY], progress[N_TERMS]
        for i in range(size):
            at = (first + i) * U2
            start, stop = U(edges[at]), U(edges[at + U1])
            s = slot_of_text(terms, keys[i], scratch.text, start, stop)
            if terms.slots[s] == U0:
                add_text(terms, s, keys[i], scratch.text, start, stop, number)
                number += U1
            found = terms.slots[s + U1] >> U32
            if found >= rules.n_stop:
                nodes[kept] = found
                kept += U1
                if is_counted:
                    entry = count(terms.slots, s, found << U1, terms.df, entries, begin, entry)
        progress[ENTRY], progress[N_TERMS], progress[ARENA] = entry, number, terms.stops[number]
    return kept, DONE


@kernel(borrows=True)
def number_ngrams(pairs: Any, rules: Any, entries: Any, scratch: Any, m: Any, begin: Any, progress: Any) -> Any:
    """Number the n-grams of the m words of a document, and count those that are terms; what lacks, or DONE."""
    nodes, keys = scratch.nodes, scratch.keys
    stride = U(scratch.text.shape[0]) // U2 + U1
    for g in range(U(rules.parents.shape[0])):
        from_row, place, to_row = rules.parents[g] * stride, rules.places[g], rules.rows[g]
        up = U0 if rules.parents[g] else U1  # the first row has the numbers of words, others have codes
        for first in range(U0, m - place if m > place else U0, FULL):
            size = min(FULL, m - place - first)
            if U(progress[N_PAIRS]) + size > U(pairs.df.shape[0]):
                return NEEDS_PAIRS
            if progress[ENTRY] + size > U(entries.codes.shape[0]):
                return NEEDS_ENTRIES
            for i in range(size):
                node = U(nodes[from_row + first + i]) << up
                keys[i] = key_of_pair(node, U(nodes[first + i + place]))
                prefetch(pairs.slots, place_of(keys[i], pairs.shift) * U2)
            entry, number = progress[ENTRY], progress[N_PAIRS]
            for i in range(size):
                s = slot_of_pair(pairs.slots, pairs.shift, keys[i])
                if pairs.slots[s] == U0:
                    pairs.slots[s] = keys[i]
                    pairs.slots[s + U1] = number << U32
                    pairs.keys[number] = keys[i]
                    pairs.df[number] = 0
                    number += U1
                code = pairs.slots[s + U1] >> U32 << U1 | U1
                if rules.is_counted[g]:
                    entry = count(pairs.slots, s, code, pairs.df, entries, begin, entry)
                if to_row != NO_ROW:
                    nodes[to_row * stride + first + i] = code
            progress[ENTRY], progress[N_PAIRS] = entry, number
    return DONE


@kernel(borrows=True)
def count_words(
    text: Any, characters: Any, rules: Any, terms: Any, pairs: Any, entries: Any, scratch: Any, progress: Any
) -> Any:
    """Count the words, and n-grams of words, of the rows in `progress`; what lacks, or DONE."""
    while progress[ROW] < progress[LAST]:
        begin = progress[ENTRY]
        q, status = normalise_words(text, progress[ROW], characters, rules.fold, scratch, progress)
        if status == DONE:
            m, status = number_words(terms, rules, entries, scratch, cut_words(scratch, q), begin, progress)
            if status == DONE:
                status = number_ngrams(pairs, rules, entries, scratch, m, begin, progress)
        if status != DONE:
            take_back(terms, pairs, entries, begin, progress)
            return status
        entries.ends[progress[ROW] - progress[FIRST]] = progress[ENTRY]
        progress[ROW] += U1
    return DONE


@kernel(borrows=True)
def span_after(scratch: Any, rules: Any, first: Any, n: Any) -> Any:
    """End of the run of characters that n-grams are made of, from `first` on: all, or a word with its two blanks."""
    if not rules.between_words:
        return n
    last = first + U1
    while scratch.text[scratch.edges[last]] != 32:
        last += U1
    return last + U1


@kernel(borrows=True)
def count_characters(
    text: Any, characters: Any, rules: Any, terms: Any, pairs: Any, entries: Any, scratch: Any, progress: Any
) -> Any:
    """Count the n-grams of characters of the rows in `progress`; what lacks, or DONE."""
    edges = scratch.edges
    while progress[ROW] < progress[LAST]:
        begin = progress[ENTRY]
        n, status = normalise_characters(text, progress[ROW], characters, rules.between_words, scratch, progress)
        first, size = U0, U0
        while status == DONE and first + U1 < n + (U0 if rules.between_words else U1):
            last = span_after(scratch, rules, first, n)
            for length in range(rules.low, rules.high + U1):
                is_short = length > last - first  # a short word counts once
                if is_short and not rules.between_words:
                    break
                stop = first + U1 if is_short else last - length + U1
                for i in range(first, stop):
                    begins, ends = U(edges[i]), U(edges[last if is_short else i + length])
                    scratch.keys[size] = key_of(scratch.text, begins, ends)
                    scratch.starts[size], scratch.stops[size] = begins, ends
                    prefetch(terms.slots, place_of(scratch.keys[size], terms.shift) * U2)
                    size += U1
                    if size == FULL:
                        status = count_batch(terms, entries, scratch, size, begin, progress)
                        size = U0
                        if status != DONE:
                            break
                if status != DONE or stop == first + U1:
                    break
            first = last - U1 if rules.between_words else last
        if status == DONE:
            status = count_batch(terms, entries, scratch, size, begin, progress)
        if status != DONE:
            take_back(terms, pairs, entries, begin, progress)
            return status
        entries.ends[progress[ROW] - progress[FIRST]] = progress[ENTRY]
        progress[ROW] += U1
    return DONE
