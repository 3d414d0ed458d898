"""Predict, then update, example after example: one score (two classes, or a number).

The table is (slots + 1, 4): weight, sum of squared slopes, inverse scale and rate of a feature lie side by side, so
that a feature costs one cache line. Memory: 16 bytes a slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.simd import prefetch
from lineal.online.loss import invariant_step, loss_slope, loss_value
from lineal.online.monomials import NO_EVIDENCE, example, note_evidence
from lineal.online.state import (
    CONTRACTION,
    ENTRIES,
    EXAMPLES,
    GRAVITY,
    HELD_LOSS,
    HIGHEST,
    IMPORTANCE,
    INVERSE,
    LARGEST_SUM,
    LEAST_SQUARE,
    LOSS,
    LOWEST,
    NORMS,
    PASS_EXAMPLES,
    RATE,
    SEEN,
    G,
    W,
)

U = np.uintp

#: Steps smaller than this do not shrink weights.
TINY = 1e-8

#: The scale of a feature is at least this, so that its inverse is finite.
SMALLEST = np.float32(1e-30)

#: A smaller contraction is multiplied out: float32 could not hold the weights that it divides.
LEAST_CONTRACTION = 1e-9

#: For sums of what is looked up all over a table: added up in any order, they would be gathered in vectors, which takes
#: longer.
IN_ORDER = frozenset({"contract", "nsz"})


@kernel(forceinline=True)
def shrunk(w: float, gravity: float) -> float:
    """A weight, drawn to zero by `gravity`."""
    return w - gravity if w > gravity else w + gravity if w < -gravity else 0.0


@kernel(forceinline=True, borrows=True, fastmath=IN_ORDER)
def score_one(table: Any, slots: Any, values: Any, count: int, gravity: float) -> float:
    """Σ w·x, before contraction."""
    total = 0.0
    if gravity == 0.0:
        for p in range(U(count)):
            j = U(slots[p])
            total += wide(table[j, W] * (values[p] * table[j, INVERSE]))
    else:
        for p in range(U(count)):
            j = U(slots[p])
            total += shrunk(wide(table[j, W]) * wide(table[j, INVERSE]), gravity) * wide(values[p])
    return total


@kernel(borrows=True)
def shrink_earlier(slots: Any, values: Any, last: Any, growth: Any) -> None:
    """The scale of the feature at `last` has grown: where it came earlier in the row, its z in the new unit."""
    for p in range(last):
        if slots[p] == slots[last]:
            values[p] /= growth


@kernel(borrows=True)
def settle(table: Any, totals: Any) -> None:
    """Penalties multiplied out: every weight as it counts."""
    for j in range(table.shape[0]):
        inverse = wide(table[j, INVERSE])
        if inverse > 0.0:
            w = shrunk(wide(table[j, W]) * inverse, totals[GRAVITY])
            table[j, W] = totals[CONTRACTION] * w / inverse
    totals[CONTRACTION], totals[GRAVITY] = 1.0, 0.0


@kernel(forceinline=True, borrows=True)
def touch_default(table: Any, slots: Any, values: Any, own: int, count: int, square: Any, start: Any) -> Any:
    """G, s and rates of the features of an example, with the usual settings: (Σ z²·r, Σ z²). `values` become z.

    Behind the example's own features are products, whose G starts at `start`.
    """
    q, norms = 0.0, 0.0
    one = np.float32(1.0)
    for p in range(U(count)):
        j = U(slots[p])
        z = values[p] * table[j, INVERSE]
        if abs(z) > one or table[j, INVERSE] == np.float32(0.0):
            table[j, INVERSE] = one / max(abs(values[p]), SMALLEST)
            table[j, G] /= max(z * z, one)
            if p < U(own) and abs(z) > one:
                shrink_earlier(slots, values, p, abs(z))
            if p >= U(own) and z == np.float32(0.0):
                table[j, G] = max(table[j, G], start)
            z = values[p] * table[j, INVERSE]  # below ±1 only where the scale is `SMALLEST`
        values[p] = z
        z *= z
        total = min(table[j, G] + square * z, LARGEST_SUM)
        table[j, G] = total
        rate = one / math.sqrt(max(total, LEAST_SQUARE))  # z² of less than `SMALLEST` may be nothing
        table[j, RATE] = rate
        q += wide(z * rate)
        norms += wide(z)
    return q, norms


@kernel(borrows=True)
def touch(table: Any, slots: Any, values: Any, own: int, count: int, square: Any, start: Any, rule: Any) -> Any:
    """The same with any settings."""
    q, norms = 0.0, 0.0
    power = 1.0 - 2.0 * rule.power_t if rule.adaptive else 1.0
    for p in range(U(count)):
        j = U(slots[p])
        x = wide(values[p])
        z = x * wide(table[j, INVERSE])
        if not rule.normalised:
            table[j, INVERSE] = np.float32(1.0)
            z = x
        elif abs(z) > 1.0 or table[j, INVERSE] == np.float32(0.0):
            growth = max(abs(z), 1.0)
            if p >= U(own) and z == 0.0:
                table[j, G] = max(table[j, G], start)
            table[j, INVERSE] = 1.0 / max(abs(x), wide(SMALLEST))
            table[j, G] /= growth * growth
            table[j, W] /= growth**power
            if p < U(own) and growth > 1.0:
                shrink_earlier(slots, values, p, np.float32(growth))
            z = x * wide(table[j, INVERSE])
        values[p] = z
        rate = 1.0
        if rule.adaptive:
            total = min(wide(table[j, G]) + square * z * z, wide(LARGEST_SUM))
            table[j, G] = total
            rate = max(total, wide(LEAST_SQUARE)) ** -rule.power_t
        table[j, RATE] = rate
        q += z * z * rate
        norms += z * z
    return q, norms


@kernel(forceinline=True)
def is_default(rule: Any) -> bool:
    """Whether `touch_default` does it."""
    return rule.adaptive and rule.normalised and rule.power_t == 0.5


@kernel(forceinline=True, borrows=True)
def sensitivity(norms: float, h: float, totals: Any, rule: Any) -> float:
    """N, after its sums have grown by this example."""
    if not rule.normalised:
        return 1.0
    totals[NORMS] += h * norms
    norm_power = rule.power_t - 1.0 if rule.adaptive else -1.0
    return (totals[NORMS] / totals[IMPORTANCE]) ** norm_power if totals[NORMS] > 0.0 else 1.0


@kernel(forceinline=True)
def step_length(h: float, totals: Any, rule: Any) -> float:
    """a: rate times importance, falling with the examples so far where the rates of features do not."""
    if rule.theorem:
        return h / (rule.l2 * (rule.initial_t + totals[SEEN] + h + 1.0))
    if rule.adaptive:
        return rule.rate * h
    return rule.rate * h * (rule.initial_t + totals[SEEN] + h) ** -rule.power_t


@kernel(forceinline=True, borrows=True)
def learn_one(
    table: Any, scratch: Any, own: int, count: int, p: float, y: float, h: float, totals: Any, rule: Any
) -> None:
    """Update after the score p was given; `own` of the features are the example's own."""
    slope = loss_slope(rule.kind, p, y, rule.tau)
    a = step_length(h, totals, rule)
    totals[SEEN] += h
    if slope == 0.0 and not rule.theorem:
        return
    totals[IMPORTANCE] += h
    square = np.float32(min(max(h * slope * slope, wide(LEAST_SQUARE)), wide(LARGEST_SUM)))
    start = np.float32(rule.caution) * table[U(scratch.slots[count - 1]), G]
    if is_default(rule):
        q, norms = touch_default(table, scratch.slots, scratch.values, own, count, square, start)
    else:
        q, norms = touch(table, scratch.slots, scratch.values, own, count, square, start, rule)
    N = sensitivity(norms, h, totals, rule)
    if rule.invariant:
        u = invariant_step(rule.kind, p, y, rule.tau, a, N * q)
    else:
        u = -a * slope
    if rule.theorem:
        totals[CONTRACTION] *= 1.0 - a * rule.l2
    elif (rule.l1 > 0.0 or rule.l2 > 0.0) and abs(u) > TINY and abs(slope) > TINY:
        pull = -u / slope
        totals[CONTRACTION] *= max(1.0 - rule.l2 * pull, 0.1)
        totals[GRAVITY] += rule.l1 * pull
    if totals[CONTRACTION] < LEAST_CONTRACTION:
        settle(table, totals)
    length = np.float32(N * u / totals[CONTRACTION])
    for i in range(U(count)):
        j = U(scratch.slots[i])
        table[j, W] += length * scratch.values[i] * table[j, RATE]


