"""Tables to look up the terms of a given vocabulary, made of their names alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.simd import prefetch
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.hash_table import (
    U32,
    add_text,
    key_of,
    key_of_pair,
    more_arena,
    more_pairs,
    more_terms,
    new_pairs,
    new_terms,
    place_of,
    slot_of_pair,
    slot_of_text,
)
from lineal.data.terms.lookup import Lookup
from lineal.data.terms.state import (
    BATCH,
    DONE,
    N_PAIRS,
    N_TERMS,
    NEEDS_PAIRS,
    NEEDS_TERMS,
    NOWHERE,
    PROGRESS,
    ROW,
    scratch_for,
)
from lineal.data.terms.vocabulary import Names
from lineal.data.terms.workers import with_words
from lineal.data.text.byte_words import U0, U1, U

BLANK, U2, FULL = U(32), U(2), U(BATCH)


@kernel(borrows=True)
def add_names(
    data: Any, stops: Any, is_word: bool, longest: Any, terms: Any, pairs: Any, columns: Any, pair_columns: Any,
    batch: Any, progress: Any,
) -> Any:  # fmt: skip
    """Put terms into tables; those that no document can have are left out. What lacks, or DONE."""
    size = U0
    while progress[ROW] < U(stops.shape[0]) - U1:
        start, stop = U(stops[progress[ROW]]), U(stops[progress[ROW] + U1])
        n_words = U1
        if is_word:
            for p in range(start, stop):
                n_words += U1 if U(data[p]) == BLANK else U0
        if progress[N_TERMS] + n_words > U(terms.df.shape[0]):
            flush(pairs, batch, size, pair_columns, progress)
            return NEEDS_TERMS
        if progress[N_PAIRS] + size + n_words > U(pairs.df.shape[0]):
            flush(pairs, batch, size, pair_columns, progress)
            return NEEDS_PAIRS
        column = progress[ROW]
        progress[ROW] += U1
        if start == stop or (is_word and not is_ngram(data, start, stop)) or n_words > longest:
            continue
        begin, node, place = start, U0, U0
        while begin <= stop:
            end = begin
            while end < stop and not (is_word and U(data[end]) == BLANK):
                end += U1
            number = find_or_add_text(terms, data, begin, end, progress)
            if place == U0:
                node = number << U1
            elif end < stop:
                node = find_or_add_pair(pairs, key_of_pair(node, number), progress) << U1 | U1
            else:
                batch.keys[size] = key_of_pair(node, number)
                batch.starts[size] = column
                prefetch(pairs.slots, place_of(batch.keys[size], pairs.shift) * U2)
                size += U1
            place += U1
            begin = end + U1
        if place == U1:
            columns[node >> U1] = column
        if size == FULL:
            flush(pairs, batch, size, pair_columns, progress)
            size = U0
    flush(pairs, batch, size, pair_columns, progress)
    return DONE


@kernel(borrows=True)
def find_or_add_text(terms: Any, data: Any, start: Any, stop: Any, progress: Any) -> Any:
    """The number of a text; there is room for one more."""
    key = key_of(data, start, stop)
    s = slot_of_text(terms, key, data, start, stop)
    if terms.slots[s] == U0:
        add_text(terms, s, key, data, start, stop, progress[N_TERMS])
        progress[N_TERMS] += U1
    return terms.slots[s + U1] >> U32


@kernel(borrows=True)
def find_or_add_pair(pairs: Any, key: Any, progress: Any) -> Any:
    """The number of a pair; there is room for one more."""
    s = slot_of_pair(pairs.slots, pairs.shift, key)
    if pairs.slots[s] == U0:
        pairs.slots[s] = key
        pairs.slots[s + U1] = progress[N_PAIRS] << U32
        pairs.keys[progress[N_PAIRS]] = key
        progress[N_PAIRS] += U1
    return pairs.slots[s + U1] >> U32


@kernel(borrows=True)
def flush(pairs: Any, batch: Any, size: Any, pair_columns: Any, progress: Any) -> None:
    """Give the pairs of a batch their columns."""
    for i in range(size):
        pair_columns[find_or_add_pair(pairs, batch.keys[i], progress)] = batch.starts[i]


@kernel(borrows=True)
def is_ngram(data: Any, start: Any, stop: Any) -> bool:
    """Whether a text has no blank at its ends, and no two of them together."""
    was_blank = True
    for p in range(start, stop):
        is_blank = U(data[p]) == BLANK
        if is_blank and was_blank:
            return False
        was_blank = is_blank
    return not was_blank


def lookup_of(names: Names, analysis: Analysis) -> Lookup:
    """Tables to look up terms, by their names."""
    n = len(names)
    data = np.concatenate([names.data, np.zeros(8, np.uint8)])
    stops = names.stops.astype(np.uint64)
    terms = with_words(new_terms(max(n // 4, 1), len(names.data) + 8), analysis.stop_words)
    terms = more_arena(terms, len(terms.arena) + len(names.data))
    pairs = new_pairs(n if analysis.is_word and analysis.ngram_range[1] > 1 else 0)
    columns, pair_columns = _nowhere(len(terms.df)), _nowhere(len(pairs.df))
    progress: np.ndarray = np.zeros(PROGRESS, np.uint64)
    progress[N_TERMS] = len(analysis.stop_words)
    batch = scratch_for(0, 0)
    longest = U(analysis.ngram_range[1])
    is_word = analysis.is_word
    longest = longest if is_word else U(1)
    while (
        why := add_names(data, stops, is_word, longest, terms, pairs, columns, pair_columns, batch, progress)
    ) != DONE:
        if why == NEEDS_TERMS:
            terms = more_terms(terms, 4 * len(terms.df))
            columns = np.concatenate([columns, _nowhere(len(terms.df) - len(columns))])
        else:
            pairs = more_pairs(pairs, 2 * len(pairs.df))
            pair_columns = np.concatenate([pair_columns, _nowhere(len(pairs.df) - len(pair_columns))])
    return Lookup(terms, pairs, columns, pair_columns)


def _nowhere(size: int) -> np.ndarray:
    return np.full(size, NOWHERE, np.uint32)
