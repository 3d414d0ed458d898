"""The average of what several learners have learned, from which all of them go on (Agarwal, Chapelle, Dudík & Langford
2014, "A reliable effective terascale linear learning system", section 3.1).

Learner m has a weight w_mj and a sum of squared derivatives G_mj for feature j. The average trusts a learner as far as
it has seen the feature:

    w_j = Σ_m G_mj·w_mj / Σ_m G_mj,    G_j = Σ_m G_mj² / Σ_m G_mj,    s_j = max_m s_mj

The average of G is that of a single learner, as in Vowpal Wabbit: the learners share the rows, so each of them has seen
one part of them, and its learning rates stay those of its part. A feature (or class, or product) that a learner has
never seen has G = 0 there and no vote. Without `adaptive` there is no G, and the weights of the learners that have seen
the feature count alike.

All of this is done for weights after penalties and in the units of the rows; the stored w·s and G/s² are converted to
the common scale s. Sums of importances and norms, of which the update rule needs ratios, are averaged by the learners'
importances. Counts and losses are added up, bounds of scores are united. So are classes, which a learner numbers by
itself, and the parents of adaptive products.

Memory: a learner's slots in use (24 bytes each for one score) for every learner, and `RANGE` numbers at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lineal.errors import DataError
from lineal.online.expansion import Products
from lineal.online.label_order import joined
from lineal.online.parents import Parents
from lineal.online.state import (
    CONTRACTION,
    GRAVITY,
    HIGHEST,
    IMPORTANCE,
    INVERSE,
    LARGEST_SUM,
    LOWEST,
    NORMS,
    SEEN,
    G,
    W,
)
from lineal.online.table import WeightTable, padded
from lineal.online.trainer import CLASSES, NUMBERS, Trainer, are_texts

#: Numbers of weights that are averaged at a time.
RANGE = 1 << 20


class Learned(NamedTuple):
    """Table of one learner, from the state of its trainer: slots in use, their rows and inverse scales, and totals.

    columns : for each of its scores that counts, (its number, a sign, the number of that score in the average).
    """

    k: int
    slots: np.ndarray
    rows: np.ndarray
    inverses: np.ndarray
    totals: np.ndarray
    columns: list[tuple[int, float, int]]

    def part(self, first: int, last: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of the slots from `first` to `last`: those in use, their weights and G (both for k scores), and 1/s."""
        begin, end = np.searchsorted(self.slots, [first, last])
        rows, inverses = self.rows[begin:end].astype(np.float64), self.inverses[begin:end].astype(np.float64)
        weights, squares = np.zeros((end - begin, k)), np.zeros((end - begin, k))
        scales = np.divide(1.0, inverses, out=np.zeros_like(inverses), where=inverses > 0.0)
        sums = G if self.k == 1 else padded(self.k)
        for own, sign, column in self.columns:
            totals, raw = self.totals[own], rows[:, own] * inverses
            left = np.maximum(np.abs(raw) - totals[GRAVITY], 0.0)
            weights[:, column] = sign * totals[CONTRACTION] * np.sign(raw) * left
            squares[:, column] = rows[:, sums + own] * scales**2
        return self.slots[begin:end] - first, weights, squares, inverses


def average(trainer: Trainer, states: Sequence[dict[str, Any]]) -> None:
    """Fill a new trainer with the average of the states (`Trainer.loop_state`) of others of the same kind."""
    labels = [np.array(state["labels"]["labels"], state["labels"]["dtype"]) for state in states]
    if trainer.kind == CLASSES and trainer.may_grow:
        trainer.classes = united(labels)
        trainer.learner.grow(len(trainer.classes) if len(trainer.classes) > 2 else 1)
    trainer.has_labels = any(state["has_labels"] for state in states)
    trainer.order = joined(
        [state["order"] for state in states],
        None if trainer.kind == NUMBERS else [places_of(own, trainer.classes) for own in labels],
    )
    own = [state["learner"] for state in states]
    tables = [
        _learned(state["table"], columns_of(classes, trainer.classes, state["table"]["k"], trainer.learner.k))
        for state, classes in zip(own, labels, strict=True)
    ]
    _average_weights(trainer.learner.table, tables)
    _average_totals(trainer.learner.table, tables)
    _unite_products(trainer.learner.products, [state["products"] for state in own])
    learner = trainer.learner
    learner.counts[:] = np.sum([state["counts"] for state in own], axis=0)
    learner.passes, learner.period = max(state["passes"] for state in own), max(state["period"] for state in own)
    learner.go_on_after(np.sum([state["sums"] for state in own], axis=0))


# --- classes


def united(labels: Sequence[np.ndarray]) -> np.ndarray:
    """The classes of all learners: two in ascending order, as a trainer has them; more in the order of the learners."""
    known = [own for own in labels if len(own)]
    if not known:
        return np.empty(0)
    if len({are_texts(own) for own in known}) > 1:
        raise DataError("some learners have met texts for labels and some have met numbers: use one of them")
    found = np.concatenate(known)
    _, firsts = np.unique(found, return_index=True)
    classes = found[np.sort(firsts)]
    return np.sort(classes) if len(classes) == 2 else classes


