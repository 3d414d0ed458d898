"""Learn a vocabulary from documents, and make their rows in the same pass over the text.

`count` numbers and counts terms on several threads, `settle` makes one vocabulary of what they have found, and
`matrix_of` the rows. Which thread numbers a term first has no influence on the vocabulary, which is sorted, or on any
count: results are the same for any number of threads.

Memory besides the documents' bytes and the result, with d different terms (those that are pruned too), and z different
terms summed over rows: 8z bytes for the counts, which are given back while the result is filled, and about 100d bytes
for tables and for sorting, with t threads up to 50dt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lineal.data.dataset import csr_of_parts
from lineal.data.terms import blocks
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.documents import Documents
from lineal.data.terms.lookup import Lookup
from lineal.data.terms.rows import Weights, add_totals, fill_rows, map_codes, sorting_for
from lineal.data.terms.state import NOWHERE, Entries, Text
from lineal.data.terms.term_order import sorted_codes
from lineal.data.terms.vocabulary import Names, Store, columns_of, merge, names_of
from lineal.data.terms.workers import CountingWorker
from lineal.data.text.byte_words import U1
from lineal.errors import DataError

#: Tables that hold more terms than twice those that are kept are given back, and made again to look up new documents.
WORTH_KEEPING = 2


@dataclass
class Counted:
    """What a pass over documents has found: pieces of rows, each with the codes of a worker, in the order of rows."""

    analysis: Analysis
    workers: list[CountingWorker]
    pieces: list[tuple[int, Entries]] = field(default_factory=list)
    n_rows: int = 0


@dataclass(frozen=True)
class Limits:
    """Which terms to keep: those in at least and at most so many documents, and of these the most frequent."""

    least: float = 1
    most: float = np.inf
    max_features: int | None = None


@dataclass
class Vocabulary:
    """The number of documents that the term of each column is in, its name, and tables to look it up.

    Names are written when they are first needed, as they take as long as a third of the pass over the text. Tables that
    hold many other terms are given back at once.
    """

    df: np.ndarray
    find_names: Callable[[], Names]
    lookup: Lookup | None

    @property
    def n_columns(self) -> int:
        """Number of terms."""
        return len(self.df)


def count(chunks: Iterable[Documents], analysis: Analysis, threads: int) -> Counted:
    """Number and count all terms of the documents."""
    counted = Counted(analysis, [CountingWorker(analysis) for _ in range(threads)])
    for documents in chunks:
        text = Text(documents.data, documents.offsets)

        def work(number: int, rows: tuple[int, int], text: Text = text) -> list[tuple[int, Entries]]:
            return [(number, piece) for piece in counted.workers[number].count(text, *rows)]

        for found in blocks.over(blocks.row_ranges(documents, threads), counted.workers, work):
            counted.pieces += found
        counted.n_rows += len(documents)
    return counted


#: Columns of the texts and pairs of each worker, by their numbers there.
Maps = list[tuple[np.ndarray, np.ndarray]]


def settle(counted: Counted, limits: Limits, is_binary: bool) -> tuple[Vocabulary, Maps]:
    """Choose and sort the terms; the second value has the columns for `matrix_of`."""
    store, numbers = _merged(counted)
    term_df, pair_df = store.terms.df[: store.n_terms], store.pairs.df[: store.n_pairs]
    if not term_df.any() and not pair_df.any():
        raise DataError(
            "empty vocabulary: the documents have no terms, because they are empty or contain only stop words, words "
            "of one character, or characters that are not in words"
        )
    least = max(limits.least, 1)
    longest = counted.analysis.ngram_range[1] if counted.analysis.is_word else 1
    codes = sorted_codes(
        store,
        (term_df >= least) & (term_df <= limits.most),
        (pair_df >= least) & (pair_df <= limits.most),
        longest,
    )
    df = _by_code(codes, term_df, pair_df)
    if limits.max_features is not None and len(codes) > limits.max_features:
        totals = df if is_binary else _by_code(codes, *_totals(counted, store, numbers))
        chosen = np.sort((-totals).argsort()[: limits.max_features])
        codes, df = codes[chosen], df[chosen]
    if len(codes) == 0:
        raise DataError(
            f"no terms remain: none is in at least {limits.least:g} and at most {limits.most:g} of {counted.n_rows} "
            "documents; use a lower min_df or a higher max_df"
        )
    if len(codes) >= NOWHERE:
        raise DataError(f"{len(codes)} different terms are too many: use min_df, max_features or hashing")
    columns = columns_of(store, codes)
    is_dense = store.n_terms + store.n_pairs <= WORTH_KEEPING * len(codes)
    find_names = functools.partial(names_of, store.terms, store.pairs, codes)
    if is_dense:
        vocabulary = Vocabulary(df, find_names, Lookup(store.terms, store.pairs, *columns))
    else:
        names = find_names()
        vocabulary = Vocabulary(df, lambda: names, None)
    maps = [columns if found is None else (columns[0][found[0]], columns[1][found[1]]) for found in numbers]
    return vocabulary, maps


def _by_code(codes: np.ndarray, of_terms: np.ndarray, of_pairs: np.ndarray) -> np.ndarray:
    """Numbers of texts and of pairs in the order of codes, as int64."""
    are_pairs = (codes & U1).astype(np.bool_)
    found: np.ndarray = np.empty(len(codes), np.int64)
    found[~are_pairs] = of_terms[codes[~are_pairs] >> U1]
    found[are_pairs] = of_pairs[codes[are_pairs] >> U1]
    return found


def _merged(counted: Counted) -> tuple[Store, list[Any]]:
    """One store with all terms, made of the largest one; and what the numbers in each have become (None: the same)."""
    stores = [worker.store for worker in counted.workers]
    largest = max(range(len(stores)), key=lambda number: stores[number].n_terms + stores[number].n_pairs)
    into, numbers = stores[largest], []
    for number, worker in enumerate(counted.workers):
        numbers.append(None if number == largest else merge(into, stores[number]))
        stores[number] = into
        worker.release()
    return into, numbers


def _totals(counted: Counted, store: Store, numbers: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """How often each text and pair occurs."""
    totals: tuple[np.ndarray, np.ndarray] = (np.zeros(store.n_terms, np.int64), np.zeros(store.n_pairs, np.int64))
    for worker, found in enumerate(numbers):
        here = totals if found is None else tuple(np.zeros(len(places), np.int64) for places in found)
        for number, piece in counted.pieces:
            if number == worker:
                add_totals(piece, *here)
        if found is not None:
            for total, part, places in zip(totals, here, found):
                np.add.at(total, places, part)
    return totals


def matrix_of(counted: Counted, maps: Maps, n_columns: int, weights: Weights, dtype: Any) -> Any:
    """The rows as CSR with sorted indices; takes the pieces out of `counted`, so that their memory is free early."""
    workers = counted.workers

    def find_columns(_: int, piece: tuple[int, Entries]) -> tuple[np.ndarray, int]:
        number, entries = piece
        lengths: np.ndarray = np.empty(len(entries.ends), np.int64)
        return lengths, int(map_codes(entries.codes, entries.ends, *maps[number], lengths))

    mapped = blocks.over(counted.pieces, workers, find_columns)
    indptr: np.ndarray = np.zeros(counted.n_rows + 1, np.int64)
    if mapped:
        np.cumsum(np.concatenate([lengths for lengths, _ in mapped]), out=indptr[1:])
    longest = max((most for _, most in mapped), default=0)
    index_type = np.int32 if indptr[-1] < 2**31 and n_columns < 2**31 else np.int64
    indices, values = np.empty(indptr[-1], index_type), np.empty(indptr[-1], dtype)
    sorting = [sorting_for(max(longest, 1), n_columns) for _ in workers]
    first, tasks = 0, []
    for place, (lengths, _) in enumerate(mapped):
        tasks.append((place, first, first + len(lengths)))
        first += len(lengths)

    def fill(worker: int, task: tuple[int, int, int]) -> None:
        place, first, last = task
        entries = counted.pieces[place][1]
        fill_rows(entries, sorting[worker], weights, indptr[first : last + 1], indices, values)
        counted.pieces[place] = (0, Entries(None, None, None))

    blocks.over(tasks, workers, fill)
    counted.pieces.clear()
    return csr_of_parts(values, indices, indptr.astype(index_type, copy=False), (counted.n_rows, n_columns))
