"""MurmurHash3 x86_32 (Appleby, public domain), and the hash of a name that Vowpal Wabbit makes with it.

All arithmetic is in uint64 with masks, the same in kernels and in plain Python.
"""

from __future__ import annotations

from typing import Any

from lineal.core.jit import kernel
from lineal.data.text.byte_words import word_at
from lineal.data.text.numbers import LOW_32, U0, U1, U9, U10, ZERO_BYTE, U

C1, C2 = U(0xCC9E2D51), U(0x1B873593)
FIVE, ADDEND = U(5), U(0xE6546B64)
FINAL_1, FINAL_2 = U(0x85EBCA6B), U(0xC2B2AE35)
U4, U8, U13, U15, U16, U32 = (U(n) for n in (4, 8, 13, 15, 16, 32))


@kernel
def rotate_left(x: Any, count: Any) -> Any:
    """Rotate 32 bits."""
    return ((x << count) | (x >> (U32 - count))) & LOW_32


@kernel
def scramble(word: Any) -> Any:
    """Scramble a 32-bit word before it enters the hash."""
    return rotate_left(word * C1 & LOW_32, U15) * C2 & LOW_32


@kernel
def mix_word(h: Any, word: Any) -> Any:
    """The hash after another word."""
    return rotate_left(h ^ scramble(word), U13) * FIVE + ADDEND & LOW_32


@kernel
def finalise(h: Any, tail: Any, length: Any) -> Any:
    """The final hash, after the last, incomplete word."""
    h ^= scramble(tail) ^ length
    h = (h ^ h >> U16) * FINAL_1 & LOW_32
    h = (h ^ h >> U13) * FINAL_2 & LOW_32
    return h ^ h >> U16


@kernel
def murmur3_of_word(word: Any, length: Any, seed: Any) -> Any:
    """The hash of the first `length` bytes of a word, at most seven, without a branch."""
    text = word & ((U1 << length * U8) - U1)
    h = seed & LOW_32
    mixed = mix_word(h, text & LOW_32)
    is_long = length >= U4
    return finalise(mixed if is_long else h, text >> U32 if is_long else text, length)


@kernel
def murmur3_32(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The 32-bit hash of data[start:stop] as a uint64; positions and seed are uint64 too."""
    h = seed & LOW_32
    p = start
    while p + U4 <= stop:
        h = mix_word(h, word_at(data, p) & LOW_32)
        p += U4
    return finalise(h, word_at(data, p) & ((U1 << (stop - p) * U8) - U1), stop - start)


@kernel
def hash_name(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """VW's hash of a name: an integer stands for itself, any other text is hashed; `seed` is the namespace's."""
    number = U0
    p = start
    while p < stop:
        digit = U(data[p]) - ZERO_BYTE
        if digit > U9:
            return murmur3_32(data, start, stop, seed)
        number = number * U10 + digit
        p += U1
    return number + seed
