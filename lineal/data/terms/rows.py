"""Rows of a sparse matrix from columns with counts: sort them, add up what shares a column, weigh and normalise.

An entry is one word here: ``column << 32 | count``. The count is signed where terms are hashed. Weights are computed in
float64 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data.terms.hash_table import LOW_32, U32
from lineal.data.terms.state import NOWHERE
from lineal.data.text.byte_words import U0, U1, U

#: Rows of up to this many entries are sorted by insertion.
SHORT = U(24)

MAX_DIGIT = 8
DIGITS = 1 << MAX_DIGIT
SIGN, PAST_SIGN = 1 << 31, 1 << 32

#: Numbers of the norms.
NORMS = {None: 0, "l1": 1, "l2": 2}


class Weights(NamedTuple):
    """How counts become values: 1 for every count, 1 + log(count), times idf of the column (if there is any), norm."""

    is_binary: Any
    is_sublinear: Any
    norm: Any
    idf: Any


class Sorting(NamedTuple):
    """Work space of `sort_row`: entries, another array of that length, counts of digits; and the bits to sort by."""

    keys: Any
    others: Any
    digits: Any
    passes: Any
    width: Any


def sorting_for(length: int, n_columns: int) -> Sorting:
    """Work space for rows of up to `length` entries."""
    bits = max((n_columns - 1).bit_length(), 1)
    passes = -(-bits // MAX_DIGIT)
    keys, others = np.empty(length, np.uint64), np.empty(length, np.uint64)
    return Sorting(keys, others, np.empty(DIGITS, np.uint64), np.uint64(passes), np.uint64(-(-bits // passes)))


@kernel(borrows=True)
def sort_row(sorting: Any, n: Any) -> None:
    """Sort keys[:n] by column: by insertion if they are few, else by digits, the lowest first."""
    keys, others, digits = sorting.keys, sorting.others, sorting.digits
    if n <= SHORT:
        for i in range(U1, n):
            key, j = keys[i], U(i)
            while j > U0 and keys[j - U1] > key:
                keys[j] = keys[j - U1]
                j -= U1
            keys[j] = key
        return
    mask = (U1 << sorting.width) - U1
    shift = U32
    for _ in range(sorting.passes):
        for digit in range(mask + U1):
            digits[digit] = U0
        for i in range(n):
            digits[keys[i] >> shift & mask] += U1
        before = U0
        for digit in range(mask + U1):
            count = digits[digit]
            digits[digit] = before
            before += count
        for i in range(n):
            key = keys[i]
            place = digits[key >> shift & mask]
            digits[key >> shift & mask] = place + U1
            others[place] = key
        for i in range(n):
            keys[i] = others[i]
        shift += sorting.width


@kernel(borrows=True)
def merge_row(keys: Any, n: Any) -> Any:
    """Add up the signed counts of sorted entries that share a column; returns how many entries are left."""
    kept = U0
    for i in range(n):
        if kept > U0 and keys[kept - U1] >> U32 == keys[i] >> U32:
            total = (keys[kept - U1] & LOW_32) + (keys[i] & LOW_32) & LOW_32
            keys[kept - U1] = keys[kept - U1] >> U32 << U32 | total
        else:
            keys[kept] = keys[i]
            kept += U1
    return kept


@kernel(borrows=True, forceinline=True)
def value_of(key: Any, weights: Any, is_signed: bool) -> Any:
    """Weight of an entry, a column and a count, before its row is divided by its norm."""
    value = float(signed(key & LOW_32, is_signed))
    if weights.is_binary:
        value = 1.0
    if weights.is_sublinear:
        value = 1.0 + math.log(value)
    if weights.idf.shape[0] > 0:
        value *= weights.idf[key >> U32]
    return value


@kernel(borrows=True)
def write_row(keys: Any, n: Any, weights: Any, is_signed: bool, indices: Any, values: Any, at: Any) -> None:
    """Write the columns and values of sorted entries, from the place `at` on."""
    total = 0.0
    for i in range(n):
        value = value_of(keys[i], weights, is_signed)
        total += abs(value) if weights.norm == 1 else value * value
        indices[at + i] = keys[i] >> U32
        values[at + i] = value
    if weights.norm == 0 or total == 0.0:
        return
    scale = 1.0 / (total if weights.norm == 1 else math.sqrt(total))
    for i in range(n):
        values[at + i] = value_of(keys[i], weights, is_signed) * scale


@kernel
def signed(count: Any, is_signed: bool) -> Any:
    """The count as an integer; of 32 bits with a sign."""
    number = np.int64(count)
    return number - PAST_SIGN if is_signed and number >= SIGN else number


@kernel(borrows=True)
def map_codes(codes: Any, ends: Any, term_columns: Any, pair_columns: Any, lengths: Any) -> Any:
    """Replace codes by columns, NOWHERE for terms that were pruned; the number of columns of each row; the longest."""
    begin, longest = U0, U0
    for row in range(ends.shape[0]):
        kept = U0
        for i in range(begin, ends[row]):
            code = U(codes[i])
            column = pair_columns[code >> U1] if code & U1 else term_columns[code >> U1]
            codes[i] = column
            if column != NOWHERE:
                kept += U1
        lengths[row] = kept
        longest = max(longest, kept)
        begin = ends[row]
    return longest


@kernel(borrows=True)
def fill_rows(entries: Any, sorting: Any, weights: Any, starts: Any, indices: Any, values: Any) -> None:
    """Write rows of columns with counts, sorted and weighed; row i begins at starts[i]."""
    begin = U0
    for row in range(entries.ends.shape[0]):
        n = U0
        for i in range(begin, entries.ends[row]):
            column = entries.codes[i]
            if column != NOWHERE:
                sorting.keys[n] = U(column) << U32 | U(entries.counts[i])
                n += U1
        sort_row(sorting, n)
        write_row(sorting.keys, n, weights, False, indices, values, U(starts[row]))
        begin = entries.ends[row]


@kernel(borrows=True)
def add_totals(entries: Any, term_totals: Any, pair_totals: Any) -> None:
    """Add the counts of codes to the totals of texts and of pairs."""
    for i in range(entries.codes.shape[0]):
        code = U(entries.codes[i])
        if code & U1:
            pair_totals[code >> U1] += entries.counts[i]
        else:
            term_totals[code >> U1] += entries.counts[i]
