"""Rows of documents by a vocabulary or by hashing: finished block by block, on several threads.

Memory besides the documents' bytes and a table of the vocabulary: twice the result, while its pieces are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.data.dataset import csr_of_parts
from lineal.data.terms import blocks
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.documents import Documents
from lineal.data.terms.hash_table import new_terms
from lineal.data.terms.hashing import Hashing
from lineal.data.terms.lookup import Lookup, Rows
from lineal.data.terms.rows import Weights
from lineal.data.terms.state import Text
from lineal.data.terms.workers import RowsWorker, with_words


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


def hashing_of(analysis: Analysis, bits: int, is_signed: bool) -> Hashing:
    """Hashing to 2**bits columns."""
    return Hashing(with_words(new_terms(0, 8), analysis.stop_words), np.uint64((1 << bits) - 1), is_signed)
