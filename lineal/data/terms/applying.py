"""Rows of documents by a vocabulary or by hashing: finished block by block, on several threads.

Memory besides the documents' bytes and a table of the vocabulary: twice the result, while its pieces are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.data.dataset import csr_of_parts
from lineal.data.terms import blocks
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.documents import Documents
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
    slot_of_pair,
    slot_of_text,
)
from lineal.data.terms.hashing import Hashing
from lineal.data.terms.lookup import Lookup, Rows
from lineal.data.terms.rows import Weights
from lineal.data.terms.state import DONE, N_PAIRS, N_TERMS, NEEDS_PAIRS, NEEDS_TERMS, NOWHERE, PROGRESS, ROW, Text
from lineal.data.terms.vocabulary import Names
from lineal.data.terms.workers import RowsWorker, with_words
from lineal.data.text.byte_words import U0, U1, U

BLANK = U(32)


class Applier:
    """Makes rows of documents, chunk by chunk: the columns, how counts become values, and the threads."""

    def __init__(
        self, analysis: Analysis, target: Lookup | Hashing, n_columns: int, weights: Weights, dtype: Any, threads: int
    ) -> None:
        self.n_columns, self.dtype = n_columns, np.dtype(dtype)
        self.workers = [RowsWorker(analysis, target, weights, n_columns, self.dtype) for _ in range(threads)]

    def pieces(self, documents: Documents) -> list[Rows]:
        """The rows of a chunk of documents, in pieces."""
        text = Text(documents.data, documents.offsets)
        ranges = blocks.row_ranges(documents, len(self.workers))
        found = blocks.over(ranges, self.workers, lambda number, rows: self.workers[number].rows(text, *rows))
        return [piece for block in found for piece in block]

    def matrix(self, chunks: Iterable[Documents]) -> Any:
        """The rows of documents, as CSR with sorted indices."""
        pieces = [piece for documents in chunks for piece in self.pieces(documents)]
        sizes = [len(piece.indices) for piece in pieces]
        n_rows, n_entries = sum(len(piece.ends) for piece in pieces), sum(sizes)
        index_type = np.int32 if n_entries < 2**31 and self.n_columns <= 2**31 else np.int64
        indptr: np.ndarray = np.zeros(n_rows + 1, index_type)
        indices, values = np.empty(n_entries, index_type), np.empty(n_entries, self.dtype)
        row, at = 0, 0
        for number, size in enumerate(sizes):
            piece, pieces[number] = pieces[number], None  # type: ignore[call-overload]
            indices[at : at + size], values[at : at + size] = piece.indices, piece.values
            indptr[row + 1 : row + 1 + len(piece.ends)] = piece.ends.astype(np.int64) + at
            row, at = row + len(piece.ends), at + size
        return csr_of_parts(values, indices, indptr, (n_rows, self.n_columns))


@kernel(borrows=True)
def add_names(
    data: Any, stops: Any, is_word: bool, longest: Any, terms: Any, pairs: Any, columns: Any, pair_columns: Any,
    progress: Any,
) -> Any:  # fmt: skip
    """Put terms into tables; those that no document can have are left out. What lacks, or DONE."""
    while progress[ROW] < U(stops.shape[0]) - U1:
        start, stop = U(stops[progress[ROW]]), U(stops[progress[ROW] + U1])
        n_words = U1
        if is_word:
            for p in range(start, stop):
                n_words += U1 if U(data[p]) == BLANK else U0
        if progress[N_TERMS] + n_words > U(terms.df.shape[0]):
            return NEEDS_TERMS
        if progress[N_PAIRS] + n_words > U(pairs.df.shape[0]):
            return NEEDS_PAIRS
        column = progress[ROW]
        progress[ROW] += U1
        if start == stop or (is_word and not is_ngram(data, start, stop)) or n_words > longest:
            continue
        begin, node, slot, place = start, U0, U0, U0
        while begin <= stop:
            end = begin
            while end < stop and not (is_word and U(data[end]) == BLANK):
                end += U1
            key = key_of(data, begin, end)
            s = slot_of_text(terms, key, data, begin, end)
            if terms.slots[s] == U0:
                add_text(terms, s, key, data, begin, end, progress[N_TERMS])
                progress[N_TERMS] += U1
            number = terms.slots[s + U1] >> U32
            if place == U0:
                node, slot = number << U1, number
            else:
                key = key_of_pair(node, number)
                s = slot_of_pair(pairs.slots, pairs.shift, key)
                if pairs.slots[s] == U0:
                    pairs.slots[s] = key
                    pairs.slots[s + U1] = progress[N_PAIRS] << U32
                    progress[N_PAIRS] += U1
                slot = pairs.slots[s + U1] >> U32
                node = slot << U1 | U1
            place += U1
            begin = end + U1
        if place == U1:
            columns[slot] = column
        else:
            pair_columns[slot] = column
    return DONE


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
    longest = U(analysis.ngram_range[1])
    is_word = analysis.is_word
    longest = longest if is_word else U(1)
    while (why := add_names(data, stops, is_word, longest, terms, pairs, columns, pair_columns, progress)) != DONE:
        if why == NEEDS_TERMS:
            terms = more_terms(terms, 4 * len(terms.df))
            columns = np.concatenate([columns, _nowhere(len(terms.df) - len(columns))])
        else:
            pairs = more_pairs(pairs, 2 * len(pairs.df))
            pair_columns = np.concatenate([pair_columns, _nowhere(len(pairs.df) - len(pair_columns))])
    return Lookup(terms, pairs, columns, pair_columns)


def _nowhere(size: int) -> np.ndarray:
    return np.full(size, NOWHERE, np.uint32)


def hashing_of(analysis: Analysis, bits: int, is_signed: bool) -> Hashing:
    """Hashing to 2**bits columns."""
    return Hashing(with_words(new_terms(0, 8), analysis.stop_words), np.uint64((1 << bits) - 1), is_signed)
