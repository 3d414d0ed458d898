"""From the terms that threads have numbered to one vocabulary: merge, prune, sort by code points, number the columns.

Bytes of UTF-8 sort as code points do. A blank sorts before every character of a word, so n-grams of words sort as
tuples of the ranks of their words: only single words are ever compared as texts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.simd import prefetch
from lineal.data.terms.hash_table import (
    LOW_32,
    U32,
    Pairs,
    Terms,
    add_text,
    key_of_pair,
    more_arena,
    more_pairs,
    more_terms,
    place_of,
    slot_of_pair,
    slot_of_text,
)
from lineal.data.terms.state import BATCH, NOWHERE
from lineal.data.terms.text_order import order_texts
from lineal.data.text.byte_words import U0, U1, U

U2 = U(2)
FULL = U(BATCH)
BLANK = U(32)


@dataclass
class Store:
    """Terms of one thread, or of all: tables, and how many texts, bytes of texts and pairs they have."""

    terms: Terms
    pairs: Pairs
    n_terms: int
    n_pairs: int

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the texts."""
        return int(self.terms.stops[self.n_terms])


@dataclass
class Names:
    """Terms in the order of their columns: term j is data[stops[j]:stops[j + 1]], in UTF-8."""

    data: np.ndarray
    stops: np.ndarray

    def __len__(self) -> int:
        return len(self.stops) - 1

    def texts(self) -> list[str]:
        """The terms."""
        data, stops = self.data.tobytes(), self.stops.tolist()
        try:
            return [data[a:b].decode() for a, b in itertools.pairwise(stops)]
        except UnicodeDecodeError:  # halves of surrogate pairs, which strings can have
            return [data[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(stops)]


@kernel(borrows=True)
def merge_terms(source: Any, target: Any, n: Any, numbers: Any) -> Any:
    """Add the texts of a table to another, which has n and room for all; fills their numbers, returns how many."""
    slots = source.slots
    for i in range(U0, U(slots.shape[0]), U2):
        if slots[i] == U0:
            continue
        number = slots[i + U1] >> U32
        start, stop = source.stops[number], source.stops[number + U1]
        s = slot_of_text(target, slots[i], source.arena, start, stop)
        if target.slots[s] == U0:
            add_text(target, s, slots[i], source.arena, start, stop, n)
            n += U1
        found = target.slots[s + U1] >> U32
        numbers[number] = found
        target.df[found] += source.df[number]
    return n


@kernel(borrows=True)
def merge_pairs(source: Any, n_source: Any, target: Any, n: Any, term_numbers: Any, numbers: Any, keys: Any) -> Any:
    """Add pairs to a table that has n and room for all; fills their numbers there, returns how many there are then."""
    for first in range(U0, n_source, FULL):
        size = min(FULL, n_source - first)
        for i in range(size):
            keys[i] = merged_key(source.keys[first + i], first, term_numbers, numbers)
            prefetch(target.slots, place_of(keys[i], target.shift) * U2)
        for i in range(size):
            key = keys[i]
            if key == U0:
                key = merged_key(source.keys[first + i], n_source, term_numbers, numbers)
            s = slot_of_pair(target.slots, target.shift, key)
            if target.slots[s] == U0:
                target.slots[s] = key
                target.slots[s + U1] = n << U32
                target.keys[n] = key
                target.df[n] = 0
                n += U1
            found = target.slots[s + U1] >> U32
            numbers[first + i] = found
            target.df[found] += source.df[first + i]
    return n


@kernel(borrows=True)
def merged_key(key: Any, known: Any, term_numbers: Any, numbers: Any) -> Any:
    """The key of a pair by new numbers; 0 if it begins with a pair whose number is not below `known`."""
    node, word = (key - U1) >> U32, (key - U1) & LOW_32
    if node & U1:
        if node >> U1 >= known:
            return U0
        node = U(numbers[node >> U1]) << U1 | U1
    else:
        node = U(term_numbers[node >> U1]) << U1
    return key_of_pair(node, U(term_numbers[word]))


def merge(into: Store, other: Store) -> tuple[np.ndarray, np.ndarray]:
    """Add the terms of one store to another; returns what the numbers of its texts and pairs have become."""
    terms, pairs = into.terms, into.pairs
    if into.n_terms + other.n_terms > len(terms.df):
        terms = more_terms(terms, into.n_terms + other.n_terms)
    if into.n_bytes + other.n_bytes > len(terms.arena) - 8:
        terms = more_arena(terms, into.n_bytes + other.n_bytes)
    term_numbers = np.empty(other.n_terms, np.uint32)
    into.n_terms = int(merge_terms(other.terms, terms, U(into.n_terms), term_numbers))
    into.terms = terms
    pair_numbers = np.empty(other.n_pairs, np.uint32)
    if other.n_pairs:
        if into.n_pairs + other.n_pairs > len(pairs.df):
            pairs = more_pairs(pairs, into.n_pairs + other.n_pairs)
        keys: np.ndarray = np.empty(BATCH, np.uint64)
        into.n_pairs = int(
            merge_pairs(other.pairs, U(other.n_pairs), pairs, U(into.n_pairs), term_numbers, pair_numbers, keys)
        )
        into.pairs = pairs
    return term_numbers, pair_numbers


def sorted_codes(store: Store, are_kept_terms: np.ndarray, are_kept_pairs: np.ndarray, longest: int) -> np.ndarray:
    """Codes of the terms to keep, in the order of their texts."""
    pair_keys = store.pairs.keys[: store.n_pairs] - U1
    nodes, words = pair_keys >> U32, pair_keys & LOW_32
    kept_pairs = np.flatnonzero(are_kept_pairs)
    needed, lengths = _needed(nodes, kept_pairs, longest)
    if len(needed):
        use = np.zeros(store.n_terms, np.bool_)
        use[words[needed]] = True
        use[nodes[needed[nodes[needed] & U1 == 0]] >> U1] = True
        ordered = order_texts(store.terms, np.flatnonzero(use | are_kept_terms))
    else:
        return order_texts(store.terms, np.flatnonzero(are_kept_terms)).astype(np.uint64) << U1
    kept_terms = np.flatnonzero(are_kept_terms)
    ranks: np.ndarray = np.zeros(store.n_terms, np.uint64)
    ranks[ordered] = np.arange(1, len(ordered) + 1, dtype=np.uint64)
    term_ranks = ranks.copy()  # of texts among the terms of up to `length` words
    pair_ranks: np.ndarray = np.zeros(store.n_pairs, np.uint64)
    for length in range(2, longest + 1):
        here = needed[lengths[needed] <= length]
        last = lengths[here] == length
        own, begins = here[last], nodes[here[last]]
        of_pairs: np.ndarray = np.empty(len(here), np.uint64)
        of_pairs[~last] = pair_ranks[here[~last]] << U32
        is_pair = (begins & U1).astype(np.bool_)
        prefix = np.where(
            is_pair, pair_ranks[np.where(is_pair, begins >> U1, 0)], term_ranks[begins_of(begins, is_pair)]
        )
        of_pairs[last] = prefix << U32 | ranks[words[own]]
        everything = np.concatenate([term_ranks[ordered] << U32, of_pairs])
        order = np.argsort(everything)
        if length == longest:
            codes = np.concatenate([ordered.astype(np.uint64) << U1, here.astype(np.uint64) << U1 | U1])[order]
            keep = np.concatenate([are_kept_terms[ordered], are_kept_pairs[here]])[order]
            return codes[keep]
        placed: np.ndarray = np.empty(len(order), np.uint64)
        placed[order] = np.arange(1, len(order) + 1, dtype=np.uint64)
        term_ranks[ordered], pair_ranks[here] = placed[: len(ordered)], placed[len(ordered) :]
    return kept_terms.astype(np.uint64) << U1


def begins_of(begins: np.ndarray, is_pair: np.ndarray) -> np.ndarray:
    """Numbers of the texts that pairs begin with; 0 for those that begin with a pair."""
    return np.where(is_pair, 0, begins >> U1)


def _needed(nodes: np.ndarray, kept: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs to keep and those that they begin with; and how many words each pair has, as far as it is one of these."""
    lengths: np.ndarray = np.zeros(len(nodes), np.int8 if longest < 128 else np.int64)
    if longest == 2:
        lengths[kept] = 2
        return kept, lengths
    needed: np.ndarray = np.zeros(len(nodes), np.bool_)
    needed[kept] = True
    new = kept
    while len(new):
        begins = nodes[new]
        new = np.unique((begins[begins & U1 == 1] >> U1).astype(np.int64))
        new = new[~needed[new]]
        needed[new] = True
    found = np.flatnonzero(needed)
    waiting = found
    while len(waiting):
        begins = nodes[waiting]
        before = np.where(begins & U1 == 1, lengths[np.where(begins & U1 == 1, begins >> U1, 0)], 1)
        is_known = before > 0
        lengths[waiting[is_known]] = before[is_known] + 1
        waiting = waiting[~is_known]
    return found, lengths


@kernel(borrows=True)
def name_lengths(terms: Any, pair_keys: Any, codes: Any, stops: Any) -> None:
    """Where the name of each code ends, if the names follow each other."""
    total = U0
    stops[U0] = U0
    for j in range(codes.shape[0]):
        code = codes[j]
        while code & U1:
            key = pair_keys[code >> U1] - U1
            word = key & LOW_32
            total += terms.stops[word + U1] - terms.stops[word] + U1
            code = key >> U32
        total += terms.stops[(code >> U1) + U1] - terms.stops[code >> U1]
        stops[U(j) + U1] = total


@kernel(borrows=True)
def write_names(terms: Any, pair_keys: Any, codes: Any, stops: Any, data: Any) -> None:
    """Write the names of codes, from the last word of each to the first."""
    for j in range(codes.shape[0]):
        code, at = codes[j], stops[U(j) + U1]
        while True:
            word = code >> U1 if not code & U1 else (pair_keys[code >> U1] - U1) & LOW_32
            start, stop = terms.stops[word], terms.stops[word + U1]
            at -= stop - start
            for p in range(stop - start):
                data[at + p] = terms.arena[start + p]
            if not code & U1:
                break
            at -= U1
            data[at] = BLANK
            code = (pair_keys[code >> U1] - U1) >> U32


def names_of(terms: Terms, pairs: Pairs, codes: np.ndarray) -> Names:
    """The names of the terms with these codes."""
    stops: np.ndarray = np.empty(len(codes) + 1, np.uint64)
    name_lengths(terms, pairs.keys, codes, stops)
    data: np.ndarray = np.empty(int(stops[-1]), np.uint8)
    write_names(terms, pairs.keys, codes, stops, data)
    return Names(data, stops.astype(np.int64))


def columns_of(store: Store, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of texts and of pairs by their numbers; NOWHERE for those that are not terms."""
    term_columns = np.full(max(store.n_terms, 1), NOWHERE, np.uint32)
    pair_columns = np.full(max(store.n_pairs, 1), NOWHERE, np.uint32)
    columns = np.arange(len(codes), dtype=np.uint32)
    are_pairs = (codes & U1).astype(np.bool_)
    term_columns[codes[~are_pairs] >> U1] = columns[~are_pairs]
    pair_columns[codes[are_pairs] >> U1] = columns[are_pairs]
    return term_columns, pair_columns