def places_of(own: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The numbers of the classes of a learner among all classes."""
    place = {label: number for number, label in enumerate(classes.tolist())}
    return np.array([place[label] for label in own.tolist()], np.int64)


def columns_of(own: np.ndarray, classes: np.ndarray, own_k: int, k: int) -> list[tuple[int, float, int]]:
    """Which scores of a learner with its own classes count, with which sign, and as which score of all classes."""
    if len(own) == len(classes) and own_k == k and bool(np.all(own == classes)):
        return [(column, 1.0, column) for column in range(k)]
    place = {label: number for number, label in enumerate(classes.tolist())}
    if own_k > 1:
        return [(column, 1.0, place[label]) for column, label in enumerate(own.tolist())]
    if not len(own):
        return []
    last = own[-1].item()
    if k == 1:
        return [(0, 1.0 if place[last] == len(classes) - 1 else -1.0, 0)]
    others = [(0, -1.0, place[label]) for label in own[:-1].tolist()]
    return [*others, (0, 1.0, place[last])]


# --- weights


def _learned(table: dict[str, Any], columns: list[tuple[int, float, int]]) -> Learned:
    used = table["used"]
    inverses = used["rows"][:, INVERSE] if table["k"] == 1 else used["inverses"]
    return Learned(table["k"], used["slots"], used["rows"], inverses, table["totals"], columns)


def _average_weights(table: WeightTable, learned: Sequence[Learned]) -> None:
    """Write the average of all weights, sums and scales to a new table."""
    rows, inverse_scales, k = table.rows, table.inverse_scales(), table.k
    sums = G if k == 1 else table.width
    for first, last in _ranges(table.slots + 1, max(1, RANGE // k)):
        weights, squares, inverses = _averaged(learned, first, last, k)
        rows[first:last, W : W + k] = weights
        rows[first:last, sums : sums + k] = squares
        inverse_scales[first:last] = inverses


def _averaged(learned: Sequence[Learned], first: int, last: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stored weights, sums and inverse scales of the slots from `first` to `last`."""
    gains, totals, squares, plain = np.zeros((4, last - first, k))
    voters, inverses = np.zeros((last - first, 1)), np.full(last - first, np.inf)
    for one in learned:
        at, w, g, inverse = one.part(first, last, k)
        gains[at] += g * w
        totals[at] += g
        squares[at] += g * g
        plain[at] += w
        voters[at, 0] += inverse > 0.0
        inverses[at] = np.minimum(inverses[at], np.where(inverse > 0.0, inverse, np.inf))
    is_seen = np.isfinite(inverses)[:, None]
    inverses[~is_seen[:, 0]] = 0.0
    weights = np.divide(plain, voters, out=np.zeros_like(plain), where=is_seen)
    np.divide(gains, totals, out=weights, where=totals > 0.0)
    means = np.divide(squares, totals, out=np.zeros_like(totals), where=totals > 0.0)
    stored = np.divide(weights, inverses[:, None], out=np.zeros_like(weights), where=is_seen)
    most = float(LARGEST_SUM)
    return np.clip(stored, -most, most), np.minimum(means * inverses[:, None] ** 2, most), inverses


def _average_totals(table: WeightTable, learned: Sequence[Learned]) -> None:
    """Write sums of importances and norms, and the bounds of the scores, to a new table."""
    common = table.totals[0]
    importance = np.array([one.totals[0, SEEN] for one in learned])
    if importance.sum() > 0.0:
        for entry in (IMPORTANCE, NORMS, SEEN):
            common[entry] = importance @ [one.totals[0, entry] for one in learned] / importance.sum()
    for one in learned:
        low, high = one.totals[0, LOWEST], one.totals[0, HIGHEST]
        for sign in {sign for _, sign, _ in one.columns}:
            common[LOWEST] = min(common[LOWEST], low if sign > 0.0 else -high)
            common[HIGHEST] = max(common[HIGHEST], high if sign > 0.0 else -low)


def _ranges(length: int, step: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + step, length)) for first in range(0, length, step))


# --- products


def _unite_products(products: Products, states: Sequence[dict[str, Any]]) -> None:
    """Write the names of monomials, and the parents of all learners, to a new object; no more parents are chosen."""
    for state in states:
        products.clashes += state["clashes"]
        products.cuts += state["cuts"]
    if products.options.expansion != "adaptive":
        return
    union = Parents(dict.fromkeys(monomial for state in states for monomial in map(tuple, state["monomials"])))
    numbers = {monomial: number for number, monomial in enumerate(union.monomials)}
    for state in states:
        slots, origin = state["named"]["slots"], state["named"]["origin"]
        new = np.array([0, *(numbers[tuple(monomial)] + 1 for monomial in state["monomials"])], np.int64)
        is_free = products.origin[slots] == 0
        named = new[origin >> 32] << 32 | (origin & 0xFFFFFFFF)
        products.origin[slots[is_free]] = named[is_free]
        products.active[state["named"]["active"]] = 1
    used = np.flatnonzero(products.origin)
    products.origin[used] = union.first_origins(products.origin[used])
    products.epoch = max(state["epoch"] for state in states)
    products.parents, products.is_final = union, True
