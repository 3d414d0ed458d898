"""Monomials of an example, computed on the fly: all of degree two or three, or multiples of chosen parents.

A monomial is a multiset of columns. Its key is the sum of its columns' keys, which does not depend on the order of the
factors. Its slot is some bits of the scrambled key; the slot of a single column is the column itself. A feature of
value 1 is not multiplied by itself: its powers would be copies of it.

Parents (Agarwal et al. 2014, Algorithm 1): the features of an example are its columns and, for every parent that
occurs in it, that parent times every column. Products that are parents themselves are multiplied again. Several parents
can lead to the same monomial; only the one that was chosen first makes it, so that no monomial comes twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.online.monomial_keys import LARGEST, bounded, column_key, expand_pairs, expand_triples, slot_of

U = np.uintp
U64 = np.uint64
NONE, QUADRATIC, CUBIC, ADAPTIVE = range(4)
NO_EVIDENCE, SQUARES, PRODUCTS = range(3)

_ONE = U64(1)

#: A monomial has at most this many factors.
MAX_DEGREE = 8

#: No product of `MAX_DEGREE` values up to this is cut.
HARMLESS = np.float32(float(LARGEST) ** (1.0 / MAX_DEGREE))

#: Places of the memo, and the factor that spreads parents over them.
MEMO = 1 << 20
_SPREAD = 0x9E3779B1

#: Bits of the code of a product in the memo; the bits above are its number as a parent, plus one.
FIRST, FACTOR, CLASH, NUMBER = 1, 2, 4, 8


class ParentArrays(NamedTuple):
    """Parents in a form for kernels.

    places, numbers : open hash table from the keys of parents to their numbers; −1 for an empty place.
    keys, degrees, factors, factor_keys : of each parent its key, degree, columns, and the keys of those.
    is_parent_degree : for every degree whether a parent has it.
    """

    places: Any
    numbers: Any
    keys: Any
    degrees: Any
    factors: Any
    factor_keys: Any
    is_parent_degree: Any


class Expansion(NamedTuple):
    """Description of the monomials that are made. Arrays that an expansion does not need are empty.

    mask : number of slots, less one; the constant's slot comes after them.
    pairs, triples : symmetric arrays of 0 and 1, which namespaces are multiplied; empty where all are.
    parents : those of adaptive expansion.
    cuts : an array of one number, how many products were beyond `LARGEST`.
    origin : for every slot the first monomial that came to it, as (parent + 1) << 32 | (column + 1).
    clashes : how many monomials came to a slot that belongs to another one, and how many came in all.
    active : for every slot whether its monomial takes part in scores; the others are candidates. Empty where all do.
    evidence : for every slot's monomial m, sums over examples with derivative r and importance h: Σ h·r²·m² (`SQUARES`)
        or Σ h·r·m (`PRODUCTS`), then Σ h·m², then the largest |m|.
    evidence_kind : `NO_EVIDENCE`, `SQUARES` (of all monomials) or `PRODUCTS` (of candidates).
    memo : (places, 4), a cache of products of a parent with a column: parent + 1, column, slot, and a code that says
        whether no earlier parent makes the product, whether the column is a factor of the parent, whether the slot
        belongs to another monomial, and the product's own number as a parent. A later product replaces an earlier one
        at the same place; results do not depend on it.
    """

    kind: int
    mask: Any
    constant: Any
    pairs: Any
    triples: Any
    parents: Any
    cuts: Any
    origin: Any
    clashes: Any
    active: Any
    evidence: Any
    evidence_kind: int
    memo: Any


class Scratch(NamedTuple):
    """One example after its expansion.

    slots, values : of its monomials, then of the constant, then of the candidates.
    rates : learning rates of its features for every column, if there are several scores.
    entry_keys : keys of the example's own entries.
    waiting, waiting_values : numbers and values of the parents in it that are still to be multiplied.
    n_candidates : an array of one number.
    """

    slots: Any
    values: Any
    rates: Any
    entry_keys: Any
    waiting: Any
    waiting_values: Any
    n_candidates: Any


@kernel(borrows=True)
def find(key: Any, places: Any, numbers: Any) -> int:
    """The number of the parent with this key, or −1."""
    last = U64(places.shape[0] - 1)
    place = key & last
    while numbers[place] >= 0:
        if places[place] == key:
            return int(numbers[place])
        place = (place + _ONE) & last
    return -1


@kernel(borrows=True)
def note_origin(origin: Any, slot: Any, parent: int, column: Any) -> int:
    """Record the first monomial of a slot; returns 1 if the slot belongs to another monomial."""
    own = (np.int64(parent + 1) << 32) | np.int64(column + 1)
    if origin[U(slot)] == 0:
        origin[U(slot)] = own
    return 0 if origin[U(slot)] == own else 1


@kernel(borrows=True)
def is_first(parent: int, degree: int, key: Any, column: Any, parents: Any) -> bool:
    """Whether no earlier parent leads to the monomial `key`, which is `parent` times a column."""
    for f in range(degree):
        if parents.factors[parent, f] != column:
            other = find(key - parents.factor_keys[parent, f], parents.places, parents.numbers)
            if 0 <= other < parent:
                return False
    return True


@kernel(borrows=True)
def has_factor(parent: int, degree: int, column: Any, factors: Any) -> bool:
    """Whether a column is among a parent's factors."""
    found = False
    for f in range(degree):
        found = found or factors[parent, f] == column
    return found


