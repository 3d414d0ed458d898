"""Learning with one score per example (two classes, or a number): predict, then update.

The table has four numbers per feature, (slots + 1, 4): weight, sum of squared derivatives, inverse scale and rate lie
side by side, so that a feature costs one cache line. Memory: 16 bytes per slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.simd import prefetch
from lineal.online.loss import update_of
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

#: Updates smaller than this do not shrink weights.
TINY = 1e-8

#: The scale of a feature is at least this, so that its inverse is finite.
SMALLEST = np.float32(1e-30)

#: A smaller contraction is multiplied into the weights: float32 could not hold the weights that it divides.
LEAST_CONTRACTION = 1e-9

#: For sums over scattered entries of a table. If they could be added in any order, the compiler would gather them into
#: vectors, which takes longer.
IN_ORDER = frozenset({"contract", "nsz"})


@kernel(forceinline=True)
def shrunk(w: float, gravity: float) -> float:
    """Weight shrunk towards zero by `gravity`."""
    return w - gravity if w > gravity else w + gravity if w < -gravity else 0.0


@kernel(forceinline=True, borrows=True, fastmath=IN_ORDER)
def score_one(table: Any, scratch: Any, count: int) -> float:
    """Score Σ w·x after penalties."""
    cells, slots, values, gravity = table.cells, scratch.slots, scratch.values, table.totals[GRAVITY]
    total = 0.0
    if gravity == 0.0:
        for p in range(U(count)):
            j = U(slots[p])
            total += wide(cells[j, W] * (values[p] * cells[j, INVERSE]))
    else:
        for p in range(U(count)):
            j = U(slots[p])
            total += shrunk(wide(cells[j, W]) * wide(cells[j, INVERSE]), gravity) * wide(values[p])
    return table.totals[CONTRACTION] * total


@kernel(borrows=True)
def shrink_earlier(slots: Any, values: Any, last: Any, growth: Any) -> None:
    """Convert the z of a feature that also came earlier in the row: its scale has grown at `last`."""
    for p in range(last):
        if slots[p] == slots[last]:
            values[p] /= growth


@kernel(borrows=True)
def settle(table: Any) -> None:
    """Apply the lazy penalties to every weight."""
    cells, totals = table.cells, table.totals
    for j in range(cells.shape[0]):
        inverse = wide(cells[j, INVERSE])
        if inverse > 0.0:
            w = shrunk(wide(cells[j, W]) * inverse, totals[GRAVITY])
            cells[j, W] = totals[CONTRACTION] * w / inverse
    totals[CONTRACTION], totals[GRAVITY] = 1.0, 0.0


@kernel(forceinline=True, borrows=True)
def touch_default(cells: Any, scratch: Any, own: int, count: int, square: Any, start: Any) -> Any:
    """Update G, s and the rates of an example's features, with the default settings; returns (Σ z²·r, Σ z²).

    The values in `scratch` become z. After the example's `own` features come products, whose G starts at `start`.
    """
    slots, values = scratch.slots, scratch.values
    q, norms = 0.0, 0.0
    one = np.float32(1.0)
    for p in range(U(count)):
        j = U(slots[p])
        z = values[p] * cells[j, INVERSE]
        if abs(z) > one or cells[j, INVERSE] == np.float32(0.0):
            cells[j, INVERSE] = one / max(abs(values[p]), SMALLEST)
            cells[j, G] /= max(z * z, one)
            if p < U(own) and abs(z) > one:
                shrink_earlier(slots, values, p, abs(z))
            if p >= U(own) and z == np.float32(0.0):
                cells[j, G] = max(cells[j, G], start)
            z = values[p] * cells[j, INVERSE]  # below ±1 only where the scale is `SMALLEST`
        values[p] = z
        z *= z
        total = min(cells[j, G] + square * z, LARGEST_SUM)
        cells[j, G] = total
        rate = one / math.sqrt(max(total, LEAST_SQUARE))  # z² of less than `SMALLEST` may be nothing
        cells[j, RATE] = rate
        q += wide(z * rate)
        norms += wide(z)
    return q, norms


@kernel(borrows=True)
def touch(cells: Any, scratch: Any, own: int, count: int, square: Any, start: Any, rule: Any) -> Any:
    """Update G, s and the rates of an example's features for any settings; returns (Σ z²·r, Σ z²)."""
    slots, values = scratch.slots, scratch.values
    q, norms = 0.0, 0.0
    power = 1.0 - 2.0 * rule.power_t if rule.adaptive else 1.0
    for p in range(U(count)):
        j = U(slots[p])
        x = wide(values[p])
        z = x * wide(cells[j, INVERSE])
        if not rule.normalised:
            cells[j, INVERSE] = np.float32(1.0)
            z = x
        elif abs(z) > 1.0 or cells[j, INVERSE] == np.float32(0.0):
            growth = max(abs(z), 1.0)
            if p >= U(own) and z == 0.0:
                cells[j, G] = max(cells[j, G], start)
            cells[j, INVERSE] = 1.0 / max(abs(x), wide(SMALLEST))
            cells[j, G] /= growth * growth
            cells[j, W] /= growth**power
            if p < U(own) and growth > 1.0:
                shrink_earlier(slots, values, p, np.float32(growth))
            z = x * wide(cells[j, INVERSE])
        values[p] = z
        rate = 1.0
        if rule.adaptive:
            total = min(wide(cells[j, G]) + square * z * z, wide(LARGEST_SUM))
            cells[j, G] = total
            rate = max(total, wide(LEAST_SQUARE)) ** -rule.power_t
        cells[j, RATE] = rate
        q += z * z * rate
        norms += z * z
    return q, norms


