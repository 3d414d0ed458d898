"""Order of texts by code points: by their first seven bytes as numbers, then, where these are equal, by comparing."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.data.terms.hash_table import Terms
from lineal.data.text.byte_words import U0, U1, U8, U

U7 = U(7)
MOST = U(8)


@kernel(borrows=True)
def first_bytes(terms: Any, numbers: Any, keys: Any) -> None:
    """Numbers that sort as the first seven bytes of texts do, and then as their lengths, where those are up to 7."""
    for j in range(numbers.shape[0]):
        number = U(numbers[j])
        start, stop = terms.stops[number], terms.stops[number + U1]
        length = stop - start
        key = U0
        for i in range(U7):
            key = key << U8 | (U(terms.arena[start + i]) if i < length else U0)
        keys[j] = key << U8 | min(length, MOST)


@kernel(borrows=True)
def is_before(terms: Any, one: Any, other: Any) -> bool:
    """Whether a text sorts before another one; their first seven bytes are equal."""
    p, p_stop = terms.stops[one] + U7, terms.stops[one + U1]
    q, q_stop = terms.stops[other] + U7, terms.stops[other + U1]
    while p < p_stop and q < q_stop:
        if terms.arena[p] != terms.arena[q]:
            return terms.arena[p] < terms.arena[q]
        p += U1
        q += U1
    return q < q_stop


@kernel(borrows=True)
def sort_equal(terms: Any, keys: Any, numbers: Any, others: Any) -> None:
    """Sort texts whose keys are equal and say that there is more to compare: merge sort of each run of equal keys."""
    n = U(numbers.shape[0])
    first = U0
    while first < n:
        last = first + U1
        while last < n and keys[last] == keys[first]:
            last += U1
        width = U1
        while width < last - first:
            low = first
            while low < last:
                middle, high = min(low + width, last), min(low + width + width, last)
                a, b, out = low, middle, low
                while out < high:
                    take_b = a >= middle or (b < high and is_before(terms, U(numbers[b]), U(numbers[a])))
                    if take_b:
                        others[out] = numbers[b]
                        b += U1
                    else:
                        others[out] = numbers[a]
                        a += U1
                    out += U1
                low = high
            for i in range(first, last):
                numbers[i] = others[i]
            width += width
        first = last


def order_texts(terms: Terms, numbers: np.ndarray) -> np.ndarray:
    """The numbers of texts in the order of the texts, all of which differ."""
    keys: np.ndarray = np.empty(len(numbers), np.uint64)
    first_bytes(terms, numbers, keys)
    order = np.argsort(keys)
    ordered, keys = numbers[order], keys[order]
    sort_equal(terms, keys, ordered, np.empty_like(ordered))
    return ordered
