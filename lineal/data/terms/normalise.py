"""Lower a document, strip its accents, and find its words, or the characters that n-grams are made of.

Bytes that are not UTF-8 count as U+FFFD, one for each byte, which is neither a letter nor white space.
"""

from __future__ import annotations

from typing import Any

from lineal.core.jit import kernel
from lineal.data.terms import characters as tables
from lineal.data.terms.ascii_blocks import BLOCK, block
from lineal.data.terms.state import MARGIN, NEEDS_PAGE, NEEDS_SCRATCH, PAGE
from lineal.data.text.byte_words import U0, U1, U3, U8, U63, U64, U, count_trailing_zeros

U2, U4, U6, U12, U18 = (U(n) for n in (2, 4, 6, 12, 18))
ALL_ONES = U(0xFFFFFFFFFFFFFFFF)
FAILED = ALL_ONES
CODE_POINT, WORD, SPACE, MANY = U(tables.CODE_POINT), U(tables.WORD), U(tables.SPACE), U(tables.MANY)
SIGMA, CASED, IGNORABLE = U(tables.SIGMA), U(tables.CASED), U(tables.IGNORABLE)
ROOM = U(MARGIN)
LOW_8, LOW_6 = U(255), U(0x3F)
TWO, THREE, FOUR, PAST = U(0xC2), U(0xE0), U(0xF0), U(0xF5)
REPLACEMENT = U(0xFFFD)
B7, B11, B16, END = U(0x80), U(0x800), U(0x10000), U(0x110000)
BLANK = U(32)
NO_ENTRY = U(0xFFFFFFFF)
BLOCK_SIZE = U(BLOCK)


@kernel
def decode(data: Any, p: Any, stop: Any) -> Any:
    """The character at p and its number of bytes; U+FFFD and 1 if it is none."""
    first = U(data[p])
    if first < B7:
        return first, U1
    length = U2 if first < THREE else U3 if first < FOUR else U4
    if first < TWO or first >= PAST or p + length > stop:
        return REPLACEMENT, U1
    value = first & (LOW_8 >> (length + U1))
    for i in range(U1, length):
        byte = U(data[p + i])
        if byte >> U6 != U2:
            return REPLACEMENT, U1
        value = value << U6 | (byte & LOW_6)
    if (length == U3 and value < B11) or (length == U4 and (value < B16 or value >= END)):
        return REPLACEMENT, U1
    return value, length


@kernel
def encode(out: Any, q: Any, c: Any) -> Any:
    """Write a character in UTF-8; returns the place after it."""
    if c < B7:
        out[q] = c
        return q + U1
    if c < B11:
        out[q] = TWO - U2 | c >> U6
        out[q + U1] = B7 | (c & LOW_6)
        return q + U2
    if c < B16:
        out[q] = THREE | c >> U12
        out[q + U1] = B7 | (c >> U6 & LOW_6)
        out[q + U2] = B7 | (c & LOW_6)
        return q + U3
    out[q] = FOUR | c >> U18
    out[q + U1] = B7 | (c >> U12 & LOW_6)
    out[q + U2] = B7 | (c >> U6 & LOW_6)
    out[q + U3] = B7 | (c & LOW_6)
    return q + U4


@kernel(forceinline=True, borrows=True)
def entry_of(characters: Any, c: Any, progress: Any) -> Any:
    """The entry of a character, or NO_ENTRY if its page is missing, which `progress` then names."""
    page = characters.pages[c >> U8]
    if page < 0:
        progress[PAGE] = c >> U8
        return NO_ENTRY
    return U(characters.entries[(U(page) << U8) + (c & LOW_8)])


@kernel(borrows=True)
def is_after_letter(data: Any, start: Any, p: Any, characters: Any, progress: Any) -> Any:
    """1 if a cased letter comes before p, and then only characters that do not count; 0 if not; NO_ENTRY: no page."""
    entry, at = IGNORABLE, p
    while at > start and entry & IGNORABLE:
        at -= U1
        while at > start and U(data[at]) >> U6 == U2 and p - at < U4:
            at -= U1
        c, length = decode(data, at, p)
        if length != p - at:  # bytes that are not UTF-8
            c, at = REPLACEMENT, p - U1
        entry = entry_of(characters, c, progress)
        if entry == NO_ENTRY:
            return NO_ENTRY
        p = at
    return U1 if entry & CASED else U0


@kernel(borrows=True)
def is_before_letter(data: Any, p: Any, stop: Any, characters: Any, progress: Any) -> Any:
    """1 if a cased letter follows at p, after characters that do not count; 0 if not; NO_ENTRY: no page."""
    while p < stop:
        c, length = decode(data, p, stop)
        entry = entry_of(characters, c, progress)
        if entry == NO_ENTRY:
            return NO_ENTRY
        if not entry & IGNORABLE:
            return U1 if entry & CASED else U0
        p += length
    return U0


@kernel(borrows=True)
def entry_at(data: Any, start: Any, p: Any, stop: Any, characters: Any, progress: Any) -> Any:
    """The entry of the character at p, the right one of a sigma, and its number of bytes."""
    c, length = decode(data, p, stop)
    entry = entry_of(characters, c, progress)
    if entry != NO_ENTRY and entry & SIGMA:
        place = is_after_letter(data, start, p, characters, progress)  # 1 in the pool is the final sigma
        if place == U1:
            follows = is_before_letter(data, p + length, stop, characters, progress)
            place = follows if follows == NO_ENTRY else U1 - follows
        entry = place if place == NO_ENTRY else MANY | place
    return entry, length


