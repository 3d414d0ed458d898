"""`HashedTokens`: lists of tokens as sparse rows, with the columns that Vowpal Wabbit text of the same tokens has.

Memory while rows are made: about 60 bytes per token and 12 bytes per token and n-gram. Afterwards: 12 bytes per
distinct column of a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.scikit import BaseEstimator, TransformerMixin
from lineal.data import ngrams
from lineal.data.dataset import csr_of_parts
from lineal.data.text.lines import merge_entries, sort_entries
from lineal.data.text.murmur import hash_name
from lineal.data.text.ngrams import add_ngrams, hash_of_name, patterns_of
from lineal.data.text.numbers import U0, U
from lineal.errors import DataError, OptionError


class Tokens(NamedTuple):
    """Tokens of documents: their bytes, where each of them ends, and their number up to the end of each document."""

    data: Any
    stops: Any
    ends: Any


class HashedTokens(TransformerMixin, BaseEstimator):
    """Documents as sparse rows of 2**bits hashed columns, which count tokens and n-grams of tokens.

    Rows are those that `lineal.read` makes of the lines ``|namespace token token …`` of Vowpal Wabbit text. The tokens
    can contain any characters: a colon does not separate a value. Empty tokens are left out. Nothing is learned from
    the documents, so a pipeline with this step can read new ones at any time.

    Parameters
    ----------
    bits : tokens are hashed to 2**bits columns, 1 to 30.
    ngram : also join up to this many tokens that follow each other; 2 adds bigrams.
    skips : number of tokens that an n-gram may leave out in between.
    namespace : the namespace of the tokens; "" is the unnamed one.
    """

    def __init__(self, bits: int = 18, ngram: int = 1, skips: int = 0, namespace: str = "") -> None:
        self.bits = bits
        self.ngram = ngram
        self.skips = skips
        self.namespace = namespace

    def fit(self, X: Any = None, y: Any = None) -> HashedTokens:
        """Check the parameters; there is nothing to learn."""
        self._parsed()
        return self

    def transform(self, X: Any) -> Any:
        """The rows (n, 2**bits) of n documents: lists of tokens, or strings, which are split at white space."""
        wanted = self._parsed()
        tokens = _joined(X)
        patterns, mask, seed = patterns_of(wanted), U((1 << self.bits) - 1), U(hash_of_name(self.namespace))
        n, room = len(tokens.ends), len(tokens.stops) * (1 + len(patterns.places))
        indices, values = np.empty(room, np.int32), np.empty(room, np.float64)
        indptr = np.zeros(n + 1, np.int64)
        hash_documents(tokens, indices, values, indptr, patterns, mask, seed)
        used = int(indptr[-1])
        indptr = indptr if used >= 2**31 else indptr.astype(np.int32)
        columns = indices[:used].astype(indptr.dtype)
        return csr_of_parts(values[:used].copy(), columns, indptr, (n, 1 << self.bits))

    def _parsed(self) -> ngrams.NGrams:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int | np.integer) or not 1 <= self.bits <= 30:
            raise OptionError(f"bits={self.bits!r} must be an integer from 1 to 30")
        if not isinstance(self.namespace, str):
            raise OptionError(f"namespace={self.namespace!r} is not a string")
        wanted = ngrams.parse(self.ngram, self.skips)
        if wanted.by_name:
            raise OptionError(f"ngram={self.ngram!r}: all tokens have one namespace, so ngram is one number")
        return wanted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _joined(X: Any) -> Tokens:
    """The tokens of some documents, without empty ones."""
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise DataError(f"X is a {type(X).__name__}: expected a list of documents, each a list of tokens or a string")
    tokens: list[bytes] = []
    ends: list[int] = []
    for number, document in enumerate(X):
        if isinstance(document, bytes) or not isinstance(document, Iterable):
            raise DataError(f"document {number} is {_shown(document)}: expected a list of tokens, or a string")
        for place, word in enumerate(document.split() if isinstance(document, str) else document):
            if not isinstance(word, str):
                raise DataError(
                    f"token {place} of document {number} is {_shown(word)}, not a string: leave it out, or write it "
                    "as one"
                )
            if word:
                tokens.append(word.encode("utf-8", "surrogatepass"))
        ends.append(len(tokens))
    stops = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    return Tokens(np.frombuffer(b"".join(tokens), np.uint8), stops, np.array(ends, np.int64))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


@kernel(borrows=True)
def hash_documents(tokens: Any, indices: Any, values: Any, indptr: Any, patterns: Any, mask: Any, seed: Any) -> None:
    """Fill the rows of all documents: hash their tokens, append n-grams, sort by column, sum what shares a column."""
    entry, token, start = 0, 0, U0
    for row in range(tokens.ends.shape[0]):
        first = entry
        while token < tokens.ends[row]:
            stop = U(tokens.stops[token])
            column = hash_name(tokens.data, start, stop, seed)
            indices[entry] = np.int64(column & mask)
            values[entry] = 1.0
            entry += 1
            token += 1
            start = stop
        entry = add_ngrams(indices, values, first, entry, patterns, patterns.others, mask)
        sort_entries(indices, values, first, entry)
        entry = merge_entries(indices, values, first, entry)
        indptr[row + 1] = entry
