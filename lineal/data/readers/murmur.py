"""MurmurHash3 x86_32 (Appleby, public domain), and Vowpal Wabbit's hash of a name made from it.

All arithmetic is in uint64 with masks, the same in kernels and in plain Python.
"""

from __future__ import annotations

from typing import Any

from lineal.core.jit import kernel
from lineal.data.readers.numbers import LOW_32, U0, U1, U9, U10, ZERO_BYTE, U

C1, C2 = U(0xCC9E2D51), U(0x1B873593)
FIVE, ADDEND = U(5), U(0xE6546B64)
FINAL_1, FINAL_2 = U(0x85EBCA6B), U(0xC2B2AE35)
U2, U3, U4, U8, U13, U15, U16, U24, U32 = (U(n) for n in (2, 3, 4, 8, 13, 15, 16, 24, 32))


@kernel
def rotate_left(x: Any, count: Any) -> Any:
    """Rotate 32 bits."""
    return ((x << count) | (x >> (U32 - count))) & LOW_32


@kernel
def scramble(word: Any) -> Any:
    """What happens to each 32-bit word before it enters the hash."""
    return rotate_left(word * C1 & LOW_32, U15) * C2 & LOW_32


@kernel
def murmur3_32(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The 32-bit hash of data[start:stop] as a uint64; positions and seed are uint64 too."""
    h = seed & LOW_32
    p = start
    while p + U4 <= stop:
        word = U(data[p]) | U(data[p + U1]) << U8 | U(data[p + U2]) << U16 | U(data[p + U3]) << U24
        h = rotate_left(h ^ scramble(word), U13) * FIVE + ADDEND & LOW_32
        p += U4
    tail, shift = U0, U0
    while p < stop:
        tail |= U(data[p]) << shift
        shift += U8
        p += U1
    h ^= scramble(tail) ^ (stop - start)
    h = (h ^ h >> U16) * FINAL_1 & LOW_32
    h = (h ^ h >> U13) * FINAL_2 & LOW_32
    return h ^ h >> U16


@kernel
def hash_name(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """VW's hash of a name: a whole number stands for itself, any other text is hashed; `seed` is the namespace's."""
    number = U0
    p = start
    while p < stop:
        digit = U(data[p]) - ZERO_BYTE
        if digit > U9:
            return murmur3_32(data, start, stop, seed)
        number = number * U10 + digit
        p += U1
    return number + seed
