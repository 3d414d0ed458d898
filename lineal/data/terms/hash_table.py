"""Numbers for terms: two tables with open addressing, one of texts and one of pairs (a term, and a word after it).

A slot is two words: the key, 0 if it is free, and ``number << 32 | place of the term's last entry``. The key of a text
of up to 7 bytes is the text itself and its length. That of a longer one is its hash, and the text is compared too: no
two terms ever share a number. An n-gram of words is the pair of the n-gram before its last word and that word, so that
its key is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data.terms.ascii_blocks import IS_CHECKED
from lineal.data.text.byte_words import U0, U1, U8, U56, U, gather_bytes, load_word

U2, U7, U29, U32 = (U(n) for n in (2, 7, 29, 32))
LOW_32 = U(0xFFFFFFFF)
LONG = U(0x80 << 56)
K1, K2 = U(0x9E3779B97F4A7C15), U(0xD6E8FEB86659FD93)
MASKS = np.array([(1 << 8 * length) - 1 for length in range(8)], np.uint64)

#: A word of text, all of which lies in the array.
load: Any = gather_bytes if IS_CHECKED else load_word

#: Slots of a new table.
SMALLEST = 1 << 12


class Terms(NamedTuple):
    """Texts by number: text i is arena[stops[i]:stops[i + 1]], and in df[i] documents. A third of the slots is free."""

    slots: Any
    shift: Any
    arena: Any
    stops: Any
    df: Any


class Pairs(NamedTuple):
    """Pairs by number: their keys, and the number of documents."""

    slots: Any
    shift: Any
    keys: Any
    df: Any


def slots_for(count: int) -> tuple[np.ndarray, np.uint64]:
    """Free slots for that many terms, and the shift that makes a place of a hash."""
    bits = max((3 * count // 2).bit_length(), SMALLEST.bit_length() - 1)
    return np.zeros(2 << bits, np.uint64), np.uint64(64 - bits)


@kernel(forceinline=True)
def place_of(key: Any, shift: Any) -> Any:
    """The first slot to try for a key."""
    h = key * K1
    h ^= h >> U32
    return h * K2 >> shift


@kernel(borrows=True)
def key_of(text: Any, start: Any, stop: Any) -> Any:
    """The key of text[start:stop], which is not empty; seven more bytes must be in the array."""
    length = stop - start
    if length <= U7:
        return load(text, start) & MASKS[length] | length << U56
    h, p = length * K1, start
    while p + U8 <= stop:
        h = (h ^ load(text, p)) * K2
        h ^= h >> U29
        p += U8
    h = (h ^ load(text, stop - U8)) * K1
    h ^= h >> U32
    return h * K2 >> U8 | LONG


@kernel(borrows=True)
def are_equal(one: Any, p: Any, other: Any, q: Any, length: Any) -> bool:
    """Whether `length` ≥ 8 bytes are equal."""
    i = U0
    while i + U8 <= length:
        if load(one, p + i) != load(other, q + i):
            return False
        i += U8
    return load(one, p + length - U8) == load(other, q + length - U8)


@kernel(borrows=True)
def slot_of_text(terms: Any, key: Any, text: Any, start: Any, stop: Any) -> Any:
    """Index of the slot that has this text, or of the free one that it belongs to."""
    last = U(terms.slots.shape[0]) - U2
    s = place_of(key, terms.shift) * U2
    while True:
        found = terms.slots[s]
        if found == U0:
            return s
        if found == key:
            if key < LONG:
                return s
            number = terms.slots[s + U1] >> U32
            begin, end = terms.stops[number], terms.stops[number + U1]
            if end - begin == stop - start and are_equal(terms.arena, begin, text, start, stop - start):
                return s
        s = s + U2 & last


@kernel(borrows=True)
def add_text(terms: Any, s: Any, key: Any, text: Any, start: Any, stop: Any, number: Any) -> None:
    """Put a text into its free slot, as the next number; the caller has made sure that there is room."""
    terms.slots[s] = key
    terms.slots[s + U1] = number << U32
    at = terms.stops[number]
    for i in range(stop - start):
        terms.arena[at + i] = text[start + i]
    terms.stops[number + U1] = at + (stop - start)
    terms.df[number] = 0


@kernel(forceinline=True)
def key_of_pair(node: Any, word: Any) -> Any:
    """The key of a pair: of a term, by its code, and the number of a word."""
    return (node << U32 | word) + U1


@kernel(borrows=True)
def slot_of_pair(slots: Any, shift: Any, key: Any) -> Any:
    """Index of the slot that has this pair, or of the free one that it belongs to."""
    last = U(slots.shape[0]) - U2
    s = place_of(key, shift) * U2
    while True:
        found = slots[s]
        if found == U0 or found == key:  # noqa: SIM109
            return s
        s = s + U2 & last


@kernel(borrows=True)
def rehash(old: Any, new: Any, shift: Any) -> None:
    """Fill the slots of a larger table; keys of texts may be equal, so each is put into a free slot."""
    last = U(new.shape[0]) - U2
    for i in range(U0, U(old.shape[0]), U2):
        if old[i] != U0:
            s = place_of(old[i], shift) * U2
            while new[s] != U0:
                s = s + U2 & last
            new[s] = old[i]
            new[s + U1] = old[i + U1]


def new_terms(count: int, arena: int) -> Terms:
    """Room for that many texts with that many bytes."""
    slots, shift = slots_for(count)
    room = len(slots) // 3
    return Terms(slots, shift, np.empty(arena + 8, np.uint8), np.zeros(room + 1, np.uint64), np.zeros(room, np.uint32))


def new_pairs(count: int) -> Pairs:
    """Room for that many pairs."""
    slots, shift = slots_for(count)
    room = len(slots) // 3
    return Pairs(slots, shift, np.empty(room, np.uint64), np.zeros(room, np.uint32))


def more_terms(terms: Terms, count: int) -> Terms:
    """The same texts with room for at least `count`."""
    slots, shift = slots_for(count)
    rehash(terms.slots, slots, shift)
    room = len(slots) // 3
    return Terms(slots, shift, terms.arena, longer(terms.stops, room + 1), longer(terms.df, room))


def more_arena(terms: Terms, size: int) -> Terms:
    """The same texts with room for at least `size` bytes."""
    return terms._replace(arena=longer(terms.arena, size + 8))


def more_pairs(pairs: Pairs, count: int) -> Pairs:
    """The same pairs with room for at least `count`."""
    slots, shift = slots_for(count)
    rehash(pairs.slots, slots, shift)
    room = len(slots) // 3
    return Pairs(slots, shift, longer(pairs.keys, room), longer(pairs.df, room))


def longer(array: np.ndarray, size: int) -> np.ndarray:
    """A longer array that begins with this one."""
    new = np.empty(size, array.dtype)
    new[: len(array)] = array
    return new
