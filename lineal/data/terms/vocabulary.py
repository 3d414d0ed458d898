"""From the terms that threads have numbered to one vocabulary: merge them, find their names and columns."""

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
