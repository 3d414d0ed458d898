"""Keys and slots of monomials, and the expansion of a row by all products of two or three entries.

A monomial is a multiset of columns. Its key is the sum of the keys of its columns, in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.rng import mix

U64 = np.uint64
_STEP = U64(0x9E3779B97F4A7C15)
_ONE = U64(1)

#: Values of monomials are cut to ± this, so that their inverses are normal numbers in float32.
LARGEST = np.float32(1e30)


@kernel
def column_key(column: Any) -> Any:
    """Key of a column, 64 bits."""
    return mix((U64(column) + _ONE) * _STEP)


@kernel
def slot_of(key: Any, mask: Any) -> Any:
    """The slot of a monomial of several factors."""
    return np.int32(mix(key) & U64(mask))


@kernel
def bounded(value: Any) -> Any:
    """Value clipped to ±`LARGEST`."""
    return min(max(value, -LARGEST), LARGEST)


@kernel(borrows=True)
def expand_pairs(rows: Any, start: int, length: int, expansion: Any, scratch: Any, count: int) -> int:
    """Append the products of two entries."""
    everything = expansion.pairs.shape[0] == 0
    for i in range(length):
        key, x = scratch.entry_keys[i], scratch.values[i]
        for j in range(i, length):
            if i == j and x == np.float32(1.0):
                continue
            if not everything and not expansion.pairs[rows.kinds[start + i], rows.kinds[start + j]]:
                continue
            scratch.slots[count] = slot_of(key + scratch.entry_keys[j], expansion.mask)
            scratch.values[count] = bounded(x * scratch.values[j])
            count += 1
    return count


@kernel(borrows=True)
def expand_triples(rows: Any, start: int, length: int, expansion: Any, scratch: Any, count: int) -> int:
    """Append the products of three entries."""
    everything = expansion.triples.shape[0] == 0
    one = np.float32(1.0)
    for i in range(length):
        x = scratch.values[i]
        for j in range(i, length):
            if i == j and x == one:
                continue
            key, xy = scratch.entry_keys[i] + scratch.entry_keys[j], x * scratch.values[j]
            for k in range(j, length):
                z = scratch.values[k]
                if j == k and z == one:
                    continue
                if not everything:
                    a, b, c = rows.kinds[start + i], rows.kinds[start + j], rows.kinds[start + k]
                    if not expansion.triples[a, b, c]:
                        continue
                scratch.slots[count] = slot_of(key + scratch.entry_keys[k], expansion.mask)
                scratch.values[count] = bounded(xy * z)
                count += 1
    return count