@kernel(borrows=True)
def learn_child(memo: Any, place: Any, parent: int, column: Any, expansion: Any) -> None:
    """Compute slot and code of a parent times a column, and keep them in the memo."""
    parents = expansion.parents
    degree = int(parents.degrees[parent])
    column_bits = column_key(column)
    key = parents.keys[parent] + column_bits
    slot = slot_of(key, expansion.mask)
    if degree == 1:
        number = find(column_bits, parents.places, parents.numbers)
        first = not 0 <= number < parent
    else:
        first = is_first(parent, degree, key, column, parents)
    code = 0
    if first:
        code = FIRST + CLASH * note_origin(expansion.origin, slot, parent, column)
        if parents.is_parent_degree[degree + 1]:
            code += NUMBER * (find(key, parents.places, parents.numbers) + 1)
    if has_factor(parent, degree, column, parents.factors):
        code += FACTOR
    memo[place, 0], memo[place, 1], memo[place, 2], memo[place, 3] = parent + 1, column, slot, code


@kernel(borrows=True)
def waiting_entries(length: int, parents: Any, scratch: Any) -> int:
    """Put the example's own entries that are parents into `scratch.waiting`; returns their number."""
    count = 0
    for i in range(U(length)):
        number = find(scratch.entry_keys[i], parents.places, parents.numbers)
        if number >= 0:
            scratch.waiting[count], scratch.waiting_values[count] = number, scratch.values[i]
            count += 1
    return count


@kernel(borrows=True)
def expand_parents(rows: Any, start: int, length: int, expansion: Any, scratch: Any, count: int) -> int:
    """Append the products of the example's parents with its entries, except those that earlier parents make.

    Products that are parents themselves are multiplied again. One loop does all, as parents often have few products.
    """
    parents, memo, clashes = expansion.parents, expansion.memo, 0
    columns, slots, values = rows.columns, scratch.slots, scratch.values
    waiting, waiting_values = scratch.waiting, scratch.waiting_values
    if memo.shape[0] == 0:
        return count
    n_waiting = waiting_entries(length, parents, scratch)
    last, one, begin, done = U(memo.shape[0] - 1), np.float32(1.0), count, 0
    while done < n_waiting:
        parent, value = int(waiting[done]), waiting_values[done]
        spread = U(parent) * U(_SPREAD)
        done += 1
        for i in range(U(length)):
            column, x = columns[U(start) + i], values[i]
            place = (U(column) + spread) & last
            if memo[place, 0] != parent + 1 or memo[place, 1] != column:
                if x == one and has_factor(parent, int(parents.degrees[parent]), column, parents.factors):
                    continue
                learn_child(memo, place, parent, column, expansion)
            code = int(memo[place, 3])
            if code & FIRST == 0 or (x == one and code & FACTOR):
                continue
            product = bounded(value * x)
            slots[count], values[count] = memo[place, 2], product
            clashes += code & CLASH
            if code >= NUMBER:
                waiting[n_waiting], waiting_values[n_waiting] = code // NUMBER - 1, product
                n_waiting += 1
            count += 1
    expansion.clashes[0] += clashes // CLASH
    expansion.clashes[1] += count - begin
    return count


