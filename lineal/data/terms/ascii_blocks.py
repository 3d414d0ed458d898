"""64 bytes of text at a time: lower the capital letters of ASCII, and find word characters and other than ASCII.

Bytes become bits of a word, the first byte the lowest bit, so the ends of words are found without a branch for every
byte. The idea is that of Langdale & Lemire, "Parsing gigabytes of JSON per second", 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN, kernel
from lineal.core.numba_internals import settings
from lineal.core.simd import pointer, splat, vector_at
from lineal.data.text.byte_words import U0, U1, U

#: Bytes in a block.
BLOCK = 64

#: Whether every access is checked (``NUMBA_BOUNDSCHECK=1``): then kernels read byte by byte, through arrays.
IS_CHECKED = bool(settings.BOUNDSCHECK)

U64 = U(BLOCK)
LETTERS, DIGITS, CASE, LAST_ASCII = U(26), U(10), U(32), U(127)
LETTER_A, CAPITAL_A, ZERO, UNDERSCORE = U(97), U(65), U(48), U(95)


@kernel
def block_by_bytes(data: Any, p: Any, out: Any, q: Any, fold: Any) -> Any:
    """Copy data[p:p+64] to out[q:q+64], capital letters plus `fold`; returns the bits of (words, other than ASCII)."""
    words, others, bit, i = U0, U0, U1, U0
    while i < U64:
        byte = U(data[p + i])
        is_capital = byte - CAPITAL_A < LETTERS
        if (byte | CASE) - LETTER_A < LETTERS or byte - ZERO < DIGITS or byte == UNDERSCORE:
            words |= bit
        if byte > LAST_ASCII:
            others |= bit
        out[q + i] = np.uint8(byte + U(fold)) if is_capital else np.uint8(byte)
        bit = bit << U1
        i += U1
    return words, others


@intrinsic
def _block(typing: Any, data: Any, p: Any, out: Any, q: Any, fold: Any) -> Any:
    pair = types.UniTuple(types.uint64, 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data_, p_, out_, q_, fold_ = arguments
        vector, bits = ir.VectorType(ir.IntType(8), BLOCK), ir.IntType(BLOCK)

        def all_of(value: int) -> Any:
            return ir.Constant(vector, [value] * BLOCK)

        def within(values: Any, first: int, count: int) -> Any:
            return builder.icmp_unsigned("<", builder.sub(values, all_of(first)), all_of(count))

        block = builder.load(vector_at(builder, pointer(context, builder, data, data_), p_, vector), align=1)
        is_letter = within(builder.or_(block, all_of(32)), 97, 26)
        is_other_word = builder.or_(within(block, 48, 10), builder.icmp_unsigned("==", block, all_of(95)))
        words = builder.bitcast(builder.or_(is_letter, is_other_word), bits)
        others = builder.bitcast(builder.icmp_signed("<", block, all_of(0)), bits)
        added = builder.select(within(block, 65, 26), splat(builder, fold_, vector), all_of(0))
        place = vector_at(builder, pointer(context, builder, out, out_), q_, vector)
        builder.store(builder.add(block, added), place, align=1)
        return context.make_tuple(builder, pair, [words, others])

    return pair(data, types.uint64, out, types.uint64, types.uint8), generate


#: block(data, p, out, q, fold) is what `block_by_bytes` says. Both blocks must lie in their arrays.
block: Any = block_by_bytes if IS_PLAIN or IS_CHECKED else _block
