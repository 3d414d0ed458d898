"""Parents of monomials: their list, their hash table for kernels, and the choice of new ones.

The score of a slot's monomial m is (Agarwal et al. 2014, section 2.3) with "weight" |w|·s, the weight that it would
have if its scale were 1; with "ssm" Σ r²m² / Σ m², where r is the derivative of the loss (after Sanger, Sutton &
Matheus 1992). Neither depends on the scales of columns. With several scores per example, |w| and |r| are lengths of
vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.online.monomial_keys import column_key
from lineal.online.monomials import MAX_DEGREE, ParentArrays

Monomial = tuple[int, ...]


class Parents:
    """Monomials in the order in which they were chosen, each a sorted tuple of columns."""

    def __init__(self, monomials: Any = ()) -> None:
        self.monomials: list[Monomial] = [tuple(monomial) for monomial in monomials]
        self._build()

    def __len__(self) -> int:
        return len(self.monomials)

    def _build(self) -> None:
        count = len(self.monomials)
        degrees: np.ndarray = np.array([len(monomial) for monomial in self.monomials], np.int32).reshape(count)
        factors: np.ndarray = np.full((count, MAX_DEGREE), -1, np.int32)
        factor_keys: np.ndarray = np.zeros((count, MAX_DEGREE), np.uint64)
        size = 1 << max(3, (4 * count).bit_length())
        places, numbers = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
        with np.errstate(over="ignore"):
            for number, monomial in enumerate(self.monomials):
                factors[number, : len(monomial)] = monomial
                factor_keys[number, : len(monomial)] = [column_key(np.int32(column)) for column in monomial]
            keys = factor_keys.sum(axis=1, dtype=np.uint64)
        for number, key in enumerate(keys.tolist()):
            place = key & (size - 1)
            while numbers[place] >= 0:
                place = (place + 1) & (size - 1)
            places[place], numbers[place] = key, number
        has_degree = np.isin(np.arange(MAX_DEGREE + 2), degrees)
        self.arrays = ParentArrays(places, numbers, keys, degrees, factors, factor_keys, has_degree)

    def monomial_of(self, origin: int) -> Monomial:
        """First monomial of a slot (see `Expansion.origin`)."""
        parent, column = (origin >> 32) - 1, (origin & 0xFFFFFFFF) - 1
        return (column,) if parent < 0 else tuple(sorted((*self.monomials[parent], column)))

    def first_origins(self, origins: np.ndarray) -> np.ndarray:
        """The origins by which kernels name these monomials: every product comes from the first parent that makes it.

        The parents of some learners, put together, can make a product by an earlier parent than that learner did.
        """
        if not len(self):
            return origins
        made = origins >> 32 > 0
        parent, column = (origins[made] >> 32) - 1, (origins[made] & 0xFFFFFFFF) - 1
        different, places = np.unique(column, return_inverse=True)
        with np.errstate(over="ignore"):
            column_keys = np.array([column_key(np.int32(one)) for one in different], np.uint64)[places]
            first, factor = parent.copy(), column.copy()
            for f in range(MAX_DEGREE):
                other = self._numbers_of(self.arrays.keys[parent] - self.arrays.factor_keys[parent, f] + column_keys)
                is_earlier = (f < self.arrays.degrees[parent]) & (other >= 0) & (other < first)
                first[is_earlier], factor[is_earlier] = other[is_earlier], self.arrays.factors[parent, f][is_earlier]
        found = origins.copy()
        found[made] = (first + 1) << 32 | (factor + 1)
        return found

    def _numbers_of(self, keys: np.ndarray) -> np.ndarray:
        """Numbers of the parents with these keys; −1 where there is none."""
        order = np.argsort(self.arrays.keys, kind="stable")
        places = np.minimum(np.searchsorted(self.arrays.keys[order], keys), len(order) - 1)
        return np.where(self.arrays.keys[order][places] == keys, order[places], -1)

    def best(self, slots: np.ndarray, scores: np.ndarray, origin: np.ndarray, count: int) -> list[Monomial]:
        """The `count` monomials with the largest scores that are not parents yet; ties go to the lower slot."""
        known = set(self.monomials)
        chosen: list[Monomial] = []
        for slot in _descending(slots, scores, 4 * (count + len(known)) + 1):
            monomial = self.monomial_of(int(origin[slot]))
            if len(chosen) == count:
                break
            if monomial not in known and len(monomial) < MAX_DEGREE:
                known.add(monomial)
                chosen.append(monomial)
        return chosen

    def smallest(self, origin: np.ndarray, taken: list[Monomial]) -> list[Monomial]:
        """Monomial of the lowest degree that is neither parent nor taken: every monomial is chosen eventually."""
        known = {*self.monomials, *taken}
        parents = (origin >> 32) - 1
        found: list[Monomial] = []
        for degree in range(1, MAX_DEGREE):
            has_degree = np.append(self.arrays.degrees, 0)[parents] == degree - 1  # the last entry: no parent at all
            for slot in np.flatnonzero((origin != 0) & has_degree):
                monomial = self.monomial_of(int(origin[slot]))
                if monomial not in known:
                    found.append(monomial)
                    return found
        return found


def _descending(slots: np.ndarray, scores: np.ndarray, count: int) -> np.ndarray:
    """Slots with positive scores, the largest first; at least `count` of them, if there are so many."""
    kept = scores > 0.0
    if kept.sum() > count:
        kept &= scores >= np.partition(scores, len(scores) - count)[len(scores) - count]
    return slots[kept][np.argsort(-scores[kept], kind="stable")]
