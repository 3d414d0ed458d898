"""Products of features in an online learner: fixed ones, and adaptive ones that grow during learning.

Agarwal et al. (2014), algorithm 1: after every epoch the monomials with the largest scores become parents, and from
then on each feature of an example is multiplied with each of its parents. Memory of the latter: 8 bytes per slot for
the names of the monomials, 24 more where evidence is kept, and up to 16 MB that remember the slots of products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.errors import DataError, OptionError
from lineal.online import interactions, monomials
from lineal.online.monomials import Expansion, Scratch
from lineal.online.options import OnlineOptions
from lineal.online.parents import Parents
from lineal.online.state import Rows
from lineal.online.table import WeightTable, check
from lineal.problem.loop_state import LoopState, put

#: An example with more monomials than this is refused.
MAX_MONOMIALS = 1 << 27

#: The first epoch of the doubling schedule, in examples.
FIRST_EPOCH = 1000

_KINDS = {
    None: monomials.NONE,
    "quadratic": monomials.QUADRATIC,
    "cubic": monomials.CUBIC,
    "adaptive": monomials.ADAPTIVE,
}


class Products(LoopState):
    """Products by which the rows of a learner are expanded.

    Parameters
    ----------
    options : checked `OnlineOptions`.
    n_examples : examples of all passes together, for equal epochs; None if the number is not known.

    Attributes
    ----------
    is_final : whether no more parents are chosen, as after several learners have put theirs together.
    """

    state_names = ("epoch", "is_final", "clashes", "cuts", "monomials", "named")

    def __init__(self, options: OnlineOptions, n_examples: int | None) -> None:
        if options.schedule in ("equal", "halving") and n_examples is None:
            raise OptionError(
                f"schedule={options.schedule!r} needs to know the number of examples: use 'doubling' for a stream"
            )
        if options.epochs != OnlineOptions.epochs and n_examples is None:
            raise OptionError(
                f"epochs={options.epochs} needs to know the number of examples: on a stream of unknown length, each "
                "epoch is twice as long as the one before"
            )
        self.options, self.n_examples, self.slots = options, n_examples, 1 << options.bits
        is_adaptive = options.expansion == "adaptive"
        has_evidence = is_adaptive and (options.picky or options.heuristic == "ssm")
        self.epoch = 1
        self.is_final = False
        self.origin: np.ndarray = np.zeros(self.slots if is_adaptive else 0, np.int64)
        self.clashes: np.ndarray = np.zeros(2, np.int64)
        self.cuts: np.ndarray = np.zeros(1, np.int64)
        self.active: np.ndarray = np.zeros(self.slots if options.picky else 0, np.uint8)
        self.evidence: np.ndarray = np.zeros((self.slots if has_evidence else 0, 3))
        self.pairs: np.ndarray = np.empty((0, 0), np.uint8)
        self.triples: np.ndarray = np.empty((0, 0, 0), np.uint8)
        if options.interactions is not None:
            self.pairs, self.triples = interactions.tables(interactions.parse(options.interactions))
        self.parents = Parents()

    @property
    def parents(self) -> Parents:
        """Monomials by which features are multiplied."""
        return self._parents

    @parents.setter
    def parents(self, parents: Parents) -> None:
        self.arrays, self._parents = self._arrays(parents), parents

    def _arrays(self, parents: Parents) -> Expansion:
        evidence_kind = monomials.NO_EVIDENCE
        if len(self.evidence):
            evidence_kind = monomials.SQUARES if self.options.heuristic == "ssm" else monomials.PRODUCTS
        return Expansion(
            _KINDS[self.options.expansion], np.int32(self.slots - 1), np.int32(self.slots), self.pairs, self.triples,
            parents.arrays, self.cuts, self.origin, self.clashes, self.active, self.evidence, evidence_kind,
            _memo(parents),
        )  # fmt: skip

    def for_scores(self, clashes: np.ndarray | None = None) -> Expansion:
        """The expansion with counters of its own, so that several threads can score at once."""
        return self.arrays._replace(
            clashes=np.zeros(2, np.int64) if clashes is None else clashes, cuts=np.zeros(1, np.int64),
            origin=np.zeros(len(self.origin), np.int64), memo=_memo(self.parents),
        )  # fmt: skip

    # --- checkpoints

    @property
    def monomials(self) -> list[tuple[int, ...]]:
        """The parents as tuples of columns."""
        return self.parents.monomials

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Everything about the slots whose monomials have names."""
        slots = np.flatnonzero(self.origin)
        found = {"slots": slots, "origin": self.origin[slots], "active": np.flatnonzero(self.active)}
        return found if not len(self.evidence) else {**found, "evidence": self.evidence[slots]}

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; kernels refer to the arrays."""
        if name in ("clashes", "cuts"):
            put(getattr(self, name), value)
        elif name == "monomials":
            self.parents = Parents(value)
        elif name == "named":
            self.origin[value["slots"]] = value["origin"]
            self.active[value["active"]] = 1
            if len(self.evidence):
                self.evidence[value["slots"]] = value["evidence"]
        else:
            super().restore_part(name, value)

    # --- growing

    def next_growth(self) -> int:
        """Number of examples after which monomials are added next; 0 if never."""
        o = self.options
        if o.expansion != "adaptive" or self.is_final:
            return 0
        if o.schedule == "doubling" or (o.schedule == "auto" and self.n_examples is None):
            return FIRST_EPOCH << (self.epoch - 1)
        if self.epoch >= o.epochs or self.n_examples is None:
            return 0
        if o.schedule == "equal":
            return max(self.epoch, self.n_examples * self.epoch // o.epochs)
        return max(self.epoch, self.n_examples >> (o.epochs - self.epoch))

    def grow(self, table: WeightTable, mean: float) -> None:
        """Choose new parents; `mean` is the average number of an example's own features."""
        o = self.options
        count = max(1, math.floor(mean**o.growth + 1e-9))
        admitted = self._best_candidates(count) if o.picky else np.zeros(0, np.intp)
        slots = np.flatnonzero(self._is_counted())
        chosen = self.parents.best(
            slots, self._parent_scores(table, slots), self.origin, count - 1 if o.fallback else count
        )
        if o.fallback:
            chosen += self.parents.smallest(self.origin, chosen)
        grown = Parents([*self.parents.monomials, *chosen])
        self.active[admitted] = 1  # from here on nothing takes long: an interrupt comes before, and all is done again
        self.parents = grown
        self.epoch += 1
        self.evidence[:] = 0.0

    def _is_counted(self) -> np.ndarray:
        """Whether the monomial of each slot is part of the scores; all are, except candidates of picky expansion."""
        is_known = self.origin != 0
        return is_known & ((self.active > 0) | ((self.origin >> 32) == 0)) if self.options.picky else is_known

    def _parent_scores(self, table: WeightTable, slots: np.ndarray) -> np.ndarray:
        """The score of each slot's monomial as a parent. It does not depend on the scales of columns."""
        if self.options.heuristic == "ssm":
            return self._evidence_scores(slots)
        return np.sqrt((table.scaled_weights(slots) ** 2).sum(axis=1))

    def _evidence_scores(self, slots: np.ndarray) -> np.ndarray:
        """Scores by evidence: Σ r²m² / Σ m² with SSM, else |Σ r·m| / Σ m² · max |m|, a weight times its scale."""
        gains, squares, scales = self.evidence[slots].T
        if self.options.heuristic == "weight":
            gains = np.abs(gains) * scales
        return np.divide(gains, squares, out=np.zeros(len(slots)), where=squares > 0.0)

    def _best_candidates(self, count: int) -> np.ndarray:
        """Slots of the candidates with the largest scores, which are part of the scores from now on."""
        slots = np.flatnonzero((self.origin != 0) & ~self._is_counted())
        scores = self._evidence_scores(slots)
        best = np.argsort(-scores, kind="stable")[:count]
        return slots[best[scores[best] > 0.0]]

    # --- room for one example

    def room(self, rows: Rows, width: int) -> Scratch:
        """Scratch arrays that hold the longest row after its expansion, with rates for `width` columns."""
        count, rates, longest, waiting = self._lengths(rows, width)
        return Scratch(
            np.empty(count, np.int32), np.empty(count, np.float32), np.empty(rates, np.float32),
            np.empty(longest, np.uint64), np.empty(waiting, np.int32), np.empty(waiting, np.float32),
            np.zeros(1, np.int64),
        )  # fmt: skip

    def has_room(self, scratch: Scratch, rows: Rows, width: int) -> bool:
        """Whether all of these arrays are as long as those of `room`."""
        given = (scratch.slots, scratch.rates, scratch.entry_keys, scratch.waiting)
        return all(len(array) >= length for array, length in zip(given, self._lengths(rows, width)))

    def _lengths(self, rows: Rows, width: int) -> tuple[int, int, int, int]:
        """Lengths of the scratch arrays: of monomials, rates, keys of a row's entries, and parents in it."""
        longest, count = self._size(rows)
        return count, count * width, longest, max(longest, len(self.parents))

    def _size(self, rows: Rows) -> tuple[int, int]:
        """Length of the longest row, and the most monomials that it can have."""
        longest = int(np.diff(rows.starts).max(initial=0))
        expansion = self.options.expansion
        count = longest
        if expansion in ("quadratic", "cubic"):
            count += longest * (longest + 1) // 2
        if expansion == "cubic":
            count += longest * (longest + 1) * (longest + 2) // 6
        if expansion == "adaptive":
            count += longest * len(self.parents)
        if count > MAX_MONOMIALS:
            raise DataError(
                f"a row with {longest} features has {count} monomials with expansion={expansion!r}: use "
                "expansion='adaptive', or fewer interactions"
            )
        return longest, count + 1

    # --- files

    def tensors(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Names and evidence of the monomials in some slots (the constant's among them)."""
        inside = np.minimum(slots, self.slots - 1)
        found = {"clashes": self.clashes}
        if len(self.origin):
            found["origin"] = self.origin[inside]
        if len(self.evidence):
            found["evidence"] = self.evidence[inside]
        if len(self.active):
            found["active"] = np.flatnonzero(self.active).astype(np.int64)
        return found

    def restore_tensors(self, parents: Parents, slots: np.ndarray, tensors: dict[str, np.ndarray], width: int) -> None:
        """Inverse of `tensors`, for rows of `width` columns; raises a ValueError if they do not fit."""
        m, inside = len(slots), slots < self.slots
        check("clashes", tensors["clashes"], (2,), np.int64)
        self.clashes[:] = tensors["clashes"]
        if len(self.origin):
            check("origin", tensors["origin"], (m,), np.int64)
            known = tensors["origin"][inside]
            column = (known & 0xFFFFFFFF) - 1
            is_named = (known > 0) & ((known >> 32) <= len(parents)) & (column >= 0) & (column < width)
            if not (is_named | (known == 0)).all():
                raise ValueError("origins name parents that do not exist")
            self.origin[slots[inside]] = known
        if len(self.evidence):
            check("evidence", tensors["evidence"], (m, 3), np.float64)
            self.evidence[slots[inside]] = tensors["evidence"][inside]
        if len(self.active):
            check_slots("active", tensors["active"], self.slots - 1)
            self.active[tensors["active"]] = 1
        self.parents = parents


def _memo(parents: Parents) -> np.ndarray:
    """An empty memo of products."""
    return np.zeros((monomials.MEMO if len(parents) else 0, 4), np.int32)


def check_slots(name: str, numbers: np.ndarray, highest: int) -> None:
    """Raise a ValueError unless these are ascending slot numbers."""
    is_list = numbers.dtype == np.int64 and numbers.ndim == 1
    if is_list and len(numbers):
        is_list = bool(numbers[0] >= 0 and numbers[-1] <= highest and (np.diff(numbers) > 0).all())
    if not is_list:
        raise ValueError(f"{name} are not ascending numbers of weights")
