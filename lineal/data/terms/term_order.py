"""Order of terms by code points.

Bytes of UTF-8 sort as code points do. A blank sorts before every character of a word, so n-grams of words sort as
tuples of the ranks of their words: only single words are ever compared as texts. An n-gram's rank among those of up to
so many words follows from the rank of what comes before its last word, and from that word's rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.data.terms.hash_table import LOW_32, U32
from lineal.data.terms.text_order import order_texts
from lineal.data.terms.vocabulary import Store
from lineal.data.text.byte_words import U1, U


def sorted_codes(store: Store, are_kept_terms: np.ndarray, are_kept_pairs: np.ndarray, longest: int) -> np.ndarray:
    """Codes of the terms to keep, in the order of their texts."""
    keys = store.pairs.keys[: store.n_pairs]
    needed, lengths = _needed(keys, np.flatnonzero(are_kept_pairs), longest)
    if len(needed) == 0:
        return order_texts(store.terms, np.flatnonzero(are_kept_terms)).astype(np.uint64) << U1
    are_used = are_kept_terms.copy()
    mark_words(keys, needed, are_used)
    texts = order_texts(store.terms, np.flatnonzero(are_used))
    n = len(texts)
    ranks: np.ndarray = np.zeros(store.n_terms, np.uint32)
    ranks[texts] = np.arange(1, n + 1, dtype=np.uint32)
    term_ranks, pair_ranks = ranks, np.zeros(store.n_pairs if longest > 2 else 1, np.uint32)
    for length in range(2, longest + 1):
        here = needed if length == longest else needed[lengths[needed] <= length]
        order_keys: np.ndarray = np.empty(n + len(here), np.uint64)
        fill_order_keys(keys, texts, here, lengths, length, ranks, term_ranks, pair_ranks, order_keys)
        order = np.argsort(order_keys)
        if length < longest:
            placed: np.ndarray = np.empty(len(order), np.uint32)
            placed[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
            term_ranks = np.zeros(store.n_terms, np.uint32)
            term_ranks[texts], pair_ranks[here] = placed[:n], placed[n:]
    codes = order_keys
    codes[:n], codes[n:] = texts, here
    codes <<= U1
    codes[n:] |= U1
    if np.count_nonzero(are_kept_terms) < n or np.count_nonzero(are_kept_pairs) < len(here):
        order = order[np.concatenate([are_kept_terms[texts], are_kept_pairs[here]])[order]]
    return codes[order]


@kernel(borrows=True)
def mark_words(keys: Any, pairs: Any, are_used: Any) -> None:
    """Mark the texts that pairs consist of."""
    for j in range(pairs.shape[0]):
        key = keys[pairs[j]] - U1
        are_used[key & LOW_32] = True
        if not key >> U32 & U1:
            are_used[key >> U32 >> U1] = True


@kernel(borrows=True)
def fill_order_keys(
    keys: Any, texts: Any, pairs: Any, lengths: Any, length: int, ranks: Any, term_ranks: Any, pair_ranks: Any, out: Any
) -> None:
    """Numbers that sort as texts, and pairs of up to `length` words, do: two ranks, the second 0 if there is none."""
    n = U(texts.shape[0])
    for j in range(n):
        out[j] = U(term_ranks[texts[j]]) << U32
    for j in range(U(pairs.shape[0])):
        p = pairs[j]
        if lengths[p] == length:
            key = keys[p] - U1
            node = key >> U32
            before = U(pair_ranks[node >> U1]) if node & U1 else U(term_ranks[node >> U1])
            out[n + j] = before << U32 | U(ranks[key & LOW_32])
        else:
            out[n + j] = U(pair_ranks[p]) << U32


def _needed(keys: np.ndarray, kept: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs to keep and those that they begin with; and how many words each of them has."""
    lengths: np.ndarray = np.zeros(len(keys), np.uint16)
    if longest == 2:
        lengths[kept] = 2
        return kept, lengths
    are_needed: np.ndarray = np.zeros(len(keys), np.bool_)
    are_needed[kept] = True
    mark_beginnings(keys, are_needed, lengths)
    return np.flatnonzero(are_needed), lengths


@kernel(borrows=True)
def mark_beginnings(keys: Any, are_needed: Any, lengths: Any) -> None:
    """Mark the pairs that needed ones begin with, which have lower numbers, and find the numbers of words of all."""
    n = U(keys.shape[0])
    for j in range(n):
        i = n - U1 - U(j)
        node = keys[i] - U1 >> U32
        if are_needed[i] and node & U1:
            are_needed[node >> U1] = True
    for k in range(n):
        node = keys[k] - U1 >> U32
        lengths[k] = lengths[node >> U1] + U1 if node & U1 else U1 + U1