@kernel(borrows=True)
def set_candidates_apart(active: Any, slots: Any, values: Any, first: int, count: int) -> int:
    """Move candidates behind the monomials that take part in scores; returns the number of the latter."""
    kept = first
    for p in range(first, count):
        if active[slots[p]]:
            slot, value = slots[p], values[p]
            slots[p], values[p] = slots[kept], values[kept]
            slots[kept], values[kept] = slot, value
            kept += 1
    return kept


@kernel(borrows=True)
def note_evidence(expansion: Any, scratch: Any, count: int, derivative: float, h: float) -> None:
    """Add an example to the evidence of its monomials: of all for `SQUARES`, of the candidates only for `PRODUCTS`.

    Candidates, if there are any, come after the constant, which is at count − 1 and has no evidence.
    """
    first = 0 if expansion.evidence_kind == SQUARES else count
    last = count + scratch.n_candidates[0] if expansion.active.shape[0] > 0 else count
    for p in range(first, last):
        if p == count - 1:
            continue
        slot, m = scratch.slots[p], wide(scratch.values[p])
        gain = derivative * derivative * m * m if expansion.evidence_kind == SQUARES else derivative * m
        expansion.evidence[slot, 0] += h * gain
        expansion.evidence[slot, 1] += h * m * m
        expansion.evidence[slot, 2] = max(expansion.evidence[slot, 2], abs(m))


@kernel(borrows=True)
def make_room_for_constant(scratch: Any, count: int, total: int) -> None:
    """Move the first candidate behind the last one."""
    scratch.n_candidates[0] = total - count
    scratch.slots[total], scratch.values[total] = scratch.slots[count], scratch.values[count]


@kernel(borrows=True)
def count_cuts(values: Any, first: int, last: int, largest: Any, cuts: Any) -> None:
    """Count the products that were clipped to ±`LARGEST`, in a row whose largest value is `largest`."""
    if largest > HARMLESS:
        for p in range(first, last):
            cuts[0] += abs(values[p]) >= LARGEST


@kernel(borrows=True)
def copy_row(rows: Any, i: int, expansion: Any, scratch: Any) -> int:
    """Write slots and values of row i without products, the constant last; returns their number."""
    slots, values = scratch.slots, scratch.values
    begin, length = U(rows.starts[i]), U(rows.starts[i + 1] - rows.starts[i])
    for p in range(length):
        slots[p] = rows.columns[begin + p] & expansion.mask
        values[p] = rows.values[begin + p]
    slots[length] = expansion.constant
    values[length] = np.float32(1.0)
    return int(length) + 1


@kernel(borrows=True)
def expand(rows: Any, i: int, expansion: Any, scratch: Any) -> int:
    """Write slots and values of all features of row i, the constant last; returns their number."""
    start = rows.starts[i]
    length = int(rows.starts[i + 1] - start)
    largest = np.float32(0.0)
    for p in range(length):
        column = rows.columns[start + p]
        scratch.slots[p] = column & expansion.mask
        scratch.values[p] = bounded(rows.values[start + p])
        scratch.entry_keys[p] = column_key(column)
        largest = max(largest, abs(scratch.values[p]))
    count = length
    if expansion.kind == ADAPTIVE:
        expansion.clashes[1] += length
        for p in range(length):
            expansion.clashes[0] += note_origin(expansion.origin, scratch.slots[p], -1, rows.columns[start + p])
        count = expand_parents(rows, start, length, expansion, scratch, count)
        count_cuts(scratch.values, length, count, largest, expansion.cuts)
        if expansion.active.shape[0] > 0:
            total = count
            count = set_candidates_apart(expansion.active, scratch.slots, scratch.values, length, count)
            make_room_for_constant(scratch, count, total)
    else:
        count = expand_pairs(rows, start, length, expansion, scratch, count)
        if expansion.kind == CUBIC:
            count = expand_triples(rows, start, length, expansion, scratch, count)
        count_cuts(scratch.values, length, count, largest, expansion.cuts)
    scratch.slots[count] = expansion.constant
    scratch.values[count] = np.float32(1.0)
    return count + 1


@kernel(forceinline=True, borrows=True)
def example(rows: Any, i: int, expansion: Any, scratch: Any) -> int:
    """Write the features of row i to `scratch`, with products if there are any; returns their number."""
    if expansion.kind == NONE:
        return copy_row(rows, i, expansion, scratch)
    return expand(rows, i, expansion, scratch)
