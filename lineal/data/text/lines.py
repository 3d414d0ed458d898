"""Parts that the kernels of line-oriented text formats share: the arrays they fill, what they report, small scanners.

A kernel parses one chunk of whole lines into slices of the final arrays. It raises no errors: it leaves out a malformed
line and notes it as (error code, byte offset), from which Python makes the message.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data.label_numbers import INEXACT
from lineal.data.text.byte_words import U8, U10, leading_digits, word_at
from lineal.data.text.numbers import MINUS, PLUS, U0, U1, U9, ZERO_BYTE, U, parse_number

NEWLINE, TAB, RETURN, SPACE, COMMA, COLON, HASH, BAR, QUOTE = (U(ord(c)) for c in "\n\t\r ,:#|'")

#: Number of bytes whose separators can be counted in one byte.
RUN, BYTE_0 = U(192), np.uint8(0)

#: Up to this many entries, insertion sort is faster than radix sort.
SHORT_ROW = 20

# Error codes below 10 are common to the formats.
OK, BAD_LABEL, BAD_VALUE, NOT_FINITE, NO_SPACE, NOT_WHOLE, FULL = range(7)

#: How labels are stored, from the usual way to the rarest.
DOUBLES, SIGNED, UNSIGNED = range(3)

#: As a double, which is what kernels compare with.
INEXACT_DOUBLE = float(INEXACT)
MAX_TENS, LAST_DIGIT = U((2**64 - 1) // 10), U((2**64 - 1) % 10)
SIGN_BIT = U(1 << 63)

EXPECTED = {
    BAD_LABEL: "a number as label (or several, separated by commas)",
    BAD_VALUE: "a number",
    NOT_FINITE: "a finite number within the range of the dtype",
    NO_SPACE: "a space or the end of the line",
    NOT_WHOLE: "an integer of 64 bits, signed or unsigned in all labels alike: some labels are beyond 2**53, and "
    "as doubles, which hold fractions and larger numbers, different ones would become equal",
}


class Rows(NamedTuple):
    """The arrays that a kernel fills: for each chunk a slice of the final ones.

    Row r has the entries row_end[r−1] … row_end[r] and the labels label_end[r−1] … label_end[r], counted from the
    chunk's start. `extras` holds query ids (svmlight) or importances (VW), `names` the spans of the namespaces (VW),
    and `kinds` the namespaces of the entries (VW; empty if they are not wanted).
    """

    values: Any
    indices: Any
    row_end: Any
    labels: Any
    label_end: Any
    extras: Any
    names: Any
    kinds: Any


class Found(NamedTuple):
    """What a kernel found in a chunk. Indices are as in the file; positions are byte offsets of rows, −1 for none.

    `large_labels` counts integers that do not fit the type in which labels are stored. `is_full` says that the
    arrays were too small: the text is not the one that was counted.
    """

    rows: int
    entries: int
    labels: int
    bad: int
    lowest_index: int
    highest_index: int
    most_labels: int
    unlabelled: int
    first_unlabelled: int
    with_extra: int
    first_without_extra: int
    large_labels: int
    is_full: bool


class Separators(NamedTuple):
    """How many separators of each kind a chunk has. Blanks are spaces and everything below them, newlines included."""

    newlines: int
    blanks: int
    commas: int
    colons: int


@kernel
def count_separators(data: Any) -> Any:
    """Count the separators of a chunk, which bound what it holds. Runs are counted in bytes, for wide registers."""
    totals = np.zeros(4, np.int64)
    start, end = U0, U(data.shape[0])
    while start < end:
        stop = min(start + RUN, end)
        newlines, blanks, commas, colons = BYTE_0, BYTE_0, BYTE_0, BYTE_0
        for i in range(start, stop):
            c = data[i]
            newlines = np.uint8(newlines + np.uint8(c == np.uint8(10)))
            blanks = np.uint8(blanks + np.uint8(c <= np.uint8(32)))
            commas = np.uint8(commas + np.uint8(c == np.uint8(44)))
            colons = np.uint8(colons + np.uint8(c == np.uint8(58)))
        totals[0] += newlines
        totals[1] += blanks
        totals[2] += commas
        totals[3] += colons
        start = stop
    return Separators(totals[0], totals[1], totals[2], totals[3])


@kernel
def merge_entries(indices: Any, values: Any, start: int, stop: int) -> int:
    """Sum the entries of a sorted row that share a column; return the new end of the row."""
    last = start
    for i in range(start + 1, stop):
        if indices[i] == indices[last]:
            values[last] += values[i]
        else:
            last += 1
            indices[last] = indices[i]
            values[last] = values[i]
    return min(last + 1, stop)


@kernel(forceinline=True)
def skip_blanks(data: Any, p: Any) -> Any:
    """The next position that is not a space, a tab or a carriage return."""
    c = U(data[p])
    while c <= SPACE and c in (SPACE, TAB, RETURN):
        p += U1
        c = U(data[p])
    return p


@kernel
def skip_line(data: Any, p: Any) -> Any:
    """The start of the next line."""
    while U(data[p]) != NEWLINE:
        p += U1
    return p + U1


@kernel
def skip_bad_line(data: Any, p: Any, code: int, bad: Any, count: int) -> Any:
    """Note an error at p as bad[count]: (new count, start of the next line)."""
    bad[count, 0] = code
    bad[count, 1] = np.int64(p)
    return count + 1, skip_line(data, p)


@kernel(forceinline=True)
def is_blank(c: Any) -> bool:
    """Whether a byte ends a token: space, tab, carriage return or newline."""
    return c in (SPACE, NEWLINE, TAB, RETURN)


@kernel
def is_plain_whole(data: Any, start: Any, stop: Any) -> bool:
    """Whether a number is written as an optional sign and digits only."""
    p = start + U1 if U(data[start]) in (MINUS, PLUS) else start
    while p < stop:
        if U(data[p]) - ZERO_BYTE > U9:
            return False
        p += U1
    return True


@kernel
def exact_whole(data: Any, start: Any, stop: Any, value: Any) -> Any:
    """(whether the number at `start` is whole and of size below 2⁶⁴, that size); `value` is the nearest double."""
    if not is_plain_whole(data, start, stop):
        fits = value == np.floor(value) and abs(value) < INEXACT_DOUBLE
        return fits, U(np.int64(abs(value))) if fits else U0
    p = start + U1 if U(data[start]) in (MINUS, PLUS) else start
    whole = U0
    while p < stop:
        digit = U(data[p]) - ZERO_BYTE
        if whole > MAX_TENS or (whole == MAX_TENS and digit > LAST_DIGIT):
            return False, U0
        whole = whole * U10 + digit
        p += U1
    return True, whole


@kernel
def parse_labels(data: Any, p: Any, labels: Any, count: int, exact: int) -> Any:
    """Parse numbers separated by commas into labels[count:].

    Returns (code, position after them, new count, number of large ones).
    If `exact` is SIGNED or UNSIGNED, all numbers must be whole, and the doubles hold the bits of an int64 or a uint64.
    Large ones are integers that do not fit: the text must be parsed again with the next value of `exact`.
    """
    large = 0
    while True:
        value, after = parse_number(data, p)
        if after == p:
            return BAD_LABEL, p, count, large
        if np.isinf(value):
            return NOT_FINITE, p, count, large
        if count >= labels.shape[0]:
            return FULL, p, count, large
        if exact != DOUBLES:
            fits, whole = exact_whole(data, p, after, value)
            if U(data[p]) == MINUS:
                fits = fits and (whole <= SIGN_BIT if exact == SIGNED else whole == U0)
                whole = U0 - whole
            elif exact == SIGNED and whole >= SIGN_BIT:
                large += 1
            if not fits:
                return NOT_WHOLE, p, count, large
            value = U(whole).view(np.float64)
        elif abs(value) >= INEXACT_DOUBLE:
            large += is_plain_whole(data, p, after)
        labels[count] = value
        count += 1
        if U(data[after]) != COMMA:
            return OK, after, count, large
        p = after + U1


@kernel
def parse_integer(data: Any, start: Any) -> Any:
    """Parse the digits at `start`: (value, position after them). The value is −1 for more than 18 digits."""
    count, short = leading_digits(word_at(data, start))
    if count < U8:
        return np.int64(short), start + count
    p = start
    value: Any = 0
    digit = U(data[p]) - ZERO_BYTE
    while digit <= U9:
        value = value * 10 + np.int64(digit)
        p += U1
        digit = U(data[p]) - ZERO_BYTE
    return (value if p - start <= U(18) else -1), p


@kernel
def insert_entries(indices: Any, values: Any, start: int, stop: int) -> None:
    """Sort a short row by index, in place, by insertion."""
    for i in range(start + 1, stop):
        index, value = indices[i], values[i]
        j = i
        while j > start and indices[j - 1] > index:
            indices[j] = indices[j - 1]
            values[j] = values[j - 1]
            j -= 1
        indices[j] = index
        values[j] = value


@kernel
def sort_entries(indices: Any, values: Any, start: int, stop: int) -> None:
    """Sort one row by index, in place and stably: by insertion if it is short, else by a radix sort of 6 bits.

    Hashed columns come in random order, in which the comparisons of other methods are mispredicted half of the time.
    """
    length = stop - start
    if length <= SHORT_ROW:
        insert_entries(indices, values, start, stop)
        return
    keys, amounts = np.empty(length, np.int64), np.empty(length, values.dtype)
    next_keys, next_amounts = np.empty(length, np.int64), np.empty(length, values.dtype)
    places = np.empty(64, np.int64)
    highest: Any = 0
    for i in range(length):  # plain loops: whole-array expressions take Numba seconds to compile
        keys[i] = indices[start + i] + 1  # svmlight's index 0 is −1 until the base is known
        amounts[i] = values[start + i]
        highest = max(highest, keys[i])
    shift = 0
    while highest >> shift > 0:
        for digit in range(64):
            places[digit] = 0
        for i in range(length):
            places[keys[i] >> shift & 63] += 1
        before = 0
        for digit in range(64):
            before, places[digit] = before + places[digit], before
        for i in range(length):
            own = keys[i] >> shift & 63
            place = places[own]
            places[own] = place + 1
            next_keys[place] = keys[i]
            next_amounts[place] = amounts[i]
        keys, next_keys = next_keys, keys
        amounts, next_amounts = next_amounts, amounts
        shift += 6
    for i in range(length):
        indices[start + i] = keys[i] - 1
        values[start + i] = amounts[i]
