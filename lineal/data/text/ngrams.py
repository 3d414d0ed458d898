"""N-grams of hashed features, made while text is parsed: their columns are those of Vowpal Wabbit.

The column of an n-gram is h₁·c^(n−1) + h₂·c^(n−2) + … + h_n modulo 2**bits for the columns h of its features, where c
is VW's constant. Its value is 1, whatever the values of its features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data.ngrams import NGrams, count_patterns
from lineal.data.text.murmur import hash_name
from lineal.data.text.numbers import U0, U

#: The constant by which VW multiplies the hash of what comes before.
CONSTANT = U(27942141)


class Patterns(NamedTuple):
    """The patterns of n-grams as arrays: pattern g has the places[g, :lengths[g]] after its first feature.

    The namespace with the hash seeds[i] has the first counts[i] patterns; any other one has the first `others`.
    """

    places: Any
    lengths: Any
    seeds: Any
    counts: Any
    others: int


def patterns_of(ngrams: NGrams) -> Patterns:
    """The arrays for some options."""
    found = ngrams.patterns()
    places: np.ndarray = np.zeros((len(found), ngrams.longest - 1), np.int64)
    for g, pattern in enumerate(found):
        places[g, : len(pattern) - 1] = pattern[1:]
    return Patterns(
        places,
        np.array([len(pattern) - 1 for pattern in found], np.int64),
        np.array([hash_of_name(name) for name, _ in ngrams.by_name], np.uint64),
        np.array([count_patterns(n, ngrams.skips) for _, n in ngrams.by_name], np.int64),
        count_patterns(ngrams.everywhere, ngrams.skips),
    )


def hash_of_name(name: str) -> int:
    """The hash of a namespace; 0 for the unnamed one."""
    text = name.encode()
    return int(hash_name(np.frombuffer(text + b"\n", np.uint8), U0, U(len(text)), U0)) if text else 0


@kernel
def count_of(patterns: Any, seed: Any) -> Any:
    """The number of patterns of a namespace."""
    for i in range(patterns.seeds.shape[0]):
        if patterns.seeds[i] == seed:
            return patterns.counts[i]
    return patterns.others


@kernel(borrows=True)
def add_ngrams(indices: Any, values: Any, start: int, stop: int, patterns: Any, count: int, mask: Any) -> int:
    """Append the n-grams of the entries start … stop by the first `count` patterns; the new end, or −1 for no room."""
    entry = stop
    for g in range(count):
        length = patterns.lengths[g]
        last = stop - patterns.places[g, length - 1]
        if entry + max(last - start, 0) > indices.shape[0]:
            return -1
        for i in range(start, last):
            column = U(indices[i])
            for k in range(length):
                column = column * CONSTANT + U(indices[i + patterns.places[g, k]]) & mask
            indices[entry] = np.int64(column)
            values[entry] = 1.0
            entry += 1
    return entry