@kernel(forceinline=True)
def push_bits(bits: Any, q: Any, mask: Any) -> None:
    """Set the bits from q on; those above the mask become 0."""
    i, shift = q >> U6, q & U63
    bits[i] |= mask << shift
    bits[i + U1] = (mask >> (U63 - shift)) >> U1


@kernel(borrows=True)
def normalise_words(text: Any, row: Any, characters: Any, fold: Any, scratch: Any, progress: Any) -> Any:
    """Write a document to `scratch.text`, and which bytes are in words to `scratch.bits`: (length, DONE or what lacks).

    `fold` is 32 to lower capital letters, else 0.
    """
    data, out, bits = text.data, scratch.text, scratch.bits
    start, stop = U(text.offsets[row]), U(text.offsets[row + U1])
    end, room = U(data.shape[0]), U(out.shape[0])
    p, q = start, U0
    bits[U0] = U0
    while p < stop:
        if q + ROOM > room:
            return q, NEEDS_SCRATCH
        if p + BLOCK_SIZE <= end:
            words, others = block(data, p, out, q, fold)
            length = min(count_trailing_zeros(others), stop - p)
            if length > U0:
                push_bits(bits, q, words & (ALL_ONES >> (U64 - length)))
                p += length
                q += length
                continue
        entry, length = entry_at(data, start, p, stop, characters, progress)
        if entry == NO_ENTRY:
            return q, NEEDS_PAGE
        p += length
        if entry & MANY:
            place = entry & CODE_POINT
            for i in range(characters.pool_starts[place], characters.pool_starts[place + U1]):
                q = put_word_character(out, bits, q, U(characters.pool[i]))
        else:
            q = put_word_character(out, bits, q, entry)
    return q, U0


@kernel
def put_word_character(out: Any, bits: Any, q: Any, entry: Any) -> Any:
    """Write a character and its bits; returns the place after it."""
    after = encode(out, q, entry & CODE_POINT)
    push_bits(bits, q, (U1 << (after - q)) - U1 if entry & WORD else U0)
    return after


@kernel(borrows=True)
def cut_words(scratch: Any, q: Any) -> Any:
    """Find the words of two characters or more in q bytes; word i is text[edges[2i]:edges[2i + 1]]. Their number."""
    text, bits, edges = scratch.text, scratch.bits, scratch.edges
    n, carry = U0, U0
    for i in range((q >> U6) + U1):
        here = bits[i]
        changes = here ^ (here << U1 | carry)
        carry = here >> U63
        base = U(i) << U6
        while changes:
            edges[n] = base + count_trailing_zeros(changes)
            changes &= changes - U1
            n += U1
    kept = U0
    for i in range(U0, n, U2):
        begin, stop = U(edges[i]), U(edges[i + U1])
        first = U(text[begin])
        width = U1 if first < B7 else U2 if first < THREE else U3 if first < FOUR else U4
        edges[kept] = begin
        edges[kept + U1] = stop
        kept += U2 if stop - begin > width else U0
    return kept >> U1


@kernel(borrows=True)
def normalise_characters(text: Any, row: Any, characters: Any, between_words: bool, scratch: Any, progress: Any) -> Any:
    """Write a document to `scratch.text` and where its characters begin to `scratch.edges`: (their number, status).

    Two or more characters of white space become a blank. With `between_words` white space becomes one blank, and there
    is one before the first word and after the last one.
    """
    data, out, edges = text.data, scratch.text, scratch.edges
    start, stop = U(text.offsets[row]), U(text.offsets[row + U1])
    room = U(out.shape[0])
    p, q, n, gap = start, U0, U0, FAILED  # gap: where the white space began that we are in
    if between_words:
        out[U0] = BLANK
        edges[U0] = U0
        q, n, gap = U1, U1, U0
    while p < stop:
        if q + ROOM > room:
            return n, NEEDS_SCRATCH
        entry, length = entry_at(data, start, p, stop, characters, progress)
        if entry == NO_ENTRY:
            return n, NEEDS_PAGE
        p += length
        if not entry & MANY and not entry & SPACE:
            edges[n] = q
            n += U1
            gap = FAILED
            q = encode(out, q, entry & CODE_POINT)
            continue
        first = U(characters.pool_starts[entry & CODE_POINT]) if entry & MANY else U0
        last = U(characters.pool_starts[(entry & CODE_POINT) + U1]) if entry & MANY else U1
        for i in range(first, last):
            c = U(characters.pool[i]) if entry & MANY else entry
            if c & SPACE and gap != FAILED:
                out[gap] = BLANK
                q = gap + U1
                continue
            gap = q if c & SPACE else FAILED
            edges[n] = q
            n += U1
            q = encode(out, q, BLANK if c & SPACE and between_words else c & CODE_POINT)
    if between_words and gap == FAILED:
        out[q] = BLANK
        edges[n] = q
        q += U1
        n += U1
    edges[n] = q
    return n, U0
