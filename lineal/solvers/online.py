"""Online learning: predict, then update, one example after the other, with hashed features and products of them.

See `parts/online_state` for the update (that of Vowpal Wabbit: adaptive, normalised, importance-invariant),
`parts/monomials` for products, `parts/parents` and Agarwal et al. (2014) for the ones that grow while learning.

Rows come in blocks; results do not depend on how a stream is cut into them. Memory: 16 bytes a slot for one score and
4·(2k + 1) bytes for k of them (k rounded up to 8), of 2^bits slots, beside one example after its expansion; adaptive
expansion adds 8 bytes a slot for the names of the monomials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lineal import interactions
from lineal.errors import DataError, OptionError
from lineal.online_options import OnlineOptions
from lineal.solvers.parts import monomials
from lineal.solvers.parts.monomials import Expansion, Scratch
from lineal.solvers.parts.online_lanes import LANES
from lineal.solvers.parts.online_loss import KINDS
from lineal.solvers.parts.online_many import learn_many_rows, score_many_rows
from lineal.solvers.parts.online_single import learn_rows, score_rows
from lineal.solvers.parts.online_state import (
    CONTRACTION,
    GRAVITY,
    HELD_LOSS,
    HELD_WEIGHT,
    HIGHEST,
    INVERSE,
    LIMITS,
    LOSS,
    LOWEST,
    WEIGHT,
    G,
    Many,
    Rows,
    Rule,
    W,
    fresh_totals,
)
from lineal.solvers.parts.parents import Parents

#: Monomials of one example at most: beyond, products are not the way.
MAX_MONOMIALS = 1 << 27

#: The first epoch of the doubling schedule, in examples.
FIRST_EPOCH = 1000

_KINDS = {
    None: monomials.NONE,
    "quadratic": monomials.QUADRATIC,
    "cubic": monomials.CUBIC,
    "adaptive": monomials.ADAPTIVE,
}


_PICKY = "picky expansion is for one score an example: two classes, or numbers"


class Learner:
    """The state of an online learner.

    Parameters
    ----------
    options : checked `OnlineOptions`.
    k : scores an example; 1 for two classes and for numbers.
    has_sets : whether an example can have several labels.
    is_number : whether labels are numbers rather than −1 and 1: scores stay within the labels seen.
    n_examples : how many there will be in all passes, for equal epochs; None where nobody knows.
    """

    def __init__(
        self,
        options: OnlineOptions,
        k: int = 1,
        has_sets: bool = False,
        n_examples: int | None = None,
        is_number: bool = False,
    ) -> None:
        self.options, self.k, self.has_sets, self.n_examples = options, k, has_sets, n_examples
        if options.picky and k > 1:
            raise OptionError(_PICKY)
        if options.schedule in ("equal", "halving") and n_examples is None:
            raise OptionError(
                f"schedule={options.schedule!r} needs to know how many examples there are: use 'doubling' for a stream"
            )
        if options.epochs != OnlineOptions.epochs and n_examples is None:
            raise OptionError(
                f"epochs={options.epochs} needs to know how many examples there are: on a stream of unknown length "
                "epochs double as long as it lasts"
            )
        self.slots = 1 << options.bits
        self.is_number = is_number
        self.limit = 0.0 if is_number else LIMITS[str(options.loss)]
        self.parents = Parents()
        self.examples = 0  # learned from or held out, in all passes
        self.pass_examples = 0
        self.passes = 0
        self.entries = 0
        self.epoch = 1
        self.history: list[dict[str, float]] = []
        self.sums: np.ndarray = np.zeros(4)
        self._reported: np.ndarray = np.zeros(4)
        self._next_report = 1
        self.period = 0
        is_adaptive = options.expansion == "adaptive"
        self.origin: np.ndarray = np.zeros(self.slots if is_adaptive else 0, np.int64)
        self.clashes: np.ndarray = np.zeros(2, np.int64)
        self.active: np.ndarray = np.zeros(self.slots if options.picky else 0, np.uint8)
        has_evidence = is_adaptive and (options.picky or options.heuristic == "ssm")
        self.evidence: np.ndarray = np.zeros((self.slots if has_evidence else 0, 2))
        self.pairs: np.ndarray = np.empty((0, 0), np.uint8)
        self.triples: np.ndarray = np.empty((0, 0, 0), np.uint8)
        if options.interactions is not None:
            self.pairs, self.triples = interactions.tables(interactions.parse(options.interactions))
        self._make_tables()
        self._expansion = self._make_expansion()
        self._scratch: Scratch | None = None

    # --- tables -----------------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns kept for k scores."""
        return -(-self.k // LANES) * LANES

    def _make_tables(self) -> None:
        if self.k == 1:
            self.table: np.ndarray = np.zeros((self.slots + 1, 4), np.float32)
            self.inverses: np.ndarray = np.empty(0, np.float32)
        else:
            self.table = np.zeros((self.slots + 1) * 2 * self.width, np.float32)
            self.inverses = np.zeros(self.slots + 1, np.float32)
        self.totals: np.ndarray = np.tile(fresh_totals(self.limit), (self.k, 1))

    def weights(self, slots: Any = slice(None)) -> np.ndarray:
        """(slots + 1, k) weights as they count, the last row the constant's; or those of some slots."""
        raw = self.table.reshape(self.slots + 1, -1)[slots, : self.k]  # they come first
        raw = raw * self.inverse_scales()[slots, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        if not gravity.any():
            return (raw * contraction).astype(np.float32)
        return (contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity, 0.0)).astype(np.float32)

    def scale_of_slots(self, slots: Any = slice(None)) -> np.ndarray:
        """The largest |value| seen of every slot, or of some."""
        inverses = self.inverse_scales()[slots]
        return np.divide(1.0, inverses, out=np.zeros_like(inverses), where=inverses > 0.0)

    def inverse_scales(self) -> np.ndarray:
        """One over them; zero where nothing was seen."""
        return self.table[:, INVERSE] if self.k == 1 else self.inverses

    def grow(self, k: int) -> None:
        """More columns. A learner for two classes goes on as two columns, one the negative of the other."""
        if k <= self.k:
            return
        if self.options.picky:
            raise OptionError(_PICKY)
        if self.k > 1 and k <= self.width:  # there is room: columns beyond the last are zero
            self.totals = np.concatenate([self.totals, np.tile(fresh_totals(self.limit), (k - self.k, 1))])
            self.k = k
            return
        old_k, old_width, old_table = self.k, self.width, self.table
        old_inverses, old_totals = self.inverses, self.totals
        self.k = k
        self._make_tables()
        rows = self.table.reshape(self.slots + 1, 2 * self.width)
        if old_k == 1:
            rows[:, 0], rows[:, 1] = -old_table[:, W], old_table[:, W]
            rows[:, self.width : self.width + 2] = old_table[:, [G]]
            self.inverses[:] = old_table[:, INVERSE]
            self.totals[:2] = old_totals[0]
        else:
            old = old_table.reshape(self.slots + 1, 2 * old_width)
            rows[:, :old_k] = old[:, :old_k]
            rows[:, self.width : self.width + old_k] = old[:, old_width : old_width + old_k]
            self.inverses[:] = old_inverses
            self.totals[:old_k] = old_totals
        self._scratch = None

    def restore(self, parents: Parents, tensors: dict[str, np.ndarray], width: int) -> None:
        """Take what was learned from arrays, as model files have them, of rows with so many columns.

        A ValueError where they do not fit: a file may be damaged.
        """
        slots, m = tensors["slots"], len(tensors["slots"])
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "weights": ((m, self.k), np.float32), "squares": ((m, self.k), np.float32), "scales": ((m,), np.float32),
            "totals": ((self.k, len(fresh_totals(0.0))), np.float64), "clashes": ((2,), np.int64),
            **({"origin": ((m,), np.int64)} if len(self.origin) else {}),
            **({"evidence": ((m, 2), np.float64)} if len(self.evidence) else {}),
        }  # fmt: skip
        for name, (shape, dtype) in shapes.items():
            if tensors[name].shape != shape or tensors[name].dtype != dtype or not np.isfinite(tensors[name]).all():
                raise ValueError(f"{name} do not fit")
        for name in ("squares", "scales"):
            if (tensors[name] < 0.0).any():
                raise ValueError(f"{name} are negative")
        for name, highest in (("slots", self.slots), *((("active", self.slots - 1),) if len(self.active) else ())):
            if not _are_ascending(tensors[name], highest):
                raise ValueError(f"{name} are not ascending numbers of weights")
        rows = self.table.reshape(self.slots + 1, -1)
        if self.k == 1:
            rows[slots, W], rows[slots, G], rows[slots, INVERSE] = (
                tensors["weights"][:, 0], tensors["squares"][:, 0], tensors["scales"],
            )  # fmt: skip
        else:
            rows[slots, : self.k] = tensors["weights"]
            rows[slots, self.width : self.width + self.k] = tensors["squares"]
            self.inverses[slots] = tensors["scales"]
        self.totals[:], self.clashes[:] = tensors["totals"], tensors["clashes"]
        self.parents = parents
        if len(self.origin):
            inside = slots < self.slots
            known = tensors["origin"][inside]
            column = (known & 0xFFFFFFFF) - 1
            is_named = (known > 0) & ((known >> 32) <= len(parents)) & (column >= 0) & (column < width)
            if not (is_named | (known == 0)).all():
                raise ValueError("origins name parents that there are not")
            self.origin[slots[inside]] = known
            if len(self.evidence):
                self.evidence[slots[inside]] = tensors["evidence"][inside]
        if len(self.active):
            self.active[tensors["active"]] = 1
        self._expansion = self._make_expansion()

    def turn(self) -> None:
        """The other sign for every score: the two classes change places."""
        self.table[:, W] *= -1.0
        low, high = self.totals[0, LOWEST], self.totals[0, HIGHEST]
        self.totals[0, LOWEST], self.totals[0, HIGHEST] = -high, -low

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rows: Rows, sets: np.ndarray | None = None, set_starts: np.ndarray | None = None) -> np.ndarray:
        """Learn from rows in order; for each what was said before: a score, or the number of the best column.

        With several columns, `sets` has the columns of the rows' labels, those of row i from set_starts[i] on.
        """
        rows = rows._replace(first=self.pass_examples)
        said: np.ndarray = np.empty(len(rows.labels), np.float64 if self.k == 1 else np.int32)
        rule = self._rule()
        self._make_room(rows)
        for first, last in self._pieces(len(rows.labels)):
            many = self._many(sets, set_starts)
            if self.k == 1:
                learn_rows(
                    rows, first, last, self.table, self.totals[0], rule, self._expansion, self._scratch, said, self.sums
                )
            else:
                learn_many_rows(
                    rows, first, last, self.table, self.inverses, many, rule, self._expansion, self._scratch, said,
                    self.sums,
                )  # fmt: skip
            self.examples += last - first
            self.pass_examples += last - first
            self.entries += int(rows.starts[last] - rows.starts[first])
            if self.examples == self._next_report:
                self.report()
            if self.examples == self._next_expansion():
                self._expand()
                self._make_room(rows)
        return said

    def count_features(self, rows: Rows) -> int:
        """Features of all rows after an adaptive expansion, without the constant."""
        clashes: np.ndarray = np.zeros(2, np.int64)
        self.scores(rows, clashes)
        return int(clashes[1])

    def scores(self, rows: Rows, clashes: np.ndarray | None = None) -> np.ndarray:
        """(n, k) scores; nothing is learned. `clashes`, if given, are counted as in `Expansion`."""
        n = len(rows.starts) - 1
        expansion = self._expansion._replace(
            clashes=np.zeros(2, np.int64) if clashes is None else clashes,
            origin=np.zeros(len(self.origin), np.int64),
            memo=self._memo(),  # several threads may ask at once
        )
        scratch = self._room(rows)
        if self.k == 1:
            single: np.ndarray = np.empty(n)
            score_rows(rows, 0, n, self.table, self.totals[0], expansion, scratch, single)
            if self.is_number:
                np.clip(single, self.totals[0, LOWEST], self.totals[0, HIGHEST], out=single)
            return single[:, None]
        scores: np.ndarray = np.empty((n, self.k))
        score_many_rows(rows, 0, n, self.table, self.inverses, self._many(None, None), expansion, scratch, scores)
        return scores

    def start_pass(self, period: int = 0) -> None:
        """The rows begin again; every so manieth is held out. Losses are those of one pass."""
        self.passes, self.pass_examples, self.period = self.passes + 1, 0, period
        self.sums, self._reported = np.zeros(4), np.zeros(4)
        self._next_report = self.examples + 1

    def report(self) -> None:
        """Note the progressive loss of this pass so far and since the last time."""
        since = self.sums - self._reported
        self.history.append({
            "pass": float(max(self.passes, 1)),
            "examples": float(self.pass_examples),
            "average_loss": _ratio(self.sums[LOSS], self.sums[WEIGHT]),
            "since_last": _ratio(since[LOSS], since[WEIGHT]),
            "held_out_loss": _ratio(self.sums[HELD_LOSS], self.sums[HELD_WEIGHT]),
            "parents": float(len(self.parents)),
        })  # fmt: skip
        self._reported = self.sums.copy()
        self._next_report = self.examples + max(1, self.pass_examples)

    def _rule(self) -> Rule:
        o = self.options
        return Rule(
            KINDS[str(o.loss)], float(o.tau), float(o.rate), float(o.power_t), float(o.initial_t), float(o.l1),
            float(o.l2), bool(o.adaptive), bool(o.normalised), bool(o.invariant), bool(o.theorem), int(self.period),
            float(o.caution) if o.expansion == "adaptive" else 0.0,
        )  # fmt: skip

    def _many(self, sets: np.ndarray | None, set_starts: np.ndarray | None) -> Many:
        def vector(dtype: Any = np.float32) -> np.ndarray:
            return np.zeros(self.width, dtype)

        nothing = np.zeros(1, np.int64)
        return Many(
            self.k, self.has_sets, self.totals, vector(), vector(np.float64), vector(np.float64), vector(), vector(),
            vector(np.float64), vector(), np.zeros(0, np.int32) if sets is None else sets,
            nothing if set_starts is None else set_starts,
        )  # fmt: skip

    def _pieces(self, n: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that end where something is to be done."""
        first = 0
        while first < n:
            stops = [self._next_report, self._next_expansion()]
            ahead = min([stop - self.examples for stop in stops if stop > self.examples] + [n - first])
            yield first, first + ahead
            first += ahead

    # --- expansion --------------------------------------------------------------------------------------------------

    def _next_expansion(self) -> int:
        """The example after which monomials are added next; 0 for never."""
        o = self.options
        if o.expansion != "adaptive":
            return 0
        if o.schedule == "doubling" or (o.schedule == "auto" and self.n_examples is None):
            return FIRST_EPOCH << (self.epoch - 1)
        if self.epoch >= o.epochs or self.n_examples is None:
            return 0
        if o.schedule == "equal":
            return max(self.epoch, self.n_examples * self.epoch // o.epochs)
        return max(self.epoch, self.n_examples >> (o.epochs - self.epoch))

    def _expand(self) -> None:
        o = self.options
        mean = self.entries / max(self.examples, 1)
        count = max(1, math.floor(mean**o.growth + 1e-9))
        if o.picky:
            self._admit(count)
        slots = np.flatnonzero(self.origin)
        chosen = self.parents.best(slots, self._parent_scores(slots), self.origin, count - 1 if o.fallback else count)
        if o.fallback:
            chosen += self.parents.smallest(self.origin, chosen)
        self.parents.add(chosen)
        self.epoch += 1
        self.evidence[:] = 0.0
        self._expansion = self._make_expansion()

    def _parent_scores(self, slots: np.ndarray) -> np.ndarray:
        """How much the monomials of some slots ask to be multiplied on."""
        if self.options.heuristic == "ssm" and not self.options.picky:
            sums, squares = self.evidence[slots].T
            return np.divide(sums, squares, out=np.zeros(len(slots)), where=squares > 0.0)
        return np.sqrt((self._scaled_weights(slots) ** 2).sum(axis=1))

    def _scaled_weights(self, slots: np.ndarray) -> np.ndarray:
        """(slots, k): weights as they would be if the largest |value| were 1."""
        raw = self.table.reshape(self.slots + 1, -1)[slots, : self.k].astype(np.float64)  # those come first
        scale = np.maximum(self.inverse_scales()[slots], np.finfo(np.float32).tiny)[:, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        return contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity / scale, 0.0)

    def _admit(self, count: int) -> None:
        """Let the best candidates count from now on."""
        gains, squares = self.evidence[:, 0], self.evidence[:, 1]
        score = np.divide(np.abs(gains), squares, out=np.zeros(self.slots), where=squares > 0.0)
        score[self.active > 0] = 0.0
        best = np.argsort(-score, kind="stable")[:count]
        self.active[best[score[best] > 0.0]] = 1

    def _make_expansion(self) -> Expansion:
        o = self.options
        evidence_kind = monomials.NO_EVIDENCE
        if len(self.evidence):
            evidence_kind = monomials.SQUARES if o.heuristic == "ssm" else monomials.PRODUCTS
        return Expansion(
            _KINDS[o.expansion], np.int32(self.slots - 1), np.int32(self.slots), self.pairs, self.triples,
            self.parents.arrays, self.origin, self.clashes, self.active, self.evidence, evidence_kind, self._memo(),
        )  # fmt: skip

    def _memo(self) -> np.ndarray:
        """Nothing known yet of children."""
        return np.zeros((monomials.MEMO if len(self.parents) else 0, 4), np.int32)

    def _make_room(self, rows: Rows) -> None:
        """Scratch arrays that hold the longest row after its expansion."""
        if self._scratch is None or len(self._scratch.slots) < self._capacity(rows)[1]:
            self._scratch = self._room(rows)

    def _capacity(self, rows: Rows) -> tuple[int, int]:
        """The longest row, and how many monomials it can have at most."""
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

    def _room(self, rows: Rows) -> Scratch:
        longest, count = self._capacity(rows)
        rates = count * self.width if self.k > 1 else 0
        waiting = max(longest, len(self.parents))
        return Scratch(
            np.empty(count, np.int32), np.empty(count, np.float32), np.empty(rates, np.float32),
            np.empty(longest, np.uint64), np.empty(waiting, np.int32), np.empty(waiting, np.float32),
            np.zeros(1, np.int64),
        )  # fmt: skip


def _are_ascending(numbers: np.ndarray, highest: int) -> bool:
    if numbers.dtype != np.int64 or numbers.ndim != 1:
        return False
    return len(numbers) == 0 or bool(numbers[0] >= 0 and numbers[-1] <= highest and (np.diff(numbers) > 0).all())


def _ratio(total: float, weight: float) -> float:
    return float(total / weight) if weight > 0.0 else math.nan