@kernel(forceinline=True)
def is_default(rule: Any) -> bool:
    """Whether `touch_default` can be used for this rule."""
    return rule.adaptive and rule.normalised and rule.power_t == 0.5


@kernel(forceinline=True, borrows=True)
def sensitivity(norms: float, h: float, totals: Any, rule: Any) -> float:
    """Sensitivity N after the sums have grown by this example."""
    if not rule.normalised:
        return 1.0
    totals[NORMS] += h * norms
    norm_power = rule.power_t - 1.0 if rule.adaptive else -1.0
    return (totals[NORMS] / totals[IMPORTANCE]) ** norm_power if totals[NORMS] > 0.0 else 1.0


@kernel(forceinline=True)
def learning_rate(h: float, totals: Any, rule: Any) -> float:
    """Time a: rate times importance. It decreases with the number of examples if features have no separate rates."""
    if rule.theorem:
        return h / (rule.l2 * (rule.initial_t + totals[SEEN] + h + 1.0))
    if rule.adaptive:
        return rule.rate * h
    return rule.rate * h * (rule.initial_t + totals[SEEN] + h) ** -rule.power_t


@kernel(forceinline=True, borrows=True)
def penalise(totals: Any, u: float, derivative: float, a: float, rule: Any) -> None:
    """Add the penalties of an update u to the lazy ones."""
    if rule.theorem:
        totals[CONTRACTION] *= 1.0 - a * rule.l2
    elif abs(u) > TINY and abs(derivative) > TINY:
        length = -u / derivative
        totals[CONTRACTION] *= max(1.0 - rule.l2 * length, 0.1)
        totals[GRAVITY] += rule.l1 * length


@kernel(forceinline=True)
def has_penalties(rule: Any) -> bool:
    """Whether updates shrink weights."""
    return rule.theorem or rule.l1 > 0.0 or rule.l2 > 0.0


