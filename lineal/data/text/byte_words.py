"""Eight bytes of text at a time: the end of a name, or the value of a few digits, without a branch for every byte.

The lengths of names and numbers vary, so branches for every byte are mispredicted. The method is that of Lemire,
"Number parsing at a gigabyte per second", 2021, section 3; the tests for bytes are those of Warren's Hacker's Delight,
section 6-1.

A word holds the first byte lowest. A test marks the high bit of the bytes that pass it. Above the lowest mark there may
be false marks, so only the lowest one counts.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN, kernel

U = np.uint64
U0, U1, U3, U8, U10, U16, U32, U56, U63, U64 = (U(n) for n in (0, 1, 3, 8, 10, 16, 32, 56, 63, 64))
EACH = 0x0101010101010101
ONES, HIGH_BITS = U(EACH), U(0x80 * EACH)
ZERO_DIGITS, ABOVE_NINE = U(ord("0") * EACH), U((0x80 - 10) * EACH)
BLANKS, COLONS, BARS = U((ord(" ") + 1) * EACH), U(ord(":") * EACH), U(ord("|") * EACH)
PAIRS, FIRST_PAIRS, LAST_PAIRS = U(0x000000FF000000FF), U(100 + (1000000 << 32)), U(1 + (10000 << 32))
NEWLINE = U(ord("\n"))


@kernel
def gather_bytes(data: Any, p: Any) -> Any:
    """The word at p, read byte by byte, with newlines for the bytes beyond the end."""
    word, shift = U0, U0
    end = U(data.shape[0])
    while shift < U64:
        word |= (U(data[p]) if p < end else NEWLINE) << shift
        shift += U8
        p += U1
    return word


@intrinsic
def _load(typing: Any, data: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = context.make_array(data)(context, builder, value=arguments[0]).data
        place = builder.bitcast(builder.gep(pointer, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.uint64), generate


@intrinsic
def _cttz(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


def _plain_cttz(word: Any) -> Any:
    return U((int(word) & -int(word)).bit_length() - 1) if word else U64


#: load_word(data, p) is the word at p, all of which must lie in the array.
load_word: Any = gather_bytes if IS_PLAIN or sys.byteorder != "little" else _load

#: count_trailing_zeros(word) is the number of zero bits below the lowest one bit; 64 for the word 0.
count_trailing_zeros: Any = _plain_cttz if IS_PLAIN else _cttz


@kernel(forceinline=True)
def word_at(data: Any, p: Any) -> Any:
    """The eight bytes from p on, with newlines for those beyond the end."""
    if p + U8 <= U(data.shape[0]):
        return load_word(data, p)
    return gather_bytes(data, p)


@kernel(forceinline=True)
def leading_digits(word: Any) -> Any:
    """The digits that the word begins with: (how many, their value). The value of eight digits is arbitrary."""
    digits = word ^ ZERO_DIGITS
    count = count_trailing_zeros(((digits + ABOVE_NINE) | digits) & HIGH_BITS) >> U3
    digits = digits << (U56 - (count << U3) & U63) << U8  # zeros before them make eight digits
    digits = digits * U10 + (digits >> U8)  # every other byte is now a pair of digits
    return count, ((digits & PAIRS) * FIRST_PAIRS + (digits >> U16 & PAIRS) * LAST_PAIRS) >> U32


@kernel(forceinline=True)
def name_marks(word: Any) -> Any:
    """Mark the bytes that can end a name: blanks and all control characters, colons and bars."""
    colons, bars = word ^ COLONS, word ^ BARS
    marks = (word - BLANKS) & ~word
    marks |= (colons - ONES) & ~colons
    marks |= (bars - ONES) & ~bars
    return marks & HIGH_BITS