@kernel(forceinline=True, borrows=True)
def fetch_row(columns: Any, start: Any, stop: Any, table: Any, mask: Any, stride: Any) -> None:
    """Begin to bring what the table has of a row: the rows of a large table come from far."""
    for p in range(U(start), U(stop)):
        prefetch(table, U(columns[p] & mask) * stride)


@kernel(forceinline=True, borrows=True)
def count_rows(rows: Any, first: int, last: int, counts: Any) -> None:
    """Rows from `first` to before `last` are done. Counted inside of kernels: an interrupt comes after them."""
    counts[EXAMPLES] += last - first
    counts[PASS_EXAMPLES] += last - first
    counts[ENTRIES] += rows.starts[last] - rows.starts[first]


@kernel(borrows=True)
def learn_rows(rows: Any, first: int, last: int, table: Any, totals: Any, rule: Any, expansion: Any, scratch: Any,
               scores: Any, sums: Any, counts: Any) -> None:  # fmt: skip
    """Rows from `first` to before `last`, in order. `scores` gets what was said of each before it was learned from."""
    for i in range(first, last):
        if i + 1 < last:
            fetch_row(rows.columns, rows.starts[i + 1], rows.starts[i + 2], table, expansion.mask, U(4))
        count = example(rows, i, expansion, scratch)
        y, h = rows.labels[i], rows.importance[i]
        if not math.isnan(y):
            totals[LOWEST], totals[HIGHEST] = min(totals[LOWEST], y), max(totals[HIGHEST], y)
        p = totals[CONTRACTION] * score_one(table, scratch.slots, scratch.values, count, totals[GRAVITY])
        if not math.isfinite(p):
            sums[LOSS] = math.nan  # the weights have outgrown float32
        p = min(max(p, totals[LOWEST]), totals[HIGHEST])
        scores[i] = p
        if math.isnan(y) or h == 0.0:
            continue
        held = rule.period > 0 and (rows.first + i) % rule.period == rule.period - 1
        offset = HELD_LOSS if held else LOSS
        sums[offset] += h * loss_value(rule.kind, p, y, rule.tau)
        sums[offset + 1] += h
        if not held:
            if expansion.evidence_kind != NO_EVIDENCE:
                note_evidence(expansion, scratch, count, loss_slope(rule.kind, p, y, rule.tau), h)
            learn_one(table, scratch, rows.starts[i + 1] - rows.starts[i], count, p, y, h, totals, rule)
    count_rows(rows, first, last, counts)


@kernel(borrows=True)
def score_rows(rows: Any, first: int, last: int, table: Any, totals: Any, expansion: Any, scratch: Any,
               scores: Any) -> None:  # fmt: skip
    """Scores alone."""
    for i in range(first, last):
        count = example(rows, i, expansion, scratch)
        scores[i] = totals[CONTRACTION] * score_one(table, scratch.slots, scratch.values, count, totals[GRAVITY])