@kernel(forceinline=True, borrows=True)
def learn_one(table: Any, scratch: Any, own: int, count: int, p: float, y: float, h: float, rule: Any) -> None:
    """Update after the prediction p; the first `own` features are those of the example, the others are products."""
    cells, totals = table.cells, table.totals
    derivative = rule.loss.derivative(y, p)
    a = learning_rate(h, totals, rule)
    totals[SEEN] += h
    if derivative == 0.0 and not rule.theorem:
        return
    totals[IMPORTANCE] += h
    square = np.float32(min(max(h * derivative * derivative, wide(LEAST_SQUARE)), wide(LARGEST_SUM)))
    start = np.float32(rule.caution) * cells[U(scratch.slots[count - 1]), G]
    if is_default(rule):
        q, norms = touch_default(cells, scratch, own, count, square, start)
    else:
        q, norms = touch(cells, scratch, own, count, square, start, rule)
    N = sensitivity(norms, h, totals, rule)
    u = update_of(rule.loss, y, p, derivative, a, N * q) if rule.invariant else -a * derivative
    if has_penalties(rule):
        penalise(totals, u, derivative, a, rule)
    if totals[CONTRACTION] < LEAST_CONTRACTION:
        settle(table)
    length = np.float32(N * u / totals[CONTRACTION])
    for i in range(U(count)):
        j = U(scratch.slots[i])
        cells[j, W] += length * scratch.values[i] * cells[j, RATE]


@kernel(forceinline=True, borrows=True)
def fetch_row(rows: Any, i: int, cells: Any, mask: Any, stride: Any) -> None:
    """Start to load the cells of row i, because those of a large table are not in the processor's caches."""
    for p in range(U(rows.starts[i]), U(rows.starts[i + 1])):
        prefetch(cells, U(rows.columns[p] & mask) * stride)


@kernel(forceinline=True, borrows=True)
def count_rows(rows: Any, first: int, last: int, counts: Any) -> None:
    """Count rows first … last − 1 as done, inside kernels, so that an interrupt comes after them."""
    counts[EXAMPLES] += last - first
    counts[PASS_EXAMPLES] += last - first
    counts[ENTRIES] += rows.starts[last] - rows.starts[first]


@kernel(forceinline=True, borrows=True)
def is_held_out(rows: Any, i: int, rule: Any) -> bool:
    """Whether row i is held out."""
    return rule.period > 0 and (rows.first + i) % rule.period == rule.period - 1


@kernel(borrows=True)
def learn_rows(rows: Any, first: int, last: int, table: Any, rule: Any, expansion: Any, scratch: Any,
               record: Any) -> None:  # fmt: skip
    """Predict and learn from rows first … last − 1, in order."""
    totals, sums = table.totals, record.sums
    for i in range(first, last):
        if i + 1 < last:
            fetch_row(rows, i + 1, table.cells, expansion.mask, U(4))
        count = example(rows, i, expansion, scratch)
        y, h = rows.labels[i], rows.importance[i]
        if not math.isnan(y):
            totals[LOWEST], totals[HIGHEST] = min(totals[LOWEST], y), max(totals[HIGHEST], y)
        p = score_one(table, scratch, count)
        if not math.isfinite(p):
            sums[LOSS] = math.nan  # the weights have outgrown float32
        p = min(max(p, totals[LOWEST]), totals[HIGHEST])
        record.predicted[i] = p
        if math.isnan(y) or h == 0.0:
            continue
        held = is_held_out(rows, i, rule)
        offset = HELD_LOSS if held else LOSS
        sums[offset] += h * rule.loss.value(y, p)
        sums[offset + 1] += h
        if not held:
            if expansion.evidence_kind != NO_EVIDENCE:
                note_evidence(expansion, scratch, count, rule.loss.derivative(y, p), h)
            learn_one(table, scratch, rows.starts[i + 1] - rows.starts[i], count, p, y, h, rule)
    count_rows(rows, first, last, record.counts)


@kernel(borrows=True)
def score_rows(rows: Any, first: int, last: int, table: Any, expansion: Any, scratch: Any, scores: Any) -> None:
    """Scores of rows first … last − 1, without learning."""
    for i in range(first, last):
        scores[i] = score_one(table, scratch, example(rows, i, expansion, scratch))
